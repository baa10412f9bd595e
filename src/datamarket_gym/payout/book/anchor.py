"""Anchors: heads of the chain noted where whoever keeps the book cannot change them.

Whoever holds the book and all of its runs can write both anew, hashes and all. They cannot change what they gave away:
an e-mail to the payees, a page of a newspaper, a file on somebody else's disk. One line per anchor: number, hash, time.
"""

from __future__ import annotations

from pathlib import Path

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.files import write_text
from datamarket_gym.core.screen import counted
from datamarket_gym.payout.book.accounts import Accounts
from datamarket_gym.payout.book.entry import BookEntry
from datamarket_gym.payout.book.receipts import holds
from datamarket_gym.payout.book.seal import Head
from datamarket_gym.payout.book.statement import AccountStatement
from datamarket_gym.payout.verdicts import Check


def anchor_of(known: Accounts | AccountStatement) -> str:
    """The line that says how far a book, or a statement from it, goes."""
    return f"{known.number} {known.head} {known.at}"


def add_anchor(path: Path, accounts: Accounts) -> str:
    """Add the head of the book to a file of anchors; the line."""
    line, there = anchor_of(accounts), path.exists()
    if not there or Head(accounts.number, accounts.head) not in read_anchors(path):
        before = path.read_text(encoding="ascii").splitlines() if there else []
        write_text(path, "".join(f"{each}\n" for each in [*before, line]))
    return line


def read_anchors(path: Path) -> list[Head]:
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


def anchored(entries: list[BookEntry], path: Path) -> Check:
    """Whether the chain holds every anchor of a file."""
    heads = read_anchors(path)
    lost = [head for head in heads if not holds(entries, head)]
    said = f"{counted(len(heads), 'anchor')}, the last at entry {max(head.number for head in heads)}"
    if lost:
        said = f"the book does not hold entry {lost[0].number} as it was anchored: it was written anew, or cut short"
    return Check(f"anchors {path.name}", not lost, said)
