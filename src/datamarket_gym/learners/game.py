"""The game of training rows: v(S) = U(rows of the players in S) - U(empty), asked in batches."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from datamarket_gym.core.arrays import CoalitionMatrix, Codes, Features, Keys, Values
from datamarket_gym.core.content import combined_keys
from datamarket_gym.core.executors import keep_to_one_thread
from datamarket_gym.core.narrow import in_order
from datamarket_gym.core.screen import counted
from datamarket_gym.games.game import Game
from datamarket_gym.games.semivalue import Semivalue, Truncated
from datamarket_gym.learners.base import Scorer
from datamarket_gym.semivalues.estimate import OrderedView
from datamarket_gym.units.submission import Submission, Text

if TYPE_CHECKING:
    from datamarket_gym.learners.oracle import UtilityOracle


class UtilityGame(Game):
    """The game of groups of training rows; ``player[g]`` is the player number of group g.

    Players are numbered by content key and rows are kept in content order, so the game is the same to the last bit
    however groups are named or ordered.
    """

    def __init__(
        self,
        oracle: UtilityOracle,
        features: Features,
        label: Codes,
        keys: Keys,
        weight: Values | None,
        group: Codes,
        n_groups: int,
    ) -> None:
        order = np.lexsort((keys, group))
        by_group = combined_keys(keys[order], np.cumsum(np.bincount(group)))
        by_key = np.argsort(by_group, kind="stable")
        self.player = np.empty(n_groups, dtype=np.int64)
        self.player[by_key] = np.arange(n_groups)
        self._oracle = oracle
        self._rows = np.lexsort((keys, self.player[group]))
        self._parts = features, label, weight, group
        super().__init__(
            n_groups,
            keys=by_group[by_key],
            prints=oracle.prints(keys[self._rows], self.player[group[self._rows]], n_groups),
            memo=oracle.memo,
            empty_value=oracle.empty_value,
        )

    @cached_property
    def _scorer(self) -> Scorer:
        # Only now: a game whose coalitions are all in the memo never prepares its rows.
        (features, label, weight, group), rows = self._parts, self._rows
        return self._oracle.scorer(
            in_order(features, rows),
            label[rows],
            None if weight is None else weight[rows],
            self.player[group[rows]],
            self.n_players,
        )

    def _evaluate(self, coalitions: CoalitionMatrix) -> Values:
        keep_to_one_thread()  # a learner may load libraries with threads when it is first used
        return self._scorer.utility(coalitions)

    def closed_form(self, semivalue: Semivalue) -> Values | None:
        """The learner's formula, where it has one."""
        if not self._oracle.learner.has_closed_form:
            return None
        return self._scorer.closed_form(semivalue, self.empty_value)

    def truncated(self, semivalue: Semivalue) -> Truncated | None:
        """What the learner says of its formula."""
        return self._scorer.truncated(semivalue)

    def closed_form_by_group(self, semivalue: Semivalue, group: Codes) -> Values | None:
        """The learner's formula on each group of validation rows alone, shape (groups, players)."""
        if not self._oracle.learner.has_closed_form:
            return None
        return self._scorer.closed_form_by_group(semivalue, self.empty_value, group)


class SubmissionGame(OrderedView):
    """The game of a submission's units, or of its identities, in the order of ``players``.

    Attributes
    ----------
    players : numpy.ndarray
        The id of each unit in the order of rows, or the name of each identity in alphabetical order.
    """

    def __init__(self, oracle: UtilityOracle, submission: Submission, level: str) -> None:
        units = level == "unit"
        self.players: Text = submission.id if units else submission.identities
        self.level = level
        group = np.arange(len(submission)) if units else submission.identity_codes
        game = UtilityGame(
            oracle,
            submission.features,
            submission.label,
            submission.keys,
            None,
            group,
            len(self.players),
        )
        super().__init__(game, game.player)
        self._oracle = oracle

    def __repr__(self) -> str:
        players = counted(
            self.n_players, *(("unit",) if self.level == "unit" else ("identity", "identities"))
        )
        return f"<SubmissionGame of {players}: v(S) = U(S) - {self.empty_value:g}, {self._oracle!r}>"
