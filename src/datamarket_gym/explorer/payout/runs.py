"""The pages of runs: their list, one run with its tables and files, and whether it still verifies.

What a page shows of a run is read from its folder and its ledger, and no input is opened that lies outside of the
folders that the explorer may show.
"""

from __future__ import annotations

import csv
import hashlib
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache, reduce
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from fastapi import APIRouter, Response
from fastapi.responses import FileResponse
from pydantic import Field

from datamarket_gym.data.readers.databases import is_query
from datamarket_gym.data.readers.tables import file_and_member
from datamarket_gym.display import counted
from datamarket_gym.errors import DataMarketError, require_choice
from datamarket_gym.evidence.threshold import Threshold
from datamarket_gym.execution.files import read_json
from datamarket_gym.execution.progress import Progress
from datamarket_gym.explorer.files import NamedPlaces, NotThere
from datamarket_gym.explorer.payout.form import for_page
from datamarket_gym.explorer.routes import Find, Parameters, Routes, Site
from datamarket_gym.explorer.workers import explain_error
from datamarket_gym.payout.acquired_data import acquired_messages
from datamarket_gym.payout.ledger.account_statements import describe_entry, format_time
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.entries import LedgerEntry, LedgerError, RunRecord
from datamarket_gym.payout.ledger.runs import current_warnings, ledger_of, run_of
from datamarket_gym.payout.ledger.store import open_ledger, read_receipt
from datamarket_gym.payout.ledger.trust import is_address
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import (
    Check,
    outputs_of,
    read_manifest,
    require_as_written,
    spec_of,
)
from datamarket_gym.payout.money import LEVEL, Currency, thousands
from datamarket_gym.payout.names import from_csv
from datamarket_gym.payout.report.pages import NAME as REPORT
from datamarket_gym.payout.report.pages import read_draft
from datamarket_gym.payout.report.record import evidence_message, explain_reason, period_message
from datamarket_gym.payout.results import has_balances
from datamarket_gym.payout.settings import PayoutSpec
from datamarket_gym.payout.statements.record import RunTables
from datamarket_gym.payout.stored_inputs import places_of
from datamarket_gym.payout.verify import verify
from datamarket_gym.payout.warnings import UnresolvedWarning


def require_openable_inputs(shown: NamedPlaces, folder: Path) -> None:
    """Refuse a run one of whose inputs lies in no folder that the explorer may show."""
    record, spec = run_of(folder), spec_of(read_manifest(folder))
    places = places_of(folder, record=record)
    for path in (*vars(places).values(), *places.acquired):
        if isinstance(path, Path):
            shown.inside(path)
    for text in (*vars(spec.files).values(), spec.linkage.edges):
        if text and not is_query(text):  # the answer to a query is in the run's folder
            shown.inside(file_and_member(text)[0])
    for earlier in places.acquired:
        shown.require_run(earlier)
    require_openable_log(shown, record)


def require_openable_log(shown: NamedPlaces, record: RunRecord) -> None:
    """Refuse a run whose times are from an intake log elsewhere, or on a server that was not named."""
    log = record.places.get("intake")
    if log is not None:
        shown.require_ledger(log)


def _run_with_inputs(site: Site, request: Any) -> Path:
    folder = site.places.run(request.run)
    require_openable_inputs(site.places, folder)
    return folder


def _run_with_log(site: Site, request: Any) -> Path:
    folder = site.places.run(request.run)
    with suppress(LedgerError):  # which `verify` reports
        require_openable_log(site.places, run_of(folder))
    return folder


Run = Annotated[Path, Find(lambda site, request: site.places.run(request.run))]
"""The folder of a run."""
RunWithInputs = Annotated[Path, Find(_run_with_inputs)]
"""The folder of a run all of whose inputs may be opened."""
RunWithLog = Annotated[Path, Find(_run_with_log)]
"""The folder of a run whose intake log may be opened."""

