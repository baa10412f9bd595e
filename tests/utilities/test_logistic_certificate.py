"""The proof, term by term: each test fails when its term is dropped or weakened.

The bounds are compared with what they bound, in cases where little or nothing is left between the two,
and at random points.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.utilities.base import TrainingRows, ValidationRows
from datamarket_gym.utilities.logistic import LogisticScorer
from datamarket_gym.utilities.logistic import certainty as certificate
from datamarket_gym.utilities.logistic import certainty as exact
from datamarket_gym.utilities.logistic.batched import judge
from datamarket_gym.utilities.logistic.layout import slots, stack
from datamarket_gym.utilities.logistic.problem import prepare


def laplacian(p: np.ndarray) -> np.ndarray:
    return np.diag(p) - np.outer(p, p)


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max())
    return e / e.sum()


# What the formulas promise, term by term.


def test_sqrt_2_two_classes_moving_apart_reach_the_bound() -> None:
    """D with ||D|| = eps, half of it in each of two classes, along the row: exactly sqrt(2) eps ||x||."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=6)
    eps = 0.37
    change = np.zeros((4, 6))
    change[1], change[3] = x / np.linalg.norm(x), -x / np.linalg.norm(x)
    change *= eps / np.linalg.norm(change)
    difference = (change @ x)[1] - (change @ x)[3]
    assert certificate.moved(eps, 0.0, np.linalg.norm(x)) == pytest.approx(difference, rel=1e-12)
    for _ in range(200):
        change = rng.normal(size=(4, 6))
        change *= eps / np.linalg.norm(change)
        z = change @ x
        assert z.max() - z.min() <= certificate.moved(eps, 0.0, np.linalg.norm(x)) + 1e-12


def test_beta_intercepts_add_to_what_moves() -> None:
    """With equal W the margin of every row, the origin included, moves by the intercepts' difference."""
    assert certificate.moved(0.0, 0.25, 0.0) == 0.25
    assert certificate.moved(0.5, 0.25, 2.0) == pytest.approx(np.sqrt(2) + 0.25)


@pytest.mark.parametrize("radius", certificate.RADII)
def test_f_bounds_the_averages_of_curvatures_on_the_way(radius: float) -> None:
    """Averages of A along lines of logit differences up to r: their quotient is f^2, and no smaller.

    Two small classes rise (or fall) by r against a third that has nearly all the mass.
    """
    f = certificate.growth(radius)
    steps = (np.arange(4000) + 0.5) / 4000

    def average(start: np.ndarray, change: np.ndarray) -> np.ndarray:
        return np.mean([laplacian(softmax(start + t * change)) for t in steps], axis=0)

    start = np.array([-20.0, -20.0, 0.0])
    edge = laplacian(softmax(start))[0, 1]
    up = average(start, np.array([radius, radius, 0.0]))[0, 1] / edge
    down = average(start, np.array([-radius, -radius, 0.0]))[0, 1] / edge
    assert up / down == pytest.approx(f**2, rel=1e-6)  # a smaller f is refuted by this case
    assert down >= 1 / f
    rng = np.random.default_rng(0)
    for _ in range(20):
        start, change = rng.normal(size=4) * 3, rng.normal(size=4)
        change *= radius / np.ptp(change)
        whole, here = average(start, change), laplacian(softmax(start))
        probe = rng.normal(size=(50, 4))
        ratio = np.einsum("pk,kl,pl->p", probe, whole, probe) / np.einsum(
            "pk,kl,pl->p", probe, here, probe
        )
        assert ratio.max() <= up * (1 + 1e-6)
        assert ratio.min() >= down * (1 - 1e-6)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.01, 10.0), min_size=5, max_size=5), st.sampled_from(certificate.RADII))
