"""The tables of a ledger, the triggers that guard them, and how transactions on them begin.

Two tables every ledger has. The third, of the digests of batches that arrived, is made with the first batch.

The checksum of a SQLite ledger: a hash of the whole file, beside it, so that no byte of it changes unseen.

The chain holds what the entries say; bytes of the file that say nothing (free space, counters) are held by the
checksum. It is announced before a page is committed and closed after: if the process is killed between, the tip
before or the one announced is what must be there, and the next who writes or verifies closes it.

Receipts: ``RUN/ledger.json`` says which ledger a run is entered in, and its tip when anything was last entered there.

So each run is a checkpoint of the chain: a ledger that was cut short, written anew from some entry on, or brought
back from an older copy does not hold the tip that its runs have. Nothing is entered in such a ledger, or what was
sent since would be sent again.

Where a ledger lies: a SQLite file, or tables of a PostgreSQL database, through SQLAlchemy.

Two tables: the entries (number, body, hash), to which rows are only added, and the tip (the last number and hash); and
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
    chain_entry,
    read_entries,
    require_somebody,
)
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import Check

_METADATA = sa.MetaData()
ENTRIES = sa.Table(
    "ledger_entries",
    _METADATA,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)
TIP = sa.Table(
    "ledger_tip",
    _METADATA,
    sa.Column("one", sa.Integer, sa.CheckConstraint("one = 1"), primary_key=True, autoincrement=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)
_LATER = sa.MetaData()
DIGESTS = sa.Table(
    "ledger_digests",
    _LATER,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("digests", sa.LargeBinary, nullable=False),
)
_ONLY_ADDED = "entries of the ledger are only added"
_SQLITE = tuple(
    f"CREATE TRIGGER book_{name} BEFORE {verb} ON {table} {when}BEGIN SELECT RAISE(ABORT, '{said}'); END"
    for name, verb, table, when, said in (
        ("entries_kept", "UPDATE", "ledger_entries", "", _ONLY_ADDED),
        ("entries_stay", "DELETE", "ledger_entries", "", _ONLY_ADDED),
        ("entries_follow", "INSERT", "ledger_entries",
         "WHEN NEW.number != 1 + (SELECT coalesce(max(number), 0) FROM ledger_entries) ",
         "an entry follows the last one"),
        ("head_stays", "DELETE", "ledger_tip", "", "the tip of the ledger stays"),
        ("head_moves", "UPDATE", "ledger_tip", "WHEN NEW.number <= OLD.number ", "the tip of the ledger moves on"),
    )
)  # fmt: skip
_POSTGRESQL = (
    f"CREATE FUNCTION ledger_entries_stay() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$BEGIN RAISE EXCEPTION '{_ONLY_ADDED}'; END$$",
    "CREATE FUNCTION ledger_tip_moves() RETURNS trigger LANGUAGE plpgsql AS "
    "$$BEGIN IF TG_OP = 'UPDATE' THEN IF NEW.number > OLD.number THEN RETURN NEW; END IF; END IF; "
    "RAISE EXCEPTION 'the tip of the ledger moves on'; END$$",
    "CREATE TRIGGER ledger_entries_stay BEFORE UPDATE OR DELETE ON ledger_entries "
    "FOR EACH ROW EXECUTE FUNCTION ledger_entries_stay()",
    "CREATE TRIGGER ledger_entries_emptied BEFORE TRUNCATE ON ledger_entries "
    "FOR EACH STATEMENT EXECUTE FUNCTION ledger_entries_stay()",
    "CREATE TRIGGER ledger_tip_moves BEFORE UPDATE OR DELETE ON ledger_tip "
    "FOR EACH ROW EXECUTE FUNCTION ledger_tip_moves()",
)
_DIGESTS_STAY = "digests of the ledger are only added, to the last entry"
_SQLITE_LATER = tuple(
    f"CREATE TRIGGER ledger_digests_{name} BEFORE {verb} ON ledger_digests {when}"
    f"BEGIN SELECT RAISE(ABORT, '{_DIGESTS_STAY}'); END"
    for name, verb, when in (
        ("kept", "UPDATE", ""),
        ("stay", "DELETE", ""),
        ("follow", "INSERT",
         "WHEN NEW.number IS NOT (SELECT max(number) FROM ledger_entries) "
         "OR NEW.number <= (SELECT coalesce(max(number), 0) FROM ledger_digests) "),
    )
)  # fmt: skip
_POSTGRESQL_LATER = (
    "CREATE FUNCTION ledger_digests_stay() RETURNS trigger LANGUAGE plpgsql AS "
    "$$BEGIN IF TG_OP = 'INSERT' THEN IF NEW.number = (SELECT max(number) FROM ledger_entries) THEN "
    "RETURN NEW; END IF; "
    f"END IF; RAISE EXCEPTION '{_DIGESTS_STAY}'; END$$",
    "CREATE TRIGGER ledger_digests_stay BEFORE INSERT OR UPDATE OR DELETE ON ledger_digests "
    "FOR EACH ROW EXECUTE FUNCTION ledger_digests_stay()",
    "CREATE TRIGGER ledger_digests_emptied BEFORE TRUNCATE ON ledger_digests "
    "FOR EACH STATEMENT EXECUTE FUNCTION ledger_digests_stay()",
)
_LOCK = 0x626F6F6B  # "ledger": PostgreSQL's lock of whoever writes
_POSTGRESQL_RULES = """
WITH ledger AS (SELECT * FROM pg_class
  WHERE oid IN (to_regclass('ledger_entries'), to_regclass('ledger_tip'), to_regclass('ledger_digests')))
