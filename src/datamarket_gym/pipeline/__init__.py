"""From units to amounts in four stages, each a frozen record: tie, represent, score, share."""

from datamarket_gym.pipeline import robust_volume
from datamarket_gym.pipeline.mechanism import Mechanism, as_mechanism, mechanism
from datamarket_gym.pipeline.own import OwnMechanism, Payer
from datamarket_gym.pipeline.payments import Allocator, PaidTotals, Payments, floored, hidden_harm
from datamarket_gym.pipeline.prior import Known, bought_before, prior_of
from datamarket_gym.pipeline.represent import (
    CanonicalUnits,
    Representative,
    canonical_training_set,
    keep_units,
    represent,
    seniority,
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
    "Known",
    "Mechanism",
    "OwnMechanism",
    "PaidTotals",
    "Payer",
    "Payments",
    "Provenance",
    "QuotientGame",
    "Representative",
    "Scores",
    "Shares",
    "Valuator",
    "as_mechanism",
    "bought_before",
    "canonical_training_set",
    "cluster_keys",
    "floored",
    "hidden_harm",
    "keep_units",
    "mechanism",
    "prior_of",
    "represent",
    "robust_volume",
    "score",
    "seniority",
    "settle",
    "share",
    "tie",
]
