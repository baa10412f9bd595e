"""Whoever pays the earliest warns where no times say who that is: in Python, experiments and audits."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from datamarket_gym import ProviderMarket, UndatedMarketWarning, Utility, create, get_mechanism, registry
from datamarket_gym.analysis.redteam import audit, market_state
from datamarket_gym.errors import CollapsedMarketWarning
from datamarket_gym.evidence.graph import collect_market_warnings
from datamarket_gym.execution.files import read_json
from datamarket_gym.experiments import ExperimentSpec, run_experiment
from datamarket_gym.market.tasks import Synthetic

KNN = Utility("knn@5", "chance")
EXACT = {"evidence": "exact_hash"}


@pytest.fixture(scope="module")
def market():
    return ProviderMarket.from_task(Synthetic(n_providers=3, per_provider=20), 0)


@pytest.fixture(params=["none", "equal"])
def undated(request, market):
    submission = market.honest.submission
    return replace(submission, time=None if request.param == "none" else np.full(len(submission), 3.0))


def test_paying_the_earliest_without_times_warns(market, undated):
    with pytest.warns(UndatedMarketWarning, match="copies cannot be told from originals") as caught:
        get_mechanism("recommended", **EXACT).pay(undated, market.utility_oracle(KNN))
    assert len(caught) == 1
    assert caught[0].message.mechanism == "recommended"
    assert caught[0].filename == __file__
    have = "carry no times" if undated.time is None else "all carry the same time"
    assert f"the units {have}, so nobody was first" in str(caught[0].message)


def test_where_times_decide_nothing_nobody_is_warned(market, undated):
    oracle, dated = market.utility_oracle(KNN), market.honest.submission
    alone = replace(undated, identity=np.full(len(undated), "me"))
    two_moments = replace(dated, time=np.arange(float(len(dated))) // (len(dated) / 2))
    assert len(set(two_moments.time)) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", UndatedMarketWarning)
        get_mechanism("recommended", **EXACT).pay(dated, oracle)
        get_mechanism("recommended", **EXACT).pay(two_moments, oracle)
        get_mechanism("recommended", **EXACT).pay(alone, oracle)
        get_mechanism("shapley").pay(undated, oracle)  # names play
        get_mechanism("quotient_shapley/exact_hash").pay(undated, oracle)  # tied names share equally


def test_an_audit_has_it_in_its_report_once(market, undated):
    oracle = market.utility_oracle(KNN)
    state = market_state(undated, oracle.features, oracle.label)
    with pytest.warns(UndatedMarketWarning) as caught:
        report = audit(state, get_mechanism("recommended", **EXACT), oracle, providers=1, only="copycat")
    assert len(caught) == 1
    assert [("copies cannot be told" in warning) for warning in report.warnings] == [True]


@pytest.fixture
def undating():
    """An attack on the clock: all times are lost."""
    honest = type(create("attack", "honest"))

    class LostTimes(honest):
        def apply(self, provider_id, market_state):
            profile = super().apply(provider_id, market_state)
            return replace(profile, submission=replace(profile.submission, time=None))

    registry.register("attack", "lost_times")(LostTimes)
    yield "lost_times"
    del registry._components["attack"]["lost_times"]


def test_an_experiment_tells_it_once_per_mechanism(undating, tmp_path):
    spec = ExperimentSpec(
        name="mine",
        title="Mine",
        seeds=2,
        tasks=[{"task": "synthetic(n_providers=3, per_provider=20)"}],
        utilities=[{"learner": "knn@5", "empty": "chance"}],
        attacks=["honest", undating],
        mechanisms=[{"name": "recommended/exact_hash"}],
    )
    with pytest.warns(UndatedMarketWarning, match="nobody was first in 2 of 2 cells, as in") as caught:
        run_experiment(spec, tmp_path)
    assert len(caught) == 1
    [(kind, name, _)] = read_json(tmp_path / "manifest.json")["warnings"]
    assert (kind, name) == ("UndatedMarketWarning", "recommended/exact_hash")


def test_the_first_of_each_kind_and_mechanism_is_kept():
    with collect_market_warnings() as told:
        for kind in (CollapsedMarketWarning, UndatedMarketWarning):
            for name in "aab":
                warnings.warn(kind(name, "words"), stacklevel=1)
    assert [(type(each).__name__[:3], each.mechanism) for each in told] == [
        ("Col", "a"), ("Col", "b"), ("Und", "a"), ("Und", "b"),
    ]  # fmt: skip
