"""kill -9 at any moment: the next run resumes and ends with the same bytes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def disturbed(folder, audit, seed):
    done = subprocess.run(
        [sys.executable, str(HERE / "kill_driver.py"), str(folder), audit, str(seed)],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                [str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
            ),
            "OPENBLAS_NUM_THREADS": "1",
        },
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(seen):
    assert seen["kills"] >= 20
    assert seen["different"] == []
    assert all(state == ["draft", True, ["opened", "draft"]] for state in seen["states"])


def test_killed_at_twenty_random_moments_and_at_every_rename(tmp_path):
    seen = disturbed(tmp_path, "plain", 11)
    check(seen)
    assert (
        seen["renames"] > 30
    )  # before and after each of a dozen files, of the checksum and of the receipt


@pytest.mark.slow
def test_killed_with_the_red_team_at_work(tmp_path):
    check(disturbed(tmp_path, "audit", 12))
