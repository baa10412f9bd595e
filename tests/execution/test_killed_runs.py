"""kill -9 in the middle of an experiment in several processes: the next run ends with the same numbers."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from comparing import require_same_rows
from datamarket_gym.errors import DataMarketError
from datamarket_gym.experiments import parse_spec, run_experiment

SPEC = """
name = "small"
title = "A small experiment of many cells"
seeds = 30
tasks = [{ task = "synthetic(n_providers=4, per_provider=20, validation=60)" }]
utilities = [{ learner = "knn(k=3, vote=majority)", empty = "none" }]
attacks = ["honest", "sybil_split_k@2", "near_duplicate_2x_sybils"]

[[mechanisms]]
name = "shapley"
"""
COMMAND = [sys.executable, "-c", "from datamarket_gym.cli import main; main()", "run", "small.toml"]


def descendants(pid):
    """Processes that a process started, and those that they did."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:  # gone meanwhile
            continue
        if parent == pid:
            child = int(path.parent.name)
            found += [child, *descendants(child)]
    return found


def alive(pids):
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_killed_in_the_middle_with_processes_it_resumes_to_the_same_numbers(tmp_path):
    (tmp_path / "small.toml").write_text(SPEC)
    spec, killed = parse_spec(SPEC, "small.toml"), tmp_path / "killed"
    run_experiment(spec, tmp_path / "calm")
    process = subprocess.Popen(
        [*COMMAND, "--jobs", "2", "--out", "killed"], cwd=tmp_path, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while process.poll() is None and len(list((killed / "cells").glob("cell-*"))) < 3:
        time.sleep(0.005)
    with pytest.raises(DataMarketError, match="another experiment is at work"):
        run_experiment(spec, killed)
    workers = descendants(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, process.stderr.read()
    process.stderr.close()
    assert len(workers) >= 2
    assert not (killed / "manifest.json").exists()
    assert 3 <= len(list((killed / "cells").glob("cell-*"))) < 30
    run_experiment(spec, killed)  # here: processes of its own would have to begin again
    require_same_rows(killed / "results.parquet", tmp_path / "calm" / "results.parquet")
    assert (killed / "table.md").read_text() == (tmp_path / "calm" / "table.md").read_text()
    assert not (killed / ".state").exists()
    assert not (killed / ".lock").exists()
    deadline = time.monotonic() + 60
    while alive(workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert alive(workers) == []  # they went with their parent
