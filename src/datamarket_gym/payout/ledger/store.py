"""The tables of a book, the triggers that guard them, and how transactions on them begin.

Two tables every book has. The third, of the digests of batches that arrived, is made with the first batch.

The seal of a SQLite book: a hash of the whole file, beside it, so that no byte of it changes unseen.

The chain holds what the entries say; bytes of the file that say nothing (free space, counters) are held by the seal.
It is announced before a page is committed and closed after: if the process is killed between, the head before or the
one announced is what must be there, and the next who writes or verifies closes it.

Receipts: ``RUN/book.json`` says which book a run is entered in, and its head when anything was last entered there.

So each run is an anchor of the chain: a book that was cut short, written anew from some entry on, or brought back from
an older copy does not hold the head that its runs have. Nothing is entered in such a book, or what was sent since would
be sent again.

Where a book lies: a SQLite file, or tables of a PostgreSQL database, through SQLAlchemy.

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
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from datamarket_gym.display import Shown
from datamarket_gym.errors import RunError, require_extra
from datamarket_gym.execution.files import json_text, read_json, sha256, waiting_for, write_json
from datamarket_gym.payout.ledger.balances import FORMAT, Accounts
from datamarket_gym.payout.ledger.entries import (
    START,
    LedgerEntry,
    LedgerError,
    chained,
    entries_of,
    require_somebody,
)
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import Check

_METADATA = sa.MetaData()
ENTRIES = sa.Table(
    "book_entries",
    _METADATA,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)
HEAD = sa.Table(
    "book_head",
    _METADATA,
    sa.Column("one", sa.Integer, sa.CheckConstraint("one = 1"), primary_key=True, autoincrement=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)
_LATER = sa.MetaData()
DIGESTS = sa.Table(
    "book_digests",
    _LATER,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("digests", sa.LargeBinary, nullable=False),
)
_ONLY_ADDED = "entries of the book are only added"
_SQLITE = tuple(
    f"CREATE TRIGGER book_{name} BEFORE {verb} ON {table} {when}BEGIN SELECT RAISE(ABORT, '{said}'); END"
    for name, verb, table, when, said in (
        ("entries_kept", "UPDATE", "book_entries", "", _ONLY_ADDED),
        ("entries_stay", "DELETE", "book_entries", "", _ONLY_ADDED),
        ("entries_follow", "INSERT", "book_entries",
         "WHEN NEW.number != 1 + (SELECT coalesce(max(number), 0) FROM book_entries) ",
         "an entry follows the last one"),
        ("head_stays", "DELETE", "book_head", "", "the head of the book stays"),
        ("head_moves", "UPDATE", "book_head", "WHEN NEW.number <= OLD.number ", "the head of the book moves on"),
    )
)  # fmt: skip
_POSTGRESQL = (
    f"CREATE FUNCTION book_entries_stay() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$BEGIN RAISE EXCEPTION '{_ONLY_ADDED}'; END$$",
    "CREATE FUNCTION book_head_moves() RETURNS trigger LANGUAGE plpgsql AS "
    "$$BEGIN IF TG_OP = 'UPDATE' THEN IF NEW.number > OLD.number THEN RETURN NEW; END IF; END IF; "
    "RAISE EXCEPTION 'the head of the book moves on'; END$$",
    "CREATE TRIGGER book_entries_stay BEFORE UPDATE OR DELETE ON book_entries "
    "FOR EACH ROW EXECUTE FUNCTION book_entries_stay()",
    "CREATE TRIGGER book_entries_emptied BEFORE TRUNCATE ON book_entries "
    "FOR EACH STATEMENT EXECUTE FUNCTION book_entries_stay()",
    "CREATE TRIGGER book_head_moves BEFORE UPDATE OR DELETE ON book_head "
    "FOR EACH ROW EXECUTE FUNCTION book_head_moves()",
)
_DIGESTS_STAY = "digests of the book are only added, to the last entry"
_SQLITE_LATER = tuple(
    f"CREATE TRIGGER book_digests_{name} BEFORE {verb} ON book_digests {when}"
    f"BEGIN SELECT RAISE(ABORT, '{_DIGESTS_STAY}'); END"
    for name, verb, when in (
        ("kept", "UPDATE", ""),
        ("stay", "DELETE", ""),
        ("follow", "INSERT",
         "WHEN NEW.number IS NOT (SELECT max(number) FROM book_entries) "
         "OR NEW.number <= (SELECT coalesce(max(number), 0) FROM book_digests) "),
    )
)  # fmt: skip
_POSTGRESQL_LATER = (
    "CREATE FUNCTION book_digests_stay() RETURNS trigger LANGUAGE plpgsql AS "
    "$$BEGIN IF TG_OP = 'INSERT' THEN IF NEW.number = (SELECT max(number) FROM book_entries) THEN RETURN NEW; END IF; "
    f"END IF; RAISE EXCEPTION '{_DIGESTS_STAY}'; END$$",
    "CREATE TRIGGER book_digests_stay BEFORE INSERT OR UPDATE OR DELETE ON book_digests "
    "FOR EACH ROW EXECUTE FUNCTION book_digests_stay()",
    "CREATE TRIGGER book_digests_emptied BEFORE TRUNCATE ON book_digests "
    "FOR EACH STATEMENT EXECUTE FUNCTION book_digests_stay()",
)
_LOCK = 0x626F6F6B  # "book": PostgreSQL's lock of whoever writes
_POSTGRESQL_RULES = """
WITH book AS (SELECT * FROM pg_class
  WHERE oid IN (to_regclass('book_entries'), to_regclass('book_head'), to_regclass('book_digests')))
