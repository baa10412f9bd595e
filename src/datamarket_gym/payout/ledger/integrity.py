"""Which book a run is entered in, by its folder; and the run of a folder, as its book has it.

Anchors: heads of the chain noted where whoever keeps the book cannot change them.

Whoever holds the book and all of its runs can write both anew, hashes and all. They cannot change what they gave away:
an e-mail to the payees, a page of a newspaper, a file on somebody else's disk. One line per anchor: number, hash, time.

Everything that can be looked at in a book by itself: its file, its rules, its chain, what the entries come to.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from datamarket_gym.display import counted
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.files import read_json, write_json, write_text
from datamarket_gym.payout.intake.log import examined_batches
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.entries import APPROVED, LedgerEntry, LedgerError, RunRecord
from datamarket_gym.payout.ledger.statements import AccountStatement
from datamarket_gym.payout.ledger.store import (
    FILE,
    NAME,
    Head,
    Ledger,
    Receipt,
    Transaction,
    holds,
    is_address,
    open_ledger,
    read_receipt,
)
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import Check, read_manifest
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.report.status import update_report

_OLD = "ledger.sqlite"  # of runs made before there was a book


def default_ledger(out: Path) -> str:
    """The book of a run whose folder this is, if nobody says another: beside the folder."""
    return str(out.resolve().parent / NAME)


def write_receipt(folder: Path, book: Ledger, accounts: Accounts) -> None:
    """Note in a folder where its book is and the head of the chain now, and on its report the state of the run."""
    here = book.where
    if book.path is not None:
        try:
            here = os.path.relpath(book.path.resolve(), folder.resolve())
        except ValueError:  # another drive
            here = str(book.path.resolve())
    data = {"book": here, "number": accounts.number, "head": accounts.head}
    if not (folder / FILE).is_file() or read_json(folder / FILE) != data:
        write_json(folder / FILE, data)
    record = accounts.runs.get(read_manifest(folder)["run"])
    if record is not None:
        update_report(folder, record.history)


def same_ledger(one: str, other: str) -> bool:
    """Whether two paths or addresses are of the same book."""
    if is_address(one) or is_address(other):
        return (
            is_address(one) and is_address(other) and open_ledger(one).where == open_ledger(other).where
        )
    return Path(one).resolve() == Path(other).resolve()


def run_folder(where: str) -> Path | None:
    """The folder of a run, if it is one that was named; None for a book, and for a folder of runs that holds one."""
    folder = Path(where)
    if is_address(where) or not folder.is_dir():
        return None
    return folder if (folder / MANIFEST).is_file() or not (folder / NAME).is_file() else None


def ledger_at(where: str) -> Ledger:
    """The book of a path or an address, of the folder of a run, or of a folder of runs that holds it."""
    if not where.strip():
        raise DataMarketError(
            "the book is named by nothing; give its file, its address, or the folder of a run"
        )
    folder = run_folder(where)
    if folder is not None:
        return ledger_of(folder)
    inside = not is_address(where) and Path(where).is_dir()
    return open_ledger(Path(where) / NAME if inside else where)


def ledger_of(folder: Path) -> Ledger:
    """The book of a run's folder."""
    receipt = read_receipt(folder)
    if receipt is None:
        if (folder / _OLD).is_file():
            raise DataMarketError(
                f"{str(folder)!r} was made before there was a book; pay again, into another folder"
            )
        raise DataMarketError(
            f"{str(folder)!r} holds no payout run that is in a book; check the path, or run pay"
        )
    if not is_address(receipt.book) and not Path(receipt.book).is_file():
        raise LedgerError(
            f"the book {receipt.book!r} of the run in {str(folder)!r} is gone; if it was moved: "
            f"datamarket ledger attach {folder} BOOK"
        )
    return open_ledger(receipt.book)


def run_of(folder: Path, accounts: Accounts | None = None) -> RunRecord:
    """The run of a folder as its book has it; refused where the book no longer holds what the folder has of it."""
    accounts, receipt = accounts or ledger_of(folder).accounts(), read_receipt(folder)
    if receipt is not None and not holds(accounts.entries, receipt.head):
        # Another process may have entered something, and noted it here, after these accounts were read.
        require_held(folder, ledger_of(folder).read(), receipt)
    return accounts.required(read_manifest(folder)["run"])


def require_held(folder: Path, entries: list[LedgerEntry], receipt: Receipt) -> None:
    """Refuse a book that does not hold what a folder has of it."""
    if not holds(entries, receipt.head):
        raise LedgerError(
            f"the book does not hold entry {receipt.head.number} as it was when the run in {str(folder)!r} was last "
            f"entered: it is another book, was written anew, or cut short; run: datamarket verify {folder}"
        )


@contextmanager
def transaction_of(folder: Path) -> Iterator[tuple[Transaction, RunRecord]]:
    """A page of the book of a run's folder, and the run; the folder notes the head when it is entered."""
    book = ledger_of(folder)
    with book.page() as page:
        yield page, run_of(folder, page.accounts)
    write_receipt(folder, book, page.accounts)


