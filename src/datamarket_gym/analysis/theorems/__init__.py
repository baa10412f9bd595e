"""What the theorems guarantee about a concrete run, and what they do not."""

from datamarket_gym.analysis.theorems.bounds import (
    Eta,
    empirical_bernstein,
    eta_of,
    hoeffding,
    normalized_bound,
    probabilistic_miss,
    sample_size,
    sample_size_mean_absolute,
    theorem_bound,
)
from datamarket_gym.analysis.theorems.certificate import Certificate, Condition, Terms, certify
from datamarket_gym.analysis.theorems.deterrence import (
    Checks,
    Deterrence,
    Earned,
    checks_needed,
    deterrence,
    deterrence_gap,
    expected_false_alarm_cost,
    false_alarm_probability,
)
from datamarket_gym.analysis.theorems.fairness import Fairness, fairness_bound, game_distance
from datamarket_gym.analysis.theorems.leakage import (
    Comparison,
    Externality,
    Leakage,
    NoMatchingError,
    decompose,
)
from datamarket_gym.analysis.theorems.paid_profile import Paid
from datamarket_gym.analysis.theorems.split_gain import (
    SplitGain,
    best_split,
    marginal_benefit,
    net_gain_bound,
    profitable_splits,
    shapley_split_gain,
    split_gain,
    stopping_k,
)
from datamarket_gym.analysis.theorems.stability import (
    Neutrality,
    Stability,
    neutrality,
    quotient_stability,
)

__all__ = [
    "Certificate",
    "Checks",
    "Comparison",
    "Condition",
    "Deterrence",
    "Earned",
    "Eta",
    "Externality",
    "Fairness",
    "Leakage",
    "Neutrality",
    "NoMatchingError",
    "Paid",
    "SplitGain",
    "Stability",
    "Terms",
    "best_split",
    "certify",
    "checks_needed",
    "decompose",
    "deterrence",
    "deterrence_gap",
    "empirical_bernstein",
    "eta_of",
    "expected_false_alarm_cost",
    "fairness_bound",
    "false_alarm_probability",
    "game_distance",
    "hoeffding",
    "marginal_benefit",
    "net_gain_bound",
    "neutrality",
    "normalized_bound",
    "probabilistic_miss",
    "profitable_splits",
    "quotient_stability",
    "sample_size",
    "sample_size_mean_absolute",
    "shapley_split_gain",
    "split_gain",
    "stopping_k",
    "theorem_bound",
]
