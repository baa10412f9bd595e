"""From units to amounts in four stages, each a frozen record: match, represent, score, allocate."""

from datamarket_gym.mechanism import robust_volume
from datamarket_gym.mechanism.allocation import (
    Allocation,
    Allocator,
    Payments,
    Provenance,
    Shares,
    allocate,
)
from datamarket_gym.mechanism.own_mechanism import Payer
from datamarket_gym.mechanism.pipeline import (
    Mechanism,
    acquired_from,
    as_mechanism,
    get_mechanism,
    match_units,
    resolve_threshold,
)
from datamarket_gym.mechanism.quotient_game import QuotientGame, Valuator, score_clusters
from datamarket_gym.mechanism.representatives import (
    CanonicalUnits,
    Representative,
    canonical_training_set,
    keep_units,
    represent_clusters,
    seniority,
)

__all__ = [
    "Allocation",
    "Allocator",
    "CanonicalUnits",
    "Mechanism",
    "Payer",
    "Payments",
    "Provenance",
    "QuotientGame",
    "Representative",
    "Shares",
    "Valuator",
    "acquired_from",
    "allocate",
    "as_mechanism",
    "canonical_training_set",
    "get_mechanism",
    "keep_units",
    "match_units",
    "represent_clusters",
    "resolve_threshold",
    "robust_volume",
    "score_clusters",
    "seniority",
]
