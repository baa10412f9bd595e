"""What it costs to add 1 % to a market, against paying the whole market: late units, and the next period.

Each run is a command in a process of its own, from its start to its end. Printed of each: the seconds that it had of a
processor and by the clock, and the share of the full run that it took.

- ``full``: all units.
- ``late``: 1 % of units come in late, and everything is paid again, with ``--reuse`` of the first run. It must have the
  same bytes as without.
- ``next``: the 1 % are the next period's, priced given the first run (``--prior``).

Once with the red team, which attacks a sample of the same size whatever the market's, and once without.

Usage: python benchmarks/incremental.py 100000 --identities 1000 --validation 1000
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datamarket_gym.core.files import sha256
from datamarket_gym.core.machine import machine
from datamarket_gym.payout.book.place import book_of, run_of
from datamarket_gym.payout.book.runs import approve
from datamarket_gym.payout.book.warned import book_warnings
from datamarket_gym.payout.warnings import read_warnings
from payout_scale import DIMENSIONS, TOPICS, draw, lists, spectrum

COMMAND = [sys.executable, "-W", "ignore", "-c", "from datamarket_gym.cli import main; main()"]


@dataclass(frozen=True)
class Cost:
    """Seconds of a processor and by the clock."""

    cpu: float
    wall: float

    def line(self, name: str, full: Cost) -> str:
        """A line of the table."""
        shares = f"{self.cpu / full.cpu:10.1%}{self.wall / full.wall:10.1%}"
        return f"{name:34}{self.cpu:10.1f}{self.wall:10.1f}{shares}"


def write(folder: Path, n: int, identities: int, validation: int) -> None:
    """Units, 1 % more, both together, and validation rows; every tenth unit is a noisy copy of an earlier one."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(TOPICS, DIMENSIONS)) * spectrum()
    more = max(n // 100, 1)
    vectors, label = draw(rng, n + more, centres)
    copies = np.sort(rng.choice(np.arange(n // 2, n + more), (n + more) // 10, replace=False))
    source = rng.integers(0, n // 2, len(copies))
    vectors[copies] = vectors[source] + rng.normal(0, 0.01, (len(copies), DIMENSIONS))
    label[copies] = label[source]
    owner = rng.integers(0, identities, n + more)
    for name, rows in (("first", slice(0, n)), ("more", slice(n, None)), ("both", slice(None))):
        place = np.arange(n + more)[rows]
        columns = {
            "id": [f"unit {i}" for i in place],
            "identity": [f"provider {i}" for i in owner[rows]],
            "label": label[rows],
            "time": 1.7e9 + place.astype(np.float64),
            "features": lists(vectors[rows]),
        }
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    held, held_label = draw(rng, validation, centres)
    pq.write_table(
        pa.table({"label": held_label, "features": lists(held)}), folder / "validation.parquet"
    )


def paid(folder: Path, units: str, run: str, *more: str) -> Cost:
    """Pay units by the command line, and what that cost; each run has a book of its own unless it is given one."""
    words = [
        "pay", str(folder / f"{units}.parquet"), "--validation", str(folder / "validation.parquet"), "--id", "id",
        "--time", "time", "--amount", "10000.00", "--checks", "0", "--out", str(folder / run),
        *(more if "--ledger" in more else (*more, "--ledger", str(folder / f"{run}.sqlite"))),
    ]  # fmt: skip
    started = time.perf_counter()
    child = subprocess.Popen([*COMMAND, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert child.stderr is not None
    said = child.stderr.read().decode()
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"a run has failed:\n{said}")
    return Cost(used.ru_utime + used.ru_stime, time.perf_counter() - started)


def approved(folder: Path) -> None:
    """Approve a run, whatever its warnings say."""
    accounts = book_of(folder).accounts()
    found = [*read_warnings(folder), *book_warnings(accounts, run_of(folder, accounts))]
    approve(folder, sha256(folder / "manifest.json"), "benchmark", [each.name for each in found])


def outputs(folder: Path) -> dict[str, str]:
    """The hash of every file that follows from the inputs."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return {name: said["sha256"] for name, said in manifest["outputs"].items()}


def main() -> None:
    """Make the tables, pay, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("units", type=int)
    parser.add_argument("--identities", type=int, default=1000)
    parser.add_argument("--validation", type=int, default=1000)
    chosen = parser.parse_args()
    print(f"{chosen.units:,} units and 1 % more, {DIMENSIONS} numbers each; {machine()}")
    print(f"{'':34}{'cpu s':>10}{'wall s':>10}{'of cpu':>10}{'of wall':>10}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, chosen.units, chosen.identities, chosen.validation)
        first = str(folder / "first")
        june = ("--prior", first, "--ledger", str(folder / "first.sqlite"))
        full = paid(folder, "first", "first")
        print(full.line("full", full), flush=True)
        approved(folder / "first")
        print(
            paid(folder, "both", "late", "--reuse", first).line("late, with --reuse", full), flush=True
        )
        print(paid(folder, "more", "next", *june).line("next period, with --prior", full), flush=True)
        plain = paid(folder, "both", "both", "--no-audit")
        print(plain.line("full, no red team", plain), flush=True)
        again = paid(folder, "both", "again", "--no-audit", "--reuse", first)
        print(again.line("late, with --reuse, no red team", plain), flush=True)
        after = paid(folder, "more", "after", "--no-audit", *june)
        print(after.line("next, with --prior, no red team", plain), flush=True)
        same = outputs(folder / "both") == outputs(folder / "again")
        print(f"late, with --reuse and without: {'the same bytes' if same else 'OTHER BYTES'}")


if __name__ == "__main__":
    main()
