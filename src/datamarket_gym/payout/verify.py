"""verify: do the files of a run and its ledger agree, and does the run recomputed give the same amounts?

First the ledger by itself (`Ledger.examined`), then the hashes of the outputs, the manifest against its own id and
against the ledger, and the sums. ``recompute`` runs the whole payout again from its inputs and compares payments,
clusters, acquired units, warnings and the manifest: amounts to the cent, scores to 1e-9. A run is recomputed before its
approval is entered.
"""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.files import read_json, sha256
from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.payout.acquired_data import ROLE as ACQUIRED
from datamarket_gym.payout.checks.outcomes import verify_checks
from datamarket_gym.payout.intake import IntakeLog
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.entries import APPROVED, LedgerError, RunRecord
from datamarket_gym.payout.ledger.runs import (
    enter_approval,
    intake_of,
    ledger_inputs_of,
    ledger_of,
    require_accepted,
    run_of,
)
from datamarket_gym.payout.ledger.store import FILE as RECEIPT
from datamarket_gym.payout.ledger.store import (
    Ledger,
    check_checkpoints,
    holds_tip,
    is_readable,
    read_receipt,
    receipts_of,
)
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import (
    OWNED,
    UNITS,
    Check,
    Contents,
    Note,
    outputs_of,
    read_manifest,
    run_id,
    settled_by,
    spec_of,
    submitted_hash,
)
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import read_csv, visible
from datamarket_gym.payout.overrides import Override
from datamarket_gym.payout.report.pages import NAME as REPORT
from datamarket_gym.payout.report.pages import check_state, read_draft
from datamarket_gym.payout.run import work_out
from datamarket_gym.payout.stored_inputs import MovedInputs, Places, kept_checks, log_tip, places_of
from datamarket_gym.payout.unit_payments import read_units
from datamarket_gym.payout.warnings import FILE as WARNINGS
from datamarket_gym.payout.warnings import UnresolvedWarning, read_warnings
from datamarket_gym.payout.what_if import read_job

_NEAR, _NEAR_SINGLE = 1e-9, 1e-6
PAYMENTS, CLUSTERS = "payments.parquet", "clusters.parquet"


def verify_ledger(ledger: Ledger, checkpoint: Path | None = None) -> list[Check]:
    """Check a ledger, and the files of its runs where they still lie where they were made.

    Parameters
    ----------
    ledger
        The ledger.
    checkpoint
        A checkpoint that the ledger must contain.

    Returns
    -------
    list[Check]
        The checks, and whether each passed.
    """
    checks = ledger.examined()
    if not all(check.good for check in checks):
        return checks
    accounts = ledger.accounts()
    if checkpoint is not None:
        checks.append(check_checkpoints(accounts.entries, checkpoint))
    for record in accounts.runs.values():
        folder = Path(record.places.get("run", ""))
        if not is_readable(folder / MANIFEST):
            checks.append(_gone(ledger, record))
            continue
        try:
            wrong = [f"{c.what}: {c.detail}" for c in _of_run(folder, accounts) if not c.good]
        except DataMarketError as error:  # the other runs are checked all the same
            wrong = [f"cannot be checked: {error}"]
        detail = "; ".join(wrong) or f"{record.state}, {folder}"
        checks.append(Check(f"run {record.run[:16]}", not wrong, detail))
    if checkpoint is None and not any(True for _ in receipts_of(accounts)):
        checks.append(Note("newest copy", True, _undated(ledger)))
    return checks


def _gone(ledger: Ledger, record: RunRecord) -> Check:
    """Say where the files of a run should be; what was approved must be there to be checked."""
    what, where = f"run {record.run[:16]}", record.places.get("run")
    if where is None:  # entered by hand, or by another program, without a folder
        return Check(what, True, f"{record.state}; the ledger names no folder")
    moved = f"if it was moved: datamarket ledger attach FOLDER {ledger.where}"
    detail = f"{record.state}, and its files are not in {visible(where, 200)}; {moved}"
    return Check(what, record.state not in APPROVED, detail)


def _undated(ledger: Ledger) -> str:
    command = f"datamarket ledger checkpoint {ledger.where} --checkpoints FILE"
    return (
        "not known: neither a checkpoint nor the receipt of a run rules out that this is an older copy of the ledger; "
        f"note its tip now, in a file kept apart ({command}), and give that file to verify (--checkpoints FILE)"
    )


def verify(
    folder: Path,
    recompute: bool = False,
    progress: Progress = SILENT,
    checkpoint: Path | None = None,
    **moved: Unpack[MovedInputs],
) -> list[Check]:
    """Run all checks of a run and of its ledger; the inputs lie where they were, unless named."""
    manifest, accounts = read_manifest(folder), None
    try:
        ledger = ledger_of(folder)
        checks = ledger.examined()
    except LedgerError as error:  # its files are checked all the same
        checks = [Check("ledger", False, str(error))]
    if all(check.good for check in checks):
        accounts = ledger.accounts()
        if checkpoint is not None:
            checks.append(check_checkpoints(accounts.entries, checkpoint))
    checks += _of_run(folder, accounts, moved.get("intake"))
    if recompute and accounts is not None and manifest["run"] in accounts.runs:
        record = accounts.runs[manifest["run"]]
        checks += _recomputed(folder, places_of(folder, record, **moved), progress)
    return checks


