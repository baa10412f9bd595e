"""A payday for a look: the run as it would be, in a folder and a book of its own; the market's book is not touched.

What a run takes from the market's book (balances, decisions of disputes) it takes from a copy, so that the payments are
those that it would come to.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from datamarket_gym.payout.book.place import default_book
from datamarket_gym.payout.book.receipts import is_address
from datamarket_gym.payout.book.seal import Seal
from datamarket_gym.payout.book.store import begun, open_book
from datamarket_gym.payout.request import PayRequest


def rehearsal(request: PayRequest, folder: Path) -> PayRequest:
    """The request as a rehearsal in a folder, ``folder/run`` with ``folder/book.sqlite``; one begun before goes on.

    Of a book on a server no copy is made: its balances are not in a rehearsal.
    """
    out = folder / "run"
    mine = Path(default_book(out))
    market = request.book or default_book(request.out)
    folder.mkdir(parents=True, exist_ok=True)
    if not mine.exists() and not is_address(market) and begun(market):
        _copy(Path(market).resolve(), mine)
    return request.into(out, str(mine))


def _copy(book: Path, to: Path) -> None:
    """Copy a book with its seal, while nobody writes in it; the book comes last, as it says that both are there."""
    with open_book(book).locked(looking=True) as seal:
        if seal is not None:
            seal.require()
            shutil.copyfile(seal.path, Seal(to).path)
        part = to.with_name(f"{to.name}.part")
        shutil.copyfile(book, part)
        part.replace(to)
