"""The inputs of a run: looked for where they were or where somebody says, in the folders on show alone.

Files of a run for the browser: only those that runs write, as the run left them, and pages without any rights here.

A report is a page with scripts of its own. It is opened in a sandbox: it may run these, and has no origin, so that it
can neither read the explorer's answers nor send it anything as one of its pages; and they fetch nothing from elsewhere.

Where runs stand by their books, and what comes next: for the list of runs, and for the page of one.

Tables of a run a few dozen rows at a time, searched and ordered: runs of any size can be leafed through.

The clusters of a run: the largest, or those that hold a unit or a payee that is searched for.

Statements of a run's payees: one page, or all of them as a ZIP file that is written while it is sent.

Why a payee is paid what it is paid: the record and the words of ``datamarket explain``, and what the units hold.

``datamarket verify`` for a page: every check, and whether it is good.

The page of one run, from its folder and its book: what it is, where it stands, and what comes next.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from fastapi import Response
from fastapi.responses import FileResponse
from pydantic import Field

from datamarket_gym.data.readers.databases import is_query
from datamarket_gym.data.readers.tables import file_and_member
from datamarket_gym.display import counted
from datamarket_gym.errors import DataMarketError, require_choice, require_known
from datamarket_gym.evidence.threshold import Threshold
from datamarket_gym.execution.arrays import Codes, distinct_pairs
from datamarket_gym.execution.files import read_json
from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.explorer.files import NamedPlaces, NotThere
from datamarket_gym.payout.acquired_data import acquired_messages
from datamarket_gym.payout.checks.review_page import render_content, unit_contents
from datamarket_gym.payout.explain import (
    SECRET,
    SHOWN,
    RunNeeds,
    counterfactual_messages,
    covered_lines,
    match_summary,
    need_messages,
    not_known,
    other_messages,
    payment_messages,
    submission_messages,
)
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.entries import LedgerEntry, LedgerError, RunRecord
from datamarket_gym.payout.ledger.runs import ledger_of, ledger_warnings, run_of
from datamarket_gym.payout.ledger.statements import describe_entry, format_time
from datamarket_gym.payout.ledger.store import is_address, open_ledger, read_receipt
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import (
    outputs_of,
    read_manifest,
    require_as_written,
    spec_of,
)
from datamarket_gym.payout.money import (
    LEVEL,
    Currency,
    thousands,
)
from datamarket_gym.payout.report.charts import MOST_SHOWN, DrawnPayment, drawn_payments
from datamarket_gym.payout.report.pages import NAME as REPORT
from datamarket_gym.payout.report.pages import read_draft
from datamarket_gym.payout.report.record import evidence_message, explain_reason, period_message
from datamarket_gym.payout.results import has_balances
from datamarket_gym.payout.settings import PayoutSpec
from datamarket_gym.payout.statements.page import (
    StatementOptions,
    file_name,
    statement_pages,
    statement_text,
)
from datamarket_gym.payout.statements.record import Explanation, RunTables, explain_payee
from datamarket_gym.payout.stored_inputs import Places, places_of
from datamarket_gym.payout.verify import verify
from datamarket_gym.payout.warnings import read_warnings
from datamarket_gym.payout.what_if import finished_results, without_its_evidence
from datamarket_gym.registry import Document

_WHERE = Field(default="", max_length=4000)


class MovedInputs(Document):
    """Where inputs are now, if they were moved; empty: where they were."""

    submissions: str = _WHERE
    validation: str = _WHERE
    reference: str = _WHERE

    def path(self, role: str) -> Path | None:
        """Where one of them is now; None: where it was."""
        said = getattr(self, role)
        return Path(said) if said else None


def inputs_on_show(shown: NamedPlaces, folder: Path, moved: MovedInputs | None = None) -> Places:
    """Where the inputs of a run are; refused where one lies in no folder that the explorer may show."""
    record, moved, spec = run_of(folder), moved or MovedInputs(), spec_of(read_manifest(folder))
    places = places_of(
        folder, moved.path("submissions"), moved.path("validation"), moved.path("reference"), record
    )
    for path in _paths(places, spec):
        shown.inside(path)
    for earlier in places.prior:
        shown.require_run(earlier)
    require_log_on_show(shown, record)
    return places


def require_log_on_show(shown: NamedPlaces, record: RunRecord) -> None:
    """Refuse a run whose times are from an intake log that lies elsewhere, or on a server that was not named."""
    log = record.places.get("intake")
    if log is not None:
        shown.require_book(log)


def _paths(places: Places, spec: PayoutSpec) -> Iterator[Path]:
    yield from (value for value in vars(places).values() if isinstance(value, Path))
    yield from places.prior
    for said in (*vars(spec.files).values(), spec.linkage.edges):
        if said and not is_query(said):  # the answer to a query is kept in the run's folder
            yield file_and_member(said)[0]


SANDBOX = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_STATEMENT = re.compile(r"statements/[a-z0-9-]+-[0-9a-f]{16}\.html")
_KINDS = {
    ".csv": "text/csv; charset=utf-8",
    ".json": "application/json",
    ".html": "text/html; charset=utf-8",
}


def run_file(folder: Path, name: str) -> Response:
    """One file of a run: pages are shown, everything else is saved under the names of run and file."""
    path = _confined(folder, name)
    kind = _KINDS.get(path.suffix, "application/octet-stream")
    if path.suffix == ".html":
        return Response(path.read_bytes(), media_type=kind, headers={"content-security-policy": SANDBOX})
    saved = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', folder.name)}-{path.name}"
    return FileResponse(
        path, media_type=kind, filename=saved, headers={"content-security-policy": "sandbox"}
    )


def _confined(folder: Path, name: str) -> Path:
    """The path of a file that may be asked for; what the manifest names is believed only if runs write such files."""
    manifest = read_manifest(folder)
    outputs = manifest["outputs"]
    known = name in outputs_of(manifest.get("prior", ())) or name == MANIFEST
    if not known and _STATEMENT.fullmatch(name) is None:
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
    elif known and name != MANIFEST:
        require_as_written(folder, outputs, name)
    return path


Named = tuple[str, Path | None, str]
"""The id of a run or of a book, where it is, and its address; for what may not be opened no path, and why."""


def listed_runs(runs: tuple[Named, ...], books: tuple[Named, ...], progress: Progress) -> dict[str, Any]:
    """All runs and books in a line each; one that cannot be read says why, and keeps nobody from the others."""
    progress.stage("reading runs and books", "folders")
    known: dict[str, Accounts] = {}
    rows = []
    for done, (name, folder, why) in enumerate(runs, 1):
        rows.append({"run": name, "broken": why} if folder is None else _run(name, folder, known))
        progress.count(done, len(runs))
    return {"runs": rows, "books": [_book(name, address) for name, _, address in books]}


def _run(name: str, folder: Path, known: dict[str, Accounts]) -> dict[str, Any]:
    try:
        record = run_of(folder, _accounts(folder, known))
        read_manifest(folder)
    except (DataMarketError, OSError) as error:
        return {"run": name, "broken": _why(error)}
    return {"run": name, "broken": "", **summary(record)}


def _accounts(folder: Path, known: dict[str, Accounts]) -> Accounts:
    """The accounts of a run's book, which is read once for all of its runs."""
    receipt = read_receipt(folder)
    where = "" if receipt is None else receipt.ledger
    if not where or where not in known:
        known[where] = ledger_of(folder).accounts()
    return known[where]


