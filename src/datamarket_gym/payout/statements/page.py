"""Statements of a run: for each payee a page without network, which prints on A4 and can be read on a telephone.

A statement goes to its payee, so that it says less than the record: of units that equal validation rows only how many
there are, of similarity no number (either would tell a copier how far to go), of claims nothing, and of other payees
neither names nor units, unless the operator shows them.

A page is called after its payee, as far as letters and digits of ASCII go, and by a hash of the whole name: names that
are spelled alike, differ in case or mean something to a file system have files of their own.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import secrets
import shutil
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from datamarket_gym.errors import DataMarketError, require_known
from datamarket_gym.execution.files import claimed, make_folder, write_text
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.entries import APPROVED, LedgerEntry, RunRecord
from datamarket_gym.payout.ledger.runs import ledger_of, run_of
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import csv_text, visible
from datamarket_gym.payout.report.pages import render_page
from datamarket_gym.payout.statements.record import EXAMPLES, Explanation, RunTables, explain_payee

INDEX = "index.csv"
_COLUMNS = ("payee", "file", "amount", "currency")
_LONGEST_NAME, _MOST_UNITS = 40, 1000
_CONTACT = "Answer the sender of this page, and do so soon: what is approved is corrected only by a later entry."


@dataclass(frozen=True)
class StatementOptions:
    """How statements are written: whether other payees have names in them, and what to do if one disagrees."""

    show_names: bool = False
    contact: str | None = None


@dataclass(frozen=True)
class OtherPayees:
    """How a statement calls other payees: by letters that hold for this statement alone, or by name."""

    show_names: bool
    letters: dict[str, str] = field(default_factory=dict)

    def name(self, name: str) -> str:
        if self.show_names:
            return visible(name)
        return f"another payee ({self.letters.setdefault(name, _letters(len(self.letters)))})"

    def unit(self, unit: str) -> str:
        """Name another payee's unit; its name could show whose it is."""
        return visible(unit) if self.show_names else "one of theirs"


def _letters(number: int) -> str:
    """Count A, B, ..., Z, AA, AB, ..."""
    more, place = divmod(number, 26)
    return (_letters(more - 1) if more else "") + string.ascii_uppercase[place]


@dataclass(frozen=True)
class RunState:
    """A run in its ledger."""

    accounts: Accounts
    record: RunRecord

    @classmethod
    def read(cls, folder: Path) -> RunState:
        accounts = ledger_of(folder).accounts()
        return cls(accounts, run_of(folder, accounts))

    def payment_state(self, payee: str, paid: int) -> tuple[str, str]:
        """Return where a payment of ``paid`` stands, and the day of its approval or sending."""
        state = self.record.state
        if state not in APPROVED:
            return state, ""
        approved_on, sent = self._approval.at[:10], self._sent.get(payee)
        if not paid:
            return "nothing", approved_on
        if self.accounts.outgoing[payee, self.record.currency] > 0:
            return "ordered", approved_on
        waiting = self.accounts.payable[payee, self.record.currency] > 0
        if not waiting and sent is not None:
            return "sent", sent.at[:10]
        if payee in self.accounts.holds:
            return "held", approved_on
        if sent is not None and self.accounts.came_back(sent.number):
            return "came back", sent.at[:10]
        return ("too little" if state == "paid" else "not sent"), approved_on

    @cached_property
    def corrections(self) -> Counter[str]:
        """By how much the payment of each payee was corrected after its approval."""
        corrections: Counter[str] = Counter()
        for entry in self.accounts.entries:
            if entry.kind == "correction" and entry.run == self.record.run:
                corrections[entry.payee] += entry.amount
        return corrections

    @cached_property
    def _approval(self) -> LedgerEntry:
        return next(entry for entry in self.record.history if entry.kind == "approved")

    @cached_property
    def _sent(self) -> dict[str, LedgerEntry]:
        """The last entry that sent money to each payee since the approval."""
        since = self.accounts.entries[self._approval.number :]
        return {e.payee: e for e in since if e.kind == "sent" and e.currency == self.record.currency}


def _render(tables: RunTables, payee: str, state: RunState, options: StatementOptions) -> str:
    explanation = explain_payee(tables, payee, most_matches=EXAMPLES, most_units=_MOST_UNITS)
    money = Currency(explanation.currency)

    def amount(minor: int, signed: bool = False) -> str:
        return f"{money.code}\N{NO-BREAK SPACE}{'+' if signed and minor > 0 else ''}{money.shown(minor)}"

    status, day = state.payment_state(payee, explanation.paid)
    return render_page(
        "statement.html.j2",
        "statement.css",
        page=explanation,
        others=OtherPayees(options.show_names),
        amount=amount,
        status=status,
        day=day,
        share=f"{explanation.paid / explanation.amount:.1%}" if explanation.amount else "0%",
        rest=_rest_of_units(explanation),
        run_state=state.record.state,
        period=state.record.period,
        correction=state.corrections[payee],
        money=_balance_rows(explanation, state.corrections[payee]),
        texts=bool(tables.manifest["spec"]["columns"]["text"]),
        payees=tables.manifest["identities"],
        contact=options.contact or _CONTACT,
        as_of=f"entry {state.accounts.number:,} of {state.accounts.at[:10]}",
    )


