"""Multinomial logistic regression of many coalitions at once on a torch device (CPU or CUDA).

The model, the meaning of a value and the treatment of ties are those of
`datamarket_gym.learners.logistic`. Parts: `layout` (padded data of several games), `sweep`
(gradients), `anchor` (start and preconditioner), `descent` (L-BFGS in lockstep), `certificate` (the proof
that predictions are final), `engine` (the loop), `kernels` and `triton_*` (fused
kernels, on CUDA only).
"""

from __future__ import annotations

from datamarket_gym.learners.logistic_torch.scorer import (
    StackedLogisticScorer,
    TorchLogisticScorer,
    stacked_correct,
)

__all__ = ["StackedLogisticScorer", "TorchLogisticScorer", "stacked_correct"]
