"""From units to amounts in four stages, each a frozen record: tie, represent, score, share."""

from datamarket_gym.pipeline import robust_volume
from datamarket_gym.pipeline.mechanism import Mechanism, mechanism
from datamarket_gym.pipeline.payments import Allocator, Payments, floored, hidden_harm
from datamarket_gym.pipeline.represent import (
    CanonicalUnits,
    Representative,
    canonical_training_set,
    represent,
)
from datamarket_gym.pipeline.score import (
    ClusterValues,
    QuotientGame,
    Scores,
    Valuator,
    cluster_keys,
    score,
)
from datamarket_gym.pipeline.settle import settle
from datamarket_gym.pipeline.share import Allocation, Amounts, Provenance, Shares, share
from datamarket_gym.pipeline.tie import tie

__all__ = [
    "Allocation",
    "Allocator",
    "Amounts",
    "CanonicalUnits",
    "ClusterValues",
    "Mechanism",
    "Payments",
    "Provenance",
    "QuotientGame",
    "Representative",
    "Scores",
    "Shares",
    "Valuator",
    "canonical_training_set",
    "cluster_keys",
    "floored",
    "hidden_harm",
    "mechanism",
    "represent",
    "robust_volume",
    "score",
    "settle",
    "share",
    "tie",
]