def _rest_of_units(page: Explanation) -> tuple[int, int]:
    """Return how many paid units the page does not list, and what they earn together."""
    listed = [row.amount for row in page.unit_payments if row.amount]
    return page.earning - len(listed), page.entitled - page.opening - sum(listed)


def _balance_rows(page: Explanation, correction: int) -> list[tuple[str, int, bool]]:
    """List the steps from the payee's share to what is paid, where they differ, and whether each is a change."""
    if not page.opening and not page.balance and not correction:
        return []
    kept = "kept for you until the next payout"
    if page.balance < 0:
        kept = "not asked of you now; it counts in the next payout"
    steps = [
        ("your part of this payout", page.entitled - page.opening, False),
        ("carried over from earlier payouts", page.opening, True),
        (kept, -page.balance, True),
        ("this payout pays you", page.paid, False),
        ("corrected later by", correction, True),
    ]
    rows = [row for row in steps if row[1] or not row[2]]
    return [*rows, ("after the correction", page.paid + correction, False)] if correction else rows


def file_name(payee: str) -> str:
    """Return the name of a payee's page: safe, and another for every other name, on any file system."""
    plain = unicodedata.normalize("NFKD", payee).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain)[:_LONGEST_NAME].strip("-")
    digest = hashlib.sha256(payee.encode()).hexdigest()[:16]
    return f"{words}-{digest}.html" if words else f"payee-{digest}.html"


def write_statements(
    run: Path,
    out: Path | None = None,
    options: StatementOptions | None = None,
    report_progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Write the statements of all payees into a folder, and return it.

    They are written aside and renamed: a killed process leaves no half of them. A folder of statements is replaced as a
    whole; one that holds anything else is refused.
    """
    out = (run / "statements" if out is None else out).resolve()
    make_folder(out.parent)
    _require_statements(out)
    tables = RunTables.read(run)
    with claimed(out.parent, "command that writes statements"):
        for part in out.parent.glob(f".{glob.escape(out.name)}.*.part"):  # of a process that was killed
            shutil.rmtree(part)
        aside, old = (out.with_name(f".{out.name}.{secrets.token_hex(8)}.part") for _ in range(2))
        try:
            aside.mkdir(0o700)
            for done, (name, text) in enumerate(statement_pages(run, options, tables), 1):
                opened = os.open(aside / name, os.O_WRONLY | os.O_CREAT, 0o600)
                with open(opened, "w", encoding="utf-8", newline="") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())  # the folder is renamed when all of it is on the disk
                if report_progress is not None and name != INDEX:
                    report_progress(done, len(tables.names))
            if out.exists():
                out.rename(old)
            aside.rename(out)
            shutil.rmtree(old, ignore_errors=True)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return out


def statement_pages(
    run: Path, options: StatementOptions | None = None, tables: RunTables | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every file of a run's statements; nothing is written."""
    tables = RunTables.read(run) if tables is None else tables
    state = RunState.read(run)
    for payee in tables.names:
        yield file_name(payee), _render(tables, payee, state, options or StatementOptions())
    yield INDEX, _index(tables)


def statement_text(run: Path, payee: str, options: StatementOptions | None = None) -> str:
    """Return the statement of one payee as a page."""
    tables = RunTables.read(run)
    require_known("payee", [payee], tables.number)
    return _render(tables, payee, RunState.read(run), options or StatementOptions())


def write_statement(
    run: Path, payee: str, out: Path | None = None, options: StatementOptions | None = None
) -> Path:
    """Write the statement of one payee into a folder, beside what is there; return the page's path."""
    text = statement_text(run, payee, options)
    out = run / "statements" if out is None else out
    make_folder(out, private=True)
    write_text(out / file_name(payee), text, private=True)
    return out / file_name(payee)


def _index(tables: RunTables) -> str:
    """List which page is whose, in the order of the payments, and what it pays."""
    currency = tables.manifest["currency"]
    rows = [
        (row["identity"], file_name(row["identity"]), row["payment"], currency)
        for row in tables.payments
    ]
    return csv_text(_COLUMNS, rows, ["amount"])


def _require_statements(out: Path) -> None:
    """Refuse to replace what is no folder, or one that holds anything but statements."""
    if not out.exists():
        return
    names = [path.name for path in out.iterdir()] if out.is_dir() else [out.name]
    others = sorted(name for name in names if name != INDEX and not _is_statement(name))
    if others:
        raise DataMarketError(
            f"{str(out)!r} is or holds something else than statements ({others[0]!r}); choose another --out"
        )


def _is_statement(name: str) -> bool:
    return re.fullmatch(r"[a-z0-9-]+-[0-9a-f]{16}\.html", name) is not None
