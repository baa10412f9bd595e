"""One coalition after the other, compiled: rows lie feature by feature, (d, n), so loops run over rows.

d is padded to a multiple of 4 and n to a multiple of 8 with zero rows of weight zero. Rows are worked off in tiles that
stay in the cache. Reductions may be reassociated, nothing else is relaxed.

The Hessian at the start of a coalition is formed and factorised in single precision and preconditions L-BFGS; from an
extrapolated start five gradients then suffice on average. Everything that decides (gradients, margins, the proof of
`certainty`) is in double precision. The line search looks at slopes only: a step is kept unless it passed the minimum
by too much (the objective is convex).

`SOURCES` are the files that are compiled into `solve_part`.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
from numba import njit

from datamarket_gym.utilities.accelerators import compile_cached
from datamarket_gym.utilities.logistic import certainty as certificate
from datamarket_gym.utilities.logistic.certainty import RADII, ROUNDING, SLACK, TIE

JIT: dict[str, Any] = {
    "nogil": True,
    "fastmath": {"reassoc", "contract", "nsz", "arcp"},
    "error_model": "numpy",
}
AS_WRITTEN: dict[str, Any] = JIT | {"fastmath": {"contract"}}  # nothing reassociated
TILE = 512
EPS = 2.220446049250313e-16


@njit(**JIT)
def _affine(x, a, b, w, v, first, second):  # type: ignore[no-untyped-def]
    x0, x1, x2, x3 = x[0, a:b], x[1, a:b], x[2, a:b], x[3, a:b]
    o, p = first[a:b], second[a:b]
    w0, w1, w2, w3 = w[0], w[1], w[2], w[3]
    v0, v1, v2, v3 = v[0], v[1], v[2], v[3]
    for i in range(len(o)):
        y0, y1, y2, y3 = x0[i], x1[i], x2[i], x3[i]
        o[i] += w0 * y0 + w1 * y1 + w2 * y2 + w3 * y3
        p[i] += v0 * y0 + v1 * y1 + v2 * y2 + v3 * y3


@njit(**JIT)
def _collect(x, a, b, r, t, out, put):  # type: ignore[no-untyped-def]
    x0, x1, x2, x3 = x[0, a:b], x[1, a:b], x[2, a:b], x[3, a:b]
    q, u = r[a:b], t[a:b]
    s0 = s1 = s2 = s3 = x.dtype.type(0)
    z0 = z1 = z2 = z3 = x.dtype.type(0)
    for i in range(len(q)):
        y0, y1, y2, y3 = x0[i], x1[i], x2[i], x3[i]
        s0 += q[i] * y0
        s1 += q[i] * y1
        s2 += q[i] * y2
        s3 += q[i] * y3
        z0 += u[i] * y0
        z1 += u[i] * y1
        z2 += u[i] * y2
        z3 += u[i] * y3
    out[0] += s0
    out[1] += s1
    out[2] += s2
    out[3] += s3
    put[0] += z0
    put[1] += z1
    put[2] += z2
    put[3] += z3


@njit(**JIT)
def logits(x, theta, n_classes, d, a, b, out):  # type: ignore[no-untyped-def]
    """Logits of rows a..b of all classes; theta (C, d + 1) has the intercept in column d."""
    for k in range(n_classes):
        out[k, a:b] = theta[k, d]
    # two classes at a time; of an odd number the last one's partner is a spare row
    for j in range(0, d, 4):
        for k in range(0, n_classes, 2):
            w, v = theta[k, j : j + 4], theta[k + 1, j : j + 4]
            _affine(x[j : j + 4], a, b, w, v, out[k], out[k + 1])


@njit(**JIT)
def _exp(z, bits, scale):  # type: ignore[no-untyped-def]
    """In place exp of values <= 0, to the last bits; ``scale`` is ``bits`` seen as floats."""
    for i in range(len(z)):
        v = max(z[i], -700.0)
        m = np.floor(v * 1.4426950408889634 + 0.5)
        r = v - m * 6.93145751953125e-1
        r = r - m * 1.42860682030941723212e-6
        p = 2.08767569878681e-09
        p = p * r + 2.505210838544172e-08
        p = p * r + 2.755731922398589e-07
        p = p * r + 2.7557319223985893e-06
        p = p * r + 2.48015873015873e-05
        p = p * r + 1.984126984126984e-04
        p = p * r + 1.388888888888889e-03
        p = p * r + 8.333333333333333e-03
        p = p * r + 4.1666666666666664e-02
        p = p * r + 1.6666666666666666e-01
        p = p * r + 0.5
        p = p * r + 1.0
        z[i] = p * r + 1.0
        bits[i] = (np.int64(m) + 1023) << 52
    for i in range(len(z)):
        z[i] *= scale[i]


@njit(**JIT)
def softmax(p, n_classes, a, b, top, bits, scale):  # type: ignore[no-untyped-def]
    """Logits of rows a..b to probabilities, in place."""
    n = b - a
    best, total = top[0, :n], top[1, :n]
    best[:] = p[0, a:b]
    for k in range(1, n_classes):
        q = p[k, a:b]
        for i in range(n):
            best[i] = max(best[i], q[i])
    total[:] = 0.0
    for k in range(n_classes):
        q = p[k, a:b]
        for i in range(n):
            q[i] -= best[i]
        _exp(q, bits[:n], scale[:n])
        for i in range(n):
            total[i] += q[i]
    for i in range(n):
        total[i] = 1.0 / total[i]
    for k in range(n_classes):
        q = p[k, a:b]
        for i in range(n):
            q[i] *= total[i]


@njit(**JIT)
def gradient(  # type: ignore[no-untyped-def]
    x, w, hot, theta, n_classes, d, n, penalty, p, r, top, bits, scale, out
):
    """Gradient of F; leaves probabilities in p. ``w`` includes C, ``hot`` (C, n) is one-hot."""
    for k in range(n_classes):
        for j in range(d):
            out[k, j] = penalty * theta[k, j]
        out[k, d] = 0.0
    for a in range(0, n, TILE):
        b = min(n, a + TILE)
        logits(x, theta, n_classes, d, a, b, p)
        softmax(p, n_classes, a, b, top, bits, scale)
        v = w[a:b]
        for k in range(n_classes):
            q, h, s = p[k, a:b], hot[k, a:b], r[k, a:b]
            total = 0.0
            for i in range(len(q)):
                s[i] = v[i] * (q[i] - h[i])
                total += s[i]
            out[k, d] += total
        # slices along rows only: a slice of columns would no longer be contiguous
        for j in range(0, d, 4):
            t = x[j : j + 4]
            for k in range(0, n_classes, 2):
                _collect(t, a, b, r[k], r[k + 1], out[k, j : j + 4], out[k + 1, j : j + 4])


@njit(**JIT)
def hessian(x, w, p, n_classes, d, n, penalty, scaled, out):  # type: ignore[no-untyped-def]
    """Hessian on parameters that sum to zero over classes, the last class eliminated: M = (C-1)(d+1).

    With q = p_C its rows weigh a_kl = [k = l] p_k + q - (p_k - q)(p_l - q). Only upper blocks are
    written. It serves as preconditioner: x, w and ``scaled`` (d + 1, n) are in single precision.
    """
    width = d + 1
    zero = np.float32(0.0)
    last = p[n_classes - 1, :n]
    block = np.zeros((width, width), dtype=np.float32)
    a = scaled[d, :n]
    for k in range(n_classes - 1):
        pk = p[k, :n]
        for m in range(k + 1):
            pm = p[m, :n]
            same = 1.0 if k == m else 0.0
            total = zero
            for i in range(n):
                v = same * pk[i] + last[i] - (pk[i] - last[i]) * (pm[i] - last[i])
                a[i] = w[i] * np.float32(v)
                total += a[i]
            block[:d, :d] = zero
            block[d, d] = total
            for j in range(d):
                xj, sj = x[j, :n], scaled[j, :n]
                total_j = zero
                for i in range(n):
                    sj[i] = a[i] * xj[i]
                    total_j += sj[i]
                block[d, j] = total_j
            for g in range(0, d, 4):
                t = x[g : g + 4]
                for j in range(g, d - 1, 2):
                    first, second = block[j, g : g + 4], block[j + 1, g : g + 4]
                    _collect(t, 0, n, scaled[j], scaled[j + 1], first, second)
            ridge = penalty * (1.0 + same)
            for j in range(width):
                for g in range(j + 1):
                    v = np.float64(block[j, g])
                    if j == g:
                        v += ridge if j < d else 1e-6 * (total + 1.0)
                    out[m * width + j, k * width + g] = v
                    out[m * width + g, k * width + j] = v


@njit(**JIT)
def cholesky(h, size):  # type: ignore[no-untyped-def]
    """Upper factor u of h = u'u in place, four pivots at a time; the diagonal holds reciprocals.

    Only the upper triangle is read. False if h is not positive definite.
    """
    for k in range(0, size, 4):
        stop = min(k + 4, size)
        for i in range(k, stop):
            row = h[i]
            for m in range(k, i):
                v, up = h[m, i], h[m]
                for j in range(i, size):
                    row[j] -= v * up[j]
            pivot = row[i]
            if not pivot > 0.0:
                return False
            inverse = 1.0 / np.sqrt(pivot)
            row[i] = inverse
            for j in range(i + 1, size):
                row[j] *= inverse
        if stop < size:
            u0, u1, u2, u3 = h[k], h[k + 1], h[k + 2], h[k + 3]
            for i in range(stop, size):
                v0, v1, v2, v3 = u0[i], u1[i], u2[i], u3[i]
                out, a0, a1, a2, a3 = h[i, i:size], u0[i:size], u1[i:size], u2[i:size], u3[i:size]
                for j in range(size - i):
                    out[j] -= v0 * a0[j] + v1 * a1[j] + v2 * a2[j] + v3 * a3[j]
    return True


@njit(**JIT)
def back_substitute(u, size, v):  # type: ignore[no-untyped-def]
    """Solve u'u x = v in place."""
    for i in range(size):
        v[i] *= u[i, i]
        f, row, rest = v[i], u[i, i + 1 : size], v[i + 1 : size]
        for j in range(len(row)):
            rest[j] -= f * row[j]
    for i in range(size - 1, -1, -1):
        row, rest = u[i, i + 1 : size], v[i + 1 : size]
        total = v[i]
        for j in range(len(row)):
            total -= row[j] * rest[j]
        v[i] = total * u[i, i]


