"""Nearest neighbours: distances of validation rows to training rows, their order, and votes of the nearest.

Squared Euclidean distances on the features as given, up to a constant per validation row v: |x|^2 - 2 x.v, one matrix
product a block in float64, on the CPU or a GPU. Both sides are first moved by the lower median of each validation
column, so that rows far from the origin lose no digits to cancellation. Training rows are held in float64 where that
takes at most a quarter of the memory for blocks, else converted a block at a time; a GPU holds them as they are stored.

The last bits of a product depend on the device and on how it is cut. |x - v|^2 + 4 |v|^2, to which rounding errors are
proportional, is therefore rounded to 37 bits, and equal distances are ordered by content: by label, then by features
(byte order), then by weight. Rows that agree in all of these are interchangeable, so that no order depends on names.
Sums so near the edge of two rounded values that an error could decide between them (one in two thousand) are computed
again in extended precision, in one order on every device.

The distribution of the k-th nearest row of P + S, for p rows P and a random coalition S of N players of one row each,
drawn by size. Let i be a player who is not in S, and e farther than i. Let m_e be the number of players up to e, e
included where it is one, less one (i itself), and t_e = k less the rows of P up to e. A row of P is the k-th nearest of
P + S if exactly t_e of the m_e players before it are in S; a player is, if it and t_e - 1 others of its m_e are:

    w_e = f(m_e, t_e) for a row of P,   f(m_e, t_e) t_e / m_e for a player,

with f(m, t) = P(t of m fixed players are in S): 1 / (m+1), t <= m, for the Shapley value; for other weights see
`base.thinned`. Any other player j nearer than e is in S besides with probability

    c_e = w_e t_e / m_e for a row of P,   w_e (t_e - 1) / (m_e - 1) for a player.

Neither depends on i, nor on j.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.execution.arrays import CoalitionMatrix, Codes, Features, Rows, Values, in_blocks
from datamarket_gym.execution.arrays import in_order as rows_in_order
from datamarket_gym.execution.parallel import available_cores, compute, over_blocks
from datamarket_gym.utilities.accelerators import Array, arrays_of
from datamarket_gym.utilities.base import (
    MAX_PLAYERS_ANY_WEIGHTS,
    TrainingRows,
    ValidationRows,
    distinct_rows,
    is_uniform,
    thinned,
)
from datamarket_gym.utilities.labels import gain

T = TypeVar("T")

_BLOCK = 1 << 22  # numbers of training rows converted at once: 32 MiB
_DEVICE_BLOCK = 1 << 26  # on a device: 512 MiB
_ROUNDED = 16  # last bits of a distance that are rounded away
_UNSURE = 16  # units in the last place by which a product may be off
_ROWS = 64  # validation rows in a block


class Distances:
    """Compute distances of validation rows from some of the training rows, in the order of ``index``."""

    def __init__(self, rows: Rows, index: Codes, origin: Values, validation: Features) -> None:
        by, width = compute(), rows.shape[1]
        self._source, self._index, self._origin = rows, index, origin
        self._validation: Features = -2.0 * (validation - origin)
        self.device = by.device
        # Validation rows compared with all training rows at once by one thread.
        self.together = max(1, min(64, by.bytes // 4 // (8 * len(index) * available_cores())))
        self._in_memory = 8 * len(index) * width <= by.bytes // 4
        self._load()

    def __len__(self) -> int:
        return len(self._index)

    def _load(self) -> None:
        on = self.arrays = arrays_of(self.device)
        width = self._source.shape[1]
        self._step = max(1, (_BLOCK if self.device == "cpu" else _DEVICE_BLOCK) // width)
        self._stored: Array = None
        if self.device != "cpu":
            for at, block in in_blocks(rows_in_order(self._source, self._index)):
                if self._stored is None:
                    self._stored = on.empty(len(self), width, block.dtype.name)
                self._stored[at : at + len(block)] = on.put(block)
        elif self._in_memory:
            whole = np.empty((len(self), width))
            for at, part in self._parts():
                whole[at : at + len(part)] = part
            self._stored, self._step = whole, len(self)
        self._norms = on.empty(1, len(self))[0]
        for at, part in self._parts():
            self._norms[at : at + len(part)] = (part * part).sum(1)

    def _parts(self) -> Iterator[tuple[int, Array]]:
        """Yield rows as float64, -0.0 as 0.0, less the origin, and where they begin."""
        for at in range(0, len(self), self._step):
            part = slice(at, at + self._step)
            if self.device != "cpu":
                block = self.arrays.to_double(self._stored[part]) + 0.0
                yield at, block - self.arrays.put(self._origin)
            elif self._stored is not None:
                yield at, self._stored[part]
            else:
                yield at, (self._source[self._index[part]] + 0.0) - self._origin

    def on_device(self, start: int, stop: int) -> Array:
        """Compute rounded distances up to a constant a validation row, shape (stop - start, rows), on the device."""
        on, validation = self.arrays, self._validation[start:stop]
        towards, out = on.put(validation), on.empty(stop - start, len(self))
        for at, part in self._parts():
            on.xp.matmul(towards, part.T, out=out[:, at : at + len(part)])
        out += self._norms
        out += on.put(1.25 * (validation**2).sum(axis=1, keepdims=True))  # 5 |v|^2
        bits = out.view(on.xp.int64)  # of numbers above 0, in their order
        bits += 1 << (_ROUNDED - 1)
        near_edge = ((bits + _UNSURE) & ((1 << _ROUNDED) - 1)) < 2 * _UNSURE
        if bool(near_edge.any()):
            row, column = np.nonzero(on.get(near_edge))
            out[near_edge] = on.put(self._in_extended_precision(start + row, column))
            bits[near_edge] += 1 << (_ROUNDED - 1)
        bits &= -(1 << _ROUNDED)
        return out

    def _in_extended_precision(self, row: Codes, column: Codes) -> Values:
        """Compute |x - v|^2 + 4 |v|^2 of some pairs, equal on every device: equal distances are rounded equally."""
        step, out = max(1, _BLOCK // self._source.shape[1]), np.empty(len(row))
        for at in range(0, len(row), step):
            part = slice(at, at + step)
            v = (-0.5 * self._validation[row[part]]).astype(np.longdouble)
            x = (self._source[self._index[column[part]]] + 0.0) - self._origin
            out[part] = ((x.astype(np.longdouble) - v) ** 2).sum(axis=1) + 4.0 * (v**2).sum(axis=1)
        return out

    def __getstate__(self) -> dict[str, Any]:
        on_device = {} if self.device == "cpu" else dict.fromkeys(("arrays", "_stored", "_norms"))
        return self.__dict__ | on_device

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.arrays is None:
            self._load()


def in_order(distances: Values) -> Codes:
    """Return positions from near to far, equal distances by position.

    Numbers are sorted as integers (their bits, in the same order) whose last bits are replaced by the position, faster
    than an argsort; runs that agree in the other bits are then sorted by the whole number.
    """
    n = len(distances)
    bits = (distances + 0.0).view(np.int64)  # -0.0 and 0.0 are the same
    bits ^= (bits >> 63) & np.int64(0x7FFFFFFFFFFFFFFF)
    last = np.int64((1 << max(n - 1, 1).bit_length()) - 1)
    bits &= ~last
    bits |= np.arange(n)
    bits.sort()
    order: Codes = bits & last
    bits &= ~last
    same = bits[1:] == bits[:-1]
    if same.any():
        same = np.r_[False, same, False]
        member = np.flatnonzero(same[:-1] | same[1:])
        rows = order[member]
        order[member] = rows[np.lexsort((rows, distances[rows], np.cumsum(~same[member])))]
    return order


class Neighbourhood:
    """Hold training rows in content order, and their distances to the validation rows.

    ``rows[i]`` is the submitted row at content position i; ``label``, ``player`` and ``weight`` are
    in content order. A stable sort of one row of distances orders equal ones as the module says.
    """

    def __init__(self, rows: TrainingRows, validation: ValidationRows) -> None:
        middle = (len(validation.label) - 1) // 2
        origin = np.partition(validation.features.astype(np.float64), middle, axis=0)[middle]
        distinct, place = distinct_rows(rows.features)
        self.rows: Codes = rows.content_order(place)
        self.label: Codes = rows.label[self.rows]
        self.player: Codes = rows.player[self.rows]
        self.weight: Values = rows.weights[self.rows]
        self.validation_label: Codes = validation.label
        # Distinct features by first appearance in content order: without duplicates the columns of
        # the product are then the rows themselves.
        _, first, where = np.unique(place[self.rows], return_index=True, return_inverse=True)
        by_appearance = np.argsort(first)
        self._content: Codes = np.argsort(by_appearance)[where]  # which of the distinct ones each is
        self._counts = np.bincount(self.player)
        self.of_distinct = Distances(rows.features, distinct[by_appearance], origin, validation.features)

    def __len__(self) -> int:
        return len(self.label)

    @property
    def single(self) -> bool:
        return bool(self._counts.max() == 1)

    @property
    def column(self) -> Codes:
        """The column of each row's values: that of its player, or its own position where players have one row."""
        return np.arange(len(self)) if self.single else self.player

    def distances(self, start: int, stop: int) -> Iterator[tuple[int, Values]]:
        """Yield validation rows and their distances up to a constant each, in content order."""
        step = self.of_distinct.together
        for first in range(start, stop, step):
            block = self.of_distinct.on_device(first, min(first + step, stop))
            for row, distances in enumerate(self.of_distinct.arrays.get(block), first):
                yield row, distances if len(distances) == len(self) else distances[self._content]

    def on_device(self, start: int, stop: int) -> Array:
        """Return the distances of some validation rows, in content order, where they are computed."""
        block = self.of_distinct.on_device(start, stop)
        if block.shape[1] == len(self):
            return block
        return block[:, self.of_distinct.arrays.put(self._content)]

    def nearest_of_each(self, distances: Values, most: int) -> Codes:
        """Return content positions from near to far, of each player only the ``most`` nearest rows."""
        order = in_order(distances)
        if self._counts.max() <= most:
            return order
        # Small integers are sorted by radix. Every validation row has the same counts, so one
        # mask picks the first entries of all players.
        small = np.int16 if len(self._counts) < 1 << 15 else np.int64
        by_player = np.argsort(self.player.astype(small)[order], kind="stable")
        nth = np.arange(len(self)) - np.repeat(np.cumsum(self._counts) - self._counts, self._counts)
        return order[np.sort(by_player[nth < most])]

    def over_blocks(self, work: Callable[[int, int], T]) -> Iterator[T]:
        """Apply ``work(start, stop)`` to blocks of validation rows on all cores, in order."""
        cells = len(self.validation_label) * len(self)
        return over_blocks(lambda span: work(*span), self.blocks(), cells)

    def blocks(self) -> list[tuple[int, int]]:
        """Return starts and stops of the validation rows whose values are added up before they join those of others."""
        n = len(self.validation_label)
        return [(start, min(start + _ROWS, n)) for start in range(0, n, _ROWS)]


