"""The batched engine, on NumPy and on torch: against scikit-learn, itself, its parts and its own proof."""

from __future__ import annotations

import warnings
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from datamarket_gym.errors import ParameterError
from datamarket_gym.utilities.base import TrainingRows, ValidationRows
from datamarket_gym.utilities.logistic import LogisticScorer, batched, descent
from datamarket_gym.utilities.logistic import descent as anchor
from datamarket_gym.utilities.logistic import descent as calculus
from datamarket_gym.utilities.logistic.batched import judge
from datamarket_gym.utilities.logistic.classifier import StackedLogisticScorer as Stacked
from datamarket_gym.utilities.logistic.layout import host, slots

torch_missing = find_spec("torch") is None
torch_cpu = pytest.param("cpu", marks=pytest.mark.skipif(torch_missing, reason="needs torch"))
pytestmark = pytest.mark.parametrize("device", ["numpy", torch_cpu])
CLEAR = 1e-6  # margins of the reference below this are not held against anyone


def batched_scorer(rows, validation, C, device) -> LogisticScorer:
    return LogisticScorer(rows, validation, C, backend="batched", device=device)


def powerset(k: int) -> np.ndarray:
    return ((np.arange(1, 1 << k)[:, None] >> np.arange(k)) & 1).astype(bool)


def draw(
    seed: int, players: int = 4, rows: int = 9, d: int = 5, classes: int = 3, pull: float = 1.0
) -> tuple[TrainingRows, ValidationRows]:
    rng = np.random.default_rng(seed)
    means = pull * rng.normal(size=(classes, d))
    label = rng.integers(0, classes, players * rows)
    truth = rng.integers(0, classes, 40)
    return (
        TrainingRows(
            means[label] + rng.normal(size=(len(label), d)),
            label,
            np.repeat(np.arange(players), rows),
            players,
            classes,
        ),
        ValidationRows(means[truth] + rng.normal(size=(40, d)), truth),
    )


def reference(
    rows: TrainingRows, validation: ValidationRows, coalition: np.ndarray, C: float = 1.0
) -> tuple[int, float]:
    """Correct predictions of converged scikit-learn, and its smallest margin."""
    mine = coalition[rows.player]
    x, y, w = rows.features[mine], rows.label[mine], rows.weights[mine]
    if len(np.unique(y)) == 1:
        return int((validation.label == y[0]).sum()), np.inf
    scaler = StandardScaler().fit(x, sample_weight=w)
    x, v = scaler.transform(x), scaler.transform(validation.features)
    model = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the last digits may not be reachable, and need not be
        model.fit(x, y, sample_weight=w)
    score = model.decision_function(v)
    if score.ndim == 1:
        margin = np.abs(score)
    else:
        ranked = np.sort(score, axis=1)
        margin = ranked[:, -1] - ranked[:, -2]
    return int((model.predict(v) == validation.label).sum()), float(margin.min())


def agree(
    rows: TrainingRows, validation: ValidationRows, device: str, C: float = 1.0, every: int = 1
) -> None:
    coalitions = powerset(rows.n_players)[::every]
    scorer = batched_scorer(rows, validation, C, device)
    got, report = scorer.correct(coalitions), scorer.report
    for b, coalition in enumerate(coalitions):
        want, margin = reference(rows, validation, coalition, C)
        if margin > CLEAR:
            assert got[b] == want, (np.flatnonzero(coalition), margin)
    assert report.coalitions == len(coalitions)
    assert report.proven + report.converged + report.ties == len(coalitions)


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    classes=st.integers(2, 5),
    d=st.integers(1, 7),
    pull=st.sampled_from([0.0, 1.0, 4.0]),
    C=st.sampled_from([0.05, 1.0, 30.0]),
)
def test_equals_converged_scikit_learn(
    device: str, seed: int, classes: int, d: int, pull: float, C: float
) -> None:
    agree(*draw(seed, d=d, classes=classes, pull=pull), device, C=C)


def test_weights_and_duplicated_rows(device: str) -> None:
    rows, validation = draw(1)
    weight = np.random.default_rng(1).integers(1, 4, len(rows.label))
    weighted = TrainingRows(rows.features, rows.label, rows.player, 4, 3, weight.astype(float))
    agree(weighted, validation, device)
    copies = np.repeat(np.arange(len(weight)), weight)
    copied = TrainingRows(rows.features[copies], rows.label[copies], rows.player[copies], 4, 3)
    coalitions = powerset(4)
    assert np.array_equal(
        batched_scorer(weighted, validation, 1.0, device).correct(coalitions),
        batched_scorer(copied, validation, 1.0, device).correct(coalitions),
    )