def _book(name: str, address: str) -> dict[str, Any]:
    try:
        accounts = open_ledger(address).accounts()
    except (DataMarketError, OSError) as error:
        return {"book": name, "broken": _why(error)}
    return {
        "book": name,
        "broken": "",
        "entries": accounts.number,
        "runs": len(accounts.runs),
        "at": accounts.at,
        "disputes": sum(dispute.open for dispute in accounts.disputes.by_number.values()),
    }


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{Path(str(error.filename)).name!r}: {error.strerror}"
    return str(error)


def summary(record: RunRecord) -> dict[str, Any]:
    """A run as its book has it, in plain values."""
    money = Currency(record.currency)
    return {
        "id": record.run,
        "state": record.state,
        "amount": f"{record.currency} {money.shown(record.amount)}",
        "minor": record.amount,
        "payees": len(record.lines),
        "paid": sum(line.paid > 0 for line in record.lines),
        "period": record.period,
        "entered": record.history[0].at,
        "warnings": [warning["name"] for warning in record.warnings],
    }


def next_step(record: RunRecord, warnings: int) -> dict[str, str]:
    """What somebody who runs the market does next with a run: in words, and on which page."""
    despite = (
        f" It has {counted(warnings, 'warning')}: look at each, and name it when you approve."
        if warnings
        else ""
    )
    match record.state:
        case "draft" if record.draw is not None:
            words = "Its spot checks are drawn. Go through them, then settle: whoever failed is paid nothing."
            return {"words": words, "page": "checks", "label": "Go through the checks"}
        case "draft" if record.checks > 0:
            asked = counted(record.checks, "unit")
            words = f"Before it is approved, {asked} of each payee are to be looked at. Plan and draw them.{despite}"
            return {"words": words, "page": "checks", "label": "Plan the checks"}
        case "draft":
            words = f"It asks for no checks. Read the report, then approve it.{despite}"
            return {"words": words, "page": "checks", "label": "Approve it"}
        case "checked":
            words = f"Its checks are settled. Read the report, then approve it.{despite}"
            return {"words": words, "page": "checks", "label": "Approve it"}
        case "approved":
            words = "It is approved, and what it pays is owed. Order the payments, send them, and mark it as paid."
            return {"words": words, "page": "checks", "label": "Order and mark as paid"}
        case "paid":
            words = f"It is paid, with the reference {record.reference!r}. Corrections and disputes are in the book."
            return {"words": words, "page": "book", "label": "Look at the book"}
        case _:
            words = "Another run took its place: this one is not paid."
            return {"words": words, "page": "", "label": ""}


