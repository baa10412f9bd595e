"""Everything that can be looked at in a book by itself: its file, its rules, its chain, what the entries come to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datamarket_gym.payout.book.accounts import Accounts
from datamarket_gym.payout.book.entry import BookEntry, BookError
from datamarket_gym.payout.book.run_record import APPROVED
from datamarket_gym.payout.book.seal import Head
from datamarket_gym.payout.intake.log import examined_batches
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.verdicts import Check

if TYPE_CHECKING:
    from datamarket_gym.payout.book.store import Book


def examined(book: Book) -> list[Check]:
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
    except BookError as error:
        return [*found, Check("book", False, str(error))]
    return [*found, *_sums(accounts), _clock(entries), *_batches(book, accounts)]


def _batches(book: Book, accounts: Accounts) -> list[Check]:
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


def _clock(entries: list[BookEntry]) -> Check:
    """Times that run backwards: told, and noted when they were entered."""
    back = [e.number for e, before in zip(entries[1:], entries, strict=False) if e.at < before.at]
    unsaid = [n for n in back if "clock" not in entries[n - 1].content]
    if not back:
        return Check("times", True, f"{entries[0].at} to {entries[-1].at}")
    shown = ", ".join(str(n) for n in back[:5]) + (" and more" if len(back) > 5 else "")
    return Check("times", not unsaid, f"the clock ran backwards before entry {shown}")
