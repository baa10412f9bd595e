"""examples/spot_checks.py goes from the tables to an approved run, and the attacker in it is paid nothing."""

import subprocess
import sys
from pathlib import Path

import pytest
from payout_files import cents

from datamarket_gym.payout.ledger.runs import run_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "spot_checks.py"


@pytest.mark.slow
def test_the_example_ends_with_an_approved_run(tmp_path):
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--out", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "quick copy failed and is paid nothing" in " ".join(done.stdout.split())
    assert cents(tmp_path / "june")["quick copy"] > 0
    assert cents(tmp_path / "june-2")["quick copy"] == 0
    assert run_of(tmp_path / "june-2").state == "approved"
