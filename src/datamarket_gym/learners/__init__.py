"""Learners: coalition to utility, whole batches of coalitions at a time."""

from datamarket_gym.learners import knn, logistic, ridge, sklearn_fallback
from datamarket_gym.learners.base import Learner, Scorer, TrainingRows, ValidationRows

__all__ = [
    "Learner",
    "Scorer",
    "TrainingRows",
    "ValidationRows",
    "knn",
    "logistic",
    "ridge",
    "sklearn_fallback",
]
