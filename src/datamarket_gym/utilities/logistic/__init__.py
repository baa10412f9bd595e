"""Multinomial logistic regression, every coalition solved to certainty.

U(S) is the validation accuracy of scikit-learn's ``LogisticRegression(C)`` on ``StandardScaler``
output, both fitted on the rows of S, *at the converged optimum*. A fast engine proposes; a proof
or full convergence (`certainty`) confirms; what stays open is counted in the report.

Three engines: `batched` takes whole batches, on NumPy or on a device of torch (`layout`, `descent`; `_triton` are its
fused kernels on CUDA), `low_precision` does so in single precision where there are many features, and `compiled` takes
one coalition after the other on compiled kernels (`_numba`). The latter two go from size to size.
"""

from __future__ import annotations

from datamarket_gym.utilities.logistic.classifier import Logistic, LogisticScorer

__all__ = ["Logistic", "LogisticScorer"]
