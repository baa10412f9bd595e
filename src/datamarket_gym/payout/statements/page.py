"""A statement as a page: one file without network, which prints on A4 and can be read on a telephone."""

from __future__ import annotations

from dataclasses import dataclass

from datamarket_gym.core.screen import counted, listed
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.report.html import filled, style_sheet
from datamarket_gym.payout.statements import words
from datamarket_gym.payout.statements.record import Explanation
from datamarket_gym.payout.statements.state import RunState
from datamarket_gym.payout.statements.words import Others, ToldMatch

_CONTACT = "Answer whoever sent you this page, and do so soon: what is approved is corrected only by a later entry."
_NAMES = 10
_KEPT, _OWED = "kept for you until the next payout", "not asked of you now; it counts in the next payout"
_BEFORE, _CORRECTED = "carried over from earlier payouts", "corrected later by"
_CHANGES = (_KEPT, _OWED, _BEFORE, _CORRECTED)  # what is added or taken, and shown with its sign


@dataclass(frozen=True)
class StatementPage:
    """All that a statement shows, as plain values; texts are escaped by the template."""

    title: str
    name: str
    run: str
    period: str
    kind: str
    state: str
    paid: str
    corrected: str
    units: str
    sent: list[tuple[str, int]]
    bought: list[tuple[str, str]]
    bought_more: int
    unusable: list[tuple[str, str]]
    unusable_more: int
    matches: list[ToldMatch]
    besides: list[str]
    repeated: int
    together: str
    money: list[tuple[str, str]]
    divided: str
    covered: str
    best: list[tuple[str, str]]
    interval: str
    without: str
    checks: str
    failed: bool
    contact: str
    as_of: str


def statement_page(
    found: Explanation, state: RunState, amount: int, payees: int, pseudonyms: bool, contact: str | None
) -> StatementPage:
    """A payee's statement; ``amount`` was divided among so many ``payees``."""
    money, others = Currency(found.currency), Others(pseudonyms)

    def text(minor: int) -> str:
        return f"{money.code}\N{NO-BREAK SPACE}{money.shown(minor)}"

    def added(minor: int) -> str:
        return f"{money.code}\N{NO-BREAK SPACE}{'+' if minor > 0 else ''}{money.shown(minor)}"

    change = state.corrected(found.identity)
    matches = words.matches(found, others)
    return StatementPage(
        title=f"Statement for {visible(found.identity)}",
        name=visible(found.identity),
        run=found.run,
        period=visible(state.period, 200),
        state=state.words(found.identity, found.paid),
        kind="waiting" if state.waiting(found.identity) else state.record.state,
        paid=text(found.paid),
        corrected=f"Corrected since by {added(change)}: {text(found.paid + change)} in all."
        if change
        else "",
        units=counted(found.units, "unit"),
        sent=words.sent(found),
        bought=words.bought(found, others),
        bought_more=max(0, len(found.bought) - words.MOST_UNITS),
        unusable=words.unusable(found),
        unusable_more=max(0, len(found.unusable) - words.MOST_UNITS),
        matches=matches,
        besides=words.merged_besides(found, others),
        repeated=found.repeated,
        together=listed(map(others.name, found.together), _NAMES),
        money=[
            (what, (added if what in _CHANGES else text)(minor)) for what, minor in _money(found, change)
        ],
        divided=f"{text(amount)} were divided among {counted(payees, 'payee')} by {found.divided}."
        + words.beyond(found),
        covered=words.covered(found),
        best=words.best_units(found),
        interval=words.interval(found, text(found.low), text(found.high)),
        without=""
        if found.checks.outcome in ("failed", "not checked")  # not paid either way
        else f"Had nothing been taken for the same, of anybody, you would be paid {text(found.without_any_evidence)}"
        + (" (what was bought before left out)." if found.bought else "."),
        checks=words.checks(found),
        failed=found.checks.outcome == "failed",
        contact=contact or _CONTACT,
        as_of=state.as_of,
    )


def _money(found: Explanation, corrected: int) -> list[tuple[str, int]]:
    """From the payee's part to what is paid, where they differ by balances, and what was corrected later."""
    if not found.opening and not found.balance and not corrected:
        return []
    rows = [("your part of this payout", found.entitled - found.opening)]
    if found.opening:
        rows.append((_BEFORE, found.opening))
    if found.balance:
        rows.append((_KEPT if found.balance > 0 else _OWED, -found.balance))
    rows.append(("this payout pays you", found.paid))
    if corrected:
        rows += [(_CORRECTED, corrected), ("after the correction", found.paid + corrected)]
    return rows


def rendered(page: StatementPage) -> str:
    """The page as HTML."""
    return filled("statement.html.j2", page, style_sheet("statement.css"), [])
