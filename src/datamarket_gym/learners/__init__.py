"""Learners: coalition to utility, whole batches of coalitions at a time."""

from datamarket_gym.learners import (
    coverage,
    knn,
    logistic,
    ridge,
    ridge_regression,
    scores,
    sklearn_fallback,
)
from datamarket_gym.learners.base import Learner, Scorer, TrainingRows, ValidationRows
from datamarket_gym.learners.coverage import truncated as coverage_truncated
from datamarket_gym.learners.function import FunctionUtility, UtilityRows, utility
from datamarket_gym.learners.knn import regression as knn_regression
from datamarket_gym.learners.knn import truncated as knn_truncated
from datamarket_gym.learners.score_files import ReadScores, read_scores
from datamarket_gym.learners.score_table import ScoreTable
from datamarket_gym.learners.scores import ImportedScores
from datamarket_gym.learners.similarity import Similarity

__all__ = [
    "FunctionUtility",
    "ImportedScores",
    "Learner",
    "ReadScores",
    "ScoreTable",
    "Scorer",
    "Similarity",
    "TrainingRows",
    "UtilityRows",
    "ValidationRows",
    "coverage",
    "coverage_truncated",
    "knn",
    "knn_regression",
    "knn_truncated",
    "logistic",
    "read_scores",
    "ridge",
    "ridge_regression",
    "scores",
    "sklearn_fallback",
    "utility",
]
