"""Stage 3, score: the clusters play the quotient game, represented by their canonical units.

v(Q) = U(A(union of R(C_k), k in Q)) - U(A(empty)); given prior art P (`UtilityOracle.given`),
v(Q) = U(A(P + union of R(C_k), k in Q)) - U(A(P)). Players are numbered by content key and rows are
kept in content order, so the game is the same to the last bit however identities are named,
ordered or partitioned.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from datamarket_gym.core.arrays import CoalitionMatrix, Codes, Keys, Values
from datamarket_gym.core.content import combined_key, combined_keys
from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.core.executors import keep_to_one_thread
from datamarket_gym.core.narrow import in_order
from datamarket_gym.core.screen import Described, Shown
from datamarket_gym.evidence.graph import Clusters
from datamarket_gym.games.game import Game
from datamarket_gym.games.semivalue import SEMIVALUES, Estimate, Estimator, Semivalue, Truncated
from datamarket_gym.learners.base import Scorer
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.pipeline.represent import REPRESENTATIVES, CanonicalUnits, Representative
from datamarket_gym.semivalues import estimate, normalized

if TYPE_CHECKING:
    from datamarket_gym.pipeline.mechanism import Mechanism


@dataclass(frozen=True, eq=False, kw_only=True)
class Scores(Estimate):
    """The estimate of every *cluster*, with what the game says of all of them together.

    ``number[c]`` is cluster c's place among the players, which are numbered by content: a name for it
    that no submitter can choose. ``by_group[g]`` are the raw scores on group g of validation rows alone,
    where they were asked for and the learner has a closed form; else there are no groups.
    """

    number: Codes  # (K,)
    grand_value: float
    raw_total: float | None = None  # what the scores summed to before they were normalised
    by_group: Values  # (G, K)
    group_size: Codes  # (G,) validation rows


@dataclass(frozen=True, eq=False)
class ClusterValues(Shown):
    """Clusters, the rows that stand for them, and their scores: all that is divided among identities."""

    clusters: Clusters
    canonical: CanonicalUnits
    scores: Scores

    @property
    def values(self) -> Values:
        """The score of each cluster."""
        return self.scores.values


@dataclass(frozen=True)
class Valuator(Described):
    """The paper's ``Valuator.fit(clusters, utility_oracle, semivalue, budget) -> cluster_values``.

    What the line leaves open is set here: the representative R_theta of a cluster (the paper's default
    collapses exact duplicates), the estimator, its seed, and whether scores are rescaled to v(all).
    """

    representative: str | Representative = "collapse"
    estimator: str | Estimator = "auto"
    seed: int = 0
    normalize: bool = False

    def fit(
        self,
        clusters: Clusters,
        utility_oracle: UtilityOracle,
        semivalue: str | Semivalue = "shapley",
        budget: int = 256,
    ) -> ClusterValues:
        """Represent the clusters of a submission and score them; ``budget`` is the paper's R.

        That is the number of orders of joining (Algorithm 1) or of draws a player (Algorithm 2).
        """
        if clusters.submission is None:
            raise SubmissionError(
                "these clusters do not say which submission they divide, so there are no rows to train "
                "on; make them by EvidenceGraph.build or clusters_by"
            )
        canonical = REPRESENTATIVES.create(self.representative).canonical(clusters.submission, clusters)
        return ClusterValues(
            clusters, canonical, self.scores(canonical, utility_oracle, semivalue, budget)
        )

    def scores(
        self,
        canonical: CanonicalUnits,
        utility: UtilityOracle,
        semivalue: str | Semivalue,
        budget: int,
        group: Codes | None = None,
    ) -> Scores:
        """Scores of clusters that are represented already, and on each ``group`` of validation rows."""
        game = QuotientGame(canonical, utility)
        by_group, size = np.empty((0, game.n_players)), np.empty(0, dtype=np.int64)
        if group is not None:  # first: a closed form by groups may say at once what all of them sum to
            parts = game.closed_form_by_group(SEMIVALUES.create(semivalue), group)
            if parts is not None:
                by_group, size = parts, np.bincount(group)
        found = estimate(game, semivalue, self.estimator, samples=budget, seed=self.seed)
        grand, total, scale = game.grand_value(), None, 1.0
        values = found.values
        if self.normalize:
            total = float(values.sum())
            values, scale = normalized(values, grand), abs(grand / total)
        return Scores(
            values[game.player],
            (found.standard_errors * scale)[game.player],
            found.evaluations,
            found.method,
            found.samples,
            found.reach,
            found.bias * scale,
            found.proven,
            number=game.player,
            grand_value=grand,
            raw_total=total,
            by_group=by_group[:, game.player],
            group_size=size,
        )


def score(
    mechanism: Mechanism,
    canonical: CanonicalUnits,
    utility: UtilityOracle,
    group: Codes | None = None,
) -> Scores:
    """Scores of all clusters, and on each group of validation rows where ``group`` numbers these."""
    return mechanism.valuator.scores(canonical, utility, mechanism.semivalue, mechanism.samples, group)


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
            in_order(canonical.features, rows),
            canonical.label[rows],
            None if canonical.weight is None else canonical.weight[rows],
            self.player[canonical.cluster[rows]],
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
    return combined_keys(keys[order], np.cumsum(np.bincount(canonical.cluster)))