SELECT 'table ' || relname || ' ' || concat(relkind, relpersistence, relrowsecurity, relforcerowsecurity) FROM ledger
UNION ALL SELECT 'column ' || c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
    || a.attnotnull || coalesce(' ' || pg_get_expr(d.adbin, d.adrelid), '')
  FROM ledger c JOIN pg_attribute a ON a.attrelid = c.oid
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
  WHERE a.attnum > 0 AND NOT a.attisdropped
UNION ALL SELECT 'trigger ' || tgname || ' ' || tgenabled::text || ' ' || pg_get_triggerdef(oid, true)
  FROM pg_trigger WHERE tgrelid IN (SELECT oid FROM ledger) AND NOT tgisinternal
UNION ALL SELECT 'function ' || p.proname || ' ' || p.prosrc
  FROM pg_proc p WHERE p.proname IN ('ledger_entries_stay', 'ledger_tip_moves', 'ledger_digests_stay')
    AND p.pronamespace = (SELECT relnamespace FROM ledger WHERE relname = 'ledger_entries')
UNION ALL SELECT 'constraint ' || conname || ' ' || pg_get_constraintdef(oid, true)
  FROM pg_constraint WHERE conrelid IN (SELECT oid FROM ledger)
UNION ALL SELECT 'index ' || pg_get_indexdef(indexrelid, 0, true)
  FROM pg_index WHERE indrelid IN (SELECT oid FROM ledger)
UNION ALL SELECT 'rule ' || rulename FROM pg_rewrite WHERE ev_class IN (SELECT oid FROM ledger)
UNION ALL SELECT 'policy ' || polname FROM pg_policy WHERE polrelid IN (SELECT oid FROM ledger)
UNION ALL SELECT 'heir ' || inhrelid::regclass || ' of ' || inhparent::regclass
  FROM pg_inherits WHERE inhrelid IN (SELECT oid FROM ledger) OR inhparent IN (SELECT oid FROM ledger)
"""


def begin(connection: Connection, *, making: bool = False) -> None:
    """Begin a transaction that writes, and keep other writers out until it ends."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN EXCLUSIVE" if making else "BEGIN IMMEDIATE")
    else:
        connection.exec_driver_sql("SET LOCAL lock_timeout = '30s'")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")


