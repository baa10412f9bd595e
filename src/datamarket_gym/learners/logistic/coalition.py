"""One coalition after the other, compiled: L-BFGS on top of the Hessian at the start.

The Hessian at the start of a coalition is formed and factorised in single precision and serves as
preconditioner; from an extrapolated start five gradients then suffice on average. Everything that
decides (gradients, margins, proof) is in double precision. The line search looks at slopes only: a
step is kept unless it passed the minimum by too much (the objective is convex).

`SOURCES` are the files that are compiled into `solve_part`.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import njit

from datamarket_gym.learners.kernel_cache import kept
from datamarket_gym.learners.logistic import certificate, kernel_proof, kernels
from datamarket_gym.learners.logistic.kernels import JIT

SOURCES = (__file__, kernels.__file__, kernel_proof.__file__, certificate.__file__)

MEMORY = 6
EVALUATIONS = 90  # then the coalition is left to `exact`
REFACTOR = 10  # evaluations after which the Hessian is formed anew

Rows = namedtuple("Rows", "features label weight start validation truth n_labels centre spread anchor C")
"""All players' rows: features (d, N) and validation (d, n_val) feature by feature; weight times C."""

Level = namedtuple("Level", "members subset found codes before trend codes_before")
"""Coalitions (B, K) of one size, positions of their subsets, classes as bits, earlier solutions."""

Answers = namedtuple("Answers", "solution trend hits proven")
"""What is found: solutions (B, C, d + 1) and trends (B, 2, C, d + 1) in units of centre and spread."""

Work = namedtuple(
    "Work",
    "x w index hot p r top bits scale scaled x_short w_short bends lengths own z mean rest inverse small "
    "classes position theta trial g g_new step ss yy rho alpha factor solve raw average lean",
)


@njit(**JIT)
def make_work(room, wide, n_max, n_val, n_labels, d, bits, scale):  # type: ignore[no-untyped-def]
    """Scratch space for coalitions of up to ``room`` rows and ``n_max`` classes."""
    width = wide + 1
    free = max(n_max - 1, 1) * width
    return Work(
        np.zeros((wide, room)),
        np.zeros(room),
        np.zeros(room, dtype=np.uint64),
        np.zeros((n_max, room)),
        np.zeros((n_max, room)),
        np.zeros((n_max, room)),
        np.zeros((2, kernels.TILE)),
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
    mass = kernels.standardise(x, w, n, d, rows.C, work.mean, work.rest, work.inverse)
    lengths = work.lengths
    lengths[:] = 0.0
    for j in range(d):
        o = work.own[j]
        kernels.scaled(rows.validation[j], work.mean[j], work.rest[j], work.inverse[j], o)
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
        kernels.hessian(x_short, w_short, p, n_classes, wide, n, penalty, scaled, factor)
        for i in range((n_classes - 1) * (wide + 1)):
            factor[i, i] *= np.float32(1.0) + boost
        if kernels.cholesky(factor, (n_classes - 1) * (wide + 1)):
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
    kernels.back_substitute(factor, (n_classes - 1) * width, u)
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
        kernels.gradient(
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
            eps, beta = kernel_proof.bounds(
                p, w, x, n_classes, wide, full, work.g, penalty, mass, work.small, work.bends
            )
            ratio = 30.0
            if eps >= 0.0:
                kernels.logits(work.own, work.theta, n_classes, wide, 0, n_val, work.z)
                hits, ratio = kernel_proof.judge(
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


@kept(*SOURCES, **JIT)
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
