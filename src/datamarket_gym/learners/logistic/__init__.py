"""Multinomial logistic regression, every coalition solved to certainty.

U(S) is the validation accuracy of scikit-learn's ``LogisticRegression(C)`` on ``StandardScaler``
output, both fitted on the rows of S, *at the converged optimum*. A fast engine proposes; a proof
(`certify`) or full convergence (`alone`) confirms; what stays open is counted in the report.
"""

from __future__ import annotations

from datamarket_gym.learners.logistic.scorer import Logistic, LogisticScorer, SolverReport

__all__ = ["Logistic", "LogisticScorer", "SolverReport"]
