"""How far validation rows are from training rows: one matrix product a block, on the CPU or a GPU.

Squared Euclidean distances on the features as given, up to a constant per validation row, |x|^2 - 2 x.v, in float64.
Both sides are first moved by the lower median of each validation column: rows far from the origin then lose no digits
to cancellation, and whole-numbered features keep exact distances.

Training rows may be as large as memory, in a shorter kind of number: they are moved once where all of them in float64
take at most a quarter of the memory for blocks, else a block at a time, anew for each block of validation rows. On a
GPU all are, as they are stored, and are moved there a part at a time (`device`).

The last bits of a product depend on the device and on how it is cut. Any two ways of adding d products are within 2 g
|x||w| of each other, g = d u / (1 - d u), u = 2^-53, w = -2 v, those of |x|^2, which a device adds up its own way,
within 2 g |x|^2, and one more rounding comes with |x|^2 added, of at most u (|x||w| + |x|^2) each: together less than
e = 2 (d + 4) u (|x||w| + |x|^2). Two rows whose distances differ by more than the sum of their e have the same order
in both. |x| is at most |v| + s, s^2 = |x - v|^2 the distance with its constant, so e is at most a function of the
distance that rises with it, and twice that of the farther one is enough: `Slack`. A row far away has a large e, and
nobody else has: one of them must not put all others in question. It is zero where no rounding happens at all: all
numbers are multiples of one power of two, and no sum needs more than 53 bits (whole numbers; float16 vectors of
length one).

Rows in order of distance, as a stable sort has them, and in their exact one where it leaves them too close.

Who is near: for each validation row the training rows in order of distance (`distances`), computed in blocks.

Ties are broken by content, never by position or name: equal distances are ordered by label, then by
features (byte order), then by weight. Rows that agree in all of these are interchangeable. Equal
features have equal distances to the last bit, because products are taken over *distinct* feature
rows in content order, with one BLAS thread each: permuting rows or players changes no bit.

Who is the k-th nearest: its law, when rows P are always there and coalitions S of players are drawn by size.

One validation row, the p rows of P and players 1..N of one row each in one order of distance, a player i who is not in
S, and e farther than i. Let m_e be the number of players up to e, e included where it is one, less one: i itself, who
is not to be counted. Let t_e = k less the rows of P up to e. A row of P is the k-th nearest of P + S if exactly t_e of
the m_e players before it are in S; a player is, if it and t_e - 1 others of its m_e are:

    w_e = f(m_e, t_e) for a row of P,   f(m_e, t_e) t_e / m_e for a player,

with f(m, t) = P(t of m fixed players are in S): 1 / (m+1), t <= m, for the Shapley value; for other laws see
`size_laws.thinned`. Any other player j nearer than e is in S besides with probability

    c_e = w_e t_e / m_e for a row of P,   w_e (t_e - 1) / (m_e - 1) for a player.

Neither depends on i, nor on j.

Utilities of many coalitions from one table of neighbours.

``order[v]`` lists content positions from near to far. A coalition's neighbours of v are the first k
entries of that list that belong to its players, so a batch needs no distances and no sorting. The
loops of `compiled` add the same numbers in the same order: both answers are equal to
the last bit.

What the mean of the nearest labels explains, for many coalitions: `votes` for numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.execution.arrays import CoalitionMatrix, Codes, Features, Rows, Values
from datamarket_gym.execution.parallel import available_cores, compute, over_blocks
from datamarket_gym.utilities._knn_device import DeviceRows
from datamarket_gym.utilities.accelerators import arrays_of
from datamarket_gym.utilities.base import (
    MAX_PLAYERS_ANY_LAW,
    TrainingRows,
    ValidationRows,
    content_order,
    distinct_rows,
    is_uniform,
    thinned,
)
from datamarket_gym.utilities.labels import gain

_BLOCK = 1 << 22  # numbers of training rows moved at once: 32 MiB
_GRIDS = (0, 24)  # whole numbers; multiples of 2^-24, as all float16 are


@dataclass(frozen=True)
class Slack:
    """How far behind another a row must be of a validation row of this length for their order to be beyond doubt."""

    unit: float  # 4 (d + 4) 2^-53, or 0
    length: float  # |v|

    def at(self, distances: Values) -> Values:
        """Of the farther one, by its distance up to the constant |v|^2."""
        apart = np.sqrt(np.maximum(distances + self.length**2, 0.0))
        found: Values = self.unit * (apart * apart + self.length * (4.0 * apart + 3.0 * self.length))
        return found


class Distances:
    """Of validation rows from some of the training rows, in this order."""

    def __init__(self, rows: Rows, index: Codes, origin: Values, validation: Features) -> None:
        by, width = compute(), rows.shape[1]
        self._source, self._index, self._origin = rows, index, origin
        self._validation: Features = -2.0 * (validation - origin)
        self._step = max(1, _BLOCK // width)
        self._device = by.device
        # Validation rows held against all training rows at once by one thread.
        self.together = max(1, min(64, by.bytes // 4 // (8 * len(index) * available_cores())))
        self._whole: Features | None = None
        self._norms: Values | None = None
        self.there = self._put()
        grids = [grid for grid in _GRIDS if _on_grid(self._validation, grid)]
        if self.there is not None:
            grids = [grid for grid in grids if self.there.on_grid(grid)]
            self._rounded = _rounded(self._validation, self.there.largest, grids)
            return
        if 8 * len(index) * width <= by.bytes // 4:
            self._whole = np.empty((len(index), width))
        self._norms = np.empty(len(index))
        for start in range(0, len(index), self._step):
            block = self._moved(index[start : start + self._step])
            self._norms[start : start + self._step] = _norms(block)
            grids = [grid for grid in grids if _on_grid(block, grid)]
            if self._whole is not None:
                self._whole[start : start + self._step] = block
        self._rounded = _rounded(self._validation, float(self._norms.max()), grids)

    def __len__(self) -> int:
        return len(self._index)

    def between(self, start: int, stop: int) -> Values:
        """Distances up to a constant a validation row, shape (stop - start, rows)."""
        if self.there is not None:
            return self.there.on.get(self.on_device(start, stop))
        assert self._norms is not None
        some = self._validation[start:stop]
        if self._whole is not None:
            return _product(some, self._whole, self._norms)
        out = np.empty((stop - start, len(self)))
        for at in range(0, len(self), self._step):
            part = slice(at, at + self._step)
            out[:, part] = _product(some, self._moved(self._index[part]), self._norms[part])
        return out

    def on_device(self, start: int, stop: int) -> Any:
        """The same, where they were computed."""
        assert self.there is not None
        return self.there.between(self._validation[start:stop])

    def slack(self, row: int) -> Slack:
        """Rows whose distances from this validation row differ by more are in the right order."""
        unit = 4 * (self._validation.shape[1] + 4) * 2.0**-53 if self._rounded[row] else 0.0
        return Slack(unit, float(np.linalg.norm(self._validation[row])) / 2.0)

    def exact(self, row: int, rows: Codes) -> Values:
        """Distances of some rows, each computed by itself: the same wherever it is done."""
        found = np.empty(len(rows))
        for at in range(0, len(rows), self._step):
            some = rows[at : at + self._step]
            block = self._moved(self._index[some]) if self._whole is None else self._whole[some]
            norms = _norms(block) if self._norms is None else self._norms[some]
            found[at : at + self._step] = (block * self._validation[row]).sum(axis=1) + norms
        return found

    def _moved(self, rows: Codes) -> Features:
        block = self._source[rows] + 0.0  # -0.0 and 0.0 are the same; a copy
        block -= self._origin
        return block

    def _put(self) -> DeviceRows | None:
        """Training rows where products are taken, if that is not here."""
        if self._device == "cpu":
            return None
        return DeviceRows(self._source, self._index, self._origin, arrays_of(self._device))

    def __getstate__(self) -> dict[str, Any]:
        """What lies on a GPU does not travel."""
        return {**self.__dict__, "there": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.there = self._put()


def _product(validation: Features, rows: Features, norms: Values) -> Features:
    """-2 v.x + |x|^2."""
    out: Features = validation @ rows.T
    out += norms
    return out


def _norms(rows: Features) -> Values:
    """|x|^2 of each row, by itself: the same bits whatever rows are beside it."""
    found: Values = np.einsum("ij,ij->i", rows, rows)
    return found


def _on_grid(numbers: Features, bits: int) -> bool:
    scaled = np.ldexp(numbers, bits)
    return bool((scaled == np.rint(scaled)).all())


def _rounded(validation: Features, largest: float, grids: list[int]) -> NDArray[np.bool_]:
    """Of each validation row whether any distance from it is rounded; ``largest`` is the largest |x|^2."""
    size = np.linalg.norm(validation, axis=1) * np.sqrt(largest) + largest
    return ~np.any([size * 4.0**grid < 2.0**53 for grid in grids] or [size < 0.0], axis=0)


def in_order(distances: Values) -> Codes:
    """Positions from near to far, ties by position.

    Numbers are sorted as whole ones (their bits, in the same order) whose last bits give way to the position, faster
    than an argsort; runs that agree in what is left of the number are then sorted by all of it.
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
        alike = np.r_[False, same, False]
        member = np.flatnonzero(alike[:-1] | alike[1:])
        rows = order[member]
        order[member] = rows[np.lexsort((rows, distances[rows], np.cumsum(~alike[member])))]
    return order


