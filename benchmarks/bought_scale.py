"""What a run keeps for later periods: how large the file is, and how long writing and reading take.

Usage: python benchmarks/bought_scale.py 100000
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from datamarket_gym.core.files import sha256
from datamarket_gym.payout.manifest import BOUGHT
from datamarket_gym.payout.prior.bought import BoughtUnits, KeptNames, shortest
from datamarket_gym.payout.prior.runs import PriorRun
from datamarket_gym.payout.prior.units import PriorUnits, UnitKind
from datamarket_gym.pipeline.records import write_record

WIDTH = 384


def write(folder: Path, n: int, kind: str) -> None:
    """Units whose numbers need this kind."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((n, WIDTH)).astype(kind).astype(np.float64)
    people = rng.integers(0, 100, n)
    started = time.perf_counter()
    kept = BoughtUnits(
        features=shortest(features),
        embedding=None,
        labels=np.arange(10),
        label=rng.integers(0, 10, n),
        unit=KeptNames.of(f"unit {i}" for i in range(n)),
        people=KeptNames.of(f"provider {i}" for i in range(100)),
        submitter=people,
        owner=people,
        root=np.arange(n),
        stands=np.arange(n),
        time=np.arange(n, dtype=np.float64),
        columns=KeptNames.of(()),
        encoder="",
    )
    write_record(folder / BOUGHT, kept)
    print(
        f"{kind}: written in {time.perf_counter() - started:.1f} s, {(folder / BOUGHT).stat().st_size / 1e6:.0f} MB"
    )


def read(folder: Path) -> None:
    """Read it as a later run does, in a process of its own, whose peak of memory is told."""
    before, started = _peak(), time.perf_counter()
    prior = PriorRun(folder, "0" * 64, sha256(folder / BOUGHT), "June", ())
    found = PriorUnits.read([prior], UnitKind(WIDTH, None, False, (), ""))
    print(
        f"  hashed and read in {time.perf_counter() - started:.1f} s; the peak of memory rises by "
        f"{_peak() - before:.0f} MB for {len(found):,} units, whose numbers stay in the file"
    )


def _peak() -> float:
    """The most memory that this process ever had, in MB, as Linux says (ru_maxrss begins with the parent's)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


def main() -> None:
    """Print a few lines for each kind of number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("units", type=int)
    parser.add_argument("--read", type=Path, help="only read the file in this folder")
    asked = parser.parse_args()
    if asked.read is not None:
        read(asked.read)
        return
    for kind in ("float16", "float32", "float64"):
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), asked.units, kind)
            sys.stdout.flush()
            subprocess.run([sys.executable, __file__, str(asked.units), "--read", folder], check=True)


if __name__ == "__main__":
    main()