@njit(**AS_WRITTEN)
def scaled(v, mean, rest, inverse, out):  # type: ignore[no-untyped-def]
    """(v - mean - rest) inverse. The first difference is nearly exact; summing mean and rest is not."""
    for i in range(len(v)):
        out[i] = ((v[i] - mean) - rest) * inverse


@njit(**JIT)
def standardise(x, w, n, d, C, mean, rest, inverse):  # type: ignore[no-untyped-def]
    """Weighted StandardScaler of the first n rows of x, in place; inverse is zero where constant.

    ``mean`` is rounded, and ``rest`` is what is missing: with a mean of 1e8 deviations the rounding would
    move predictions. ``w`` includes C, which scikit-learn's rule for constant features does not know.
    """
    mass = 0.0
    for i in range(n):
        mass += w[i]
    for j in range(d):
        v = x[j, :n]
        first = v[0]
        total = 0.0
        differ = 0.0
        for i in range(n):
            c = v[i] - first
            total += w[i] * c
            differ += abs(c)
        centre = first + total / mass
        scaled(v, centre, 0.0, 1.0, v)
        left = 0.0
        square = 0.0
        for i in range(n):
            left += w[i] * v[i]
            square += w[i] * v[i] * v[i]
        left /= mass
        variance = square / mass - left * left
        mean[j] = centre
        rest[j] = left
        bound = mass / C * EPS * variance + (mass / C * centre * EPS) ** 2
        if differ == 0.0:
            inverse[j] = 0.0
        elif variance <= bound:
            inverse[j] = 1.0
        else:
            inverse[j] = 1.0 / np.sqrt(variance)
        scaled(v, left, 0.0, inverse[j], v)
    return mass


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
    if not cholesky(small, n_classes):
        return -1.0, -1.0
    inverse = np.zeros((n_classes, n_classes))
    for k in range(n_classes):
        inverse[k, k] = 1.0
        back_substitute(small, n_classes, inverse[k])
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


