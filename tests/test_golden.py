"""Payments of 0.2 that must not move by accident: some of all, where the folder of golden payments is there."""

import json
import warnings
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from datamarket_gym import GroundTruth, Mechanism, Utility, UtilityOracle, read_submission
from datamarket_gym.cli.app import app

GOLDEN = Path(__file__).parents[2] / "shared" / "golden"
STEP = 32  # of 504 entries; `python ../shared/golden/check.py ../shared/golden` compares all of them

pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason="no golden payments beside the repository")


def entries(name):
    return json.loads((GOLDEN / name).read_text()) if GOLDEN.is_dir() else []


@pytest.mark.parametrize("part", range(2))
def test_payments_are_those_of_0_2(part):
    warnings.simplefilter("ignore")
    for entry in entries("expected.json")[part * STEP // 2 :: STEP]:
        table, held = (
            pq.read_table(GOLDEN / entry["market"]),
            pq.read_table(GOLDEN / entry["validation"]),
        )
        truth = GroundTruth(
            *(np.array(table[name].to_pylist()) for name in ("id", "true_owner", "true_source")),
            entry["controller"],
        )
        oracle = UtilityOracle(
            np.array(held["features"].to_pylist()), np.array(held["label"].to_pylist()),
            Utility(entry["utility"], entry["empty"]),
        )  # fmt: skip
        paid = (
            Mechanism(**entry["spec"])
            .pay(read_submission(GOLDEN / entry["market"]), oracle, truth)
            .as_dict()
        )
        assert paid.keys() == entry["payments"].keys()
        for name, amount in entry["payments"].items():
            assert paid[name] == pytest.approx(amount, abs=1e-9), (
                entry["market"],
                entry["mechanism"],
                name,
            )


@pytest.mark.parametrize("place", range(0, 12, 3))
def test_payout_runs_are_those_of_0_2_to_the_cent(place, tmp_path):
    entry = entries("paydays.json")[place]
    asked = entry["settings"]
    command = [
        "pay", str(GOLDEN / entry["market"]), "--validation", str(GOLDEN / entry["validation"]),
        "--out", str(tmp_path / "run"), "--amount", asked["amount"], "--currency", asked["currency"],
        "--utility", asked["utility"], "--theta", str(asked["theta"]), "--checks", str(asked["checks"]),
        "--negative", asked["negative"], "--no-audit",
    ]  # fmt: skip
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    paid = pq.read_table(tmp_path / "run" / "payments.parquet").to_pylist()
    assert {row["identity"]: row["payment"] for row in paid} == entry["payments"]
