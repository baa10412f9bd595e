"""The account statement of a payee: everything that the book holds about one name, currency by currency.

Each line is an entry that moves the payee's money, with what is then owed, on its way, sent and carried (the four
places of `payout.book.accounts`). With *b* before the first line and *a* after the last,

    a = b + sum of the changes of the lines,

and the changes of all lines of all times, those left out included, are what the accounts say. Both are checked; a
statement that does not add up to the cent is an error.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from datamarket_gym.core.errors import ParameterError
from datamarket_gym.core.screen import Shown
from datamarket_gym.payout.book.accounts import EFFECTS, Accounts
from datamarket_gym.payout.book.disputes import Dispute
from datamarket_gym.payout.book.entry import BookEntry, BookError
from datamarket_gym.payout.book.money import require_payee
from datamarket_gym.payout.book.run_record import APPROVED, RunRecord
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible

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

    entry: BookEntry
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

    entry: BookEntry
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
    """All that the book holds about a payee, and the head of its chain."""

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
    head: str
    at: str


def account_statement(
    accounts: Accounts,
    payee: str,
    since: datetime.date | None = None,
    until: datetime.date | None = None,
) -> AccountStatement:
    """The statement of a payee over the days from ``since`` to ``until``, both included; of all days if left out."""
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
        head=accounts.head,
        at=accounts.at,
    )


def day_of(entry: BookEntry) -> datetime.date:
    """The day of an entry, in UTC."""
    return datetime.datetime.fromisoformat(entry.at).astimezone(datetime.UTC).date()


def _account(
    accounts: Accounts,
    payee: str,
    currency: str,
    moves: Sequence[BookEntry],
    runs: Iterable[StatementRun],
    since: datetime.date | None,
    until: datetime.date | None,
) -> CurrencyAccount:
    """The lines of a currency, their running sums, and the proof that these are the book's."""
    opening, later, lines = Owed(), Owed(), list[BookEntry]()
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
        and (account.moved("payment"), account.moved("carried")) == (paid, carried)
        and account.earned == paid + carried
    )
    if not good:
        raise BookError(
            f"the statement of {visible(payee)!r} in {account.currency} does not add up: its lines come to {last}, the "
            f"book says {said}, and its runs pay {paid} and carry {carried}; run: datamarket verify BOOK"
        )


def _change(entry: BookEntry) -> Owed:
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


def _period(accounts: Accounts, entry: BookEntry) -> str:
    return accounts.runs[entry.run].period if entry.run in accounts.runs else ""


def _words(entry: BookEntry) -> str:
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
        "carried": f"{'Added to' if entry.amount > 0 else 'Taken from'} what is carried",
        "correction": f"Correction{of}{why}",
        "fee": f"Fee{why}",
        "ordered": f"Ordered at the bank{batch}",
        "sent": f"Sent{reference}{batch}",
        "cancelled": f"Order cancelled{batch}{why}",
        "bounced": f"Came back from the bank, sent by entry {said.get('of')}{why}",
        "funded": f"Carried credit, paid by the market{why}",
        "written_off": f"Carried {'credit' if entry.amount > 0 else 'debt'} written off{why}",
    }[entry.kind]


def _event(accounts: Accounts, entry: BookEntry, payee: str) -> str:
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


def _forfeit(accounts: Accounts, entry: BookEntry, payee: str) -> str:
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
    approved: Sequence[StatementRun], drafts: Sequence[StatementRun], own: Sequence[BookEntry]
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
            f"The clock of whoever kept the book ran backwards before entry {backwards[0]}"
            + (f" and {len(backwards) - 1} more of this payee's" if len(backwards) > 1 else "")
            + "; lines stand in the order in which they were entered."
        )
