"""What the theorems guarantee about a concrete run, and what they do not."""

from datamarket_gym.judge.guarantees.bounds import (
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
from datamarket_gym.judge.guarantees.certificate import Certificate, Condition, Terms
from datamarket_gym.judge.guarantees.certify import certify
from datamarket_gym.judge.guarantees.composition import (
    Precedence,
    cluster_precedence,
    group_values,
    priority_values,
)
from datamarket_gym.judge.guarantees.deterred import Deterrence, Earned, deterrence
from datamarket_gym.judge.guarantees.deterrence import (
    Checks,
    checks_needed,
    deterrence_gap,
    expected_false_alarm_cost,
    false_alarm_probability,
)
from datamarket_gym.judge.guarantees.fairness import Fairness, fairness_bound, game_distance
from datamarket_gym.judge.guarantees.leakage import Comparison, Leakage, NoMatchingError, decompose
from datamarket_gym.judge.guarantees.paid import Paid
from datamarket_gym.judge.guarantees.spill import Spill
from datamarket_gym.judge.guarantees.splits import (
    SplitGain,
    best_split,
    marginal_benefit,
    net_gain_bound,
    profitable_splits,
    shapley_split_gain,
    split_gain,
    stopping_k,
)
from datamarket_gym.judge.guarantees.stability import (
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
    "Fairness",
    "Leakage",
    "Neutrality",
    "NoMatchingError",
    "Paid",
    "Precedence",
    "Spill",
    "SplitGain",
    "Stability",
    "Terms",
    "best_split",
    "certify",
    "checks_needed",
    "cluster_precedence",
    "decompose",
    "deterrence",
    "deterrence_gap",
    "empirical_bernstein",
    "eta_of",
    "expected_false_alarm_cost",
    "fairness_bound",
    "false_alarm_probability",
    "game_distance",
    "group_values",
    "hoeffding",
    "marginal_benefit",
    "net_gain_bound",
    "neutrality",
    "normalized_bound",
    "priority_values",
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
