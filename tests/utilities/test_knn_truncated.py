"""Values from the nearest rows alone are as near to the exact ones as they say, for any law of sizes."""

import itertools

import numpy as np
import pytest

from datamarket_gym import create
from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import ParameterError
from datamarket_gym.mechanism.pipeline import get_mechanism
from datamarket_gym.utilities import TrainingRows, ValidationRows
from datamarket_gym.utilities.knn import Knn, KnnTruncated
from datamarket_gym.utilities.oracle import Utility, UtilityOracle

LAWS = ["shapley", "banzhaf", "beta(alpha=4, beta=1)", "beta(alpha=1, beta=16)", "loo"]


def game(seed, n=80, held=1, classes=3, width=3):
    rng = np.random.default_rng(seed)
    drawn = np.round(rng.normal(size=(n + held, width)), 1)
    label = rng.integers(0, classes, n) if seed % 4 else np.zeros(n, dtype=int)
    units = TrainingRows(drawn[:n], label, rng.permutation(n), n, classes)
    return units, ValidationRows(drawn[n:], rng.integers(0, classes, held))


def both(learner, units, validation, law):
    semivalue = create("semivalue", law)
    cut = learner.scorer(units, validation)
    exact = Knn(learner.k).scorer(units, validation).closed_form(semivalue, 0.3)
    return cut.truncated(semivalue), np.abs(cut.closed_form(semivalue, 0.3) - exact)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("nearest", [1, 2, 5, 19, 40, 78, 79])
def test_no_score_is_off_by_more_than_is_said(law, nearest):
    worst = 0.0
    for seed in range(24):
        k = 1 + seed % 7
        cut, off = both(KnnTruncated(k, nearest=nearest), *game(seed, held=1 + seed // 8), law)
        assert cut.nearest == nearest
        assert off.max() <= cut.within + 1e-12
        worst = max(worst, off.max() / max(cut.within, 1e-9))
    if law == "shapley" and nearest <= 40:
        assert worst > 0.25  # the bound is none that nothing comes near


def test_for_shapley_it_is_one_in_so_many():
    cut, _ = both(KnnTruncated(5, nearest=50), *game(1, n=100_000, width=1), "shapley")
    assert cut.within == pytest.approx(0.02, rel=0.01)


@pytest.mark.parametrize("nearest", [5, 20, 60, 79])
def test_scores_sum_to_what_they_would_sum_to(nearest):
    for seed in range(8):
        units, validation = game(seed, held=3)
        cut, exact = (
            learner.scorer(units, validation).closed_form(create("semivalue", "shapley"), 0.3)
            for learner in (KnnTruncated(5, nearest=nearest), Knn(5))
        )
        assert cut.sum() == pytest.approx(exact.sum(), abs=1e-12)


@pytest.mark.parametrize("nearest", [1, 3, 6])
def test_farther_rows_are_worth_their_mean_over_all_orders(nearest):
    """Every order of the rows beyond, by the exact formula on rows that lie in that order."""
    label = np.array([0, 1, 0, 0, 1, 1, 0])
    n, validation = len(label), ValidationRows(np.zeros((1, 1)), np.zeros(1, dtype=int))
    line = np.arange(1.0, n + 1)[:, None]

    def scores(learner, places):
        units = TrainingRows(line[places], label, np.arange(n), n, 2)
        return learner.scorer(units, validation).closed_form(create("semivalue", "banzhaf"), 0.4)

    orders = [
        [*range(nearest), *(nearest + p for p in order)]
        for order in itertools.permutations(range(n - nearest))
    ]
    mean = np.mean([scores(Knn(2), np.array(order)) for order in orders], axis=0)
    found = scores(KnnTruncated(2, nearest=nearest), np.arange(n))
    assert found == pytest.approx(mean, abs=1e-12)


def test_units_far_from_everything_with_a_common_label_are_not_paid_for_it():
    """Paid by label alone, as the middle of the bounds does, they would earn many times what others do."""
    rng = np.random.default_rng(0)
    label, held = rng.integers(2, size=2000), np.r_[np.zeros(45, dtype=int), np.ones(55, dtype=int)]
    rows = 1.2 * label[:, None] + rng.normal(size=(2000, 8))
    rows[:20], label[:20] = 1000.0 + rng.normal(size=(20, 8)), 1
    units = TrainingRows(rows, label, np.arange(2000), 2000, 2)
    validation = ValidationRows(1.2 * held[:, None] + rng.normal(size=(100, 8)), held)
    for nearest in (50, 250):
        scores = KnnTruncated(5, nearest=nearest).scorer(units, validation)
        scores = scores.closed_form(create("semivalue", "shapley"), 0.5)
        assert scores[:20].mean() < scores[20:].mean()


def test_auto_takes_as_few_rows_as_the_bound_allows():
    units, validation = game(1, n=3000)
    cut, off = both(KnnTruncated(5, within=0.002), units, validation, "shapley")
    assert (
        cut.within
        <= 0.002
        < both(KnnTruncated(5, nearest=cut.nearest - 1), units, validation, "shapley")[0].within
    )
    assert off.max() <= 0.002
    assert 400 < cut.nearest < 500


@pytest.mark.parametrize(
    "learner", [KnnTruncated(3, nearest=80), KnnTruncated(3, within=0.0), KnnTruncated(1)]
)
def test_where_all_rows_are_looked_at_nothing_changes(learner):
    units, validation = game(2)
    if learner.k == 1:  # several rows a player
        units = TrainingRows(units.features, units.label, units.player // 2, 40, 3)
    cut, off = both(learner, units, validation, "shapley")
    assert cut is None
    assert not off.any()


def test_one_unit_needs_no_neighbours():
    cut, off = both(KnnTruncated(3, nearest=1), *game(1, n=1), "shapley")
    assert cut is None
    assert not off.any()


def test_a_payment_says_how_many_rows_were_looked_at_and_how_far_off_scores_can_be():
    units, validation = game(1, n=60, held=9)
    names = [str(i) for i in range(60)]
    submission = Submission(id=names, identity=names, features=units.features, label=units.label)
    utility = UtilityOracle(
        validation.features, validation.label, Utility("knn_truncated(nearest=10)", "none")
    )
    scores = get_mechanism("recommended", evidence="none").pay(submission, utility).scores
    assert scores.method.startswith("closed form of the nearest 10 (each score within 0.0")
    assert scores.bias > 0.04
    assert not scores.exact


def test_other_words_for_how_many_are_refused():
    with pytest.raises(ParameterError, match="auto"):
        KnnTruncated(5, nearest="some")
    with pytest.raises(ParameterError, match="nearest"):
        KnnTruncated(5, nearest=0)