def begin_reading(connection: Connection) -> None:
    """Begin a transaction that sees the ledger as of one moment."""
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
    """Make the tables of a ledger of which these rules were found."""
    make(connection)
    if any(DIGESTS.name in rule for rule in found):
        make_digests(connection)


def _of_new_schema(connection: Connection, found: set[str]) -> set[str]:
    """The same of tables that are made anew, in a schema that is gone when the transaction is undone."""
    transaction = connection.begin_nested()
    try:
        connection.exec_driver_sql("CREATE SCHEMA ledger_as_made")
        connection.exec_driver_sql("SET LOCAL search_path TO ledger_as_made")
        _make_all(connection, found)
        rows = connection.exec_driver_sql(_POSTGRESQL_RULES).all()
        return {str(row[0]).replace("ledger_as_made.", "") for row in rows}
    finally:
        transaction.rollback()


def _short(rule: str) -> str:
    return rule if len(rule) <= 80 else f"{rule[:79]}…"


@dataclass(frozen=True)
class Tip:
    """The last entry: its number and hash."""

    number: int
    hash: str


class LedgerChecksum:
    """The checksum of a file; whoever uses it holds the lock of the ledger."""

    def __init__(self, ledger: Path) -> None:
        self.ledger = ledger
        self.path = ledger.with_name(f"{ledger.name}.checksum")

    def announce(self, before: Tip, after: Tip) -> None:
        """Say which tips there may be until it is closed."""
        write_json(self.path, {"before": asdict(before), "after": asdict(after)})

    def close(self, tip: Tip) -> None:
        """Seal the file as it is, with this tip; one that was not announced is refused."""
        self.require_tip(tip)
        write_json(self.path, {"sha256": sha256(self.ledger), "tip": asdict(tip)})

    @property
    def pending(self) -> bool:
        """Whether it was announced and not closed."""
        return self.path.is_file() and "before" in self._said()

    def require(self) -> None:
        """Refuse a file whose bytes differ from its checksum, unless the checksum is pending."""
        if not self.path.is_file():
            raise LedgerError(
                f"the checksum {str(self.path)!r} is gone: restore it, or the ledger with its checksum, from a copy"
            )
        said = self._said()
        if "before" in said:
            return
        if said["sha256"] != sha256(self.ledger):
            raise LedgerError(
                f"the file {str(self.ledger)!r} is not as it was left: something else than this program "
                "changed or replaced it"
            )

    def require_unmade(self) -> None:
        """Refuse to begin a ledger beside a checksum, unless only a first entry was announced."""
        if self.path.is_file() and self._said().get("before", {}).get("number") != 0:
            raise LedgerError(
                f"the ledger {str(self.ledger)!r} is gone or was emptied, and its checksum is still there: "
                f"restore the ledger "
                "from a copy"
            )

    def require_tip(self, tip: Tip) -> None:
        """Refuse a tip that is not the checksummed one, nor one that was announced."""
        said = self._said()
        known = [said["before"], said["after"]] if "before" in said else [said["tip"]]
        if asdict(tip) not in known:
            raise LedgerError(
                f"the ledger ends with entry {tip.number}, and its checksum says otherwise"
            )

    def _said(self) -> dict[str, Any]:
        try:
            said = read_json(self.path)
        except RunError as error:
            raise LedgerError(f"the checksum {str(self.path)!r} cannot be read: {error}") from error
        kinds = ({"before", "after"}, {"sha256", "tip"})
        written = self.path.read_bytes() == json_text(said).encode()  # a blank more is a change, too
        if not isinstance(said, dict) or set(said) not in kinds or not written:
            raise LedgerError(f"the checksum {str(self.path)!r} is none that this version has written")
        return said


FILE = "ledger.json"


@dataclass(frozen=True)
class Receipt:
    """What a folder says of its ledger: where it is, and its tip when the folder was last written."""

    ledger: str
    tip: Tip