LEAF = 50
"""Rows of a page."""
_FILE = "payments.parquet"
_AMOUNTS = ("payment", "low", "high", "without_evidence", "entitled", "balance")
_SORTED = ("identity", *_AMOUNTS, "score", "units", "clusters", "leaked")
_READ = (
    "clusters.parquet", "evidence.parquet", "leaks.parquet", "needs.npz", _FILE, "prior.parquet", "quarantine.csv",
    MANIFEST,
)  # fmt: skip


class Leafing(Document):
    """What part of a table a page shows."""

    search: str = Field(default="", max_length=500)
    sort: str = Field(default="", max_length=40)
    down: bool = False
    leaf: int = Field(default=0, ge=0, le=10_000_000)


Stamp = tuple[tuple[int, int], ...]


def stamp_of(folder: Path) -> Stamp:
    """What is another as soon as a file of a run is written anew; what is remembered of a run is remembered by it."""
    found = []
    for name in _READ:
        path = folder / name
        said = path.stat() if path.is_file() else None
        found.append((0, -1) if said is None else (said.st_mtime_ns, said.st_size))
    return tuple(found)


def tables_of(folder: Path) -> RunTables:
    """The tables of a run, held against its manifest; those of the run that was last asked for are remembered."""
    return _tables(folder, stamp_of(folder))


@lru_cache(maxsize=1)  # of 100,000 payees they are some hundred megabytes
def _tables(folder: Path, stamp: Stamp) -> RunTables:
    return RunTables.read(folder)


def payments_leaf(folder: Path, asked: Leafing, progress: Progress) -> dict[str, Any]:
    """Some of a run's payments; amounts as the files have them, with thousands set apart."""
    table = _payments(folder, stamp_of(folder))
    return leaf_of(_ordered(_found(table, asked.search), asked), table.num_rows, asked.leaf)


@lru_cache(maxsize=2)
def _payments(folder: Path, stamp: Stamp) -> pa.Table:
    outputs = read_manifest(folder)["outputs"]
    return pq.read_table(require_as_written(folder, outputs, _FILE), use_threads=False)


def _found(table: pa.Table, search: str) -> pa.Table:
    """The rows with these letters in the name, large or small."""
    wanted = search.strip()
    if not wanted:
        return table
    return table.filter(pc.match_substring(table["identity"], wanted, ignore_case=True))