SOURCES = (__file__, certificate.__file__)

MEMORY = 6
EVALUATIONS = 90  # then the coalition is left to `exact`
REFACTOR = 10  # evaluations after which the Hessian is formed anew

Rows = namedtuple("Rows", "features label weight start validation truth n_labels centre spread anchor C")
"""All players' rows: features (d, N) and validation (d, n_val) feature by feature; weight times C."""

Level = namedtuple("Level", "members subset found codes before trend codes_before")
"""Coalitions (B, K) of one size, positions of their subsets, classes as bits, earlier solutions."""

Answers = namedtuple("Answers", "solution trend hits proven")
"""Results: solutions (B, C, d + 1) and trends (B, 2, C, d + 1) in units of centre and spread."""

Work = namedtuple(
    "Work",
    "x w index hot p r top bits scale scaled x_short w_short bends lengths own z mean rest inverse small "
    "classes position theta trial g g_new step ss yy rho alpha factor solve raw average lean",
)


@njit(**JIT)
def make_work(room, wide, n_max, n_val, n_labels, d, bits, scale):  # type: ignore[no-untyped-def]
    """Scratch space for coalitions of up to ``room`` rows and ``n_max`` classes, and a spare one if odd."""
    n_max += n_max % 2
    width = wide + 1
    free = max(n_max - 1, 1) * width
    return Work(
        np.zeros((wide, room)),
        np.zeros(room),
        np.zeros(room, dtype=np.uint64),
        np.zeros((n_max, room)),
        np.zeros((n_max, room)),
        np.zeros((n_max, room)),
        np.zeros((2, TILE)),
        bits,
        scale,
        np.zeros((width, room), dtype=np.float32),
        np.zeros((wide, room), dtype=np.float32),
        np.zeros(room, dtype=np.float32),
        np.zeros((3, room)),
        np.zeros(n_val),
        np.zeros((wide, n_val)),
        np.zeros((n_max, n_val)),
        np.zeros(wide),
        np.zeros(wide),
        np.zeros(wide),
        np.zeros((n_max, n_max)),
        np.zeros(n_max, dtype=np.int64),
        np.zeros(n_labels, dtype=np.int64),
        np.zeros((n_max, width)),
        np.zeros((n_max, width)),
        np.zeros((n_max, width)),
        np.zeros((n_max, width)),
        np.zeros((n_max, width)),
        np.zeros((MEMORY, n_max * width)),
        np.zeros((MEMORY, n_max * width)),
        np.zeros(MEMORY),
        np.zeros(MEMORY),
        np.zeros((free, free), dtype=np.float32),
        np.zeros(free, dtype=np.float32),
        np.zeros((n_labels, d + 1)),
        np.zeros((n_labels, d + 1)),
        np.zeros((n_labels, d + 1)),
    )


