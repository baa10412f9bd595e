"""Coalition games and their cache, semivalues as weights of coalition sizes, exact and sampling estimators."""

from datamarket_gym.games import closed_form
from datamarket_gym.games.estimate import Auto, estimate
from datamarket_gym.games.exact import Exact, full_table, semivalues_from_table
from datamarket_gym.games.game import CoalitionCache, Game
from datamarket_gym.games.permutation import Permutation
from datamarket_gym.games.priority import priority_aware_shapley
from datamarket_gym.games.royalty import RoyaltyGame
from datamarket_gym.games.semivalues import (
    Banzhaf,
    Beta,
    Estimate,
    Estimator,
    LeaveOneOut,
    Semivalue,
    Shapley,
)
from datamarket_gym.games.stratified import Stratified
from datamarket_gym.games.subset import MaximumSampleReuse, Subset

__all__ = [
    "Auto",
    "Banzhaf",
    "Beta",
    "CoalitionCache",
    "Estimate",
    "Estimator",
    "Exact",
    "Game",
    "LeaveOneOut",
    "MaximumSampleReuse",
    "Permutation",
    "RoyaltyGame",
    "Semivalue",
    "Shapley",
    "Stratified",
    "Subset",
    "closed_form",
    "estimate",
    "full_table",
    "priority_aware_shapley",
    "semivalues_from_table",
]
