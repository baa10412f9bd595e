"""Everything that can be looked at in a book by itself: its file, its rules, its chain, what the entries come to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datamarket_gym.payout.book.accounts import Accounts
from datamarket_gym.payout.book.entry import BookEntry, BookError
from datamarket_gym.payout.book.seal import Head
from datamarket_gym.payout.money import Currency

if TYPE_CHECKING:
    from datamarket_gym.payout.book.store import Book

Finding = tuple[str, bool, str]
"""What was looked at, whether it is good, and a word on it."""


def examined(book: Book) -> list[Finding]:
    """All of it; what comes after something that cannot be read is left out."""
    found: list[Finding] = []
    try:
        with book.locked() as seal:
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
                found.append(("file of the book", True, said))
        changed = book.changed_rules()
        found.append(
            ("tables and triggers", not changed, "; ".join(changed) or "as this version makes them")
        )
        found.append(("chain", True, f"{len(entries):,} entries, head {entries[-1].hash[:16]}"))
        accounts = Accounts.of(entries)
    except BookError as error:
        return [*found, ("book", False, str(error))]
    return [*found, *_sums(accounts), _clock(entries)]


def _sums(accounts: Accounts) -> list[Finding]:
    """Per currency: what came in is owed, on its way, sent or charged; balances are what was carried and not ended."""
    found = []
    currencies = sorted({run.currency for run in accounts.runs.values()})
    for code in currencies:
        total = {kind: amount for (kind, c), amount in accounts.totals.items() if c == code}
        owed, going, sent, left = (
            sum(amount for (_, c), amount in place.items() if c == code)
            for place in (accounts.payable, accounts.outgoing, accounts.sent, accounts.balance)
        )
        came = sum(total.get(kind, 0) for kind in ("payment", "correction", "funded"))
        runs = sum(
            r.amount
            for r in accounts.runs.values()
            if r.currency == code and r.state in ("approved", "paid")
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
        found.append((f"sums in {code}", good, said))
    return found


def _clock(entries: list[BookEntry]) -> Finding:
    """Times that run backwards: told, and noted when they were entered."""
    back = [e.number for e, before in zip(entries[1:], entries, strict=False) if e.at < before.at]
    unsaid = [n for n in back if "clock" not in entries[n - 1].content]
    if not back:
        return "times", True, f"{entries[0].at} to {entries[-1].at}"
    shown = ", ".join(str(n) for n in back[:5]) + (" and more" if len(back) > 5 else "")
    return "times", not unsaid, f"the clock ran backwards before entry {shown}"
