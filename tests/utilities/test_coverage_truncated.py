"""Coverage from the nearest units alone is as near to the exact one as it says, for any law of sizes."""

import numpy as np
import pytest

from datamarket_gym import create
from datamarket_gym.analysis.theorems.leakage import Externality
from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import ParameterError
from datamarket_gym.execution.parallel import Compute, computing
from datamarket_gym.mechanism.pipeline import get_mechanism
from datamarket_gym.utilities import TrainingRows, ValidationRows, coverage
from datamarket_gym.utilities import accelerators as device_arrays
from datamarket_gym.utilities.accelerators import CudaArrays, HostArrays
from datamarket_gym.utilities.coverage import Coverage, CoverageTruncated
from datamarket_gym.utilities.oracle import Utility, UtilityOracle

LAWS = ["shapley", "banzhaf", "beta(alpha=4, beta=1)", "beta(alpha=1, beta=16)", "loo"]


def game(seed, n=60, held=1, width=3):
    rng = np.random.default_rng(seed)
    drawn = np.round(rng.normal(size=(n + held, width)), 1) + 0.05  # equal ones, and none of length zero
    player = rng.permutation(n) if seed % 3 else rng.permutation(n) // 2
    units = TrainingRows(drawn[:n], rng.integers(0, 2, n), player, int(player.max()) + 1, 2)
    return units, ValidationRows(drawn[n:], rng.integers(0, 2, held))


def both(learner, units, validation, law, acquired=False):
    semivalue, exact = create("semivalue", law), Coverage(learner.quantile, learner.labels)
    scorers = [each.scorer(units, validation) for each in (learner, exact)]
    if acquired:
        some = TrainingRows(-units.features[:2], units.label[:2], np.zeros(2, int), 1, 2)
        scorers = [each.scorer_given(units, some, validation) for each in (learner, exact)]
    cut, whole = (each.closed_form(semivalue, 0.1) for each in scorers)
    everybody = np.ones((1, units.n_players), dtype=bool)
    assert (scorers[0].utility(everybody) == scorers[1].utility(everybody)).all()
    return scorers[0].truncated(semivalue), whole - cut


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("nearest", [1, 2, 5, 12])
def test_every_score_is_too_low_by_no_more_than_is_said(law, nearest, compiled, monkeypatch):
    if compiled:
        pytest.importorskip("numba")
        monkeypatch.setattr(coverage, "_COMPILED_FROM", 0)
    for seed in range(12):
        learner = CoverageTruncated(0.0, bool(seed % 2), nearest=nearest)
        cut, low = both(learner, *game(seed, held=1 + seed // 4), law, acquired=seed % 5 == 0)
        assert cut.nearest == nearest
        assert low.min() >= -1e-15
        assert low.max() <= cut.within + 1e-15


@pytest.mark.parametrize("law", LAWS)
def test_a_score_can_be_as_low_as_is_said(law):
    """One more than are looked at cover the row wholly: none of them is above the next."""
    features = np.repeat([[1.0, 0.0], [0.0, 1.0]], [6, 30], axis=0)
    units = TrainingRows(features, np.zeros(36, int), np.arange(36), 36, 1)
    validation = ValidationRows(np.array([[2.0, 0.0]]), np.zeros(1, int))
    cut, low = both(CoverageTruncated(nearest=5), units, validation, law)
    assert low[:6] == pytest.approx(cut.within, abs=1e-15)
    assert not low[6:].any()


def test_for_shapley_it_is_one_in_so_many_and_auto_takes_as_few_as_that_allows():
    units, validation = game(1, n=3000, held=9)
    cut, low = both(CoverageTruncated(labels=False, within=0.002), units, validation, "shapley")
    assert cut.nearest == 499
    assert cut.within == pytest.approx(0.002)
    assert 0.0 < low.max() <= 0.002


@pytest.mark.parametrize(
    "learner", [CoverageTruncated(nearest=60), CoverageTruncated(within=0.0), CoverageTruncated()]
)
def test_where_all_units_are_looked_at_nothing_changes(learner):
    cut, low = both(learner, *game(2), "shapley")
    assert cut is None
    assert not low.any()


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_device_leaves_out_the_same(kind, monkeypatch):
    if kind == "torch":
        pytest.importorskip("torch")
    on = HostArrays() if kind == "numpy" else CudaArrays("cpu")
    monkeypatch.setattr(device_arrays, "CudaArrays", lambda device: on)
    units, validation = game(4, held=20)
    learner, shapley = CoverageTruncated(0.0, nearest=7), create("semivalue", "shapley")
    here = learner.scorer(units, validation).closed_form(shapley, 0.0)
    with computing(Compute(device="cuda")):
        there = learner.scorer(units, validation).closed_form(shapley, 0.0)
    assert (here != Coverage(0.0).scorer(units, validation).closed_form(shapley, 0.0)).any()
    np.testing.assert_allclose(there, here, rtol=1e-12, atol=1e-16)


def test_a_payment_says_how_many_units_were_looked_at_and_how_far_off_scores_can_be():
    units, validation = game(1, held=9)
    names = [str(i) for i in range(60)]
    submission = Submission(id=names, identity=names, features=units.features, label=units.label)
    utility = UtilityOracle(
        validation.features, validation.label, Utility("coverage_truncated(nearest=9)", "none")
    )
    scores = get_mechanism("recommended", evidence="none").pay(submission, utility).scores
    assert scores.method == "closed form of the nearest 9 (each score within 0.1)"
    assert scores.bias == pytest.approx(0.1)
    assert not scores.exact


def test_the_theorems_of_coverage_are_not_claimed_of_it():
    paid = get_mechanism("recommended")
    assert Externality.by(paid, Utility("coverage", "none")).known == "proved"
    assert Externality.by(paid, Utility("coverage_truncated", "none")).known == "unknown"


def test_other_words_for_how_many_are_refused():
    with pytest.raises(ParameterError, match="auto"):
        CoverageTruncated(nearest="some")
    with pytest.raises(ParameterError, match="nearest"):
        CoverageTruncated(nearest=0)