SELECT 'table ' || relname || ' ' || concat(relkind, relpersistence, relrowsecurity, relforcerowsecurity) FROM book
UNION ALL SELECT 'column ' || c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
    || a.attnotnull || coalesce(' ' || pg_get_expr(d.adbin, d.adrelid), '')
  FROM book c JOIN pg_attribute a ON a.attrelid = c.oid
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
  WHERE a.attnum > 0 AND NOT a.attisdropped
UNION ALL SELECT 'trigger ' || tgname || ' ' || tgenabled::text || ' ' || pg_get_triggerdef(oid, true)
  FROM pg_trigger WHERE tgrelid IN (SELECT oid FROM book) AND NOT tgisinternal
UNION ALL SELECT 'function ' || p.proname || ' ' || p.prosrc
  FROM pg_proc p WHERE p.proname IN ('book_entries_stay', 'book_head_moves', 'book_digests_stay')
    AND p.pronamespace = (SELECT relnamespace FROM book WHERE relname = 'book_entries')
UNION ALL SELECT 'constraint ' || conname || ' ' || pg_get_constraintdef(oid, true)
  FROM pg_constraint WHERE conrelid IN (SELECT oid FROM book)
UNION ALL SELECT 'index ' || pg_get_indexdef(indexrelid, 0, true)
  FROM pg_index WHERE indrelid IN (SELECT oid FROM book)
UNION ALL SELECT 'rule ' || rulename FROM pg_rewrite WHERE ev_class IN (SELECT oid FROM book)
UNION ALL SELECT 'policy ' || polname FROM pg_policy WHERE polrelid IN (SELECT oid FROM book)
UNION ALL SELECT 'heir ' || inhrelid::regclass || ' of ' || inhparent::regclass
  FROM pg_inherits WHERE inhrelid IN (SELECT oid FROM book) OR inhparent IN (SELECT oid FROM book)
"""


def begin(connection: Connection, *, making: bool = False) -> None:
    """Begin a transaction that writes, and keep other writers out until it ends."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN EXCLUSIVE" if making else "BEGIN IMMEDIATE")
    else:
        connection.exec_driver_sql("SET LOCAL lock_timeout = '30s'")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")


