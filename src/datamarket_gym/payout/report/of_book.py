"""The state on a report, from the book: what a run's entries come to, and whether a page says what they came to.

A page may be behind (its folder is a copy, or the process was killed after the book was written): what it says must
have been so once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.payout.book.entry import BookEntry
from datamarket_gym.payout.book.run_record import STATES
from datamarket_gym.payout.report.state import NAME, ReportState, drafted, read_report, restate, restated
from datamarket_gym.payout.verdicts import Check

_SHOWN = (*STATES, "approval")


def report_state(history: Sequence[BookEntry]) -> ReportState | None:
    """What the entries of a run come to; None for a draft that nobody has approved, as the page is written with."""
    last = [entry for entry in history if entry.kind in _SHOWN]
    if [entry.kind for entry in last] == ["draft"]:
        return None
    found = {entry.kind: entry for entry in last if entry.kind in STATES}
    paid, checked, gone = found.get("paid"), found.get("checked"), found.get("superseded")
    return ReportState(
        state=[entry.kind for entry in last if entry.kind in STATES][-1],
        entered=found["draft"].at,
        approved=[(entry.by, entry.at) for entry in last if entry.kind == "approval"],
        paid=None if paid is None else (paid.by, paid.at, str(paid.content["reference"])),
        superseded=None if gone is None else str(gone.content["by_run"]),
        checks="" if checked is None else str(checked.content["detail"]),
        checked_at="" if checked is None else checked.at,
        superseded_at="" if gone is None else gone.at,
    )


def bring_up_to_date(folder: Path, history: Sequence[BookEntry]) -> None:
    """Put the state of a run on its report, where there is one that can hold it."""
    if (folder / NAME).is_file():
        with suppress(
            DataMarketError, UnicodeDecodeError
        ):  # `verify` says what is wrong with such a page
            restate(folder, report_state(history))


def as_drafted(folder: Path) -> bytes:
    """The bytes of a report without the state that was put on it later; all of them where there is no place for one."""
    try:
        return drafted(read_report(folder)).encode()
    except (DataMarketError, UnicodeDecodeError):
        return (folder / NAME).read_bytes()


def stated(folder: Path, history: Sequence[BookEntry]) -> Check:
    """Whether the state on a report is the run's, or was so once; and a word on it."""
    page, what = read_report(folder), f"{NAME}, state"
    ends = [n for n, entry in enumerate(history, 1) if entry.kind in _SHOWN]
    said = [n for n in ends if restated(page, report_state(history[:n])) == page]
    if not said:
        return Check(what, False, "the page says otherwise than the book")
    if said[-1] != ends[-1]:
        now = [entry.kind for entry in history if entry.kind in STATES][-1]
        return Check(
            what, True, f"behind: the run is {now}; datamarket ledger show brings it up to date"
        )
    return Check(what, True, "as the book has it")
