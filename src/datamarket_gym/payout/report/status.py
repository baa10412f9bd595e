"""The state of a run on its report, from the ledger: the one section that changes after the page was written.

The report is written with the draft, and the manifest has its hash; who approved it, and when, is known later. So the
page has one section between two comments, which no escaped text can hold: `restate_report` puts another state there,
or gives the page as it was drafted. A page may be behind the ledger (its folder is a copy, or the process was killed
after an entry was made): what it says must have been so once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.files import replacing
from datamarket_gym.payout.ledger.entries import STATES, LedgerEntry
from datamarket_gym.payout.manifest import Check
from datamarket_gym.payout.report.html import fill_template

NAME = "report.html"
BEGINS, ENDS = "<!-- state -->", "<!-- /state -->"
_SHOWN = (*STATES, "approval")


@dataclass(frozen=True)
class ReportState:
    """What the ledger says of a run, in plain values; times as ISO 8601."""

    state: str
    entered: str
    approved: list[tuple[str, str]]  # by whom, when
    paid: tuple[str, str, str] | None = None  # by whom, when, reference
    superseded: str | None = None  # by which run
    checks: str = ""  # what came of the spot checks
    checked_at: str = ""
    superseded_at: str = ""


def report_state(history: Sequence[LedgerEntry]) -> ReportState | None:
    """Return what the entries of a run come to; None for a draft, as the page is written with."""
    shown = [entry for entry in history if entry.kind in _SHOWN]
    if [entry.kind for entry in shown] == ["draft"]:
        return None
    last = {entry.kind: entry for entry in shown if entry.kind in STATES}
    paid, checked, superseded = last.get("paid"), last.get("checked"), last.get("superseded")
    return ReportState(
        state=[entry.kind for entry in shown if entry.kind in STATES][-1],
        entered=last["draft"].at,
        approved=[(entry.by, entry.at) for entry in shown if entry.kind == "approval"],
        paid=None if paid is None else (paid.by, paid.at, str(paid.content["reference"])),
        superseded=None if superseded is None else str(superseded.content["by_run"]),
        checks="" if checked is None else str(checked.content["detail"]),
        checked_at="" if checked is None else checked.at,
        superseded_at="" if superseded is None else superseded.at,
    )


def restate_report(page: str, state: ReportState | None) -> str:
    """Return a report with another state; None: as it was drafted."""
    before, begins, rest = page.partition(BEGINS)
    _, ends, after = rest.partition(ENDS)
    if not begins or not ends or any(mark in before + after for mark in (BEGINS, ENDS)):
        raise DataMarketError(
            f"{NAME} is not as this version writes it: the section on the run's state is missing, or there are two; "
            "pay again into another folder, which writes the same report"
        )
    return f"{before}{fill_template('state.html.j2', state=state)}{after}"


def read_report(folder: Path) -> str:
    """Read the report of a run, every byte of it."""
    return (folder / NAME).read_bytes().decode("utf-8")


def update_report(folder: Path, history: Sequence[LedgerEntry]) -> None:
    """Write the state of a run into its report, where there is one that can hold it."""
    if not (folder / NAME).is_file():
        return
    with suppress(DataMarketError, UnicodeDecodeError):  # `verify` says what is wrong with such a page
        old = read_report(folder)
        new = restate_report(old, report_state(history))
        if new != old:
            with replacing(folder / NAME) as part:
                part.write_bytes(new.encode("utf-8"))


def read_draft(folder: Path) -> bytes:
    """Read a report without the state that was put on it later; all of it where there is no place for one."""
    try:
        return restate_report(read_report(folder), None).encode()
    except (DataMarketError, UnicodeDecodeError):
        return (folder / NAME).read_bytes()


def check_state(folder: Path, history: Sequence[LedgerEntry]) -> Check:
    """Check that the state on a report is the run's, or was so once."""
    page, what = read_report(folder), f"{NAME}, state"
    ends = [n for n, entry in enumerate(history, 1) if entry.kind in _SHOWN]
    matching = [n for n in ends if restate_report(page, report_state(history[:n])) == page]
    if not matching:
        return Check(what, False, "the page says otherwise than the ledger")
    if matching[-1] != ends[-1]:
        now = [entry.kind for entry in history if entry.kind in STATES][-1]
        return Check(
            what, True, f"behind: the run is {now}; datamarket ledger show brings it up to date"
        )
    return Check(what, True, "as the ledger has it")
