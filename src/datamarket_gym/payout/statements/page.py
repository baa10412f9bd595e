"""Where a payout stands, for those who are paid, by its ledger: draft, approved, sent, and since when.

A statement as a page: one file without network, which prints on A4 and can be read on a telephone.

Statements of a whole run in one go: a folder with one page for each payee and ``index.csv``, made aside and renamed.

A page is called after its payee, as far as letters and digits of ASCII go, and by a hash of the whole name: names that
look alike, differ in case, are longer than a file's may be or mean something to a file system have files of their own.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import secrets
import shutil
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from datamarket_gym.display import counted, listed
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.files import claimed, replacing
from datamarket_gym.payout.explain import require_payee
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.entries import APPROVED, LedgerEntry, RunRecord
from datamarket_gym.payout.ledger.integrity import ledger_of, run_of
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import csv_text, visible
from datamarket_gym.payout.report.html import filled, style_sheet
from datamarket_gym.payout.statements import messages as words
from datamarket_gym.payout.statements.messages import Others, ToldMatch
from datamarket_gym.payout.statements.record import EXAMPLES, Explanation, explained
from datamarket_gym.payout.statements.tables import RunTables

_NOT_APPROVED = {
    "draft": "A draft: it is not approved yet, and may still change. Nothing is owed to you by it.",
    "checked": "A draft whose spot checks are done: it is not approved yet. Nothing is owed to you by it.",
    "superseded": "Replaced by a later draft: this one will not be paid.",
}


@dataclass(frozen=True)
class RunState:
    """A run in its ledger."""

    accounts: Accounts
    record: RunRecord

    @property
    def period(self) -> str:
        """What the payday is for."""
        return self.record.period

    @property
    def as_of(self) -> str:
        """The last entry of the ledger that this was written from, and its day."""
        return f"entry {self.accounts.number:,} of {self.accounts.at[:10]}"

    def words(self, payee: str, paid: int) -> str:
        """What a payee is told of the state of its payment; ``paid`` is what the run pays it."""
        if self.record.state not in APPROVED:
            return _NOT_APPROVED[self.record.state]
        approved = f"Approved on {self._approval.at[:10]}"
        key = (payee, self.record.currency)
        sent = self._sent.get(payee)
        if not paid:
            return f"{approved}; nothing is paid to you."
        if self.accounts.outgoing[key] > 0:
            return f"{approved}; ordered at the bank, and on its way to you."
        if self.accounts.payable[key] <= 0 and sent is not None:
            return f"Sent on {sent.at[:10]}."
        if payee in self.accounts.holds:
            return f"{approved}; held back for now: ask whoever runs the market why."
        if sent is not None and self.accounts.came_back(sent.number):
            return f"Sent on {sent.at[:10]}, and came back from the bank: check your account details."
        if self.record.state == "paid":
            return f"{approved}; too little to be sent alone, and sent with a later payment."
        return f"{approved}; not sent yet."

    def waiting(self, payee: str) -> bool:
        """Whether something stands between an approved payment and its payee: a hold, or what came back."""
        if self.record.state not in APPROVED or self.accounts.payable[payee, self.record.currency] <= 0:
            return False
        sent = self._sent.get(payee)
        came_back = sent is not None and self.accounts.came_back(sent.number)
        return payee in self.accounts.holds or bool(came_back)

    def corrected(self, payee: str) -> int:
        """By how much the payment was corrected after its approval."""
        return self._corrections.get(payee, 0)

    @cached_property
    def _approval(self) -> LedgerEntry:
        return next(entry for entry in self.record.history if entry.kind == "approved")

    @cached_property
    def _sent(self) -> dict[str, LedgerEntry]:
        """What was last sent to each payee since the approval."""
        since = self.accounts.entries[self._approval.number :]
        return {e.payee: e for e in since if e.kind == "sent" and e.currency == self.record.currency}

    @cached_property
    def _corrections(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for entry in self.accounts.entries:
            if entry.kind == "correction" and entry.run == self.record.run:
                found[entry.payee] = found.get(entry.payee, 0) + entry.amount
        return found


def state_of(folder: Path) -> RunState:
    """The state of a run in its ledger."""
    accounts = ledger_of(folder).accounts()
    return RunState(accounts, run_of(folder, accounts))


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


INDEX = "index.csv"
_COLUMNS = ("payee", "file", "amount", "currency")
_LONGEST = 40


def file_name(payee: str) -> str:
    """The name of a payee's page: safe, and another for every other name, on any file system."""
    plain = unicodedata.normalize("NFKD", payee).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain)[:_LONGEST].strip("-")
    digest = hashlib.sha256(payee.encode()).hexdigest()[:16]
    return f"{words}-{digest}.html" if words else f"payee-{digest}.html"