def test_plain_is_the_worst_over_averages_within_f(numbers: list[float], radius: float) -> None:
    """s^2 may grow by (e^2r - 1) / 2r, q^2 and R by 2r / (1 - e^-2r): the bounds take all at once."""
    g, s, q, resistance, penalty = numbers
    rise = (np.exp(2 * radius) - 1) / (2 * radius)
    fall = (1 - np.exp(-2 * radius)) / (2 * radius)
    eps, beta = certificate.plain(g, s, q, resistance, penalty, certificate.growth(radius))
    worst = (g + np.sqrt(rise) * s * q / np.sqrt(fall)) / penalty
    assert eps == pytest.approx(worst, rel=1e-9)
    shift = resistance / np.sqrt(fall) * (q / np.sqrt(fall) + np.sqrt(rise) * s * worst)
    assert shift <= beta * (1 + 1e-9)
    assert shift >= beta / certificate.growth(radius)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.01, 10.0), min_size=7, max_size=7), st.sampled_from(certificate.RADII))
def test_coupled_is_the_worst_over_averages_within_f(numbers: list[float], radius: float) -> None:
    """z' N^+ B D changes by the change of N^+ (up to 1/fall - 1) on the changed B, and by that of B."""
    g, s, q, resistance, penalty, through, across = numbers
    rise = (np.exp(2 * radius) - 1) / (2 * radius)
    fall = (1 - np.exp(-2 * radius)) / (2 * radius)
    change = (1 / fall - 1) * rise * s + (rise - 1) * s
    f = certificate.growth(radius)
    eps, beta = certificate.coupled(g, s, q, resistance, penalty, f, through, across)
    worst = (g + through + change * q) / penalty
    assert eps == pytest.approx(worst, rel=1e-9)
    shift = resistance * q / fall + (across + change * resistance) * worst
    assert shift <= beta * (1 + 1e-9)
    assert shift >= beta / f


def test_curvature_bound_is_an_upper_bound_and_exact_for_two_classes() -> None:
    p = np.random.default_rng(0).dirichlet(np.full(5, 0.3), size=200)
    a = p[:, :, None] * (np.eye(5) - p[:, None, :])
    assert (np.linalg.eigvalsh(a)[:, -1] <= certificate.row_curvature(p, axis=1) + 1e-12).all()
    two = np.random.default_rng(1).dirichlet([1, 1], size=50)
    largest = np.linalg.eigvalsh(two[:, :, None] * (np.eye(2) - two[:, None, :]))[:, -1]
    np.testing.assert_allclose(certificate.row_curvature(two, axis=1), largest, rtol=1e-9)


# What the bounds of whole problems promise.


def bounds(
    gradient: np.ndarray,
    p: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray,
    penalty: float,
    coupled: bool = False,
    entry: float = 0.0,
) -> tuple[float, float]:
    norms = (x**2).sum(axis=1)
    a = p[:, :, None] * (np.eye(p.shape[1]) - p[:, None, :])
    coupling = np.einsum("i,ikl,ij->klj", weight, a, x).reshape(p.shape[1], -1)
    eps, beta = certificate.bound_arrays(
        np.asarray(np.linalg.norm(gradient[:, :-1])),
        gradient[:, -1],
        np.einsum("i,ikl->kl", weight, a),
        np.ones(p.shape[1], dtype=bool),
        np.sqrt(weight @ (certificate.row_curvature(p, axis=1) * norms)),
        np.sqrt(norms.max()),
        penalty,
        entry,
        coupling @ coupling.T if coupled else None,
    )
    return float(eps), float(beta)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    classes=st.integers(2, 5),
    size=st.sampled_from([1e-7, 1e-5, 1e-4, 1e-3, 1e-2]),
    scale=st.sampled_from([0.1, 1.0, 30.0]),
    coupled=st.booleans(),
)
def test_bounds_hold(seed: int, classes: int, size: float, scale: float, coupled: bool) -> None:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(classes, 30)), int(rng.integers(1, 8))
    y = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])
    x = rng.normal(size=(n, d)) + rng.normal(size=(classes, d))[y] * 2
    weight = rng.uniform(0.2, 2.0, n)
    penalty = 2.0 if classes == 2 else 1.0
    objective = exact._Objective(x, y, weight, scale, penalty)
    best, _, _ = exact._minimise(objective, classes)
    at = best + size * rng.normal(size=best.shape) * rng.choice([0.0, 1.0, 1.0], size=best.shape)
    _, gradient, p = objective.evaluate(at)
    eps, beta = bounds(gradient, p, x, scale * weight, penalty, coupled)
    moved = best - at
    shift = moved[:, -1:] - moved[:, -1:].T
    # the objective does not feel a shift of all intercepts; the class mean of W is zero at the optimum
    assert np.linalg.norm(moved[:, :-1]) <= eps * (1 + 1e-6) + 1e-9
    assert np.abs(shift).max() <= beta * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("gap", [0.001, 0.008, 0.04])
