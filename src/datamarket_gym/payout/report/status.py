"""The state of a payday on its report: the one section that changes after the page was written.

The report is written with the draft and its bytes are in the manifest; who approved it, and when, is known later. So
the page has one section between two comments. `restated` puts another state there, `drafted` gives the page as it was
drafted, byte for byte. Whatever else stands on the page is escaped and can hold neither comment.

The state on a report, from the ledger: what a run's entries come to, and whether a page says what they came to.

A page may be behind (its folder is a copy, or the process was killed after the ledger was written): what it says must
have been so once.
"""

from __future__ import annotations

import datetime
import html
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.files import replacing
from datamarket_gym.payout.ledger.entries import STATES, LedgerEntry
from datamarket_gym.payout.manifest import Check
from datamarket_gym.payout.names import visible

NAME = "report.html"
BEGINS, ENDS = "<!-- state -->", "<!-- /state -->"
_SAID = {
    "draft": "Not approved.",
    "checked": "Units were checked. Not approved.",
    "approved": "Not yet paid.",
    "paid": "",
    "superseded": "Not to be paid: another run took its place.",
}

_LATER = (
    "What came after the approval (corrections, holds, payments that came back, disputes) is not on this page: "
    "<code>datamarket ledger show</code>."
)


@dataclass(frozen=True)
class ReportState:
    """What the ledger says of a run, in plain values; times as ISO 8601."""

    state: str
    entered: str
    approved: list[tuple[str, str]]  # by whom, when
    paid: tuple[str, str, str] | None = None  # by whom, when, reference
    superseded: str | None = None  # by which run
    checks: str = ""  # what came of the checks
    checked_at: str = ""
    superseded_at: str = ""


def restated(page: str, state: ReportState | None) -> str:
    """A report with another state; None: as it was drafted."""
    before, begins, rest = page.partition(BEGINS)
    _, ends, after = rest.partition(ENDS)
    if not begins or not ends or BEGINS in after or ENDS in before or ENDS in after:
        raise DataMarketError(
            "this is not a report as a run writes it: the section on the run's state is missing, or there are two; "
            "pay again into another folder, which writes the same report"
        )
    return f"{before}{section(state)}{after}"


def drafted(page: str) -> str:
    """A report as it was when the run was drafted: what the manifest has the hash of."""
    return restated(page, None)


def read_report(folder: Path) -> str:
    """The report of a run, every byte of it."""
    return (folder / NAME).read_bytes().decode("utf-8")


def restate(folder: Path, state: ReportState | None) -> None:
    """Write the state into the report of a run, where it is another."""
    old = read_report(folder)
    new = restated(old, state)
    if new != old:
        with replacing(folder / NAME) as part:
            part.write_bytes(new.encode("utf-8"))


def section(state: ReportState | None) -> str:
    """The section, the comments around it included."""
    name = "draft" if state is None else state.state
    said = " ".join(
        filter(
            None, [f"<strong>{html.escape(visible(name.capitalize()))}.</strong>", _SAID.get(name, "")]
        )
    )
    lines = [
        BEGINS,
        f'<section class="state {_class(name)}" aria-label="State of this payday">',
        f"<p>{said}</p>",
    ]
    if state is not None:
        rows = [("Entered", _moment(state.entered))]
        rows += [("Checks", f"{_text(state.checks)}{_since(state.checked_at)}")] if state.checks else []
        rows += [("Approved", f"by {_text(by)}, {_moment(at)}") for by, at in state.approved]
        if state.paid is not None:
            by, at, reference = state.paid
            rows.append(("Paid", f"by {_text(by)}, {_moment(at)}, reference {_text(reference)}"))
        if state.superseded is not None:
            rows.append(
                (
                    "Replaced by",
                    f"run <code>{_text(state.superseded)}</code>{_since(state.superseded_at)}",
                )
            )
        lines += [
            "<dl>",
            *(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in rows),
            "</dl>",
        ]
    if name in ("approved", "paid"):
        lines.append(f'<p class="soft">{_LATER}</p>')
    return "\n".join([*lines, "</section>", ENDS])


def _text(text: str) -> str:
    return f"<bdi>{html.escape(visible(text, 200))}</bdi>"


def _since(at: str) -> str:
    return f", {_moment(at)}" if at else ""


def _moment(text: str) -> str:
    """A time as people read it; what is none stands as it is."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return _text(text)
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC)
    return f"{moment:%Y-%m-%d %H:%M}{' UTC' if moment.tzinfo is not None else ''}"


def _class(name: str) -> str:
    return name if name in _SAID else "draft"


_SHOWN = (*STATES, "approval")


def report_state(history: Sequence[LedgerEntry]) -> ReportState | None:
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


def bring_up_to_date(folder: Path, history: Sequence[LedgerEntry]) -> None:
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


def stated(folder: Path, history: Sequence[LedgerEntry]) -> Check:
    """Whether the state on a report is the run's, or was so once; and a word on it."""
    page, what = read_report(folder), f"{NAME}, state"
    ends = [n for n, entry in enumerate(history, 1) if entry.kind in _SHOWN]
    said = [n for n in ends if restated(page, report_state(history[:n])) == page]
    if not said:
        return Check(what, False, "the page says otherwise than the ledger")
    if said[-1] != ends[-1]:
        now = [entry.kind for entry in history if entry.kind in STATES][-1]
        return Check(
            what, True, f"behind: the run is {now}; datamarket ledger show brings it up to date"
        )
    return Check(what, True, "as the ledger has it")
