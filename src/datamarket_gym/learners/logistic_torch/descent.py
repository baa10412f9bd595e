"""L-BFGS for many problems in lockstep, preconditioned by one matrix P per game.

Instead of pairs (s_i, y_i) it keeps s_i and z_i = P y_i, and the products s_i'y_j and y_i'z_j, so that
the two-loop recursion (Nocedal and Wright, algorithm 7.4) runs on numbers: with a_i = s_i'g,
c_i = z_i'g, u = P g and gamma = s'y / y'z of the newest pair,

    newest to oldest:  alpha_i = (a_i - sum over newer j of alpha_j s_i'y_j) / s_i'y_i
    oldest to newest:  beta_i = (gamma (c_i - sum over all j of alpha_j y_i'z_j)
                                 + sum over older j of (alpha_j - beta_j) s_j'y_i) / s_i'y_i
    direction:         -(gamma (u - sum alpha_i z_i) + sum (alpha_i - beta_i) s_i).

One application of P and one pass over the history a step. The line search looks at slopes only: F is
convex, so a step is accepted unless the slope at its end is steeply uphill, and shortened by the
secant otherwise. Everything is kept per problem, so problems reject steps on their own.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch

from datamarket_gym.learners.logistic_torch.layout import gather

PAIRS = 4  # remembered; twice as many save 6 % of the steps and cost more in memory traffic
UPHILL = 0.5  # largest accepted slope at a step's end, as a share of the slope at its start
SHORTEST, LONGEST = 0.1, 0.6  # by how much a rejected step shrinks


@dataclass
class Descent:
    """The state of (G, B) problems of N = C (d + 1) parameters each."""

    point: torch.Tensor  # (G, B, N)
    slope_vector: torch.Tensor  # (G, B, N): gradient g at the point
    scaled: torch.Tensor  # (G, B, N): u = P g
    direction: torch.Tensor  # (G, B, N)
    trial: torch.Tensor  # (G, B, N): point + length * direction
    steps: torch.Tensor  # (G, B, PAIRS, N): s
    images: torch.Tensor  # (G, B, PAIRS, N): z
    sy: torch.Tensor  # (G, B, PAIRS, PAIRS): s_i'y_j, for j not older than i
    yz: torch.Tensor  # (G, B, PAIRS, PAIRS): y_i'z_j
    count: torch.Tensor  # (G, B) int32: pairs stored so far
    length: torch.Tensor  # (G, B): step length to try
    slope: torch.Tensor  # (G, B): g'direction
    decrement: torch.Tensor  # (G, B): sqrt(g' P g)

    def take(self, index: torch.Tensor) -> Descent:
        """The places ``index`` (G, B'), counted through all games."""
        return Descent(**{f.name: gather(getattr(self, f.name), index) for f in fields(self)})


def begin(
    point: torch.Tensor, gradient: torch.Tensor, scaled: torch.Tensor, live: torch.Tensor
) -> Descent:
    """Start at a point with gradient g and P g; parameters that are not ``live`` stay as they are."""
    games, size, n = point.shape
    scaled = scaled * live
    past = torch.zeros(games, size, PAIRS, n, dtype=_history_type(point), device=point.device)
    square = point.new_zeros(games, size, PAIRS, PAIRS)
    decrement2 = (gradient * scaled).sum(dim=2).clamp_min(0.0)
    return Descent(
        point=point,
        slope_vector=gradient,
        scaled=scaled,
        direction=-scaled,
        trial=point - scaled,
        steps=past,
        images=torch.zeros_like(past),
        sy=square,
        yz=torch.zeros_like(square),
        count=torch.zeros(games, size, dtype=torch.int32, device=point.device),
        length=torch.ones_like(decrement2),
        slope=-decrement2,
        decrement=decrement2.sqrt(),
    )


def _history_type(point: torch.Tensor) -> torch.dtype:
    """Steps only shape directions: on CUDA, where memory traffic counts, they need not be double."""
    if point.is_cuda:
        from datamarket_gym.learners.logistic_torch import kernels

        if kernels.AVAILABLE:
            return torch.float32
    return point.dtype


def advance(state: Descent, gradient: torch.Tensor, scaled: torch.Tensor, live: torch.Tensor) -> None:
    """Take in the gradient at ``state.trial`` and P times it; set the next trial, in place."""
    if gradient.is_cuda:
        from datamarket_gym.learners.logistic_torch import kernels

        if kernels.AVAILABLE:
            kernels.advance(state, gradient, scaled, live)
            return
    scaled = scaled * live
    end = (gradient * state.direction).sum(dim=2)
    accept = end <= UPHILL * state.slope.abs()
    moved = accept[..., None]
    _store(state, gradient - state.slope_vector, scaled - state.scaled, accept)
    state.point = torch.where(moved, state.trial, state.point)
    state.slope_vector = torch.where(moved, gradient, state.slope_vector)
    state.scaled = torch.where(moved, scaled, state.scaled)
    square = (state.slope_vector * state.scaled).sum(dim=2).clamp_min(0.0)
    state.decrement = torch.where(accept, square.sqrt(), state.decrement)
    direction, slope = _two_loops(state)
    shrink = (state.slope / (state.slope - end)).nan_to_num(SHORTEST).clamp(SHORTEST, LONGEST)
    state.length = torch.where(accept, 1.0, state.length * shrink)
    state.direction = torch.where(moved, direction, state.direction)
    state.slope = torch.where(accept, slope, state.slope)
    state.trial = state.point + state.length[..., None] * state.direction


def _store(state: Descent, y: torch.Tensor, z: torch.Tensor, accept: torch.Tensor) -> None:
    """Put the accepted step with its gradient change y and z = P y in place of the oldest pair."""
    s = state.length[..., None] * state.direction
    sy, yz = (s * y).sum(dim=2), (y * z).sum(dim=2)
    keep = accept & (sy > 0) & (yz > 0)
    here = torch.arange(PAIRS, device=s.device) == (state.count % PAIRS)[..., None]
    here = here & keep[..., None]
    row, column = here[..., None], here[..., None, :]
    state.steps = torch.where(row, s[:, :, None], state.steps)
    state.images = torch.where(row, z[:, :, None], state.images)
    products = (state.steps @ y[..., None])[..., 0]
    state.sy = torch.where(column, products[..., None], state.sy)
    products = (state.images @ y[..., None])[..., 0]
    state.yz = torch.where(column, products[..., None], state.yz)
    state.yz = torch.where(row, products[:, :, None], state.yz)
    state.count = state.count + keep.to(torch.int32)


def _two_loops(state: Descent) -> tuple[torch.Tensor, torch.Tensor]:
    g, u, newest = state.slope_vector, state.scaled, (state.count - 1).long()
    a = (state.steps @ g[..., None])[..., 0]
    c = (state.images @ g[..., None])[..., 0]
    places = torch.arange(PAIRS, device=g.device)
    curvature = state.sy.diagonal(dim1=2, dim2=3)
    gamma = _ratio(_pick(curvature, newest), _pick(state.yz.diagonal(dim1=2, dim2=3), newest), 1.0)
    gamma = torch.where(newest < 0, 1.0, gamma)
    alpha, beta = torch.zeros_like(a), torch.zeros_like(a)
    for age in range(PAIRS):
        here = (places == ((newest - age) % PAIRS)[..., None]) & (newest >= age)[..., None]
        top = a - (state.sy * alpha[..., None, :]).sum(dim=3)
        alpha = torch.where(here, _ratio(top, curvature, 0.0), alpha)
    base = gamma[..., None] * (c - (state.yz * alpha[..., None, :]).sum(dim=3))
    done = torch.zeros_like(a)  # alpha - beta of the older pairs
    for age in reversed(range(PAIRS)):
        here = (places == ((newest - age) % PAIRS)[..., None]) & (newest >= age)[..., None]
        beta = _ratio(base + (state.sy * done[..., None]).sum(dim=2), curvature, 0.0)
        done = torch.where(here, alpha - beta, done)
    direction = (alpha[..., None, :] @ state.images)[:, :, 0] - u
    direction = gamma[..., None] * direction - (done[..., None, :] @ state.steps)[:, :, 0]
    slope = (direction * g).sum(dim=2)
    bad = ~(slope < 0)  # rounding has spoilt the history: start it again
    state.count = torch.where(bad, 0, state.count)
    direction = torch.where(bad[..., None], -u, direction)
    return direction, torch.where(bad, -(state.decrement**2), slope)


def _pick(vector: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return vector.gather(2, (index % PAIRS)[..., None])[..., 0]


def _ratio(top: torch.Tensor, bottom: torch.Tensor, otherwise: float) -> torch.Tensor:
    return torch.where(bottom > 0, top / bottom, otherwise)
