"""From units to amounts in four stages, each a frozen record: match, represent, score, allocate."""

from datamarket_gym.pipeline import robust_volume
from datamarket_gym.pipeline.mechanism import Mechanism, as_mechanism, mechanism
from datamarket_gym.pipeline.own import OwnMechanism, Payer
from datamarket_gym.pipeline.payments import Allocator, PaidTotals, Payments, floored, hidden_harm
from datamarket_gym.pipeline.pipeline import Matching, Pipeline, match_units
from datamarket_gym.pipeline.prior import Known, find_acquired_units, prior_of
from datamarket_gym.pipeline.represent import (
    CanonicalUnits,
    Representative,
    canonical_training_set,
    keep_units,
    represent_clusters,
    seniority,
)
from datamarket_gym.pipeline.score import (
    ClusterValues,
    QuotientGame,
    Scores,
    Valuator,
    cluster_keys,
    score_clusters,
)
from datamarket_gym.pipeline.share import Allocation, Amounts, Provenance, Shares, allocate
from datamarket_gym.pipeline.threshold import resolve_threshold

__all__ = [
    "Allocation",
    "Allocator",
    "Amounts",
    "CanonicalUnits",
    "ClusterValues",
    "Known",
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
    "allocate",
    "as_mechanism",
    "canonical_training_set",
    "cluster_keys",
    "find_acquired_units",
    "floored",
    "hidden_harm",
    "keep_units",
    "match_units",
    "mechanism",
    "prior_of",
    "represent_clusters",
    "resolve_threshold",
    "robust_volume",
    "score_clusters",
    "seniority",
]