def _ordered(table: pa.Table, asked: Leafing) -> pa.Table:
    """By a column; as the run has them (the highest payment first) where none is said."""
    if not asked.sort:
        return table
    require_choice("sort", asked.sort, _SORTED)
    key = table[asked.sort]
    numbers = pc.cast(key, pa.float64()) if asked.sort in _AMOUNTS else key
    way: Literal["descending", "ascending"] = "descending" if asked.down else "ascending"
    keys = pa.table({"key": numbers, "name": table["identity"]})
    return table.take(pc.sort_indices(keys, [("key", way), ("name", "ascending")]))


def leaf_of(table: pa.Table, rows_in_all: int, leaf: int) -> dict[str, Any]:
    """One page of a table; past the end: the last one."""
    leaves = max(1, math.ceil(table.num_rows / LEAF))
    at = min(leaf, leaves - 1)
    rows = table.slice(at * LEAF, LEAF).to_pylist()
    return {
        "rows": [{key: _shown(key, value) for key, value in row.items()} for row in rows],
        "found": table.num_rows,
        "in_all": rows_in_all,
        "leaf": at,
        "leaves": leaves,
    }


def _shown(key: str, value: Any) -> Any:
    if key in _AMOUNTS:
        return thousands(value).replace("-", "\N{MINUS SIGN}")
    return None if isinstance(value, float) and not math.isfinite(value) else value


_LEAF, _UNITS, _TIES, _NAMES = 20, 40, 40, 5


