"""Fairness loss of clustering and canonicalising (Theorem 4): at most 2 Delta, cluster by cluster.

Delta = max over coalitions Q of clusters of |v_merge(Q) - v_quotient(Q)|: v_merge trains on all honest
units of the clusters in Q, v_quotient on their representatives. For any semivalue every cluster's score
then differs by at most 2 Delta. Delta is exact where all 2^K coalitions are affordable. From a sample
of coalitions only a *lower* bound of Delta follows, which bounds nothing: no claim is made from it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datamarket_gym.data.content_keys import combined_key, keyed_generator
from datamarket_gym.data.ground_truth import SubmittedProfile
from datamarket_gym.display import Shown
from datamarket_gym.errors import require_count
from datamarket_gym.execution.arrays import CoalitionMatrix, Values
from datamarket_gym.games.estimate import OrderedView
from datamarket_gym.games.exact import full_table, semivalues_from_table
from datamarket_gym.games.game import Game
from datamarket_gym.mechanism.pipeline import Mechanism, Pipeline
from datamarket_gym.mechanism.quotient_game import QuotientGame
from datamarket_gym.mechanism.representatives import represent_clusters
from datamarket_gym.utilities.oracle import UtilityOracle

EXACT_PLAYERS = 14
"""Up to this many clusters all coalitions are evaluated: 16,384 fits on each side."""


@dataclass(frozen=True)
class Fairness(Shown):
    """Hold Delta, or a lower bound of it, and the score differences where they were enumerated."""

    distance: float  # Delta, or the largest distance among the coalitions evaluated
    exact: bool
    coalitions: int  # evaluated
    loss: float | None = None  # max over clusters of the score difference, where enumerated

    @property
    def bound(self) -> float | None:
        """Return 2 Delta, the theorem's bound of the cluster-level loss; None where Delta is not known."""
        return 2 * self.distance if self.exact else None

    @property
    def caveat(self) -> str:
        if self.exact:
            return "Delta is the largest distance over all coalitions, so the bound 2 Delta holds."
        return (
            f"Delta is at least {self.distance:.4g}, the largest distance in {self.coalitions} sampled "
            "coalitions. This is a lower bound of Delta: it does not bound the fairness loss."
        )


def fairness_bound(
    profile: SubmittedProfile,
    mechanism: Mechanism,
    utility: UtilityOracle,
    *,
    exact_players: int = EXACT_PLAYERS,
    samples: int = 1024,
) -> Fairness:
    """Compute Delta of a mechanism's clusters and representatives on an honest profile.

    Parameters
    ----------
    profile, mechanism, utility
        The honest profile, the mechanism, and what data are worth.
    exact_players
        Up to this many clusters all coalitions are evaluated.
    samples
        Coalitions that are sampled above.

    Returns
    -------
    Fairness
        Delta, or a lower bound of it.
    """
    clusters = Pipeline(mechanism, utility, profile.truth).match(profile.submission).clusters
    quotient = represent_clusters(clusters, mechanism.representative)
    merged = represent_clusters(clusters, "identity")
    games = [QuotientGame(units, utility) for units in (merged, quotient)]
    # Both games number their players by content, which differs: view them by cluster.
    views = [OrderedView(game, game.player) for game in games]
    return game_distance(views[0], views[1], mechanism, exact_players=exact_players, samples=samples)


def game_distance(
    merged: Game,
    quotient: Game,
    mechanism: Mechanism,
    *,
    exact_players: int = EXACT_PLAYERS,
    samples: int = 1024,
) -> Fairness:
    """Compute Delta between two games on the same players, and the loss of the mechanism's semivalue."""
    require_count("samples", samples)
    n = merged.n_players
    if n <= exact_players:
        tables = [full_table(merged), full_table(quotient)]
        distance = float(np.abs(tables[0] - tables[1]).max())
        scores = [semivalues_from_table(table, [mechanism.semivalue])[0] for table in tables]
        return Fairness(distance, True, 1 << n, float(np.abs(scores[0] - scores[1]).max()))
    sample = _sample(n, samples, mechanism.seed, quotient)
    apart: Values = np.abs(merged.values(sample) - quotient.values(sample))
    return Fairness(float(apart.max()), False, len(sample))


def _sample(n: int, samples: int, seed: int, game: Game) -> CoalitionMatrix:
    """Draw all players, and coalitions of uniform size; keyed by content, like everything drawn."""
    key = b"" if game.keys is None else combined_key(game.keys.tolist())
    rng = keyed_generator(seed, "fairness", key)
    sizes = rng.integers(1, n + 1, size=samples)
    rank = rng.permuted(np.tile(np.arange(n), (samples, 1)), axis=1)
    drawn: CoalitionMatrix = rank < sizes[:, None]
    drawn[0] = True
    return drawn
