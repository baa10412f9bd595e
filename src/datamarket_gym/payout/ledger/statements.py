"""Entries of the ledger in words, for screens and pages.

The account statement of a payee: everything that the ledger holds about one name, currency by currency.

Each line is an entry that moves the payee's money, with what is then owed, on its way, sent and carried (the four
places of `payout.ledger.accounts`). With *b* before the first line and *a* after the last,

    a = b + sum of the changes of the lines,

and the changes of all lines of all times, those left out included, are what the accounts say. Both are checked; a
statement that does not add up to the cent is an error.

A statement as one page of HTML: no script, no network, escaped; for a screen of any width and for paper.

A statement as CSV, for programs: one row an entry, amounts in plain decimals, texts safe for spreadsheets.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from datamarket_gym.display import Shown, counted
from datamarket_gym.errors import ParameterError
from datamarket_gym.payout.ledger.balances import EFFECTS, Accounts, Dispute, Rules
from datamarket_gym.payout.ledger.entries import (
    APPROVED,
    RECEIVED,
    LedgerEntry,
    LedgerError,
    RunRecord,
)
from datamarket_gym.payout.ledger.transactions import require_payee
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import csv_text, visible
from datamarket_gym.payout.report.pages import Row, render_page

_SAID = ("detail", "title", "why", "reference", "beacon", "manifest", "outcomes")


def format_time(entry: LedgerEntry) -> str:
    """When an entry was made, to the second; the ledger keeps UTC."""
    return entry.at[:19].replace("T", " ")


def describe_entry(entry: LedgerEntry) -> str:
    """What an entry says beyond its kind, in a line."""
    said = entry.content
    if entry.kind == "answers":
        return f"{said['new']} new; outcomes {said['outcomes']}"
    if entry.kind == "accepted":
        return f"{said['warning']}: {said['title']}"
    if entry.kind == "dispute":
        return f"dispute {said['number']}: {said['about']}"
    if entry.kind in ("resolved", "revoked"):
        return f"dispute {said['number']} {said.get('outcome', entry.kind)}: {said['why']}"
    if entry.kind == RECEIVED:
        return f"{counted(said['units'], 'unit')}, sha256 {said['sha256'][:16]}"
    if entry.kind == "proposed":
        return f"for {said['for']}: {said['why']}"
    if entry.kind == "superseded":
        return f"{said['detail']}; by run {said['by_run']}"
    found = [
        f"{name} {str(said[name])[:16]}" if name in _SAID[5:] else str(said[name])
        for name in _SAID
        if name in said
    ]
    if "of" in said:
        found.append(f"of entry {said['of']}")
    if "clock" in said:
        found.append(str(said["clock"]))
    return "; ".join(found)


def entry_messages(entry: LedgerEntry) -> list[str]:
    """What was entered by hand, in a line; and that others must say so, too, where they must."""
    amount = f" {entry.currency} {Currency(entry.currency).text(entry.amount)}" if entry.currency else ""
    said = [f"entry {entry.number}: {entry.kind}{amount}, {visible(entry.payee)}"]
    if entry.kind == "proposed":
        said.append(
            "The ledger asks for several people: it moves once others have entered the same, under their names."
        )
    return said


def rule_messages(rules: Rules) -> list[str]:
    """The rules of a ledger, and who asks for others."""
    least = ", ".join(
        f"{code} {Currency(code).text(least)}" for code, least in rules.least.items() if least
    )
    people = "1 person approves" if rules.approvals == 1 else f"{rules.approvals} people approve"
    said = [f"{people} a run; {f'at least {least} are sent' if least else 'any amount is sent'}."]
    for wanted, asking in rules.asking.items():
        names = ", ".join(visible(name) for name in asking)
        said.append(
            f"Asked for by {names}: {wanted}. It stands once {rules.approvals} people have asked."
        )
    return said


def describe_effects(dispute: Dispute, entries: Sequence[LedgerEntry]) -> list[str]:
    """What follows from a dispute."""
    decided = dispute.resolution
    if decided is None:
        return [f"held: {', '.join(visible(name) for name in dispute.holds)}"] if dispute.holds else []
    lines = []
    for number in decided.corrections:
        entry = entries[number - 1]
        text = Currency(entry.currency).text(entry.amount)
        lines.append(f"correction of {entry.currency} {text} to {visible(entry.payee)} (entry {number})")
    for each in decided.overrides:
        names = ", ".join(visible(name) for name in each.units or each.identities)
        kind = "units" if each.units else "payees"
        ended = ", ended" if dispute.revoked else ", in every run to come"
        lines.append(f"{each.action} {kind} {names}{ended}")
    return lines


def balances_by_payee(accounts: Accounts) -> tuple[list[str], dict[tuple[str, str], list[int]]]:
    """Where the money of each payee is, by payee and currency, and the names of the places.

    Places where there is nothing of anybody's are left out, owed never.
    """
    places = {
        "carried": accounts.balance, "owed": accounts.payable, "ordered": accounts.outgoing, "sent": accounts.sent,
    }  # fmt: skip
    places = {name: place for name, place in places.items() if name == "owed" or any(place.values())}
    keys = sorted({key for place in places.values() for key, amount in place.items() if amount})
    return list(places), {key: [place.get(key, 0) for place in places.values()] for key in keys}


_LONGEST = 500  # characters of what somebody wrote


@dataclass(frozen=True)
class Owed:
    """Where a payee's money is, in minor units of one currency."""

    payable: int = 0
    outgoing: int = 0
    sent: int = 0
    carried: int = 0

    def plus(self, other: Owed) -> Owed:
        """Both together."""
        return Owed(
            self.payable + other.payable,
            self.outgoing + other.outgoing,
            self.sent + other.sent,
            self.carried + other.carried,
        )

    @property
    def all(self) -> int:
        """The sum over the places: what moves between them leaves it as it is."""
        return self.payable + self.outgoing + self.sent + self.carried


