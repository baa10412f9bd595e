"""kill -9 while batches arrive: a batch is in the log with all of its digests, or not at all, and never twice."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def disturbed(where, seed, kills):
    paths = [str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, str(HERE / "intake_kill_driver.py"), where, str(seed), str(kills)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_killed_at_random_moments_and_at_renames(where):
    kills = 6 if "://" in where else 10  # a server takes longer, and has no files to be renamed
    seen = disturbed(where, 1, kills)
    assert seen["kills"] >= kills
    assert seen["kept"] > kills // 4
    assert seen["again"] > kills // 4
    if "://" not in where:
        assert seen["kills"] >= 14


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_killed_at_many_random_moments(where, seed):
    assert disturbed(where, seed, 120)["kills"] >= 120
