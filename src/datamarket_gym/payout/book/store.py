"""Where a book lies: a SQLite file, or tables of a PostgreSQL database, through SQLAlchemy.

Two tables: the entries (number, body, hash), to which rows are only added, and the head (the last number and hash); and
a third where batches arrived: the digests of their units, which only those read who ask for them.
Triggers refuse every change by hand that they can see; the chain finds the others. One writer at a time: a lock beside
the file, or a lock of the server; each page of entries is one transaction.
"""

from __future__ import annotations

import getpass
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from datamarket_gym.core.extras import require_extra
from datamarket_gym.core.files import waiting_for
from datamarket_gym.core.screen import Shown
from datamarket_gym.payout.book import tables
from datamarket_gym.payout.book.accounts import FORMAT, Accounts
from datamarket_gym.payout.book.entry import START, BookEntry, BookError, chained, entries_of
from datamarket_gym.payout.book.receipts import entered_already, is_address, note_head, require_newest
from datamarket_gym.payout.book.run_record import require_somebody
from datamarket_gym.payout.book.seal import Head, Seal
from datamarket_gym.payout.verdicts import Check

NAME = "book.sqlite"
BookRow = tuple[int, str, str]  # number, body, hash
BookRows = tuple[BookRow, ...]
_WAIT = 30.0  # seconds another process may hold the book
_GONE = "; run the same command again once the server is back: nothing is entered twice"
_HINTS = {
    "password": "; set PGPASSWORD, or keep it in a .pgpass file",
    "database is locked": f"; another program has held it for {_WAIT:g} seconds: close it, and try again",
    "lock timeout": f"; another process has been writing to it for {_WAIT:g} seconds: try again",
    "Connection refused": "; see that the server is running",
    "terminating connection": _GONE,
    "server closed the connection": _GONE,
    "unable to open": "; check that you may read the file and write to its folder",
    "readonly": "; check that you may write to the file and its folder",
    "not a database": ": it is no book; check the path",
    "is full": "; nothing was entered: make room and run the same command again",
}


class Page:
    """Entries that are added together, or not at all."""

    def __init__(self, accounts: Accounts, now: datetime | None = None) -> None:
        self.accounts = accounts
        self.new: list[BookRow] = []
        self.digests: dict[int, bytes] = {}  # of the units of batches, by the number of the entry
        self._user = user()
        self._at = _moment(now)

    def wait(self) -> None:
        """Wait for a time later than that of every entry: two within a millisecond would be in no order.

        A clock that is behind is refused, not waited for.
        """
        while self._at <= self.accounts.latest:
            if self._at < self.accounts.latest:
                raise BookError(
                    f"the clock says {self._at}, and the book holds an entry of {self.accounts.latest}: the time of "
                    "arrival decides who was first, so nothing was entered. Set the clock right; if it was ahead "
                    "when that entry was made, wait until that time"
                )
            time.sleep(0.0005)
            self._at = _moment()

    def add(
        self,
        kind: str,
        *,
        run: str = "",
        payee: str = "",
        currency: str = "",
        amount: int = 0,
        content: dict[str, Any] | None = None,
        by: str | None = None,
    ) -> BookEntry:
        """Add an entry; refused where it cannot follow those that are there."""
        last, said, who = self.accounts, dict(content or {}), self._user if by is None else by
        require_somebody(who)
        if self._at < last.at:
            said["clock"] = f"the clock ran backwards: the entry before is of {last.at}"
        entry = chained(
            last.head or START, number=last.number + 1, at=self._at, by=who, kind=kind, run=run, payee=payee,
            currency=currency, amount=amount, content=said,
        )  # fmt: skip
        last.after(entry)
        self.new.append((entry.number, entry.body, entry.hash))
        return entry


