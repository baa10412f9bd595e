"""The payout run: validate, evidence, clusters, scores, money, files, ledger; killed, it resumes.

The stages leave their records in ``RUN/records``; everything else is a quick function of them and of the
inputs. A killed run (`datamarket_gym.core.runs`) loses the stage it was in; the next one with the same
inputs takes up what is there and ends with the same bytes. Inputs and settings are part of the run's
id: a folder that holds another run is refused, and an approved one is never written to.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from datamarket_gym import __version__
from datamarket_gym.core.errors import DataMarketError, FutureTimesWarning
from datamarket_gym.core.files import sha256
from datamarket_gym.core.progress import SILENT, Progress
from datamarket_gym.core.runs import Run, open_run
from datamarket_gym.payout import ledger
from datamarket_gym.payout.clock import later_than, require_sound, time_warnings
from datamarket_gym.payout.ledger_file import Record
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import read_manifest, spec_of, write_manifest
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.outputs import write_tables
from datamarket_gym.payout.overrides import Override
from datamarket_gym.payout.red_team import run_red_team
from datamarket_gym.payout.report.page import write_report
from datamarket_gym.payout.settles import Settles
from datamarket_gym.payout.spec import PayoutSpec
from datamarket_gym.payout.stages import Payday, Places, Work
from datamarket_gym.payout.warned import warnings_of
from datamarket_gym.payout.warnings import read_warnings, write_warnings


def pay(
    places: Places,
    spec: PayoutSpec,
    out: Path,
    progress: Progress | None = None,
    settles: Settles | None = None,
) -> dict[str, Any]:
    """Run, or resume, a payout into a folder; returns its manifest. ``settles``: what checks of a draft found."""
    progress = progress or SILENT
    progress.stage("reading and checking the inputs")
    payday = Payday.read(places, spec, settles)
    _check_times(payday)
    if spec.leak_check == "error":
        payday.leaks  # noqa: B018  refused before anything is written
    with open_run(out, payday.run, "run", __version__, manifest_key="run", progress=progress) as run:
        _check_ledger(run)
        if not run.finished:
            results = Work(payday, run).results()
            progress.stage("writing tables")
            write_tables(results, out)
            warned = warnings_of(results)
            write_warnings(warned, out)
            progress.stage("attacking a sample of the market")
            run_red_team(results, run.state / "audit", out / "audit.json")
            progress.stage("writing the report")
            write_report(results, warned, payday.run, out)
            write_manifest(results, payday.run, payday.opening, settles, out)
        progress.stage("entering the run into the ledger")
        manifest = read_manifest(out)
        _enter(manifest, places, payday.overrides, out)
    return manifest


def _check_times(payday: Payday) -> None:
    """Warn of times later than now, which the results cannot know of; with ``strict`` refuse whatever is wrong."""
    future = later_than(payday.inputs, payday.spec, time.time())
    if payday.spec.strict:
        require_sound([*time_warnings(payday.inputs, payday.spec), *([future] if future else [])])
    elif future is not None:
        warnings.warn(FutureTimesWarning("times", f"{future.title}. {future.words}"), stacklevel=3)


def _check_ledger(run: Run) -> None:
    """Refuse a folder whose ledger knows another run, or more of this one than its files do."""
    record = ledger.read_record(run.folder)
    if record is None:
        return
    if record.run != run.key:
        raise DataMarketError(
            f"the ledger in {str(run.folder)!r} holds another run; choose another --out"
        )
    if not run.finished and record.state != "draft":
        raise DataMarketError(
            f"the run in {str(run.folder)!r} is {record.state} but its manifest is gone; run verify"
        )


def _enter(manifest: dict[str, Any], places: Places, overrides: list[Override], out: Path) -> None:
    money = Currency(manifest["currency"])
    rows = pq.read_table(
        out / "payments.parquet", columns=["identity", "payment", "entitled", "balance"]
    )
    entries = [
        ledger.Entry(r["identity"], *(money.signed(r[c]) for c in ("payment", "entitled", "balance")))
        for r in rows.to_pylist()
    ]
    record = Record(
        manifest["run"],
        "draft",
        manifest["amount"],
        manifest["currency"],
        sha256(out / MANIFEST),
        places.as_dict(),
        spec_of(manifest).checks,
    )
    ledger.draft(out, record, entries, overrides, read_warnings(out))
