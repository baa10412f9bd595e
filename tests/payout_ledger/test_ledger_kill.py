"""kill -9 at any moment, of whoever writes and of the server: all of a step is in the ledger, or nothing of it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from endless_work import begun, done_by_now, modelled, next_step, work

HERE = Path(__file__).parent


def disturbed(where, folder, seed, kills):
    done = subprocess.run(
        [sys.executable, str(HERE / "ledger_kill_driver.py"), where, str(folder), str(seed), str(kills)],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")]),
        },
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_work_is_the_models(where, tmp_path):
    work(where, tmp_path / "runs", 0, tmp_path / "log", 22)
    assert done_by_now(where, 21) == 22
    with pytest.raises(AssertionError, match="a part of it"):
        done_by_now(where, 19)
    modelled(200).require_whole()


def test_killed_at_random_moments_and_at_renames(where, tmp_path):
    kills = 8 if "://" in where else 16  # a server takes longer, and has no files to be renamed
    seen = disturbed(where, tmp_path / "work", 1, kills)
    assert seen["kills"] >= kills
    assert seen["not there"] > 0
    assert seen["steps"] > 10
    if "://" not in where:  # after the commit and before the checksum, at least, the step is there
        assert seen["kills"] >= 26
        assert seen["there"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_killed_at_many_random_moments(where, tmp_path, seed):
    assert disturbed(where, tmp_path / "work", seed, 150)["kills"] >= 150


def test_the_server_is_killed(postgres, postgres_ledger, tmp_path):
    log = tmp_path / "log"
    program = (
        "import sys; from endless_work import work; work(*sys.argv[1:3], int(sys.argv[3]), sys.argv[4])"
    )
    worker = subprocess.Popen(
        [sys.executable, "-c", program, postgres_ledger, tmp_path / "runs", "0", log],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                [str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
            ),
        },
        stderr=subprocess.PIPE,
        text=True,
    )
    while not log.exists():
        assert worker.poll() is None, worker.stderr.read()
        time.sleep(0.01)
    time.sleep(0.2)
    postgres.kill()
    said = worker.communicate(timeout=60)[1]
    assert worker.returncode == 1
    assert "LedgerError" in said.splitlines()[-1]  # an error of ours, not the driver's
    assert postgres.password not in said
    postgres.start()  # what was committed is there
    start = next_step(postgres_ledger, begun(log, 0))
    log.unlink()
    work(postgres_ledger, tmp_path / "runs", start, log, start + 5)
    assert done_by_now(postgres_ledger, start + 4) == start + 5