Table = NDArray[np.int32]
"""Shape (n_val, L): content positions of training rows, nearest first."""


def sorted_table(near: Neighbourhood, k: int) -> Table:
    """Return the neighbours from which every coalition can be answered."""

    def block(start: int, stop: int) -> Table:
        orders = [near.nearest_of_each(row, k) for _, row in near.distances(start, stop)]
        return np.stack(orders).astype(np.int32)

    return np.concatenate(list(near.over_blocks(block)))


def selected_tables(near: Neighbourhood, coalitions: CoalitionMatrix, k: int) -> list[Table]:
    """Return for each coalition the table of its own k nearest rows, without sorting the others."""
    members = [np.flatnonzero(coalition[near.player]) for coalition in coalitions]

    def block(start: int, stop: int) -> list[Table]:
        orders: list[list[Codes]] = [[] for _ in members]
        for _, distances in near.distances(start, stop):
            for rows, tables in zip(members, orders, strict=True):
                tables.append(nearest(distances, rows, k))
        return [np.stack(tables).astype(np.int32) for tables in orders]

    return [np.concatenate(parts) for parts in zip(*near.over_blocks(block), strict=True)]


def nearest(distances: Values, positions: Codes, count: int) -> Codes:
    """Return the ``count`` nearest of some content positions, which rise, nearest first."""
    if count < len(positions) // 4:
        some = distances[positions]
        positions = positions[some <= np.partition(some, count - 1)[count - 1]]  # and all equal ones
    return positions[in_order(distances[positions])][:count]