SANDBOX = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""A report has scripts of its own: they run without an origin, and fetch nothing."""
_STATEMENT = re.compile(r"statements/[a-z0-9-]+-[0-9a-f]{16}\.html")


def run_file(folder: Path, name: str) -> Response:
    """Respond with one file of a run: pages are shown, everything else is saved."""
    path = _confined(folder, name)
    if path.suffix == ".html":
        headers = {"content-security-policy": SANDBOX}
        return Response(path.read_bytes(), media_type="text/html", headers=headers)
    kind = {".csv": "text/csv", ".json": "application/json"}.get(path.suffix, "application/octet-stream")
    saved = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', folder.name)}-{path.name}"
    headers = {"content-security-policy": "sandbox"}
    return FileResponse(path, media_type=kind, filename=saved, headers=headers)


def _confined(folder: Path, name: str) -> Path:
    """Return the path of a file that may be read: one that runs write, as the run left it."""
    manifest = read_manifest(folder)
    outputs = manifest["outputs"]
    is_output = name in outputs_of(manifest.get("acquired", ())) or name == MANIFEST
    if not is_output and _STATEMENT.fullmatch(name) is None:
        raise NotThere(
            f"{name[:100]!r} is no file of a run; ask for report.html, payments.csv or another of its outputs"
        )
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
        raise NotThere(f"the run has no {name!r}; it may have been removed: run verify")
    if name == REPORT:
        if hashlib.sha256(read_draft(folder)).hexdigest() != outputs.get(name, {}).get("sha256"):
            raise DataMarketError(
                "report.html is not as the run left it, and is not shown; verify the run to see what changed"
            )
    elif is_output and name != MANIFEST:
        require_as_written(folder, outputs, name)
    return path


def run_ids(places: NamedPlaces) -> dict[str, str]:
    """Map the folders of the runs on show to their ids."""
    return {str(place.folder.resolve()): place.id for place in places.runs()}


RunIds = Annotated[dict[str, str], Find(lambda site, _: run_ids(site.places), {})]
"""The folders of the runs on show, with their ids."""
Ledgers = Annotated[
    dict[str, str],
    Find(lambda site, _: {place.address: place.id for place in site.places.ledgers()}, {}),
]
"""The addresses of the ledgers on show, with their ids."""
Listed = tuple[str, Path | None, str]
"""The id of a run and its folder; for what may not be opened no folder, and why."""


def _listed(site: Site, request: Any) -> tuple[Listed, ...]:
    def openable(name: str) -> Listed:
        try:
            return name, site.places.run(name), ""
        except (DataMarketError, OSError) as error:
            return name, None, str(error)

    return tuple(openable(place.id) for place in site.places.runs())


Runs = Annotated[tuple[Listed, ...], Find(_listed, {})]
OpenableRuns = Annotated[tuple[tuple[str, Path], ...], Find(lambda site, _: site.places.openable(), {})]
"""The ids and folders of the runs that may be opened."""


def list_runs(runs: Runs, ledgers: Ledgers, *, progress: Progress) -> dict[str, Any]:
    """List all runs and ledgers in a line each; one that cannot be read says why."""
    progress.stage("reading runs and ledgers", "folders")
    read: dict[str, Accounts] = {}  # a ledger is read once for all of its runs
    rows = []
    for done, (name, folder, why) in enumerate(runs, 1):
        try:
            if folder is None:
                raise DataMarketError(why)
            read_manifest(folder)
            receipt = read_receipt(folder)
            where = str(folder) if receipt is None else receipt.ledger
            accounts = read.get(where) or ledger_of(folder).accounts()
            read[where] = accounts
            rows.append({"run": name, "broken": "", **summary(run_of(folder, accounts), accounts)})
        except (DataMarketError, OSError) as error:
            rows.append({"run": name, "broken": explain_error(error)[1]})
        progress.count(done, len(runs))
    return {"runs": rows, "ledgers": [_ledger(name, address) for address, name in ledgers.items()]}


def _ledger(name: str, address: str) -> dict[str, Any]:
    try:
        accounts = open_ledger(address).accounts()
    except (DataMarketError, OSError) as error:
        return {"ledger": name, "broken": explain_error(error)[1]}
    return {
        "ledger": name,
        "broken": "",
        "entries": accounts.number,
        "runs": len(accounts.runs),
        "at": accounts.at,
        "disputes": sum(dispute.open for dispute in accounts.disputes.by_number.values()),
    }


def summary(record: RunRecord, accounts: Accounts) -> dict[str, Any]:
    """Summarise a run as its ledger has it."""
    return {
        "id": record.run,
        "state": record.state,
        "amount": f"{record.currency} {Currency(record.currency).shown(record.amount)}",
        "minor": record.amount,
        "payees": len(record.lines),
        "paid": sum(line.paid > 0 for line in record.lines),
        "period": record.period,
        "entered": record.history[0].at,
        "warnings": [warning.name for warning in current_warnings(accounts, record)],
    }


_NEXT = {
    "drawn": ("Its spot checks are drawn. Go through them, then settle: whoever failed is paid nothing.", "checks",
              "Go through the checks"),
    "planned": ("Before it is approved, {checks} of each payee are checked. Draw them.{accept}", "checks",
                "Draw the checks"),
    "draft": ("It asks for no checks. Read the report, then approve it.{accept}", "checks", "Approve it"),
    "checked": ("Its checks are settled. Read the report, then approve it.{accept}", "checks", "Approve it"),
    "approved": ("It is approved, and what it pays is owed. Order the payments, send them, and mark it as paid.",
                 "checks", "Order and mark as paid"),
    "paid": ("It is paid, with the reference {reference}. Corrections and disputes are in the ledger.", "ledger",
             "Look at the ledger"),
    "superseded": ("Another run took its place: this one is not paid.", "", ""),
}  # fmt: skip


def next_step(record: RunRecord, warnings: int) -> dict[str, str]:
    """Say what the operator does next with a run, and on which page."""
    state = record.state
    if state == "draft" and record.draw is not None:
        state = "drawn"
    elif state == "draft" and record.checks > 0:
        state = "planned"
    accept = f" It has {counted(warnings, 'warning')}: look at each, and accept it when you approve."
    words, page, label = _NEXT.get(state, _NEXT["superseded"])
    words = words.format(
        checks=counted(record.checks, "unit"),
        accept=accept if warnings else "",
        reference=repr(record.reference),
    )
    return {"words": words, "page": page, "label": label}


ROWS = 50
"""Rows of a page of a table."""
_AMOUNTS = ("payment", "low", "high", "without_evidence", "entitled", "balance", "amount")
_FILES = {"payments": "payments.parquet", "units": "units.csv"}
_SEARCHED = {"payments": ("identity",), "units": ("unit", "content", "payee", "cluster", "matched_to")}


T = TypeVar("T", Sequence[Any], pa.Table)


class TableQuery(Parameters):
    """Say what part of a table a page shows."""

    run: str = ""
    table: str = ""
    search: str = Field(default="", max_length=500)
    sort: str = Field(default="", max_length=40)
    down: bool = False
    page: int = Field(default=0, ge=0, le=10_000_000)

    def cut(self, rows: T, in_all: int, each: int) -> tuple[T, dict[str, int]]:
        """Return the rows of the page that is shown, and where they stand among all."""
        pages = max(1, math.ceil(len(rows) / each))
        page = min(self.page, pages - 1)
        about = {"found": len(rows), "in_all": in_all, "page": page, "pages": pages}
        return rows[page * each : (page + 1) * each], about


def _stamp(folder: Path) -> tuple[int, int]:
    """Return the cache key of a run, whose files are compared with its manifest when they are read."""
    stat = (folder / MANIFEST).stat()
    return stat.st_mtime_ns, stat.st_size


def tables_of(folder: Path) -> RunTables:
    """Read the tables of a run, compared with its manifest; those of the last run are cached."""
    return _tables(folder, _stamp(folder))


@lru_cache(maxsize=1)  # of 100,000 payees they are some hundred megabytes
def _tables(folder: Path, stamp: tuple[int, int]) -> RunTables:
    return RunTables.read(folder)


def table_page(folder: Path, query: TableQuery, progress: Progress) -> dict[str, Any]:
    """Read some rows of a table of a run; amounts as the files have them, with thousands set apart."""
    require_choice("table", query.table, tuple(_FILES))
    table = _table(folder, query.table, _stamp(folder))
    chosen, searched = table, _SEARCHED[query.table]
    if wanted := query.search.strip():
        found = (pc.match_substring(table[name], wanted, ignore_case=True) for name in searched)
        chosen = table.filter(reduce(pc.or_, found))
    if query.sort:  # the file has the highest amount first
        require_choice("sort", query.sort, tuple(table.column_names))
        key = chosen[query.sort]
        numbers = pc.cast(key, pa.float64()) if query.sort in _AMOUNTS else key
        way: Literal["descending", "ascending"] = "descending" if query.down else "ascending"
        keys = pa.table({"key": numbers, "name": chosen[searched[0]]})
        chosen = chosen.take(pc.sort_indices(keys, [("key", way), ("name", "ascending")]))
    page, about = query.cut(chosen, len(table), ROWS)
    rows = page.to_pylist()
    return about | {"rows": [{key: _cell(key, value) for key, value in row.items()} for row in rows]}


@lru_cache(maxsize=4)
def _table(folder: Path, name: str, stamp: tuple[int, int]) -> pa.Table:
    path = require_as_written(folder, read_manifest(folder)["outputs"], _FILES[name])
    if path.suffix == ".parquet":
        return pq.read_table(path, use_threads=False)
    with path.open(encoding="utf-8", newline="") as file:
        names, *rows = csv.reader(file)
    return pa.table({name: [from_csv(row[i]) for row in rows] for i, name in enumerate(names)})


def _cell(key: str, value: Any) -> Any:
    if key in _AMOUNTS:
        return thousands(value).replace("-", "\N{MINUS SIGN}")
    if key == "matched_by" and value:
        return explain_reason(value)[0]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def verify_run(run: RunWithLog, *, progress: Progress) -> dict[str, Any]:
    """Compare the files of a run with each other and with the ledger."""
    progress.stage("reading the files and the ledger")
    return verdict(verify(run, False, progress=progress))


def recompute(run: RunWithInputs, *, progress: Progress) -> dict[str, Any]:
    """Compare the files of a run with each other, with the ledger, and with what its inputs give."""
    return verdict(verify(run, True, progress=progress)) | {"recomputed": True}


def verdict(checks: Sequence[Check]) -> dict[str, Any]:
    """Describe checks, and whether all are good."""
    return {
        "checks": [check._asdict() for check in checks],
        "good": all(check.good for check in checks),
        "recomputed": False,
    }


DOWNLOADS = (
    "payments.csv", "units.csv", "payments.parquet", "evidence.parquet", "clusters.parquet", "canonical.parquet",
    "leaks.parquet", "quarantine.csv", "warnings.json", "threshold.json", "audit.json", MANIFEST,
)  # fmt: skip
"""Files of a run that can be saved, in the order in which they are offered."""
_PER_PAYEE = ("payment", "carried_forward", "accepted")  # entries of which a run has many


def run_page(run: Run, runs: RunIds, ledgers: Ledgers, *, progress: Progress) -> dict[str, Any]:
    """Describe a run above its tables; ``runs`` and ``ledgers`` are what the page can link to."""
    progress.stage("reading the run and its ledger")
    manifest = read_manifest(run)
    accounts = ledger_of(run).accounts()
    record = run_of(run, accounts)
    spec = spec_of(manifest)
    warnings = current_warnings(accounts, record)
    threshold = read_json(require_as_written(run, manifest["outputs"], "threshold.json"))
    threshold = {name: value for name, value in threshold.items() if name in Threshold.model_fields}
    receipt = read_receipt(run)
    divided = manifest["paid_for"]["divided"]
    return {
        **summary(record, accounts),
        "period": period_message(spec),
        "next": next_step(record, len(warnings)),
        "later": run_id_at("" if record.superseded is None else record.superseded[1], runs) or None,
        "ledger": None if receipt is None else ledgers.get(ledger_address(receipt.ledger)),
        "warnings": warning_rows(warnings),
        "facts": _facts(manifest, record, spec),
        "divided": f"Divided among {manifest['identities']:,} payees by {divided}. The payments add up to the "
        "amount exactly.",
        "level": f"{LEVEL:.0%}",
        "balances": has_balances(spec, [line.balance for line in record.lines]),
        "evidence": {
            "used": manifest["evidence"]["used"],
            "why": evidence_message(Threshold.model_validate(threshold)),
        },
        "acquired": for_page(acquired_messages(manifest, accounts)),
        "inputs": _inputs(manifest, record),
        "history": [entry_row(e) for e in record.history if e.kind not in _PER_PAYEE],
        "files": [name for name in DOWNLOADS if (run / name).is_file()],
        "settles": (manifest["settles"] or {}).get("run"),
    }


def warning_rows(warnings: Iterable[UnresolvedWarning]) -> list[dict[str, Any]]:
    """Describe warnings in the words of a page."""
    return [asdict(warning) | {"words": for_page(warning.words)} for warning in warnings]


def run_id_at(folder: str, runs: Mapping[str, str]) -> str:
    """Return the id of the run in a folder; empty where the explorer does not show it."""
    return runs.get(str(Path(folder).resolve()), "") if folder else ""


def ledger_address(where: str) -> str:
    """Return where a ledger is as the explorer lists it."""
    return where if is_address(where) else str(Path(where).resolve())


def _facts(manifest: dict[str, Any], record: RunRecord, spec: PayoutSpec) -> list[tuple[str, str]]:
    money = Currency(record.currency)
    paid = [line.paid for line in record.lines]
    owed = sum(line.balance for line in record.lines if line.balance > 0)
    facts = [
        ("amount", f"{money.code} {money.shown(record.amount)}"),
        ("kept from forfeits", money.shown(record.kept) if record.kept else ""),
        ("payees paid", f"{sum(amount > 0 for amount in paid):,} of {len(paid):,}"),
        ("largest payment", f"{money.shown(max(paid))} ({max(paid) / record.amount:.0%})"),
        ("units", f"{manifest['units']:,}"),
        ("previously acquired", f"{manifest['known']:,}" if manifest.get("acquired") else ""),
        ("distinct units", f"{manifest['clusters']:,}"),
        ("matches", f"{manifest['ties']:,}"),
        ("validation rows among them", f"{manifest['leaked']:,}" if manifest["leaked"] else ""),
        ("rows set aside", f"{manifest['quarantined']:,}" if manifest.get("quarantined") else ""),
        ("checks", f"{spec.checks} of each payee" if spec.checks else "none"),
        ("carried forward", money.shown(owed) if owed else ""),
    ]
    return [(name, value) for name, value in facts if value]


def _inputs(manifest: dict[str, Any], record: RunRecord) -> list[dict[str, Any]]:
    """List every input: its name and hash, and whether it still lies where it was."""

    def is_gone(where: str) -> bool:
        return bool(where) and not (is_query(where) or "://" in where or os.path.exists(where))

    return [
        {"role": role, "name": str(about["name"]), "bytes": about["bytes"], "sha256": about["sha256"],
         "gone": is_gone(record.places.get(role, ""))}
        for role, about in manifest["inputs"].items()
    ]  # fmt: skip


def entry_row(entry: LedgerEntry) -> dict[str, Any]:
    """Describe an entry of a ledger in texts."""
    return {
        "number": entry.number, "at": format_time(entry), "kind": entry.kind, "by": entry.by,
        "detail": describe_entry(entry),
    }  # fmt: skip


def router(site: Site) -> APIRouter:
    """Build the routes of runs."""
    routes = Routes("/api/payout", site)

    def table(query: TableQuery) -> tuple[Path, TableQuery]:
        return site.places.run(query.run), query

    routes.answer("GET", "/runs", list_runs)
    routes.answer("GET", "/run", run_page)
    routes.answer("GET", "/table", table_page, TableQuery, table)
    routes.answer("POST", "/verify", verify_run)
    routes.answer("POST", "/recompute", recompute, long=True)

    @routes.get("/file")
    def get_file(run: str, name: str) -> Response:
        return run_file(site.places.run(run), name)

    return routes
