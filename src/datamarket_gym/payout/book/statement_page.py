"""A statement as one page of HTML: no script, no network, escaped; for a screen of any width and for paper."""

from __future__ import annotations

from dataclasses import dataclass

from datamarket_gym.payout.book.statement import (
    AccountStatement,
    CurrencyAccount,
    Owed,
    StatementLine,
    StatementRun,
)
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.report.html import Row, filled, style_sheet

STATES = {
    "draft": "draft",
    "checked": "checked, not approved",
    "approved": "approved",
    "paid": "paid",
}


@dataclass(frozen=True)
class AccountPage:
    """All that the page shows, as plain values; texts are escaped by the template."""

    payee: str
    days: str
    notes: list[str]
    accounts: list[Row]
    drafts: list[Row]
    events: list[Row]
    open_disputes: list[Row]
    number: int
    head: str
    at: str


def statement_html(statement: AccountStatement) -> str:
    """The statement as a page."""
    return filled("account.html.j2", account_page(statement), style_sheet("account.css"), [])


def account_page(statement: AccountStatement) -> AccountPage:
    """What the page shows."""
    return AccountPage(
        payee=visible(statement.payee),
        days=days_of(statement),
        notes=told(statement),
        accounts=[_account(account) for account in statement.accounts],
        drafts=[run_row(run) for run in statement.drafts],
        events=[
            {"entry": event.entry.number, "day": event.entry.at[:10], "words": event.words}
            for event in statement.events
        ],
        open_disputes=[
            {"number": each.number, "payee": visible(each.payee), "run": each.run[:16]}
            for each in statement.disputes
            if each.open
        ],
        number=statement.number,
        head=statement.head,
        at=statement.at,
    )


def days_of(statement: AccountStatement) -> str:
    """Which days it is about, in words."""
    since, until = statement.since, statement.until
    first = f"From {since}" if since else "From the first entry"
    return f"{first} to {until}" if until else f"{first} to {statement.at[:10]}"


def told(statement: AccountStatement) -> list[str]:
    """What is to be read before the figures."""
    held = [f"Payments are held: {visible(statement.held, 500)}"] if statement.held else []
    over = [
        f"{account.currency} {Currency(account.currency).shown(-account.closing.payable)} were paid too much by now; "
        "they are set off against what is paid later."
        for account in statement.accounts
        if account.closing.payable < 0
    ]
    return [*held, *over, *statement.notes]


def run_row(run: StatementRun) -> Row:
    """A run as texts."""
    shown = Currency(run.currency).shown
    return {
        "day": str(run.day),
        "period": visible(run.period, 200),
        "run": run.run[:16],
        "state": STATES[run.state],
        "beside": "another run for this period is approved" if run.overtaken else "",
        "currency": run.currency,
        "earned": shown(run.earned),
        "paid": shown(run.paid),
        "carried": ("+" if run.carried > 0 else "") + shown(run.carried),
    }


def amount_of(line: StatementLine, money: Currency) -> str:
    """The amount of a line: with its sign, or without where it moves from one place to another."""
    whole = line.change.all
    return ("+" if whole > 0 else "") + money.shown(whole or line.entry.amount)


def shown_places(account: CurrencyAccount) -> dict[str, str]:
    """The places to show, and their headings: those where there is, or was, something; what is owed always."""
    everything = [account.opening, account.closing, *(line.after for line in account.lines)]
    heads = {"payable": "owed", "outgoing": "on its way", "sent": "sent", "carried": "carried"}
    return {
        name: head
        for name, head in heads.items()
        if name == "payable" or any(getattr(owed, name) for owed in everything)
    }


def _account(account: CurrencyAccount) -> Row:
    money = Currency(account.currency)
    places = shown_places(account)

    def cells(owed: Owed) -> list[str]:
        return [money.shown(getattr(owed, name)) for name in places]

    return {
        "currency": account.currency,
        "heads": list(places.values()),
        "facts": list(zip(places.values(), cells(account.closing), strict=True)),
        "opening": cells(account.opening),
        "closing": cells(account.closing),
        "carries": any(run.carried for run in account.runs),
        "earned": money.shown(account.earned),
        "runs": [run_row(run) for run in account.runs],
        "lines": [
            {
                "entry": line.entry.number,
                "day": line.entry.at[:10],
                "words": line.words,
                "period": visible(line.period, 200),
                "run": line.entry.run[:16],
                "amount": amount_of(line, money),
                "moves": not line.change.all,
                "after": cells(line.after),
                "changed": [bool(getattr(line.change, name)) for name in places],
            }
            for line in account.lines
        ],
    }
