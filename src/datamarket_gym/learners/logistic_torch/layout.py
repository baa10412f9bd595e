"""Several games side by side on one device: padded row matrices, and what each coalition needs.

All arrays have the game as first axis, so that one batched product serves all games. Features are
those of `logistic.problem.Problem.shared` (standardised once, on the grand coalition) with a column
of ones for the intercept. In these units a coalition with mean m_j and deviation s_j minimises

    F(W, b) = mu/2 sum_kj s_j^2 W_kj^2 + C sum_i w_i loss_i(W x_i + b),

mu = 1, or 2 where exactly two classes are present: the binary model is the symmetric two-class
softmax with the double penalty. A feature that is constant in the coalition has W_kj = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch

from datamarket_gym.core.arrays import CoalitionMatrix
from datamarket_gym.core.errors import ParameterError
from datamarket_gym.learners.logistic.problem import Problem

_ALIGN_FROM = 100  # features from which rows are padded to a multiple of 64 bytes
_CANCELLATION = 1e-7  # var / mean square below which sums over players lose too many digits


@dataclass(frozen=True)
class Stack:
    """The rows of G games, padded to common numbers of rows n, validation rows v and players K."""

    x: torch.Tensor  # (G, n, d + 1), last column one; zero in padding
    label: torch.Tensor  # (G, n) int64
    weight: torch.Tensor  # (G, n), C times the weight; zero in padding
    player: torch.Tensor  # (G, n) int64
    squares: torch.Tensor  # (G, n, 2d + 1): x^2, x, 1
    val: torch.Tensor  # (G, v, d + 1)
    val_label: torch.Tensor  # (G, v); -2 in padding
    val_squares: torch.Tensor  # (G, v, 2d + 1)
    mass: torch.Tensor  # (G, K, 1)
    moments: torch.Tensor  # (G, K, 2d): sums of x, sums of x^2
    classes: torch.Tensor  # (G, K, C)
    scale: torch.Tensor  # (G, d): the grand coalition's deviation in the units given
    centre: torch.Tensor  # (G, d)
    problems: Sequence[Problem]
    C: float

    @property
    def n_classes(self) -> int:
        """Number of classes, absent ones included."""
        return int(self.classes.shape[2])

    @property
    def width(self) -> int:
        """Features and intercept."""
        return int(self.x.shape[2])


@dataclass
class Slots:
    """Coalitions under way, B places a game; places without a coalition have ``origin`` -1."""

    origin: torch.Tensor  # (G, B) int64: row of the game's coalition matrix
    rows: torch.Tensor  # (G, B, n) uint8: the coalition's rows
    bits: torch.Tensor  # (G, B, ceil(n / 64)) int64: the same, one bit a row
    present: torch.Tensor  # (G, B, C) bool
    absent: torch.Tensor  # (G, B, C): zero, minus infinity for absent classes
    penalty: torch.Tensor  # (G, B, d + 1): mu s_j^2, one where constant, zero for the intercept
    mean: torch.Tensor  # (G, B, d)
    inverse: torch.Tensor  # (G, B, d): 1 / s_j, zero where constant
    live: torch.Tensor  # (G, B, C, d + 1) uint8: parameters that are free
    mu: torch.Tensor  # (G, B)
    mass: torch.Tensor  # (G, B), times C

    def take(self, index: torch.Tensor) -> Slots:
        """The places ``index`` (G, B'), counted through all games."""
        return Slots(**{f.name: gather(getattr(self, f.name), index) for f in fields(self)})


def gather(array: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """The places ``index`` of an array (G, B, ...), counted through all games."""
    return array.flatten(0, 1)[index]


def stack(problems: Sequence[Problem], C: float, device: torch.device) -> Stack:
    """Pad the problems to common sizes and move them to the device."""
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
    k = max(p.n_players for p in problems)
    host = {
        "x": np.zeros((len(problems), n, d + 1)),
        "label": np.zeros((len(problems), n), dtype=np.int64),
        "weight": np.zeros((len(problems), n)),
        "player": np.zeros((len(problems), n), dtype=np.int64),
        "val": np.zeros((len(problems), v, d + 1)),
        # Padding is told apart by its label, -2; -1 is a class that no training row has.
        "val_label": np.full((len(problems), v), -2, dtype=np.int64),
        "mass": np.zeros((len(problems), k, 1)),
        "moments": np.zeros((len(problems), k, 2 * d)),
        "classes": np.zeros((len(problems), k, classes)),
        "scale": np.ones((len(problems), d)),
        "centre": np.zeros((len(problems), d)),
    }
    for g, p in enumerate(problems):
        rows, val = len(p.label), len(p.validation_label)
        host["x"][g, :rows, :given], host["x"][g, :rows, d] = p.shared, 1.0
        host["label"][g, :rows], host["player"][g, :rows] = p.label, p.player
        host["weight"][g, :rows] = C * p.weight
        host["val"][g, :val, :given], host["val"][g, :val, d] = p.shared_validation, 1.0
        host["val_label"][g, :val] = np.maximum(p.validation_label, -1)
        host["mass"][g, : p.n_players, 0] = p.mass
        host["moments"][g, : p.n_players, :given] = p.moment1
        host["moments"][g, : p.n_players, d : d + given] = p.moment2
        host["scale"][g, :given], host["centre"][g, :given] = p.spread, p.centre
        host["classes"][g, : p.n_players] = p.classes
    on = {name: torch.from_numpy(array).to(device) for name, array in host.items()}
    squares, val_squares = _squares(on["x"]), _squares(on["val"])
    return Stack(**on, squares=squares, val_squares=val_squares, problems=problems, C=C)


def _squares(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[..., :-1] ** 2, x], dim=2)


def slots(
    stack: Stack, coalitions: Sequence[CoalitionMatrix], origin: Sequence[np.ndarray]
) -> tuple[Slots, torch.Tensor]:
    """Lay out coalitions; the mask (G, B) says which need more care than sums over players take."""
    device, games = stack.x.device, len(coalitions)
    size = max(len(c) for c in coalitions)
    member = np.zeros((games, size, stack.classes.shape[1]), dtype=np.uint8)
    place = np.full((games, size), -1, dtype=np.int64)
    for g, (c, o) in enumerate(zip(coalitions, origin, strict=True)):
        member[g, : len(c), : c.shape[1]], place[g, : len(c)] = c, o
    inside = torch.from_numpy(member).to(device)
    where = torch.from_numpy(place).to(device)
    used = where >= 0
    weighty = (stack.weight > 0).to(torch.uint8)
    rows = torch.stack([inside[g][:, stack.player[g]] * weighty[g] for g in range(games)])
    share = inside.to(stack.x.dtype)
    mass = torch.where(used, (share @ stack.mass)[..., 0], 1.0)
    mean, square = (share @ stack.moments / mass[..., None]).chunk(2, dim=2)
    variance = (square - mean**2).clamp_min(0.0)
    blurred = variance <= torch.clamp(_CANCELLATION * square, min=1e-22)
    total, given = mass[..., None], stack.centre[:, None] + stack.scale[:, None] * mean
    variance_given = variance * stack.scale[:, None] ** 2
    eps = torch.finfo(stack.x.dtype).eps
    blurred |= variance_given <= 4 * total * eps * variance_given + (4 * total * given * eps) ** 2
    constant = _constant(stack, rows, blurred & used[..., None])
    careful = (blurred & ~constant).any(dim=2) & used
    present = ((share @ stack.classes) > 0) | ~used[..., None]
    mu = torch.where(present.sum(dim=2) == 2, 2.0, 1.0).to(mass.dtype)
    fixed = constant | blurred
    variance = torch.where(fixed, 1.0, variance)
    penalty = torch.nn.functional.pad(mu[..., None] * variance, (0, 1))
    free = torch.nn.functional.pad(~fixed, (0, 1), value=True)
    return (
        Slots(
            origin=where,
            rows=rows,
            bits=_bits(rows),
            present=present,
            absent=torch.zeros_like(mass)[..., None].masked_fill(~present, -torch.inf),
            penalty=penalty,
            mean=mean,
            inverse=torch.where(fixed, 0.0, variance.rsqrt()),
            live=(present[..., None] & free[:, :, None]).to(torch.uint8),
            mu=mu,
            mass=stack.C * mass,
        ),
        careful,
    )


def _bits(rows: torch.Tensor) -> torch.Tensor:
    padded = torch.nn.functional.pad(rows, (0, -rows.shape[2] % 64)).unflatten(2, (-1, 8, 8))
    weight = (1 << torch.arange(8, device=rows.device)).to(torch.uint8)
    # Bytes 0 to 7 of a word are its bits 0 to 63 on every machine torch runs on (little-endian).
    return (padded * weight).sum(dim=4, dtype=torch.uint8).view(torch.int64)[..., 0]


def _constant(stack: Stack, rows: torch.Tensor, suspect: torch.Tensor) -> torch.Tensor:
    """Which suspect features take one value only in the coalition, by looking at its rows."""
    constant = torch.zeros_like(suspect)
    game, place, feature = suspect.nonzero(as_tuple=True)
    step = max(1, (1 << 26) // rows.shape[2])
    for start in range(0, len(game), step):
        g, b, j = (part[start : start + step] for part in (game, place, feature))
        values, inside = stack.x[g, :, j], rows[g, b] > 0
        high = torch.where(inside, values, -torch.inf).amax(dim=1)
        constant[g, b, j] = high == torch.where(inside, values, torch.inf).amin(dim=1)
    return constant