def begin_reading(connection: Connection) -> None:
    """Begin a transaction that sees the book as of one moment."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN")
    else:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")


def make(connection: Connection) -> None:
    """Make the tables and their triggers, in the transaction that is going on."""
    _METADATA.create_all(connection, checkfirst=False)
    for statement in _SQLITE if connection.dialect.name == "sqlite" else _POSTGRESQL:
        connection.exec_driver_sql(statement)


def has_digests(connection: Connection) -> bool:
    """Whether there is the table of digests."""
    return sa.inspect(connection).has_table(DIGESTS.name)


def add_digests(connection: Connection, digests: dict[int, bytes]) -> None:
    """Add the digests of the entries that were just added; the table is made where there is none yet."""
    if not has_digests(connection):
        make_digests(connection)
    connection.execute(
        sa.insert(DIGESTS), [{"number": n, "digests": said} for n, said in digests.items()]
    )


def make_digests(connection: Connection) -> None:
    """Make the table of digests and its triggers, in the transaction that is going on."""
    _LATER.create_all(connection, checkfirst=False)
    for statement in _SQLITE_LATER if connection.dialect.name == "sqlite" else _POSTGRESQL_LATER:
        connection.exec_driver_sql(statement)


def differences(connection: Connection) -> list[str]:
    """Tables, columns, triggers and functions that are not as this version makes them, in words.

    The table of digests is there with all that belongs to it, or not at all.
    """
    if connection.dialect.name == "sqlite":
        found = _of_sqlite(connection)
        with sa.create_engine("sqlite://").connect() as fresh:
            _make_all(fresh, found)
            made = _of_sqlite(fresh)
    else:
        found = {str(row[0]) for row in connection.exec_driver_sql(_POSTGRESQL_RULES)}
        made = _of_new_schema(connection, found)
    return [
        *(f"gone or changed: {_short(rule)}" for rule in sorted(made - found)),
        *(f"not of this program: {_short(rule)}" for rule in sorted(found - made)),
    ]


def _of_sqlite(connection: Connection) -> set[str]:
    rows = connection.exec_driver_sql("SELECT type, name, sql FROM sqlite_master")
    return {" ".join(f"{kind} {name} {sql}".split()) for kind, name, sql in rows}


def _make_all(connection: Connection, found: set[str]) -> None:
    """Make the tables of a book of which these rules were found."""
    make(connection)
    if any(DIGESTS.name in rule for rule in found):
        make_digests(connection)


def _of_new_schema(connection: Connection, found: set[str]) -> set[str]:
    """The same of tables that are made anew, in a schema that is gone when the transaction is undone."""
    transaction = connection.begin_nested()
    try:
        connection.exec_driver_sql("CREATE SCHEMA book_as_made")
        connection.exec_driver_sql("SET LOCAL search_path TO book_as_made")
        _make_all(connection, found)
        rows = connection.exec_driver_sql(_POSTGRESQL_RULES).all()
        return {str(row[0]).replace("book_as_made.", "") for row in rows}
    finally:
        transaction.rollback()


def _short(rule: str) -> str:
    return rule if len(rule) <= 80 else f"{rule[:79]}…"


@dataclass(frozen=True)
class Head:
    """The last entry: its number and hash."""

    number: int
    hash: str


class LedgerChecksum:
    """The seal of a file; whoever uses it holds the lock of the book."""

    def __init__(self, book: Path) -> None:
        self.book = book
        self.path = book.with_name(f"{book.name}.seal")

    def announce(self, before: Head, after: Head) -> None:
        """Say which heads there may be until it is closed."""
        write_json(self.path, {"before": asdict(before), "after": asdict(after)})

    def close(self, head: Head) -> None:
        """Seal the file as it is, with this head; one that was not announced is refused."""
        self.require_head(head)
        write_json(self.path, {"sha256": sha256(self.book), "head": asdict(head)})

    @property
    def pending(self) -> bool:
        """Whether it was announced and not closed."""
        return self.path.is_file() and "before" in self._said()

    def require(self) -> None:
        """Refuse a file whose bytes are not those that were sealed; one whose seal is pending is not looked at."""
        if not self.path.is_file():
            raise LedgerError(
                f"the seal {str(self.path)!r} is gone: restore it, or the book with its seal, from a copy"
            )
        said = self._said()
        if "before" in said:
            return
        if said["sha256"] != sha256(self.book):
            raise LedgerError(
                f"the file {str(self.book)!r} is not as it was left: something else than this program "
                "changed or replaced it"
            )

    def require_unmade(self) -> None:
        """Refuse to begin a book where one was sealed; one whose first entry was only announced may be begun again."""
        if self.path.is_file() and self._said().get("before", {}).get("number") != 0:
            raise LedgerError(
                f"the book {str(self.book)!r} is gone or was emptied, and its seal is still there: restore the book "
                "from a copy"
            )

    def require_head(self, head: Head) -> None:
        """Refuse a head that is not the sealed one, nor one that was announced."""
        said = self._said()
        known = [said["before"], said["after"]] if "before" in said else [said["head"]]
        if asdict(head) not in known:
            raise LedgerError(f"the book ends with entry {head.number}, and its seal says otherwise")

    def _said(self) -> dict[str, Any]:
        try:
            said = read_json(self.path)
        except RunError as error:
            raise LedgerError(f"the seal {str(self.path)!r} cannot be read: {error}") from error
        kinds = ({"before", "after"}, {"sha256", "head"})
        written = self.path.read_bytes() == json_text(said).encode()  # a blank more is a change, too
        if not isinstance(said, dict) or set(said) not in kinds or not written:
            raise LedgerError(f"the seal {str(self.path)!r} is none that this version has written")
        return said


FILE = "book.json"


@dataclass(frozen=True)
class Receipt:
    """What a folder says of its book: where it is, and its head when the folder was last written."""

    book: str
    head: Head


def read_receipt(folder: Path) -> Receipt | None:
    """What a folder says of its book; None where it says nothing yet."""
    if not (folder / FILE).is_file():
        return None
    said = read_json(folder / FILE)
    try:
        book, number, head = said["book"], said["number"], said["head"]
        if not (type(book) is str and type(number) is int and type(head) is str):
            raise TypeError
    except (TypeError, KeyError) as error:
        raise RunError(
            f"{str(folder / FILE)!r} does not say which book the run is in; remove it, then run: "
            f"datamarket ledger attach {folder} BOOK"
        ) from error
    where = book if is_address(book) else os.path.normpath(folder.resolve() / book)
    return Receipt(where, Head(number, head))


def is_address(where: str) -> bool:
    """Whether a book is named by an address, not by a path."""
    return "://" in where


def holds(entries: list[LedgerEntry], head: Head) -> bool:
    """Whether a chain holds a head that was noted elsewhere."""
    return 1 <= head.number <= len(entries) and entries[head.number - 1].hash == head.hash


def within_reach(path: Path) -> bool:
    """Whether a file is there and can be read: several people may share a book, and not the folders of its runs."""
    return os.access(path, os.R_OK) and path.is_file()


def require_newest(accounts: Accounts, where: str) -> None:
    """Refuse a book that is behind one of its runs: an older copy, or a second one."""
    for folder, receipt in _receipts(accounts):
        if not holds(accounts.entries, receipt.head):
            raise LedgerError(
                f"the book {where!r} ends with entry {accounts.number} and does not hold entry {receipt.head.number} "
                f"as the run in {str(folder)!r} knows it from {receipt.book!r}: it is an older copy, or a second one, "
                "and what was sent since would be sent again. Bring the newest copy of the book back"
            )


def note_head(accounts: Accounts, book: str) -> None:
    """Note the head in the folders of all runs that are in this book, as far as they lie where they were made."""
    for folder, receipt in _receipts(accounts):
        if receipt.book == book and os.access(folder, os.W_OK):
            said = read_json(folder / FILE)
            with entered_already(str(folder / FILE)):
                write_json(folder / FILE, {**said, "number": accounts.number, "head": accounts.head})


@contextmanager
def entered_already(what: str) -> Iterator[None]:
    """A file that cannot be written after entries were is told, and no error: whoever tries again would enter twice."""
    try:
        yield
    except OSError as error:
        warnings.warn(
            f"what was asked for is entered; {what!r} could not be written after it ({error}). Do not do it again: the "
            "next command that enters anything writes the file anew",
            stacklevel=2,
        )


def _receipts(accounts: Accounts) -> Iterator[tuple[Path, Receipt]]:
    """The folders of the book's runs that are still there, and what they say of their book."""
    for record in accounts.runs.values():
        folder = Path(record.places.get("run", ""))
        if not within_reach(folder / FILE) or not within_reach(folder / MANIFEST):
            continue
        receipt, manifest = read_receipt(folder), read_json(folder / MANIFEST)
        if receipt is not None and isinstance(manifest, dict) and manifest.get("run") == record.run:
            yield folder, receipt


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


