r"""When are all validation predictions of a coalition certain? A proof, with the free intercept.

In a coalition's standardised features z, F(U, b) = mu/2 ||U||^2 + C sum_i w_i loss_i(U z_i + b). Let g_U, g_b
be the gradient at the point reached and (U + D, b + e) the optimum. With A_i = diag(p_i) - p_i p_i' the
Hessian of loss_i in the logits, h_i = D z_i + e the change of row i's logits and bars for averages
over the way to the optimum,

    mu D + C sum_i w_i Abar_i h_i z_i' = -g_U,        C sum_i w_i Abar_i h_i = -g_b.             (1)

Suppose no training row's logit differences change by more than r on the way. Products p_k p_l then
change by factors within exp(+-2rt) at time t, and so do the A_i (Laplacians with edge weights p_k p_l):
kappa A_i <= Abar_i and |x'(Abar_i - A_i) y| <= eta ||x||_{A_i} ||y||_{A_i}, where kappa = (1 - exp(-2r)) / 2r and
eta = (exp(2r) - 1) / 2r - 1. Let N = C sum w_i A_i, B = C sum w_i A_i (x) z_i (as a map from D to R^C) and
E = sum C w_i ||h_i||^2_{A_i}. Multiplying (1) by (D, e) gives mu ||D||^2 + kappa E <= ||g_U|| ||D|| + |g_b'e|, so

    kappa E <= ||g_U||^2 / (4 mu) + sigma,  mu ||D||^2 <= ||g_U|| ||D|| + sigma,  sigma := |g_b'e|.      (2)

The second equation of (1) reads N e + B D + rest = -g_b with |x'N^+ rest| <= eta ||x||_{N^+} E^(1/2). For any
x orthogonal to 1, therefore,

    |x'e| <= |x'N^+ g_b| + ||B'N^+ x|| ||D|| + eta ||x||_{N^+} E^(1/2).                               (3)

x = g_b in (3), with q = ||g_b||_{N^+} and q_B = ||B'N^+ g_b||, bounds sigma; with E and ||D|| from (2) that is
sigma <= a + c sigma^(1/2), a = q^2 + q_B ||g_U|| / mu + eta q ||g_U|| / (2 (mu kappa)^(1/2)),
c = q_B / mu^(1/2) + eta q / kappa^(1/2), hence sigma^(1/2) <= (c + (c^2 + 4a)^(1/2)) / 2. Then (2) bounds ||D|| by

    eps = (||g_U|| + (||g_U||^2 + 4 mu sigma)^(1/2)) / (2 mu),

and x = u_k - u_l in (3) bounds intercept differences: with the largest effective resistance
R = max ||u_k - u_l||^2_{N^+} and omega = max ||B'N^+(u_k - u_l)||, no logit difference of a row z moves by more than

    (2^(1/2) ||z|| + omega) eps + tau,   tau = R^(1/2) q + eta (R / kappa)^(1/2) (||g_U|| / (2 mu^(1/2)) + sigma^(1/2)).

The supposition follows if this is below r for all training rows: on the curve where the gradient
shrinks linearly from (g_U, g_b) to 0 the same bounds hold as long as it stays within r of its start;
being continuous, it cannot leave. B is small in centred features, which is what makes this
tighter than a bound by ||B|| <= (sum C w_i ||A_i|| ||z_i||^2 ||N||)^(1/2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch

from datamarket_gym.learners.logistic.certify import ROUNDING, TIE
from datamarket_gym.learners.logistic_torch.layout import Slots, Stack
from datamarket_gym.learners.logistic_torch.sweep import logits, probabilities

RADIUS = 0.3  # r: smaller makes eta smaller, which hardly matters, and certainty rarer
_CONDITION = 1e9  # of N; beyond, rounding in its inverse would need more than _SLACK
_SLACK = 1e-3
_ROOT = math.sqrt(2)


@dataclass(frozen=True)
class Verdict:
    """For each coalition: is it certain, its correct predictions, how far the gradient must fall."""

    certain: torch.Tensor  # (G, B) bool
    correct: torch.Tensor  # (G, B) int64
    shrink: torch.Tensor  # (G, B): estimated factor on the gradient that would make it certain


@dataclass(frozen=True)
class _Curvature:
    """N^+ and what (3) needs of B."""

    forms: torch.Tensor  # (2, G, B, C, C): N^+ and N^+ B B' N^+
    widest: torch.Tensor  # (2, G, B): R^(1/2) and omega
    usable: torch.Tensor  # (G, B) bool: N is far enough from singular


def judge(weights: torch.Tensor, gradient: torch.Tensor, stack: Stack, slots: Slots) -> Verdict:
    """Try to certify the coalitions at parameters (G, B, C, D) with the given gradient there."""
    bend = _curvature(weights, stack, slots)
    margin, correct, largest = _margins(weights, stack, slots)
    g_b = gradient[..., -1]
    g_u = slots.inverse[:, :, None] * (gradient[..., :-1] - slots.mean[:, :, None] * g_b[..., None])
    entry = ROUNDING * slots.mass  # rounding error of a sum over rows
    squares = stack.width + (slots.mean * slots.inverse).square().sum(dim=2)
    g_norm = g_u.flatten(2).norm(dim=2) + entry * (stack.n_classes * squares).sqrt()
    eps, omega, tau = _bounds(bend, g_norm, g_b, entry, slots.mu)
    parts = _norm_parts(slots)
    lengths = torch.bmm(parts, stack.val_squares.transpose(1, 2)).clamp_min_(0.0).sqrt_()
    reach = torch.bmm(parts, stack.squares.transpose(1, 2)).mul_(slots.rows).amax(dim=2).sqrt_()
    error = lengths * (_ROOT * eps)[..., None] + (omega * eps + tau)[..., None]
    error = torch.maximum(error, (TIE * (1 + largest))[..., None])
    room = RADIUS / ((_ROOT * reach + omega) * eps + tau)
    shrink = torch.minimum((margin / error).amin(dim=2), room)
    shrink = torch.where(bend.usable & (shrink > 0), shrink, 0.0)
    return Verdict(shrink > 1, correct, shrink)


def _curvature(weights: torch.Tensor, stack: Stack, slots: Slots) -> _Curvature:
    """N = A'VA and B B' = A'(AA' o TT')A for edge weights V, edge vectors T and incidence A."""
    graph = _graph(stack.n_classes, weights.device, weights.dtype)
    sums = _edge_sums(weights, stack, slots, graph)
    edge = sums[..., -1]
    pull = (sums[..., :-1] - slots.mean[:, :, None] * edge[..., None]) * slots.inverse[:, :, None]
    square = graph.rows.T @ ((pull @ pull.transpose(2, 3)) * graph.overlap) @ graph.rows
    laplacian = (graph.rows.T * edge[..., None, :]) @ graph.rows
    present = slots.present.to(sums.dtype)
    number = present.sum(dim=2, keepdim=True)
    scale = (edge.sum(dim=2, keepdim=True).clamp_min_(1e-300) / number)[..., None]
    # One on constants and on absent classes, where N vanishes: there the inverse is one, too.
    offset = (present / number)[..., None] * present[..., None, :] + torch.diag_embed(1 - present)
    inverse = (torch.linalg.inv_ex(laplacian / scale + offset)[0] - offset) / scale
    forms = torch.stack([inverse, inverse @ square @ inverse])
    # Pairs with an absent class have at most the width of a pair of present ones.
    widest = ((graph.rows @ forms) * graph.rows).sum(dim=4).amax(dim=3)
    usable = widest[0] * scale[..., 0, 0] < _CONDITION
    return _Curvature(forms, widest.clamp_min_(0.0).sqrt_() * (1 + _SLACK), usable)


