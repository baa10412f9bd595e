"""What evidence compares: the embedding, or what the utility compares of the features, wherever money is divided."""

import dataclasses

import numpy as np
import pytest

from datamarket_gym import Submission, Utility, UtilityOracle, get_mechanism, registry, utility
from datamarket_gym.analysis.redteam.attack_grid import honest_profile
from datamarket_gym.analysis.theorems.fairness import fairness_bound
from datamarket_gym.analysis.theorems.paid_profile import Paid, require_from_submission
from datamarket_gym.evidence.threshold import with_compared_vectors
from datamarket_gym.mechanism.pipeline import match_units, resolve_threshold
from datamarket_gym.utilities.oracle import ReferenceRows

IN_UNITS = np.array([1.0, 0.1, 5.0, 0.01, 1.0, 2.0, 0.3, 700.0])
"""A table's columns: the last in other units, on top of a large mean, so that raw cosines are all near 1."""


def blobs(n, seed):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, n)
    rows = rng.normal(size=(n, 8)) + 1.5 * np.eye(2, 8)[label]
    return rows, label


def as_table(rows):
    return (rows + 4.0) * IN_UNITS


def submitted(rows, label, copied, noise=0.003):
    """Units of five sellers, and an attacker's later copies of some, under noise in spreads of each column."""
    spread = rows.std(axis=0)
    copies = rows[copied] + noise * spread * np.random.default_rng(9).normal(size=rows[copied].shape)
    n, k = len(rows), len(copied)
    return Submission(
        id=np.array([f"u{i:03d}" for i in range(n + k)]),
        identity=np.array([*(f"seller {i % 5}" for i in range(n)), *["attacker"] * k]),
        features=np.r_[rows, copies],
        label=np.r_[label, label[copied]],
        time=np.arange(n + k, dtype=np.float64),
    )


HELD, HELD_LABEL = blobs(120, 1)
ROWS, LABEL = blobs(100, 2)
COPIED = np.arange(0, 100, 5)
TABLE = submitted(as_table(ROWS), LABEL, COPIED)


def table_oracle(learner="coverage", **changes):
    return UtilityOracle(as_table(HELD), HELD_LABEL, Utility.paying(learner), **changes)


def test_a_attacker_of_a_table_is_paid_nothing():
    paid = get_mechanism("recommended").pay(TABLE, table_oracle())
    assert paid.as_dict()["attacker"] == 0.0
    assert paid.threshold.theta < 0.999


@pytest.mark.parametrize("learner", ["coverage", "recommended"])
def test_a_table_is_tied_and_settled_as_its_standardised_features_are(learner):
    scaled = [(x - as_table(HELD).mean(axis=0)) / as_table(HELD).std(axis=0) for x in
              (TABLE.features, as_table(HELD))]  # fmt: skip
    oracle = UtilityOracle(scaled[1], HELD_LABEL, Utility.paying(learner))
    plain = get_mechanism("recommended").pay(dataclasses.replace(TABLE, features=scaled[0]), oracle)
    paid = get_mechanism("recommended").pay(TABLE, table_oracle(learner))
    assert (paid.clustering.label == plain.clustering.label).all()
    assert paid.threshold.theta == plain.threshold.theta
    np.testing.assert_allclose(paid.totals, plain.totals, rtol=0, atol=1e-9)


def test_reference_rows_are_compared_alike():
    more, label = blobs(150, 3)
    reference = ReferenceRows(as_table(more), label)
    found = resolve_threshold(get_mechanism("recommended"), TABLE, table_oracle(reference=reference))[1]
    assert found.measured_on == "reference"
    assert found.cost is not None
    assert found.theta < 0.999


def test_validation_rows_under_noise_are_leaks_of_a_table():
    held = as_table(HELD)
    copies = held[:10] + 0.05 * held.std(axis=0) * np.random.default_rng(5).normal(size=(10, 8))
    known = submitted(np.r_[TABLE.features, copies], np.r_[TABLE.label, HELD_LABEL[:10]], [0])
    rule = get_mechanism("recommended")
    with pytest.warns(match="validation rows"):
        leaks = rule.pay(known, table_oracle()).leaks
    assert set(range(len(TABLE), len(TABLE) + 10)) <= set(leaks.unit.tolist())


def test_payments_hold_the_units_as_they_were_submitted():
    paid = get_mechanism("recommended").pay(TABLE, table_oracle())
    assert paid.clustering.submission.embedding is None
    assert (paid.clustering.submission.features == TABLE.features).all()


def test_guarantees_see_the_same_ties():
    oracle, rule, profile = table_oracle(), get_mechanism("recommended"), honest_profile(TABLE)
    require_from_submission(Paid.by(rule, profile, oracle), rule)  # or an error
    small = honest_profile(submitted(as_table(ROWS[:20]), LABEL[:20], np.arange(4)))
    tied, apart = (
        fairness_bound(small, m, oracle, samples=8)
        for m in (rule, get_mechanism("recommended/lineage@none"))
    )
    assert tied != apart


@pytest.mark.parametrize("learner", ["knn", "coverage(similarity=cosine)"])
def test_what_is_not_standardised_is_compared_as_it_is(learner):
    oracle = table_oracle(learner)
    assert with_compared_vectors(TABLE, oracle) == (TABLE, oracle)


def test_embeddings_and_features_of_encoders_are_compared_as_they_are():
    oracle = UtilityOracle(HELD, HELD_LABEL, Utility.paying())
    plain = submitted(ROWS, LABEL, COPIED)
    assert with_compared_vectors(plain, oracle) == (plain, oracle)
    brought = dataclasses.replace(TABLE, embedding=TABLE.features[:, :3])
    oracle = table_oracle(embedding=as_table(HELD)[:, :3])
    assert with_compared_vectors(brought, oracle) == (brought, oracle)


def offset_table(rows):
    """Columns of like spreads, far from zero: blood pressure, cholesterol, a temperature in kelvin."""
    return rows + 40.0


@pytest.mark.parametrize("learner", ["coverage(labels=False)", "knn_regression", "ridge_regression"])
@pytest.mark.parametrize("written", [as_table, offset_table])
def test_near_copies_of_a_table_are_tied_whatever_is_paid_for(learner, written):
    number = ROWS[:, 0] + 0.1 * np.arange(len(ROWS))
    units = submitted(written(ROWS), number, COPIED)
    oracle = UtilityOracle(written(HELD), HELD[:, 0], Utility.paying(learner))
    found = match_units(
        resolve_threshold(get_mechanism("recommended"), units, oracle)[0], units, utility=oracle
    )
    thiefs = units.identity == "attacker"
    roots = [np.flatnonzero(found.label == each)[0] for each in found.label[thiefs]]
    assert (units.identity[roots] != "attacker").all()


def test_a_utility_of_ones_own_has_evidence_compare_as_coverage_does(monkeypatch):
    monkeypatch.setitem(registry._components, "learner", dict(registry._components["learner"]))

    @utility("first_column", target="none")
    def first(train, validation):
        return float(train.features[:, 0].mean())

    seen = with_compared_vectors(TABLE, table_oracle("first_column"))[0].vectors
    assert (seen == with_compared_vectors(TABLE, table_oracle())[0].vectors).all()
