"""The proof of `certificate`, compiled, for one coalition: what its formulas need, and their verdict."""

from __future__ import annotations

import numpy as np
from numba import njit

from datamarket_gym.learners.logistic import certificate, kernels
from datamarket_gym.learners.logistic.certificate import RADII, ROUNDING, SLACK, TIE
from datamarket_gym.learners.logistic.kernels import JIT

_growth = njit(**JIT)(certificate.growth)
_plain = njit(**JIT)(certificate.plain)
_moved = njit(**JIT)(certificate.moved)
_gradient_error = njit(**JIT)(certificate.gradient_error)
_intercept_error = njit(**JIT)(certificate.intercept_error)
_trusted = njit(**JIT)(certificate.trusted)


@njit(**JIT)
def bounds(p, w, x, n_classes, d, n, g, penalty, mass, small, bends):  # type: ignore[no-untyped-def]
    """The eps and beta of `certificate.plain`; (-1, -1) where the proof does not apply."""
    spread = 0.0
    reach = 0.0
    squares = 0.0
    length = bends[2, :n]
    length[:] = 0.0
    for j in range(d):
        v = x[j, :n]
        for i in range(n):
            length[i] += v[i] * v[i]
    for i in range(n):
        reach = max(reach, length[i])
        squares += w[i] * length[i]
    trace = 0.0
    for k in range(n_classes):
        for m in range(k + 1):
            pk, pm = p[k, :n], p[m, :n]
            total = 0.0
            diagonal = 0.0
            for i in range(n):
                total += w[i] * pk[i] * pm[i]
                diagonal += w[i] * pk[i]
            small[k, m] = small[m, k] = -total
            if k == m:
                small[k, k] += diagonal
                trace += small[k, k]
    total_bend, top_bend = bends[0, :n], bends[1, :n]
    total_bend[:] = 0.0
    top_bend[:] = 0.0
    for k in range(n_classes):
        q = p[k, :n]
        for i in range(n):
            v = q[i] * (1.0 - q[i])
            total_bend[i] += v
            top_bend[i] = max(top_bend[i], 2.0 * v)
    for i in range(n):
        spread += w[i] * min(total_bend[i], top_bend[i]) * length[i]
    scale = max(trace, 1e-300) / n_classes
    for k in range(n_classes):
        for m in range(n_classes):
            small[k, m] += scale / n_classes
    if not kernels.cholesky(small, n_classes):
        return -1.0, -1.0
    inverse = np.zeros((n_classes, n_classes))
    for k in range(n_classes):
        inverse[k, k] = 1.0
        kernels.back_substitute(small, n_classes, inverse[k])
    resistance = 0.0
    square = 0.0
    length_b = 0.0
    for k in range(n_classes):
        length_b += g[k, d] * g[k, d]
        for m in range(n_classes):
            square += g[k, d] * inverse[k, m] * g[m, d]
            resistance = max(resistance, inverse[k, k] + inverse[m, m] - 2.0 * inverse[k, m])
    resistance = np.sqrt(resistance) * (1.0 + SLACK)
    if not _trusted(resistance, scale):
        return -1.0, -1.0
    entry = ROUNDING * mass
    q = np.sqrt(abs(square))
    q += _intercept_error(entry, n_classes, np.sqrt(length_b)) * resistance
    size = 0.0
    for k in range(n_classes):
        for j in range(d):
            size += g[k, j] * g[k, j]
    size = np.sqrt(size) + _gradient_error(entry, n_classes, squares / mass)
    for radius in RADII:
        eps, beta = _plain(size, np.sqrt(spread), q, resistance, penalty, _growth(radius))
        if _moved(eps, beta, np.sqrt(reach)) < radius:
            return eps, beta
    return -1.0, -1.0


@njit(**JIT)
def judge(z, n_val, classes, n_classes, truth, lengths, eps, beta):  # type: ignore[no-untyped-def]
    """Hits, and the worst ratio of bound to margin over the validation rows (proven below one)."""
    top = 0.0
    for k in range(n_classes):
        for i in range(n_val):
            top = max(top, abs(z[k, i]))
    tie = TIE * (1.0 + top)
    hits = 0
    worst = 0.0
    for i in range(n_val):
        best = z[0, i]
        for k in range(1, n_classes):
            best = max(best, z[k, i])
        chosen = 0
        while z[chosen, i] < best - tie:
            chosen += 1
        margin = 1e300
        for k in range(n_classes):
            if k != chosen:
                margin = min(margin, z[chosen, i] - z[k, i])
        if classes[chosen] == truth[i]:
            hits += 1
        need = max(_moved(eps, beta, lengths[i]), tie)
        worst = max(worst, need / max(margin, 1e-30))
    return hits, worst
