"""Compiled arithmetic of one coalition: rows lie feature by feature, (d, n), so loops run over rows.

d is padded to a multiple of 4 and n to a multiple of 8 with zero rows of weight zero. Rows are worked
off in tiles that stay in the cache. Reductions may be reassociated, nothing else is relaxed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

JIT: dict[str, Any] = {
    "nogil": True,
    "fastmath": {"reassoc", "contract", "nsz", "arcp"},
    "error_model": "numpy",
}
AS_WRITTEN: dict[str, Any] = JIT | {"fastmath": {"contract"}}  # nothing reassociated
TILE = 512
EPS = 2.220446049250313e-16


@njit(**JIT)
def _affine(x, a, b, w0, w1, w2, w3, out):  # type: ignore[no-untyped-def]
    x0, x1, x2, x3, o = x[0, a:b], x[1, a:b], x[2, a:b], x[3, a:b], out[a:b]
    for i in range(len(o)):
        o[i] += w0 * x0[i] + w1 * x1[i] + w2 * x2[i] + w3 * x3[i]


@njit(**JIT)
def _affine2(x, a, b, w, v, first, second):  # type: ignore[no-untyped-def]
    x0, x1, x2, x3 = x[0, a:b], x[1, a:b], x[2, a:b], x[3, a:b]
    o, p = first[a:b], second[a:b]
    w0, w1, w2, w3 = w[0], w[1], w[2], w[3]
    v0, v1, v2, v3 = v[0], v[1], v[2], v[3]
    for i in range(len(o)):
        y0, y1, y2, y3 = x0[i], x1[i], x2[i], x3[i]
        o[i] += w0 * y0 + w1 * y1 + w2 * y2 + w3 * y3
        p[i] += v0 * y0 + v1 * y1 + v2 * y2 + v3 * y3


@njit(**JIT)
def _collect(x, a, b, r, out):  # type: ignore[no-untyped-def]
    x0, x1, x2, x3, q = x[0, a:b], x[1, a:b], x[2, a:b], x[3, a:b], r[a:b]
    s0 = s1 = s2 = s3 = 0.0
    for i in range(len(q)):
        s0 += q[i] * x0[i]
        s1 += q[i] * x1[i]
        s2 += q[i] * x2[i]
        s3 += q[i] * x3[i]
    out[0] += s0
    out[1] += s1
    out[2] += s2
    out[3] += s3


@njit(**JIT)
def _collect2(x, a, b, r, t, out, put):  # type: ignore[no-untyped-def]
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
    pairs = n_classes // 2
    for j in range(0, d, 4):
        for h in range(pairs):
            k = 2 * h
            _affine2(
                x[j : j + 4], a, b, theta[k, j : j + 4], theta[k + 1, j : j + 4], out[k], out[k + 1]
            )
        if n_classes % 2:
            k = n_classes - 1
            _affine(
                x[j : j + 4],
                a,
                b,
                theta[k, j],
                theta[k, j + 1],
                theta[k, j + 2],
                theta[k, j + 3],
                out[k],
            )


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
    pairs = n_classes // 2
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
            for m in range(pairs):
                k = 2 * m
                _collect2(t, a, b, r[k], r[k + 1], out[k, j : j + 4], out[k + 1, j : j + 4])
            if n_classes % 2:
                k = n_classes - 1
                _collect(t, a, b, r[k], out[k, j : j + 4])


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
                for j in range(g, d - 1, 2):
                    _collect2(
                        x[g : g + 4],
                        0,
                        n,
                        scaled[j],
                        scaled[j + 1],
                        block[j, g : g + 4],
                        block[j + 1, g : g + 4],
                    )
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
