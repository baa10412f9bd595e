"""carried.csv: units of payees who were too small to be checked, and so were not paid, to be handed in again.

A balance would be paid later without a look at the units that it came from, so that many small names could earn up to
the limit each, in each run, and never be drawn. Units that are handed in again are drawn from with all others of
their payee in the run that pays for them.
"""

from __future__ import annotations

from pathlib import Path

from datamarket_gym.core.files import write_text
from datamarket_gym.payout.manifest import read_manifest, settled_by
from datamarket_gym.payout.names import csv_text

FILE = "carried.csv"


def carried_text(run: Path) -> str:
    """The units that earned something for payees who were neither checked nor paid; empty where there are none."""
    import pyarrow.parquet as pq

    settles = settled_by(read_manifest(run))
    waiting = frozenset() if settles is None else frozenset(settles.carried)
    if not waiting:
        return ""
    table = pq.read_table(run / "clusters.parquet", columns=["unit", "identity", "row", "amount"])
    rows = sorted(table.to_pylist(), key=lambda row: row["row"])
    waits = [
        (row["unit"], row["identity"])
        for row in rows
        if row["identity"] in waiting and row["amount"] > 0
    ]
    return csv_text(["unit", "identity"], waits)


def write_carried(run: Path) -> None:
    """Write the list into the run's folder, if anybody is on it."""
    if text := carried_text(run):
        write_text(run / FILE, text)
