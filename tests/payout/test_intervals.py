"""Intervals: a jackknife over validation rows, Student's t, and ends that are rounded outwards."""

import math
from decimal import Decimal

import numpy as np
import pyarrow.parquet as pq
import pytest
from payout_files import payments, run, spec, units, validation, write
from scipy import stats

from datamarket_gym.payout.inputs import read_inputs
from datamarket_gym.payout.money import (
    validation_groups,
)
from datamarket_gym.utilities.coverage import Coverage
from datamarket_gym.utilities.oracle import UtilityOracle

AMOUNT = 10**12  # cents: so many that rounding to them cannot be seen
FINE = {"amount": "10000000000.00"}
ONE = ("seller 0", "seller 2")
LINKED = {"linkage": {"confirm": "same"}}


def harmful():
    """One seller's labels are wrong, so that scores below zero occur; seller 0 is the same person."""
    columns = units()
    wrong = np.array([name == "seller 2" and i % 3 > 0 for i, name in enumerate(columns["identity"])])
    columns["label"] = np.where(wrong, (columns["label"] + 1) % 3, columns["label"])
    columns["same"] = ["seller 0;seller 2" if name in ONE else None for name in columns["identity"]]
    return columns


COVERED, CARRIED, FLOORED = {}, {"learner": "knn"}, {"learner": "knn", "negative": "zero"}


@pytest.fixture(scope="module", params=[COVERED, CARRIED, FLOORED], ids=["coverage", "carry", "zero"])
def policy(request):
    return request.param


@pytest.fixture(scope="module")
def folder(policy, tmp_path_factory):
    return run(tmp_path_factory.mktemp("fine"), harmful(), validation(24), **policy, **FINE, **LINKED)


@pytest.fixture(autouse=True)
def strangers(monkeypatch):
    """The level of strangers is that of all validation rows, whichever of them are left out."""
    level = Coverage().baseline_similarity(validation(24)["features"])
    monkeypatch.setattr(Coverage, "baseline_similarity", lambda self, rows: level)


def column(folder, name):
    return {identity: Decimal(row[name]) for identity, row in payments(folder).items()}


def paid_by_hand(inputs, policy, rows):
    """What everyone is paid when only some of the validation rows are there, in cents and fractions."""
    chosen = spec(**policy)
    utility = UtilityOracle(
        inputs.validation_features[rows], inputs.validation_label[rows], chosen.utility
    )
    found = chosen.mechanism("exact_hash").pay(inputs.submission, utility)
    scores = np.maximum(found.scores.values, 0.0) if policy == FLOORED else found.scores.values
    weight = np.zeros(len(inputs.identities))
    np.add.at(weight, found.shares.identity, found.shares.share * scores[found.shares.cluster])
    gain, one = np.maximum(weight, 0.0), np.isin(inputs.identities, ONE)
    net = np.maximum(np.append(weight[~one], weight[one].sum()), 0.0)  # per payee
    paid = gain.copy()
    paid[one] *= net[-1] / gain[one].sum()
    return AMOUNT * paid / net.sum()


def test_an_interval_is_students_t_times_the_jackknife_over_groups_of_validation_rows(
    policy, folder, tmp_path
):
    places = write(tmp_path, harmful(), validation(24))
    inputs = read_inputs(places, spec())
    group = validation_groups(inputs.validation_features, inputs.validation_label, 0)
    assert set(np.bincount(group)) == {1, 2}  # groups of unequal size count by their size
    everyone = paid_by_hand(inputs, policy, group >= 0)
    without = np.array([paid_by_hand(inputs, policy, group != g) for g in range(20)])
    error = np.sqrt(19 / 20 * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
    low = np.maximum(everyone - 2.093024 * error, 0.0)  # t with 19 degrees of freedom, 97.5 %
    high = everyone + 2.093024 * error
    said = {name: column(folder, name) for name in ("payment", "low", "high")}
    for i, name in enumerate(inputs.identities):
        assert float(100 * said["payment"][name]) == pytest.approx(everyone[i], abs=2)
        assert float(100 * said["low"][name]) == pytest.approx(low[i], abs=1e-6 * AMOUNT)
        assert float(100 * said["high"][name]) == pytest.approx(high[i], abs=1e-6 * AMOUNT)
    assert (low > 0).any()
    assert (said["payment"]["seller 2"] == 0) == (policy == CARRIED)


def test_ends_are_rounded_outwards_and_never_below_zero(policy, folder, tmp_path):
    coarse = run(
        tmp_path, harmful(), validation(24), amount="37", currency="JPY", **policy, **LINKED
    )  # whole yen, and few of them
    scale = Decimal(37) / Decimal(FINE["amount"])
    for name, low in column(folder, "low").items():
        high = column(folder, "high")[name]
        assert column(coarse, "low")[name] == math.floor(low * scale) >= 0
        assert column(coarse, "high")[name] == math.ceil(high * scale)
    assert 0 in column(folder, "low").values() or policy == COVERED


def test_where_scores_are_sampled_the_interval_is_that_of_the_sampling(tmp_path):
    found = run(tmp_path, harmful(), learner="ridge", **FINE)
    paid = payments(found)
    total = sum(row["score"] for row in paid.values())
    variance = dict.fromkeys(paid, 0.0)
    for row in pq.read_table(found / "clusters.parquet").to_pylist():
        variance[row["identity"]] += (row["share"] * row["score_error"] / total) ** 2
    assert all(variance.values())
    for name, row in paid.items():
        half = stats.norm.ppf(0.975) * math.sqrt(variance[name]) * AMOUNT
        assert 100 * float(row["high"]) - 100 * float(row["payment"]) == pytest.approx(half, rel=1e-4)
