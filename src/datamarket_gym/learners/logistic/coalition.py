"""One coalition after the other, compiled: L-BFGS on top of the Hessian of a neighbour's start.

The Hessian at the start of a coalition is factorised once and serves the next few coalitions of the batch as
preconditioner (neighbours are similar); three to six gradients then suffice. The bounds are those of
`certify`, written out for one problem.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from datamarket_gym.learners.logistic import kernels
from datamarket_gym.learners.logistic.kernels import JIT

MEMORY = 6
EVALUATIONS = 90  # then the coalition is left to `alone`
REFACTOR = 8  # evaluations after which a coalition gets a Hessian of its own
ROUNDING = 1e-14
TIE = 1e-9


@njit(**JIT)
def bounds(p, w, x, n_classes, d, n, g, penalty, mass, small, vector):  # type: ignore[no-untyped-def]
    """The eps and beta of `certify.bounds`; (-1, -1) where the proof does not apply."""
    spread = 0.0
    reach = 0.0
    length = vector[:n]
    length[:] = 0.0
    for j in range(d):
        v = x[j, :n]
        for i in range(n):
            length[i] += v[i] * v[i]
    for i in range(n):
        reach = max(reach, length[i])
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
    for i in range(n):
        total = 0.0
        top = 0.0
        for k in range(n_classes):
            v = p[k, i] * (1.0 - p[k, i])
            total += v
            top = max(top, v)
        spread += w[i] * min(total, 2.0 * top) * length[i]
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
    q = 0.0
    for k in range(n_classes):
        for m in range(n_classes):
            q += g[k, d] * inverse[k, m] * g[m, d]
            resistance = max(resistance, inverse[k, k] + inverse[m, m] - 2.0 * inverse[k, m])
    if resistance * scale > 1e12:
        return -1.0, -1.0
    resistance = np.sqrt(resistance)
    rounding = ROUNDING * mass
    q = np.sqrt(abs(q)) + rounding * np.sqrt(n_classes) * resistance
    spread = np.sqrt(spread)
    size = 0.0
    for k in range(n_classes):
        for j in range(d):
            size += g[k, j] * g[k, j]
    size = np.sqrt(size) + rounding * np.sqrt(d * n_classes)
    for radius in (0.01, 0.05, 0.15, 0.4):
        f = np.exp(2.0 * radius)
        eps = (size + f * spread * q) / penalty
        beta = f * resistance * (q + spread * eps)
        if np.sqrt(2.0 * reach) * eps + beta < radius:
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
        need = max(np.sqrt(2.0) * eps * lengths[i] + beta, tie)
        worst = max(worst, need / max(margin, 1e-30))
    return hits, worst


@njit(**JIT)
def _precondition(h, n_classes, width, v, work):  # type: ignore[no-untyped-def]
    for k in range(n_classes - 1):
        for j in range(width):
            work[k * width + j] = v[k, j] - v[n_classes - 1, j]
    kernels.back_substitute(h, (n_classes - 1) * width, work)
    for j in range(width):
        total = 0.0
        for k in range(n_classes - 1):
            v[k, j] = work[k * width + j]
            total += v[k, j]
        v[n_classes - 1, j] = -total


@njit(**JIT)
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@njit(**JIT)
def solve_part(  # type: ignore[no-untyped-def]
    features,  # (d, N), rows sorted by player
    label,
    weight,  # (N,), times C
    start,  # (K + 1,)
    validation,  # (d, n_val)
    truth,
    n_labels,
    centre,
    spread,
    group,
    members,  # (B, K)
    subset,
    found,  # (B, K) or (B, 0)
    codes,  # (B,) classes present, as bits
    before,  # solutions of the size before, (b, C, d + 1), in units of centre and spread
    trend,
    codes_before,
    anchor,
    solution,  # out
    change,  # out
    hits,  # out
    proven,  # out
):
    """Solve the coalitions of ``members`` in turn; returns the number of gradient evaluations."""
    d = features.shape[0]
    n_val = validation.shape[1]
    largest = 0
    for b in range(len(members)):
        total = 0
        for p in range(members.shape[1]):
            if members[b, p]:
                total += start[p + 1] - start[p]
        largest = max(largest, total)
    room = (largest + 7) // 8 * 8
    wide = (d + 3) // 4 * 4
    width = wide + 1
    n_max = 1
    for b in range(len(members)):
        total = 0
        for k in range(n_labels):
            total += codes[b] >> k & 1
        n_max = max(n_max, total)
    x = np.zeros((wide, room))
    w = np.zeros(room)
    y = np.zeros(room, dtype=np.int64)
    hot = np.zeros((n_max, room))
    p = np.zeros((n_max, room))
    r = np.zeros((n_max, room))
    top = np.zeros((2, kernels.TILE))
    bits = np.zeros(kernels.TILE, dtype=np.int64)
    scale = bits.view(np.float64)
    scaled = np.zeros((width, room), dtype=np.float32)
    x_short, w_short = np.zeros((wide, room), dtype=np.float32), np.zeros(room, dtype=np.float32)
    vector = np.zeros(max(room, n_val))
    lengths = np.zeros(n_val)
    own = np.zeros((wide, n_val))
    z = np.zeros((n_max, n_val))
    mean, inverse = np.zeros(wide), np.zeros(wide)
    small = np.zeros((n_max, n_max))
    classes, position = np.zeros(n_max, dtype=np.int64), np.zeros(n_labels, dtype=np.int64)
    theta, trial = np.zeros((n_max, width)), np.zeros((n_max, width))
    g, g_new, step = np.zeros((n_max, width)), np.zeros((n_max, width)), np.zeros((n_max, width))
    ss, yy = np.zeros((MEMORY, n_max * width)), np.zeros((MEMORY, n_max * width))
    rho, alpha = np.zeros(MEMORY), np.zeros(MEMORY)
    factor = np.zeros(((n_max - 1) * width, (n_max - 1) * width))
    work = np.zeros((n_max - 1) * width)
    raw, average = np.zeros((n_labels, d + 1)), np.zeros((n_labels, d + 1))
    age = group
    factor_code = 0
    evaluations = 0
    for b in range(len(members)):
        # rows of the coalition, its classes, its standardisation
        n = 0
        for q in range(members.shape[1]):
            if members[b, q]:
                count = start[q + 1] - start[q]
                for j in range(d):
                    x[j, n : n + count] = features[j, start[q] : start[q + 1]]
                w[n : n + count] = weight[start[q] : start[q + 1]]
                y[n : n + count] = label[start[q] : start[q + 1]]
                n += count
        full = (n + 7) // 8 * 8
        x[:, n:full] = 0.0
        w[n:full] = 0.0
        n_classes = 0
        for k in range(n_labels):
            if codes[b] >> k & 1:
                classes[n_classes] = k
                position[k] = n_classes
                n_classes += 1
        hot[:, :full] = 0.0
        for i in range(n):
            hot[position[y[i]], i] = 1.0
        mass = kernels.standardise(x, w, n, d, mean, inverse)
        penalty = 2.0 if n_classes == 2 else 1.0
        # start: extrapolated from subsets with the same classes, else the anchor
        known = 0
        raw[:] = 0.0
        average[:] = 0.0
        size = 0
        for q in range(members.shape[1]):
            size += members[b, q]
        for q in range(found.shape[1]):
            if found[b, q] and codes_before[subset[b, q]] == codes[b]:
                known += 1
                s = subset[b, q]
                for k in range(n_labels):
                    for j in range(d + 1):
                        average[k, j] += before[s, k, j]
                        raw[k, j] += trend[s, k, j]
        for k in range(n_labels):
            for j in range(d + 1):
                if known:
                    average[k, j] /= known
                    raw[k, j] = average[k, j] + raw[k, j] / size
                else:
                    raw[k, j] = anchor[k, j]
        for k in range(n_classes):
            shift = raw[classes[k], d]
            for j in range(d):
                v = raw[classes[k], j]
                shift += v * (mean[j] - centre[j]) / spread[j]
                theta[k, j] = v / (spread[j] * inverse[j]) if inverse[j] > 0.0 else 0.0
            theta[k, wide] = shift
        for j in range(width):
            total = 0.0
            for k in range(n_classes):
                total += theta[k, j]
            for k in range(n_classes):
                theta[k, j] -= total / n_classes
        # validation rows under the same standardisation
        lengths[:] = 0.0
        for j in range(d):
            v, o, m, f = validation[j], own[j], mean[j], inverse[j]
            for i in range(n_val):
                o[i] = (v[i] - m) * f
                lengths[i] += o[i] * o[i]
        for i in range(n_val):
            lengths[i] = np.sqrt(lengths[i])

        kernels.gradient(x, w, hot, theta, n_classes, wide, full, penalty, p, r, top, bits, scale, g)
        spent = 1
        since = 0
        pairs = 0
        target = 0.03 / np.sqrt(wide)
        hits[b] = 0
        proven[b] = False
        flat = n_classes * width
        dimension = (n_classes - 1) * width
        while True:
            norm = np.sqrt(_dot(g.ravel()[:flat], g.ravel()[:flat]))
            if norm <= target:
                eps, beta = bounds(p, w, x, n_classes, wide, full, g, penalty, mass, small, vector)
                ratio = 100.0
                if eps >= 0.0:
                    kernels.logits(own, theta, n_classes, wide, 0, n_val, z)
                    hits[b], ratio = judge(z, n_val, classes, n_classes, truth, lengths, eps, beta)
                if ratio < 1.0:
                    proven[b] = True
                    break
                if norm <= 1e-15 * mass:
                    break
                target = norm * max(0.8 / ratio, 0.003)
            if spent >= EVALUATIONS:
                break
            if age >= group or factor_code != codes[b] or since >= REFACTOR:
                for j in range(wide):
                    x_short[j, :full] = x[j, :full].astype(np.float32)
                w_short[:full] = w[:full].astype(np.float32)
                kernels.hessian(x_short, w_short, p, n_classes, wide, full, penalty, scaled, factor)
                if not kernels.cholesky(factor, dimension):
                    age = group
                    break
                age = 0
                factor_code = codes[b]
                since = 0
                pairs = 0
            # two-loop recursion
            s_flat = step.ravel()[:flat]
            s_flat[:] = g.ravel()[:flat]
            for m in range(min(pairs, MEMORY)):
                at = (pairs - 1 - m) % MEMORY
                a = rho[at] * _dot(ss[at, :flat], s_flat)
                alpha[at] = a
                old = yy[at, :flat]
                for i in range(flat):
                    s_flat[i] -= a * old[i]
            _precondition(factor, n_classes, width, step, work)
            for m in range(min(pairs, MEMORY) - 1, -1, -1):
                at = (pairs - 1 - m) % MEMORY
                a = alpha[at] - rho[at] * _dot(yy[at, :flat], s_flat)
                old = ss[at, :flat]
                for i in range(flat):
                    s_flat[i] += a * old[i]
            slope = -_dot(g.ravel()[:flat], s_flat)
            if not slope < 0.0:
                if pairs == 0:
                    break
                pairs = 0
                continue
            length = 1.0
            while True:
                for k in range(n_classes):
                    for j in range(width):
                        trial[k, j] = theta[k, j] - length * step[k, j]
                kernels.gradient(
                    x, w, hot, trial, n_classes, wide, full, penalty, p, r, top, bits, scale, g_new
                )
                spent += 1
                since += 1
                ahead = -_dot(g_new.ravel()[:flat], s_flat)
                if ahead <= 0.5 * -slope or spent >= EVALUATIONS:
                    break
                length *= min(max(-slope / (ahead - slope), 0.1), 0.7)
            at = pairs % MEMORY
            curved = 0.0
            for k in range(n_classes):
                for j in range(width):
                    i = k * width + j
                    ss[at, i] = trial[k, j] - theta[k, j]
                    yy[at, i] = g_new[k, j] - g[k, j]
                    curved += ss[at, i] * yy[at, i]
                    theta[k, j] = trial[k, j]
                    g[k, j] = g_new[k, j]
            if curved > 1e-300:
                rho[at] = 1.0 / curved
                pairs += 1
        age += 1
        evaluations += spent
        if len(solution):
            for k in range(n_classes):
                shift = theta[k, wide]
                for j in range(d):
                    v = theta[k, j] * spread[j] * inverse[j]
                    solution[b, classes[k], j] = v
                    shift -= v * (mean[j] - centre[j]) / spread[j]
                solution[b, classes[k], d] = shift
            for k in range(n_labels):
                for j in range(d + 1):
                    v = solution[b, k, j]
                    change[b, k, j] = v - average[k, j] if known else 0.0
    return evaluations
