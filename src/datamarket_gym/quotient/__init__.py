"""From clusters to players: representatives and the quotient game."""

from datamarket_gym.quotient import representatives
from datamarket_gym.quotient.canonical import (
    CanonicalUnits,
    Representative,
    canonical_training_set,
)
from datamarket_gym.quotient.game import QuotientGame, cluster_keys

__all__ = [
    "CanonicalUnits",
    "QuotientGame",
    "Representative",
    "canonical_training_set",
    "cluster_keys",
    "representatives",
]
