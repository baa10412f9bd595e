"""Multinomial logistic regression, every coalition solved to certainty.

U(S) is the validation accuracy of scikit-learn's ``LogisticRegression(C)`` on ``StandardScaler``
output, both fitted on the rows of S, *at the converged optimum*. A fast engine proposes; a proof
(`certificate`) or full convergence (`exact`) confirms; what stays open is counted in the report.

Two engines: `batched` takes whole batches, on NumPy or on a device of torch (`layout`, `calculus`,
`anchor`, `descent`, `verdict`; `triton_*` are its fused kernels on CUDA), and `compiled` one coalition
after the other on compiled kernels (`coalition`, `kernels`, `kernel_proof`).
"""

from __future__ import annotations

from datamarket_gym.learners.logistic.scorer import (
    Logistic,
    LogisticScorer,
    SolverReport,
    StackedLogisticScorer,
    TorchLogisticScorer,
)

__all__ = [
    "Logistic",
    "LogisticScorer",
    "SolverReport",
    "StackedLogisticScorer",
    "TorchLogisticScorer",
]