@dataclass(frozen=True)
class Book(Shown):
    """A book; ``where`` is its path, or its address without a password."""

    where: str
    engine: Engine
    path: Path | None = None  # of a SQLite file

    def read(self) -> list[BookEntry]:
        """All entries; an error at the first that is not as it was entered."""
        return list(_chain(self._rows()))

    def accounts(self) -> Accounts:
        """What the entries come to, to be looked at: what is added is added on a page, which has its own."""
        return _accounts(self._rows())

    @contextmanager
    def page(self) -> Iterator[Page]:
        """Add entries in one transaction; nobody else writes meanwhile."""
        with self._writing() as (connection, rows, seal):
            page = Page(Accounts.of(_chain(rows)))
            require_newest(page.accounts, self.where)
            yield page
            if not page.new:
                return
            page.accounts.require_whole()
            after = Head(page.accounts.number, page.accounts.head)
            if seal is not None:
                seal.announce(_head(rows), after)
            with self._refusing():
                new = [{"number": n, "body": body, "hash": said} for n, body, said in page.new]
                connection.execute(sa.insert(tables.ENTRIES), new)
                if page.digests:
                    tables.add_digests(connection, page.digests)
                connection.execute(sa.update(tables.HEAD).values(number=after.number, hash=after.hash))
                connection.commit()
            note_head(page.accounts, self.where if self.path is None else str(self.path))

    def digests(self, numbers: Sequence[int]) -> Iterator[bytes | None]:
        """The digests of the units of each of these batches, as they lie there; None where there are none."""
        as_it_is = sa.type_coerce(tables.DIGESTS.c.digests, sa.types.NullType())  # SQLite holds anything
        with self._refusing(), self.engine.connect() as connection:
            there = tables.has_digests(connection)
            for number in numbers:
                wanted = sa.select(as_it_is).where(tables.DIGESTS.c.number == number)
                found = connection.execute(wanted).scalar_one_or_none() if there else None
                if found is not None and not isinstance(found, bytes):
                    raise BookError(
                        f"the digests of entry {number} are no bytes: something else wrote them"
                    )
                yield found

    def numbers_with_digests(self) -> list[int]:
        """The numbers of the entries that have digests."""
        with self._refusing(), self.engine.connect() as connection:
            if not tables.has_digests(connection):
                return []
            return list(connection.execute(sa.select(tables.DIGESTS.c.number)).scalars())

    def examined(self) -> list[Check]:
        """Its file, rules, chain and sums, looked at."""
        # Here, for it works on books: a cycle otherwise.
        from datamarket_gym.payout.book.examined import examined

        return examined(self)

    def changed_rules(self) -> list[str]:
        """Tables and triggers that are not as this version makes them."""
        with self._refusing(), self.engine.connect() as connection:
            return tables.differences(connection)

    @contextmanager
    def locked(self, *, looking: bool = False) -> Iterator[Seal | None]:
        """Keep other writers out; the seal of a SQLite file, which must be as it was left.

        Whoever is only ``looking`` may do so where they may not write, too.
        """
        if self.path is None:
            yield None
            return
        if looking and not os.access(
            self.path.parent, os.W_OK
        ):  # an auditor's copy: nobody can write here
            yield Seal(self.path)
            return
        with waiting_for(self.path.with_name(f"{self.path.name}.lock"), _WAIT, "book"):
            self._recover()
            yield Seal(self.path)

    def _recover(self) -> None:
        """Let SQLite undo what a killed process was writing, before the file's bytes are looked at."""
        with self._refusing(), self.engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            connection.rollback()

    @contextmanager
    def _writing(self) -> Iterator[tuple[Connection, BookRows, Seal | None]]:
        with self.locked() as seal:
            if seal is not None:
                seal.require()
            try:
                with self._refusing():
                    connection = self.engine.connect()
                with connection:
                    with self._refusing():
                        tables.begin(connection)
                        rows = _checked_rows(connection)
                    if seal is not None:
                        seal.require_head(_head(rows))
                    yield connection, rows, seal
            finally:
                if seal is not None and seal.pending:
                    with entered_already(str(seal.path)):
                        seal.close(self._last())

    def _rows(self) -> BookRows:
        with self._refusing(), self.engine.connect() as connection:
            tables.begin_reading(connection)
            return _checked_rows(connection)

    def _last(self) -> Head:
        """The head after a page: what it follows was checked before it was entered, and is again by whoever reads."""
        columns = tables.ENTRIES.c
        last = sa.select(columns.number, columns.hash).order_by(columns.number.desc()).limit(1)
        with self._refusing(), self.engine.connect() as connection:
            number, said = connection.execute(last).one()
            return Head(int(number), str(said))

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """What the database refuses is an error of ours, without the password."""
        try:
            yield
        except (
            SQLAlchemyError,
            sqlite3.Error,
            UnicodeError,
        ) as error:  # SQLite quotes damaged bytes in its errors
            said = str(getattr(error, "orig", None) or error).strip().splitlines()
            first = said[0] if said else type(error).__name__
            hint = next((hint for word, hint in _HINTS.items() if word in first), "")
            raise BookError(f"the book {self.where!r} refuses: {first}{hint}") from error

    def __repr__(self) -> str:
        return f"Book({self.where!r})"


