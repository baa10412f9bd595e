"""The torch engine against converged scikit-learn, against itself, and against its own proof."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

torch = pytest.importorskip("torch")

from datamarket_gym.core.errors import LearnerError, ParameterError  # noqa: E402
from datamarket_gym.learners.base import TrainingRows, ValidationRows  # noqa: E402
from datamarket_gym.learners.logistic_torch import (  # noqa: E402
    TorchLogisticScorer,
    certificate,
    engine,
    stacked_correct,
    sweep,
)
from datamarket_gym.learners.logistic_torch.layout import slots  # noqa: E402

CLEAR = 1e-6  # margins of the reference below this are not held against anyone


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


def agree(rows: TrainingRows, validation: ValidationRows, C: float = 1.0, every: int = 1) -> None:
    coalitions = powerset(rows.n_players)[::every]
    scorer = TorchLogisticScorer(rows, validation, C, "cpu")
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
def test_equals_converged_scikit_learn(seed: int, classes: int, d: int, pull: float, C: float) -> None:
    agree(*draw(seed, d=d, classes=classes, pull=pull), C=C)


def test_weights_and_duplicated_rows() -> None:
    rows, validation = draw(1)
    weight = np.random.default_rng(1).integers(1, 4, len(rows.label))
    weighted = TrainingRows(rows.features, rows.label, rows.player, 4, 3, weight.astype(float))
    agree(weighted, validation)
    copies = np.repeat(np.arange(len(weight)), weight)
    copied = TrainingRows(rows.features[copies], rows.label[copies], rows.player[copies], 4, 3)
    coalitions = powerset(4)
    assert np.array_equal(
        TorchLogisticScorer(weighted, validation, 1.0, "cpu").correct(coalitions),
        TorchLogisticScorer(copied, validation, 1.0, "cpu").correct(coalitions),
    )


def test_constant_collinear_and_badly_scaled_features() -> None:
    rows, validation = draw(2, d=6)
    x, v = rows.features.copy(), validation.features.copy()
    x[:, 0], v[:, 0] = 7.0, np.arange(40)  # constant for all
    x[rows.player == 1, 1] = 0.1  # constant for some coalitions
    x[:, 3], v[:, 3] = 2 * x[:, 2] - 1, 2 * v[:, 2] - 1
    for j, factor in ((4, 1e-6), (5, 1e6)):
        x[:, j], v[:, j] = 3 + factor * x[:, j], 3 + factor * v[:, j]
    agree(TrainingRows(x, rows.label, rows.player, 4, 3), ValidationRows(v, validation.label))


def test_features_far_from_zero() -> None:
    rows, validation = draw(12)
    shifted = TrainingRows(rows.features + 1e6, rows.label, rows.player, 4, 3)
    agree(shifted, ValidationRows(validation.features + 1e6, validation.label))


def test_missing_classes_single_rows_and_unknown_labels() -> None:
    rng = np.random.default_rng(3)
    features = rng.normal(size=(14, 3))
    label = np.array([0, 0, 0, 2, 2, 2, 2, 3, 0, 2, 3, 3, 0, 3])  # class 1 in nobody's rows
    player = np.array([0, 0, 0, 1, 1, 1, 1, 2, 3, 3, 3, 3, 4, 5])
    truth = rng.integers(-1, 6, 40)
    rows = TrainingRows(features, label, player, 6, 4)
    agree(rows, ValidationRows(rng.normal(size=(40, 3)), truth))


def test_separable_rows_and_more_features_than_rows() -> None:
    agree(*draw(4, pull=8.0))
    agree(*draw(5, players=3, rows=6, d=40, pull=2.0))


def test_many_parameters_use_the_shared_preconditioner() -> None:
    agree(*draw(6, players=3, rows=20, d=110, classes=4, pull=0.3), every=2)


def test_one_player() -> None:
    agree(*draw(7, players=1, rows=20))


def test_order_of_rows_and_players_does_not_matter() -> None:
    rows, validation = draw(8, players=5)
    rng = np.random.default_rng(8)
    coalitions = powerset(5)
    want = TorchLogisticScorer(rows, validation, 1.0, "cpu").correct(coalitions)
    order, name = rng.permutation(len(rows.label)), rng.permutation(5)
    mixed = TrainingRows(rows.features[order], rows.label[order], name[rows.player[order]], 5, 3)
    renamed = np.zeros_like(coalitions)
    renamed[:, name] = coalitions
    shuffled = rng.permutation(len(renamed))
    got = TorchLogisticScorer(mixed, validation, 1.0, "cpu").correct(renamed[shuffled])
    assert np.array_equal(got, want[shuffled])


def test_symmetric_problem_is_a_tie_and_goes_to_the_lowest_class() -> None:
    # Each point carries both labels: all logits are equal at the optimum.
    x = np.repeat(np.arange(6.0)[:, None], 2, axis=0)
    rows = TrainingRows(x, np.tile([0, 1], 6), np.repeat([0, 1], 6), 2, 2)
    validation = ValidationRows(np.array([[0.0], [1.0], [9.0]]), np.array([0, 0, 1]))
    scorer = TorchLogisticScorer(rows, validation, 1.0, "cpu")
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
def test_validation_rows_next_to_the_boundary(gap: float) -> None:
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
    scorer = TorchLogisticScorer(rows, validation, 1.0, "cpu")
    assert scorer.correct(np.ones((1, 1), dtype=bool)).tolist() == [30]


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), classes=st.integers(2, 5), C=st.sampled_from([0.1, 1.0, 20.0]))
def test_no_point_is_certified_with_other_predictions_than_the_optimum(
    seed: int, classes: int, C: float
) -> None:
    """Points at many distances from the optimum, with intercepts moved most."""
    rows, validation = draw(seed, players=3, rows=12, classes=classes)
    scorer = TorchLogisticScorer(rows, validation, C, "cpu")
    coalitions = powerset(3)
    want = scorer.correct(coalitions)
    data = scorer._stacked._engine.stack
    place, careful = slots(data, [coalitions], [np.arange(len(coalitions))])
    usable = ((place.present.sum(dim=2) > 1) & ~careful)[0].numpy()
    start = scorer._stacked._engine._anchor.start(place)
    generator = torch.Generator().manual_seed(seed)
    certified = 0
    weights = _descend(start, data, place)
    for distance in 10.0 ** np.arange(0, -9, -1.0):
        noise = torch.randn(weights.shape, generator=generator, dtype=weights.dtype)
        noise[..., -1] *= 10
        point = weights + distance * noise * place.live
        verdict = certificate.judge(point, sweep.gradient(point, data, place), data, place)
        sure = verdict.certain[0].numpy() & usable
        assert np.array_equal(verdict.correct[0].numpy()[sure], want[sure]), distance
        certified += int(sure.sum())
    assert certified > 0


def _descend(weights, data, place):  # type: ignore[no-untyped-def]
    """Plain Newton-like descent to near the optimum, to have something to disturb."""
    from datamarket_gym.learners.logistic_torch import anchor, descent

    for _ in range(4):
        scale = anchor.own(weights, data, place)
        gradient = sweep.gradient(weights, data, place)
        live = place.live.flatten(2)
        state = descent.begin(weights.flatten(2), gradient.flatten(2), scale(gradient).flatten(2), live)
        for _ in range(6):
            gradient = sweep.gradient(state.trial.view_as(weights), data, place)
            descent.advance(state, gradient.flatten(2), scale(gradient).flatten(2), live)
        weights = state.point.view_as(weights)
    return weights


def test_stacked_equals_single() -> None:
    games = [draw(20, players=4), draw(21, players=3, rows=14), draw(22, players=5, rows=4)]
    games[1] = (games[1][0], ValidationRows(games[1][1].features[:17], games[1][1].label[:17]))
    coalitions = [powerset(4), powerset(3)[::2], powerset(5)]
    together = stacked_correct(games, coalitions, 1.0, "cpu")
    for (rows, validation), asked, got in zip(games, coalitions, together, strict=True):
        assert np.array_equal(got, TorchLogisticScorer(rows, validation, 1.0, "cpu").correct(asked))


def test_small_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, validation = draw(10, players=5)
    want = TorchLogisticScorer(rows, validation, 1.0, "cpu").correct(powerset(5))
    monkeypatch.setattr(engine, "_CELLS_CPU", 1 << 12)
    assert np.array_equal(TorchLogisticScorer(rows, validation, 1.0, "cpu").correct(powerset(5)), want)


def test_utility_is_the_share_of_correct_predictions() -> None:
    rows, validation = draw(11)
    scorer = TorchLogisticScorer(rows, validation, 1.0, "cpu")
    assert np.allclose(scorer.utility(powerset(4)) * 40, scorer.correct(powerset(4)))


def test_bad_input_is_named() -> None:
    rows, validation = draw(11)
    scorer = TorchLogisticScorer(rows, validation, 1.0, "cpu")
    with pytest.raises(ParameterError, match="boolean matrix"):
        scorer.correct(np.ones((2, 3), dtype=bool))
    with pytest.raises(LearnerError, match="no training row"):
        scorer.correct(np.zeros((1, 4), dtype=bool))
    with pytest.raises(ParameterError, match="one number of classes"):
        stacked_correct([draw(1), draw(1, d=4)], [powerset(4)] * 2, 1.0, "cpu")
    with pytest.raises(ParameterError, match="one matrix per game"):
        stacked_correct([draw(1)], [], 1.0, "cpu")
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="CUDA"):
            TorchLogisticScorer(rows, validation, 1.0, "cuda")
