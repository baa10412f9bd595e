"""The quotient game: clusters play, represented by their canonical units.

v(Q) = U(A(union of R(C_k), k in Q)) - U(A(empty)). Players are numbered by content key and rows are
kept in content order, so the game is the same to the last bit however identities are named,
ordered or partitioned.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from datamarket_gym.core.arrays import CoalitionMatrix, Codes, Keys, Values
from datamarket_gym.core.content import combined_key
from datamarket_gym.games.game import Game
from datamarket_gym.games.semivalue import Semivalue
from datamarket_gym.learners.base import Scorer
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.quotient.canonical import CanonicalUnits


class QuotientGame(Game):
    """The data-value game on clusters; ``player[c]`` is the player number of cluster c."""

    def __init__(self, canonical: CanonicalUnits, oracle: UtilityOracle) -> None:
        keys = _weighted(canonical)
        by_cluster = _cluster_keys(keys, canonical)
        by_key = np.argsort(by_cluster, kind="stable")
        self.player = np.empty(canonical.n_clusters, dtype=np.int64)
        self.player[by_key] = np.arange(canonical.n_clusters)
        self._canonical, self._oracle = canonical, oracle
        self._rows = np.lexsort((keys, self.player[canonical.cluster]))
        player = self.player[canonical.cluster[self._rows]]
        super().__init__(
            canonical.n_clusters,
            keys=by_cluster[by_key],
            prints=oracle.prints(keys[self._rows], player, canonical.n_clusters),
            memo=oracle.memo,
            empty_value=oracle.empty_value,
        )

    @cached_property
    def _scorer(self) -> Scorer:
        # Only now: a game whose coalitions are all in the memo never prepares its rows.
        canonical, rows = self._canonical, self._rows
        return self._oracle.scorer(
            canonical.features[rows],
            canonical.label[rows],
            None if canonical.weight is None else canonical.weight[rows],
            self.player[canonical.cluster[rows]],
            self.n_players,
        )

    def _evaluate(self, coalitions: CoalitionMatrix) -> Values:
        return self._scorer.utility(coalitions)

    def closed_form(self, semivalue: Semivalue) -> Values | None:
        """The learner's formula, where it has one."""
        if not self._oracle.learner.has_closed_form:
            return None
        return self._scorer.closed_form(semivalue, self.empty_value)

    def closed_form_by_group(self, semivalue: Semivalue, group: Codes) -> Values | None:
        """The learner's formula on each group of validation rows alone, shape (groups, players)."""
        if not self._oracle.learner.has_closed_form:
            return None
        return self._scorer.closed_form_by_group(semivalue, self.empty_value, group)


def cluster_keys(canonical: CanonicalUnits) -> Keys:
    """Content key of each cluster's representative: equal keys, equal multisets of training rows."""
    return _cluster_keys(_weighted(canonical), canonical)


def _weighted(canonical: CanonicalUnits) -> Keys:
    """Row keys that tell weights apart, so that the memo and the order of rows do too."""
    if canonical.weight is None:
        return canonical.keys
    pairs = zip(canonical.keys.tolist(), canonical.weight.tolist(), strict=True)
    return np.array([combined_key([key, repr(weight).encode()]) for key, weight in pairs], dtype="S64")


def _cluster_keys(keys: Keys, canonical: CanonicalUnits) -> Keys:
    order = np.lexsort((keys, canonical.cluster))
    ordered, ends = keys[order].tolist(), np.cumsum(np.bincount(canonical.cluster))
    starts = np.r_[0, ends[:-1]]
    return np.array([combined_key(ordered[a:b]) for a, b in zip(starts, ends, strict=True)], dtype="S64")
