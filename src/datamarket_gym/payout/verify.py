"""verify: do the files of a run still say what was worked out, and does working it out again agree?

Hashes of all outputs against the manifest, the manifest against the ledger, sums against the amount,
and the three places that hold payments (CSV, Parquet, ledger) against each other; the draw of spot checks is worked
out again, and answers and settlement are held against it. ``recompute`` runs
the whole payout again from the inputs, in a folder of its own, and compares every byte.
"""

from __future__ import annotations

import csv
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.files import sha256
from datamarket_gym.core.progress import Progress
from datamarket_gym.payout import ledger
from datamarket_gym.payout.checks.agreement import agreements
from datamarket_gym.payout.ledger_file import Record
from datamarket_gym.payout.ledger_history import contradictions
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import OUTPUTS, read_manifest, settled_by, spec_of
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import from_csv
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.stages import Places
from datamarket_gym.payout.warnings import FILE as WARNINGS
from datamarket_gym.payout.warnings import read_warnings


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    what: str
    good: bool
    detail: str


def verify(
    folder: Path,
    recompute: bool = False,
    submissions: Path | None = None,
    validation: Path | None = None,
    progress: Progress | None = None,
    reference: Path | None = None,
) -> list[Check]:
    """All checks of a run; the inputs are looked for where they were, unless named."""
    manifest = read_manifest(folder)
    record = ledger.read_record(folder)
    checks = [_output(folder, name, manifest["outputs"].get(name)) for name in OUTPUTS]
    if record is None:
        checks.append(Check("ledger", False, "there is no ledger.sqlite with a run in it"))
    else:
        same = record.manifest == sha256(folder / MANIFEST) and record.run == manifest["run"]
        detail = f"state {record.state}" if same else "manifest.json is not the one that was entered"
        checks.append(Check("manifest and ledger", same, detail))
    if all(check.good for check in checks):
        checks += _sums(folder, manifest)
        wrong = "; ".join(contradictions(folder, manifest))
        checks.append(Check("ledger and its history", not wrong, wrong or "as noted"))
        checks += [Check(*found) for found in agreements(folder)]
    if recompute and record is not None:
        places = _places(record, submissions, validation, reference)
        checks += _recomputed(folder, manifest, places, progress)
    return checks


def _output(folder: Path, name: str, said: dict[str, Any] | None) -> Check:
    path = folder / name
    if said is None or not path.is_file():
        older = said is None and (name.startswith("records/") or name == WARNINGS)
        return Check(
            name, False, "missing; an older version made this run: pay again" if older else "missing"
        )
    good = path.stat().st_size == said["bytes"] and sha256(path) == said["sha256"]
    return Check(name, good, "as written" if good else "changed since it was written")


def _sums(folder: Path, manifest: dict[str, Any]) -> list[Check]:
    import pyarrow.parquet as pq

    money = Currency(manifest["currency"])
    columns = ("payment", "entitled", "balance")
    rows = pq.read_table(folder / "payments.parquet").to_pylist()
    table = {r["identity"]: tuple(money.signed(r[c]) for c in columns) for r in rows}
    with (folder / "payments.csv").open(encoding="utf-8", newline="") as file:
        csv.field_size_limit(1 << 24)
        written = {
            from_csv(r["identity"]): tuple(money.signed(r[c]) for c in columns)
            for r in csv.DictReader(file)
        }
    entered = {e.identity: (e.paid, e.entitled, e.balance) for e in ledger.read_entries(folder)}
    paid = sum(row[0] for row in entered.values())
    balances = sum(row[2] for row in entered.values())
    opening = sum(manifest["opening_balances"].values())
    text = money.text
    return [
        Check(
            "sum of payments", paid == manifest["amount"], f"{text(paid)} of {text(manifest['amount'])}"
        ),
        Check("sum of balances", balances == opening, f"{text(balances)}, brought in {text(opening)}"),
        Check(
            "warnings.json, ledger",
            read_warnings(folder) == ledger.read_entered_warnings(folder),
            f"{len(read_warnings(folder))} warnings",
        ),
        Check(
            "payments.csv, payments.parquet, ledger",
            table == written == entered,
            f"{len(entered)} identities",
        ),
    ]


def _places(
    record: Record, submissions: Path | None, validation: Path | None, reference: Path | None
) -> Places:
    known = {role: Path(path) for role, path in record.places.items()}
    return Places(
        submissions or known["submissions"], validation or known["validation"],
        known.get("overrides"), known.get("carry_from"), reference or known.get("reference"),
    )  # fmt: skip


def places_of(
    folder: Path,
    submissions: Path | None = None,
    validation: Path | None = None,
    reference: Path | None = None,
) -> Places:
    """Where a run's inputs are."""
    record = ledger.read_record(folder)
    if record is None:
        raise DataMarketError(f"the ledger in {str(folder)!r} holds no run; run pay first")
    return _places(record, submissions, validation, reference)


def _recomputed(
    folder: Path, manifest: dict[str, Any], places: Places, progress: Progress | None
) -> list[Check]:
    with tempfile.TemporaryDirectory(prefix="datamarket-verify-") as folder_again:
        again = pay(
            places,
            spec_of(manifest),
            Path(folder_again) / "run",
            progress,
            settled_by(manifest),
        )
        if again["run"] != manifest["run"]:
            return [
                Check(
                    "recomputed", False, "the inputs, settings or version differ from those of the run"
                )
            ]
        checks = []
        for name in OUTPUTS:
            good = (folder / name).is_file() and (folder / name).read_bytes() == (
                Path(folder_again) / "run" / name
            ).read_bytes()
            checks.append(Check(f"{name}, recomputed", good, "equal to the byte" if good else "differs"))
        return checks
