"""Fairness loss is measured against one ideal: latent owners known, equal shares, whatever rule is tried."""

import numpy as np
import pytest

from datamarket_gym.analysis.metrics import provider_totals
from datamarket_gym.experiments.cells import attacks_of, compute
from datamarket_gym.experiments.spec import ExperimentSpec, TaskEntry, UtilityEntry, builtin_specs
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.utilities.oracle import Utility

SEED = 2
TASK = Synthetic(n_providers=4, per_provider=12, validation=60)


def distance(paid, ideal, profile):
    one, other = provider_totals(paid, profile), provider_totals(ideal, profile)
    return sum(abs(one[name] - other[name]) for name in one) / paid.grand_value


@pytest.mark.parametrize("name", ["s5", "s7"])
def test_the_reference_keeps_equal_shares(name):
    spec = builtin_specs()[name].model_copy(
        update={"attacks": ["copycat"], "options": {}, "utilities": [UtilityEntry(learner="knn@3")]}
    )
    entry = spec.mechanisms[-1].model_copy(
        update={
            "name": "quotient_shapley/noisy_oracle_latent(p_fm=0.2)", "representative": ["identity"],
            "changes": {"allocation": "{allocation}"},
            "sweep": {"allocation": ["equal_submitted", "count_raw", "latent_share"]},
        }
    )  # fmt: skip
    task = TaskEntry(task="synthetic(n_providers=4, per_provider=12, validation=60)")
    rows = compute(spec.model_copy(update={"mechanisms": [entry]}), task, SEED, {})
    market = ProviderMarket.from_task(TASK, SEED)
    oracle = market.utility_oracle(Utility("knn@3"))
    ((_, attack),) = attacks_of(spec)
    profile = attack.apply(spec.provider, market.state)
    ideal, own = (
        get_mechanism("quotient_shapley/oracle_latent", seed=SEED, allocation=rule).pay(
            profile.submission, oracle, profile.truth
        )
        for rule in ("equal_submitted", "latent_share")
    )
    for row in rows:
        m = get_mechanism(entry.name, seed=SEED, allocation=row["allocation"])
        paid = m.pay(profile.submission, oracle, profile.truth)
        assert row["oracle_l1"] == pytest.approx(distance(paid, ideal, profile))
        if row["allocation"] == "latent_share":  # its own ideal would have been another
            assert row["oracle_l1"] != pytest.approx(distance(paid, own, profile))
    assert len(rows) == 3


def test_a_cap_on_units_leaves_no_oracle_to_compare_with():
    """`recommended` keeps one unit a cluster; the oracle's clusters are whole providers. L1 was 1.0 for the honest."""
    spec = ExperimentSpec(
        name="x",
        title="x",
        attacks=["honest"],
        utilities=[{"learner": "knn@3"}],
        mechanisms=[
            {"name": "recommended"},
            {"name": "quotient_shapley/cosine@0.9", "granularity": ["unit"]},
            {"name": "quotient_shapley/cosine@0.9", "representative": ["capped"]},
        ],
    )
    task = TaskEntry(task="synthetic(n_providers=4, per_provider=12, validation=60)")
    recommended, units, capped = compute(spec, task, SEED, {})
    assert np.isnan(recommended["oracle_l1"])
    assert not np.isnan(recommended["gain"])
    assert not np.isnan(units["oracle_l1"])
    assert capped["oracle_l1"] == pytest.approx(
        0.0
    )  # identity level: the oracle is cut as the mechanism is
