"""Learners: coalition to utility, whole batches of coalitions at a time."""

from datamarket_gym.learners import (
    coverage,
    knn,
    knn_regression,
    logistic,
    ridge,
    ridge_regression,
    sklearn_fallback,
)
from datamarket_gym.learners.base import Learner, Scorer, TrainingRows, ValidationRows
from datamarket_gym.learners.similarity import Similarity

__all__ = [
    "Learner",
    "Scorer",
    "Similarity",
    "TrainingRows",
    "ValidationRows",
    "coverage",
    "knn",
    "knn_regression",
    "logistic",
    "ridge",
    "ridge_regression",
    "sklearn_fallback",
]
