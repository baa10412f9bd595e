"""What the theorems guarantee about a concrete run, and what they do not."""

from datamarket_gym.analysis.theorems.bounds import (
    empirical_bernstein,
    hoeffding,
    probabilistic_miss,
    sample_size,
    sample_size_mean_absolute,
    theorem_bound,
)
from datamarket_gym.analysis.theorems.certificate import Certificate, certify
from datamarket_gym.analysis.theorems.deterrence import (
    Checks,
    checks_needed,
    deterrence,
    deterrence_gap,
    expected_false_alarm_cost,
    false_alarm_probability,
    unit_forfeit_gap,
)
from datamarket_gym.analysis.theorems.fairness import fairness_bound
from datamarket_gym.analysis.theorems.leakage import Comparison, Externality, NoMatchingError, decompose
from datamarket_gym.analysis.theorems.paid_profile import Paid
from datamarket_gym.analysis.theorems.split_gain import (
    best_split,
    marginal_benefit,
    net_gain_bound,
    profitable_splits,
    shapley_split_gain,
    split_gain,
    stopping_k,
)

__all__ = [
    "Certificate",
    "Checks",
    "Comparison",
    "Externality",
    "NoMatchingError",
    "Paid",
    "best_split",
    "certify",
    "checks_needed",
    "decompose",
    "deterrence",
    "deterrence_gap",
    "empirical_bernstein",
    "expected_false_alarm_cost",
    "fairness_bound",
    "false_alarm_probability",
    "hoeffding",
    "marginal_benefit",
    "net_gain_bound",
    "probabilistic_miss",
    "profitable_splits",
    "sample_size",
    "sample_size_mean_absolute",
    "shapley_split_gain",
    "split_gain",
    "stopping_k",
    "theorem_bound",
    "unit_forfeit_gap",
]