def settled(
    order: Codes,
    distances: Values,
    kind: NDArray[Any],
    slack: Slack,
    exact: Callable[[Codes], Values],
) -> Codes:
    """The same order, but where rows of different kinds are within the slack of each other by their exact distances.

    Rows of one kind that follow one another can change places and nobody would notice. So runs in which each row is
    within the slack of the next are looked at where they are of more than one kind.
    """
    if not slack.unit:
        return order
    ordered = distances[order]
    near = ordered[1:] - ordered[:-1] <= slack.at(ordered[1:])
    if not near.any():
        return order
    close = np.r_[False, near, False]
    member = np.flatnonzero(close[:-1] | close[1:])
    head = ~close[member]
    run, kinds = np.cumsum(head) - 1, kind[order[member]]
    heads = np.flatnonzero(head)
    several = np.minimum.reduceat(kinds, heads) != np.maximum.reduceat(kinds, heads)
    member, run = member[several[run]], run[several[run]]
    rows = order[member]
    order = order.copy()
    order[member] = rows[np.lexsort((rows, exact(rows), run))]
    return order


T = TypeVar("T")

_TOGETHER = 64  # validation rows in a block


class Neighbourhood:
    """Training rows in content order and their distances to the validation rows.

    ``rows[i]`` is the submitted row at content position i; ``label``, ``player`` and ``weight`` are
    in content order. A stable sort of one row of distances breaks ties as the module says.
    """

    def __init__(self, rows: TrainingRows, validation: ValidationRows) -> None:
        middle = (len(validation.label) - 1) // 2
        origin = np.partition(validation.features.astype(np.float64), middle, axis=0)[middle]
        distinct, place = distinct_rows(rows.features)
        self.rows: Codes = content_order(rows, place)
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
        self._distances = Distances(rows.features, distinct[by_appearance], origin, validation.features)

    def __len__(self) -> int:
        return len(self.label)

    @property
    def equal_weights(self) -> bool:
        """Whether all rows weigh the same, so that weights cancel in every vote."""
        return bool((self.weight == self.weight[0]).all())

    @property
    def weight_of_votes(self) -> Values:
        """Ones where all weights are equal, so that sums are exact."""
        return np.ones(len(self)) if self.equal_weights else self.weight

    @property
    def single(self) -> bool:
        """Whether every player has one row."""
        return bool(self._counts.max() == 1)

    @property
    def seat(self) -> Codes:
        """Where what each row earns is added: with its player, or at its own position where players have one row."""
        return np.arange(len(self)) if self.single else self.player

    def distances(self, start: int, stop: int) -> Iterator[tuple[int, Values]]:
        """Validation rows and their distances up to a constant each, in content order; some at a time, as room is."""
        step = self._distances.together
        for first in range(start, stop, step):
            found = self._distances.between(first, min(first + step, stop))
            for row, distances in enumerate(found, first):
                yield row, distances if len(found[0]) == len(self) else distances[self._content]

    @property
    def device(self) -> DeviceRows | None:
        """The distinct rows on the device, if there is one."""
        return self._distances.there

    def on_device(self, start: int, stop: int) -> Any:
        """The distances of some validation rows, in content order, where the device has them."""
        found = self._distances.on_device(start, stop)
        if found.shape[1] == len(self):
            return found
        assert self.device is not None
        return found[:, self.device.on.put(self._content)]

    def slack(self, row: int) -> Slack:
        """How far apart two distances from a validation row must be, for their order to be beyond doubt."""
        return self._distances.slack(row)

    def arranged(
        self,
        row: int,
        distances: Values,
        positions: Codes | None = None,
        kind: NDArray[Any] | None = None,
    ) -> Codes:
        """All content positions, or some (rising), from near to far of a validation row.

        Order counts among different kinds of rows: those of different features, unless others are said.
        """
        if positions is None:
            order = in_order(distances)
        else:
            order = positions[in_order(distances[positions])]
        content = self._content if kind is None else kind
        return settled(order, distances, content, self.slack(row), partial(self.exact, row))

    def nearest_of_each(
        self, row: int, distances: Values, most: int, kind: NDArray[Any] | None = None
    ) -> Codes:
        """The same, of each player only the ``most`` nearest rows."""
        order = self.arranged(row, distances, kind=kind)
        if self._counts.max() <= most:
            return order
        # Small whole numbers are sorted by radix. Every validation row has the same counts, so one
        # mask picks the first entries of all players.
        small = np.int16 if len(self._counts) < 1 << 15 else np.int64
        by_player = np.argsort(self.player.astype(small)[order], kind="stable")
        nth = np.arange(len(self)) - np.repeat(np.cumsum(self._counts) - self._counts, self._counts)
        return order[np.sort(by_player[nth < most])]

    def exact(self, row: int, positions: Codes) -> Values:
        """Distances of some content positions, each computed by itself."""
        return self._distances.exact(row, self._content[positions])

    def over_blocks(self, work: Callable[[int, int], T]) -> Iterator[T]:
        """Apply ``work(start, stop)`` to blocks of validation rows on all cores, in order."""
        cells = len(self.validation_label) * len(self)
        return over_blocks(lambda span: work(*span), self.blocks(), cells)

    def blocks(self) -> list[tuple[int, int]]:
        """Starts and stops of the validation rows whose values are added up before they join those of others."""
        n = len(self.validation_label)
        return [(start, min(start + _TOGETHER, n)) for start in range(0, n, _TOGETHER)]


