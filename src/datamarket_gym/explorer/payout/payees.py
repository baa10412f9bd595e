"""The page of one payee of a run: why it is paid, what its units hold, what if, and its statement."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Response
from fastapi.responses import StreamingResponse

from datamarket_gym.errors import require_known
from datamarket_gym.execution.progress import Progress
from datamarket_gym.explorer.payout.runs import Run, RunWithInputs, tables_of
from datamarket_gym.explorer.routes import Routes, Site
from datamarket_gym.payout.checks.review_page import render_content, unit_contents
from datamarket_gym.payout.explain import (
    SHOWN,
    counterfactual_messages,
    covered_lines,
    match_summary,
    other_messages,
    payment_messages,
    submission_messages,
)
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.report.record import explain_reason
from datamarket_gym.payout.statements.page import (
    StatementOptions,
    file_name,
    statement_pages,
    statement_text,
)
from datamarket_gym.payout.statements.record import Explanation, explain_payee
from datamarket_gym.payout.stored_inputs import places_of
from datamarket_gym.payout.what_if import finished_results, without_its_evidence

_LONGEST, _SIDE = 1500, 280  # characters of a text, pixels of a picture
_BLOCK = 2**16  # bytes


def explain(run: Run, payee: str, *, progress: Progress) -> dict[str, Any]:
    """Explain one payment, in sentences and as the record."""
    progress.stage("reading what the run left")
    record = _explanation(run, payee)
    return {
        "identity": record.identity,
        "paid": payment_messages(record),
        "submitted": list(submission_messages(record)),
        "needs": [] if record.needs is None else list(covered_lines(record.needs)),
        "matched": list(match_summary(record)),
        "others": list(other_messages(record)),
        "without": counterfactual_messages(record),
        "record": asdict(record),
        "reasons": {code: explain_reason(code) for match in record.matches for code in match.reasons},
    }


def _explanation(folder: Path, payee: str) -> Explanation:
    tables = tables_of(folder)
    require_known("payee", [payee], tables.number)
    return explain_payee(tables, payee, SHOWN)


def contents(run: RunWithInputs, payee: str, *, progress: Progress) -> dict[str, Any]:
    """Show what the units hold that matched: those of the payee and those of others, by their names."""
    progress.stage("reading the run and its inputs")
    matches, places = _explanation(run, payee).matches, places_of(run)
    results = finished_results(run, places)[1]
    wanted = {name for match in matches for name in (match.unit, match.other)}
    rows = {row: name for row, name in enumerate(results.inputs.ids) if name in wanted}
    units = unit_contents(results, places, rows)
    return {"units": {rows[row]: render_content(unit, _LONGEST, _SIDE) for row, unit in units.items()}}


def what_if(run: RunWithInputs, payee: str, *, progress: Progress) -> dict[str, Any]:
    """Score the market again without the evidence in the payee's clusters."""
    record = _explanation(run, payee)
    paid = without_its_evidence(run, payee, progress=progress)
    money = Currency(record.currency)
    return {
        "minor": paid,
        "words": f"Without the evidence in its clusters it would have been paid {money.code} {money.shown(paid)}; with "
        f"it, it is paid {money.shown(record.paid)}.",
    }


def statements_zip(run: Path, options: StatementOptions) -> Iterator[bytes]:
    """Pack all statements and index.csv; nothing is written to the run's folder."""
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in statement_pages(run, options):
                archive.writestr(f"statements/{name}", text)
        file.seek(0)
        yield from iter(lambda: file.read(_BLOCK), b"")


def attached(name: str, text: str, kind: str) -> Response:
    """Respond with a text that the browser saves."""
    disposition = f"attachment; filename*=UTF-8''{quote(name)}"
    return Response(text, media_type=kind, headers={"content-disposition": disposition})


def router(site: Site) -> APIRouter:
    """Build the routes of payees."""
    routes = Routes("/api/payout", site)
    routes.answer("GET", "/why", explain)
    routes.answer("POST", "/contents", contents)
    routes.answer("POST", "/what-if", what_if, long=True)

    @routes.get("/statements")
    def get_statements(
        run: str, payee: str = "", show_names: bool = False, contact: str = ""
    ) -> Response:
        folder, options = site.places.run(run), StatementOptions(show_names, contact or None)
        if payee:
            return attached(file_name(payee), statement_text(folder, payee, options), "text/html")
        disposition = {"content-disposition": 'attachment; filename="statements.zip"'}
        pages = statements_zip(folder, options)
        return StreamingResponse(pages, media_type="application/zip", headers=disposition)

    return routes
