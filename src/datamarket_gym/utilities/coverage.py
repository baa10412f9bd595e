"""Coverage: how well units cover the validation rows, with semivalues in closed form.

g(z, u) = (s(z, u) - c) / (C - c), cut to [0, 1], where the labels of validation row z and unit u agree (or labels do
not count, or are missing), else 0, with s their similarity and c a quantile of the similarities between validation
rows, at least 0. C is 1 without a cap. With a cap below 1 take each validation row's similarity to the nearest other
one of its label; C is their quantile at the cap: to be nearer earns nothing more. U(S) is the mean over z of the
largest g(z, u), u in S. A row of weight w stands for w copies of it, and copies cover nothing more: weights change
nothing.

One validation row, players 1..N by falling g (of a player's rows the largest), g_{N+1} = 0. At a level between
g_{i+1} and g_i a coalition wins if one of the first i is in it; a player among them is decisive if no other of
them is in S, with probability h_i = P(S misses i - 1 fixed players), so

    phi_j = sum over i >= j of (g_i - g_{i+1}) h_i,      h_i = sum over s of q_s C(N-i, s) / C(N-1, s)

for semivalue weights q of coalition sizes; h_i = 1/i for the Shapley value. What follows for splitting, withholding
and adding is proved in docs/theory/coverage.md.

With a saturation k a row is covered by k units: U(S) is the mean over z of 1/k times the sum of the k largest g(z, u).
A unit adds 1/k to a level that fewer than k others of S reach, so that h_i = P(S has fewer than k of i - 1 fixed
units) / k: 1 / max(i, k) for the Shapley value. This holds where every player is a single unit; values of players of
several units are sampled.

Given previously acquired rows P, max(g, g_P) - g_P = max(0, g - g_P) with g_P(z) the largest g over P: a baseline for
each validation row. Players above the baseline play as before, between it and the largest g: g_{N+1} = g_P. A unit
that equals a row of P adds nothing; so that no rounding says otherwise, it is left out.

Truncated coverage pays the nearest T units of each validation row alone. No h_i is larger than the one before, so
the value of a row below the level g_{T+1} is, to any player,

    0 <= sum over i >= max(j, T+1) of (g_i - g_{i+1}) h_i <= (g_{T+1} - baseline) h_{T+1} <= (1 - baseline) h_{T+1}.

That is left out: the baseline of each row is raised to g_{T+1}. Every score is too low, by at most h_{T+1} times the
mean over validation rows of 1 - baseline: 1 / (T+1) for the Shapley value of units given no others. The level depends
on all units, so what is proved of coverage holds of truncated scores only up to that bound.

Similarities are computed for some validation rows and blocks of units at a time, never all at once. Units of equal
content share one column, and columns come in an order that content alone decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from typing import Annotated, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import ParameterError, SubmissionError
from datamarket_gym.execution.arrays import (
    CoalitionMatrix,
    Codes,
    Features,
    LowPrecisionRows,
    Mapped,
    Rows,
    Values,
    highest_cosines,
    in_order,
)
from datamarket_gym.execution.parallel import compute, over_blocks
from datamarket_gym.games.semivalues import Nearest, Semivalue, Truncated, Within
from datamarket_gym.registry import Range, register
from datamarket_gym.utilities.accelerators import Array, HostArrays, arrays_of
from datamarket_gym.utilities.base import (
    MAX_PLAYERS_ANY_WEIGHTS,
    Scorer,
    Target,
    TrainingRows,
    UtilityFunction,
    ValidationRows,
    among,
    distinct_rows,
    is_uniform,
    require_valid,
    thinned,
)
from datamarket_gym.utilities.similarity import SIMILARITIES, Similarity, compared_by

T = TypeVar("T")

WELL = 0.5
"""The g from which on a row is covered well: half-way between the baseline similarity and equality."""

_SAMPLE = 2000  # validation rows between which similarities are measured
_UNITS = 1024  # in a block of directions
_CELLS = 1 << 25  # similarities that a thread holds: 256 MiB
_DEVICE_CELLS = 1 << 27  # similarities that a GPU holds at a time: 1 GiB, and five more such matrices
_TILE = 256  # validation rows at a time, where units are few enough
_TASKS = 8  # blocks of one label at most
_TASK_CELLS = 1 << 22  # pairs that a block is worth making for
_FEW = 512  # players up to whom whole arrays are faster than a row at a time
_COMPILED_FROM = 1 << 23  # pairs; loading compiled loops takes as long as sorting so many without


def decisive_probabilities(weights: Values, saturation: int = 1) -> Values:
    """Compute h_i, i = 1..N: what a player adds on average to a level that i - 1 other players reach."""
    n = len(weights)
    if is_uniform(weights):
        return 1.0 / np.maximum(np.arange(1, n + 1), saturation)
    if saturation > 1:
        return np.array([f[:saturation].sum() for _, f in thinned(weights)])[::-1] / saturation
    size, missing = np.arange(n), weights.copy()
    out = np.zeros(n)
    for i in range(n):
        out[i] = missing.sum()
        if out[i] == 0.0 or i == n - 1:  # and 0 from here on
            break
        missing *= np.maximum(n - 1 - i - size, 0) / (n - 1 - i)
    return out


Quantile = Annotated[
    float,
    Range(0, 1),
    "what counts as near; similarity counts beyond this quantile of those between validation rows",
]
Cap = Annotated[
    float,
    Range(0, 1),
    "how near is near enough; similarity counts up to this quantile of the similarities of validation rows to the "
    "nearest other one of their label, 1: no cap",
]


@register("learner", "coverage")
@dataclass(frozen=True)
class Coverage(UtilityFunction):
    """Value units by how well they cover the validation rows; nothing is trained."""

    title = "coverage"

    quantile: Quantile = 0.5
    labels: Annotated[bool, "labels count"] = True
    similarity: str = "auto"
    cap: Cap = 1.0
    saturation: Annotated[int, Range(1), "how many units it takes to cover a validation row in full"] = 1
    has_closed_form: ClassVar[bool] = True
    paid_from: ClassVar[str] = "none"
    target: ClassVar[Target] = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.measure  # a similarity that is none is refused here

    @cached_property
    def measure(self) -> Similarity:
        """Return the similarity, parsed once."""
        return SIMILARITIES.create(self.similarity)

    @property
    def counts_labels(self) -> bool:
        """Whether a unit covers rows of its own label alone."""
        return self.labels

    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> Scorer:
        if self.saturation == 1 or len(rows.label) == rows.n_players:
            return CoverageScorer(self, rows, validation)
        units = len(rows.label)
        single = replace(rows, player=np.arange(units), n_players=units)
        return _PlayersOfUnits(CoverageScorer(self, single, validation), rows, validation)

    def scorer_given(
        self, rows: TrainingRows, background: TrainingRows, validation: ValidationRows
    ) -> CoverageScorer:
        if self.saturation > 1:
            remedy = "leave it out: with previously acquired data one unit covers a validation row"
            raise ParameterError("saturation", self.saturation, remedy)
        if background.highest is None:
            require_valid(background, validation)
        return CoverageScorer(self, rows, validation, background)

    def comparing(self, validation: Features) -> Callable[[Features], Features]:
        return compared_by(self.measure, validation)

    def covered(self, rows: TrainingRows, validation: ValidationRows) -> Values:
        """Compute the largest g of each validation row for all the rows together."""
        nearest = self.highest(rows, validation) if rows.highest is None else rows.highest
        c, top = self.similarity_range(validation)
        return np.clip((nearest - c) / (top - c), 0.0, 1.0)

    def highest(self, rows: TrainingRows, validation: ValidationRows) -> Values:
        """Compute the highest similarity of each validation row with a row of its label; -1 where there is none."""
        directions, targets = self.directions(validation)
        if not self.labels:
            return highest_cosines(targets, rows.features, directions)
        out = np.full(len(targets), -1.0)
        for code in np.unique(validation.label):
            having, units = validation.label == code, np.flatnonzero(rows.label == code)
            out[having] = highest_cosines(targets[having], rows.features, directions, units)
        return out

    def baseline_similarity(self, validation: Features) -> float:
        """Compute c: the quantile of the similarities between validation rows, at least 0."""
        sample = validation[_sampled(validation)] + 0.0
        if len(sample) < 2:
            return 0.0
        towards = self.measure.directions(sample, validation)
        pairs = (towards @ towards.T)[np.triu_indices(len(sample), 1)]
        c = max(0.0, float(np.quantile(pairs, self.quantile)))
        if c > 1.0 - 1e-9:
            how = "all" if pairs.min() > 1.0 - 1e-9 else "equal one another too often, or"
            raise SubmissionError(
                f"the validation rows {how} lie in one direction: the {self.quantile:g} quantile of their similarities "
                "is 1, so coverage cannot tell rows apart; leave out copies, or use a lower quantile, "
                "coverage(similarity=standardised), or, with labels, the utility knn"
            )
        return c

    def directions(self, validation: ValidationRows) -> tuple[Callable[[Features], Features], Features]:
        """Return the map from rows to directions, and the directions of the validation rows."""

        def compute() -> tuple[Callable[[Features], Features], Features]:
            towards = self.measure.towards(validation.features)
            return towards, towards(validation.features)

        return validation.once(self.measure, compute)

    def similarity_range(self, validation: ValidationRows) -> tuple[float, float]:
        """Compute c and C, between which similarity counts. C is 1 if the cap would lie below c."""
        labels = validation.label.tobytes() if self.cap < 1 and self.labels else b""
        key = self.measure, self.quantile, self.cap, labels
        return validation.once(key, lambda: self._compute_range(validation))

    def _compute_range(self, validation: ValidationRows) -> tuple[float, float]:
        c = self.baseline_similarity(validation.features)
        if self.cap == 1:
            return c, 1.0
        rows = _sampled(validation.features)
        towards = self.measure.directions(validation.features[rows] + 0.0, validation.features)
        similar = towards @ towards.T
        np.fill_diagonal(similar, -np.inf)
        if self.labels:
            similar[validation.label[rows][:, None] != validation.label[rows]] = -np.inf
        nearest = similar.max(axis=1, initial=-np.inf)
        nearest = nearest[np.isfinite(nearest)]
        top = float(np.quantile(nearest, self.cap)) if len(nearest) else 1.0
        return c, min(top, 1.0) if top > c + 1e-9 else 1.0

    def describe(self, validation: ValidationRows) -> str:
        """Say in words what covers a validation row: the similarity, and the range in which it counts."""
        c, top = self.similarity_range(validation)
        words = f"{self.measure.describe(validation.features)}, counted from {c:.3f} to {top:.3f}"
        return f"{words}; {self.saturation} units cover a row" if self.saturation > 1 else words


def _sampled(validation: Features) -> Codes:
    """Choose rows evenly from all, by content alone; similarities are measured between these."""
    if len(validation) <= _SAMPLE:
        return np.arange(len(validation))
    distinct = distinct_rows(validation)[0]
    return distinct[np.linspace(0, len(distinct) - 1, min(_SAMPLE, len(distinct))).astype(np.int64)]


@register("learner", "recommended")
@dataclass(frozen=True)
class RecommendedCoverage(Coverage):
    """Value units by coverage as recommended; to be nearer than a typical good unit earns nothing more."""

    title = "recommended coverage"

    quantile: Quantile = 0.9
    similarity: str = "combined"
    cap: Cap = 0.5


RECOMMENDED = "coverage(quantile=0.9, similarity=combined, cap=0.5)"
"""The recommended utility with its settings, as records write it: a later recommendation must not change them."""


@register("learner", "coverage_truncated")
@dataclass(frozen=True)
class CoverageTruncated(Coverage):
    """Value units as coverage does, by the nearest units of each validation row alone; the error is bounded.

    ``nearest``: how many; auto: as few as leave every score ``within`` so much of its exact one.
    """

    title = "truncated coverage"

    nearest: Nearest = "auto"
    within: Within = 0.001


def unit_directions(
    features: Rows, rows: Codes, by: Callable[[Features], Features], hold: bool
) -> Features | Mapped:
    """Return the directions of some rows of a matrix, held, or computed where they are read."""
    stored = features if isinstance(features, LowPrecisionRows) else LowPrecisionRows([features])
    directions = Mapped(stored.take(rows), lambda part: by(part + 0.0))  # -0.0 and 0.0 are equal
    if not hold:
        return directions
    whole = np.empty(directions.shape)
    for at, block in computed_blocks(directions):
        whole[at : at + len(block)] = block
    return whole


def computed_blocks(directions: Features | Mapped) -> Iterator[tuple[int, Features]]:
    """Yield all directions by blocks, computed on all cores."""
    starts = range(0, len(directions), _UNITS)
    blocks = over_blocks(lambda at: directions[at : at + _UNITS], starts, 8 * len(directions))
    return zip(starts, blocks, strict=True)


@dataclass(frozen=True, eq=False)
class LabelGroup:
    """Hold the units and the validation rows of one label, between which similarities are computed.

    A player's similarity is the largest of its units'. ``column`` is the column of each unit, player by player, and
    ``starts`` where each player's units begin; both are None where each player has one unit, and a column of its own.
    """

    row: Codes  # places of the validation rows
    towards: Features  # their directions
    columns: Features | Mapped  # directions of the different units
    player: Codes  # the players that have units here, by their first column
    column: Codes | None
    starts: Codes | None

    @classmethod
    def from_units(
        cls,
        row: Codes,
        towards: Features,
        columns: Callable[[Codes], Features | Mapped],
        place: Codes,
        player: Codes,
    ) -> LabelGroup:
        """Lay out units that are given by their places among different units, rising, and their players."""
        distinct, column = np.unique(place, return_inverse=True)
        players, first, local = np.unique(player, return_index=True, return_inverse=True)
        by_first = np.argsort(first, kind="stable")  # players in the order of their first columns
        if len(players) == len(player) == len(distinct):
            return cls(row, towards, columns(distinct), players[by_first], None, None)
        local = np.argsort(by_first)[local]
        by_player = np.argsort(local, kind="stable")
        single = len(players) == len(player)
        starts = None if single else np.searchsorted(local[by_player], np.arange(len(players)))
        return cls(row, towards, columns(distinct), players[by_first], column[by_player], starts)

    @property
    def pairs(self) -> int:
        """Number of validation rows times players."""
        return len(self.row) * len(self.player)

    def blocks(self) -> list[tuple[int, int]]:
        """Starts and stops of the validation rows that are worth a task each, the same on every machine."""
        if not self.pairs:
            return []
        tasks = min(_TASKS, -(-self.pairs // _TASK_CELLS))
        size = -(-len(self.row) // tasks)
        return [(at, min(at + size, len(self.row))) for at in range(0, len(self.row), size)]

    def tiles(self, start: int, stop: int) -> Iterator[tuple[slice, Features]]:
        """Yield some validation rows at a time and their similarities to all players."""
        size = max(1, min(_TILE, _CELLS // len(self.columns), stop - start))
        for first in range(start, stop, size):
            rows = slice(first, min(first + size, stop))
            similar: Features = np.empty((rows.stop - first, len(self.columns)))
            for at in range(0, len(self.columns), _UNITS):
                units = self.columns[at : at + _UNITS]
                np.matmul(self.towards[rows], units.T, out=similar[:, at : at + len(units)])
            yield rows, self._by_player(similar, HostArrays())

    def _by_player(self, similar: Array, arrays: HostArrays) -> Array:
        if self.column is not None:
            similar = similar[:, arrays.put(self.column)]
        return similar if self.starts is None else arrays.largest_of(similar, self.starts)

    def tiles_on_device(self, arrays: HostArrays) -> Iterator[tuple[slice, Array]]:
        """Yield tiles of all validation rows from a device, which holds all units."""
        units = arrays.empty(len(self.columns), self.towards.shape[1])
        for at, block in computed_blocks(self.columns):
            units[at : at + len(block)] = arrays.put(block)
        size = max(1, _DEVICE_CELLS // max(len(self.columns), len(self.player)))
        for at in range(0, len(self.row), size):
            rows = slice(at, min(at + size, len(self.row)))
            yield rows, self._by_player(arrays.put(self.towards[rows]) @ units.T, arrays)


GroupSums = tuple[Codes, Features, Values]
"""Groups of validation rows, sums over them (groups, players), and how far each row is covered beyond its baseline."""


@dataclass(frozen=True)
class RowValues:
    """Apply the formula to some validation rows; ``decisive`` holds h_1, h_2, ..., and ``top`` is C.

    With ``nearest`` only so many players of a row are paid, above the next one's g; 0: all. ``pairs`` is the number
    of rows and players in all: where it is large, and numba is installed, loops are compiled.
    """

    c: float
    decisive: Values
    pairs: int = 0
    nearest: int = 0
    top: float = 1.0
    saturation: int = 1

    @property
    def compiled(self) -> bool:
        """Whether compiled loops are worth it, and numba is installed."""
        return self.pairs >= _COMPILED_FROM and find_spec("numba") is not None

    def degrees(self, similarity: Values) -> Values:
        """Compute g; below 0 where the similarity is below c."""
        return np.minimum((similarity - self.c) / (self.top - self.c), 1.0)

    def covered(self, similarity: Features, baseline: Values) -> Values:
        """Compute how far players cover each row beyond its baseline."""
        if self.saturation == 1:
            return np.maximum(self.degrees(similarity.max(axis=1, initial=-np.inf)) - baseline, 0.0)
        k = min(self.saturation, similarity.shape[1])
        largest = np.partition(similarity, similarity.shape[1] - k, axis=1)[:, -k:] if k else similarity
        return np.maximum(self.degrees(largest), 0.0).sum(axis=1) / self.saturation

    def add(self, similarity: Features, baseline: Values, slot: Codes, sums: Features) -> Values:
        """Add the players' values on each row to line ``slot`` of ``sums``; return how far rows are covered."""
        if similarity.shape[1] <= _FEW:
            return self.add_arrays(HostArrays(), similarity, baseline, slot, sums)
        covered = self.covered(similarity, baseline)
        if 0 < self.nearest < similarity.shape[1]:
            at = similarity.shape[1] - self.nearest - 1
            following = self.degrees(np.array([np.partition(row, at)[at] for row in similarity]))
            baseline = np.maximum(following, baseline)
        if self.compiled:
            from datamarket_gym.utilities import _coverage_numba

            _coverage_numba.add(similarity, self.c, self.top, baseline, self.decisive, slot, sums)
            return covered
        for i, row in enumerate(similarity):
            players, g = self.rank(row, float(baseline[i]))
            sums[slot[i], players] += self.one_row(g, float(baseline[i]))
        return covered

    def add_arrays(
        self, arrays: HostArrays, similarity: Array, baseline: Values, slot: Codes, sums: Array
    ) -> Values:
        """Add them with whole arrays: sort rows, sum steps between players, and undo the sort."""
        xp = arrays.xp
        least = arrays.put(baseline[:, None])
        g = xp.maximum(xp.clip((similarity - self.c) / (self.top - self.c), None, 1.0), least)
        ranked, order = arrays.sort(g)
        covered = arrays.get((ranked[:, -self.saturation :] - least).sum(1)) / self.saturation
        if 0 < self.nearest < ranked.shape[1]:
            least = ranked[:, -1 - self.nearest, None]
            ranked = xp.maximum(ranked, least)
        steps = ranked - least
        steps[:, 1:] = ranked[:, 1:] - ranked[:, :-1]
        steps *= arrays.put(self.decisive[: steps.shape[1]][::-1].copy())
        # Sequential from the least on: players of equal g get equal values.
        values = arrays.put_back(xp.cumsum(steps, axis=1), order)
        for line in np.unique(slot).tolist():
            sums[line] += values[arrays.put(np.flatnonzero(slot == line))].sum(0)
        return covered

    def rank(self, similarity: Values, baseline: float) -> tuple[Codes, Values]:
        """Return the players of one row above c and the baseline, and their g, from the least on."""
        if self.compiled:
            from datamarket_gym.utilities import _coverage_numba

            return _coverage_numba.rank(similarity, self.c, self.top, baseline)
        above = np.flatnonzero(similarity > self.c)
        g = self.degrees(similarity[above])
        above, g = above[g > baseline], g[g > baseline]
        order = np.argsort(g)
        return above[order], g[order]

    def one_row(self, g: Values, baseline: float) -> Values:
        """Compute phi of the players of one validation row, from the least g on."""
        return np.cumsum(np.diff(g, prepend=baseline) * self.decisive[: len(g)][::-1])


