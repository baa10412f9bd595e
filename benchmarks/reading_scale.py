"""What it takes to read, check and hash units of 384 float16 from Parquet: processor seconds and peak memory.

Every figure is of a process of its own; seconds are those of one core, the least of three, for a million units.

Usage: python benchmarks/reading_scale.py 100000
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq

from datamarket_gym.core.content import unit_keys
from datamarket_gym.payout.inputs import Inputs, read_inputs
from datamarket_gym.payout.intake.content import unit_digests
from datamarket_gym.payout.spec import checked_spec
from payout_scale import HELD, UNITS, apart, peak_gib, write

TIMES = 3


def read(folder: Path) -> Inputs:
    """All that a payday reads."""
    return read_inputs(folder / UNITS, folder / HELD, checked_spec({"amount": "1.00"}))


def seconds(work: Callable[[], object], n: int) -> float:
    """The least that some work took of a processor, for a million units where it was done for n."""
    took = []
    for _ in range(TIMES):
        used = time.process_time()
        work()
        took.append(time.process_time() - used)
    return min(took) * 1e6 / n


def measured(folder: Path, n: int) -> dict[str, float]:
    """Seconds of each step."""
    units = read(folder).submission
    rows = units.features[: min(n, 20_000)]
    raw, width = rows.data.cast("B"), rows.shape[1] * 8

    def bare(at: int = 0, step: int = 1) -> None:
        for i in range(at * width, len(rows) * width, step * width):
            hashlib.sha256(raw[i : i + width]).digest()

    def shared() -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(bare, (0, 1), (2, 2)))

    return {
        "reading and checking": seconds(lambda: read(folder), n),
        "content keys": seconds(lambda: unit_keys(units.features, units.label), n),
        "digests of the intake log": seconds(
            lambda: unit_digests("features", units.label, units.features), n
        ),
        "sha256 of float64 rows alone, by OpenSSL": seconds(bare, len(rows)),
        "the same by two threads": seconds(shared, len(rows)),
    }


def peak(folder: Path) -> float:
    """The most memory that reading and hashing held, in GiB."""
    peak_gib()
    found = read(folder)
    assert len(found.submission.keys) == len(found.ids)
    return peak_gib()


def main() -> None:
    """Write markets of two sizes and two ways to write them, and print a line for each figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("units", type=int)
    n = parser.parse_args().units
    sizes = (n // 5, n)
    with tempfile.TemporaryDirectory() as base:
        folders = [Path(base) / str(size) for size in sizes]
        for size, folder in zip(sizes, folders, strict=True):
            folder.mkdir()
            apart(lambda size, folder: write(folder, size, 1000, 1000, "float16") and 0, size, folder)
        peaks = [apart(peak, folder) for folder in folders]
        for size, held in zip(sizes, peaks, strict=True):
            sys.stdout.write(f"peak memory of reading and hashing {size:,} units: {held:.2f} GiB\n")
        grown = (peaks[1] - peaks[0]) * 2**30 / (sizes[1] - sizes[0])
        sys.stdout.write(f"memory for each unit more: {grown:,.0f} bytes\n")
        sys.stdout.write("processor seconds for a million units:\n")
        for what, took in apart(measured, folders[1], n).items():
            sys.stdout.write(f"{took:7.1f}  {what}\n")
        table = pq.read_table(folders[1] / UNITS)
        pq.write_table(table, folders[1] / UNITS)
        took = apart(lambda: seconds(lambda: read(folders[1]), n))
        sys.stdout.write(
            f"{took:7.1f}  reading and checking, with float16 in a dictionary (pyarrow's way)\n"
        )


if __name__ == "__main__":
    main()
