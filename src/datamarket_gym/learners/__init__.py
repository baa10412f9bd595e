"""Learners: coalition to utility, whole batches of coalitions at a time."""

from datamarket_gym.learners import knn, logistic, ridge, sklearn_fallback

__all__ = ["knn", "logistic", "ridge", "sklearn_fallback"]