def test_constant_collinear_and_badly_scaled_features(device: str) -> None:
    rows, validation = draw(2, d=6)
    x, v = rows.features.copy(), validation.features.copy()
    x[:, 0], v[:, 0] = 7.0, np.arange(40)  # constant for all
    x[rows.player == 1, 1] = 0.1  # constant for some coalitions
    x[:, 3], v[:, 3] = 2 * x[:, 2] - 1, 2 * v[:, 2] - 1
    for j, factor in ((4, 1e-6), (5, 1e6)):
        x[:, j], v[:, j] = 3 + factor * x[:, j], 3 + factor * v[:, j]
    agree(TrainingRows(x, rows.label, rows.player, 4, 3), ValidationRows(v, validation.label), device)


def test_features_far_from_zero(device: str) -> None:
    rows, validation = draw(12)
    shifted = TrainingRows(rows.features + 1e6, rows.label, rows.player, 4, 3)
    agree(shifted, ValidationRows(validation.features + 1e6, validation.label), device)


def test_missing_classes_single_rows_and_unknown_labels(device: str) -> None:
    rng = np.random.default_rng(3)
    features = rng.normal(size=(14, 3))
    label = np.array([0, 0, 0, 2, 2, 2, 2, 3, 0, 2, 3, 3, 0, 3])  # class 1 in nobody's rows
    player = np.array([0, 0, 0, 1, 1, 1, 1, 2, 3, 3, 3, 3, 4, 5])
    truth = rng.integers(-1, 6, 40)
    rows = TrainingRows(features, label, player, 6, 4)
    agree(rows, ValidationRows(rng.normal(size=(40, 3)), truth), device)


def test_separable_rows_and_more_features_than_rows(device: str) -> None:
    agree(*draw(4, pull=8.0), device)
    agree(*draw(5, players=3, rows=6, d=40, pull=2.0), device)


def test_many_parameters_use_the_shared_preconditioner(device: str) -> None:
    agree(*draw(6, players=3, rows=20, d=110, classes=4, pull=0.3), device, every=2)


def test_one_player(device: str) -> None:
    agree(*draw(7, players=1, rows=20), device)


def test_rows_that_fill_a_word_but_for_one(device: str) -> None:
    """Rows are packed 64 to a word; one free place left the bytes of a word apart in memory."""
    agree(*draw(9, players=3, rows=21), device)


def test_order_of_rows_and_players_does_not_matter(device: str) -> None:
    rows, validation = draw(8, players=5)
    rng = np.random.default_rng(8)
    coalitions = powerset(5)
    want = batched_scorer(rows, validation, 1.0, device).correct(coalitions)
    order, name = rng.permutation(len(rows.label)), rng.permutation(5)
    mixed = TrainingRows(rows.features[order], rows.label[order], name[rows.player[order]], 5, 3)
    renamed = np.zeros_like(coalitions)
    renamed[:, name] = coalitions
    shuffled = rng.permutation(len(renamed))
    got = batched_scorer(mixed, validation, 1.0, device).correct(renamed[shuffled])
    assert np.array_equal(got, want[shuffled])


def test_symmetric_problem_is_a_tie_and_goes_to_the_lowest_class(device: str) -> None:
    # Each point carries both labels: all logits are equal at the optimum.
    x = np.repeat(np.arange(6.0)[:, None], 2, axis=0)
    rows = TrainingRows(x, np.tile([0, 1], 6), np.repeat([0, 1], 6), 2, 2)
    validation = ValidationRows(np.array([[0.0], [1.0], [9.0]]), np.array([0, 0, 1]))
    scorer = batched_scorer(rows, validation, 1.0, device)
    assert scorer.correct(powerset(2)).tolist() == [2, 2, 2]
    assert scorer.report.ties == 3