@dataclass(frozen=True)
class _Graph:
    """Pairs of classes k < l, the matrix A with rows u_k - u_l, and A A'."""

    first: torch.Tensor
    second: torch.Tensor
    rows: torch.Tensor
    overlap: torch.Tensor


@cache
def _graph(classes: int, device: torch.device, dtype: torch.dtype) -> _Graph:
    first, second = torch.triu_indices(classes, classes, 1, device=device)
    unit = torch.eye(classes, device=device, dtype=dtype)
    rows = unit[first] - unit[second]
    return _Graph(first, second, rows, rows @ rows.T)


def _edge_sums(weights: torch.Tensor, stack: Stack, slots: Slots, graph: _Graph) -> torch.Tensor:
    """Sums of C w p_k p_l x over a coalition's rows for pairs of classes, (G, B, pairs, D)."""
    games, size, _, width = weights.shape
    if weights.is_cuda:
        from datamarket_gym.learners.logistic_torch import kernels

        if kernels.on_chip(stack):
            return kernels.edge_sums(weights, stack, slots)[:, :, graph.first, graph.second]
    p = probabilities(weights, stack, slots)
    edges = p[:, :, graph.first] * p[:, :, graph.second]
    edges *= (slots.rows * stack.weight[:, None])[:, :, None]
    return torch.bmm(edges.view(games, -1, p.shape[3]), stack.x).view(games, size, -1, width)