Table = NDArray[np.int32]
"""Shape (n_val, L): content positions of training rows, nearest first."""


def table_width(rows_of: NDArray[np.int64], k: int) -> int:
    """Columns of the sorted table: only the k nearest rows of a player can ever vote."""
    return int(np.minimum(rows_of, k).sum())


def sorted_table(near: Neighbourhood, k: int) -> Table:
    """The neighbours from which every coalition can be answered."""

    def block(start: int, stop: int) -> Table:
        found = [near.nearest_of_each(*each, k) for each in near.distances(start, stop)]
        return np.stack(found).astype(np.int32)

    return np.concatenate(list(near.over_blocks(block)))


def selected_tables(near: Neighbourhood, coalitions: CoalitionMatrix, k: int) -> list[Table]:
    """For each coalition the table of its own k nearest rows, without sorting the others."""
    members = [np.flatnonzero(coalition[near.player]) for coalition in coalitions]

    def block(start: int, stop: int) -> list[Table]:
        found: list[list[Codes]] = [[] for _ in members]
        for row, distances in near.distances(start, stop):
            for rows, tables in zip(members, found, strict=True):
                tables.append(nearest(near, row, distances, rows, k))
        return [np.stack(tables).astype(np.int32) for tables in found]

    return [np.concatenate(parts) for parts in zip(*near.over_blocks(block), strict=True)]