def _of_run(folder: Path, accounts: Accounts | None, intake: str | None = None) -> list[Check]:
    """Compare the files of a run with each other, and with the ledger where it can be read."""
    manifest = read_manifest(folder)
    names = outputs_of(manifest.get(ACQUIRED, ()))
    checks = [_output(folder, name, manifest["outputs"].get(name)) for name in names]
    checks += [*kept_checks(folder, manifest), _itself(manifest)]
    if accounts is None:
        return checks
    if (receipt := read_receipt(folder)) is not None:
        good, entry = holds_tip(accounts.entries, receipt.tip), f"entry {receipt.tip.number}"
        lost = f"the ledger does not hold {entry} as it was: it was written anew, or cut short"
        checks.append(Check(RECEIPT, good, f"the ledger holds {entry} as it was" if good else lost))
    record = accounts.runs.get(manifest["run"])
    if record is None:
        return [*checks, Check("run and ledger", False, "the ledger holds no such run")]
    wrong = "; ".join(_contradictions(folder, manifest, record))
    checks.append(Check("manifest and ledger", not wrong, wrong or f"state {record.state}"))
    checks += _log(manifest, record, intake)
    if all(check.good for check in checks):
        checks += _sums(folder, manifest, record)
        checks.append(check_state(folder, record.history))
        checks += verify_checks(folder)
    return checks


def _output(folder: Path, name: str, entry: dict[str, Any] | None) -> Check:
    path = folder / name
    if entry is None or not path.is_file():
        return Check(name, False, "missing")
    # A report without the state that was put on it later.
    content = read_draft(folder) if name == REPORT else path.read_bytes()
    good = len(content) == entry["bytes"] and hashlib.sha256(content).hexdigest() == entry["sha256"]
    return Check(name, good, "as written" if good else "changed since it was written")


def _itself(manifest: dict[str, Any]) -> Check:
    """Compare the manifest with its own id, which is a hash of settings, inputs, overrides and balances."""
    spec, opening = spec_of(manifest), ledger_inputs_of(manifest).opening
    overrides = [Override.model_validate(o) for o in manifest["overrides"]]
    again = run_id(
        spec, manifest["inputs"], overrides, opening, settled_by(manifest),
        manifest["versions"].get("datamarket-gym", ""), manifest.get(ACQUIRED, ()),
    )  # fmt: skip
    values = [manifest[name] for name in ("run", "amount", "currency", "seed")]
    good = values == [again, spec.minor, spec.currency, spec.seed]
    wrong = "its settings, inputs, overrides or balances are not those of the run that it names"
    return Check(MANIFEST, good, "as its id says" if good else wrong)


def _contradictions(folder: Path, manifest: dict[str, Any], record: RunRecord) -> Iterator[str]:
    """Yield what a manifest says otherwise than the draft in the ledger."""
    if record.manifest != sha256(folder / MANIFEST):
        yield "manifest.json is not the one that was entered"
    settles, spec = settled_by(manifest), spec_of(manifest)
    entries = {
        "amount": manifest["amount"], "currency": manifest["currency"], "checks": spec.checks,
        "period": spec.period or "", "opening": manifest["opening_balances"], "overrides": manifest["overrides"],
        "standing": manifest["standing_overrides"], "kept": settles.kept if settles else 0,
        "acquired": [each["run"] for each in manifest.get(ACQUIRED, ())],
        "submissions": submitted_hash(manifest), "contents": Contents(**manifest["contents"]),
    }  # fmt: skip
    for name, value in entries.items():
        if getattr(record, name) != value:
            yield f"{name} in the ledger is {getattr(record, name)!r}, in the manifest {value!r}"


def _log(manifest: dict[str, Any], record: RunRecord, intake: str | None) -> list[Check]:
    """Check that the intake log that a run's times are from still holds what they were taken from."""
    if (upto := log_tip(manifest)) is None:
        return []
    try:
        if (where := intake or intake_of(record)) is None:
            raise LedgerError("the ledger does not say where it is; name it with --intake")
        return [IntakeLog.open(where, upto).examined()]
    except LedgerError as error:
        return [Check("intake log", False, str(error))]