def _bounds(
    bend: _Curvature, g_u: torch.Tensor, g_b: torch.Tensor, entry: torch.Tensor, mu: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """eps, omega and tau of the module's docstring."""
    kappa = (1 - math.exp(-2 * RADIUS)) / (2 * RADIUS)
    eta = (math.exp(2 * RADIUS) - 1) / (2 * RADIUS) - 1
    resistance, omega = bend.widest
    # g_b is off by ``entry`` a class, and the norms of unit vectors less their mean are at most
    # R^(1/2) and omega. N^+ is off by 1e-6 of its norm at worst, hence norms by 1e-3.
    off = entry * g_b.shape[2] + _SLACK * g_b.norm(dim=2)
    own = ((bend.forms @ g_b[..., None])[..., 0] * g_b).sum(dim=3).clamp_min_(0.0).sqrt_()
    q, q_b = own + off * bend.widest
    root_mu = mu.sqrt()
    a = q**2 + q_b * g_u / mu + (eta / 2 / math.sqrt(kappa)) * q * g_u / root_mu
    c = q_b / root_mu + (eta / math.sqrt(kappa)) * q
    root = (c + (c**2 + 4 * a).sqrt()) / 2
    eps = (g_u + (g_u**2 + 4 * mu * root**2).sqrt()) / (2 * mu)
    rest = (eta / math.sqrt(kappa)) * (g_u / (2 * root_mu) + root)
    return eps, omega, resistance * (q + rest)


def _norm_parts(slots: Slots) -> torch.Tensor:
    """What rows' squares are multiplied with to give ||z||^2 = sum_j (x_j - m_j)^2 / s_j^2."""
    precision = slots.inverse**2
    middle = precision * slots.mean
    parts = [precision, -2 * middle, (middle * slots.mean).sum(2, keepdim=True)]
    return torch.cat(parts, dim=2).mul_(1 + 1e-8)


def _margins(
    weights: torch.Tensor, stack: Stack, slots: Slots
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Margins (G, B, v), infinite in padding, correct predictions, and the largest logit (G, B)."""
    score = logits(weights, stack.val)
    largest = score.abs().amax(dim=(2, 3))  # zero in padding
    score += slots.absent[..., None]
    best, chosen = score.max(dim=2)
    correct = (chosen == stack.val_label[:, None]).sum(dim=2)
    score.scatter_(2, chosen[:, :, None], -torch.inf)
    padding = (stack.val_label == -2)[:, None]
    margin = (best - score.amax(dim=2)).masked_fill_(padding, torch.inf)
    return margin, correct, largest
