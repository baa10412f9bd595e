"""kill -9 while checks are planned, drawn, recorded or settled: nothing is lost, nothing is drawn twice."""

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_killed_before_and_after_every_rename_and_commit(tmp_path):
    done = subprocess.run(
        [sys.executable, str(HERE / "checks_kill_driver.py"), str(tmp_path)],
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
    seen = json.loads(done.stdout)
    assert seen["different"] == []
    assert seen["kills"] >= 40
    least = {"plan": 4, "draw": 8, "record": 4, "settle": 4, "again": 40}
    assert {name: count for name, count in seen["moments"].items() if count < least[name]} == {}
    assert set(seen["moments"]) == set(least)
