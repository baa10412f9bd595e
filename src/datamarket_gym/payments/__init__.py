"""From scores to money: allocation rules, payments and whole mechanisms."""

from datamarket_gym.payments import robust_volume
from datamarket_gym.payments.floor import floored, hidden_harm
from datamarket_gym.payments.mechanism import Mechanism, mechanism
from datamarket_gym.payments.payments import Allocator, Payments
from datamarket_gym.payments.shares import Allocation, Provenance, Shares

__all__ = [
    "Allocation",
    "Allocator",
    "Mechanism",
    "Payments",
    "Provenance",
    "Shares",
    "floored",
    "hidden_harm",
    "mechanism",
    "robust_volume",
]
