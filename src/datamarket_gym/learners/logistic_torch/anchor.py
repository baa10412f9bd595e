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
from datamarket_gym.learners.logistic_torch.layout import Slots, Stack, slots

_FULL = 320  # parameters up to which P is a full matrix
_SHARE = 0.5  # of the grand coalition's Hessian: a typical coalition has half the rows
_SHARE_MANY = 0.08  # with many features rows are fitted closely, and curvatures fall with size
_TYPICAL = 0.05  # row curvature assumed before any solution is known
_SWEEPS, _LOOSE = 60, 3e-3


@dataclass(frozen=True)
class Preconditioner:
    """P of each game: (G, N, N) over all parameters, or (G, D, D) for each class alike."""

    matrix: torch.Tensor

    def __call__(self, gradient: torch.Tensor, live: torch.Tensor) -> torch.Tensor:
        """P g on the free parameters, (G, B, C, D)."""
        games, width = len(gradient), self.matrix.shape[1]
        flat = gradient.reshape(games, -1, width)
        return torch.bmm(flat, self.matrix).view_as(gradient).mul_(live)


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
    gradient = sweep.gradient(weights, stack, grand)
    state = descent.begin(
        weights.flatten(2), gradient.flatten(2), typical(gradient, grand.live).flatten(2)
    )
    for step in range(_SWEEPS):
        gradient = sweep.gradient(state.trial.view(weights.shape), stack, grand)
        descent.advance(state, gradient.flatten(2), typical(gradient, grand.live).flatten(2))
        if step % 8 == 7 and float(state.decrement.max()) < _LOOSE:
            break
    weights = state.point.view(weights.shape)
    p = sweep.probabilities(weights, stack, grand)[:, 0]
    if weights[0, 0].numel() <= _FULL:
        matrix = _full_inverse(stack, p)
    else:
        curvature = (p * (1 - p)).mean(dim=1)
        # Between the curvatures and their mean: other coalitions have other hard rows.
        blend = (curvature * curvature.mean(dim=1, keepdim=True)).sqrt()
        matrix = _shared_inverse(stack, _SHARE_MANY * blend * stack.weight)
    return Anchor(weights[:, 0], Preconditioner(matrix))


def _shared_inverse(stack: Stack, row_weight: torch.Tensor) -> torch.Tensor:
    gram = torch.bmm((stack.x * row_weight[..., None]).transpose(1, 2), stack.x)
    gram.diagonal(dim1=1, dim2=2)[:, :-1] += 1.0
    return _inverse(gram)


def _full_inverse(stack: Stack, p: torch.Tensor) -> torch.Tensor:
    games, classes, _ = p.shape
    width = stack.width
    weighted = stack.weight[:, None] * p
    hessian = stack.x.new_zeros(games, classes, width, classes, width)
    for k in range(classes):
        for m in range(k + 1):
            row_weight = weighted[:, k] * (float(k == m) - p[:, m])
            block = torch.bmm((stack.x * row_weight[..., None]).transpose(1, 2), stack.x)
            hessian[:, k, :, m] = hessian[:, m, :, k] = _SHARE * block
    # The loss does not see all intercepts moving together; any curvature there will do.
    blind = (weighted * (1 - p)).sum(dim=(1, 2)) / classes**2
    hessian[:, :, -1, :, -1] += _SHARE * blind[:, None, None]
    flat = hessian.view(games, classes * width, classes * width)
    ridge = stack.x.new_ones(classes, width)
    ridge[:, -1] = 0.0
    flat.diagonal(dim1=1, dim2=2).add_(ridge.flatten())
    return _inverse(flat)


def _inverse(matrix: torch.Tensor) -> torch.Tensor:
    # A grain of the identity keeps classes or features that no row has from making it singular.
    grain = 1e-9 * matrix.diagonal(dim1=1, dim2=2).mean(dim=1)
    matrix.diagonal(dim1=1, dim2=2).add_(grain[:, None])
    inverse, _ = torch.linalg.inv_ex(matrix)
    return (inverse + inverse.transpose(1, 2)) / 2
