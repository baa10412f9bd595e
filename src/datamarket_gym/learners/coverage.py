"""Coverage: how well units cover the validation rows, with semivalues in closed form.

g(z, u) = max(0, s(z, u) - c) / (1 - c) where the labels of validation row z and unit u agree (or labels do not
count, or are missing), else 0, with s their similarity and c that of strangers: a quantile of the similarities between
validation rows, at least 0. U(S) is the mean over z of the largest g(z, u), u in S. A row of weight w
stands for w copies of it, and copies cover nothing more: weights change nothing.

One validation row, players 1..N by falling g (of a player's rows the largest), g_{N+1} = 0. At a level between
g_{i+1} and g_i the game asks whether anybody of the first i is there; a player among them decides it if no other
of them is in S, with probability h_i = P(S misses i - 1 fixed players), so

    phi_j = sum over i >= j of (g_i - g_{i+1}) h_i,      h_i = sum over s of q_s C(N-i, s) / C(N-1, s)

for the law q of coalition sizes; h_i = 1/i for the Shapley value. Only players above c count for a row. What follows
for splitting, withholding and adding is proved in docs/coverage.md.

Given rows P that are always there, max(g, g_P) - g_P = max(0, g - g_P) with g_P(z) the largest g over P: a floor for
each validation row. Players above the floor play as before, between it and the largest g: g_{N+1} = g_P. A unit that
is in P, number for number, adds nothing; so that no rounding says otherwise, it is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from datamarket_gym.core.arrays import CoalitionMatrix, Codes, Features, Values
from datamarket_gym.core.blocks import over_blocks, spans
from datamarket_gym.core.errors import SubmissionError, require_in
from datamarket_gym.core.registry import register
from datamarket_gym.learners.base import (
    Learner,
    Scorer,
    Target,
    TrainingRows,
    ValidationRows,
    check_coalitions,
    check_rows,
    content_order,
    rows_per_player,
)
from datamarket_gym.learners.distinct import among, distinct_rows
from datamarket_gym.learners.floor import highest_similarities
from datamarket_gym.learners.similarity import SIMILARITIES, compared_by
from datamarket_gym.learners.size_laws import MAX_PLAYERS_ANY_LAW, is_uniform

if TYPE_CHECKING:
    from datamarket_gym.games.semivalue import Semivalue

T = TypeVar("T")

_STRANGERS = 2000  # validation rows among which the similarity of strangers is measured


@register("learner", "coverage")
@dataclass(frozen=True)
class Coverage(Learner):
    """How well units cover the validation rows of their label; exact semivalues without any fit."""

    quantile: float = 0.5
    labels: bool = True
    similarity: str = "auto"
    has_closed_form: ClassVar[bool] = True
    paid_from: ClassVar[str] = "none"
    target: ClassVar[Target] = "none"

    def __post_init__(self) -> None:
        require_in("quantile", self.quantile, 0.0, 1.0)
        SIMILARITIES.create(self.similarity)

    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> CoverageScorer:
        """Check and order the rows once."""
        check_rows(rows, validation)
        return CoverageScorer(self, rows, validation)

    def scorer_given(
        self, rows: TrainingRows, background: TrainingRows, validation: ValidationRows
    ) -> CoverageScorer:
        """The same above what the background covers."""
        check_rows(rows, validation)
        if background.highest is None:
            check_rows(background, validation)
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
class _Class:
    """The units and the validation rows of one label: similarities are asked for within it alone."""

    columns: Features  # directions of the distinct units, in content order
    column: Codes  # of each unit
    player: Codes
    row: Codes  # places of the validation rows
    towards: Features  # their directions

    def similarities(self, start: int, stop: int) -> Values:
        """Of some validation rows to all units; equal units have equal ones, to the last bit."""
        found: Values = self.towards[start:stop] @ self.columns.T
        return found if len(self.columns) == len(self.column) else found[:, self.column]


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
        similarity = SIMILARITIES.create(learner.similarity)
        self._learner, self._rows, self._validation = learner, rows, validation
        self._rows_of = rows_per_player(rows)
        self._single = bool((self._rows_of <= 1).all())
        self._c = learner.strangers(validation.features)
        self._n_validation = n = len(validation.label)
        distinct, place = distinct_rows(rows.features)
        order = content_order(rows, place)
        units = similarity.directions(rows.features[distinct] + 0.0, validation.features)
        towards = similarity.directions(validation.features, validation.features)
        parts = [(np.argsort(place, kind="stable"), np.arange(n))]  # as the distinct units come
        if learner.labels:
            parts = [
                (order[rows.label[order] == code], np.flatnonzero(validation.label == code))
                for code in np.unique(validation.label)
            ]
        self.floor = np.zeros(n)
        self._given = background is not None
        if background is not None:
            self.floor = learner.covered(background, validation)
        self._summed: _Summed | None = None
        self._classes = []
        for mine, row in parts:
            if background is not None:
                same = background.label == validation.label[row[0]] if learner.labels else None
                mine = mine[~among(rows.features[mine], background.features, same)]
            known, column = np.unique(place[mine], return_inverse=True)
            self._classes.append(_Class(units[known], column, rows.player[mine], row, towards[row]))

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
        each = np.arange(len(coalitions))

        def best(z: int, player: Codes, g: Values) -> Values:
            inside = coalitions[:, player[::-1]]  # who covers most comes first
            first = inside.argmax(axis=1)
            return np.where(inside[each, first], g[::-1][first] - self.floor[z], 0.0)

        for _, found in self.answers(best):
            total += found
        mean: Values = total / self._n_validation
        return mean

    def _sum(self, g: Values, start: Values | None = None) -> float:
        """The sum over validation rows, one after the other in the order in which coalitions are summed."""
        each = g[np.concatenate([part.row for part in self._classes])]
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
        decides = deciding(law)

        def values(z: int, player: Codes, g: Values) -> tuple[Codes, Values, float]:
            return player, row_values(g, float(self.floor[z]), decides), float(g[-1] - self.floor[z])

        by_group = np.zeros((int(group.max()) + 1, n))
        summed = _Summed(
            law, by_group[0] if len(by_group) == 1 else np.zeros(n), np.zeros_like(self.floor)
        )
        for z, (player, found, summed.most[z]) in self.answers(values):
            by_group[group[z], player] += found
            if len(by_group) > 1:
                summed.total[player] += found
        self._summed = summed
        return self._counted(by_group / np.bincount(group)[:, None], law, empty_value)

    def _counted(self, mean: Values, law: Values, empty_value: float) -> Values:
        """Values from U(empty) on."""
        return mean if self._given else mean - law[0] * empty_value

    def answers(self, work: Callable[[int, Codes, Values], T]) -> Iterator[tuple[int, T]]:
        """What ``work`` says of each covered validation row, given who covers it and how much, from the least on."""

        def block(at: tuple[_Class, int, int]) -> list[tuple[int, T]]:
            part, start, stop = at
            rows = zip(part.row[start:stop].tolist(), part.similarities(start, stop), strict=True)
            return [
                (z, work(z, *found))
                for z, row in rows
                if len((found := self._covering(part, z, row))[0])
            ]

        blocks = [
            (part, start, stop)
            for part in self._classes
            for start, stop in spans(len(part.row), len(part.column))
            if len(part.column)
        ]
        cells = sum(len(part.row) * len(part.column) for part in self._classes)
        for answers in over_blocks(block, blocks, cells):
            yield from answers

    def _covering(self, part: _Class, z: int, similarity: Values) -> tuple[Codes, Values]:
        """The players above c and the floor for one validation row and their g, from the least on."""
        above = np.flatnonzero(similarity > self._c)
        g = np.minimum((similarity[above] - self._c) / (1.0 - self._c), 1.0)
        if self._given:
            higher = g > self.floor[z]
            above, g = above[higher], g[higher]
        player = part.player[above]
        order = np.argsort(g)
        player, g = player[order], g[order]
        if self._single:
            return player, g
        last = len(player) - 1 - np.unique(player[::-1], return_index=True)[1]  # of each its largest
        last.sort()
        return player[last], g[last]


def row_values(g: Values, floor: float, decides: Values) -> Values:
    """phi of the players of one validation row, from the least g on; ``decides`` are h_1, h_2, ..."""
    # Sequential from the least on: players of equal g get equal values to the last bit.
    values: Values = np.cumsum(np.diff(g, prepend=floor) * decides[: len(g)][::-1])
    return values


def deciding(law: Values) -> Values:
    """h_i, i = 1..N: the probability that a coalition of the size law misses i - 1 fixed players of N - 1."""
    n = len(law)
    if is_uniform(law):
        return 1.0 / np.arange(1, n + 1)
    size, missing = np.arange(n), law.copy()
    out = np.zeros(n)
    for i in range(n):
        out[i] = missing.sum()
        if out[i] == 0.0 or i == n - 1:  # those who are certain to meet one stay so
            break
        missing *= np.maximum(n - 1 - i - size, 0) / (n - 1 - i)
    return out
