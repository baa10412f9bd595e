"""What rows that are always there cover of each validation row: the floor above which others are paid.

It is worked out once for a background and validation rows: a payday asks for it at every scoring, audits and
experiments at every trial. It is remembered for as long as somebody holds the background's rows, which cannot be
written to.

Coverage: how well units cover the validation rows, with semivalues in closed form.

g(z, u) = max(0, s(z, u) - c) / (1 - c) where the labels of validation row z and unit u agree (or labels do not
count, or are missing), else 0, with s their similarity and c that of strangers: a quantile of the similarities between
validation rows, at least 0. U(S) is the mean over z of the largest g(z, u), u in S. A row of weight w
stands for w copies of it, and copies cover nothing more: weights change nothing.

One validation row, players 1..N by falling g (of a player's rows the largest), g_{N+1} = 0. At a level between
g_{i+1} and g_i the game asks whether anybody of the first i is there; a player among them decides it if no other
of them is in S, with probability h_i = P(S misses i - 1 fixed players), so

    phi_j = sum over i >= j of (g_i - g_{i+1}) h_i,      h_i = sum over s of q_s C(N-i, s) / C(N-1, s)

for the law q of coalition sizes; h_i = 1/i for the Shapley value. Only players above c count for a row. What follows
for splitting, withholding and adding is proved in docs/theory/coverage.md.

Given rows P that are always there, max(g, g_P) - g_P = max(0, g - g_P) with g_P(z) the largest g over P: a floor for
each validation row. Players above the floor play as before, between it and the largest g: g_{N+1} = g_P. A unit that
is in P, number for number, adds nothing; so that no rounding says otherwise, it is left out.

Coverage valued from the nearest T units of each validation row, with a bound on what that changes.

In `coverage` phi_j = sum over i >= j of (g_i - g_{i+1}) h_i, players by falling g, the floor last. No h_i is larger
than the one before, so what a row is worth below the level g_{T+1} is, to any player,

    0 <= sum over i >= max(j, T+1) of (g_i - g_{i+1}) h_i <= (g_{T+1} - floor) h_{T+1} <= (1 - floor) h_{T+1}.

That is left out: the floor of each row is raised to g_{T+1}. Who covers it no more than that earns nothing on it, the T
before are paid between that level and their own, and only they are put in order. Every score is too low, by at most
h_{T+1} times the mean over validation rows of 1 - floor: 1 / (T+1) for the Shapley value without prior art.

The level depends on all units, so what is proved of coverage (splitting, withholding and adding do not pay) holds of
truncated scores only up to that bound. Coalitions, and who covers which rows, are answered as by `coverage`.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import SubmissionError
from datamarket_gym.execution.arrays import (
    CoalitionMatrix,
    Codes,
    Features,
    Values,
    highest_cosines,
    in_order,
)
from datamarket_gym.execution.parallel import compute, over_blocks
from datamarket_gym.games.semivalues import Nearest, Semivalue, Truncated, Within
from datamarket_gym.registry import Range, register
from datamarket_gym.utilities.accelerators import arrays_of
from datamarket_gym.utilities.base import (
    MAX_PLAYERS_ANY_LAW,
    Scorer,
    Target,
    TrainingRows,
    UtilityFunction,
    ValidationRows,
    among,
    check_coalitions,
    check_rows,
    distinct_rows,
    is_uniform,
    rows_per_player,
)
from datamarket_gym.utilities.coverage_rows import Covers, Part, Sums, UnitColumns, deciding, part_of
from datamarket_gym.utilities.similarity import SIMILARITIES, compared_by

_MOST = 8
_remembered: list[tuple[weakref.ref[Features], str, Values]] = []


def highest_similarities(
    background: TrainingRows,
    validation: ValidationRows,
    labels: bool,
    settings: str,
    towards: Callable[[Features], Features],
) -> Values:
    """Of each validation row the highest similarity with a row of the background, of its label if ``labels`` count.

    -1 where there is none. ``settings`` tells one way of making directions (``towards``) from another.
    """
    theirs = background.features
    if not isinstance(theirs, np.ndarray) or theirs.flags.writeable:  # they may be others the next time
        return _worked_out(background, validation, labels, towards)
    key = hashlib.sha256(repr((settings, labels, background.features.shape)).encode())
    for part in (background.label, validation.label, validation.features):
        key.update(np.ascontiguousarray(part).tobytes())
    name = key.hexdigest()
    for rows, known, found in _remembered:
        if known == name and rows() is background.features:
            return found
    found = _worked_out(background, validation, labels, towards)
    found.flags.writeable = False
    alive = [each for each in _remembered if each[0]() is not None]
    _remembered[:] = [*alive[1 - _MOST :], (weakref.ref(background.features), name, found)]
    return found


def _worked_out(
    background: TrainingRows,
    validation: ValidationRows,
    labels: bool,
    towards: Callable[[Features], Features],
) -> Values:
    held = towards(validation.features)
    if not labels:
        return highest_cosines(held, background.features, towards)
    out = np.full(len(held), -1.0)
    for code in np.unique(validation.label):
        mine, theirs = validation.label == code, np.flatnonzero(background.label == code)
        out[mine] = highest_cosines(held[mine], background.features, towards, theirs)
    return out


T = TypeVar("T")

_STRANGERS = 2000  # validation rows among which the similarity of strangers is measured


@register("learner", "coverage")
@dataclass(frozen=True)
class Coverage(UtilityFunction):
    """Value units by how well they cover the validation rows of their label; nothing is trained."""

    title = "coverage"

    quantile: Annotated[
        float,
        Range(0, 1),
        "what counts as near; similarity counts beyond this quantile of those between validation rows",
    ] = 0.5
    labels: Annotated[bool, "labels count"] = True
    similarity: str = "auto"
    has_closed_form: ClassVar[bool] = True
    paid_from: ClassVar[str] = "none"
    target: ClassVar[Target] = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        SIMILARITIES.create(self.similarity)

    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> CoverageScorer:
        """Check and order the rows once."""
        check_rows(rows, validation)
        return self.of_rows(rows, validation, None)

    def scorer_given(
        self, rows: TrainingRows, background: TrainingRows, validation: ValidationRows
    ) -> CoverageScorer:
        """The same above what the background covers."""
        check_rows(rows, validation)
        if background.highest is None:
            check_rows(background, validation)
        return self.of_rows(rows, validation, background)

    def of_rows(
        self, rows: TrainingRows, validation: ValidationRows, background: TrainingRows | None
    ) -> CoverageScorer:
        """A scorer of rows that were checked."""
        return CoverageScorer(self, rows, validation, background)

    def compared(self, rows: Features, validation: Features) -> Features:
        """The directions of the similarity; the rows as they are where it is their own cosine."""
        return self.comparing(validation)(rows)

    def comparing(self, validation: Features) -> Callable[[Features], Features]:
        """The same as a function of rows alone."""
        return compared_by(SIMILARITIES.create(self.similarity), validation)

    def covered(self, rows: TrainingRows, validation: ValidationRows) -> Values:
        """The largest g of each validation row where all the rows are there."""
        nearest = self.highest(rows, validation) if rows.highest is None else rows.highest
        c = self.strangers(validation.features)
        return np.clip((nearest - c) / (1.0 - c), 0.0, 1.0)

    def highest(self, rows: TrainingRows, validation: ValidationRows) -> Values:
        """The highest similarity of each validation row with any of the rows, of its label where labels count."""
        towards = SIMILARITIES.create(self.similarity).towards(validation.features)
        return highest_similarities(rows, validation, self.labels, self.similarity, towards)

    def strangers(self, validation: Features) -> float:
        """c: the quantile of the similarities between validation rows, at least 0."""
        n = len(validation)
        if n > _STRANGERS:  # evenly of all, in an order that depends on content alone
            distinct = distinct_rows(validation)[0]
            take = np.linspace(0, len(distinct) - 1, min(_STRANGERS, len(distinct))).astype(np.int64)
            sample, n = validation[distinct[take]] + 0.0, len(take)
        else:
            sample = validation
        if n < 2:
            return 0.0
        towards = SIMILARITIES.create(self.similarity).directions(sample, validation)
        pairs = (towards @ towards.T)[np.triu_indices(n, 1)]
        c = max(0.0, float(np.quantile(pairs, self.quantile)))
        if c > 1.0 - 1e-9:
            raise SubmissionError(
                f"the validation rows all lie in one direction: the {self.quantile:g} quantile of their similarities "
                "is 1, so coverage cannot tell rows apart; use a lower quantile, coverage(similarity=standardised), "
                "or, with labels, the learner knn"
            )
        return c


@dataclass(frozen=True, eq=False)
class _Summed:
    """What one look at all similarities gave: sums over all validation rows, not yet divided."""

    law: Values
    total: Values  # of each player, by that law
    most: Values  # of each validation row: how far the players together cover it above the floor


class CoverageScorer(Scorer):
    """For each validation row the players that cover it, from blocks of similarities that are not kept."""

    def __init__(
        self,
        learner: Coverage,
        rows: TrainingRows,
        validation: ValidationRows,
        background: TrainingRows | None = None,
    ) -> None:
        self._learner, self._rows, self._validation = learner, rows, validation
        self._rows_of = rows_per_player(rows)
        self._c = learner.strangers(validation.features)
        self._n_validation = n = len(validation.label)
        self.floor = np.zeros(n)
        self._given = background is not None
        self._summed: _Summed | None = None
        first, place = distinct_rows(rows.features)
        counted = np.ones(len(place), dtype=bool)
        if background is not None:
            self.floor = learner.covered(background, validation)
            counted = ~bought(rows, background, learner.labels)
        by = SIMILARITIES.create(learner.similarity).towards(validation.features)
        towards = by(validation.features)
        keep = len(first) * towards.shape[1] * 8 <= compute().bytes // 4

        def columns(known: Codes) -> UnitColumns:
            return UnitColumns(rows.features, first[known], by, keep)

        order = np.argsort(place, kind="stable")
        order = order[counted[order]]
        members = [(order, np.arange(n))]
        if learner.labels:
            members = [
                (order[rows.label[order] == code], np.flatnonzero(validation.label == code))
                for code in np.unique(validation.label)
            ]
        self._parts = [
            part_of(row, towards[row], columns, place[mine], rows.player[mine]) for mine, row in members
        ]

    @property
    def n_players(self) -> int:
        """How many players there are."""
        return len(self._rows_of)

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        """U of each coalition."""
        total = np.full(len(coalitions), self._sum(self.floor))
        if not self._given:
            check_coalitions(coalitions, self._rows_of)
            if len(self._rows_of) == 1:
                total[:] = self._sum(self._learner.covered(self._rows, self._validation))
                return total / self._n_validation
        if self._summed is not None and coalitions.all():  # who covers a row most is there
            return np.full(len(coalitions), self._sum(self._summed.most, total[:1]) / self._n_validation)
        covers, floor = self.covers(np.empty(0)), self.floor

        def best(part: Part, start: int, stop: int) -> Features:
            """How far each validation row is covered beyond the floor, in a line each."""
            out, each = np.zeros((stop - start, len(coalitions))), np.arange(len(coalitions))
            for rows, similar in part.tiles(start, stop):
                for i, (z, row) in enumerate(zip(part.row[rows].tolist(), similar, strict=True)):
                    who, g = covers.ranked(row, float(floor[z]))
                    if len(who):
                        inside = coalitions[:, part.player[who[::-1]]]  # who covers most comes first
                        first = inside.argmax(axis=1)
                        found = np.where(inside[each, first], g[::-1][first] - floor[z], 0.0)
                        out[rows.start - start + i] = found
            return out

        for _, _, found in self.answers(best):
            for line in found:
                total += line
        mean: Values = total / self._n_validation
        return mean

    def _sum(self, g: Values, start: Values | None = None) -> float:
        """The sum over validation rows, one after the other in the order in which coalitions are summed."""
        each = g[np.concatenate([part.row for part in self._parts])]
        return float(np.cumsum(each if start is None else np.concatenate([start, each]))[-1])

    def closed_form(self, semivalue: Semivalue, empty_value: float) -> Values | None:
        """Exact semivalues, for any law of coalition sizes."""
        law = semivalue.size_law(len(self._rows_of))
        if self._summed is None or not np.array_equal(self._summed.law, law):
            everything = np.zeros(self._n_validation, dtype=np.int64)
            found = self.closed_form_by_group(semivalue, empty_value, everything)
            return None if found is None else found[0]
        return self._counted(self._summed.total / self._n_validation, law, empty_value)

    def closed_form_by_group(
        self, semivalue: Semivalue, empty_value: float, group: Codes
    ) -> Values | None:
        """The same on each group of validation rows alone.

        The sums over all rows come with it, and are kept: whoever asks for both asks for the groups first.
        """
        n = len(self._rows_of)
        law = semivalue.size_law(n)
        if n > MAX_PLAYERS_ANY_LAW and not is_uniform(law):
            return None
        by_group = np.zeros((int(group.max()) + 1, n))
        total = by_group[0] if len(by_group) == 1 else np.zeros(n)
        summed = _Summed(law, total, np.zeros_like(self.floor))
        for part, rows, found in self._sums(deciding(law), group):
            summed.most[part.row[rows]] = found.most
            total[part.player] += found.total
            if len(by_group) > 1:
                for number, line in zip(found.groups.tolist(), found.by_group, strict=True):
                    by_group[number, part.player] += line
        self._summed = summed
        return self._counted(by_group / np.bincount(group)[:, None], law, empty_value)

    def _sums(self, decides: Values, group: Codes) -> Iterator[tuple[Part, slice, Sums]]:
        """The sums of blocks of validation rows, in order; on a GPU a block is a part."""
        if compute().device == "cpu":
            yield from self.answers(self.summing(decides, group))
            return
        from datamarket_gym.utilities._coverage_device import DeviceSums

        device = DeviceSums(self.covers(decides), self.floor, group, arrays_of(compute().device))
        for part in self._parts:
            if part.pairs:
                yield part, slice(0, len(part.row)), device.of(part)

    def summing(self, decides: Values, group: Codes) -> Callable[[Part, int, int], Sums]:
        """What some validation rows of a part bring its players; of each group of rows where there are several."""
        covers, floor, several = self.covers(decides), self.floor, bool(group.any())

        def sums(part: Part, start: int, stop: int) -> Sums:
            places = part.row[start:stop]
            groups, slot = np.unique(group[places], return_inverse=True)
            if not several:
                groups = groups[:0]
            total, by_group = np.zeros(len(part.player)), np.zeros((len(groups), len(part.player)))
            most = np.concatenate(
                [
                    covers.add(
                        similar, floor[part.row[rows]], slot[rows.start - start :], total, by_group
                    )
                    for rows, similar in part.tiles(start, stop)
                ]
            )
            return Sums(total, groups, by_group, most)

        return sums

    def covers(self, decides: Values) -> Covers:
        """From where on players cover a row, and what decides there: h_1, h_2, ..."""
        return Covers(self._c, decides, sum(part.pairs for part in self._parts))

    def _counted(self, mean: Values, law: Values, empty_value: float) -> Values:
        """Values from U(empty) on."""
        return mean if self._given else mean - law[0] * empty_value

    def answers(self, work: Callable[[Part, int, int], T]) -> Iterator[tuple[Part, slice, T]]:
        """What ``work`` says of each block of validation rows, given by its part, its start and its stop."""
        parts = self._parts  # all that travels with the work
        blocks = [(i, *block) for i, part in enumerate(parts) for block in part.blocks()]
        cells = sum(part.pairs for part in parts)

        def block(at: tuple[int, int, int]) -> T:
            return work(parts[at[0]], at[1], at[2])

        for (i, start, stop), found in zip(blocks, over_blocks(block, blocks, cells), strict=True):
            yield parts[i], slice(start, stop), found


def bought(rows: TrainingRows, background: TrainingRows, labels: bool) -> NDArray[np.bool_]:
    """Which rows are, number for number, rows of the background, of their label where labels count."""
    if not labels:
        return among(rows.features, background.features)
    out = np.zeros(len(rows.label), dtype=bool)
    for code in np.intersect1d(rows.label, background.label):
        mine = np.flatnonzero(rows.label == code)
        out[mine] = among(in_order(rows.features, mine), background.features, background.label == code)
    return out


@register("learner", "coverage_truncated")
@dataclass(frozen=True)
class CoverageTruncated(Coverage):
    """Value units as coverage does, by the nearest units of each validation row alone; the error is bounded.

    ``nearest``: how many; auto: as few as leave every score ``within`` so much of its exact one.
    """

    title = "truncated coverage"

    nearest: Nearest = "auto"
    within: Within = 0.001

    def of_rows(
        self, rows: TrainingRows, validation: ValidationRows, background: TrainingRows | None
    ) -> CoverageTruncatedScorer:
        """A scorer of rows that were checked."""
        return CoverageTruncatedScorer(self, rows, validation, background)


class CoverageTruncatedScorer(CoverageScorer):
    """Values from the nearest units; where that are all, as `coverage` has them."""

    def __init__(
        self,
        learner: CoverageTruncated,
        rows: TrainingRows,
        validation: ValidationRows,
        background: TrainingRows | None = None,
    ) -> None:
        super().__init__(learner, rows, validation, background)
        self._nearest, self._within = learner.nearest, learner.within

    def truncated(self, semivalue: Semivalue) -> Truncated | None:
        """How many units are looked at, and how far off a score can be."""
        return self._cut(deciding(semivalue.size_law(self.n_players)))

    def covers(self, decides: Values) -> Covers:
        """From where on players cover a row, what decides there, and how many are looked at."""
        cut = self._cut(decides)
        return replace(super().covers(decides), nearest=0 if cut is None else cut.nearest)

    def _cut(self, decides: Values) -> Truncated | None:
        """As many units as are asked for, or as the bound needs; none where no row has more."""
        off = decides * float(np.mean(1.0 - self.floor))  # of T = 0..N-1, falling
        few = self._nearest
        if isinstance(few, str):
            few = max(1, int((off > self._within).sum()))
        most = max(len(part.player) for part in self._parts)
        return Truncated(few, float(off[few])) if few < min(most, len(off)) else None
