"""Utilities: from coalitions to values of U, whole batches of coalitions at a time."""

from datamarket_gym.utilities import count, coverage, knn, logistic, ridge
from datamarket_gym.utilities import coverage as coverage_truncated
from datamarket_gym.utilities import coverage as recommended
from datamarket_gym.utilities import imported_scores as scores
from datamarket_gym.utilities import knn as knn_regression
from datamarket_gym.utilities import knn as knn_truncated
from datamarket_gym.utilities import ridge as ridge_regression
from datamarket_gym.utilities import sklearn as sklearn_fallback
from datamarket_gym.utilities.base import Scorer, TrainingRows, UtilityFunction, ValidationRows
from datamarket_gym.utilities.custom import UtilityRows, utility
from datamarket_gym.utilities.imported_scores import ImportedScores, ScoreTable
from datamarket_gym.utilities.similarity import Similarity

__all__ = [
    "ImportedScores",
    "ScoreTable",
    "Scorer",
    "Similarity",
    "TrainingRows",
    "UtilityFunction",
    "UtilityRows",
    "ValidationRows",
    "count",
    "coverage",
    "coverage_truncated",
    "knn",
    "knn_regression",
    "knn_truncated",
    "logistic",
    "recommended",
    "ridge",
    "ridge_regression",
    "scores",
    "sklearn_fallback",
    "utility",
]