class Transaction:
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
                raise LedgerError(
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
    ) -> LedgerEntry:
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
class Ledger(Shown):
    """A book; ``where`` is its path, or its address without a password."""

    where: str
    engine: Engine
    path: Path | None = None  # of a SQLite file

    def read(self) -> list[LedgerEntry]:
        """All entries; an error at the first that is not as it was entered."""
        return list(_chain(self._rows()))

    def accounts(self) -> Accounts:
        """What the entries come to, to be looked at: what is added is added on a page, which has its own."""
        return _accounts(self._rows())

    @contextmanager
    def page(self) -> Iterator[Transaction]:
        """Add entries in one transaction; nobody else writes meanwhile."""
        with self._writing() as (connection, rows, seal):
            page = Transaction(Accounts.of(_chain(rows)))
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
                connection.execute(sa.insert(ENTRIES), new)
                if page.digests:
                    add_digests(connection, page.digests)
                connection.execute(sa.update(HEAD).values(number=after.number, hash=after.hash))
                connection.commit()
            note_head(page.accounts, self.where if self.path is None else str(self.path))

    def digests(self, numbers: Sequence[int]) -> Iterator[bytes | None]:
        """The digests of the units of each of these batches, as they lie there; None where there are none."""
        as_it_is = sa.type_coerce(DIGESTS.c.digests, sa.types.NullType())  # SQLite holds anything
        with self._refusing(), self.engine.connect() as connection:
            there = has_digests(connection)
            for number in numbers:
                wanted = sa.select(as_it_is).where(DIGESTS.c.number == number)
                found = connection.execute(wanted).scalar_one_or_none() if there else None
                if found is not None and not isinstance(found, bytes):
                    raise LedgerError(
                        f"the digests of entry {number} are no bytes: something else wrote them"
                    )
                yield found

    def numbers_with_digests(self) -> list[int]:
        """The numbers of the entries that have digests."""
        with self._refusing(), self.engine.connect() as connection:
            if not has_digests(connection):
                return []
            return list(connection.execute(sa.select(DIGESTS.c.number)).scalars())

    def examined(self) -> list[Check]:
        """Its file, rules, chain and sums, looked at."""
        # Here, for it works on books: a cycle otherwise.
        from datamarket_gym.payout.ledger.integrity import examined

        return examined(self)

    def changed_rules(self) -> list[str]:
        """Tables and triggers that are not as this version makes them."""
        with self._refusing(), self.engine.connect() as connection:
            return differences(connection)

    @contextmanager
    def locked(self, *, looking: bool = False) -> Iterator[LedgerChecksum | None]:
        """Keep other writers out; the seal of a SQLite file, which must be as it was left.

        Whoever is only ``looking`` may do so where they may not write, too.
        """
        if self.path is None:
            yield None
            return
        if looking and not os.access(
            self.path.parent, os.W_OK
        ):  # an auditor's copy: nobody can write here
            yield LedgerChecksum(self.path)
            return
        with waiting_for(self.path.with_name(f"{self.path.name}.lock"), _WAIT, "book"):
            self._recover()
            yield LedgerChecksum(self.path)

    def _recover(self) -> None:
        """Let SQLite undo what a killed process was writing, before the file's bytes are looked at."""
        with self._refusing(), self.engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            connection.rollback()

    @contextmanager
    def _writing(self) -> Iterator[tuple[Connection, BookRows, LedgerChecksum | None]]:
        with self.locked() as seal:
            if seal is not None:
                seal.require()
            try:
                with self._refusing():
                    connection = self.engine.connect()
                with connection:
                    with self._refusing():
                        begin(connection)
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
            begin_reading(connection)
            return _checked_rows(connection)

    def _last(self) -> Head:
        """The head after a page: what it follows was checked before it was entered, and is again by whoever reads."""
        columns = ENTRIES.c
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
            raise LedgerError(f"the book {self.where!r} refuses: {first}{hint}") from error

    def __repr__(self) -> str:
        return f"Book({self.where!r})"