@njit(**JIT)
def _take(source, index, target):  # type: ignore[no-untyped-def]
    for i in range(len(index)):
        target[i] = source[index[i]]


@njit(**JIT)
def _add(source, target):  # type: ignore[no-untyped-def]
    a, b = source.ravel(), target.ravel()
    for i in range(len(b)):
        b[i] += a[i]


@njit(**JIT)
def gather(rows, member, code, work):  # type: ignore[no-untyped-def]
    """Copy a coalition's rows, standardise them and the validation rows: (padded n, C, mass)."""
    x, w, hot, d = work.x, work.w, work.hot, rows.features.shape[0]
    n = 0
    for q in range(len(member)):
        if member[q]:
            for i in range(rows.start[q], rows.start[q + 1]):
                work.index[n] = i
                n += 1
    index = work.index[:n]
    for j in range(d):
        _take(rows.features[j], index, x[j])
    _take(rows.weight, index, w)
    full = (n + 7) // 8 * 8
    x[:, n:full] = 0.0
    w[n:full] = 0.0
    n_classes = 0
    for k in range(rows.n_labels):
        if code >> k & 1:
            work.classes[n_classes] = k
            work.position[k] = n_classes
            n_classes += 1
    hot[:, :full] = 0.0
    for i in range(n):
        hot[work.position[rows.label[index[i]]], i] = 1.0
    mass = standardise(x, w, n, d, rows.C, work.mean, work.rest, work.inverse)
    lengths = work.lengths
    lengths[:] = 0.0
    for j in range(d):
        o = work.own[j]
        scaled(rows.validation[j], work.mean[j], work.rest[j], work.inverse[j], o)
        for i in range(len(o)):
            lengths[i] += o[i] * o[i]
    for i in range(len(lengths)):
        lengths[i] = np.sqrt(lengths[i])
    return full, n_classes, mass