_MAX_COUNTS = 1 << 25  # cells of the table of f: 256 MiB


@dataclass(frozen=True)
class KthNearest:
    """Hold the weights of coalition sizes as the distribution of the k-th nearest row needs them."""

    k: int
    count: Values | None  # (N, min(k+1, N)): f(m, t); none for the Shapley value

    @classmethod
    def from_weights(cls, size_weights: Values, k: int) -> KthNearest:
        """Prepare weights q_0..q_{N-1} of sizes and k neighbours."""
        n = len(size_weights)
        if is_uniform(size_weights):
            return cls(k, None)
        table = np.zeros((n, min(k + 1, n)))
        for m, count in thinned(size_weights):
            table[m, : m + 1] = count[: k + 1]
        return cls(k, table)

    @staticmethod
    def is_costly(size_weights: Values, k: int) -> bool:
        """Return whether the table of f would take too long, or too much memory."""
        n = len(size_weights)
        large = n > MAX_PLAYERS_ANY_WEIGHTS or n * min(k + 1, n) > _MAX_COUNTS
        return large and not is_uniform(size_weights)

    def kth(self, is_player: NDArray[np.bool_]) -> Values:
        """Compute w of all rows from near to far."""
        return self.kth_and_another(is_player)[0]

    def kth_and_another(self, is_player: NDArray[np.bool_]) -> tuple[Values, Values]:
        """Compute w and c of all rows from near to far."""
        m, t = np.cumsum(is_player) - 1, self.k - np.cumsum(~is_player)
        can = t <= m
        f = np.zeros(len(is_player))
        f[can] = 1.0 / (m[can] + 1) if self.count is None else self.count[m[can], t[can]]
        weight = np.where(is_player, f * t / np.maximum(m, 1), f)
        return weight, weight * (t - is_player) / np.maximum(m - is_player, 1)


