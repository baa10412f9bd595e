"""A utility that says how far it is, whose memo stays small, and which refuses what would take a page too long."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import CoalitionMatrix, Codes, Features, Values
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.progress import SILENT, Progress
from datamarket_gym.games.game import CoalitionMemo
from datamarket_gym.games.semivalue import Semivalue, Truncated
from datamarket_gym.learners.base import Scorer
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.semivalues.estimate import Auto
from datamarket_gym.semivalues.exact import Exact

MOST = 1 << 16
"""Coalitions that one payment may ask for."""
_KEPT = 1 << 18  # values of coalitions that one memo keeps, at 24 bytes
_TOGETHER = 128  # coalitions between two counts


def planned(mechanism: Mechanism, players: int) -> int:
    """How many values of coalitions a mechanism asks for with so many players, where there is no closed form."""
    how = mechanism.estimator
    budget = how.budget(mechanism.samples, players)
    if isinstance(how, Auto):
        how = how.choose(players, mechanism.semivalue, budget)
    return 1 << players if isinstance(how, Exact) else budget


class Outcomes:
    """Progress of the payments of a market's outcomes, of which there are so many at the most."""

    def __init__(self, whole: Progress, most: int) -> None:
        self._whole, self._most, self._paid = whole, most, 0

    def begin(self) -> None:
        """One more is paid."""
        self._paid = min(self._paid + 1, self._most)
        self._whole.count(self._paid, self._most)

    def stage(self, what: str, unit: str = "") -> None:
        """Nothing: a payment is a part of longer work."""

    def count(self, done: int, total: int) -> None:
        """How many outcomes are paid; whoever waits no longer can stop it here."""
        self._whole.count(self._paid, self._most)


class CountedOracle(UtilityOracle):
    """The utility of a market; its values are those of `UtilityOracle`, to the last bit."""

    progress: Progress = SILENT
    mechanism: Mechanism | None = None

    def telling(self, progress: Progress, mechanism: Mechanism | None = None) -> CountedOracle:
        """The same utility, with the same memo, that tells somebody how far it is while a mechanism pays."""
        if len(self.memo) > _KEPT // 2:
            self._remember()  # a memo that is full keeps nothing that comes later
        other = copy(self)
        other.progress, other.mechanism = progress, mechanism
        return other

    def _remember(self) -> None:
        super()._remember()
        self.memo = CoalitionMemo(_KEPT)

    def scorer(
        self, features: Features, label: NDArray[Any], weight: Values | None, player: Codes, n: int
    ) -> Scorer:
        """The learner's scorer, counted."""
        if isinstance(self.progress, Outcomes):
            self.progress.begin()
        asked = 0 if self.mechanism is None else planned(self.mechanism, n)
        return _Counted(super().scorer(features, label, weight, player, n), self.progress, asked)


class _Counted(Scorer):
    """Coalitions in small batches, with a count after each."""

    def __init__(self, scorer: Scorer, progress: Progress, planned: int) -> None:
        self._scorer, self._progress, self._planned, self._asked = scorer, progress, planned, 0

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        n, before = len(coalitions), self._asked
        self._asked += n
        # Where there is a closed form, all that is asked for is the value of everybody together.
        if self._asked > 1 and max(self._asked, self._planned) > MOST:
            raise DataMarketError(
                f"this would take the values of more than {MOST:,} coalitions, which is too long for a page; choose "
                "fewer samples, fewer names, or a learner with a closed form (coverage, knn)"
            )
        found = []
        for at in range(0, n, _TOGETHER):
            if n > 1:
                self._progress.count(before + at, max(self._asked, self._planned))
            found.append(self._scorer.utility(coalitions[at : at + _TOGETHER]))
        return np.concatenate(found) if found else np.empty(0)

    def closed_form(self, semivalue: Semivalue, empty_value: float) -> Values | None:
        return self._scorer.closed_form(semivalue, empty_value)

    def truncated(self, semivalue: Semivalue) -> Truncated | None:
        return self._scorer.truncated(semivalue)

    def closed_form_by_group(
        self, semivalue: Semivalue, empty_value: float, group: Codes
    ) -> Values | None:
        return self._scorer.closed_form_by_group(semivalue, empty_value, group)
