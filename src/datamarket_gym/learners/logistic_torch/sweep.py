"""One gradient of every coalition under way: two batched products around a softmax.

With the rows of a game as X (n, d + 1) and the parameters of B coalitions as (B C, d + 1), logits are
W X' and the gradient is R X + penalty W, where R = C w (softmax(logits) - one_hot(label)) on the
coalition's rows and present classes, zero elsewhere.
"""

from __future__ import annotations

import torch

from datamarket_gym.learners.logistic_torch.layout import Slots, Stack


def logits(weights: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Logits (G, B, C, n) of rows ``x`` (G, n, D) under parameters (G, B, C, D)."""
    games, size, classes, width = weights.shape
    flat = weights.reshape(games, size * classes, width)
    return torch.bmm(flat, x.transpose(1, 2)).view(games, size, classes, x.shape[1])


def probabilities(weights: torch.Tensor, stack: Stack, slots: Slots) -> torch.Tensor:
    """Softmax over the present classes, (G, B, C, n)."""
    return torch.softmax(logits(weights, stack.x).add_(slots.absent[..., None]), dim=2)


def gradient(weights: torch.Tensor, stack: Stack, slots: Slots) -> torch.Tensor:
    """Gradient (G, B, C, D) of F at the parameters, zero where they are not free."""
    if weights.is_cuda:
        from datamarket_gym.learners.logistic_torch import kernels

        if kernels.AVAILABLE:
            return kernels.gradient(weights, stack, slots)
    residual = probabilities(weights, stack, slots)
    hot = torch.nn.functional.one_hot(stack.label, stack.n_classes)
    residual -= hot.transpose(1, 2)[:, None]
    residual *= (slots.rows * stack.weight[:, None])[:, :, None]
    games, size, classes, n = residual.shape
    out = torch.bmm(residual.view(games, size * classes, n), stack.x).view_as(weights)
    return out.addcmul_(slots.penalty[:, :, None], weights).mul_(slots.live)
