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

from datamarket_gym.learners.device_arrays import array_namespace
from datamarket_gym.learners.logistic.calculus import launcher
from datamarket_gym.learners.logistic.layout import Array, gather

PAIRS = 4  # remembered; twice as many save 6 % of the steps and cost more in memory traffic
UPHILL = 0.5  # largest accepted slope at a step's end, as a share of the slope at its start
SHORTEST, LONGEST = 0.1, 0.6  # by how much a rejected step shrinks


@dataclass
class Descent:
    """The state of (G, B) problems of N = C (d + 1) parameters each."""

    point: Array  # (G, B, N)
    slope_vector: Array  # (G, B, N): gradient g at the point
    scaled: Array  # (G, B, N): u = P g
    direction: Array  # (G, B, N)
    trial: Array  # (G, B, N): point + length * direction
    steps: Array  # (G, B, PAIRS, N): s
    images: Array  # (G, B, PAIRS, N): z
    sy: Array  # (G, B, PAIRS, PAIRS): s_i'y_j, for j not older than i
    yz: Array  # (G, B, PAIRS, PAIRS): y_i'z_j
    count: Array  # (G, B) int32: pairs stored so far
    length: Array  # (G, B): step length to try
    slope: Array  # (G, B): g'direction
    decrement: Array  # (G, B): sqrt(g' P g)

    def take(self, index: Array) -> Descent:
        """The places ``index`` (G, B'), counted through all games."""
        return Descent(**{f.name: gather(getattr(self, f.name), index) for f in fields(self)})


def begin(point: Array, gradient: Array, scaled: Array, live: Array) -> Descent:
    """Start at a point with gradient g and P g; parameters that are not ``live`` stay as they are."""
    xp, fused = array_namespace(point), launcher(point)
    games, size, n = point.shape
    scaled = scaled * live
    # Steps only shape directions: on CUDA, where memory traffic counts, they need not be double.
    kind = xp.float32 if fused else point.dtype
    past = xp.zeros((games, size, PAIRS, n), dtype=kind, device=point.device)
    square = xp.zeros((games, size, PAIRS, PAIRS), dtype=point.dtype, device=point.device)
    decrement2 = xp.clip(xp.sum(gradient * scaled, axis=2), min=0.0)
    return Descent(
        point=point,
        slope_vector=gradient,
        scaled=scaled,
        direction=-scaled,
        trial=point - scaled,
        steps=past,
        images=xp.zeros_like(past),
        sy=square,
        yz=xp.zeros_like(square),
        count=xp.zeros((games, size), dtype=xp.int32, device=point.device),
        length=xp.ones_like(decrement2),
        slope=-decrement2,
        decrement=decrement2**0.5,
    )


def advance(state: Descent, gradient: Array, scaled: Array, live: Array) -> None:
    """Take in the gradient at ``state.trial`` and P times it; set the next trial, in place."""
    if fused := launcher(gradient):
        fused.advance(state, gradient, scaled, live)
    else:
        advance_arrays(state, gradient, scaled, live)


def advance_arrays(state: Descent, gradient: Array, scaled: Array, live: Array) -> None:
    """The same in plain array operations, which say what the fused kernel computes."""
    xp = array_namespace(gradient)
    scaled = scaled * live
    end = xp.sum(gradient * state.direction, axis=2)
    accept = end <= UPHILL * xp.abs(state.slope)
    moved = accept[..., None]
    _store(state, gradient - state.slope_vector, scaled - state.scaled, accept)
    state.point = xp.where(moved, state.trial, state.point)
    state.slope_vector = xp.where(moved, gradient, state.slope_vector)
    state.scaled = xp.where(moved, scaled, state.scaled)
    square = xp.clip(xp.sum(state.slope_vector * state.scaled, axis=2), min=0.0)
    state.decrement = xp.where(accept, square**0.5, state.decrement)
    direction, slope = _two_loops(state)
    shrink = xp.clip(_ratio(-state.slope, end - state.slope, SHORTEST), min=SHORTEST, max=LONGEST)
    state.length = xp.where(accept, 1.0, state.length * shrink)
    state.direction = xp.where(moved, direction, state.direction)
    state.slope = xp.where(accept, slope, state.slope)
    state.trial = state.point + state.length[..., None] * state.direction


