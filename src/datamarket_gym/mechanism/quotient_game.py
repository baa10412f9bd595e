"""Stage 3, score: the clusters play the quotient game, represented by their canonical units.

v(Q) = U(A(union of R(C_k), k in Q)) - U(A(empty)); given previously acquired data P (`UtilityOracle.given`),
v(Q) = U(A(P + union of R(C_k), k in Q)) - U(A(P)). Players are numbered by content key, so the game is the same however
identities are named, ordered or partitioned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datamarket_gym.data.content_keys import combined_key, combined_keys
from datamarket_gym.display import Described, Shown
from datamarket_gym.evidence.graph import Clusters
from datamarket_gym.execution.arrays import Codes, Keys, Values
from datamarket_gym.games import estimate
from datamarket_gym.games.estimate import normalized
from datamarket_gym.games.semivalues import SEMIVALUES, Estimate, Estimator, Semivalue
from datamarket_gym.mechanism.representatives import CanonicalUnits, Representative, represent_clusters
from datamarket_gym.utilities.oracle import UtilityGame, UtilityOracle


@dataclass(frozen=True, eq=False, kw_only=True)
class Scores(Estimate):
    """Estimates of every *cluster*, with what the game says of all of them together.

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
        """Score of each cluster."""
        return self.scores.values


def score_clusters(
    canonical: CanonicalUnits,
    utility: UtilityOracle,
    semivalue: str | Semivalue = "shapley",
    estimator: str | Estimator = "auto",
    *,
    samples: int = 256,
    seed: int = 0,
    normalize: bool = False,
    groups: Codes | None = None,
) -> Scores:
    """Score the clusters by a semivalue of their game.

    Parameters
    ----------
    canonical, utility
        The rows that stand for the clusters, and what rows are worth.
    semivalue, estimator
        How coalitions are weighted, and how that is computed.
    samples, seed
        Permutations, and the seed of what is drawn.
    normalize
        Whether scores are rescaled to v(all), a separate step with guarantees of its own.
    groups
        Numbers groups of validation rows for which scores are computed as well.

    Returns
    -------
    Scores
    """
    game = QuotientGame(canonical, utility)
    by_group = None
    if groups is not None:  # first: a closed form by groups may say at once what all of them sum to
        by_group = game.closed_form_by_group(SEMIVALUES.create(semivalue), groups)
    if groups is None or by_group is None:
        groups, by_group = np.empty(0, dtype=np.int64), np.empty((0, game.n_players))
    estimated = estimate(game, semivalue, estimator, samples=samples, seed=seed)
    values, grand, total, scale = estimated.values, game.grand_value(), None, 1.0
    if normalize:
        total = float(values.sum())
        values, scale = normalized(values, grand), abs(grand / total)
    scaled = {
        "values": values[game.player],
        "standard_errors": (estimated.standard_errors * scale)[game.player],
        "bias": estimated.bias * scale,
    }
    return Scores(
        **{**vars(estimated), **scaled},
        number=game.player,
        grand_value=grand,
        raw_total=total,
        by_group=by_group[:, game.player],
        group_size=np.bincount(groups),
    )


@dataclass(frozen=True)
class Valuator(Described):
    """Score clusters as the paper's ``Valuator.fit(clusters, utility_oracle, semivalue, budget) -> cluster_values``.

    Parameters
    ----------
    representative
        The representative operator R_theta (the paper's default collapses exact duplicates).
    estimator, seed, normalize
        As of `score_clusters`.
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
        """Represent the clusters of a submission and score them.

        ``budget`` is the paper's R: the number of orders of joining (Algorithm 1) or of draws a player (Algorithm 2).
        """
        canonical = represent_clusters(clusters, self.representative)
        scores = score_clusters(
            canonical, utility_oracle, semivalue, self.estimator,
            samples=budget, seed=self.seed, normalize=self.normalize,
        )  # fmt: skip
        return ClusterValues(clusters, canonical, scores)


class QuotientGame(UtilityGame):
    """Play the data-value game on clusters; ``player[c]`` is the player number of cluster c.

    Parameters
    ----------
    canonical, oracle
        The rows that stand for the clusters, and what training rows are worth.
    """

    def __init__(self, canonical: CanonicalUnits, oracle: UtilityOracle) -> None:
        features, label, keys = canonical.features, canonical.label, _weighted(canonical)
        player, n_players = canonical.cluster, canonical.n_clusters
        super().__init__(oracle, features, label, keys, canonical.weight, player, n_players)


def cluster_keys(canonical: CanonicalUnits) -> Keys:
    """Return the content key of each cluster's representative: equal keys, equal multisets of training rows."""
    keys = _weighted(canonical)
    order = np.lexsort((keys, canonical.cluster))
    return combined_keys(keys[order], np.cumsum(np.bincount(canonical.cluster)))


def _weighted(canonical: CanonicalUnits) -> Keys:
    """Row keys that tell weights apart, so that the utility cache and the order of rows do too."""
    if canonical.weight is None:
        return canonical.keys
    pairs = zip(canonical.keys.tolist(), canonical.weight.tolist(), strict=True)
    return np.array([combined_key([key, repr(weight).encode()]) for key, weight in pairs], dtype="S64")