def open_book(where: str | Path, *, new: bool = False) -> Book:
    """A book by its path or address (``postgresql://...``); made where it is not there yet and ``new`` says so."""
    text = str(where)
    if is_address(text):
        book = _of_server(text)
        there = _has_tables(book)
    else:
        path = Path(text).resolve()  # a link to a book has its lock and its seal where the book is
        book = Book(text, _of_file(path), path)
        there = path.is_file() and path.stat().st_size > 0 and _has_tables(book)
        if path.exists() and not path.is_file():
            raise BookError(f"{text!r} is no file; name the file of a book, or its address")
    if not there:
        if not new:
            raise BookError(
                f"there is no book at {book.where!r}; check the path (pay begins a book, datamarket intake init a log)"
            )
        _make(book)
    return book


def begun(where: str) -> bool:
    """Whether there is a book, or something that is left of one; whoever opens that finds out."""
    return is_address(where) or Path(where).exists() or Seal(Path(where)).path.exists()


def without_password(url: URL) -> str:
    """An address as files and messages may have it."""
    query = {key: value for key, value in url.query.items() if "password" not in key}
    known = URL.create("postgresql", url.username, None, url.host, url.port, url.database, query)
    return known.render_as_string(hide_password=False)


def user() -> str:
    """Who is at the keyboard."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no such user, as in some containers
        return "unknown"


def _moment(now: datetime | None = None) -> str:
    return (now or datetime.now(UTC)).isoformat(timespec="milliseconds")


def _of_file(path: Path) -> Engine:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=_WAIT, isolation_level=None)
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    return sa.create_engine("sqlite://", creator=connect, poolclass=sa.pool.NullPool)


def _of_server(text: str) -> Book:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:  # a port that is no number
        raise BookError(
            "the address of the book cannot be read; write postgresql://user@host/name"
        ) from error
    if url.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise BookError(f"a book lies in a SQLite file or in PostgreSQL, not in {url.drivername!r}")
    require_extra("psycopg", "postgres")
    engine = sa.create_engine(url.set(drivername="postgresql+psycopg"), poolclass=sa.pool.NullPool)
    return Book(without_password(url), engine)


def _has_tables(book: Book) -> bool:
    with book._refusing(), book.engine.connect() as connection:
        return sa.inspect(connection).has_table(tables.ENTRIES.name)


def _make(book: Book) -> None:
    """Make the tables and the first entry, once: whoever comes second finds them."""
    if book.path is not None:
        book.path.parent.mkdir(parents=True, exist_ok=True)
    with book.locked() as seal:
        page = Page(Accounts())
        with book._refusing(), book.engine.connect() as connection:
            tables.begin(connection, making=True)
            if sa.inspect(connection).has_table(tables.ENTRIES.name):
                return
            if seal is not None:
                seal.require_unmade()
            first = page.add("book", content={"format": FORMAT, "id": secrets.token_hex(16)})
            if seal is not None:
                seal.announce(Head(0, START), Head(1, first.hash))
            tables.make(connection)
            connection.execute(
                sa.insert(tables.ENTRIES).values(number=1, body=first.body, hash=first.hash)
            )
            connection.execute(sa.insert(tables.HEAD).values(one=1, number=1, hash=first.hash))
            connection.commit()
        if seal is not None:
            seal.close(Head(1, first.hash))


def _checked_rows(connection: Connection) -> BookRows:
    """The rows of the entries, chain and head checked."""
    columns = tables.ENTRIES.c
    found = connection.execute(
        sa.select(columns.number, columns.body, columns.hash).order_by(columns.number)
    )
    rows = tuple((n, body, said) for n, body, said in found.all())
    for place, row in enumerate(rows, 1):
        if tuple(map(type, row)) != (int, str, str):
            raise BookError(f"entry {place} of the book is none that this version has written")
    if not _chain(rows):
        raise BookError("the book is empty: all of its entries were taken out")
    heads = [tuple(row) for row in connection.execute(sa.select(tables.HEAD))]
    head = _head(rows)
    if heads != [(1, head.number, head.hash)]:
        raise BookError(
            f"the book ends with entry {head.number}, and its head says otherwise: entries were taken out, or added by "
            "hand"
        )
    return rows


# One command reads its book many times. The rows are read anew each time and held against those of the last time, to
# the byte; only if they are the same is what they came to taken over.
@lru_cache(maxsize=1)
def _chain(rows: BookRows) -> tuple[BookEntry, ...]:
    """The entries of rows; an error at the first that is not in its place."""
    return tuple(entries_of(rows))


@lru_cache(maxsize=1)
def _accounts(rows: BookRows) -> Accounts:
    return Accounts.of(_chain(rows))


def _head(rows: BookRows) -> Head:
    return Head(rows[-1][0], rows[-1][2]) if rows else Head(0, START)