@dataclass(frozen=True)
class Manner:
    """How statements are written: whether others have names in them, and what to do if one disagrees."""

    pseudonyms: bool = False
    contact: str | None = None


def write_statements(
    run: Path,
    out: Path | None = None,
    manner: Manner | None = None,
    tell: Callable[[int, int], None] | None = None,
) -> Path:
    """Write the statements of all payees; killed, it is run again. Returns the folder.

    A folder of statements that is there already is replaced as a whole; one that holds anything else is refused.
    """
    tables, state = RunTables.read(run), state_of(run)
    out = (run / "statements" if out is None else out).resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    _require_ours(out)
    with claimed(out.parent, "command that writes statements"):
        for left in out.parent.glob(f".{glob.escape(out.name)}.*.part"):  # of a process that was killed
            shutil.rmtree(left)
        aside = out.with_name(f".{out.name}.{secrets.token_hex(8)}.part")
        try:
            aside.mkdir()
            for done, name in enumerate(tables.names):
                _write(aside / file_name(name), _page(tables, name, state, manner))
                if tell is not None:
                    tell(done + 1, len(tables.names))
            _write(aside / INDEX, _index(tables))
            if out.exists():
                old = out.with_name(f".{out.name}.{secrets.token_hex(8)}.part")
                out.rename(old)
                aside.rename(out)
                shutil.rmtree(old)
            else:
                aside.rename(out)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return out


def statement_pages(run: Path, manner: Manner | None = None) -> Iterator[tuple[str, str]]:
    """The name and the text of every file of a run's statements, one after another; nothing is written."""
    tables, state = RunTables.read(run), state_of(run)
    for name in tables.names:
        yield file_name(name), _page(tables, name, state, manner)
    yield INDEX, _index(tables)


def statement_text(
    run: Path, payee: str, manner: Manner | None = None, tables: RunTables | None = None
) -> str:
    """The statement of one payee as a page; ``tables`` are the run's, where they are read already."""
    tables = RunTables.read(run) if tables is None else tables
    require_payee(tables, payee)
    return _page(tables, payee, state_of(run), manner)


def write_statement(
    run: Path, payee: str, out: Path | None = None, manner: Manner | None = None
) -> Path:
    """Write the statement of one payee into a folder, beside what is there; returns the page's path."""
    text = statement_text(run, payee, manner)
    out = run / "statements" if out is None else out
    out.mkdir(parents=True, exist_ok=True)
    path = out / file_name(payee)
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")
    return path


def _page(tables: RunTables, name: str, state: RunState, manner: Manner | None) -> str:
    manner, manifest = manner or Manner(), tables.manifest
    found = explained(tables, name, most_ties=EXAMPLES)
    return rendered(
        statement_page(
            found, state, manifest["amount"], manifest["identities"], manner.pseudonyms, manner.contact
        )
    )


def _write(path: Path, text: str) -> None:
    """A file of a folder that is renamed when all of it is on the disk."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _index(tables: RunTables) -> str:
    """Which page is whose, in the order of the payments, and what it says."""
    currency = tables.manifest["currency"]
    rows = [
        (row["identity"], file_name(row["identity"]), row["payment"], currency)
        for row in tables.payments
    ]
    return csv_text(_COLUMNS, rows, ["amount"])


def _require_ours(out: Path) -> None:
    """Refuse to replace what is no folder, or one that holds anything but statements."""
    if not out.exists():
        return
    names = [path.name for path in out.iterdir()] if out.is_dir() else [out.name]
    strange = sorted(name for name in names if name != INDEX and not _ours(name))
    if strange:
        raise DataMarketError(
            f"{str(out)!r} is or holds something else than statements ({strange[0]!r}); choose another --out"
        )


def _ours(name: str) -> bool:
    return re.fullmatch(r"[a-z0-9-]+-[0-9a-f]{16}\.html", name) is not None