def clusters_leaf(folder: Path, asked: Leafing, progress: Progress) -> dict[str, Any]:
    """Some of a run's clusters of several units: those of several names first, as there money moved; then by size."""
    tables = tables_of(folder)
    several = _several(tables)
    starts = several if not asked.search.strip() else _with(tables, several, asked.search.strip())
    leaves = max(1, -(-len(starts) // _LEAF))
    at = min(asked.leaf, leaves - 1)
    chosen = starts[at * _LEAF : (at + 1) * _LEAF]
    ties = _ties_by_start(tables, chosen)
    rows = [_Cluster(tables, int(start), ties[int(start)]).plain for start in chosen]
    return {"rows": rows, "found": len(starts), "in_all": len(several), "leaf": at, "leaves": leaves}


def _several(tables: RunTables) -> Codes:
    """Where clusters of several units begin, those that matter most first."""
    units = tables.units
    starts, sizes = np.unique(units.start, return_counts=True)
    place = np.searchsorted(starts, units.start)
    holders = np.bincount(distinct_pairs(place, units.owner)[0], minlength=len(starts))
    order = np.lexsort((starts, -sizes, holders < 2))
    order = order[sizes[order] > 1]
    found: Codes = starts[order]
    return found


def _with(tables: RunTables, starts: Codes, wanted: str) -> Codes:
    """Those in which a unit or the name of its owner has these letters."""
    units = tables.units
    named = pc.match_substring(units.unit, wanted, ignore_case=True).to_numpy()
    owners = [i for i, name in enumerate(tables.names) if wanted.casefold() in name.casefold()]
    hit = np.unique(units.start[named | np.isin(units.owner, owners)])
    return starts[np.isin(starts, hit)]


def _ties_by_start(tables: RunTables, chosen: Codes) -> dict[int, Codes]:
    """The ties of some clusters, each from one end, the strongest first."""
    ties, units = tables.matches, tables.units
    start = units.start[ties.mine]
    at = np.flatnonzero(np.isin(start, chosen) & (ties.mine < ties.other))
    at = at[np.argsort(-ties.score[at], kind="stable")]
    return {int(each): at[start[at] == each] for each in chosen}


@dataclass(frozen=True, eq=False)
class _Cluster:
    """One cluster, by the row of its first unit."""

    tables: RunTables
    start: int
    ties: Codes

    @property
    def plain(self) -> dict[str, Any]:
        tables, units, ties = self.tables, self.tables.units, self.tables.matches
        rows = range(self.start, int(units.end[self.start]))
        names = list(dict.fromkeys(tables.names[units.owner[row]] for row in rows))
        paid = [tables.names[code] for code in tables.owners(self.start)]
        reasons = sorted(
            {explain_reason(ties.reasons[code])[0] for code in ties.reason[self.ties].tolist()}
        )
        return {
            "number": int(units.cluster[self.start]),
            "size": len(rows),
            "identities": len(names),
            "paid": paid[:_NAMES],
            "paid_more": max(0, len(paid) - _NAMES),
            "others": [name for name in names if name not in paid][:_NAMES],
            "others_more": max(0, len(names) - len(paid) - _NAMES),
            "reasons": reasons,
            "units": [
                {
                    "unit": units.name(row),
                    "identity": tables.names[units.owner[row]],
                    "share": float(units.share[row]),
                }
                for row in rows[:_UNITS]
            ],
            "more_units": max(0, len(rows) - _UNITS),
            "ties": [
                {
                    "left": units.name(int(ties.mine[i])),
                    "right": units.name(int(ties.other[i])),
                    "reason": ties.reasons[ties.reason[i]],
                    "words": explain_reason(ties.reasons[ties.reason[i]])[0],
                    "score": float(ties.score[i]),
                }
                for i in self.ties[:_TIES]
            ],
            "more_ties": max(0, len(self.ties) - _TIES),
        }


class _Sent:
    """A file that hands on what was written to it."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def write(self, part: bytes) -> int:
        self.parts.append(part)
        return len(part)

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""

    def taken(self) -> bytes:
        """What was written since the last time."""
        found, self.parts = b"".join(self.parts), []
        return found


def zipped(run: Path, manner: StatementOptions) -> Iterator[bytes]:
    """All statements and index.csv, page by page; nothing is written to the run's folder."""
    sent = _Sent()
    with zipfile.ZipFile(sent, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in statement_pages(run, manner):
            archive.writestr(f"statements/{name}", text)
            yield sent.taken()
    yield sent.taken()


def one_page(
    run: Path, payee: str, manner: StatementOptions, tables: RunTables | None = None
) -> tuple[str, str]:
    """The name and the text of a payee's page; ``tables`` are the run's, where they are read already."""
    return file_name(payee), statement_text(run, payee, manner, tables)


_LONGEST, _SIDE = 1500, 280


def why(folder: Path, payee: str, progress: Progress) -> dict[str, Any]:
    """The explanation of one payment, in sentences and as the record."""
    progress.stage("reading what the run left")
    found = _explained(folder, payee)
    return {
        "identity": found.identity,
        "paid": payment_messages(found),
        "sent": list(submission_messages(found)),
        "needs": [] if found.needs is None else list(covered_lines(found.needs)),
        "fate": list(match_summary(found)),
        "others": list(other_messages(found)),
        "without": counterfactual_messages(found),
        "record": asdict(found),
        "reasons": {code: explain_reason(code) for tie in found.matches for code in tie.reasons},
    }


def _explained(folder: Path, payee: str, with_rows: bool = False) -> Explanation:
    tables = tables_of(folder)
    require_known("payee", [payee], tables.number)
    return explain_payee(tables, payee, SHOWN, with_rows)


def contents(
    on_show: NamedPlaces, folder: Path, payee: str, moved: MovedInputs, progress: Progress
) -> dict[str, Any]:
    """What the units hold that matched: those of the payee and those of others, by their names."""
    progress.stage("reading the run")
    ties = _explained(folder, payee).matches
    places = inputs_on_show(on_show, folder, moved)
    progress.stage("reading the inputs of the run")
    results = finished_results(folder, places)[1]
    wanted = {name for tie in ties for name in (tie.unit, tie.other)}
    rows = {row: name for row, name in enumerate(results.inputs.ids) if name in wanted}
    held = unit_contents(results, places, rows)
    return {"units": {rows[row]: render_content(each, _LONGEST, _SIDE) for row, each in held.items()}}


def what_if(
    on_show: NamedPlaces, folder: Path, payee: str, moved: MovedInputs, progress: Progress
) -> dict[str, Any]:
    """What the payee would have been paid without the evidence in its clusters: the market is scored again."""
    found = _explained(folder, payee)
    inputs_on_show(on_show, folder, moved)
    paid = without_its_evidence(
        folder,
        payee,
        moved.path("submissions"),
        moved.path("validation"),
        progress,
        moved.path("reference"),
    )
    money = Currency(found.currency)
    return {
        "minor": paid,
        "words": f"Without the evidence in its clusters it would have been paid {money.code} {money.shown(paid)}; with "
        f"it, it is paid {money.shown(found.paid)}.",
    }


def payee_needs(
    on_show: NamedPlaces, folder: Path, payee: str, moved: MovedInputs, progress: Progress
) -> dict[str, Any]:
    """Which validation rows the payee's units cover, in their own words; for the operator alone."""
    progress.stage("reading the validation rows")
    found = _explained(folder, payee, with_rows=True)
    if found.needs is None:
        raise not_known("There is nothing to show here")
    inputs_on_show(on_show, folder, moved)
    words = need_messages(folder, moved.path("validation"))
    return {"lines": list(covered_lines(found.needs, words)), "secret": SECRET}


def least_covered(
    on_show: NamedPlaces, folder: Path, moved: MovedInputs, progress: Progress
) -> dict[str, Any]:
    """Which validation rows are covered least; for the operator alone."""
    progress.stage("reading the validation rows")
    inputs_on_show(on_show, folder, moved)
    needs = RunNeeds.read(folder, moved.path("validation"), "There is nothing to show here")
    return {"lines": list(needs.least_covered_lines()), "secret": SECRET}


def statement(folder: Path, payee: str, pseudonyms: bool, progress: Progress) -> dict[str, Any]:
    """The statement of one payee, as a page to be saved and sent."""
    progress.stage("writing the statement")
    name, page = one_page(folder, payee, StatementOptions(pseudonyms), tables_of(folder))
    return {"file": name, "page": page}


def verified(on_show: NamedPlaces, folder: Path, progress: Progress) -> dict[str, Any]:
    """The files of a run against each other and against the book."""
    with suppress(LedgerError):  # which is told below
        require_log_on_show(on_show, run_of(folder))
    progress.stage("reading the files and the book")
    return _told([check._asdict() for check in verify(folder, progress=progress)], recomputed=False)


def recomputed(
    on_show: NamedPlaces, folder: Path, moved: MovedInputs, progress: Progress
) -> dict[str, Any]:
    """The same, and everything worked out again from the inputs, to the byte."""
    inputs_on_show(on_show, folder, moved)
    checks = verify(
        folder,
        True,
        moved.path("submissions"),
        moved.path("validation"),
        progress,
        moved.path("reference"),
    )
    return _told([check._asdict() for check in checks], recomputed=True)


def _told(checks: list[dict[str, Any]], recomputed: bool) -> dict[str, Any]:
    return {"checks": checks, "good": all(check["good"] for check in checks), "recomputed": recomputed}


DOWNLOADS = (
    "payments.csv", "payments.parquet", "evidence.parquet", "clusters.parquet", "canonical.parquet", "leaks.parquet",
    "quarantine.csv", "warnings.json", "threshold.json", "audit.json", MANIFEST,
)  # fmt: skip
"""Files of a run that somebody may want to keep, in the order in which they are offered."""
_COUNTLESS = (
    "payment",
    "carried_forward",
    "accepted",
)  # entries that a run has one of for each payee or warning


class Around(Document):
    """The runs and books on show: their ids, and where they are."""

    runs: tuple[tuple[str, str], ...] = ()
    books: tuple[tuple[str, str], ...] = ()


def run_page(folder: Path, around: Around, progress: Progress) -> dict[str, Any]:
    """All that stands above the tables of a run; ``around`` is what else is on show, which it links to."""
    progress.stage("reading the run and its book")
    manifest = read_manifest(folder)
    accounts = ledger_of(folder).accounts()
    record = run_of(folder, accounts)
    spec = spec_of(manifest)
    own, booked = read_warnings(folder), ledger_warnings(accounts, record)
    threshold = require_as_written(folder, manifest["outputs"], "threshold.json")
    return {
        **summary(record),
        "period": period_message(spec),
        "next": next_step(record, len(own) + len(booked)),
        "later": None if record.superseded is None else _id(Path(record.superseded[1]), around.runs),
        "book": next((name for name, where in around.books if where == _book_run_page(folder)), None),
        "warnings": [{**asdict(each), "more": each.more} for each in (*own, *booked)],
        "facts": _facts(manifest, record, spec),
        "divided": _divided(manifest),
        "level": f"{LEVEL:.0%}",
        "carried": has_balances(spec, [line.balance for line in record.lines]),
        "chart": _chart(folder, spec.money),
        "drawn": min(MOST_SHOWN, len(record.lines)),
        "evidence": {
            "used": manifest["evidence"]["used"],
            "why": evidence_message(Threshold.model_validate(_known(read_json(threshold)))),
        },
        "prior": acquired_messages(manifest, accounts),
        "has_needs": spec.learner.startswith("coverage"),
        "inputs": _inputs(manifest, record),
        "history": [_entry(each) for each in record.history if each.kind not in _COUNTLESS],
        "files": [name for name in DOWNLOADS if (folder / name).is_file()],
        "settles": (manifest["settles"] or {}).get("run"),
    }


def _id(folder: Path, runs: tuple[tuple[str, str], ...]) -> str | None:
    """The id of a run by its folder; None where it is not on show."""
    return next((name for name, where in runs if Path(where).resolve() == folder.resolve()), None)


def _book_run_page(folder: Path) -> str:
    receipt = read_receipt(folder)
    where = "" if receipt is None else receipt.ledger
    return where if is_address(where) else str(Path(where).resolve())


def _known(said: dict[str, Any]) -> dict[str, Any]:
    """What a threshold says, without the pictures beside it."""
    return {name: value for name, value in said.items() if name in Threshold.model_fields}


def _facts(manifest: dict[str, Any], record: RunRecord, spec: PayoutSpec) -> list[tuple[str, str]]:
    money = Currency(record.currency)
    paid = [line.paid for line in record.lines]
    owed = sum(line.balance for line in record.lines if line.balance > 0)
    return [
        ("amount", f"{money.code} {money.shown(record.amount)}"),
        ("identities paid", f"{sum(each > 0 for each in paid):,} of {len(paid):,}"),
        ("largest payment", f"{money.shown(max(paid))} ({max(paid) / record.amount:.0%})"),
        ("units", f"{manifest['units']:,}"),
        *([("bought before", f"{manifest['known']:,}")] if manifest.get("prior") else []),
        ("distinct units", f"{manifest['clusters']:,}"),
        ("ties", f"{manifest['ties']:,}"),
        *([("validation rows among them", f"{manifest['leaked']:,}")] if manifest["leaked"] else []),
        *([("rows set aside", f"{manifest['quarantined']:,}")] if manifest.get("quarantined") else []),
        ("checks asked for", f"{spec.checks} of each payee" if spec.checks else "none"),
        *([("carried", money.shown(owed))] if owed else []),
    ]


def _divided(manifest: dict[str, Any]) -> str:
    by = manifest["paid_for"]["divided"]
    return f"Divided among {manifest['identities']:,} identities by {by}. The payments add up to the amount exactly."


def _chart(folder: Path, money: Currency) -> dict[str, Any]:
    """The highest payments, as the report draws them."""
    rows = payments_leaf(folder, Leafing(), progress=SILENT)["rows"][:MOST_SHOWN]
    minor = [
        DrawnPayment(
            row["identity"], *(_minor(money, row[key]) for key in ("payment", "low", "high", "without_evidence"))
        )
        for row in rows
    ]  # fmt: skip
    return drawn_payments(minor, money)


def _minor(money: Currency, shown: str) -> int:
    return money.signed(shown.replace(",", "").replace("\N{MINUS SIGN}", "-"))


def _inputs(manifest: dict[str, Any], record: RunRecord) -> list[dict[str, Any]]:
    """Every input: its name and hash, and whether it still lies where it was."""
    found = []
    for role, said in manifest["inputs"].items():
        where = record.places.get(role)
        gone = (
            where is not None
            and not is_query(where)
            and "://" not in where
            and not os.path.exists(where)
        )
        found.append(
            {
                "role": role,
                "name": str(said["name"]),
                "bytes": said["bytes"],
                "sha256": said["sha256"],
                "gone": gone,
            }
        )
    return found


def _entry(entry: LedgerEntry) -> dict[str, Any]:
    return {
        "number": entry.number, "at": format_time(entry), "kind": entry.kind, "by": entry.by,
        "detail": describe_entry(entry),
    }  # fmt: skip
