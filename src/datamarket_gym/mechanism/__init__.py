"""From units to amounts in four stages, each a frozen record: match, represent, score, allocate."""

from datamarket_gym.mechanism import robust_volume
from datamarket_gym.mechanism.allocation import Allocation, Amounts, Provenance, Shares, allocate
from datamarket_gym.mechanism.external import OwnMechanism, Payer
from datamarket_gym.mechanism.payments import Allocator, PaidTotals, Payments, floored, hidden_harm
from datamarket_gym.mechanism.pipeline import (
    Matching,
    Mechanism,
    Pipeline,
    acquired_from,
    as_mechanism,
    find_acquired_units,
    get_mechanism,
    match_units,
    resolve_threshold,
)
from datamarket_gym.mechanism.quotient_game import (
    ClusterValues,
    QuotientGame,
    Scores,
    Valuator,
    cluster_keys,
    score_clusters,
)
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
    "Amounts",
    "CanonicalUnits",
    "ClusterValues",
    "Matching",
    "Mechanism",
    "OwnMechanism",
    "PaidTotals",
    "Payer",
    "Payments",
    "Pipeline",
    "Provenance",
    "QuotientGame",
    "Representative",
    "Scores",
    "Shares",
    "Valuator",
    "acquired_from",
    "allocate",
    "as_mechanism",
    "canonical_training_set",
    "cluster_keys",
    "find_acquired_units",
    "floored",
    "get_mechanism",
    "hidden_harm",
    "keep_units",
    "match_units",
    "represent_clusters",
    "resolve_threshold",
    "robust_volume",
    "score_clusters",
    "seniority",
]
