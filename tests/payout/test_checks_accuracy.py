"""Checks of a payout run by accuracy: units below zero are never drawn, and raise kappa; nothing is claimed."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from checks_files import answered, drawn, paid
from payout_files import payments, units

from datamarket_gym.payout.checks.plan import PlanRequest, make_plan, paid_payees
from datamarket_gym.payout.checks.settle import settle
from datamarket_gym.payout.manifest import read_manifest


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of a seller's units every fifth has a wrong label, and lowers accuracy."""
    columns = units(n=160)
    wrong = [i for i, name in enumerate(columns["identity"]) if name == "seller 1"][::5]
    columns["label"][wrong] = (columns["label"][wrong] + 1) % 3
    return paid(tmp_path_factory.mktemp("accuracy"), columns, learner="knn")


def test_kappa_counts_what_units_below_zero_take_off(folder):
    earned = {}
    for row in pq.read_table(folder / "clusters.parquet").to_pylist():
        earned.setdefault(row["identity"], []).append(row["amount"])
    found = {p.name: p for p in paid_payees(folder, read_manifest(folder))}
    for name, payee in found.items():
        amount = np.array(earned[name])
        assert payee.kappa == pytest.approx(amount[amount > 0].sum() / amount.sum())
        assert len(payee.units) == (amount > 0).sum()
        assert payee.total == pytest.approx(float(payments(folder)[name]["entitled"]), abs=0.006)
    assert found["seller 1"].kappa > 1.02 > 1.0 == found["attacker"].kappa
    assert make_plan(folder, PlanRequest()).kappa == max(p.kappa for p in found.values())


def test_no_unit_below_zero_is_drawn_and_passing_is_no_claim(folder):
    found = drawn(folder, checks=60)
    below = {
        row["unit"]
        for row in pq.read_table(folder / "clusters.parquet").to_pylist()
        if row["amount"] <= 0
    }
    assert below
    assert not below & {draw.unit for draw in (*found.draws, *found.kept)}
    answered(folder)
    assert settle(folder).checked
    filed = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    assert (filed["claim"], filed["externality"]["known"]) == ("none", "unknown")
    assert filed["kappa"] == max(p.kappa for p in paid_payees(folder, read_manifest(folder)))
    assert "nothing bounds the externality" in filed["words"]