@dataclass(frozen=True)
class StatementLine:
    """An entry that moves the payee's money; ``after`` is where it is then."""

    entry: LedgerEntry
    period: str
    words: str
    change: Owed
    after: Owed


@dataclass(frozen=True)
class StatementRun:
    """What a run says of the payee: earned in it, paid now, and what that adds to the carried balance."""

    run: str
    period: str
    currency: str
    state: str
    day: datetime.date  # of its approval; of its entry, for drafts
    earned: int
    paid: int
    carried: int
    overtaken: bool = False  # of a draft: a later run for the same period is approved


@dataclass(frozen=True)
class StatementEvent:
    """What happened to the payee and moved no money by itself: holds, disputes, failed checks."""

    entry: LedgerEntry
    words: str


@dataclass(frozen=True)
class CurrencyAccount:
    """The payee's account in one currency, between two days."""

    currency: str
    opening: Owed
    lines: tuple[StatementLine, ...]
    closing: Owed
    runs: tuple[StatementRun, ...]

    def moved(self, *kinds: str) -> int:
        """The sum of the amounts of the lines of some kinds."""
        return sum(line.entry.amount for line in self.lines if line.entry.kind in kinds)

    @property
    def earned(self) -> int:
        """What the runs of this time found the payee's units to be worth."""
        return sum(run.earned for run in self.runs)


@dataclass(frozen=True)
class AccountStatement(Shown):
    """All that the ledger holds about a payee, and the tip of its chain."""

    payee: str
    since: datetime.date | None
    until: datetime.date | None
    accounts: tuple[CurrencyAccount, ...]
    drafts: tuple[StatementRun, ...]
    events: tuple[StatementEvent, ...]
    disputes: tuple[Dispute, ...]
    held: str  # why; empty where payments are not held
    notes: tuple[str, ...]
    number: int
    tip: str
    at: str

    @property
    def checkpoint(self) -> str:
        """The line that says how far the ledger went: number, hash and time of its last entry."""
        return f"{self.number} {self.tip} {self.at}"


