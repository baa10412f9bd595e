"""From units to amounts in four stages, each a frozen record: tie, represent, score, share."""

from datamarket_gym.pipeline import robust_volume
from datamarket_gym.pipeline.mechanism import Mechanism, as_mechanism, mechanism
from datamarket_gym.pipeline.own import OwnMechanism, Payer
from datamarket_gym.pipeline.payments import Allocator, PaidTotals, Payments, floored, hidden_harm
from datamarket_gym.pipeline.prior import Known, NewPeriod, new_period, prior_of, tie_given
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
    "NewPeriod",
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
    "canonical_training_set",
    "cluster_keys",
    "floored",
    "hidden_harm",
    "keep_units",
    "mechanism",
    "new_period",
    "prior_of",
    "represent",
    "robust_volume",
    "score",
    "seniority",
    "settle",
    "share",
    "tie",
    "tie_given",
]
