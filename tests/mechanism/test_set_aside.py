"""Leaked validation rows are set aside: nobody else's pay moves by a bit, and whoever submitted them is told."""

import warnings

import numpy as np
import pytest

from datamarket_gym import ProviderMarket, Submission, UtilityOracle, create, get_mechanism
from datamarket_gym.analysis.metrics import Metrics, provider_totals
from datamarket_gym.analysis.redteam import audit, market_state
from datamarket_gym.analysis.theorems.certificate import certify
from datamarket_gym.analysis.theorems.paid_profile import Paid
from datamarket_gym.errors import LeakedRowsWarning, LeakError
from datamarket_gym.experiments import ExperimentSpec, run_experiment
from datamarket_gym.mechanism import Mechanism

RECOMMENDED = get_mechanism("recommended")


@pytest.fixture(scope="module")
def market():
    return ProviderMarket.from_task("synthetic", seed=11, learner="knn", utility="chance")


@pytest.fixture(scope="module")
def utility(market):
    return market.utility_oracle()


def with_rows(submission, market, rows, names, noise=0.0, first=False):
    """The submission with validation rows under these names, after all others or before them."""
    features = market.dataset.validation_features[rows]
    features = features + np.random.default_rng(0).normal(0, noise, features.shape)
    n = len(rows)
    times = -1.0 - np.arange(n) if first else 10.0 + np.arange(n)
    more = Submission(
        id=np.array([f"leaked {i}" for i in range(n)]),
        identity=np.array(names),
        features=features,
        label=market.dataset.validation_label[rows],
        source=np.array([f"leaked {i}" for i in range(n)]),
        batch=np.array(names),
        time=times,
    )
    return Submission.concat([more, submission] if first else [submission, more])


@pytest.fixture
def stuffed(market):
    """Rows 0 to 5 submitted first of all: 0 to 3 by a stranger, 4 and 5 by provider 0."""
    names = ["stranger"] * 4 + ["provider_0"] * 2
    return with_rows(market.honest.submission, market, np.arange(6), names, 0.02, first=True)


def test_nobody_elses_pay_moves_by_a_bit(market, utility, stuffed):
    honest = RECOMMENDED.pay(market.honest.submission, utility)
    with pytest.warns(LeakedRowsWarning, match="6 units of 2 identities equal validation rows"):
        paid = RECOMMENDED.pay(stuffed, utility)
    assert paid.as_dict() == {**honest.as_dict(), "stranger": 0.0}
    assert paid.leaks.unit.tolist() == list(range(6))
    assert paid.leaks.row.tolist() == list(range(6))
    assert paid.leaks.id.tolist() == [f"leaked {i}" for i in range(6)]
    assert paid.leaks.identity.tolist() == ["stranger"] * 4 + ["provider_0"] * 2
    assert len(paid.clustering.label) == len(market.honest.submission)
    assert paid.clustering.submission.id.tolist() == market.honest.submission.id.tolist()
    assert paid.threshold == honest.threshold
    assert "6 units excluded as leaked" in repr(paid)


def test_without_the_check_they_pay(market, utility, stuffed):
    paid = get_mechanism("recommended", leak_check="off").pay(stuffed, utility)
    assert paid.total(["stranger"]) > 0
    assert len(paid.leaks) == 0


def test_the_papers_mechanisms_do_not_check(market, utility, stuffed):
    for name in ("shapley", "uniform", "quotient_shapley/exact_hash", "per_example"):
        assert get_mechanism(name).leak_check == "off"
    with warnings.catch_warnings():
        warnings.simplefilter("error", LeakedRowsWarning)
        paid = get_mechanism("uniform").pay(stuffed, utility)
    assert paid.total(["stranger"]) > 0


def test_error_stops_and_lists(market, utility, stuffed):
    with pytest.raises(LeakError, match=r"leaked 0 of stranger is row 0 .*and 1 more.*replace them"):
        get_mechanism("recommended", leak_check="error").pay(stuffed, utility)
    honest = get_mechanism("recommended", leak_check="error").pay(market.honest.submission, utility)
    assert len(honest.leaks) == 0