class CoverageScorer(Scorer):
    """Value players by the validation rows they cover, from blocks of similarities that are not held."""

    def __init__(
        self,
        utility: Coverage,
        rows: TrainingRows,
        validation: ValidationRows,
        background: TrainingRows | None = None,
    ) -> None:
        super().__init__(rows, validation)
        self._utility, self._rows, self._validation = utility, rows, validation
        self._range = utility.similarity_range(validation)
        n = len(validation.label)
        self.baseline = np.zeros(n)
        self._given = background is not None
        # Results of the last pass over all similarities: weights, each player's sum, and how far rows are covered.
        self._last: tuple[Values, Values, Values] | None = None
        first, place = distinct_rows(rows.features)
        counted = np.ones(len(place), dtype=bool)
        if background is not None:
            self.baseline = utility.covered(background, validation)
            counted = ~acquired_already(rows, background, utility.labels)
        by, towards = utility.directions(validation)
        hold = len(first) * towards.shape[1] * 8 <= compute().bytes // 4

        def columns(distinct: Codes) -> Features | Mapped:
            return unit_directions(rows.features, first[distinct], by, hold)

        order = np.argsort(place, kind="stable")
        order = order[counted[order]]
        members = [(order, np.arange(n))]
        if utility.labels:
            members = [
                (order[rows.label[order] == code], np.flatnonzero(validation.label == code))
                for code in np.unique(validation.label)
            ]
        self.label_groups = [
            LabelGroup.from_units(row, towards[row], columns, place[units], rows.player[units])
            for units, row in members
        ]

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        baseline, n = self.baseline, len(self.baseline)
        if not self._given:
            self.count_rows(coalitions)
            if self.n_players == 1 and self._utility.saturation == 1:
                covered = self._utility.covered(self._rows, self._validation)
                return np.full(len(coalitions), covered.mean())
        if self._last is not None and coalitions.all():
            return np.full(len(coalitions), (baseline + self._last[2]).mean())
        values = self.row_values(np.empty(0))

        def covered_beyond(group: LabelGroup, start: int, stop: int) -> Values:
            total = np.zeros(len(coalitions))
            inside = coalitions[:, group.player]
            for rows, similar in group.tiles(start, stop):
                least = baseline[group.row[rows]]
                for b, members in enumerate(inside):
                    total[b] += values.covered(similar[:, members], least).sum()
            return total

        total = np.full(len(coalitions), baseline.sum())
        for _, _, beyond in self.answers(covered_beyond):
            total += beyond
        return total / n

    def closed_form(self, semivalue: Semivalue, empty_value: float) -> Values | None:
        weights = semivalue.size_weights(self.n_players)
        if self._last is None or not np.array_equal(self._last[0], weights):
            all_rows = np.zeros(len(self.baseline), dtype=np.int64)
            if self.closed_form_by_group(semivalue, empty_value, all_rows) is None:
                return None
        assert self._last is not None
        return self._less_empty(self._last[1] / len(self.baseline), weights, empty_value)

    def closed_form_by_group(
        self, semivalue: Semivalue, empty_value: float, group: Codes
    ) -> Values | None:
        """Compute semivalues on each group of validation rows alone.

        The sums over all rows are cached with it, for a call of `closed_form` that follows.
        """
        n = self.n_players
        weights = semivalue.size_weights(n)
        if n > MAX_PLAYERS_ANY_WEIGHTS and not is_uniform(weights):
            return None
        by_group, covered = np.zeros((int(group.max()) + 1, n)), np.zeros_like(self.baseline)
        for part, rows, sums in self._group_sums(self.decisive(weights), group):
            groups, values, covered[part.row[rows]] = sums
            for number, line in zip(groups.tolist(), values, strict=True):
                by_group[number, part.player] += line
        self._last = weights, by_group.sum(axis=0), covered
        return self._less_empty(by_group / np.bincount(group)[:, None], weights, empty_value)

    def _group_sums(
        self, decisive: Values, group: Codes
    ) -> Iterator[tuple[LabelGroup, slice, GroupSums]]:
        """Yield the sums of blocks of validation rows; on a GPU a block is all rows of a label."""
        if compute().device == "cpu":
            yield from self.answers(self.block_sums(decisive, group))
            return
        arrays, values = arrays_of(compute().device), self.row_values(decisive)
        for part in self.label_groups:
            if not part.pairs:
                continue
            groups, slot = np.unique(group[part.row], return_inverse=True)
            sums, covered = arrays.put(np.zeros((len(groups), len(part.player)))), []
            for rows, similar in part.tiles_on_device(arrays):
                least = self.baseline[part.row[rows]]
                covered.append(values.add_arrays(arrays, similar, least, slot[rows], sums))
            yield part, slice(0, len(part.row)), (groups, arrays.get(sums), np.concatenate(covered))

    def block_sums(self, decisive: Values, group: Codes) -> Callable[[LabelGroup, int, int], GroupSums]:
        """Return the function that sums the players' values over a block of validation rows, by group of rows."""
        values, baseline = self.row_values(decisive), self.baseline

        def sums_of(part: LabelGroup, start: int, stop: int) -> GroupSums:
            groups, slot = np.unique(group[part.row[start:stop]], return_inverse=True)
            sums, covered = np.zeros((len(groups), len(part.player))), np.zeros(stop - start)
            for rows, similar in part.tiles(start, stop):
                local = slice(rows.start - start, rows.stop - start)
                covered[local] = values.add(similar, baseline[part.row[rows]], slot[local], sums)
            return groups, sums, covered

        return sums_of

    def row_values(self, decisive: Values) -> RowValues:
        cut = self._truncation(decisive)
        pairs = sum(part.pairs for part in self.label_groups)
        c, top = self._range
        nearest = 0 if cut is None else cut.nearest
        return RowValues(c, decisive, pairs, nearest, top, self._utility.saturation)

    def truncated(self, semivalue: Semivalue) -> Truncated | None:
        return self._truncation(self.decisive(semivalue.size_weights(self.n_players)))

    def decisive(self, weights: Values) -> Values:
        return decisive_probabilities(weights, self._utility.saturation)

    def _truncation(self, decisive: Values) -> Truncated | None:
        """Return the number of units requested, or that the bound needs; None where no row has more."""
        if not isinstance(self._utility, CoverageTruncated) or not len(decisive):
            return None
        off = decisive * float(np.mean(1.0 - self.baseline))  # of T = 0..N-1, falling
        few = self._utility.nearest
        if isinstance(few, str):
            few = max(1, int((off > self._utility.within).sum()))
        most = max(len(part.player) for part in self.label_groups)
        return Truncated(few, float(off[few])) if few < min(most, len(off)) else None

    def _less_empty(self, mean: Values, weights: Values, empty_value: float) -> Values:
        return mean if self._given else mean - weights[0] * empty_value

    def answers(
        self, work: Callable[[LabelGroup, int, int], T]
    ) -> Iterator[tuple[LabelGroup, slice, T]]:
        """Yield the result of ``work`` for each block of validation rows, given by its label, start and stop."""
        parts = self.label_groups  # the payload of the work
        blocks = [(i, *block) for i, part in enumerate(parts) for block in part.blocks()]
        cells = sum(part.pairs for part in parts)

        def block(at: tuple[int, int, int]) -> T:
            return work(parts[at[0]], at[1], at[2])

        for (i, start, stop), answer in zip(blocks, over_blocks(block, blocks, cells), strict=True):
            yield parts[i], slice(start, stop), answer


