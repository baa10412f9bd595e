"""The grand coalition's solution of each game: every coalition's start, and its preconditioner.

One matrix P per game preconditions all its coalitions: with Hessian H of the grand coalition's loss
at its solution, P = (share H + I)^-1 where there are few parameters (their number squared numbers),
and P = I (x) (share sum_i h_i x_i x_i' + I)^-1 with row curvatures h_i where there are many. Coalitions
differ from it by less than it might seem: in features standardised on the grand coalition their
penalties are near one, and the memory of the descent learns the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from datamarket_gym.learners.logistic_torch import descent, sweep
from datamarket_gym.learners.logistic_torch.layout import Slots, Stack, gather, slots

_FULL = 320  # parameters up to which P is a full matrix
_SHARE = 0.5  # of the grand coalition's Hessian: a typical coalition has half the rows
_SHARE_MANY = 0.08  # with many features rows are fitted closely, and curvatures fall with size
_TYPICAL = 0.05  # row curvature assumed before any solution is known
_OWN_CELLS = 1 << 30  # numbers that coalitions' own preconditioners may take together
_SWEEPS_FEW, _SWEEPS = 8, 24  # a rough solution will do


@dataclass(frozen=True)
class Preconditioner:
    """P of each game: (G, N, N) over all parameters, or (G, D, D) for each class alike.

    For coalitions that stay open it may be each coalition's own, (G, B, N, N).
    """

    matrix: torch.Tensor

    def __call__(self, gradient: torch.Tensor) -> torch.Tensor:
        """P g for gradients (G, B, C, D)."""
        if self.matrix.dim() == 4:
            return (self.matrix @ gradient.flatten(2)[..., None]).view_as(gradient)
        flat = gradient.reshape(len(gradient), -1, self.matrix.shape[1])
        return torch.bmm(flat, self.matrix).view_as(gradient)

    def take(self, index: torch.Tensor) -> Preconditioner:
        """For the places ``index`` (G, B'), counted through all games."""
        return Preconditioner(gather(self.matrix, index)) if self.matrix.dim() == 4 else self


@dataclass(frozen=True)
class Anchor:
    """What all coalitions of a game start from."""

    solution: torch.Tensor  # (G, C, D)
    precondition: Preconditioner

    def start(self, slots: Slots) -> torch.Tensor:
        """The grand coalition's solution on each coalition's free parameters, summing to zero."""
        weights = self.solution[:, None] * slots.live
        weights -= weights.sum(2, keepdim=True) / slots.present.sum(dim=2)[..., None, None]
        return weights.mul_(slots.live)


def anchor(stack: Stack) -> Anchor:
    """Solve the grand coalition of each game roughly and build the preconditioners."""
    everyone = [np.ones((1, p.n_players), dtype=bool) for p in stack.problems]
    grand, _ = slots(stack, everyone, [np.zeros(1, dtype=np.int64)] * len(everyone))
    weights = torch.zeros(grand.live.shape, dtype=stack.x.dtype, device=stack.x.device)
    typical = Preconditioner(_shared_inverse(stack, _TYPICAL * stack.weight))
    few = affordable(stack, len(stack.x))
    for scale, sweeps in ((typical, _SWEEPS_FEW if few else _SWEEPS), (None, _SWEEPS_FEW)):
        if scale is None and not few:
            break
        scale = scale or own(weights, stack, grand)
        weights = _descend(weights, stack, grand, scale, sweeps)
    p = sweep.probabilities(weights, stack, grand)[:, 0]
    if weights[0, 0].numel() <= _FULL:
        matrix = _full_inverse(stack, p)
    else:
        curvature = (p * (1 - p)).mean(dim=1)
        # Between the curvatures and their mean: other coalitions have other hard rows.
        blend = (curvature * curvature.mean(dim=1, keepdim=True)).sqrt()
        matrix = _shared_inverse(stack, _SHARE_MANY * blend * stack.weight)
    return Anchor(weights[:, 0], Preconditioner(matrix))


def _descend(
    weights: torch.Tensor, stack: Stack, slots: Slots, scale: Preconditioner, sweeps: int
) -> torch.Tensor:
    def both(point: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        gradient = sweep.gradient(point.view_as(weights), stack, slots)
        return gradient.flatten(2), scale(gradient).flatten(2), slots.live.flatten(2)

    state = descent.begin(weights.flatten(2), *both(weights))
    for _ in range(sweeps):
        descent.advance(state, *both(state.trial))
    return state.point.view_as(weights)


def _shared_inverse(stack: Stack, row_weight: torch.Tensor) -> torch.Tensor:
    gram = torch.bmm((stack.x * row_weight[..., None]).transpose(1, 2), stack.x)
    gram.diagonal(dim1=1, dim2=2)[:, :-1] += 1.0
    return _inverse(gram)


def affordable(stack: Stack, coalitions: int) -> bool:
    """Whether so many coalitions can have preconditioners of their own."""
    n, games, width = stack.x.shape[1], len(stack.x), stack.width
    cells = coalitions * ((stack.n_classes * width) ** 2 * 3 + stack.n_classes**2 * n)
    return stack.n_classes * width <= _FULL and cells + games * n * width**2 <= _OWN_CELLS


def own(weights: torch.Tensor, stack: Stack, slots: Slots) -> Preconditioner:
    """The inverse Hessian of each coalition at its point."""
    p = sweep.probabilities(weights, stack, slots)
    row_weight = (slots.rows * stack.weight[:, None])[:, :, None]
    ridge = slots.penalty[:, :, None].expand_as(weights).flatten(2)
    hessian = _hessian(p, row_weight, stack.x).flatten(4).flatten(2, 3)
    hessian.diagonal(dim1=2, dim2=3).add_(ridge)
    live = slots.live.flatten(2).to(p.dtype)
    hessian *= live[..., None] * live[..., None, :]
    hessian.diagonal(dim1=2, dim2=3).add_(1 - live)
    return Preconditioner(_inverse(hessian))


def _full_inverse(stack: Stack, p: torch.Tensor) -> torch.Tensor:
    hessian = _SHARE * _hessian(p[:, None], stack.weight[:, None, None], stack.x)
    flat = hessian[:, 0].flatten(3).flatten(1, 2)
    ridge = stack.x.new_ones(p.shape[1], stack.width)
    ridge[:, -1] = 0.0
    flat.diagonal(dim1=1, dim2=2).add_(ridge.flatten())
    return _inverse(flat)


def _hessian(p: torch.Tensor, row_weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Hessians of the loss, (G, B, C, D, C, D), from probabilities (G, B, C, n)."""
    games, size, classes, n = p.shape
    width = x.shape[2]
    outer = (x[..., None] * x[:, :, None]).flatten(2)  # (G, n, D D)
    hessian = x.new_empty(games, size, classes, width, classes, width)
    weighted = p * row_weight
    for k in range(classes):
        edges = -weighted[:, :, k : k + 1] * p[:, :, : k + 1]
        edges[:, :, k] += weighted[:, :, k]
        blocks = torch.bmm(edges.reshape(games, -1, n), outer)
        blocks = blocks.view(games, size, k + 1, width, width)
        hessian[:, :, k, :, : k + 1] = blocks.transpose(2, 3)
        hessian[:, :, : k + 1, :, k] = blocks
    # The loss does not see all intercepts moving together; any curvature there will do.
    blind = (weighted * (1 - p)).sum(dim=(2, 3)) / classes**2
    hessian[..., -1, :, -1] += blind[..., None, None]
    return hessian


def _inverse(matrix: torch.Tensor) -> torch.Tensor:
    # A grain of the identity keeps classes or features that no row has from making it singular.
    grain = 1e-9 * matrix.diagonal(dim1=-2, dim2=-1).mean(dim=-1, keepdim=True)
    matrix.diagonal(dim1=-2, dim2=-1).add_(grain)
    inverse, _ = torch.linalg.inv_ex(matrix)
    return (inverse + inverse.transpose(-2, -1)) / 2