def test_a_submission_of_leaks_alone_is_refused(market):
    data = market.dataset
    names = np.array([f"s{i % 3}" for i in range(len(data.validation_label))])
    same = Submission(
        id=np.arange(len(names)), identity=names, features=data.validation_features,
        label=data.validation_label,
    )  # fmt: skip
    with pytest.raises(LeakError, match="every unit equals a validation row"):
        RECOMMENDED.pay(same, market.utility_oracle())


def test_a_row_that_many_equal_is_counted(market, utility):
    rows = np.array([7] * 30 + [8])
    many = with_rows(market.honest.submission, market, rows, [f"provider_{i % 8}" for i in range(31)])
    with pytest.warns(LeakedRowsWarning, match=r"31 units of 8 .*2 different rows, row 7 30 times"):
        RECOMMENDED.pay(many, utility)


@pytest.mark.filterwarnings("ignore::datamarket_gym.errors.LeakedRowsWarning")
def test_certificates_and_metrics_are_of_the_units_that_play(market, utility, stuffed):
    data = market.dataset
    state = market_state(stuffed, data.validation_features, data.validation_label)
    profile = state.honest
    copied = create("attack", "exact_dup_2x_sybils").apply("provider_1", state)
    honest, paid = (Paid.by(RECOMMENDED, p, utility) for p in (profile, copied))
    assert "stranger" not in paid.profile.submission.identities
    assert paid.total("stranger") == 0.0
    assert provider_totals(paid.payments, copied)["stranger"] == 0.0
    assert provider_totals(honest.payments, honest.profile)["stranger"] == 0.0
    assert certify(honest, paid, RECOMMENDED).words
    whole = RECOMMENDED.pay(stuffed, utility)
    report = Metrics.evaluate(whole, profile, whole, provider="provider_0")
    assert report.gain == 1.0
    assert 0 <= report.mixed_components <= 1


@pytest.mark.filterwarnings("ignore::datamarket_gym.errors.LeakedRowsWarning")
def test_an_audit_tells_of_leaks(market, utility, stuffed):
    data = market.dataset
    state = market_state(stuffed, data.validation_features, data.validation_label)
    report = audit(state, RECOMMENDED, utility, providers=1, only="exact_dup_2x_sybils")
    assert any("leaked 0 of stranger is row 0" in warning for warning in report.warnings)


def test_the_field_travels_with_the_mechanism():
    assert RECOMMENDED.leak_check == "drop"
    off = get_mechanism("recommended", leak_check="off")
    assert off.id != RECOMMENDED.id
    assert Mechanism.model_validate_json(off.model_dump_json()) == off


def test_other_widths_are_refused_in_words(market):
    narrow = UtilityOracle(market.dataset.validation_features[:, :5], market.dataset.validation_label)
    with pytest.raises(Exception, match=r"24 numbers per unit but the validation rows have 5"):
        RECOMMENDED.pay(market.honest.submission, narrow)


def test_an_experiment_plays_leaks_and_warns_of_honest_ones_alone(tmp_path):
    spec = ExperimentSpec(
        name="leaks", title="Leaks", tasks=[{"task": "synthetic(n_providers=3, per_provider=20)"}], seeds=1,
        utilities=[{"learner": "knn@5", "empty": "chance"}],
        attacks=["honest", "leak_stuffing"],
        mechanisms=[{"name": "recommended"}, {"name": "shapley", "granularity": ["unit"]}],
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error", LeakedRowsWarning)
        rows = run_experiment(spec, tmp_path / "run")
    gains = {(row["mechanism"], row["attack"]): row["value"] for row in rows if row["metric"] == "gain"}
    assert gains["recommended", "leak_stuffing"] == 1.0
    assert gains["shapley", "leak_stuffing"] > 1.5