def read_receipt(folder: Path) -> Receipt | None:
    """What a folder says of its ledger; None where it says nothing yet."""
    if not (folder / FILE).is_file():
        return None
    said = read_json(folder / FILE)
    try:
        ledger, number, tip = said["ledger"], said["number"], said["tip"]
        if not (type(ledger) is str and type(number) is int and type(tip) is str):
            raise TypeError
    except (TypeError, KeyError) as error:
        raise RunError(
            f"{str(folder / FILE)!r} does not say which ledger the run is in; remove it, then run: "
            f"datamarket ledger attach {folder} LEDGER"
        ) from error
    where = ledger if is_address(ledger) else os.path.normpath(folder.resolve() / ledger)
    return Receipt(where, Tip(number, tip))


def is_address(where: str) -> bool:
    """Whether a ledger is named by an address, not by a path."""
    return "://" in where


def holds_tip(entries: list[LedgerEntry], tip: Tip) -> bool:
    """Whether a chain holds a tip that was noted elsewhere."""
    return 1 <= tip.number <= len(entries) and entries[tip.number - 1].hash == tip.hash


def is_readable(path: Path) -> bool:
    """Whether a file is there and can be read: several people may share a ledger, and not the folders of its runs."""
    return os.access(path, os.R_OK) and path.is_file()


def require_newest(accounts: Accounts, where: str) -> None:
    """Refuse a ledger that is behind one of its runs: an older copy, or a second one."""
    for folder, receipt in _receipts(accounts):
        if not holds_tip(accounts.entries, receipt.tip):
            raise LedgerError(
                f"the ledger {where!r} ends with entry {accounts.number} and does not hold entry {receipt.tip.number} "
                f"as the run in {str(folder)!r} knows it from {receipt.ledger!r}: it is an older copy, or "
                f"a second one, "
                "and what was sent since would be sent again. Bring the newest copy of the ledger back"
            )


def note_tip(accounts: Accounts, ledger: str) -> None:
    """Note the tip in the folders of all runs that are in this ledger, as far as they lie where they were made."""
    for folder, receipt in _receipts(accounts):
        if receipt.ledger == ledger and os.access(folder, os.W_OK):
            said = read_json(folder / FILE)
            with warn_if_not_written(str(folder / FILE)):
                write_json(folder / FILE, {**said, "number": accounts.number, "tip": accounts.tip})


@contextmanager
def warn_if_not_written(what: str) -> Iterator[None]:
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
    """The folders of the ledger's runs that are still there, and what they say of their ledger."""
    for record in accounts.runs.values():
        folder = Path(record.places.get("run", ""))
        if not is_readable(folder / FILE) or not is_readable(folder / MANIFEST):
            continue
        receipt, manifest = read_receipt(folder), read_json(folder / MANIFEST)
        if receipt is not None and isinstance(manifest, dict) and manifest.get("run") == record.run:
            yield folder, receipt


NAME = "ledger.sqlite"
LedgerRow = tuple[int, str, str]  # number, body, hash
LedgerRows = tuple[LedgerRow, ...]
_WAIT = 30.0  # seconds another process may hold the ledger
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
    "not a database": ": it is no ledger; check the path",
    "is full": "; nothing was entered: make room and run the same command again",
}


class Transaction:
    """Entries that are added together, or not at all."""

    def __init__(self, accounts: Accounts, now: datetime | None = None) -> None:
        self.accounts = accounts
        self.new: list[LedgerRow] = []
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
                    f"the clock says {self._at}, and the ledger holds an entry of {self.accounts.latest}: the time of "
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
        entry = chain_entry(
            last.tip or START, number=last.number + 1, at=self._at, by=who, kind=kind, run=run, payee=payee,
            currency=currency, amount=amount, content=said,
        )  # fmt: skip
        last.after(entry)
        self.new.append((entry.number, entry.body, entry.hash))
        return entry