def open_ledger(where: str | Path, *, new: bool = False) -> Ledger:
    """A book by its path or address (``postgresql://...``); made where it is not there yet and ``new`` says so."""
    text = str(where)
    if is_address(text):
        book = _of_server(text)
        there = _has_tables(book)
    else:
        path = Path(text).resolve()  # a link to a book has its lock and its seal where the book is
        book = Ledger(text, _of_file(path), path)
        there = path.is_file() and path.stat().st_size > 0 and _has_tables(book)
        if path.exists() and not path.is_file():
            raise LedgerError(f"{text!r} is no file; name the file of a book, or its address")
    if not there:
        if not new:
            raise LedgerError(
                f"there is no book at {book.where!r}; check the path (pay begins a book, datamarket intake init a log)"
            )
        _make(book)
    return book


def begun(where: str) -> bool:
    """Whether there is a book, or something that is left of one; whoever opens that finds out."""
    return is_address(where) or Path(where).exists() or LedgerChecksum(Path(where)).path.exists()


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


def _of_server(text: str) -> Ledger:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:  # a port that is no number
        raise LedgerError(
            "the address of the book cannot be read; write postgresql://user@host/name"
        ) from error
    if url.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise LedgerError(f"a book lies in a SQLite file or in PostgreSQL, not in {url.drivername!r}")
    require_extra("psycopg", "postgres")
    engine = sa.create_engine(url.set(drivername="postgresql+psycopg"), poolclass=sa.pool.NullPool)
    return Ledger(without_password(url), engine)


