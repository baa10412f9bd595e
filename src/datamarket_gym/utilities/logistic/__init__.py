"""Multinomial logistic regression, every coalition solved to certainty.

U(S) is the validation accuracy of scikit-learn's ``LogisticRegression(C)`` on ``StandardScaler``
output, both fitted on the rows of S, *at the converged optimum*. A fast engine proposes; a proof
(`certificate`) or full convergence (`exact`) confirms; what stays open is counted in the report.

Three engines: `batched` takes whole batches, on NumPy or on a device of torch (`layout`, `calculus`,
`anchor`, `descent`, `verdict`; `triton_*` are its fused kernels on CUDA), `wide` does so in single precision
where there are many features (`part`, `edges`), and `compiled` takes one coalition after the other on compiled
kernels (`coalition`, `kernels`, `kernel_proof`). The latter two climb from size to size (`ladder`).
"""

from __future__ import annotations

from datamarket_gym.utilities.logistic.classifier import Logistic, LogisticScorer

__all__ = [
    "Logistic",
    "LogisticScorer",
]
