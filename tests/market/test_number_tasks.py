"""Markets with numbers as labels: what is drawn, what attacks make of it, and that they can be paid and audited."""

import numpy as np
import pytest

from datamarket_gym.analysis.metrics import provider_totals
from datamarket_gym.errors import DataMarketError, ParameterError, SubmissionError
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.registry import create
from datamarket_gym.utilities.oracle import Utility

TASKS = [
    "synthetic_regression(n_providers=4, per_provider=25, validation=80)",
    "diabetes(per_provider=25)",
]


@pytest.mark.parametrize("task", TASKS)
def test_rows_are_dealt_once_and_none_is_held_out_too(task):
    drawn = create("task", task).draw(3)
    data, parts = drawn.dataset, drawn.provider_partition
    assert data.label.dtype == data.validation_label.dtype == np.float64
    dealt = np.concatenate(parts)
    assert {len(part) for part in parts} == {25}
    assert len(np.unique(dealt)) == len(dealt)
    held = {row.tobytes() for row in data.validation_features}
    assert not held & {row.tobytes() for row in data.features}
    assert len(np.unique(data.label)) > 50


def test_the_real_table_is_the_one_of_scikit_learn():
    from sklearn.datasets import load_diabetes

    known = load_diabetes(scaled=False)
    data = create("task", "diabetes").draw(0).dataset
    label = np.concatenate([data.label, data.validation_label])
    assert sorted(label) == sorted(known.target)
    features = np.concatenate([data.features, data.validation_features])
    np.testing.assert_allclose(features.std(axis=0), 1.0, rtol=1e-9)
    np.testing.assert_allclose(features.mean(axis=0), 0.0, atol=1e-9)
    correlation = [np.corrcoef(features[:, j], label)[0, 1] for j in range(10)]
    want = [np.corrcoef(known.data[:, j], known.target)[0, 1] for j in range(10)]
    np.testing.assert_allclose(correlation, want, atol=1e-9)


def test_the_synthetic_number_is_a_function_of_five_features_and_noise():
    def explained(noise):
        task = f"synthetic_regression(noise={noise}, n_providers=2, per_provider=2000, validation=10)"
        data = create("task", task).draw(1).dataset
        from sklearn.ensemble import RandomForestRegressor

        half = len(data.label) // 2
        out = []
        for columns in (slice(0, 5), slice(5, 12)):
            model = RandomForestRegressor(30, random_state=0).fit(
                data.features[:half, columns], data.label[:half]
            )
            out.append(model.score(data.features[half:, columns], data.label[half:]))
        return out

    (five, idle), (noisy, _) = explained(0.0), explained(5.0)
    assert five > 0.9 > 0.6 > noisy
    assert idle < 0.05


def test_more_rows_than_there_are_is_an_error_that_says_so():
    with pytest.raises(DataMarketError, match="diabetes has 442 rows, but 1140 are asked for"):
        create("task", "diabetes(per_provider=200)").draw(0)
    with pytest.raises(ParameterError, match="features = 4"):
        create("task", "synthetic_regression(features=4)")


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("learner", ["knn_regression", "ridge_regression"])
def test_false_numbers_cost_who_submits_them(task, learner):
    lost = []
    for seed in range(4):
        market = ProviderMarket.from_task(task, seed, learner=learner)
        payer, oracle = get_mechanism("shapley"), market.utility_oracle()
        before = provider_totals(payer.pay(market.honest.submission, oracle), market.honest)
        for attack in ("label_noise@0.8", "label_poisoning"):
            profile = create("attack", attack).apply(0, market.state)
            changed = profile.submission.label != market.honest.submission.label
            assert changed.any()
            assert np.isfinite(profile.submission.label).all()
            after = provider_totals(payer.pay(profile.submission, oracle), profile)
            lost.append(before["provider_0"] - after["provider_0"])
    assert np.mean(lost) > 0.01


@pytest.mark.parametrize("task", TASKS)
def test_units_play_by_the_formula_and_add_up_to_what_all_explain(task):
    market = ProviderMarket.from_task(task, learner="knn_regression")
    oracle = market.utility_oracle()
    paid = get_mechanism("shapley", granularity="unit").pay(market.honest.submission, oracle)
    assert paid.scores.method == "closed form"
    assert paid.totals.sum() == pytest.approx(paid.grand_value, abs=1e-9)
    assert 0.1 < paid.grand_value < 0.9


def test_classes_by_name_are_no_numbers():
    market = ProviderMarket.from_task("diabetes(per_provider=25)", learner="knn_regression")
    submission = market.honest.submission
    named = submission.take(np.arange(len(submission)), {"label": np.full(len(submission), "high")})
    with pytest.raises(SubmissionError, match="'high', which is no number"):
        get_mechanism("shapley").pay(named, market.utility_oracle())
    with pytest.raises(ParameterError, match="no units are worth nothing"):
        Utility("knn_regression", "chance")