def nearest(
    near: Neighbourhood,
    row: int,
    distances: Values,
    positions: Codes,
    count: int,
    kind: NDArray[Any] | None = None,
) -> Codes:
    """The ``count`` nearest of some content positions, nearest first."""
    if count < len(positions) // 4:
        found = distances[positions]
        bound = np.partition(found, count - 1)[count - 1]
        positions = positions[
            found - near.slack(row).at(found) <= bound
        ]  # all that may tie at the bound
    return near.arranged(row, distances, positions, kind)[:count]


_MAX_COUNTS = 1 << 25  # cells of the table of f: 256 MiB


@dataclass(frozen=True)
class KthNearest:
    """The law of sizes as this needs it."""

    k: int
    count: Values | None  # (N, min(k+1, N)): f(m, t); none for the Shapley value

    @classmethod
    def of(cls, law: Values, k: int) -> KthNearest:
        """For a size law q_0..q_{N-1} and k neighbours."""
        n = len(law)
        if is_uniform(law):
            return cls(k, None)
        table = np.zeros((n, min(k + 1, n)))
        for m, count in thinned(law):
            table[m, : m + 1] = count[: k + 1]
        return cls(k, table)

    @staticmethod
    def is_costly(law: Values, k: int) -> bool:
        """Whether the table of f would take too long, or too much room."""
        n = len(law)
        large = n > MAX_PLAYERS_ANY_LAW or n * min(k + 1, n) > _MAX_COUNTS
        return large and not is_uniform(law)

    def kth(self, is_player: NDArray[np.bool_]) -> Values:
        """w of all rows from near to far."""
        return self._kth(*self._counts(is_player), is_player)

    def kth_and_another(self, is_player: NDArray[np.bool_]) -> tuple[Values, Values]:
        """w and c of all rows from near to far."""
        m, t = self._counts(is_player)
        weight = self._kth(m, t, is_player)
        others = np.where(is_player, m - 1, m)
        needed = np.where(is_player, t - 1, t)
        return weight, weight * needed / np.maximum(others, 1)

    def _counts(self, is_player: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.cumsum(is_player) - 1, self.k - np.cumsum(~is_player)

    def _kth(self, m: NDArray[np.int64], t: NDArray[np.int64], is_player: NDArray[np.bool_]) -> Values:
        can = t <= m
        weight = np.zeros(len(is_player))
        weight[can] = 1.0 / (m[can] + 1) if self.count is None else self.count[m[can], t[can]]
        return np.where(is_player, weight * t / np.maximum(m, 1), weight)


_WINDOW = 64  # candidates looked at in one sweep; int8 counts them
_BATCH = 4096  # coalitions in one sweep
_WORTH_SORTING = 1 << 25  # distances; a second is saved
_WORTH_COMPILING = 1 << 18  # coalitions x validation rows below which loading numba costs more


@dataclass(frozen=True)
class Ballot:
    """Who may vote on which validation row, and how votes are counted."""

    order: Table
    near: Neighbourhood
    k: int
    n_classes: int
    majority: bool


def count_votes(ballot: Ballot, coalitions: CoalitionMatrix, rows: NDArray[np.int64]) -> Values:
    """U of each coalition; ``rows`` are their numbers of training rows."""
    coalitions = np.ascontiguousarray(coalitions)
    if is_worth_compiling(coalitions, ballot.near):
        from datamarket_gym.utilities import _knn_numba as compiled

        total = compiled.count(ballot, coalitions)
    else:
        total = in_batches(lambda some: _count(ballot, coalitions[some]), len(coalitions))
    # With equal weights the totals are whole numbers, divided once.
    each = np.minimum(ballot.k, rows) if ballot.near.equal_weights and not ballot.majority else 1
    utility: Values = total / (each * len(ballot.near.validation_label))
    return utility


def is_worth_compiling(coalitions: CoalitionMatrix, near: Neighbourhood) -> bool:
    """Whether the batch is large enough for the compiled loops, and they can be had."""
    large = len(coalitions) * len(near.validation_label) >= _WORTH_COMPILING
    return large and find_spec("numba") is not None


def is_worth_sorting(near: Neighbourhood) -> bool:
    """Whether there are enough distances for a compiled sort of them, and it can be had."""
    large = len(near) * len(near.validation_label) >= _WORTH_SORTING
    return large and find_spec("numba") is not None


def in_batches(work: Callable[[slice], Values], count: int) -> Values:
    """What ``work`` says of all, some at a time."""
    parts = [work(slice(at, at + _BATCH)) for at in range(0, count, _BATCH)]
    return np.concatenate(parts) if parts else np.empty(0)


def _count(ballot: Ballot, coalitions: CoalitionMatrix) -> Values:
    """Sum over validation rows of the agreeing share (a count if weights are equal) or of hits."""
    total = np.zeros(len(coalitions))
    weight, unit = ballot.near.weight_of_votes, ballot.near.equal_weights
    width = ballot.n_classes if ballot.majority else 2
    for order, truth in zip(ballot.order, ballot.near.validation_label, strict=True):
        label = ballot.near.label[order]
        box = label if ballot.majority else (label == truth).astype(np.int64)
        votes = _cast(coalitions, ballot.near.player[order], box, weight[order], ballot.k, width)
        if ballot.majority:
            total += votes.argmax(axis=1) == truth
        elif unit:
            total += votes[:, 1]
        else:
            total += votes[:, 1] / (votes[:, 0] + votes[:, 1])
    return total


def _cast(
    coalitions: CoalitionMatrix, player: Codes, box: Codes, weight: Values, k: int, width: int
) -> Values:
    """Votes (B, width) of the first k candidates that are in each coalition."""
    votes = np.zeros((len(coalitions), width))
    for coalition, candidate in first_in(coalitions, player, k):
        np.add.at(votes, (coalition, box[candidate]), weight[candidate])
    return votes


def first_in(
    coalitions: CoalitionMatrix, player: Codes, k: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The first k candidates that are in each coalition: pairs (coalition, candidate), some at a time.

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


@dataclass(frozen=True)
class Means:
    """Whose labels are averaged on which validation row."""

    order: Table
    near: Neighbourhood
    k: int
    label: Values  # (n,): d of each row in content order
    truth: Values  # (n_val,): d of the validation rows


def explained_by(means: Means, coalitions: CoalitionMatrix, rows: NDArray[np.int64]) -> Values:
    """U of each coalition; ``rows`` are their numbers of training rows."""
    coalitions = np.ascontiguousarray(coalitions)
    heard = np.minimum(rows, means.k) / means.k
    if is_worth_compiling(coalitions, means.near):
        from datamarket_gym.utilities import _knn_numba as compiled

        total = compiled.explain(means, coalitions, heard)
    else:
        total = in_batches(lambda some: _explain(means, coalitions[some], heard[some]), len(coalitions))
    utility: Values = total / len(means.truth)
    return utility


def _explain(means: Means, coalitions: CoalitionMatrix, heard: Values) -> Values:
    """Sum over validation rows of what each coalition's prediction explains."""
    near, total = means.near, np.zeros(len(coalitions))
    weight, unit = near.weight_of_votes, near.equal_weights
    weighted = means.label * weight
    for order, truth in zip(means.order, means.truth, strict=True):
        sums, weights = np.zeros(len(coalitions)), np.zeros(len(coalitions))
        for coalition, candidate in first_in(coalitions, near.player[order], means.k):
            np.add.at(sums, coalition, weighted[order[candidate]])
            if not unit:
                np.add.at(weights, coalition, weight[order[candidate]])
        total += gain(sums / means.k if unit else heard * sums / weights, truth)
    return total