class _PlayersOfUnits(Scorer):
    """Score coalitions of players with several units each, by the scorer of single units."""

    def __init__(self, units: CoverageScorer, rows: TrainingRows, validation: ValidationRows) -> None:
        super().__init__(rows, validation)
        self._units, self._player = units, rows.player

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        return self._units.utility(coalitions[:, self._player])


def acquired_already(rows: TrainingRows, background: TrainingRows, labels: bool) -> NDArray[np.bool_]:
    """Return which rows equal a row of the background, in their labels too where these count."""
    if not labels:
        return among(rows.features, background.features)
    out = np.zeros(len(rows.label), dtype=bool)
    for code in np.intersect1d(rows.label, background.label):
        at = np.flatnonzero(rows.label == code)
        out[at] = among(in_order(rows.features, at), background.features, background.label == code)
    return out


@dataclass(frozen=True, eq=False)
class CoveredRows:
    """Hold the validation rows that each player covers, how well, and the part of its value from each.

    Row z brings player j part = (1/n) sum over i >= j of (g_i - g_{i+1}) h_i; the parts of a player sum to its value.
    ``row``, ``degree``, ``part`` and ``place`` are (players, most), the largest part first, of equal ones those of the
    first rows; a row of -1 is none. ``counts`` and ``groups`` are (3, players) and (3, groups of players): how many
    rows they cover at all, cover well, and cover as well as the best player.
    """

    covered: Values  # of each validation row: the largest g, at least the baseline
    baseline: Values
    players: Codes  # how many cover it beyond the baseline
    well: Codes  # how many cover it well
    nearest: Codes  # the first player of the largest g; -1 where no player covers it
    value: Values  # of each player: the sum of its parts
    counts: Codes
    groups: Codes
    row: Codes
    degree: Values  # g
    part: Values
    place: Codes  # 1 where no player is nearer to the row

    @classmethod
    def none(cls, baseline: Values, n: int, most: int, n_groups: int) -> CoveredRows:
        """Start with validation rows that no player covers, and n players without parts."""
        none, empty = np.zeros(len(baseline), dtype=np.int64), np.zeros((n, most))
        return cls(
            covered=baseline.copy(),
            baseline=baseline,
            players=none,
            well=none.copy(),
            nearest=none - 1,
            value=np.zeros(n),
            counts=np.zeros((3, n), dtype=np.int64),
            groups=np.zeros((3, n_groups), dtype=np.int64),
            row=np.full((n, most), -1),
            degree=empty,
            part=empty.copy(),
            place=np.zeros((n, most), dtype=np.int64),
        )

    def join(self, block: CoveredRows, rows: Codes, players: Codes) -> None:
        """Add the report of some later validation rows and their players."""
        for name in ("covered", "players", "well"):
            getattr(self, name)[rows] = getattr(block, name)
        self.nearest[rows] = np.where(block.nearest < 0, -1, players[block.nearest])
        self.value[players] += block.value
        self.counts[:, players] += block.counts
        self.groups[:] += block.groups
        parts = ("row", "degree", "part", "place")
        both = {n: np.concatenate([getattr(self, n)[players], getattr(block, n)], axis=1) for n in parts}
        order = np.lexsort((both["row"], -both["part"]), axis=1)[:, : self.part.shape[1]]
        for name in parts:
            getattr(self, name)[players] = np.take_along_axis(both[name], order, axis=1)


