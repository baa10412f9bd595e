"""The payout run: validate, evidence, clusters, scores, money, files, ledger; killed, it resumes.

The stages leave their records in ``RUN/records`` (written aside, renamed when whole); everything else
is a quick function of them and of the inputs. A killed run loses the stage it was in; the next one
with the same inputs takes up what is there and ends with the same bytes. Inputs and settings are part
of the run's id: a folder that holds another run is refused, and an approved one is never written to.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.files import claimed, read_json, remove_leftovers, sha256, write_json
from datamarket_gym.payout import ledger
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import read_manifest, write_manifest
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.outputs import write_tables
from datamarket_gym.payout.overrides import Override
from datamarket_gym.payout.page import write_report
from datamarket_gym.payout.red_team import run_red_team
from datamarket_gym.payout.spec import PayoutSpec
from datamarket_gym.payout.stages import Payday, Places, Progress, Work


def pay(places: Places, spec: PayoutSpec, out: Path, progress: Progress | None = None) -> dict[str, Any]:
    """Run, or resume, a payout into a folder; returns its manifest."""
    tell = progress or (lambda _: None)
    tell("reading and checking the inputs")
    payday = Payday.read(places, spec)
    _take(out)
    with claimed(out, "payout run"):
        remove_leftovers(out)
        if not _finished(out, payday.run):
            results = Work(payday, out, tell).results()
            tell("writing tables")
            write_tables(results, out)
            tell("attacking a sample of the market")
            aside = out / ".state" / "audit"
            run_red_team(payday.inputs, spec, results.mechanism, aside, out / "audit.json")
            tell("writing the report")
            write_report(results, payday.run, out)
            write_manifest(results, payday.run, payday.opening, out)
        tell("entering the run into the ledger")
        manifest = read_manifest(out)
        _enter(manifest, places, payday.overrides, out)
        shutil.rmtree(out / ".state", ignore_errors=True)
    return manifest


def _take(out: Path) -> None:
    """Make the folder; refuse one that holds something else."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataMarketError(f"{str(out)!r} cannot be made a folder: {error}") from error
    there = {path.name for path in out.iterdir()}
    if there and not there & {MANIFEST, ".state", ".lock"}:
        raise DataMarketError(f"{str(out)!r} is not empty and holds no payout run; choose another --out")


def _finished(out: Path, run: str) -> bool:
    """Whether this run is complete here; an unfinished one is marked as ours."""
    record = ledger.read_record(out)
    mark = out / ".state" / "run.json"
    if (out / MANIFEST).exists():
        held = read_manifest(out)["run"]
    elif mark.exists():
        held = read_json(mark)["run"]
    else:
        held = run
    if held != run or (record is not None and record.run != run):
        raise DataMarketError(
            f"{str(out)!r} holds another run (other inputs, settings or version); choose another --out"
        )
    if (out / MANIFEST).exists():
        return True
    if record is not None and record.state != "draft":
        raise DataMarketError(
            f"the run in {str(out)!r} is {record.state} but its manifest is gone; run verify"
        )
    mark.parent.mkdir(exist_ok=True)
    write_json(mark, {"run": run})
    return False


def _enter(manifest: dict[str, Any], places: Places, overrides: list[Override], out: Path) -> None:
    money = Currency(manifest["currency"])
    rows = pq.read_table(
        out / "payments.parquet", columns=["identity", "payment", "entitled", "balance"]
    )
    entries = [
        ledger.Entry(r["identity"], *(money.signed(r[c]) for c in ("payment", "entitled", "balance")))
        for r in rows.to_pylist()
    ]
    record = ledger.Record(
        manifest["run"],
        "draft",
        manifest["amount"],
        manifest["currency"],
        sha256(out / MANIFEST),
        places.as_dict(),
    )
    ledger.draft(out, record, entries, overrides)
