"""A disk that is full is an error that names the file, leaves what was there, and is gone on from."""

import errno
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from payout_files import cents, spec, write

from datamarket_gym.errors import DataMarketError, RunError
from datamarket_gym.execution.files import FULL, replacing, room_for, write_text
from datamarket_gym.execution.runs import Format, open_run
from datamarket_gym.payout.run import pay

TEXT = Format(".txt", lambda path, text: path.write_text(text), lambda path: path.read_text())


@contextmanager
def small_disk(folder, kilobytes):
    """A file system of that size in a folder; skipped where this process may not make one."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)],
        capture_output=True, text=True, check=False,
    ) if sys.platform == "linux" else None  # fmt: skip
    if mounted is None or mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr if mounted else sys.platform}")
    try:
        yield folder
    finally:
        _unmount(folder)


def _unmount(folder, seconds=20.0):
    """Take a file system away; another process that walks through the folder keeps it for a moment."""
    until = time.monotonic() + seconds
    while (done := subprocess.run(["umount", str(folder)], capture_output=True, text=True)).returncode:
        if time.monotonic() > until:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)  # nothing stays behind
            mine = [os.readlink(f) for f in Path("/proc/self/fd").iterdir() if f.is_symlink()]
            pytest.fail(f"{done.stderr}; open here: {[name for name in mine if str(folder) in name]}")
        time.sleep(0.1)


def as_array(part):
    with part.open("wb") as file:
        np.save(file, np.zeros(100_000))


def as_parquet(part):
    pq.write_table(pa.table({"a": np.random.default_rng(0).normal(size=50_000)}), part)


def as_text(part):
    part.write_text("x" * 100_000)


@pytest.mark.parametrize("writes", [as_array, as_parquet, as_text])
def test_a_real_full_disk_names_the_file_and_keeps_the_old_one(writes, tmp_path):
    def work(path):
        with replacing(path) as part:
            writes(part)

    with small_disk(tmp_path / "disk", 64) as disk:
        write_text(disk / "a.out", "before")
        with pytest.raises(
            RunError, match=r"a\.out' cannot be written: there is no room left.*the same command again"
        ):
            work(disk / "a.out")
        assert (disk / "a.out").read_text() == "before"
        assert os.listdir(disk) == ["a.out"]


def test_a_run_goes_on_where_the_disk_was_full(tmp_path):
    with small_disk(tmp_path / "disk", 128) as disk:
        ballast = disk / "ballast"
        made = []

        def step(name, size):
            made.append(name)
            return name * size

        def work():
            with open_run(disk / "run", "key", "run", "1") as run:
                run.output("first.txt", TEXT, lambda: step("a", 100))
                run.output("second.txt", TEXT, lambda: step("b", 60_000))
                write_text(disk / "run" / "manifest.json", "{}")

        ballast.write_bytes(bytes(80_000))
        with pytest.raises(RunError, match=r"second\.txt' cannot be written: there is no room left"):
            work()
        ballast.unlink()
        work()
        assert made == ["a", "b", "b"]
        assert (disk / "run" / "second.txt").read_text() == "b" * 60_000


def test_a_payout_run_on_a_full_disk_ends_in_one_line_and_goes_on(tmp_path):
    places = write(tmp_path / "in")
    with small_disk(tmp_path / "disk", 16_384) as disk:
        for free in (0, 8, 40, 96):
            (disk / "ballast").write_bytes(bytes((16_384 - free) * 1024))
            with pytest.raises(RunError, match=r"cannot be written: there is no room left"):
                pay(places, spec(), disk / f"run{free}")
            (disk / "ballast").unlink()
        for free in (0, 96):
            pay(places, spec(), disk / f"run{free}")
        assert cents(disk / "run0") == cents(disk / "run96")


def test_a_ledger_that_was_begun_on_a_full_disk_is_begun_again(tmp_path):
    places = write(tmp_path / "in")
    with small_disk(tmp_path / "disk", 256) as disk:
        (disk / "ballast").write_bytes(bytes(256 * 1024))
        with pytest.raises(DataMarketError, match=r"ledger\.sqlite"):
            pay(places, spec(), tmp_path / "run", ledger=str(disk / "ledger.sqlite"))
        (disk / "ballast").unlink()
        assert pay(places, spec(), tmp_path / "run", ledger=str(disk / "ledger.sqlite"))["run"]


@pytest.mark.parametrize("number", FULL)
def test_every_way_of_being_full_is_known(number):
    with (
        pytest.raises(RunError, match=r"'x' cannot be written: there is no room left"),
        room_for(Path("x")),
    ):
        raise OSError(number, os.strerror(number))


def test_other_errors_stay_what_they_are():
    with pytest.raises(PermissionError), room_for(Path("x")):
        raise PermissionError(errno.EACCES, "no")