@dataclass(frozen=True)
class Ledger(Shown):
    """A ledger; ``where`` is its path, or its address without a password."""

    where: str
    engine: Engine
    path: Path | None = None  # of a SQLite file

    def read(self) -> list[LedgerEntry]:
        """All entries; an error at the first that is not as it was entered."""
        return list(_chain(self._rows()))

    def accounts(self) -> Accounts:
        """What the entries come to, to be looked at: what is added is added on a transaction, which has its own."""
        return _accounts(self._rows())

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Add entries in one transaction; nobody else writes meanwhile."""
        with self._writing() as (connection, rows, checksum):
            transaction = Transaction(Accounts.of(_chain(rows)))
            require_newest(transaction.accounts, self.where)
            yield transaction
            if not transaction.new:
                return
            transaction.accounts.require_whole()
            after = Tip(transaction.accounts.number, transaction.accounts.tip)
            if checksum is not None:
                checksum.announce(_tip(rows), after)
            with self._refusing():
                new = [{"number": n, "body": body, "hash": said} for n, body, said in transaction.new]
                connection.execute(sa.insert(ENTRIES), new)
                if transaction.digests:
                    add_digests(connection, transaction.digests)
                connection.execute(sa.update(TIP).values(number=after.number, hash=after.hash))
                connection.commit()
            note_tip(transaction.accounts, self.where if self.path is None else str(self.path))

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
        # Here, for it works on ledgers: a cycle otherwise.
        from datamarket_gym.payout.ledger.integrity import check_ledger

        return check_ledger(self)

    def changed_rules(self) -> list[str]:
        """Tables and triggers that are not as this version makes them."""
        with self._refusing(), self.engine.connect() as connection:
            return differences(connection)

    @contextmanager
    def locked(self, *, looking: bool = False) -> Iterator[LedgerChecksum | None]:
        """Keep other writers out; the checksum of a SQLite file, which must be as it was left.

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
        with waiting_for(self.path.with_name(f"{self.path.name}.lock"), _WAIT, "ledger"):
            self._recover()
            yield LedgerChecksum(self.path)

    def _recover(self) -> None:
        """Let SQLite undo what a killed process was writing, before the file's bytes are looked at."""
        with self._refusing(), self.engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            connection.rollback()

    @contextmanager
    def _writing(self) -> Iterator[tuple[Connection, LedgerRows, LedgerChecksum | None]]:
        with self.locked() as checksum:
            if checksum is not None:
                checksum.require()
            try:
                with self._refusing():
                    connection = self.engine.connect()
                with connection:
                    with self._refusing():
                        begin(connection)
                        rows = _checked_rows(connection)
                    if checksum is not None:
                        checksum.require_tip(_tip(rows))
                    yield connection, rows, checksum
            finally:
                if checksum is not None and checksum.pending:
                    with warn_if_not_written(str(checksum.path)):
                        checksum.close(self._last())

    def _rows(self) -> LedgerRows:
        with self._refusing(), self.engine.connect() as connection:
            begin_reading(connection)
            return _checked_rows(connection)

    def _last(self) -> Tip:
        """The tip after a page: what it follows was checked before it was entered, and is again by whoever reads."""
        columns = ENTRIES.c
        last = sa.select(columns.number, columns.hash).order_by(columns.number.desc()).limit(1)
        with self._refusing(), self.engine.connect() as connection:
            number, said = connection.execute(last).one()
            return Tip(int(number), str(said))

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
            raise LedgerError(f"the ledger {self.where!r} refuses: {first}{hint}") from error

    def __repr__(self) -> str:
        return f"Ledger({self.where!r})"