def _has_tables(book: Ledger) -> bool:
    with book._refusing(), book.engine.connect() as connection:
        return sa.inspect(connection).has_table(ENTRIES.name)


def _make(book: Ledger) -> None:
    """Make the tables and the first entry, once: whoever comes second finds them."""
    if book.path is not None:
        book.path.parent.mkdir(parents=True, exist_ok=True)
    with book.locked() as seal:
        page = Transaction(Accounts())
        with book._refusing(), book.engine.connect() as connection:
            begin(connection, making=True)
            if sa.inspect(connection).has_table(ENTRIES.name):
                return
            if seal is not None:
                seal.require_unmade()
            first = page.add("book", content={"format": FORMAT, "id": secrets.token_hex(16)})
            if seal is not None:
                seal.announce(Head(0, START), Head(1, first.hash))
            make(connection)
            connection.execute(sa.insert(ENTRIES).values(number=1, body=first.body, hash=first.hash))
            connection.execute(sa.insert(HEAD).values(one=1, number=1, hash=first.hash))
            connection.commit()
        if seal is not None:
            seal.close(Head(1, first.hash))


def _checked_rows(connection: Connection) -> BookRows:
    """The rows of the entries, chain and head checked."""
    columns = ENTRIES.c
    found = connection.execute(
        sa.select(columns.number, columns.body, columns.hash).order_by(columns.number)
    )
    rows = tuple((n, body, said) for n, body, said in found.all())
    for place, row in enumerate(rows, 1):
        if tuple(map(type, row)) != (int, str, str):
            raise LedgerError(f"entry {place} of the book is none that this version has written")
    if not _chain(rows):
        raise LedgerError("the book is empty: all of its entries were taken out")
    heads = [tuple(row) for row in connection.execute(sa.select(HEAD))]
    head = _head(rows)
    if heads != [(1, head.number, head.hash)]:
        raise LedgerError(
            f"the book ends with entry {head.number}, and its head says otherwise: entries were taken out, or added by "
            "hand"
        )
    return rows


# One command reads its book many times. The rows are read anew each time and held against those of the last time, to
# the byte; only if they are the same is what they came to taken over.
@lru_cache(maxsize=1)
def _chain(rows: BookRows) -> tuple[LedgerEntry, ...]:
    """The entries of rows; an error at the first that is not in its place."""
    return tuple(entries_of(rows))


@lru_cache(maxsize=1)
def _accounts(rows: BookRows) -> Accounts:
    return Accounts.of(_chain(rows))


def _head(rows: BookRows) -> Head:
    return Head(rows[-1][0], rows[-1][2]) if rows else Head(0, START)