@njit(**JIT)
def guess(rows, level, b, n_classes, work):  # type: ignore[no-untyped-def]
    """Start of coalition b, extrapolated from subsets with the same classes, else the anchor.

    With M1(S) = mean_i W(S-i), D1 = W - M1 and D2(S) = D1(S) - mean_i D1(S-i), the start is
    M1 + mean_i D1(S-i) + mean_i D2(S-i) / 2: halfway between linear and quadratic extrapolation,
    which was best. Trends count by the share of subsets that are known.
    """
    raw, average, lean = work.raw, work.average, work.lean
    d, wide = rows.features.shape[0], work.x.shape[0]
    known = 0
    size = 0
    raw[:] = 0.0
    average[:] = 0.0
    lean[:] = 0.0
    for q in range(level.members.shape[1]):
        size += level.members[b, q]
    for q in range(level.found.shape[1]):
        if level.found[b, q] and level.codes_before[level.subset[b, q]] == level.codes[b]:
            known += 1
            s = level.subset[b, q]
            _add(level.before[s], average)
            _add(level.trend[s, 0], lean)
            _add(level.trend[s, 1], raw)
    if known:
        share = known / size
        for k in range(rows.n_labels):
            for j in range(d + 1):
                average[k, j] /= known
                lean[k, j] = average[k, j] + lean[k, j] / known * share
                raw[k, j] = lean[k, j] + 0.5 * raw[k, j] / known * share
    else:
        raw[:] = rows.anchor
    theta = work.theta
    for k in range(n_classes):
        shift = raw[work.classes[k], d]
        for j in range(d):
            v, f = raw[work.classes[k], j], work.inverse[j]
            shift += v * (work.mean[j] - rows.centre[j]) / rows.spread[j]
            theta[k, j] = v / (rows.spread[j] * f) if f > 0.0 else 0.0
        theta[k, wide] = shift
    for j in range(wide + 1):
        total = 0.0
        for k in range(n_classes):
            total += theta[k, j]
        for k in range(n_classes):
            theta[k, j] -= total / n_classes
    return known


