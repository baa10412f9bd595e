"""Warnings of what would decide later runs, and of vectors that no encoder made."""

import numpy as np
import pytest
from payout_files import payments, units, validation
from payout_files import run_by_accuracy as run
from test_claims import attacked

from datamarket_gym.payout.warnings import read_warnings


def found(folder):
    return {warning.name: warning for warning in read_warnings(folder)}


def unit_length(columns):
    lengths = np.linalg.norm(columns["features"], axis=1, keepdims=True)
    return {**columns, "features": columns["features"] / lengths}


def test_units_of_another_length_are_told_with_whose_they_are(tmp_path):
    """Directions are the same, so evidence sees nothing; what is paid is not the same."""
    columns, held = unit_length(units(copies=0)), unit_length(validation())
    plain = run(tmp_path / "plain", columns, held)
    assert "odd_lengths" not in found(plain)
    mine = np.array([name == "seller 0" for name in columns["identity"]])
    shorter = {**columns, "features": columns["features"] * np.where(mine, 0.4, 1.0)[:, None]}
    shrunk = run(tmp_path / "shrunk", shorter, held)
    warning = found(shrunk)["odd_lengths"]
    assert warning.count == mine.sum()
    assert warning.items == (f"“seller 0”: {mine.sum()} units, in the median 0.4 long",)
    assert payments(shrunk) != payments(plain)


def test_lengths_within_those_of_the_validation_rows_and_a_stray_unit_are_not_told(tmp_path):
    columns = units(n=120, copies=0)
    assert "odd_lengths" not in found(run(tmp_path / "spread", columns))
    columns["features"][7] *= 1e-3
    assert "odd_lengths" not in found(run(tmp_path / "stray", columns))


@pytest.mark.parametrize(("policy", "told"), [("carry", True), ("zero", False)])
def test_balances_that_would_rule_the_next_run_are_told(policy, told, tmp_path):
    """A name that is not seen again submits mislabelled units: everybody else is owed more than the amount."""
    folder = run(tmp_path, attacked(mislabelled=44), negative=policy)
    assert ("large_balances" in found(folder)) == told
    if told:
        warning = found(folder)["large_balances"]
        assert warning.items[0].startswith("“attacker 0”: EUR -")


def test_small_balances_are_not_told(tmp_path):
    assert "large_balances" not in found(run(tmp_path, attacked(mislabelled=4)))
