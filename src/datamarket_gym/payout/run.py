"""The payout run: validate, evidence, clusters, scores, money, files, the ledger; killed, it resumes.

The stages leave their records in ``RUN/records``; everything else is a quick function of them and of the
inputs. A killed run (`datamarket_gym.execution.runs`) loses the stage it was in; the next one with the same
inputs takes up what is there and ends with the same bytes. Inputs and settings are part of the run's
id: a folder that holds another run is refused, and an approved one is never written to.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from datamarket_gym import __version__
from datamarket_gym.errors import DataMarketError, FutureTimesWarning, LeftOutWarning
from datamarket_gym.evidence.similarity_search import NearestRows
from datamarket_gym.execution.files import claimed, sha256
from datamarket_gym.execution.parallel import compute, computing, one_thread
from datamarket_gym.execution.progress import SILENT, Progress, Within
from datamarket_gym.execution.runs import open_run, read_record
from datamarket_gym.payout.acquired_units import ROLE as PRIOR
from datamarket_gym.payout.acquired_units import accepted
from datamarket_gym.payout.acquisition_prices import write_acquired
from datamarket_gym.payout.audit import run_red_team
from datamarket_gym.payout.checks.earlier_draft import SettledDraft
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.entries import Line, describe_state
from datamarket_gym.payout.ledger.runs import (
    Draft,
    LedgerInputs,
    default_ledger,
    enter_draft,
    ledger_inputs_of,
    read_ledger_inputs,
    same_ledger,
)
from datamarket_gym.payout.ledger.store import (
    Ledger,
    has_ledger,
    open_ledger,
    read_receipt,
)
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import (
    NEAREST,
    read_manifest,
    require_as_written,
    submitted_hash,
    write_manifest,
)
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.outputs import write_tables
from datamarket_gym.payout.report.record import write_report
from datamarket_gym.payout.settings import PayoutSpec
from datamarket_gym.payout.stages import PayoutJob, Places, compute_results
from datamarket_gym.payout.stored_inputs import keep, require_grown, stored_log_tip
from datamarket_gym.payout.submission_times import later_than, require_sound, time_warnings
from datamarket_gym.payout.validation_coverage import write_needs
from datamarket_gym.payout.warning_rules import warnings_of
from datamarket_gym.payout.warnings import FILE as WARNINGS
from datamarket_gym.payout.warnings import read_warnings, write_warnings
from datamarket_gym.utilities.base import LEARNERS
from datamarket_gym.utilities.coverage import Coverage


def pay(
    places: Places,
    spec: PayoutSpec,
    out: Path,
    progress: Progress | None = None,
    settles: SettledDraft | None = None,
    ledger: str | None = None,
    reuse: Path | None = None,
) -> dict[str, Any]:
    """Run, or resume, a payout into a folder, and enter it into the ledger; returns its manifest.

    ``settles``: what checks of a draft found. ``ledger``: where the ledger is; beside the folder if left out.
    ``reuse``: the folder of a run of most of these units, whose comparisons need not be made again.
    """
    progress = progress or SILENT
    where = _where(out, ledger)
    accounts = _accounts(where)
    taken = _taken(out, accounts, spec.currency)
    if places.intake is not None and places.upto is None:
        places = replace(places, upto=stored_log_tip(out))
    known = None if reuse is None else read_nearest(reuse)
    progress.stage("reading and checking the inputs", "rows")
    if places.prior:
        places = replace(places, prior=accepted(places.prior, out))
    if places.intake is not None:
        require_grown(places.intake, accounts, places.prior)
    with computing(replace(compute(), progress=progress)):
        payday = PayoutJob.read(places, spec, settles, taken)
    _check_times(payday)
    if payday.left_out:
        warnings.warn(LeftOutWarning("disputes", f"{'; '.join(payday.left_out)}."), stacklevel=2)
    _check_ledger(accounts, payday.run, out)
    manifest = work_out(payday, out, progress, places, known)
    progress.stage("entering the run into the ledger")
    with claimed(out):
        _enter(open_ledger(where, new=True), manifest, places, payday, out)
    return manifest


def work_out(
    payday: PayoutJob,
    out: Path,
    progress: Progress,
    places: Places | None = None,
    known: NearestRows | None = None,
) -> dict[str, Any]:
    """Work a payday out into a folder, or the rest of it; returns its manifest. No ledger knows of it yet.

    ``places`` are those of its files, where what databases answered is to be kept with the run; ``known`` is what
    another run has kept (`read_nearest`).
    """
    if payday.spec.leak_check == "error":
        payday.leaks  # noqa: B018  refused before anything is written
    with open_run(out, payday.run, "run", __version__, manifest_key="run", progress=progress) as run:
        if not run.finished:
            if places is not None:
                received = payday.inputs.received
                keep(places, out, None if received is None else received.upto)
            # Large products are divided among the cores by this package.
            with one_thread("blas"), computing(replace(compute(), progress=progress)):
                results = compute_results(payday, run, known)
                progress.stage("writing tables", "rows")
                write_tables(results, out)
                progress.stage("keeping what was bought")
                write_acquired(results, payday.unpaid, out)
                if isinstance(LEARNERS.create(payday.spec.learner), Coverage):
                    progress.stage("keeping who covers which validation rows")
                write_needs(results, out)
            warned = warnings_of(results)
            write_warnings(warned, out)
            if payday.spec.audit:
                progress.stage("attacking a sample of the market", "attacks")
            run_red_team(results, run.state / "audit", out / "audit.json", Within(progress))
            progress.stage("writing the report")
            write_report(results, warned, payday.run, out)
            taken = payday.taken
            write_manifest(results, payday.run, taken.opening, taken.overrides, payday.settles, out)
    return read_manifest(out)


def read_nearest(folder: Path) -> NearestRows:
    """Read the nearest earlier units that a finished run has kept; refuse them where they are not as it left them.

    Late units come in and a market is paid again: most pairs of units were compared before. What is taken over is
    decided by content, unit by unit (`evidence.nearest`), and changes no payment, so neither the run's id nor its
    manifest tells of it; `verify --recompute` works everything out.
    """
    if not (folder / MANIFEST).is_file():
        raise DataMarketError(
            f"{str(folder)!r} is no finished run to re-use anything of; name the folder of one, or leave --reuse out"
        )
    outputs = read_manifest(folder)["outputs"]
    if NEAREST not in outputs:
        raise DataMarketError(
            f"the run in {str(folder)!r} has kept nothing that can be re-used: an older version made it, or it was "
            "priced given earlier runs; leave --reuse out"
        )
    return read_record(require_as_written(folder, outputs, NEAREST), NearestRows)


def _where(out: Path, ledger: str | None) -> str:
    """The ledger that a run is entered in; a folder stays with the one it is in."""
    receipt = read_receipt(out)
    if receipt is None:
        return ledger or default_ledger(out)
    if ledger is not None and not same_ledger(ledger, receipt.ledger):
        raise DataMarketError(
            f"the run in {str(out)!r} is in the ledger {receipt.ledger!r}; choose another --out, or leave --ledger out"
        )
    return ledger or receipt.ledger


def _accounts(where: str) -> Accounts:
    """The ledger as it is; an empty one where there is none yet."""
    return open_ledger(where, new=True).accounts() if has_ledger(where) else Accounts()


def _taken(out: Path, accounts: Accounts, currency: str) -> LedgerInputs:
    """What the run takes from the ledger: now, or when it was worked out."""
    return (
        ledger_inputs_of(read_manifest(out))
        if (out / MANIFEST).is_file()
        else read_ledger_inputs(accounts, currency)
    )


def _check_times(payday: PayoutJob) -> None:
    """Warn of times later than now, which the results cannot know of; with ``strict`` refuse whatever is wrong."""
    future = later_than(payday.inputs, payday.spec, time.time())
    if payday.spec.strict:
        require_sound([*time_warnings(payday.inputs, payday.spec), *([future] if future else [])])
    elif future is not None:
        warnings.warn(FutureTimesWarning("times", f"{future.title}. {future.words}"), stacklevel=3)


def _check_ledger(accounts: Accounts, run: str, out: Path) -> None:
    """Refuse to work out what the ledger has as approved, unless it lies here: nobody is to be paid twice."""
    record = accounts.runs.get(run)
    if record is None or record.state == "draft" or (out / MANIFEST).is_file():
        return
    raise DataMarketError(
        f"this run is in the ledger already, and is {describe_state(record.state)}: the same inputs and settings, in "
        f"{record.places.get('run', 'another folder')!r}. Nobody is paid for it again; to look at it, go there"
    )


def _enter(
    ledger: Ledger, manifest: dict[str, Any], places: Places, payday: PayoutJob, out: Path
) -> None:
    money, settles = Currency(manifest["currency"]), payday.settles
    outputs = manifest["outputs"]  # they lay open between the manifest and now
    paid = require_as_written(out, outputs, "payments.parquet")
    require_as_written(out, outputs, WARNINGS)
    rows = pq.read_table(paid, columns=["identity", "payment", "entitled", "balance"])
    lines = [
        Line(r["identity"], *(money.signed(r[c]) for c in ("payment", "entitled", "balance")))
        for r in rows.to_pylist()
    ]
    draft = Draft(
        run=manifest["run"],
        amount=manifest["amount"],
        currency=manifest["currency"],
        manifest=sha256(out / MANIFEST),
        places={**places.as_dict(), "run": str(out.resolve())},
        checks=payday.spec.checks,
        lines=lines,
        taken=payday.taken,
        overrides=payday.overrides,
        warnings=read_warnings(out),
        period=payday.spec.period or "",
        submissions=submitted_hash(manifest),
        kept=settles.kept if settles else 0,
        contents=manifest["contents"],
        prior=[each["run"] for each in manifest.get(PRIOR, ())],
    )
    enter_draft(ledger, out, draft)
