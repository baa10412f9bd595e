# mypy: ignore-errors
"""Launching the Triton kernels on CUDA: gradients with logits kept on chip, steps of the descent.

`calculus.gradient_by_masks` and `descent.advance_arrays` say what they compute; here each is one pass.
With few features a program holds some coalitions' parameters and walks over the rows of their game
once; with many, cuBLAS does the two products and only the softmax between them is fused.
Triton compiles at first use (some seconds, cached on disk). Where it is missing plain torch serves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from datamarket_gym.learners.logistic.descent import Descent
    from datamarket_gym.learners.logistic.layout import Slots, Stack

try:
    import triton

    from datamarket_gym.learners.logistic import triton_kernels

    AVAILABLE = True
except ImportError:
    AVAILABLE = False

FEW = 64  # features and intercept up to which logits stay on chip
TILE = (16, 32, 1)  # columns (coalitions x classes), rows and warps of a program on chip;
# fewer than one warp per 32 features spills registers
WARPS = 1  # of a program that takes a step with few parameters
MANY_CLASSES = 8  # beyond, tiles of classes squared no longer fit


def gradient(weights: torch.Tensor, stack: Stack, slots: Slots) -> torch.Tensor:
    """See `calculus.gradient`."""
    if on_chip(stack):
        return _gradient_on_chip(weights, stack, slots)
    from datamarket_gym.learners.logistic import calculus

    score = calculus.logits(weights, stack.x)
    games, size, classes, n = score.shape
    padded = triton.next_power_of_2(classes)
    block = min(2048 // padded, triton.next_power_of_2(n))
    triton_kernels.residual[(games * size, triton.cdiv(n, block))](
        score,
        slots.rows,
        slots.absent,
        stack.label,
        stack.weight,
        size,
        n,
        CLASSES=classes,
        PADDED=padded,
        BLOCK=block,
        num_warps=4,
    )
    out = torch.bmm(score.view(games, size * classes, n), stack.x)
    width = stack.width
    triton_kernels.finish[(games * size, triton.cdiv(classes * width, 1024))](
        out,
        weights.contiguous(),
        slots.penalty,
        slots.live,
        classes * width,
        width,
        BLOCK=1024,
        num_warps=4,
    )
    return out.view_as(weights)


def _gradient_on_chip(weights, stack, slots):
    weights = weights.contiguous()
    games, size, classes, width = weights.shape
    padded = triton.next_power_of_2(max(classes, 2))
    columns, rows, warps = TILE
    together = max(1, columns // padded)
    out = torch.empty_like(weights)
    triton_kernels.on_chip[(triton.cdiv(size, together), games)](
        weights,
        out,
        stack.x,
        stack.label,
        stack.weight,
        slots.bits,
        slots.absent,
        slots.penalty,
        slots.live,
        size,
        stack.x.shape[1],
        slots.bits.shape[2],
        WIDTH=width,
        WIDTH_PADDED=max(16, triton.next_power_of_2(width)),
        CLASSES=classes,
        PADDED=padded,
        TOGETHER=together,
        ROWS=rows,
        num_warps=warps if width <= 32 else 4 * warps,
    )
    return out


def edge_sums(weights: torch.Tensor, stack: Stack, slots: Slots) -> torch.Tensor:
    """Sums of C w p_k p_l x over a coalition's rows, (G, B, C, C, D); see `calculus.edge_sums`."""
    weights = weights.contiguous()
    games, size, classes, width = weights.shape
    padded = triton.next_power_of_2(max(classes, 2))
    together = max(1, 16 // padded)
    out = weights.new_empty(games, size, classes, classes, width)
    triton_kernels.edges[(triton.cdiv(size, together), games)](
        weights,
        out,
        stack.x,
        stack.weight,
        slots.bits,
        slots.absent,
        size,
        stack.x.shape[1],
        slots.bits.shape[2],
        WIDTH=width,
        WIDTH_PADDED=max(16, triton.next_power_of_2(width)),
        CLASSES=classes,
        PADDED=padded,
        TOGETHER=together,
        ROWS=32,
        num_warps=4,
    )
    return out


def on_chip(stack: Stack) -> bool:
    """Whether logits of the stack's games can stay on chip."""
    return AVAILABLE and stack.width <= FEW and stack.n_classes <= MANY_CLASSES


def advance(state: Descent, gradient: torch.Tensor, scaled: torch.Tensor, live: torch.Tensor) -> None:
    """See `descent.advance`."""
    from datamarket_gym.learners.logistic.descent import LONGEST, SHORTEST, UPHILL

    games, size, n = state.point.shape
    block = min(512, triton.next_power_of_2(n))
    triton_kernels.advance[(games * size,)](
        state.point,
        state.slope_vector,
        state.scaled,
        state.direction,
        state.trial,
        state.steps,
        state.images,
        state.sy,
        state.yz,
        state.count,
        state.length,
        state.slope,
        state.decrement,
        gradient,
        scaled,
        live,
        n,
        MEMORY=state.steps.shape[2],
        UPHILL=UPHILL,
        SHORTEST=SHORTEST,
        LONGEST=LONGEST,
        BLOCK=block,
        num_warps=WARPS if block <= 128 else 4,
    )