_WINDOW = 64  # candidates looked at in one sweep; int8 counts them
_BATCH = 4096  # coalitions in one sweep
_WORTH_COMPILING = 1 << 18  # coalitions x validation rows below which loading numba costs more


@dataclass(frozen=True)
class Ballot:
    """Count votes of the nearest rows on each validation row.

    ``vote`` is "soft" (the share of agreeing labels), "majority" (whether the most voted label is right) or "mean"
    (the share of the variance that min(k, rows) / k times the mean of numeric labels explains).
    """

    near: Neighbourhood
    k: int
    vote: str
    label: NDArray[Any]  # (n,), of each row in content order; class codes, or numbers for "mean"
    truth: NDArray[Any]  # (n_val,)
    n_classes: int = 0

    def count(self, table: Table, coalitions: CoalitionMatrix) -> Values:
        coalitions = np.ascontiguousarray(coalitions)
        large = len(coalitions) * len(self.truth) >= _WORTH_COMPILING
        if large and find_spec("numba") is not None:
            total = self._compiled(table, coalitions)
        else:
            starts = range(0, len(coalitions), _BATCH)
            parts = [self._with_arrays(table, coalitions[at : at + _BATCH]) for at in starts]
            total = np.concatenate(parts) if parts else np.empty(0)
        return total / len(self.truth)

    def _compiled(self, table: Table, coalitions: CoalitionMatrix) -> Values:
        from datamarket_gym.utilities import _knn_numba

        total, tile = np.zeros(len(coalitions)), max(256, table.shape[1])
        shared = coalitions.view(np.int8), table, self.near.player.astype(np.int32)
        majority = self.vote == "majority"
        kind = np.int32 if majority else np.float64
        votes = self.label.astype(kind), self.near.weight, self.truth.astype(kind), self.k, tile
        if majority:
            _knn_numba.majority(*shared, *votes, self.n_classes, total)
        else:
            _knn_numba.mean(*shared, *votes, self.vote == "soft", total)
        return total

    def _with_arrays(self, table: Table, coalitions: CoalitionMatrix) -> Values:
        """Sum the values of each coalition's votes over validation rows."""
        total = np.zeros(len(coalitions))
        classes = np.arange(self.n_classes)
        for order, truth in zip(table, self.truth, strict=True):
            label, weight = self.label[order], self.near.weight[order]
            if self.vote == "majority":
                cast = weight[:, None] * (label[:, None] == classes)
            else:
                value = (label == truth) * 1.0 if self.vote == "soft" else label
                cast = np.column_stack([weight * value, weight, np.ones(len(order))])
            votes = np.zeros((len(coalitions), cast.shape[1]))
            for coalition, candidate in first_in(coalitions, self.near.player[order], self.k):
                np.add.at(votes, coalition, cast[candidate])
            if self.vote == "majority":
                total += votes.argmax(axis=1) == truth
            elif self.vote == "soft":
                total += votes[:, 0] / votes[:, 1]
            else:
                total += gain(votes[:, 2] / self.k * votes[:, 0] / votes[:, 1], truth)
        return total


def first_in(
    coalitions: CoalitionMatrix, player: Codes, k: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the first k candidates that are in each coalition: pairs (coalition, candidate), some at a time.

    Coalition by coalition and near to far, as the compiled loop adds.
    """
    left = np.full(len(coalitions), k, dtype=np.int64)
    active = np.arange(len(coalitions))
    for start in range(0, len(player), _WINDOW):
        present = coalitions[active][:, player[start : start + _WINDOW]]
        rank = np.cumsum(present, axis=1, dtype=np.int8)
        taken = present & (rank <= np.minimum(left[active], _WINDOW)[:, None])
        coalition, column = np.nonzero(taken)
        yield active[coalition], start + column
        left[active] -= taken.sum(axis=1)
        active = active[left[active] > 0]
        if not len(active):
            break
