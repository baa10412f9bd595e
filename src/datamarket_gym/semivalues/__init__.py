"""From a game to scores: semivalues as laws of coalition sizes, exact and sampling estimators."""

from datamarket_gym.games.semivalue import Estimate, Estimator, Semivalue
from datamarket_gym.semivalues.estimate import Auto, estimate, normalized
from datamarket_gym.semivalues.exact import Exact, full_table, semivalues_from_table
from datamarket_gym.semivalues.laws import Banzhaf, Beta, LeaveOneOut, Shapley
from datamarket_gym.semivalues.permutation import Permutation
from datamarket_gym.semivalues.stratified import Stratified
from datamarket_gym.semivalues.subset import MaximumSampleReuse, Subset

__all__ = [
    "Auto",
    "Banzhaf",
    "Beta",
    "Estimate",
    "Estimator",
    "Exact",
    "LeaveOneOut",
    "MaximumSampleReuse",
    "Permutation",
    "Semivalue",
    "Shapley",
    "Stratified",
    "Subset",
    "estimate",
    "full_table",
    "normalized",
    "semivalues_from_table",
]