def _store(state: Descent, y: Array, z: Array, accept: Array) -> None:
    """Put the accepted step with its gradient change y and z = P y in place of the oldest pair."""
    xp = array_namespace(y)
    s = state.length[..., None] * state.direction
    sy, yz = xp.sum(s * y, axis=2), xp.sum(y * z, axis=2)
    game, place = xp.nonzero(accept & (sy > 0) & (yz > 0))
    spot = state.count[game, place] % PAIRS
    state.steps[game, place, spot] = xp.astype(s[game, place], state.steps.dtype)
    state.images[game, place, spot] = xp.astype(z[game, place], state.images.dtype)
    state.sy[game, place, :, spot] = _products(state.steps, y)[game, place]
    products = _products(state.images, y)[game, place]
    state.yz[game, place, :, spot] = products
    state.yz[game, place, spot] = products
    state.count[game, place] += 1


def _products(history: Array, vector: Array) -> Array:
    """Of each problem's (PAIRS, N) with its vector (N)."""
    xp = array_namespace(vector)
    return (xp.astype(history, vector.dtype, copy=False) @ vector[..., None])[..., 0]


def _two_loops(state: Descent) -> tuple[Array, Array]:
    xp = array_namespace(state.point)
    g, u, newest = state.slope_vector, state.scaled, state.count - 1
    a, c = _products(state.steps, g), _products(state.images, g)
    places = xp.arange(PAIRS, device=g.device)
    last = places == (newest % PAIRS)[..., None]
    curvature, own = xp.linalg.diagonal(state.sy), xp.linalg.diagonal(state.yz)
    top, bottom = (xp.sum(xp.where(last, part, 0.0), axis=2) for part in (curvature, own))
    gamma = xp.where(newest < 0, 1.0, _ratio(top, bottom, 1.0))
    alpha = xp.zeros_like(a)
    for age in range(PAIRS):
        here = (places == ((newest - age) % PAIRS)[..., None]) & (newest >= age)[..., None]
        rest = a - xp.sum(state.sy * alpha[..., None, :], axis=3)
        alpha = xp.where(here, _ratio(rest, curvature, 0.0), alpha)
    base = gamma[..., None] * (c - xp.sum(state.yz * alpha[..., None, :], axis=3))
    done = xp.zeros_like(a)  # alpha - beta of the older pairs
    for age in reversed(range(PAIRS)):
        here = (places == ((newest - age) % PAIRS)[..., None]) & (newest >= age)[..., None]
        beta = _ratio(base + xp.sum(state.sy * done[..., None], axis=2), curvature, 0.0)
        done = xp.where(here, alpha - beta, done)
    direction = _combine(alpha, state.images) - u
    direction = gamma[..., None] * direction - _combine(done, state.steps)
    slope = xp.sum(direction * g, axis=2)
    bad = ~(slope < 0)  # rounding has spoilt the history: start it again
    state.count = xp.where(bad, 0, state.count)
    direction = xp.where(bad[..., None], -u, direction)
    return direction, xp.where(bad, -(state.decrement**2), slope)


def _combine(factor: Array, history: Array) -> Array:
    """Of each problem's (PAIRS, N), the sum with these factors."""
    xp = array_namespace(factor)
    return (factor[..., None, :] @ xp.astype(history, factor.dtype, copy=False))[..., 0, :]


def _ratio(top: Array, bottom: Array, otherwise: float) -> Array:
    xp = array_namespace(top)
    safe = bottom > 0
    return xp.where(safe, top / xp.where(safe, bottom, 1.0), otherwise)