def account_statement(
    accounts: Accounts,
    payee: str,
    since: datetime.date | None = None,
    until: datetime.date | None = None,
) -> AccountStatement:
    """Make the statement of a payee.

    Parameters
    ----------
    accounts
        The balances and transactions of the ledger.
    payee
        The payee.
    since, until
        The first and the last day; all days if left out.

    Returns
    -------
    AccountStatement
        The statement.
    """
    if since is not None and until is not None and since > until:
        raise ParameterError("from", str(since), f"it is later than --to {until}; swap them")
    require_payee(accounts, payee)
    runs = [record for record in accounts.runs.values() if _paid_to(record, payee)]
    approved = [_run(record, payee) for record in runs if record.state in APPROVED]
    drafts = [
        replace(_run(record, payee), overtaken=_overtaken(record, runs))
        for record in runs
        if record.state in ("draft", "checked")
    ]
    within = [run for run in approved if _between(run.day, since, until)]
    own = [entry for entry in accounts.entries if entry.payee == payee]
    moves = [entry for entry in own if entry.kind in EFFECTS]
    currencies = sorted({entry.currency for entry in moves} | {run.currency for run in approved})
    made = [_account(accounts, payee, currency, moves, within, since, until) for currency in currencies]
    events = [
        StatementEvent(entry, words)
        for entry in accounts.entries
        if (words := _event(accounts, entry, payee)) and _between(day_of(entry), since, until)
    ]
    return AccountStatement(
        payee=payee,
        since=since,
        until=until,
        accounts=tuple(account for account in made if account is not None),
        drafts=tuple(drafts),
        events=tuple(events),
        disputes=tuple(d for d in accounts.disputes.by_number.values() if payee in (d.payee, d.against)),
        held=accounts.holds.get(payee, ""),
        notes=tuple(_notes(approved, drafts, own)),
        number=accounts.number,
        tip=accounts.tip,
        at=accounts.at,
    )


def day_of(entry: LedgerEntry) -> datetime.date:
    """The day of an entry, in UTC."""
    return datetime.datetime.fromisoformat(entry.at).astimezone(datetime.UTC).date()


def _account(
    accounts: Accounts,
    payee: str,
    currency: str,
    moves: Sequence[LedgerEntry],
    runs: Iterable[StatementRun],
    since: datetime.date | None,
    until: datetime.date | None,
) -> CurrencyAccount:
    """The lines of a currency, their running sums, and the proof that these are the ledger's."""
    opening, later, lines = Owed(), Owed(), list[LedgerEntry]()
    for entry in moves:
        if entry.currency != currency:
            continue
        day = day_of(entry)
        if since is not None and day < since:
            opening = opening.plus(_change(entry))
        elif until is not None and day > until:
            later = later.plus(_change(entry))
        else:
            lines.append(entry)
    at, shown = opening, []
    for entry in lines:
        at = at.plus(_change(entry))
        shown.append(StatementLine(entry, _period(accounts, entry), _words(entry), _change(entry), at))
    account = CurrencyAccount(
        currency, opening, tuple(shown), at, tuple(run for run in runs if run.currency == currency)
    )
    _require_sums(accounts, payee, account, at.plus(later))
    return account


def _require_sums(accounts: Accounts, payee: str, account: CurrencyAccount, last: Owed) -> None:
    """Refuse a statement that is not what the accounts say, or whose lines are not what its runs pay."""
    key = (payee, account.currency)
    places = (accounts.payable, accounts.outgoing, accounts.sent, accounts.balance)
    said = Owed(*(place.get(key, 0) for place in places))
    paid, carried = (sum(getattr(run, name) for run in account.runs) for name in ("paid", "carried"))
    good = (
        said == last
        and (account.moved("payment"), account.moved("carried_forward")) == (paid, carried)
        and account.earned == paid + carried
    )
    if not good:
        raise LedgerError(
            f"the statement of {visible(payee)!r} in {account.currency} does not add up: its lines come to {last}, the "
            f"ledger says {said}, and its runs pay {paid} and carry {carried}; run: datamarket verify LEDGER"
        )


def _change(entry: LedgerEntry) -> Owed:
    return Owed(*(sign * entry.amount for sign in EFFECTS[entry.kind]))


def _between(day: datetime.date, since: datetime.date | None, until: datetime.date | None) -> bool:
    return (since is None or since <= day) and (until is None or day <= until)


def _paid_to(record: RunRecord, payee: str) -> bool:
    return any(line.identity == payee for line in record.lines)