def open_ledger(where: str | Path, *, new: bool = False) -> Ledger:
    """Open a ledger.

    Parameters
    ----------
    where
        Its path or address (``postgresql://...``).
    new
        Whether it is made where it is not there yet.

    Returns
    -------
    Ledger
        The ledger.
    """
    text = str(where)
    if is_address(text):
        ledger = _of_server(text)
        there = _has_tables(ledger)
    else:
        path = Path(
            text
        ).resolve()  # a link to a ledger has its lock and its checksum where the ledger is
        ledger = Ledger(text, _of_file(path), path)
        there = path.is_file() and path.stat().st_size > 0 and _has_tables(ledger)
        if path.exists() and not path.is_file():
            raise LedgerError(f"{text!r} is no file; name the file of a ledger, or its address")
    if not there:
        if not new:
            raise LedgerError(
                f"there is no ledger at {ledger.where!r}; check the path (pay begins a ledger, datamarket "
                f"intake init a log)"
            )
        _make(ledger)
    return ledger


def has_ledger(where: str) -> bool:
    """Whether there is a ledger, or something that is left of one; whoever opens that finds out."""
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
            "the address of the ledger cannot be read; write postgresql://user@host/name"
        ) from error
    if url.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise LedgerError(f"a ledger lies in a SQLite file or in PostgreSQL, not in {url.drivername!r}")
    require_extra("psycopg", "postgres")
    engine = sa.create_engine(url.set(drivername="postgresql+psycopg"), poolclass=sa.pool.NullPool)
    return Ledger(without_password(url), engine)


def _has_tables(ledger: Ledger) -> bool:
    with ledger._refusing(), ledger.engine.connect() as connection:
        return sa.inspect(connection).has_table(ENTRIES.name)


def _make(ledger: Ledger) -> None:
    """Make the tables and the first entry, once: whoever comes second finds them."""
    if ledger.path is not None:
        ledger.path.parent.mkdir(parents=True, exist_ok=True)
    with ledger.locked() as checksum:
        transaction = Transaction(Accounts())
        with ledger._refusing(), ledger.engine.connect() as connection:
            begin(connection, making=True)
            if sa.inspect(connection).has_table(ENTRIES.name):
                return
            if checksum is not None:
                checksum.require_unmade()
            first = transaction.add("opened", content={"format": FORMAT, "id": secrets.token_hex(16)})
            if checksum is not None:
                checksum.announce(Tip(0, START), Tip(1, first.hash))
            make(connection)
            connection.execute(sa.insert(ENTRIES).values(number=1, body=first.body, hash=first.hash))
            connection.execute(sa.insert(TIP).values(one=1, number=1, hash=first.hash))
            connection.commit()
        if checksum is not None:
            checksum.close(Tip(1, first.hash))


def _checked_rows(connection: Connection) -> LedgerRows:
    """The rows of the entries, chain and tip checked."""
    columns = ENTRIES.c
    found = connection.execute(
        sa.select(columns.number, columns.body, columns.hash).order_by(columns.number)
    )
    rows = tuple((n, body, said) for n, body, said in found.all())
    for place, row in enumerate(rows, 1):
        if tuple(map(type, row)) != (int, str, str):
            raise LedgerError(f"entry {place} of the ledger is none that this version has written")
    if not _chain(rows):
        raise LedgerError("the ledger is empty: all of its entries were taken out")
    tips = [tuple(row) for row in connection.execute(sa.select(TIP))]
    tip = _tip(rows)
    if tips != [(1, tip.number, tip.hash)]:
        raise LedgerError(
            f"the ledger ends with entry {tip.number}, and its tip says otherwise: entries were taken out, or added by "
            "hand"
        )
    return rows


# One command reads its ledger many times. The rows are read anew each time and held against those of the last time, to
# the byte; only if they are the same is what they came to taken over.
@lru_cache(maxsize=1)
def _chain(rows: LedgerRows) -> tuple[LedgerEntry, ...]:
    """The entries of rows; an error at the first that is not in its place."""
    return tuple(read_entries(rows))


@lru_cache(maxsize=1)
def _accounts(rows: LedgerRows) -> Accounts:
    return Accounts.of(_chain(rows))


def _tip(rows: LedgerRows) -> Tip:
    return Tip(rows[-1][0], rows[-1][2]) if rows else Tip(0, START)