@njit(**JIT)
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@njit(**JIT)
def _factorise(x, w, p, n_classes, n, penalty, scaled, x_short, w_short, factor):  # type: ignore[no-untyped-def]
    wide = x.shape[0]
    for j in range(wide):
        short, long = x_short[j, :n], x[j, :n]
        for i in range(n):
            short[i] = long[i]
    for i in range(n):
        w_short[i] = w[i]
    boost = np.float32(1e-6)
    for _ in range(3):
        hessian(x_short, w_short, p, n_classes, wide, n, penalty, scaled, factor)
        for i in range((n_classes - 1) * (wide + 1)):
            factor[i, i] *= np.float32(1.0) + boost
        if cholesky(factor, (n_classes - 1) * (wide + 1)):
            return True
        boost *= np.float32(100.0)
    return False


@njit(**JIT)
def _precondition(factor, n_classes, v, u):  # type: ignore[no-untyped-def]
    """The Hessian's inverse on parameters that sum to zero over classes; v (C, d + 1) in place."""
    width = v.shape[1]
    for k in range(n_classes - 1):
        for j in range(width):
            u[k * width + j] = v[k, j] - v[n_classes - 1, j]
    back_substitute(factor, (n_classes - 1) * width, u)
    last = v[n_classes - 1]
    last[:] = 0.0
    for k in range(n_classes - 1):
        for j in range(width):
            v[k, j] = u[k * width + j]
            last[j] -= v[k, j]


@njit(**JIT)
def _direction(g, step2, ss, yy, rho, alpha, factor, solve, n_classes, pairs):  # type: ignore[no-untyped-def]
    """Two-loop recursion: step becomes the approximate inverse Hessian times the gradient g."""
    flat = len(g)
    step = step2.ravel()[:flat]
    step[:] = g
    for m in range(min(pairs, MEMORY)):
        at = (pairs - 1 - m) % MEMORY
        a = rho[at] * _dot(ss[at, :flat], step)
        alpha[at] = a
        old = yy[at, :flat]
        for i in range(flat):
            step[i] -= a * old[i]
    _precondition(factor, n_classes, step2, solve)
    for m in range(min(pairs, MEMORY) - 1, -1, -1):
        at = (pairs - 1 - m) % MEMORY
        a = alpha[at] - rho[at] * _dot(yy[at, :flat], step)
        old = ss[at, :flat]
        for i in range(flat):
            step[i] += a * old[i]
    return -_dot(g, step)


@njit(**JIT)
def _remember(theta, trial, g, new, ss, yy, rho, pairs):  # type: ignore[no-untyped-def]
    """Move to the trial point and keep the pair (s, y); returns the number of pairs."""
    at = pairs % MEMORY
    s, y = ss[at], yy[at]
    curved = 0.0
    for i in range(len(theta)):
        s[i] = trial[i] - theta[i]
        y[i] = new[i] - g[i]
        curved += s[i] * y[i]
        theta[i] = trial[i]
        g[i] = new[i]
    if curved > 1e-300:
        rho[at] = 1.0 / curved
        return pairs + 1
    return pairs


