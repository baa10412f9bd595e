"""Several games side by side on one device: padded row matrices, and the arrays of each coalition.

All arrays have the game as first axis, so that one batched product serves all games. Features are
those of `problem.Problem.shared` (standardised once, on the grand coalition) with a column of ones for
the intercept. In these units a coalition with mean m_j and deviation s_j minimises

    F(W, b) = mu/2 sum_kj s_j^2 W_kj^2 + C sum_i w_i loss_i(W x_i + b),

mu = 1, or 2 where exactly two classes are present: the binary model is the symmetric two-class
softmax with the double penalty. A feature that is constant in the coalition has W_kj = 0.

Arrays are NumPy's, or torch's on a CPU or GPU: what is done with them is written once, in the functions
both have (the array API standard).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import ParameterError
from datamarket_gym.execution.arrays import CoalitionMatrix
from datamarket_gym.utilities.accelerators import array_namespace, is_torch_array
from datamarket_gym.utilities.logistic.problem import CANCELLATION, EPS, Problem, nearly_constant

Array = Any
"""An array of NumPy or torch."""

_ALIGN_FROM = 100  # features from which rows are padded to a multiple of 64 bytes
_BLOCK = 48  # rows that players are merged up to, so that matrix products are worth it


@dataclass(frozen=True)
class Stack:
    """The rows of G games, padded to common numbers of rows n, validation rows v and players K."""

    x: Array  # (G, n, d + 1), last column one; zero in padding
    hot: Array  # (G, C, n): one where the row has the class
    label: Array  # (G, n) int64
    weight: Array  # (G, n), C times the weight; zero in padding
    squares: Array  # (G, n, 2d + 1): x^2, x, 1
    val: Array  # (G, v, d + 1)
    val_label: Array  # (G, v); -2 in padding
    val_squares: Array  # (G, v, 2d + 1)
    player: Array  # (G, n) int64
    mass: Array  # (G, K, 1)
    moments: Array  # (G, K, 2d): sums of x, sums of x^2
    lowest: Array  # (G, K, d): smallest value of each feature as given
    highest: Array  # (G, K, d)
    classes: Array  # (G, K, C)
    scale: Array  # (G, 1, d): the grand coalition's deviation in the units given
    centre: Array  # (G, 1, d)
    blocks: Sequence[Sequence[slice]]  # of each game: rows that lie together in coalitions
    problems: Sequence[Problem]
    C: float

    @property
    def n_classes(self) -> int:
        """Number of classes, absent ones included."""
        return int(self.hot.shape[1])

    @property
    def width(self) -> int:
        return int(self.x.shape[2])


@dataclass
class Slots:
    """Coalitions under way, B places a game; places without a coalition have ``origin`` -1."""

    origin: Array  # (G, B) int64: row of the game's coalition matrix
    rows: Array  # (G, B, n) uint8: the coalition's rows
    bits: Array  # (G, B, ceil(n / 64)) int64: the same, one bit a row
    present: Array  # (G, B, C) bool
    absent: Array  # (G, B, C): zero, minus infinity for absent classes
    penalty: Array  # (G, B, d + 1): mu s_j^2, one where constant, zero for the intercept
    mean: Array  # (G, B, d)
    inverse: Array  # (G, B, d): 1 / s_j, zero where constant
    live: Array  # (G, B, C, d + 1) uint8: parameters that are free
    mu: Array  # (G, B)
    mass: Array  # (G, B), times C

    def take(self, index: Array) -> Slots:
        return Slots(**{f.name: gather(getattr(self, f.name), index) for f in fields(self)})


def cast(record: Any, kind: Any) -> Any:
    """A record with its floating arrays in another precision."""
    changed = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if hasattr(value, "dtype"):
            xp = array_namespace(value)
            if xp.isdtype(value.dtype, "real floating"):
                changed[field.name] = xp.astype(value, kind, copy=False)
    return replace(record, **changed)


def gather(array: Array, index: Array) -> Array:
    """The places ``index`` of an array (G, B, ...), counted through all games."""
    return array.reshape(-1, *array.shape[2:])[index]


def stack(problems: Sequence[Problem], C: float, like: Array) -> Stack:
    """Pad the problems to common sizes, in arrays of the kind and device of ``like``."""
    classes, given = problems[0].n_classes, problems[0].shared.shape[1]
    for problem in problems:
        if (problem.n_classes, problem.shared.shape[1]) != (classes, given):
            raise ParameterError(
                "problems",
                (problem.n_classes, problem.shared.shape[1]),
                f"stack games with one number of classes and features, as the first: {(classes, given)}",
            )
    # Matrix products want aligned rows; a feature that is always zero changes nothing.
    d = given if given < _ALIGN_FROM else given + -(given + 1) % 8
    n = max(len(p.label) for p in problems)
    v = max(len(p.validation_label) for p in problems)
    games, k = len(problems), max(p.n_players for p in problems)
    made = {
        "x": np.zeros((games, n, d + 1)),
        "hot": np.zeros((games, classes, n)),
        "label": np.zeros((games, n), dtype=np.int64),
        "weight": np.zeros((games, n)),
        "player": np.zeros((games, n), dtype=np.int64),
        "val": np.zeros((games, v, d + 1)),
        # Padding is told apart by its label, -2; -1 is a class that no training row has.
        "val_label": np.full((games, v), -2, dtype=np.int64),
        "mass": np.zeros((games, k, 1)),
        "moments": np.zeros((games, k, 2 * d)),
        "lowest": np.zeros((games, k, d)),
        "highest": np.zeros((games, k, d)),
        "classes": np.zeros((games, k, classes)),
        "scale": np.ones((games, 1, d)),
        "centre": np.zeros((games, 1, d)),
    }
    for g, p in enumerate(problems):
        rows, val = len(p.label), len(p.validation_label)
        made["x"][g, :rows, :given], made["x"][g, :rows, d] = p.shared, 1.0
        made["label"][g, :rows], made["player"][g, :rows] = p.label, p.player
        made["hot"][g, p.label, np.arange(rows)] = 1.0
        made["weight"][g, :rows] = C * p.weight
        made["val"][g, :val, :given], made["val"][g, :val, d] = p.shared_validation, 1.0
        made["val_label"][g, :val] = np.maximum(p.validation_label, -1)
        made["mass"][g, : p.n_players, 0] = p.mass
        made["moments"][g, : p.n_players, :given] = p.moment1
        made["moments"][g, : p.n_players, d : d + given] = p.moment2
        made["lowest"][g, : p.n_players, :given] = p.lowest
        made["highest"][g, : p.n_players, :given] = p.highest
        made["scale"][g, 0, :given], made["centre"][g, 0, :given] = p.spread, p.centre
        made["classes"][g, : p.n_players] = p.classes
    made |= {"squares": _squares(made["x"]), "val_squares": _squares(made["val"])}
    on = {name: moved(array, like) for name, array in made.items()}
    return Stack(**on, blocks=[_blocks(p) for p in problems], problems=problems, C=C)


def moved(array: NDArray[Any], like: Array) -> Array:
    """A NumPy array as one of the kind and device of ``like``."""
    return array_namespace(like).asarray(array, device=like.device)


def host(array: Array) -> NDArray[Any]:
    return array.cpu().numpy() if is_torch_array(array) else np.asarray(array)


def _squares(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate([x[..., :-1] ** 2, x], axis=2)


def _blocks(problem: Problem) -> list[slice]:
    """Rows of runs of players with at least `_BLOCK` rows together."""
    out, first = [], 0
    for stop in problem.start[1:].tolist():
        if stop - first >= _BLOCK:
            out.append(slice(first, stop))
            first = stop
    rows = len(problem.label)
    return out + [slice(first, rows)] * (first < rows)


def slots(stack: Stack, coalitions: Sequence[CoalitionMatrix]) -> tuple[Slots, Array]:
    """Lay out coalitions; the mask (G, B) says which need more care than sums over players take."""
    xp, games = array_namespace(stack.x), len(coalitions)
    size = max(len(c) for c in coalitions)
    member = np.zeros((games, size, stack.classes.shape[1]), dtype=np.uint8)
    place = np.full((games, size), -1, dtype=np.int64)
    for g, c in enumerate(coalitions):
        member[g, : len(c), : c.shape[1]], place[g, : len(c)] = c, np.arange(len(c))
    inside, origin = moved(member, stack.x), moved(place, stack.x)
    used = origin >= 0
    weighty = xp.astype(stack.weight > 0, xp.uint8)
    rows = xp.stack([inside[g][:, stack.player[g]] * weighty[g] for g in range(games)])
    share = xp.astype(inside, xp.float64)
    mass = xp.where(used, (share @ stack.mass)[..., 0], 1.0)
    moments = share @ stack.moments / mass[..., None]
    d = stack.width - 1
    mean, square = moments[..., :d], moments[..., d:]
    variance = xp.clip(square - mean**2, min=0.0)
    blurred = variance <= xp.clip(CANCELLATION * square, min=EPS * CANCELLATION)
    blurred |= nearly_constant(
        variance * stack.scale**2, stack.centre + stack.scale * mean, 4 * mass[..., None]
    )
    constant = _constant(stack, inside, blurred & used[..., None])
    careful = xp.any(blurred & ~constant, axis=2) & used
    present = ((share @ stack.classes) > 0) | ~used[..., None]
    mu = xp.where(xp.sum(xp.astype(present, xp.int64), axis=2) == 2, 2.0 + 0 * mass, 1.0)
    fixed = constant | blurred
    variance = xp.where(fixed, 1.0, variance)
    intercept = xp.zeros_like(mass)[..., None]
    free = xp.concat([~fixed, intercept == 0], axis=2)
    return (
        Slots(
            origin=origin,
            rows=rows,
            bits=_bits(rows),
            present=present,
            absent=xp.where(present, 0.0, -xp.inf + 0 * mass[..., None]),
            penalty=xp.concat([mu[..., None] * variance, intercept], axis=2),
            mean=mean,
            inverse=xp.where(fixed, 0.0, variance**-0.5),
            live=xp.astype(present[..., None] & free[:, :, None], xp.uint8),
            mu=mu,
            mass=stack.C * mass,
        ),
        careful,
    )


def _bits(rows: Array) -> Array:
    xp = array_namespace(rows)
    games, size, n = rows.shape
    padding = xp.zeros((games, size, -n % 64), dtype=xp.uint8, device=rows.device)
    padded = xp.reshape(xp.concat([rows, padding], axis=2), (games, size, -1, 8))
    weight = xp.asarray([1 << i for i in range(8)], dtype=xp.uint8, device=rows.device)
    # Flat, since only then eight bytes lie side by side whatever the rows' strides are. Bytes 0 to 7 of a word are
    # its bits 0 to 63 on every machine torch runs on (little-endian).
    octets = xp.reshape(xp.sum(padded * weight, axis=3, dtype=xp.uint8), (-1,))
    return xp.reshape(octets.view(xp.int64), (games, size, -1))


def _constant(stack: Stack, inside: Array, suspect: Array) -> Array:
    """Which suspect features take one value only in the coalition, from its players' extremes."""
    xp = array_namespace(suspect)
    constant = xp.zeros_like(suspect)
    game, place, feature = xp.nonzero(suspect)
    step = max(1, (1 << 26) // inside.shape[2])
    for start in range(0, game.shape[0], step):
        g, b, j = (part[start : start + step] for part in (game, place, feature))
        mine = inside[g, b] > 0  # (suspects, K)
        low = xp.min(xp.where(mine, stack.lowest[g, :, j], xp.inf), axis=1)
        constant[g, b, j] = low == xp.max(xp.where(mine, stack.highest[g, :, j], -xp.inf), axis=1)
    return constant
