"""A payout_run by k-NN of the nearest units alone: paid, with intervals that hold what exact scores would pay."""

import json

import numpy as np
import pytest
from payout_files import bare, payments, run, units, validation

from datamarket_gym.errors import DataMarketError
from datamarket_gym.mechanism.allocation import Shares
from datamarket_gym.mechanism.quotient_game import Scores
from datamarket_gym.payout import results as results_module
from datamarket_gym.payout.money import (
    PayRule,
    moved_at_most,
)


def test_it_is_paid_and_its_intervals_hold_the_exact_payments(tmp_path, monkeypatch):
    exact = payments(run(tmp_path / "exact", units(), validation(), learner="knn(k=3)", theta="none"))
    # What is left of the intervals is the truncation alone.
    monkeypatch.setattr(
        results_module, "standard_errors", lambda payer, scores: np.zeros(len(payer.payee))
    )
    folder = run(
        tmp_path / "cut", units(), validation(), learner="knn_truncated(k=3, nearest=40)", theta="none"
    )
    found = payments(folder)
    assert {name: row["payment"] for name, row in found.items()} != {
        name: row["payment"] for name, row in exact.items()
    }
    for name, row in found.items():
        assert float(row["low"]) <= float(exact[name]["payment"]) <= float(row["high"]) <= 1000.0, name
    said = "closed form of the nearest 40 (each score within"
    assert said in json.dumps(json.loads((folder / "manifest.json").read_text()))
    report = (folder / "report.html").read_text()
    assert "wider by what a payment can have moved at most because scores are truncated: " in report


def test_where_nobody_is_worth_anything_the_error_says_that_scores_are_truncated(tmp_path):
    sold = units()
    wrong = bare(sold, (np.asarray(sold["label"]) + 1) % 3)
    with pytest.raises(
        DataMarketError, match=r"truncated scores say \(closed form of the nearest 10 \("
    ):
        run(tmp_path, wrong, validation(), learner="knn_truncated(k=3, nearest=10)")


def test_however_few_are_looked_at_somebody_is_paid(tmp_path):
    """Rows beyond the nearest are worth their mean, so that scores sum to what the exact ones do."""
    folder = run(tmp_path, units(), validation(), learner="knn_truncated(k=3, nearest=10)")
    assert sum(float(row["payment"]) for row in payments(folder).values()) == pytest.approx(1000.0)


@pytest.mark.parametrize("floor", [False, True])
@pytest.mark.parametrize("bias", [0.0, 0.002, 0.02, 3.0])
def test_no_error_within_the_bias_moves_a_payment_further(bias, floor):
    rng = np.random.default_rng(0)
    n, clusters = 5, 30
    cluster, identity = np.arange(clusters), rng.integers(0, n, clusters)
    shares = Shares(cluster, identity, np.ones(clusters))
    values = rng.normal(0.03, 0.02, clusters)
    payer = PayRule(
        shares, np.array([0, 1, 1, 2, 3, 4]), n, 10_000, floor, np.array([0.0, -50, 20, 0, 0, 70]),
        np.array([False, False, False, True, False, False]),
    )  # fmt: skip

    def scores(values):
        return Scores(
            values, np.zeros(clusters), 0, "closed form", None, 1.0, bias, True, number=cluster, grand_value=1.0,
            by_group=np.empty((0, clusters)), group_size=np.empty(0, dtype=np.int64),
        )  # fmt: skip

    most, paid = moved_at_most(payer, scores(values)), payer.paid(values)
    assert (most <= payer.amount).all()
    for _ in range(300):
        off = np.abs(payer.paid(values + bias * rng.choice([-1.0, 1.0], clusters)) - paid)
        assert (off <= most + 1e-9).all()
    if bias == 0.002:
        assert most.max() < 0.3 * payer.amount  # it says something