def _sums(folder: Path, manifest: dict[str, Any], record: RunRecord) -> list[Check]:
    money, names = Currency(manifest["currency"]), ("identity", "payment", "entitled", "balance")
    stored = _columns(folder / PAYMENTS)
    rows = zip(*(stored.get(name, ()) for name in names), strict=True)
    table = {identity: tuple(map(money.signed, amounts)) for identity, *amounts in rows}
    written = {
        row["identity"]: tuple(money.signed(row[name]) for name in names[1:])
        for row in read_csv(folder / "payments.csv")
    }
    entered = {x.identity: (x.paid, x.entitled, x.balance) for x in record.lines}
    paid, balances = (sum(amounts[i] for amounts in entered.values()) for i in (0, 2))
    amount, opening = manifest["amount"], sum(manifest["opening_balances"].values())
    text, same = money.text, "payments.csv, payments.parquet, units.csv, ledger"
    by_unit: Counter[str] = Counter()
    for row in read_units(folder / UNITS):
        by_unit[row.payee] += row.amount
    agree = table == written == entered and all(by_unit[name] == x[0] for name, x in entered.items())
    warnings = [UnresolvedWarning.from_plain(plain) for plain in record.warnings]
    return [
        Check("sum of payments", paid == amount, f"{text(paid)} of {text(amount)}"),
        Check("sum of balances", balances == opening, f"{text(balances)}, brought in {text(opening)}"),
        Check("warnings.json, ledger", read_warnings(folder) == warnings, f"{len(warnings)} warnings"),
        Check(same, agree, f"{len(entered)} identities"),
    ]


def _recomputed(folder: Path, places: Places, progress: Progress) -> list[Check]:
    progress.stage("reading the inputs again")
    try:
        job = read_job(folder, places)
    except (DataMarketError, OSError) as error:
        return [Check("recomputed", False, f"the inputs cannot be read as they were: {error}")]
    with tempfile.TemporaryDirectory(prefix="datamarket-verify-") as elsewhere:
        again = Path(elsewhere) / "run"
        work_out(job, again, progress)
        return [
            Check(f"{name}, recomputed", good, "as recomputed" if good else "differs")
            for name in (PAYMENTS, CLUSTERS, OWNED, WARNINGS, MANIFEST)
            for good in [is_near(_content(folder, name), _content(again, name))]
        ]


def _content(folder: Path, name: str) -> Any:
    """Read what is compared of an output: of a manifest neither hashes of outputs nor names of files."""
    if name == WARNINGS:
        return read_json(folder / name)
    if name != MANIFEST:
        return _columns(folder / name)
    manifest = read_manifest(folder)
    inputs = {role: file["sha256"] for role, file in manifest["inputs"].items()}
    return {**manifest, "inputs": inputs, "outputs": sorted(manifest["outputs"]), "versions": {}}


def _columns(path: Path) -> dict[str, Any]:
    """Read the columns of a table or a record; none of a damaged file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                return dict(file)
        table = pq.read_table(path)
    except (OSError, ValueError, pa.ArrowException, zipfile.BadZipFile):
        return {}
    return {name: table[name].to_numpy() for name in table.column_names}


def is_near(one: Any, other: Any) -> bool:
    """Compare floats to 1e-9 (single precision: 1e-6; of features relative to their row), all else exactly."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_near(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_near, one, other))
    a, b = np.asarray(one), np.asarray(other)
    if a.shape != b.shape or a.dtype != b.dtype or a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    near = _NEAR if a.dtype == np.float64 else _NEAR_SINGLE
    if a.ndim < 2:  # scores and similarities: sums of numbers of about 1
        return np.allclose(a, b, rtol=near, atol=near, equal_nan=True)
    # Features: a tolerance of their own for each row, however small its numbers are.
    largest = np.nan_to_num(np.abs(b), nan=0.0, posinf=0.0).max(axis=-1, keepdims=True, initial=0.0)
    with np.errstate(invalid="ignore"):
        return bool(((np.abs(a - b) <= near * largest) | (a == b) | (np.isnan(a) & np.isnan(b))).all())


@dataclass(frozen=True)
class Approval:
    """The result of asking for an approval: a message, or the checks that failed."""

    words: str = ""
    wrong: list[Check] = field(default_factory=list)


def _approved_before(record: RunRecord) -> Approval:
    people = ", ".join(visible(name) for name, _ in record.approvals)
    return Approval(f"was {record.state} before, by {people}; nothing changed")


def approve_recomputed(
    run: Path,
    by: str | None,
    accept: Sequence[str],
    progress: Progress = SILENT,
    **moved: Unpack[MovedInputs],
) -> Approval:
    """Recompute a run and approve it, unless a check fails; an approved one stays as it is."""
    if (record := run_of(run)).state in APPROVED:
        return _approved_before(record)
    require_accepted(run, accept)
    manifest = sha256(run / MANIFEST)  # of what is recomputed: another may lie there afterwards
    checks = verify(run, True, progress, **moved)
    if wrong := [check for check in checks if not check.good]:
        record = run_of(run)  # files have moved on where another has approved it meanwhile
        return _approved_before(record) if record.state in APPROVED else Approval(wrong=wrong)
    record, new, valid, needed = enter_approval(run, manifest, by, accept)
    if record.state in APPROVED:  # by this call, or by another since
        return Approval("approved") if new else _approved_before(record)
    older = [visible(name) for name, _ in record.approvals if name not in valid]
    missing = "another person must approve it, too"
    if older:
        missing = f"{', '.join(older)} approved before a warning that it has now, and must approve again"
    names = ", ".join(map(visible, valid))
    return Approval(f"approved by {names}; the ledger asks for {needed} people: {missing}")