def optimum(rows: TrainingRows, seed: int) -> tuple[np.ndarray, np.ndarray, StandardScaler]:
    """Coefficients and intercepts at full convergence in standardised features."""
    scaler = StandardScaler().fit(rows.features)
    model = LogisticRegression(solver="newton-cholesky", tol=1e-14, max_iter=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(scaler.transform(rows.features), rows.label)
    return model.coef_, model.intercept_, scaler


@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-6, 1e-7])
def test_validation_rows_next_to_the_boundary(device: str, gap: float) -> None:
    rows, _ = draw(9, players=1, rows=60)
    coefficients, intercepts, scaler = optimum(rows, 9)
    rng = np.random.default_rng(9)
    z = rng.normal(size=(30, 5))
    score = z @ coefficients.T + intercepts
    best, second = np.argsort(-score, axis=1)[:, :2].T
    normal = coefficients[best] - coefficients[second]
    excess = (score[np.arange(30), best] - score[np.arange(30), second]) - gap
    z -= (excess / (normal**2).sum(axis=1))[:, None] * normal
    predicted = (z @ coefficients.T + intercepts).argmax(axis=1)
    validation = ValidationRows(scaler.inverse_transform(z), predicted)
    scorer = batched_scorer(rows, validation, 1.0, device)
    assert scorer.correct(np.ones((1, 1), dtype=bool)).tolist() == [30]


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), classes=st.integers(2, 5), C=st.sampled_from([0.1, 1.0, 20.0]))
def test_no_point_is_certified_with_other_predictions_than_the_optimum(
    device: str, seed: int, classes: int, C: float
) -> None:
    """Points at many distances from the optimum, with intercepts moved most."""
    rows, validation = draw(seed, players=3, rows=12, classes=classes)
    scorer = batched_scorer(rows, validation, C, device)
    coalitions = powerset(3)
    want = scorer.correct(coalitions)
    data = scorer.engine.games.stack
    place, careful = slots(data, [coalitions])
    usable = ((host(place.present).sum(axis=2) > 1) & ~host(careful))[0]
    weights = near_optimum(scorer.engine.games.anchor.start(place), data, place)
    rng, certified = np.random.default_rng(seed), 0
    for distance in 10.0 ** np.arange(0, -9, -1.0):
        noise = rng.normal(size=weights.shape)
        noise[..., -1] *= 10
        point = weights + distance * data_like(noise, weights) * place.live
        verdict = judge(point, calculus.loss_gradient(point, data, place), data, place)
        sure = host(verdict.certain)[0] & usable
        assert np.array_equal(host(verdict.correct)[0][sure], want[sure]), distance
        certified += int(sure.sum())
    assert certified > 0


def data_like(array, like):  # type: ignore[no-untyped-def]
    from datamarket_gym.utilities.logistic.layout import moved

    return moved(array, like)


def near_optimum(weights, data, place):  # type: ignore[no-untyped-def]
    """Newton-like descent to near the optimum, to have something to disturb."""
    for _ in range(4):
        weights = anchor._descend(weights, data, place, anchor.own(weights, data, place), 6)
    return weights


def test_the_ways_to_a_gradient_agree(device: str) -> None:
    """Block by block without the rows a coalition lacks, and all rows under masks; with edges."""
    games = [draw(30, players=6, rows=20, d=4), draw(31, players=3, rows=31, d=4)]
    data = Stacked(games, 2.0, device).games.stack
    assert len(data.blocks[0]) > 1
    place, _ = slots(data, [powerset(6)[::3], powerset(3)])
    rng = np.random.default_rng(0)
    weights = data_like(rng.normal(size=place.live.shape), data.x) * place.live
    want = calculus.gradient_by_masks(weights, data, place) + place.penalty[:, :, None] * weights
    got = calculus.loss_gradient(weights, data, place)
    np.testing.assert_allclose(host(got), host(want * place.live), atol=1e-10)
    p, (first, second) = (
        host(calculus.probabilities(weights, data, place)),
        calculus.pairs(data.n_classes),
    )
    mass = (host(place.rows) * host(data.weight)[:, None])[:, :, None]
    edges = np.einsum("gbkn,gnd->gbkd", p[:, :, first] * p[:, :, second] * mass, host(data.x))
    np.testing.assert_allclose(host(calculus.edge_sums(weights, data, place)), edges, atol=1e-10)