def test_beta_is_nearly_reached_where_only_intercepts_matter(gap: float, coupled: bool) -> None:
    """Rows at the origin, two classes, moving into flatter ground: beta holds, and f is what it needs."""
    x, y, weight = np.zeros((40, 1)), np.repeat([0, 1], [36, 4]), np.ones(40)
    objective = exact._Objective(x, y, weight, 1.0, 2.0)
    best, _, _ = exact._minimise(objective, 2)
    at = best - np.array([[0.0, gap / 2], [0.0, -gap / 2]])
    _, gradient, p = objective.evaluate(at)
    eps, beta = bounds(gradient, p, x, weight, 2.0, coupled)
    assert gap <= beta <= gap * 1.12
    assert eps <= 1e-12
    small = np.linalg.pinv(np.einsum("ik,il->kl", p, -p) + np.diag(p.sum(axis=0)))
    unit = np.array([1.0, -1.0])
    without_f = np.sqrt(unit @ small @ unit) * np.sqrt(gradient[:, 1] @ small @ gradient[:, 1])
    assert without_f < gap


def test_radius_no_bound_where_a_training_row_may_leave_the_region() -> None:
    """A row far out moves too far for any r, though the same gradient is fine without it."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(30, 3))
    far = np.vstack([x, [[400.0, 0.0, 0.0]]])
    p = rng.dirichlet([1, 1, 1], size=31)
    gradient = np.full((3, 4), 1e-3) * np.array([[1.0], [-1.0], [0.0]])
    weight = np.ones(31)
    weight[-1] = 1e-12  # it hardly counts, but it is there
    near = bounds(gradient, p[:30], x, weight[:30], 1.0)
    assert np.isfinite(near).all()
    assert bounds(gradient, p, far, weight, 1.0) == (np.inf, np.inf)
    for size in 10.0 ** np.arange(
        -6, 1
    ):  # where a bound is given, it keeps every row within the largest r
        eps, beta = bounds(size * gradient, p[:30], x, weight[:30], 1.0)
        moved = np.sqrt(2) * eps * np.linalg.norm(x, axis=1).max() + beta
        assert moved < max(certificate.RADII) or moved == np.inf


def test_rounding_covers_what_double_precision_loses() -> None:
    """The gradient at the optimum in doubles against exact rational arithmetic on the same numbers."""
    rng = np.random.default_rng(6)
    n, classes, d = 300, 3, 4
    x = rng.normal(size=(n, d))
    residual = rng.uniform(-1, 1, size=(n, classes))
    computed = residual.T @ x
    fine = [
        [sum(Fraction(residual[i, k]) * Fraction(x[i, j]) for i in range(n)) for j in range(d)]
        for k in range(classes)
    ]
    off = np.array(
        [[float(Fraction(computed[k, j]) - fine[k][j]) for j in range(d)] for k in range(classes)]
    )
    entry = certificate.ROUNDING * n
    granted = certificate.gradient_error(entry, classes, (x**2).mean(axis=0).sum())
    assert 0 < np.linalg.norm(off) <= granted
    # one entry alone is granted as much: ||off|| for off = entry everywhere, features of unit size
    assert certificate.gradient_error(2.0, 3, 4) == pytest.approx(np.linalg.norm(np.full((3, 4), 2.0)))
    ones = residual.sum(axis=0)
    off_b = np.array(
        [float(Fraction(ones[k]) - sum(map(Fraction, residual[:, k]))) for k in range(classes)]
    )
    inverse, _ = certificate.pseudo_inverse(laplacian(np.array([0.2, 0.3, 0.5])), np.ones(3, bool))
    widest = certificate.widest(inverse, np.ones(3, bool))
    norm = certificate.norm_arrays(inverse, off_b - off_b.mean())
    assert 0 < norm <= certificate.intercept_error(entry, classes, 0.0) * widest
    # the largest norm of an error of one a class is reached within the granted factor
    corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T
    worst = max(certificate.norm_arrays(inverse, c - c.mean()) for c in corners)
    assert worst <= certificate.intercept_error(1.0, 3, 0.0) * widest <= 4 * worst


def test_rounding_reaches_the_bounds() -> None:
    """A vanishing gradient still leaves the rounding error of its entries, in W and in b."""
    rng = np.random.default_rng(7)
    x, p = rng.normal(size=(20, 2)), rng.dirichlet([1, 1, 1], size=20)
    zero = np.zeros((3, 3))
    assert bounds(zero, p, x, np.ones(20), 1.0) == (0.0, 0.0)
    for coupled in (False, True):
        eps, beta = bounds(zero, p, x, np.ones(20), 1.0, coupled, entry=1e-9)
        assert eps > 1e-10
        assert beta > 1e-10


def chain(weak: float) -> np.ndarray:
    """Three classes, the first hanging on by an edge of weight ``weak``."""
    return np.array([[weak, -weak, 0.0], [-weak, 1.0 + weak, -1.0], [0.0, -1.0, 1.0]])


@pytest.mark.parametrize("weak", [1e-4, 1e-8, 2e-10, 1e-12, 1e-15])
def test_conditioning_a_nearly_singular_curvature_is_not_trusted(weak: float) -> None:
    """R is 1/weak + 1; as long as it is trusted, SLACK covers the error of its root."""
    everyone = np.ones(3, dtype=bool)
    inverse, scale = certificate.pseudo_inverse(chain(weak), everyone)
    resistance = certificate.widest(inverse, everyone)
    true = np.sqrt(1 / weak + 1)
    if certificate.trusted(resistance, scale):
        assert true <= resistance <= true * (1 + 3 * certificate.SLACK)
    assert bool(certificate.trusted(resistance, scale)) == (weak > 1e-9)
    small = np.full((3, 2), 1e-18)
    found = certificate.bound_arrays(
        np.asarray(1e-18), small[:, -1], chain(weak), everyone, 1.0, 1.0, 1.0, 0.0
    )
    assert np.isfinite(found).all() == (weak > 1e-9)


def test_slack_covers_the_error_of_the_inverse() -> None:
    """At the condition that is just trusted, norms of the inverse are off by less than granted."""
    rng = np.random.default_rng(8)
    everyone = np.ones(3, dtype=bool)
    for weak in 10.0 ** rng.uniform(-8.5, -2, size=200):
        inverse, _ = certificate.pseudo_inverse(chain(weak), everyone)
        resistance = certificate.widest(inverse, everyone)
        vector = rng.normal(size=3)
        vector -= vector.mean()
        exactly = np.sqrt(vector[0] ** 2 / weak + vector[2] ** 2)
        granted = certificate.intercept_error(0.0, 3, np.linalg.norm(vector)) * resistance
        assert exactly <= certificate.norm_arrays(inverse, vector) + granted


def test_absent_classes_do_not_count() -> None:
    """A class nobody has changes neither resistance nor norms."""
    full, present = np.zeros((4, 4)), np.array([True, False, True, True])
    full[np.ix_(present, present)] = chain(0.5)
    inverse, _ = certificate.pseudo_inverse(full, present)
    alone, _ = certificate.pseudo_inverse(chain(0.5), np.ones(3, dtype=bool))
    np.testing.assert_allclose(inverse[np.ix_(present, present)], alone, atol=1e-12)
    assert certificate.widest(inverse, present) == pytest.approx(
        certificate.widest(alone, np.ones(3, dtype=bool))
    )


def test_ties_take_the_lowest_class() -> None:
    logits = np.array([[1.0, 0.0], [1.0 + 1e-12, 2.0], [0.0, 2.0 - 1e-3]])
    predicted, margin = certificate.predict_arrays(logits, np.asarray(1e-9))
    assert predicted.tolist() == [0, 1]
    assert margin == pytest.approx([-1e-12, 1e-3])


# The engines use them.


def test_the_compiled_proof_gives_the_same_bounds() -> None:
    pytest.importorskip("numba")
    from datamarket_gym.utilities.logistic import _numba as kernel_proof

    rng = np.random.default_rng(9)
    n, d, classes = 24, 4, 3
    x, weight = rng.normal(size=(n, d)), rng.uniform(0.5, 2.0, n)
    usual = rng.dirichlet([1, 1, 1], size=n)
    saturated = np.tile([0.5, 0.5 - 1e-10, 1e-10], (n, 1))  # no bound, though the gradient is tiny
    for size, p in [(1e-8, usual), (1e-5, usual), (1e-3, usual), (1.0, usual), (1e-24, saturated)]:
        gradient = size * rng.normal(size=(classes, d + 1))
        gradient -= gradient.mean(axis=0)
        mass = weight.sum()
        entry = certificate.ROUNDING * mass
        more = gradient.copy()
        length = np.linalg.norm(gradient[:, :-1])
        squares = weight @ (x**2).sum(axis=1) / mass
        more[:, :-1] *= 1 + certificate.gradient_error(entry, classes, squares) / length
        want = bounds(more, p, x, weight, 1.0, entry=entry)
        got = kernel_proof.bounds(
            np.ascontiguousarray(p.T), weight, np.ascontiguousarray(x.T), classes, d, n, gradient, 1.0,
            mass, np.zeros((classes, classes)), np.zeros((3, n)),
        )  # fmt: skip
        got = (np.inf, np.inf) if got[0] < 0 else got
        np.testing.assert_allclose(got, want, rtol=1e-9)
        assert np.isfinite(want[0]) == (size < 1 and p is usual)


def test_a_margin_just_above_the_bound_is_certain_and_just_below_is_not() -> None:
    """The batch's verdict on one validation row that is moved across boundaries, in the units of a
    coalition whose mean and spread are not those of all rows."""
    rng = np.random.default_rng(10)
    label, player = rng.integers(0, 3, 40), np.arange(40) % 2
    x = rng.normal(size=(40, 3)) * [[1.0, 2.0, 0.5]] + label[:, None] + 3 * player[:, None]
    rows = TrainingRows(x, label, player, 2, 3)
    weights = rng.normal(size=(1, 1, 3, 4)) * 0.1
    gradient = rng.normal(size=(1, 1, 3, 4)) * [1e-5, 1e-5, 1e-5, 1e-3]  # intercepts matter, too
    gradient -= gradient.mean(axis=2, keepdims=True)
    start, end = rng.normal(size=3) * 3, rng.normal(size=3) * 3
    found = []
    for share in np.linspace(0, 1, 400):
        point = start + share * (end - start)
        problem = prepare(rows, ValidationRows(point[None], np.zeros(1, dtype=int)))
        data = stack([problem], 1.0, np.empty(0))
        place, _ = slots(data, [np.array([[True, False]])])
        verdict = judge(weights, gradient, data, place)
        logits = np.sort(weights[0, 0] @ np.append(problem.shared_validation[0], 1.0))
        found.append(
            (bool(verdict.certain[0, 0]), logits[-1] - logits[-2], problem.shared_validation[0])
        )

    mine = problem.shared[problem.player == 0]
    mean, spread = mine.mean(axis=0), mine.std(axis=0)
    z = (mine - mean) / spread
    p = np.exp(np.hstack([mine, np.ones((20, 1))]) @ weights[0, 0].T)
    p /= p.sum(axis=1, keepdims=True)
    g_b = gradient[0, 0, :, -1]
    own = (gradient[0, 0, :, :-1] - np.outer(g_b, mean)) / spread
    a = p[:, :, None] * (np.eye(3) - p[:, None, :])
    coupling = np.einsum("ikl,ij->klj", a, z).reshape(3, -1)
    entry = certificate.ROUNDING * 20
    reach = np.linalg.norm(z, axis=1).max()
    eps, beta = certificate.bound_arrays(
        np.asarray(np.linalg.norm(own)), g_b, a.sum(axis=0), np.ones(3, dtype=bool),
        reach * np.sqrt(np.trace(a.sum(axis=0))), reach, 1.0, entry, coupling @ coupling.T,
    )  # fmt: skip
    assert {sure for sure, _, _ in found} == {True, False}
    for sure, margin, row in found:
        need = np.sqrt(2) * eps * np.linalg.norm((row - mean) / spread) + beta
        if abs(margin / need - 1) > 1e-6:
            assert sure == (margin > need)


def test_the_batch_grants_rounding_where_the_gradient_vanishes() -> None:
    """At a gradient of zero a margin below the rounding error is not certain."""
    rng = np.random.default_rng(11)
    label = np.arange(40) % 2
    rows = TrainingRows(
        rng.normal(size=(40, 1)) * 1e3, label, np.zeros(40, dtype=int), 1, 2, np.full(40, 1e5)
    )
    weights, gradient = np.zeros((1, 1, 2, 2)), np.zeros((1, 1, 2, 2))
    for weight, margin, sure in ((1e5, 2e-8, False), (1e-3, 2e-8, True), (1e-3, 2e-10, False)):
        weights[0, 0, :, 1] = [margin / 2, -margin / 2]  # the last is a tie
        light = TrainingRows(rows.features, label, rows.player, 1, 2, np.full(40, weight))
        far = ValidationRows(np.array([[5e3]]), np.zeros(1, dtype=int))
        data = stack([prepare(light, far)], 1.0, np.empty(0))
        place, _ = slots(data, [np.ones((1, 1), dtype=bool)])
        assert bool(judge(weights, gradient, data, place).certain[0, 0]) == sure


def test_the_batch_grants_rounding_of_intercepts() -> None:
    """Rows at -1 and 1 and a validation row between them: the more saturated, the looser intercepts."""
    x, label = np.repeat([[-1.0], [1.0]], 20, axis=0), np.repeat([0, 1], 20)
    middle = ValidationRows(np.array([[0.0]]), np.zeros(1, dtype=int))
    rows = TrainingRows(x, label, np.zeros(40, dtype=int), 1, 2, np.full(40, 1e5))
    data = stack([prepare(rows, middle)], 1.0, np.empty(0))
    place, _ = slots(data, [np.ones((1, 1), dtype=bool)])
    for slope, sure in ((7.0, False), (2.0, True)):
        weights = np.array([[-slope, 5e-9], [slope, -5e-9]])[None, None]
        assert bool(judge(weights, 0 * weights, data, place).certain[0, 0]) == sure


def test_the_compiled_verdict_compares_margins_with_what_may_move() -> None:
    pytest.importorskip("numba")
    from datamarket_gym.utilities.logistic import _numba as kernel_proof

    logits = np.array([[0.9, 0.2], [0.5, 0.25], [0.0, 0.0]])
    lengths, classes, truth = np.array([2.0, 3.0]), np.array([0, 2, 3]), np.array([0, 2])
    hits, worst = kernel_proof.judge(logits, 2, classes, 3, truth, lengths, 0.001, 0.02)
    assert hits == 2
    needs = certificate.moved(0.001, 0.02, lengths)
    assert worst == pytest.approx(max(needs[0] / 0.4, needs[1] / 0.05), rel=1e-12)
    logits[1, 1] = (
        0.2 + 1e-10
    )  # within a tie: the lowest class, and not certain however small the bounds
    hits, worst = kernel_proof.judge(logits, 2, classes, 3, np.array([0, 0]), lengths, 0.0, 0.0)
    assert (hits, worst > 1) == (2, True)
    logits[1, 1] = 0.2 + 1.1e-9  # beyond the best by less than the tolerance of these logits
    assert kernel_proof.judge(logits, 2, classes, 3, truth, lengths, 0.0, 0.0)[1] > 1


def test_no_proof_without_the_tie_tolerance() -> None:
    """A row on the boundary is never certain, whatever the bounds say."""
    rows = TrainingRows(np.array([[1.0], [-1.0]]), np.array([0, 1]), np.array([0, 1]), 2, 2)
    validation = ValidationRows(np.array([[0.0], [1.0]]), np.array([0, 0]))
    for backend in ("compiled", "batched", "exact"):
        scorer = LogisticScorer(rows, validation, backend=backend)
        scorer.correct(np.ones((1, 2), dtype=bool))
        assert (scorer.report.proven, scorer.report.ties) == (0, 1)


# What the model itself loses to rounding: predictions a hair from the boundary, at a distance that matters.


def boundary(scorer: Callable[[ValidationRows], LogisticScorer], row: np.ndarray) -> np.ndarray:
    """Feature 1 of ``row`` where the exact solution of two classes changes its mind."""
    low, high = -50.0, 50.0
    everyone = np.ones((1, 1), dtype=bool)

    def first(value: float) -> bool:
        at = ValidationRows(np.array([[row[0], value]]), np.zeros(1, dtype=int))
        return bool(scorer(at).correct(everyone)[0])

    assert first(low) != first(high)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if first(middle) == first(low) else (low, middle)
    return np.array([row[0], low])


@pytest.mark.parametrize("backend", ["compiled", "batched", "exact"])
def test_a_far_away_mean_moves_no_prediction(backend: str) -> None:
    """Features on a grid, moved by 2^40: not a digit is lost, and nothing may change."""
    if backend == "compiled":
        pytest.importorskip("numba")
    rng = np.random.default_rng(0)
    label, nobody = np.arange(12) % 2, np.zeros(12, dtype=int)
    x = np.round((rng.normal(size=(12, 2)) + label[:, None]) * 4096) / 4096
    away = np.array([2.0**40, 0.0])
    here = boundary(
        lambda at: LogisticScorer(TrainingRows(x, label, nobody, 1, 2), at, backend="exact"), x[0]
    )
    for side in (-1e-6, 1e-6):
        truth = np.zeros(1, dtype=int)
        near = here + np.array([0.0, side])
        everyone = np.ones((1, 1), dtype=bool)
        want = LogisticScorer(
            TrainingRows(x, label, nobody, 1, 2), ValidationRows(near[None], truth), backend="exact"
        ).correct(everyone)
        got = LogisticScorer(
            TrainingRows(x + away, label, nobody, 1, 2),
            ValidationRows((near + away)[None], truth),
            backend=backend,
        ).correct(everyone)
        assert got == want


@pytest.mark.parametrize(("mean", "C"), [(1e8, 1e-2), (1e4, 1e5)])
def test_which_features_count_as_constant_does_not_depend_on_C(mean: float, C: float) -> None:
    pytest.importorskip("numba")
    rng = np.random.default_rng(0)
    label, nobody = np.arange(100) % 2, np.zeros(100, dtype=int)
    x = rng.normal(size=(100, 2)) + label[:, None]
    x[:, 0] = mean + 1e-6 * x[:, 0]
    rows = TrainingRows(x, label, nobody, 1, 2)
    here = boundary(lambda at: LogisticScorer(rows, at, C, backend="exact"), x[0])
    for side in (-1e-4, 1e-4):
        at = ValidationRows(here[None] + [[0.0, side]], np.zeros(1, dtype=int))
        hits = {
            int(LogisticScorer(rows, at, C, backend=backend).correct(np.ones((1, 1), dtype=bool))[0])
            for backend in ("compiled", "exact")
        }
        assert len(hits) == 1


def test_a_far_row_of_no_weight_costs_the_others_no_digits() -> None:
    pytest.importorskip("numba")
    from datamarket_gym.utilities.logistic import _numba as kernels

    rng = np.random.default_rng(1)
    x, weight = rng.normal(size=(1, 16)), np.ones(16)
    x[0, 0], weight[0] = 1e8, 1e-16
    found = []
    for order in (np.arange(16), np.roll(np.arange(16), -1)):
        z, (mean, rest, inverse) = np.ascontiguousarray(x[:, order]), np.zeros((3, 1))
        kernels.standardise(z, weight[order], 16, 1, 1.0, mean, rest, inverse)
        found.append(z[0, np.argsort(order)])
    np.testing.assert_allclose(found[0], found[1], atol=1e-13, rtol=1e-13)


def narrow(width: float, mass: float = 1.0) -> tuple[TrainingRows, np.ndarray]:
    """Player 0 has values around one, this far apart; player 1 makes one deviation large."""
    rng = np.random.default_rng(2)
    label, player = np.arange(20) % 2, np.repeat([0, 1], 10)
    x = rng.normal(size=(20, 1)) + label[:, None]
    x[:10] = 1 + width * x[:10]
    x[10:] -= 3
    return TrainingRows(x, label, player, 2, 2, np.full(20, mass)), np.array([[True, False]])


def test_scaling_error_covers_variances_from_sums() -> None:
    """Of a coalition far from the middle of all rows, against exact rational arithmetic."""
    worst = 0.0
    for width in (4e-3, 2e-3, 1e-3):
        rows, coalition = narrow(width, 0.1)
        problem = prepare(rows, ValidationRows(rows.features[:1], np.zeros(1, dtype=int)))
        place, _ = slots(stack([problem], 1.0, np.empty(0)), [coalition])
        mine = [Fraction(v) for v in problem.shared[problem.player == 0, 0]]
        mean = sum(mine) / 10
        true = sum((v - mean) ** 2 for v in mine) / 10
        variance = Fraction(place.penalty[0, 0, 0]) / Fraction(place.mu[0, 0])
        off = abs(float(variance / true - 1))
        granted = certificate.scaling_error(place.mean[0, 0, 0] * place.inverse[0, 0, 0])
        assert off <= granted
        worst = max(worst, off)
    assert worst > 1e-11


@pytest.mark.parametrize(("width", "sure"), [(1.0, True), (1e-3, False)])
def test_the_batch_grants_what_variances_lose(width: float, sure: bool) -> None:
    """At a gradient of zero, a row whose margin is smaller than what a wrong penalty may move."""
    rows, coalition = narrow(width)
    mine = rows.features[:10, 0]
    far = np.array([[mine.mean() + 3 * mine.std()]])
    data = stack([prepare(rows, ValidationRows(far, np.zeros(1, dtype=int)))], 1.0, np.empty(0))
    place, _ = slots(data, [coalition])
    slope = 2 * place.inverse[0, 0, 0]  # a coefficient of two in the coalition's own units
    shift = slope * data.val[0, 0, 0] - 1e-8  # a margin of 2e-8
    weights = np.array([[slope, -shift], [-slope, shift]])[None, None]
    assert bool(judge(weights, 0 * weights, data, place).certain[0, 0]) == sure


@pytest.mark.parametrize(("width", "sure"), [(1.0, True), (1e-3, False)])
def test_the_batch_grants_what_a_far_mean_takes_from_the_gradient(width: float, sure: bool) -> None:
    """All coefficients zero: what is left is rounding in sums that a mean far away is taken from."""
    rows, coalition = narrow(width, 1e3)
    mine = rows.features[:10, 0]
    far = np.array([[mine.mean() + 3 * mine.std()]])
    data = stack([prepare(rows, ValidationRows(far, np.zeros(1, dtype=int)))], 1.0, np.empty(0))
    place, _ = slots(data, [coalition])
    weights = np.array([[0.0, 1e-8], [0.0, -1e-8]])[None, None]
    assert bool(judge(weights, 0 * weights, data, place).certain[0, 0]) == sure
