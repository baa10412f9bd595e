"""The fused kernels against the array operations that say what they compute; needs CUDA and Triton."""

from __future__ import annotations

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)
pytest.importorskip("triton")

from datamarket_gym.utilities.base import TrainingRows, ValidationRows  # noqa: E402
from datamarket_gym.utilities.logistic import descent  # noqa: E402
from datamarket_gym.utilities.logistic import descent as calculus  # noqa: E402
from datamarket_gym.utilities.logistic.classifier import StackedLogisticScorer  # noqa: E402
from datamarket_gym.utilities.logistic.layout import Slots, Stack, slots  # noqa: E402


def powerset(k: int) -> np.ndarray:
    return ((np.arange(1, 1 << k)[:, None] >> np.arange(k)) & 1).astype(bool)


def game(
    seed: int, d: int, classes: int, players: int = 7, rows: int = 23
) -> tuple[TrainingRows, ValidationRows]:
    """Weights, players that lack classes, and a feature that is constant in some coalitions."""
    rng = np.random.default_rng(seed)
    n = players * rows
    label = rng.integers(0, classes, n)
    player = np.repeat(np.arange(players), rows)
    label[player == 0] = 0
    label[player == 1] %= 2
    x = rng.normal(size=(n, d)) + label[:, None] * rng.normal(size=d)
    x[player == 0, 0] = 1.5
    truth = rng.integers(0, classes, 50)
    validation = rng.normal(size=(50, d)) + truth[:, None] * rng.normal(size=d)
    weight = rng.uniform(0.2, 3.0, n)
    return TrainingRows(x, label, player, players, classes, weight), ValidationRows(validation, truth)


SHAPES = [
    (5, 3),
    (24, 4),
    (40, 2),
    (63, 8),
    (90, 4),
    (130, 10),
]  # on chip up to 63 features and 8 classes


def layout(d: int, classes: int, device: str = "cuda") -> tuple[Stack, Slots]:
    games = [game(0, d, classes), game(1, d, classes, players=6, rows=31)]
    data = StackedLogisticScorer(games, 1.3, device).games.stack
    place, _ = slots(data, [powerset(7)[::3], powerset(6)])
    return data, place


@pytest.mark.parametrize(("d", "classes"), SHAPES)
def test_gradient(d: int, classes: int) -> None:
    data, place = layout(d, classes)
    torch.manual_seed(0)
    weights = torch.randn(place.live.shape, dtype=torch.float64, device="cuda") * place.live
    want = calculus.gradient_by_masks(weights, data, place) + place.penalty[:, :, None] * weights
    got = calculus.loss_gradient(weights, data, place)
    torch.testing.assert_close(got, want * place.live, rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize(("d", "classes"), SHAPES)
def test_steps_of_the_descent(d: int, classes: int) -> None:
    """Twelve steps, both ways from the same state each time; the kernel's history is single precision."""
    data, place = layout(d, classes)
    live = place.live.flatten(2)
    weights = torch.zeros(place.live.shape, dtype=torch.float64, device="cuda")

    def gradient(point: torch.Tensor) -> torch.Tensor:
        return calculus.loss_gradient(point.reshape(weights.shape), data, place).flatten(2)

    g = gradient(weights)
    fast = descent.begin(weights.flatten(2), g, 0.01 * g, live)
    for _ in range(12):
        g = gradient(fast.trial)
        plain = copy.deepcopy(fast)
        descent.advance_arrays(plain, g, 0.01 * g, live)
        descent.advance(fast, g, 0.01 * g, live)
        assert (fast.count == plain.count).all()
        torch.testing.assert_close(fast.trial, plain.trial, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(fast.decrement, plain.decrement, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("d", "classes"), SHAPES)
def test_answers_are_those_of_numpy(d: int, classes: int) -> None:
    games = [game(0, d, classes), game(1, d, classes, players=6, rows=31)]
    asked = [powerset(7), powerset(6)]
    scorer = StackedLogisticScorer(games, 1.3, "cuda")
    for got, want in zip(
        scorer.correct(asked), StackedLogisticScorer(games, 1.3, "numpy").correct(asked), strict=True
    ):
        assert np.array_equal(got, want)
    report = scorer.report
    assert report.proven + report.converged + report.ties == report.coalitions