def test_the_gradient_is_that_of_the_objective(device: str) -> None:
    """Differences of F, written down once more row by row."""
    rows, validation = draw(32, players=3, rows=7, d=3)
    rows = TrainingRows(rows.features, rows.label, rows.player, 3, 3, np.linspace(0.5, 2, 21))
    data = Stacked([(rows, validation)], 1.5, device).games.stack
    coalition = np.array([True, False, True])
    place, _ = slots(data, [coalition[None]])
    mine = coalition[rows.player]
    x, y, w = rows.features[mine], rows.label[mine], rows.weights[mine]
    everyone = StandardScaler().fit(rows.features, sample_weight=rows.weights)
    spread = StandardScaler().fit(everyone.transform(x), sample_weight=w).scale_
    z = np.hstack([everyone.transform(x), np.ones((len(x), 1))])

    def objective(theta: np.ndarray) -> float:
        score = z @ theta.T
        loss = np.log(np.exp(score).sum(axis=1)) - score[np.arange(len(y)), y]
        return float(0.5 * ((theta[:, :-1] * spread) ** 2).sum() + 1.5 * w @ loss)

    at = np.random.default_rng(0).normal(size=(3, 4))
    got = host(calculus.loss_gradient(data_like(at[None, None], data.x), data, place))[0, 0]
    for k in range(3):
        for j in range(4):
            step = np.zeros((3, 4))
            step[k, j] = 1e-5
            slope = (objective(at + step) - objective(at - step)) / 2e-5
            assert got[k, j] == pytest.approx(slope, abs=1e-6)


def test_descent_solves_a_quadratic_as_lbfgs_does(device: str) -> None:
    """On F = x'Hx/2 - b'x with P = I, every problem of a batch reaches H^-1 b on its own."""
    rng = np.random.default_rng(3)
    factor = rng.normal(size=(2, 3, 6, 6))
    hessian = factor @ factor.swapaxes(2, 3) + 0.3 * np.eye(6)
    b = rng.normal(size=(2, 3, 6))
    like = Stacked([draw(1)], 1.0, device).games.stack.x
    h, right = data_like(hessian, like), data_like(b, like)
    live = data_like(np.ones((2, 3, 6), dtype=np.uint8), like)

    def gradient(x):  # type: ignore[no-untyped-def]
        return (h @ x[..., None])[..., 0] - right

    start = data_like(np.zeros((2, 3, 6)), like)
    state = descent.begin(start, gradient(start), gradient(start), live)
    for _ in range(60):
        g = gradient(state.trial)
        descent.advance(state, g, g, live)
    want = np.linalg.solve(hessian, b[..., None])[..., 0]
    np.testing.assert_allclose(host(state.point), want, atol=1e-7)


def test_stacked_equals_single(device: str) -> None:
    games = [draw(20, players=4), draw(21, players=3, rows=14), draw(22, players=5, rows=4)]
    games[1] = (games[1][0], ValidationRows(games[1][1].features[:17], games[1][1].label[:17]))
    coalitions = [powerset(4), powerset(3)[::2], powerset(5)]
    together = Stacked(games, 1.0, device).correct(coalitions)
    for (rows, validation), asked, got in zip(games, coalitions, together, strict=True):
        assert np.array_equal(got, batched_scorer(rows, validation, 1.0, device).correct(asked))


def test_small_chunks_change_nothing(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, validation = draw(10, players=5)
    want = batched_scorer(rows, validation, 1.0, device).correct(powerset(5))
    monkeypatch.setattr(batched, "_CELLS_CPU", 1 << 12)
    assert np.array_equal(batched_scorer(rows, validation, 1.0, device).correct(powerset(5)), want)


def test_utility_is_the_share_of_correct_predictions(device: str) -> None:
    rows, validation = draw(11)
    scorer = batched_scorer(rows, validation, 1.0, device)
    assert np.allclose(scorer.utility(powerset(4)) * 40, scorer.correct(powerset(4)))


def test_bad_input_is_named(device: str) -> None:
    rows, validation = draw(11)
    scorer = batched_scorer(rows, validation, 1.0, device)
    with pytest.raises(ParameterError, match="boolean matrix"):
        scorer.correct(np.ones((2, 3), dtype=bool))
    with pytest.raises(ParameterError, match="no training row"):
        scorer.correct(np.zeros((1, 4), dtype=bool))
    with pytest.raises(ParameterError, match="one number of classes"):
        Stacked([draw(1), draw(1, d=4)], 1.0, device)
    with pytest.raises(ParameterError, match="one matrix per game"):
        Stacked([draw(1)], 1.0, device).correct([])