def _run(record: RunRecord, payee: str) -> StatementRun:
    line = next(line for line in record.lines if line.identity == payee)
    approved = [entry for entry in record.history if entry.kind == "approved"]
    before = record.opening.get(payee, 0)
    return StatementRun(
        record.run,
        record.period,
        record.currency,
        record.state,
        day_of(approved[0] if approved else record.history[0]),
        line.entitled - before,
        line.paid,
        line.balance - before,
    )


def _overtaken(draft: RunRecord, runs: Iterable[RunRecord]) -> bool:
    return bool(draft.period) and any(
        run.state in APPROVED
        and (run.period, run.currency) == (draft.period, draft.currency)
        and run.history[0].number > draft.history[0].number
        for run in runs
    )


def _period(accounts: Accounts, entry: LedgerEntry) -> str:
    return accounts.runs[entry.run].period if entry.run in accounts.runs else ""


def _words(entry: LedgerEntry) -> str:
    """What an entry that moves money says, in plain words."""
    said = entry.content
    why = f": {visible(str(said['why']), _LONGEST)}" if said.get("why") else ""
    reference = (
        f", reference {visible(str(said['reference']), _LONGEST)}" if said.get("reference") else ""
    )
    batch = f", batch {visible(str(said['batch']))}" if said.get("batch") else ""
    of = f" of entry {said['of']}" if "of" in said else ""
    return {
        "payment": "Payment approved",
        "carried_forward": f"{'Added to' if entry.amount > 0 else 'Taken from'} what is carried",
        "correction": f"Correction{of}{why}",
        "fee": f"Fee{why}",
        "ordered": f"Ordered at the bank{batch}",
        "sent": f"Sent{reference}{batch}",
        "cancelled": f"Order cancelled{batch}{why}",
        "bounced": f"Came back from the bank, sent by entry {said.get('of')}{why}",
        "funded": f"Carried credit, paid by the market{why}",
        "written_off": f"Carried {'credit' if entry.amount > 0 else 'debt'} written off{why}",
    }[entry.kind]


def _event(accounts: Accounts, entry: LedgerEntry, payee: str) -> str:
    """What an entry that moves no money says to a payee; empty where it is not about them."""
    said = entry.content
    if entry.kind in ("hold", "release") and entry.payee == payee:
        why = f": {visible(str(said['why']), _LONGEST)}" if said.get("why") else ""
        return ("Payments held" if entry.kind == "hold" else "Payments released") + why
    if entry.kind == "superseded":
        return _forfeit(accounts, entry, payee)
    if entry.kind not in ("dispute", "resolved", "revoked"):
        return ""
    dispute = accounts.disputes.numbered(said["number"])
    if payee not in (dispute.payee, dispute.against):
        return ""
    if entry.kind == "dispute":
        whom = f" against {visible(dispute.against)}" if dispute.against else ""
        return (
            f"Dispute {dispute.number} opened by {visible(dispute.payee)}{whom} about run {dispute.run[:16]}: "
            f"{visible(dispute.about, _LONGEST)}"
        )
    what = f"Dispute {dispute.number} {said['outcome']}" if entry.kind == "resolved" else (
        f"What dispute {dispute.number} changes in later runs has ended"
    )  # fmt: skip
    return f"{what}: {visible(str(said['why']), _LONGEST)}"


def _forfeit(accounts: Accounts, entry: LedgerEntry, payee: str) -> str:
    """What became of a draft's payment to somebody who failed its checks, or was too small to be checked."""
    record = accounts.runs[entry.run]
    paid = next((line.paid for line in record.lines if line.identity == payee), 0)
    if not paid:  # of no concern to them, or lost in a draft before this one
        return ""
    amount = f"{record.currency} {Currency(record.currency).text(paid)} of the draft {entry.run[:16]}"
    if payee in entry.content.get("forfeited", ()):
        return f"A check was failed: {amount} are forfeit, and units that were found not to be genuine are taken out"
    if payee in entry.content.get("unchecked", ()):
        return f"Not checked, and so not paid: {amount} are less than checks cost; the units can be handed in again"
    return ""