def attach(folder: Path, where: str) -> None:
    """Say in a folder that its book is elsewhere now; refused unless the run is in that book, as this folder has it."""
    book = open_ledger(where)
    accounts, receipt = book.accounts(), read_receipt(folder)
    if receipt is not None:
        require_held(folder, accounts.entries, receipt)
    accounts.required(read_manifest(folder)["run"])
    write_receipt(folder, book, accounts)


def checkpoint_of(known: Accounts | AccountStatement) -> str:
    """The line that says how far a book, or a statement from it, goes."""
    return f"{known.number} {known.head} {known.at}"


def add_checkpoint(path: Path, accounts: Accounts) -> str:
    """Add the head of the book to a file of anchors; the line."""
    line, there = checkpoint_of(accounts), path.exists()
    if not there or Head(accounts.number, accounts.head) not in read_checkpoints(path):
        before = path.read_text(encoding="ascii").splitlines() if there else []
        write_text(path, "".join(f"{each}\n" for each in [*before, line]))
    return line


def read_checkpoints(path: Path) -> list[Head]:
    """The heads of a file of anchors."""
    if path.exists() and not path.is_file():
        raise DataMarketError(f"the anchors {str(path)!r} are no file; name a text file")
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError) as error:
        raise DataMarketError(f"the anchors {str(path)!r} cannot be read: {error}") from error
    heads = []
    for place, line in enumerate(lines, 1):
        parts = line.split()
        if len(parts) < 2 or not parts[0].isdigit() or len(parts[1]) != 64:
            raise DataMarketError(
                f"line {place} of the anchors {str(path)!r} is no anchor; write number, hash and time"
            )
        heads.append(Head(int(parts[0]), parts[1]))
    if not heads:
        raise DataMarketError(f"the file {str(path)!r} holds no anchor")
    return heads


def anchored(entries: list[LedgerEntry], path: Path) -> Check:
    """Whether the chain holds every anchor of a file."""
    heads = read_checkpoints(path)
    lost = [head for head in heads if not holds(entries, head)]
    said = f"{counted(len(heads), 'anchor')}, the last at entry {max(head.number for head in heads)}"
    if lost:
        said = f"the book does not hold entry {lost[0].number} as it was anchored: it was written anew, or cut short"
    return Check(f"anchors {path.name}", not lost, said)


def examined(book: Ledger) -> list[Check]:
    """All of it; what comes after something that cannot be read is left out."""
    found: list[Check] = []
    try:
        with book.locked(looking=True) as seal:
            if seal is not None:
                pending = seal.pending
                seal.require()
            entries = book.read()
            if seal is not None:
                head = Head(entries[-1].number, entries[-1].hash)
                seal.require_head(head)
                if pending:
                    seal.close(head)
                said = "sealed again after a writer was killed" if pending else "as it was sealed"
                found.append(Check("file of the book", True, said))
        changed = book.changed_rules()
        said = "; ".join(changed) or "as this version makes them"
        found.append(Check("tables and triggers", not changed, said))
        found.append(Check("chain", True, f"{len(entries):,} entries, head {entries[-1].hash[:16]}"))
        accounts = Accounts.of(entries)
    except LedgerError as error:
        return [*found, Check("book", False, str(error))]
    return [*found, *_sums(accounts), _clock(entries), *_batches(book, accounts)]


def _batches(book: Ledger, accounts: Accounts) -> list[Check]:
    """The digests of batches that arrived, where any did."""
    if not accounts.arrived.entries and not book.numbers_with_digests():
        return []
    return [examined_batches(book, accounts.arrived)]


def _sums(accounts: Accounts) -> list[Check]:
    """Per currency: what came in is owed, on its way, sent or charged; balances are what was carried and not ended."""
    found = []
    for code in accounts.currencies:
        total = {kind: amount for (kind, c), amount in accounts.totals.items() if c == code}
        owed, going, sent, left = (
            sum(amount for (_, c), amount in place.items() if c == code)
            for place in (accounts.payable, accounts.outgoing, accounts.sent, accounts.balance)
        )
        came = sum(total.get(kind, 0) for kind in ("payment", "correction", "funded"))
        runs = sum(
            r.amount for r in accounts.runs.values() if r.currency == code and r.state in APPROVED
        )
        text = Currency(code).text
        good = (
            came == owed + going + sent + total.get("fee", 0)
            and runs == total.get("payment", 0)
            and left == total.get("carried", 0) - total.get("funded", 0) - total.get("written_off", 0)
            and total.get("carried", 0) == 0
        )
        fees = text(total.get("fee", 0))
        said = f"{text(came)} came in: {text(sent)} sent, {text(going)} ordered, {text(owed)} owed, {fees} fees"
        found.append(Check(f"sums in {code}", good, said))
    return found


def _clock(entries: list[LedgerEntry]) -> Check:
    """Times that run backwards: told, and noted when they were entered."""
    back = [e.number for e, before in zip(entries[1:], entries, strict=False) if e.at < before.at]
    unsaid = [n for n in back if "clock" not in entries[n - 1].content]
    if not back:
        return Check("times", True, f"{entries[0].at} to {entries[-1].at}")
    shown = ", ".join(str(n) for n in back[:5]) + (" and more" if len(back) > 5 else "")
    return Check("times", not unsaid, f"the clock ran backwards before entry {shown}")