@njit(**JIT)
def descend(rows, work, n_classes, full, mass):  # type: ignore[no-untyped-def]
    """Iterate until every validation margin is proven: (hits, proven, evaluations)."""
    x, w, p = work.x, work.w, work.p
    wide, n_val = x.shape[0], len(rows.truth)
    flat = n_classes * (wide + 1)
    penalty = 2.0 if n_classes == 2 else 1.0
    theta, trial = work.theta.ravel()[:flat], work.trial.ravel()[:flat]
    g, new, step = work.g.ravel()[:flat], work.g_new.ravel()[:flat], work.step.ravel()[:flat]
    for i in range(flat):
        trial[i] = theta[i]
        g[i] = 0.0
    spent, formed, pairs, hits = 0, -REFACTOR, 0, 0
    slope, length = 0.0, 1.0
    target = 0.03 / np.sqrt(wide)
    while spent < EVALUATIONS:
        gradient(
            x, w, work.hot, work.trial, n_classes, wide, full, penalty, p, work.r, work.top,
            work.bits, work.scale, work.g_new,
        )  # fmt: skip
        spent += 1
        if spent > 1:
            ahead = -_dot(new, step)
            if ahead > -0.5 * slope:
                # too far: the secant through both slopes says where to try again
                length *= min(max(-slope / (ahead - slope), 0.1), 0.7)
                for i in range(flat):
                    trial[i] = theta[i] - length * step[i]
                continue
        kept = _remember(theta, trial, g, new, work.ss, work.yy, work.rho, pairs)
        pairs = kept if spent > 1 else 0
        norm = np.sqrt(_dot(g, g))
        if norm <= target:
            eps, beta = bounds(
                p, w, x, n_classes, wide, full, work.g, penalty, mass, work.small, work.bends
            )
            ratio = 30.0
            if eps >= 0.0:
                logits(work.own, work.theta, n_classes, wide, 0, n_val, work.z)
                hits, ratio = judge(
                    work.z, n_val, work.classes, n_classes, rows.truth, work.lengths, eps, beta
                )
            if ratio < 1.0:
                return hits, True, spent
            if norm <= 1e-15 * mass:
                break
            target = norm * max(0.8 / ratio, 0.003)
        if spent - formed >= REFACTOR:
            if not _factorise(
                x, w, p, n_classes, full, penalty, work.scaled, work.x_short, work.w_short, work.factor
            ):
                break
            formed, pairs = spent, 0
        slope = _direction(
            g, work.step, work.ss, work.yy, work.rho, work.alpha, work.factor, work.solve, n_classes,
            pairs,
        )  # fmt: skip
        if not slope < 0.0:
            break
        length = 1.0
        for i in range(flat):
            trial[i] = theta[i] - step[i]
    return hits, False, spent


@njit(**JIT)
def keep(rows, work, n_classes, known, solution, trend):  # type: ignore[no-untyped-def]
    """Write the solution in shared units, and how it deviates from what its subsets said."""
    d, wide = rows.features.shape[0], work.x.shape[0]
    total = 0.0
    for k in range(n_classes):
        for j in range(wide + 1):
            total += work.theta[k, j]
    if not abs(total) < 1e150:
        _add(rows.anchor, solution)  # ran away; no start for others
        return
    for k in range(n_classes):
        shift = work.theta[k, wide]
        for j in range(d):
            v = work.theta[k, j] * rows.spread[j] * work.inverse[j]
            solution[work.classes[k], j] = v
            shift -= v * (work.mean[j] - rows.centre[j]) / rows.spread[j]
        solution[work.classes[k], d] = shift
    if known:
        for k in range(rows.n_labels):
            for j in range(d + 1):
                trend[0, k, j] = solution[k, j] - work.average[k, j]
                trend[1, k, j] = solution[k, j] - work.lean[k, j]


@compile_cached(*SOURCES, **JIT)
def solve_part(rows, level, answers, bits, scale):  # type: ignore[no-untyped-def]
    """Solve the coalitions of a level in turn; returns the number of gradient evaluations.

    ``bits`` is scratch space for `kernels.TILE` integers and ``scale`` the same seen as floats.
    """
    members = level.members
    room = n_max = 0
    for b in range(len(members)):
        total = 0
        for q in range(members.shape[1]):
            if members[b, q]:
                total += rows.start[q + 1] - rows.start[q]
        room = max(room, (total + 7) // 8 * 8)
        total = 0
        for k in range(rows.n_labels):
            total += level.codes[b] >> k & 1
        n_max = max(n_max, total)
    d = rows.features.shape[0]
    work = make_work(room, (d + 3) // 4 * 4, n_max, len(rows.truth), rows.n_labels, d, bits, scale)
    evaluations = 0
    for b in range(len(members)):
        full, n_classes, mass = gather(rows, members[b], level.codes[b], work)
        known = guess(rows, level, b, n_classes, work)
        hits, proven, spent = descend(rows, work, n_classes, full, mass)
        answers.hits[b], answers.proven[b] = hits, proven
        evaluations += spent
        if len(answers.solution):
            keep(rows, work, n_classes, known, answers.solution[b], answers.trend[b])
    return evaluations
