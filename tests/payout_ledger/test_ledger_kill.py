"""kill -9 at any moment, of whoever writes and of the server: all of a step is in the ledger, or nothing of it."""

import json
import os
import random
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


def test_killed_at_twenty_random_moments_and_at_renames(where, tmp_path):
    seen = disturbed(where, tmp_path / "work", 1, 20)
    assert seen["kills"] >= 20
    assert seen["not there"] > 0
    assert seen["steps"] > 12
    if "://" not in where:  # after the commit and before the checksum, at least, the step is there
        assert seen["kills"] >= 30
        assert seen["there"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_killed_at_many_random_moments(where, tmp_path, seed):
    assert disturbed(where, tmp_path / "work", seed, 150)["kills"] >= 150


def test_the_server_is_killed(postgres, postgres_ledger, tmp_path):
    draw, start, log = random.Random(3), 0, tmp_path / "log"
    program = (
        "import sys; from endless_work import work; work(*sys.argv[1:3], int(sys.argv[3]), sys.argv[4])"
    )
    for _ in range(2):
        worker = subprocess.Popen(
            [sys.executable, "-c", program, postgres_ledger, tmp_path / "runs", str(start), log],
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
        time.sleep(draw.uniform(0, 0.4))
        postgres.kill()
        said = worker.communicate(timeout=60)[1]
        assert worker.returncode == 1
        assert "LedgerError" in said.splitlines()[-1]  # an error of ours, not the driver's
        assert postgres.password not in said
        postgres.start()
        start = next_step(postgres_ledger, begun(log, start))
        log.unlink()
    work(postgres_ledger, tmp_path / "runs", start, log, start + 5)
    assert done_by_now(postgres_ledger, start + 4) == start + 5
