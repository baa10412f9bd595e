"""Entries of the ledger in words, and the account statement of a payee as values, a page of HTML and CSV.

Each line of a statement is an entry that moves the payee's money, with what is then owed, on its way, sent and carried
forward (the four places of `payout.ledger.balances`). What is there after the last line is what was there before the
first plus the changes of the lines, and the changes of all lines of all times are what the accounts say. Both are
checked; a statement that does not add up to the cent is an error.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from datamarket_gym.display import Shown, counted
from datamarket_gym.errors import ParameterError
from datamarket_gym.payout.ledger.balances import EFFECTS, Accounts, Dispute, Rules
from datamarket_gym.payout.ledger.entries import APPROVED, LedgerEntry, LedgerError, RunRecord
from datamarket_gym.payout.ledger.transactions import require_payee
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import csv_text, visible
from datamarket_gym.payout.report.pages import Row, render_page

_TEXTS = ("detail", "title", "why", "reference", "place")
_SHORT_TEXTS = ("beacon", "manifest", "outcomes")  # of which 16 characters are shown
_LONGEST = 500  # characters of a text that a person wrote


def format_time(entry: LedgerEntry) -> str:
    return entry.at[:19].replace("T", " ")


def describe_entry(entry: LedgerEntry) -> str:
    content = entry.content
    match entry.kind:
        case "answers":
            return f"{content['new']} new; outcomes {content['outcomes']}"
        case "accepted":
            return f"{content['warning']}: {content['title']}"
        case "dispute":
            return f"dispute {content['number']}: {content['about']}"
        case "resolved" | "revoked":
            outcome = content.get("outcome", entry.kind)
            return f"dispute {content['number']} {outcome}: {content['why']}"
        case "received":
            source = f"operator's export {content['source']}, " if "source" in content else ""
            return f"{source}{counted(content['units'], 'unit')}, sha256 {content['sha256'][:16]}"
        case "proposed":
            return f"for {content['for']}: {content['why']}"
        case "superseded":
            return f"{content['detail']}; by run {content['by_run']}"
    texts = [str(content[name]) for name in _TEXTS if name in content]
    texts += [f"{name} {str(content[name])[:16]}" for name in _SHORT_TEXTS if name in content]
    texts += [f"of entry {content['of']}"] if "of" in content else []
    texts += [str(content["clock"])] if "clock" in content else []
    return "; ".join(texts)


def entry_messages(entry: LedgerEntry) -> list[str]:
    amount = f" {entry.currency} {Currency(entry.currency).text(entry.amount)}" if entry.currency else ""
    messages = [f"entry {entry.number}: {entry.kind}{amount}, {visible(entry.payee)}"]
    if entry.kind == "proposed":
        messages.append(
            "The ledger requires several people: money moves once others have entered the same, under their names."
        )
    return messages


def rule_messages(rules: Rules) -> list[str]:
    least = [f"{code} {Currency(code).text(amount)}" for code, amount in rules.least.items() if amount]
    people = "1 person approves" if rules.approvals == 1 else f"{rules.approvals} people approve"
    sent = f"at least {', '.join(least)} are sent" if least else "any amount is sent"
    return [f"{people} a run; {sent}."] + [
        f"Asked for by {', '.join(map(visible, asking))}: {wanted}. It stands once {rules.approvals} people have asked."
        for wanted, asking in rules.asking.items()
    ]


def describe_effects(dispute: Dispute, entries: Sequence[LedgerEntry]) -> list[str]:
    if dispute.resolution is None:
        return [f"held: {', '.join(map(visible, dispute.holds))}"] if dispute.holds else []
    messages = []
    for number in dispute.resolution.corrections:
        entry = entries[number - 1]
        amount = f"{entry.currency} {Currency(entry.currency).text(entry.amount)}"
        messages.append(f"correction of {amount} to {visible(entry.payee)} (entry {number})")
    ended = ", ended" if dispute.revoked else ", in every run to come"
    for override in dispute.overrides:
        kind, names = "units" if override.units else "payees", override.units or override.identities
        messages.append(f"{override.action} {kind} {', '.join(map(visible, names))}{ended}")
    return messages


def balances_by_payee(accounts: Accounts) -> tuple[list[str], dict[tuple[str, str], list[int]]]:
    """Return the places of money that are not empty, and owed, and what is in each by payee and currency."""
    places = {
        "carried": accounts.balance, "owed": accounts.payable, "ordered": accounts.outgoing, "sent": accounts.sent,
    }  # fmt: skip
    places = {name: place for name, place in places.items() if name == "owed" or any(place.values())}
    keys = sorted({key for place in places.values() for key, amount in place.items() if amount})
    return list(places), {key: [place.get(key, 0) for place in places.values()] for key in keys}


class Owed(NamedTuple):
    """Where a payee's money is, in minor units of one currency."""

    payable: int = 0
    outgoing: int = 0
    sent: int = 0
    carried: int = 0

    @classmethod
    def total(cls, parts: Iterable[Owed]) -> Owed:
        return cls(*map(sum, zip(*parts, strict=True)))