def _notes(
    approved: Sequence[StatementRun], drafts: Sequence[StatementRun], own: Sequence[LedgerEntry]
) -> Iterable[str]:
    if not approved:
        yield (
            "No approved run names this payee: there are drafts alone, and nothing is owed by a draft."
            if drafts
            else "No approved run names this payee."
        )
    backwards = [entry.number for entry in own if "clock" in entry.content]
    if backwards:
        yield (
            f"The clock of whoever kept the ledger ran backwards before entry {backwards[0]}"
            + (f" and {len(backwards) - 1} more of this payee's" if len(backwards) > 1 else "")
            + "; lines stand in the order in which they were entered."
        )


STATES = {"draft": "draft", "checked": "checked, not approved", "approved": "approved", "paid": "paid"}


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
    tip: str
    at: str


def statement_html(statement: AccountStatement) -> str:
    """Write a statement as a page.

    Parameters
    ----------
    statement
        The statement.

    Returns
    -------
    str
        The page.
    """
    return render_page("account.html.j2", "account.css", page=account_page(statement))


def account_page(statement: AccountStatement) -> AccountPage:
    """What the page shows."""
    return AccountPage(
        payee=visible(statement.payee),
        days=days_of(statement),
        notes=told(statement),
        accounts=[_account_rows(account) for account in statement.accounts],
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
        tip=statement.tip,
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
        name: tip
        for name, tip in heads.items()
        if name == "payable" or any(getattr(owed, name) for owed in everything)
    }


def _account_rows(account: CurrencyAccount) -> Row:
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


COLUMNS = (
    "row", "payee", "currency", "entry", "time", "kind", "run", "period", "what", "amount", "owed_change",
    "on_its_way_change", "sent_change", "carried_change", "owed", "on_its_way", "sent", "carried",
)  # fmt: skip
"""``row`` is what a row is: opening, line, closing, run, draft, event or tip. Changes of lines sum up to closing less
opening; amounts of runs and drafts are what was earned, and stand in no sum."""
_AMOUNTS = COLUMNS[COLUMNS.index("amount") :]


def statement_csv(statement: AccountStatement) -> str:
    """Write a statement as CSV; its first column says what each row is.

    Parameters
    ----------
    statement
        The statement.

    Returns
    -------
    str
        The text.
    """
    rows = [{**row, "payee": statement.payee} for row in _rows(statement)]
    return csv_text(COLUMNS, [[row.get(name, "") for name in COLUMNS] for row in rows], _AMOUNTS)


def _rows(statement: AccountStatement) -> Iterator[dict[str, str]]:
    for account in statement.accounts:
        yield from _account_cells(account)
    for draft in statement.drafts:
        yield _run_cells("draft", draft, "not approved yet")
    for event in statement.events:
        entry = event.entry
        yield {
            "row": "event", "entry": str(entry.number), "time": entry.at, "kind": entry.kind, "run": entry.run,
            "what": event.words,
        }  # fmt: skip
    yield {
        "row": "tip", "entry": str(statement.number), "time": statement.at, "kind": "sha256", "what": statement.tip,
    }  # fmt: skip


def _run_cells(row: str, run: StatementRun, what: str) -> dict[str, str]:
    return {
        "row": row, "currency": run.currency, "time": str(run.day), "kind": run.state, "run": run.run,
        "period": run.period, "what": what, "amount": Currency(run.currency).text(run.earned),
    }  # fmt: skip


def _account_cells(account: CurrencyAccount) -> Iterator[dict[str, str]]:
    text = Currency(account.currency).text

    def places(owed: Owed, ending: str = "") -> dict[str, str]:
        found = (owed.payable, owed.outgoing, owed.sent, owed.carried)
        return {
            f"{name}{ending}": text(minor)
            for name, minor in zip(("owed", "on_its_way", "sent", "carried"), found, strict=True)
        }

    yield {"row": "opening", "currency": account.currency, **places(account.opening)}
    for run in account.runs:
        yield _run_cells("run", run, "earned")
    for line in account.lines:
        entry = line.entry
        yield {
            "row": "line", "currency": account.currency, "entry": str(entry.number), "time": entry.at,
            "kind": entry.kind, "run": entry.run, "period": line.period, "what": line.words,
            "amount": text(entry.amount), **places(line.change, "_change"), **places(line.after),
        }  # fmt: skip
    yield {"row": "closing", "currency": account.currency, **places(account.closing)}