def covered_rows(
    scorer: CoverageScorer, semivalue: Semivalue, most: int, player: Codes, group: Codes, n_groups: int
) -> CoveredRows:
    """Report the parts of all players, at most ``most`` for each; ``player[i]`` is of ``group[i]``."""
    n, baseline = scorer.n_players, scorer.baseline
    values = scorer.row_values(scorer.decisive(semivalue.size_weights(n)))

    def of_block(part: LabelGroup, start: int, stop: int) -> CoveredRows:
        local = np.full(n, -1)  # place of each player in the block
        local[part.player] = np.arange(len(part.player))
        member = np.flatnonzero(local[player] >= 0)
        member = member[np.argsort(group[member], kind="stable")]
        members, (present, first_of) = local[player[member]], np.unique(group[member], return_index=True)
        report = CoveredRows.none(baseline[part.row[start:stop]], len(part.player), most, n_groups)
        least, rank = np.zeros(len(part.player)), np.zeros(len(part.player), dtype=np.int32)
        for rows, similar in part.tiles(start, stop):
            for i, row in enumerate(similar, rows.start - start):
                covering, g = values.rank(row, float(report.baseline[i]))
                if not len(covering):
                    continue
                paid = values.one_row(g, float(report.baseline[i]))
                report.value[covering] += paid
                levels = np.searchsorted(g, [0.0, WELL, g[-1]])  # ranks beyond which rows count
                report.covered[i], report.nearest[i] = g[-1], covering[levels[2] :].min()
                report.players[i], report.well[i] = len(g), len(g) - levels[1]
                rank[:] = 0  # of players that do not cover the row
                rank[covering] = np.arange(1, len(covering) + 1)
                report.counts[:] += rank > levels[:, None]
                if len(present):
                    highest = np.maximum.reduceat(rank[members], first_of)
                    report.groups[:, present] += highest > levels[:, None]
                # Store the parts that are larger than the least stored so far: few, after the first rows.
                at = np.flatnonzero(paid > least[covering])
                larger = covering[at]
                slot = report.part[larger].argmin(axis=1)
                report.row[larger, slot], report.part[larger, slot] = part.row[start + i], paid[at]
                report.degree[larger, slot] = g[at]
                report.place[larger, slot] = len(g) - np.searchsorted(g, g[at], side="right") + 1
                least[larger] = report.part[larger].min(axis=1)
        return report

    report = CoveredRows.none(baseline, n, most, n_groups)
    for part, rows, block in scorer.answers(of_block):
        report.join(block, part.row[rows], part.player)
    for sums in (report.value, report.part):
        sums /= len(baseline)
    return report