class StatementLine(NamedTuple):
    entry: LedgerEntry
    period: str
    words: str
    change: Owed
    after: Owed


@dataclass(frozen=True)
class StatementRun:
    run: str
    period: str
    currency: str
    state: str
    day: datetime.date  # of its approval; of its entry, for drafts
    earned: int
    paid: int
    carried: int
    overtaken: bool = False  # of a draft: a later run for the same period is approved


class StatementEvent(NamedTuple):
    entry: LedgerEntry
    words: str


@dataclass(frozen=True)
class CurrencyAccount:
    currency: str
    opening: Owed
    lines: tuple[StatementLine, ...]
    closing: Owed
    runs: tuple[StatementRun, ...]

    @property
    def earned(self) -> int:
        return sum(run.earned for run in self.runs)


@dataclass(frozen=True)
class AccountStatement(Shown):
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
        return f"{self.number} {self.tip} {self.at}"


def account_statement(
    accounts: Accounts,
    payee: str,
    since: datetime.date | None = None,
    until: datetime.date | None = None,
    show_names: bool = False,
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
    show_names
        Name the other side of a dispute.

    Returns
    -------
    AccountStatement
        The statement.
    """
    if since is not None and until is not None and since > until:
        raise ParameterError("from", str(since), f"it is later than --to {until}; swap them")
    require_payee(accounts, payee)
    first, last = since or datetime.date.min, until or datetime.date.max
    records = [r for r in accounts.runs.values() if any(x.identity == payee for x in r.lines)]
    approved = [_run(record, payee) for record in records if record.state in APPROVED]
    drafts = [_run(r, payee, records) for r in records if r.state in ("draft", "checked")]
    within = [run for run in approved if first <= run.day <= last]
    own = [entry for entry in accounts.entries if entry.payee == payee]
    moves = [entry for entry in own if entry.kind in EFFECTS]
    currencies = sorted({entry.currency for entry in moves} | {run.currency for run in approved})
    by_currency = [_account(accounts, payee, code, moves, within, first, last) for code in currencies]
    held = accounts.holds.get(payee, "")
    return AccountStatement(
        payee=payee,
        since=since,
        until=until,
        accounts=tuple(by_currency),
        drafts=tuple(drafts),
        events=tuple(
            StatementEvent(entry, words)
            for entry in accounts.entries
            if first <= day_of(entry) <= last and (words := _event(accounts, entry, payee, show_names))
        ),
        disputes=tuple(d for d in accounts.disputes.by_number.values() if payee in (d.payee, d.against)),
        held=held,
        notes=tuple(_notes(held, by_currency, approved, drafts, own)),
        number=accounts.number,
        tip=accounts.tip,
        at=accounts.at,
    )


def day_of(entry: LedgerEntry) -> datetime.date:
    return datetime.datetime.fromisoformat(entry.at).astimezone(datetime.UTC).date()


def _account(
    accounts: Accounts,
    payee: str,
    currency: str,
    moves: Sequence[LedgerEntry],
    runs: Iterable[StatementRun],
    first: datetime.date,
    last: datetime.date,
) -> CurrencyAccount:
    changes = [
        (entry, day_of(entry), Owed(*(sign * entry.amount for sign in EFFECTS[entry.kind])))
        for entry in moves
        if entry.currency == currency
    ]
    opening = after = Owed.total(change for _, day, change in changes if day < first)
    lines = []
    for entry, day, change in changes:
        if first <= day <= last:
            after = Owed.total((after, change))
            period = accounts.runs[entry.run].period if entry.run in accounts.runs else ""
            lines.append(StatementLine(entry, period, _words(entry), change, after))
    own = tuple(run for run in runs if run.currency == currency)
    account = CurrencyAccount(currency, opening, tuple(lines), after, own)
    # The statement is what the accounts say, and its lines are what its runs pay.
    final = Owed.total((after, *(change for _, day, change in changes if day > last)))
    places = (accounts.payable, accounts.outgoing, accounts.sent, accounts.balance)
    owed = Owed(*(place[payee, currency] for place in places))
    paid, carried = sum(run.paid for run in own), sum(run.carried for run in own)
    moved = Counter[str]()
    for line in lines:
        moved[line.entry.kind] += line.entry.amount
    adds_up = (moved["payment"], moved["carried_forward"], account.earned) == (
        paid,
        carried,
        paid + carried,
    )
    if owed != final or not adds_up:
        raise LedgerError(
            f"the statement of {visible(payee)!r} in {currency} does not add up: its lines come to {final}, the ledger "
            f"says {owed}, and its runs pay {paid} and carry {carried}; run: datamarket verify LEDGER"
        )
    return account


def _run(record: RunRecord, payee: str, others: Iterable[RunRecord] = ()) -> StatementRun:
    """Return what a run pays a payee; a draft is overtaken by an approved one of ``others``, its period's."""
    line = next(line for line in record.lines if line.identity == payee)
    dated = next((e for e in record.history if e.kind == "approved"), record.history[0])
    before, period = record.opening.get(payee, 0), (record.period, record.currency)
    overtaken = any(
        run.state in APPROVED
        and (run.period, run.currency) == period
        and run.history[0].number > record.history[0].number
        for run in others
        if record.period
    )
    return StatementRun(
        record.run, *period, record.state, day_of(dated), line.entitled - before, line.paid, line.balance - before,
        overtaken,
    )  # fmt: skip


def _text(entry: LedgerEntry, name: str, before: str) -> str:
    text = entry.content.get(name)
    return f"{before}{visible(str(text), _LONGEST)}" if text else ""


def _words(entry: LedgerEntry) -> str:
    why, batch = _text(entry, "why", ": "), _text(entry, "batch", ", batch ")
    of = f" of entry {entry.content['of']}" if "of" in entry.content else ""
    return {
        "payment": "Payment approved",
        "carried_forward": f"{'Added to' if entry.amount > 0 else 'Taken from'} what is carried",
        "correction": f"Correction{of}{why}",
        "fee": f"Fee{why}",
        "ordered": f"Ordered at the bank{batch}",
        "sent": f"Sent{_text(entry, 'reference', ', reference ')}{batch}",
        "cancelled": f"Order cancelled{batch}{why}",
        "bounced": f"Came back from the bank, sent by entry {entry.content.get('of')}{why}",
        "funded": f"Carried credit, paid by the market{why}",
        "written_off": f"Carried {'credit' if entry.amount > 0 else 'debt'} written off{why}",
    }[entry.kind]


def _event(accounts: Accounts, entry: LedgerEntry, payee: str, show_names: bool) -> str:
    """Return what an entry that moves no money says to a payee; empty where it is not about them."""
    if entry.kind in ("hold", "release") and entry.payee == payee:
        return ("Payments held" if entry.kind == "hold" else "Payments released") + _text(
            entry, "why", ": "
        )
    if entry.kind == "superseded":
        return _forfeit(accounts, entry, payee)
    if entry.kind not in ("dispute", "resolved", "revoked"):
        return ""
    dispute = accounts.disputes.numbered(entry.content["number"])
    if payee not in (dispute.payee, dispute.against):
        return ""
    if entry.kind == "dispute":
        by, against = (
            visible(name) if show_names or name == payee else "another payee"
            for name in (dispute.payee, dispute.against)
        )
        against = f" against {against}" if dispute.against else ""
        what = f"Dispute {dispute.number} opened by {by}{against} about run {dispute.run[:16]}"
        return what + _text(entry, "about", ": ")
    what = f"What dispute {dispute.number} changes in later runs has ended"
    if entry.kind == "resolved":
        what = f"Dispute {dispute.number} {entry.content['outcome']}"
    return what + _text(entry, "why", ": ")


def _forfeit(accounts: Accounts, entry: LedgerEntry, payee: str) -> str:
    """Return what became of a draft's payment to a payee who failed its checks, or was too small to be checked."""
    record = accounts.runs[entry.run]
    paid = next((line.paid for line in record.lines if line.identity == payee), 0)
    amount = f"{record.currency} {Currency(record.currency).text(paid)} of the draft {entry.run[:16]}"
    if paid and payee in entry.content.get("forfeited", ()):
        return f"A check was failed: {amount} are forfeit, and units that were found not to be genuine are taken out"
    if paid and payee in entry.content.get("unchecked", ()):
        return f"Not checked, and so not paid: {amount} are less than checks cost; the units can be handed in again"
    return ""


def _notes(
    held: str,
    accounts: Iterable[CurrencyAccount],
    approved: Sequence[StatementRun],
    drafts: Sequence[StatementRun],
    own: Sequence[LedgerEntry],
) -> Iterator[str]:
    if held:
        yield f"Payments are held: {visible(held, 500)}"
    for account in accounts:
        if (owed := account.closing.payable) < 0:
            yield (
                f"{account.currency} {Currency(account.currency).shown(-owed)} were paid too much by now; they are set "
                "off against what is paid later."
            )
    if not approved:
        alone = ": there are drafts alone, and nothing is owed by a draft" if drafts else ""
        yield f"No approved run names this payee{alone}."
    backwards = [entry.number for entry in own if "clock" in entry.content]
    if backwards:
        more = f" and {len(backwards) - 1} more of this payee's" if len(backwards) > 1 else ""
        yield (
            f"The clock of the ledger's operator ran backwards before entry {backwards[0]}{more}; lines stand in the "
            "order in which they were entered."
        )


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


def account_page(statement: AccountStatement) -> Row:
    """Return what the page, the terminal and the explorer show, as plain values."""
    return {
        "payee": visible(statement.payee),
        "days": _days(statement),
        "notes": list(statement.notes),
        "accounts": [_account_rows(account) for account in statement.accounts],
        "drafts": [_run_row(run) for run in statement.drafts],
        "events": [
            {"entry": event.entry.number, "day": event.entry.at[:10], "words": event.words}
            for event in statement.events
        ],
        "open_disputes": [
            {"number": dispute.number, "run": dispute.run[:16]}
            for dispute in statement.disputes
            if dispute.open
        ],
        "checkpoint": statement.checkpoint,
        "number": statement.number,
    }


def _days(statement: AccountStatement) -> str:
    since, until = statement.since, statement.until
    first = f"From {since}" if since else "From the first entry"
    return f"{first} to {until or statement.at[:10]}"


def _run_row(run: StatementRun) -> Row:
    shown = Currency(run.currency).shown
    return {
        "day": str(run.day),
        "period": visible(run.period, 200),
        "run": run.run[:16],
        "state": "checked, not approved" if run.state == "checked" else run.state,
        "beside": "another run for this period is approved" if run.overtaken else "",
        "currency": run.currency,
        "earned": shown(run.earned),
        "paid": shown(run.paid),
        "carried": ("+" if run.carried > 0 else "") + shown(run.carried),
    }


_PLACES = {"payable": "owed", "outgoing": "on its way", "sent": "sent", "carried": "carried"}
"""The places of money, and what a payee reads."""


def _account_rows(account: CurrencyAccount) -> Row:
    shown = Currency(account.currency).shown
    everything = [account.opening, account.closing, *(line.after for line in account.lines)]
    # Those where there is, or was, something; what is owed always.
    places = [
        name for name in _PLACES if name == "payable" or any(getattr(each, name) for each in everything)
    ]
    heads = [_PLACES[name] for name in places]

    def cells(owed: Owed) -> list[str]:
        return [shown(getattr(owed, name)) for name in places]

    def amount(line: StatementLine) -> str:
        whole = sum(line.change)  # without a sign where money moves from one place to another
        return ("+" if whole > 0 else "") + shown(whole or line.entry.amount)

    return {
        "currency": account.currency,
        "heads": heads,
        "facts": list(zip(heads, cells(account.closing), strict=True)),
        "opening": cells(account.opening),
        "closing": cells(account.closing),
        "carries": any(run.carried for run in account.runs),
        "earned": shown(account.earned),
        "runs": [_run_row(run) for run in account.runs],
        "lines": [
            {
                "entry": line.entry.number,
                "day": line.entry.at[:10],
                "words": line.words,
                "period": visible(line.period, 200),
                "run": line.entry.run[:16],
                "amount": amount(line),
                "moves": not sum(line.change),
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
    def of_run(row: str, run: StatementRun, what: str) -> dict[str, str]:
        return {
            "row": row, "currency": run.currency, "time": str(run.day), "kind": run.state, "run": run.run,
            "period": run.period, "what": what, "amount": Currency(run.currency).text(run.earned),
        }  # fmt: skip

    def of_entry(row: str, entry: LedgerEntry, what: str) -> dict[str, str]:
        number = str(entry.number)
        return {
            "row": row, "entry": number, "time": entry.at, "kind": entry.kind, "run": entry.run, "what": what,
        }  # fmt: skip

    for account in statement.accounts:
        text, names = (
            Currency(account.currency).text,
            [head.replace(" ", "_") for head in _PLACES.values()],
        )
        opening, closing = (
            dict(zip(names, map(text, owed), strict=True)) for owed in (account.opening, account.closing)
        )
        yield {"row": "opening", "currency": account.currency, **opening}
        yield from (of_run("run", run, "earned") for run in account.runs)
        for line in account.lines:
            changes = {
                f"{name}_change": text(minor) for name, minor in zip(names, line.change, strict=True)
            }
            yield {
                **of_entry("line", line.entry, line.words), "currency": account.currency, "period": line.period,
                "amount": text(line.entry.amount), **changes, **dict(zip(names, map(text, line.after), strict=True)),
            }  # fmt: skip
        yield {"row": "closing", "currency": account.currency, **closing}
    yield from (of_run("draft", draft, "not approved yet") for draft in statement.drafts)
    yield from (of_entry("event", event.entry, event.words) for event in statement.events)
    yield {
        "row": "tip", "entry": str(statement.number), "time": statement.at, "kind": "sha256", "what": statement.tip,
    }  # fmt: skip
