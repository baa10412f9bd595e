"""Where a ledger lies: a SQLite file, or tables of a PostgreSQL database, through SQLAlchemy.

Rows are only added to the entries (number, body, hash); the tip is the number and hash of the last one. A third table
holds the digests of units that were received. Triggers refuse changes by hand, and the chain of hashes finds the
others. One process writes at a time, and what it adds is one transaction of the database.

A SQLite file has a checksum beside it, announced before a commit and closed after it: if the process is killed in
between, the tip before or the one announced must be there. The folder of each run has a receipt (``ledger.json``) with
the tip when anything was last entered there, so that an older copy of the ledger, or one cut short, is refused. A
checkpoint is a tip noted where the operator of the ledger cannot change it: one line of number, hash and time.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import secrets
import sqlite3
import struct
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from datamarket_gym.display import Shown, counted, listed, shortened
from datamarket_gym.errors import DataMarketError, RunError, require_extra
from datamarket_gym.execution.files import (
    json_text,
    make_folder,
    read_json,
    sha256,
    waiting_for,
    write_json,
    write_text,
)
from datamarket_gym.payout.ledger.balances import FORMAT, Accounts
from datamarket_gym.payout.ledger.entries import (
    APPROVED,
    START,
    LedgerEntry,
    LedgerError,
    chain_entry,
    read_entries,
    require_name,
)
from datamarket_gym.payout.ledger.trust import is_address, trust_ledger
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import Check
from datamarket_gym.payout.money import Currency

NAME = "ledger.sqlite"
FILE = "ledger.json"
DIGEST_LENGTH = 32
"""Bytes of the digest of a unit."""
LedgerRow = tuple[int, str, str]  # number, body, hash
LedgerRows = tuple[LedgerRow, ...]
_LONGEST_PATH = 4096
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
DIGESTS = sa.Table(
    "ledger_digests",
    _METADATA,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("digests", sa.LargeBinary, nullable=False),
)
_ONLY_ADDED = "entries of the ledger are only added"
_DIGESTS_STAY = "digests of the ledger are only added, to the last entry"
_SQLITE = tuple(
    f"CREATE TRIGGER ledger_{name} BEFORE {verb} ON {table} {when}BEGIN SELECT RAISE(ABORT, '{message}'); END"
    for name, verb, table, when, message in (
        ("entries_kept", "UPDATE", "ledger_entries", "", _ONLY_ADDED),
        ("entries_stay", "DELETE", "ledger_entries", "", _ONLY_ADDED),
        ("entries_follow", "INSERT", "ledger_entries",
         "WHEN NEW.number != 1 + (SELECT coalesce(max(number), 0) FROM ledger_entries) ",
         "an entry follows the last one"),
        ("tip_stays", "DELETE", "ledger_tip", "", "the tip of the ledger stays"),
        ("tip_moves", "UPDATE", "ledger_tip", "WHEN NEW.number <= OLD.number ", "the tip of the ledger moves on"),
        ("digests_kept", "UPDATE", "ledger_digests", "", _DIGESTS_STAY),
        ("digests_stay", "DELETE", "ledger_digests", "", _DIGESTS_STAY),
        ("digests_follow", "INSERT", "ledger_digests",
         "WHEN NEW.number IS NOT (SELECT max(number) FROM ledger_entries) "
         "OR NEW.number <= (SELECT coalesce(max(number), 0) FROM ledger_digests) ", _DIGESTS_STAY),
    )
)  # fmt: skip
_POSTGRESQL = (
    f"CREATE FUNCTION ledger_entries_stay() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$BEGIN RAISE EXCEPTION '{_ONLY_ADDED}'; END$$",
    "CREATE FUNCTION ledger_tip_moves() RETURNS trigger LANGUAGE plpgsql AS "
    "$$BEGIN IF TG_OP = 'UPDATE' THEN IF NEW.number > OLD.number THEN RETURN NEW; END IF; END IF; "
    "RAISE EXCEPTION 'the tip of the ledger moves on'; END$$",
    "CREATE FUNCTION ledger_digests_stay() RETURNS trigger LANGUAGE plpgsql AS "
    "$$BEGIN IF TG_OP = 'INSERT' THEN IF NEW.number = (SELECT max(number) FROM ledger_entries) THEN "
    f"RETURN NEW; END IF; END IF; RAISE EXCEPTION '{_DIGESTS_STAY}'; END$$",
    *(
        f"CREATE TRIGGER ledger_{name} BEFORE {verbs} ON {table} "
        f"FOR EACH {each} EXECUTE FUNCTION ledger_{function}()"
        for name, verbs, table, each, function in (
            ("entries_stay", "UPDATE OR DELETE", "ledger_entries", "ROW", "entries_stay"),
            ("entries_emptied", "TRUNCATE", "ledger_entries", "STATEMENT", "entries_stay"),
            ("tip_moves", "UPDATE OR DELETE", "ledger_tip", "ROW", "tip_moves"),
            ("digests_stay", "INSERT OR UPDATE OR DELETE", "ledger_digests", "ROW", "digests_stay"),
            ("digests_emptied", "TRUNCATE", "ledger_digests", "STATEMENT", "digests_stay"),
        )
    ),
)
_LOCK = 0x626F6F6B  # "ledger": PostgreSQL's lock of the process that writes
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


def _is_sqlite(connection: Connection) -> bool:
    return connection.dialect.name == "sqlite"


def _begin(connection: Connection, *, making: bool = False) -> None:
    """Begin a transaction that writes, and keep other writers out until it ends."""
    if _is_sqlite(connection):
        connection.exec_driver_sql("BEGIN EXCLUSIVE" if making else "BEGIN IMMEDIATE")
    else:
        connection.exec_driver_sql("SET LOCAL lock_timeout = '30s'")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")


def _make_tables(connection: Connection) -> None:
    _METADATA.create_all(connection, checkfirst=False)
    for statement in _SQLITE if _is_sqlite(connection) else _POSTGRESQL:
        connection.exec_driver_sql(statement)


def _rules(connection: Connection) -> set[str]:
    """Return what the database says of the tables, triggers and functions of a ledger."""
    if not _is_sqlite(connection):
        return {str(row[0]) for row in connection.exec_driver_sql(_POSTGRESQL_RULES)}
    rows = connection.exec_driver_sql("SELECT type, name, sql FROM sqlite_master")
    return {" ".join(f"{kind} {name} {sql}".split()) for kind, name, sql in rows}


@dataclass(frozen=True)
class Tip:
    number: int
    hash: str


class LedgerChecksum:
    """The checksum of a SQLite file; only a holder of the ledger's lock may use it."""

    def __init__(self, ledger: Path) -> None:
        self.ledger = ledger
        self.path = ledger.with_name(f"{ledger.name}.checksum")

    def announce(self, before: Tip, after: Tip) -> None:
        write_json(self.path, {"before": asdict(before), "after": asdict(after)}, private=True)

    def close(self, tip: Tip) -> None:
        self.require_tip(tip)
        write_json(self.path, {"sha256": sha256(self.ledger), "tip": asdict(tip)}, private=True)

    @property
    def pending(self) -> bool:
        return self.path.is_file() and "before" in self._read()

    def require(self) -> None:
        """Refuse a file whose bytes differ from its checksum, unless the checksum is pending."""
        if not self.path.is_file():
            raise LedgerError(
                f"the checksum {str(self.path)!r} is gone: restore it, or the ledger with its checksum, from a copy"
            )
        if self._read().get("sha256", "pending") not in ("pending", sha256(self.ledger)):
            raise LedgerError(
                f"the file {str(self.ledger)!r} is not as it was left: another program changed or replaced it"
            )

    def require_unmade(self) -> None:
        """Refuse to begin a ledger beside a checksum, unless only a first entry was announced."""
        if self.path.is_file() and self._read().get("before", {}).get("number") != 0:
            raise LedgerError(
                f"the ledger {str(self.ledger)!r} is gone or was emptied, and its checksum is still there: "
                "restore the ledger from a copy"
            )

    def require_tip(self, tip: Tip) -> None:
        """Refuse a tip that is neither the checksummed one nor one that was announced."""
        if asdict(tip) not in self._read().values():
            raise LedgerError(
                f"the ledger ends with entry {tip.number}, and its checksum says otherwise"
            )

    def _read(self) -> dict[str, Any]:
        try:
            content = read_json(self.path)
        except RunError as error:
            raise LedgerError(f"the checksum {str(self.path)!r} cannot be read: {error}") from error
        keys = ({"before", "after"}, {"sha256", "tip"})
        as_written = self.path.read_bytes() == json_text(content).encode()  # one more blank is a change
        if not (as_written and isinstance(content, dict) and set(content) in keys):
            raise LedgerError(f"the checksum {str(self.path)!r} is none that this version has written")
        return content


@dataclass(frozen=True)
class Receipt:
    ledger: str
    tip: Tip


def read_receipt(folder: Path) -> Receipt | None:
    path = folder / FILE
    if not path.is_file():
        return None
    match read_json(path):
        case {"ledger": str(ledger), "number": int(number), "tip": str(tip)} if type(number) is int:
            if len(ledger) > _LONGEST_PATH:
                raise RunError(f"{str(path)!r} names a ledger by {len(ledger):,} characters; remove it")
            where = ledger if is_address(ledger) else os.path.normpath(folder.resolve() / ledger)
            return Receipt(where, Tip(number, tip))
    raise RunError(
        f"{str(path)!r} does not say which ledger the run is in; remove it, then run: "
        f"datamarket ledger attach {folder} LEDGER"
    )


def holds_tip(entries: Sequence[LedgerEntry], tip: Tip) -> bool:
    return 1 <= tip.number <= len(entries) and entries[tip.number - 1].hash == tip.hash


def is_readable(path: Path) -> bool:
    """Return whether a file is there and can be read: a ledger may be shared, and the folders of its runs not."""
    return os.access(path, os.R_OK) and path.is_file()


def _require_newest(accounts: Accounts, where: str) -> None:
    for folder, receipt in receipts_of(accounts):
        if not holds_tip(accounts.entries, receipt.tip):
            raise LedgerError(
                f"the ledger {where!r} ends with entry {accounts.number} and does not hold entry {receipt.tip.number} "
                f"as the run in {str(folder)!r} knows it from {receipt.ledger!r}: it is an older copy, or a second "
                "one, and what was sent since would be sent again. Bring the newest copy of the ledger back"
            )


def _note_tip(accounts: Accounts, ledger: str) -> None:
    """Note the tip in the folders of all runs of this ledger that still lie where they were made."""
    for folder, receipt in receipts_of(accounts):
        if receipt.ledger == ledger and os.access(folder, os.W_OK):
            content = read_json(folder / FILE)
            with _warn_if_not_written(str(folder / FILE)):
                write_json(folder / FILE, {**content, "number": accounts.number, "tip": accounts.tip})


@contextmanager
def _warn_if_not_written(path: str) -> Iterator[None]:
    """Warn of a file that cannot be written after entries were: an error would make people enter them twice."""
    try:
        yield
    except OSError as error:
        warnings.warn(
            f"what was asked for is entered; {path!r} could not be written after it ({error}). Do not do it again: the "
            "next command that enters anything writes the file anew",
            stacklevel=2,
        )


def receipts_of(accounts: Accounts) -> Iterator[tuple[Path, Receipt]]:
    """Yield the receipts of all runs whose folders are where the ledger has them."""
    for record in accounts.runs.values():
        folder = Path(record.places.get("run", ""))
        if not is_readable(folder / FILE) or not is_readable(folder / MANIFEST):
            continue
        receipt, manifest = read_receipt(folder), read_json(folder / MANIFEST)
        if receipt is not None and isinstance(manifest, dict) and manifest.get("run") == record.run:
            yield folder, receipt


class Transaction:
    """Entries to be added, by one person where no other is named."""

    def __init__(self, accounts: Accounts, now: datetime | None = None, by: str | None = None) -> None:
        self.accounts = accounts
        self.new: list[LedgerRow] = []
        self.digests: dict[int, bytes] = {}  # of the units of batches, by the number of the entry
        self.by = user() if by is None else by
        self._at = _timestamp(now)

    def wait(self) -> None:
        """Wait for a time later than that of every entry; a clock that is behind is refused, not waited for."""
        while self._at <= self.accounts.latest:
            if self._at < self.accounts.latest:
                raise LedgerError(
                    f"the clock says {self._at}, and the ledger holds an entry of {self.accounts.latest}: the time of "
                    "arrival decides who was first, so nothing was entered. Set the clock right; if it was ahead "
                    "when that entry was made, wait until that time"
                )
            time.sleep(0.0005)
            self._at = _timestamp()

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
        accounts, content = self.accounts, dict(content or {})
        by = self.by if by is None else by
        require_name(by)
        if self._at < accounts.at:
            content["clock"] = f"the clock ran backwards: the entry before is of {accounts.at}"
        entry = chain_entry(
            accounts.tip or START, number=accounts.number + 1, at=self._at, by=by, kind=kind, run=run,
            payee=payee, currency=currency, amount=amount, content=content,
        )  # fmt: skip
        accounts.after(entry)
        self.new.append((entry.number, entry.body, entry.hash))
        return entry


@dataclass(frozen=True)
class Ledger(Shown):
    """A ledger; ``where`` is its path, or its address without a password."""

    where: str
    engine: Engine
    path: Path | None = None  # of a SQLite file

    def read(self) -> list[LedgerEntry]:
        return list(_chain(self._rows()))

    def accounts(self) -> Accounts:
        """Read what the entries come to; entries are added on a transaction, which has accounts of its own."""
        return _accounts(self._rows())

    @contextmanager
    def transaction(self, by: str | None = None) -> Iterator[Transaction]:
        """Add entries in one transaction; no other process writes meanwhile."""
        with self.locked() as checksum:
            if checksum is not None:
                checksum.require()
            try:
                with self._refusing():
                    connection = self.engine.connect()
                with connection:
                    with self._refusing():
                        _begin(connection)
                        rows = _checked_rows(connection)
                    if checksum is not None:
                        checksum.require_tip(_tip(rows))
                    transaction = Transaction(Accounts.from_entries(_chain(rows)), by=by)
                    _require_newest(transaction.accounts, self.where)
                    yield transaction
                    if transaction.new:
                        self._commit(connection, transaction, _tip(rows), checksum)
            finally:
                if checksum is not None and checksum.pending:
                    with _warn_if_not_written(str(checksum.path)):
                        checksum.close(self._last())

    def _commit(
        self,
        connection: Connection,
        transaction: Transaction,
        before: Tip,
        checksum: LedgerChecksum | None,
    ) -> None:
        accounts = transaction.accounts
        accounts.require_whole()
        if checksum is not None:
            checksum.announce(before, Tip(accounts.number, accounts.tip))
        with self._refusing():
            entries = [dict(zip(ENTRIES.c.keys(), row, strict=True)) for row in transaction.new]
            for some in [[entry] for entry in entries] if transaction.digests else [entries]:
                connection.execute(sa.insert(ENTRIES), some)
                number = some[-1]["number"]
                if number in transaction.digests:  # the guards take digests of the last entry alone
                    digests = transaction.digests[number]
                    connection.execute(sa.insert(DIGESTS).values(number=number, digests=digests))
            connection.execute(sa.update(TIP).values(number=accounts.number, hash=accounts.tip))
            connection.commit()
        _note_tip(accounts, self.where if self.path is None else str(self.path))

    def digests(self, numbers: Sequence[int]) -> Iterator[bytes | None]:
        as_stored = sa.type_coerce(DIGESTS.c.digests, sa.types.NullType())  # SQLite holds anything
        with self._refusing(), self.engine.connect() as connection:
            for number in numbers:
                query = sa.select(as_stored).where(DIGESTS.c.number == number)
                digests = connection.execute(query).scalar_one_or_none()
                if digests is not None and not isinstance(digests, bytes):
                    raise LedgerError(
                        f"the digests of entry {number} are no bytes: something else wrote them"
                    )
                yield digests

    def changed_rules(self) -> list[str]:
        """List the tables, triggers and functions that are not as this program makes them."""
        with self._refusing(), self.engine.connect() as connection:
            rules = _rules(connection)
            if _is_sqlite(connection):
                with sa.create_engine("sqlite://").connect() as fresh:
                    _make_tables(fresh)
                    expected = _rules(fresh)
            else:
                savepoint = connection.begin_nested()  # a schema that is gone when it is rolled back
                try:
                    connection.exec_driver_sql("CREATE SCHEMA ledger_as_made")
                    connection.exec_driver_sql("SET LOCAL search_path TO ledger_as_made")
                    _make_tables(connection)
                    expected = {rule.replace("ledger_as_made.", "") for rule in _rules(connection)}
                finally:
                    savepoint.rollback()
        return [
            *(f"gone or changed: {shortened(rule, 80)}" for rule in sorted(expected - rules)),
            *(f"not of this program: {shortened(rule, 80)}" for rule in sorted(rules - expected)),
        ]

    def examined(self) -> list[Check]:
        """Check its file, rules, chain and sums; what comes after something that cannot be read is left out."""
        checks: list[Check] = []
        try:
            with self.locked(reading=True) as checksum:
                if checksum is not None:
                    pending = checksum.pending
                    checksum.require()
                entries = self.read()
                if checksum is not None:
                    tip = Tip(entries[-1].number, entries[-1].hash)
                    checksum.require_tip(tip)
                    detail = "as it was checksummed"
                    if pending:
                        checksum.close(tip)
                        detail = "checksummed again after a writer was killed"
                    checks.append(Check("file of the ledger", True, detail))
            changed = self.changed_rules()
            detail = "; ".join(changed) or "as this version makes them"
            checks.append(Check("tables and triggers", not changed, detail))
            checks.append(Check("chain", True, f"{len(entries):,} entries, tip {entries[-1].hash[:16]}"))
            accounts = Accounts.from_entries(entries)
        except LedgerError as error:
            return [*checks, Check("ledger", False, str(error))]
        return [*checks, *_check_sums(accounts), _check_times(entries), *_check_batches(self, accounts)]

    @contextmanager
    def locked(self, *, reading: bool = False) -> Iterator[LedgerChecksum | None]:
        """Keep other writers out of a SQLite file; to read alone (``reading``) needs no right to write."""
        if self.path is None:
            yield None
        elif reading and not os.access(self.path.parent, os.W_OK):  # an auditor's copy
            yield LedgerChecksum(self.path)
        else:
            with waiting_for(self.path.with_name(f"{self.path.name}.lock"), _WAIT, "ledger"):
                with self._refusing(), self.engine.connect() as connection:
                    _begin(connection)  # undoes what a killed process was writing
                    connection.rollback()
                yield LedgerChecksum(self.path)

    def _rows(self) -> LedgerRows:
        with self._refusing(), self.engine.connect() as connection:
            repeatable = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
            connection.exec_driver_sql("BEGIN" if _is_sqlite(connection) else repeatable)
            return _checked_rows(connection)

    def _last(self) -> Tip:
        columns = ENTRIES.c
        last = sa.select(columns.number, columns.hash).order_by(columns.number.desc()).limit(1)
        with self._refusing(), self.engine.connect() as connection:
            return Tip(*connection.execute(last).one())

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Raise what the database refuses as an error of ours, without the password."""
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, UnicodeError) as error:  # SQLite quotes damaged bytes
            lines = str(getattr(error, "orig", None) or error).strip().splitlines()
            first = lines[0] if lines else type(error).__name__
            hint = next((hint for word, hint in _HINTS.items() if word in first), "")
            raise LedgerError(f"the ledger {self.where!r} refuses: {first}{hint}") from error

    def __repr__(self) -> str:
        return f"Ledger({self.where!r})"


def open_ledger(where: str | Path, *, new: bool = False) -> Ledger:
    """Open a ledger.

    Parameters
    ----------
    where : str or Path
        Its path, or its address (``postgresql://...``).
    new : bool, optional
        Make it where it is not there yet.

    Returns
    -------
    Ledger
        The ledger.

    Raises
    ------
    LedgerError
        If there is none, or the address cannot be read.
    """
    text = str(where)
    if is_address(text):
        ledger = _of_server(text)
        trust_ledger(text)
        there = _has_tables(ledger)
    else:
        path = Path(text).resolve()  # a link has its lock and its checksum where the ledger is
        ledger = Ledger(text, _of_file(path), path)
        there = path.is_file() and path.stat().st_size > 0 and _has_tables(ledger)
        if path.exists() and not path.is_file():
            raise LedgerError(f"{text!r} is no file; name the file of a ledger, or its address")
    if not there:
        if not new:
            raise LedgerError(
                f"there is no ledger at {ledger.where!r}; check the path (pay begins a ledger, intake init a log)"
            )
        _make(ledger)
    return ledger


def has_ledger(where: str) -> bool:
    """Return whether there is a ledger, or something that is left of one; `open_ledger` tells them apart."""
    return is_address(where) or Path(where).exists() or LedgerChecksum(Path(where)).path.exists()


def canonical_address(where: str) -> str:
    """Write an address so that the same database is the same text: user, host, port, name and options."""
    url = _parsed(where)
    port = url.port or os.environ.get("PGPORT") or 5432
    return _without_password(url.set(host=(url.host or "").lower(), port=int(port)))


def absolute_address(where: str) -> str:
    """Return where a ledger is, as other files may name it: an absolute path, or an address without a password."""
    return _without_password(_parsed(where)) if is_address(where) else str(Path(where).resolve())


def _without_password(url: URL) -> str:
    query = {key: value for key, value in url.query.items() if "password" not in key}
    address = URL.create("postgresql", url.username, None, url.host, url.port, url.database, query)
    return address.render_as_string(hide_password=False)


def user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no such user, as in some containers
        return "unknown"


def _timestamp(now: datetime | None = None) -> str:
    return (now or datetime.now(UTC)).isoformat(timespec="milliseconds")


def _of_file(path: Path) -> Engine:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=_WAIT, isolation_level=None)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA trusted_schema = OFF")  # the file may be a stranger's
        return connection

    return sa.create_engine("sqlite://", creator=connect, poolclass=sa.pool.NullPool)


def _of_server(text: str) -> Ledger:
    url = _parsed(text)
    require_extra("psycopg", "postgres")
    engine = sa.create_engine(url.set(drivername="postgresql+psycopg"), poolclass=sa.pool.NullPool)
    return Ledger(_without_password(url), engine)


def _parsed(text: str) -> URL:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:  # a port that is no number
        raise LedgerError(
            "the address of the ledger cannot be read; write postgresql://user@host/name"
        ) from error
    if url.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise LedgerError(f"a ledger lies in a SQLite file or in PostgreSQL, not in {url.drivername!r}")
    return url


def _has_tables(ledger: Ledger) -> bool:
    with ledger._refusing(), ledger.engine.connect() as connection:
        return sa.inspect(connection).has_table(ENTRIES.name)


def _make(ledger: Ledger) -> None:
    """Make the tables and the first entry, where no other process has made them meanwhile."""
    if ledger.path is not None:
        make_folder(ledger.path.parent)
        # SQLite's journal takes the mode of its file; one that is there keeps the mode that somebody gave it.
        os.close(os.open(ledger.path, os.O_RDWR | os.O_CREAT, 0o600))
    with ledger.locked() as checksum:
        transaction = Transaction(Accounts())
        with ledger._refusing(), ledger.engine.connect() as connection:
            _begin(connection, making=True)
            if sa.inspect(connection).has_table(ENTRIES.name):
                return
            if checksum is not None:
                checksum.require_unmade()
            first = transaction.add("opened", content={"format": FORMAT, "id": secrets.token_hex(16)})
            if checksum is not None:
                checksum.announce(Tip(0, START), Tip(1, first.hash))
            _make_tables(connection)
            connection.execute(sa.insert(ENTRIES).values(number=1, body=first.body, hash=first.hash))
            connection.execute(sa.insert(TIP).values(one=1, number=1, hash=first.hash))
            connection.commit()
        if checksum is not None:
            checksum.close(Tip(1, first.hash))


def _checked_rows(connection: Connection) -> LedgerRows:
    columns = ENTRIES.c
    wanted = sa.select(columns.number, columns.body, columns.hash).order_by(columns.number)
    rows = tuple((number, body, hash_) for number, body, hash_ in connection.execute(wanted))
    for number, row in enumerate(rows, 1):
        if tuple(map(type, row)) != (int, str, str):
            raise LedgerError(f"entry {number} of the ledger is none that this version has written")
    if not _chain(rows):
        raise LedgerError("the ledger is empty: all of its entries were taken out")
    tip = _tip(rows)
    if [tuple(row) for row in connection.execute(sa.select(TIP))] != [(1, tip.number, tip.hash)]:
        raise LedgerError(
            f"the ledger ends with entry {tip.number}, and its tip says otherwise: entries were taken out, or added by "
            "hand"
        )
    return rows


# One command reads its ledger many times: rows equal to those of the last time are not parsed again.
@lru_cache(maxsize=1)
def _chain(rows: LedgerRows) -> tuple[LedgerEntry, ...]:
    return tuple(read_entries(rows))


@lru_cache(maxsize=1)
def _accounts(rows: LedgerRows) -> Accounts:
    return Accounts.from_entries(_chain(rows))


def _tip(rows: LedgerRows) -> Tip:
    return Tip(rows[-1][0], rows[-1][2])


def batch_hash(records: Sequence[bytes]) -> str:
    return hashlib.sha256(b"".join(records)).hexdigest()


class LoggedUnit(NamedTuple):
    """A unit of a batch, which are in order of their arrival; its digests are with its label and without."""

    at: float  # seconds since 1970
    number: int  # of the batch's entry
    payee: str
    digest: bytes
    unlabelled: bytes
    exported: bool  # whether the time is the operator's word; else the clock's


def read_digests(ledger: Ledger, entries: Sequence[LedgerEntry]) -> Iterator[list[LoggedUnit]]:
    """Read the units of batches, one batch at a time, and compare each batch with the hash in its entry."""
    for entry, raw in zip(entries, ledger.digests([batch.number for batch in entries]), strict=True):
        if raw is None:
            raise LedgerError(f"the digests of the batch of entry {entry.number} are gone")
        labelled, exported = "labels" in entry.content, "source" in entry.content
        width = DIGEST_LENGTH * (2 if labelled else 1) + (8 if exported else 0)
        whole = len(raw) == width * entry.content["units"]
        if not whole or batch_hash([raw]) != entry.content["sha256"]:
            raise LedgerError(
                f"the digests of the batch of entry {entry.number} were changed: their hash is not the one in it"
            )
        records = (raw[at : at + width] for at in range(0, len(raw), width))
        seconds = datetime.fromisoformat(entry.at).timestamp()
        yield [
            LoggedUnit(
                struct.unpack("<d", record[-8:])[0] if exported else seconds,
                entry.number,
                entry.payee,
                record[:DIGEST_LENGTH],
                record[DIGEST_LENGTH : 2 * DIGEST_LENGTH] if labelled else record[:DIGEST_LENGTH],
                exported,
            )
            for record in records
        ]


def _check_batches(ledger: Ledger, accounts: Accounts) -> Iterator[Check]:
    batches = accounts.received
    try:
        with ledger._refusing(), ledger.engine.connect() as connection:
            numbers = set(connection.execute(sa.select(DIGESTS.c.number)).scalars())
        if strange := sorted(numbers - {entry.number for entry in batches}):
            raise LedgerError(f"there are digests for entry {strange[0]}, which is no batch")
        units = sum(map(len, read_digests(ledger, batches)))
    except LedgerError as error:
        yield Check("batches", False, str(error))
    else:
        detail = (
            f"{counted(len(batches), 'batch', 'batches')}, {counted(units, 'unit')}, as they arrived"
        )
        if exported := sum("source" in entry.content for entry in batches):
            detail += f"; {counted(exported, 'batch', 'batches')} of the operator's export, with the times it had"
        if batches:
            yield Check("batches", True, detail)


def _check_sums(accounts: Accounts) -> Iterator[Check]:
    """Per currency: what came in is owed, on its way, sent or charged; balances are what was carried and not ended."""
    for code in accounts.currencies:
        total, text = accounts.totals_in(code), Currency(code).text
        came = sum(
            total[name]
            for name in ("approved payments", "corrections", "carried credits that the market paid")
        )
        went = sum(total[name] for name in ("paid", "ordered at the bank", "owed", "fees"))
        approved = [r for r in accounts.runs.values() if r.currency == code and r.state in APPROVED]
        carried = total["carried forward, credits"] + total["carried forward, debts"]
        good = (
            came == went
            and sum(run.amount for run in approved) == total["approved payments"]
            and sum(run.kept for run in approved) == total["kept from forfeits"]
            and carried == -accounts.totals["funded", code] - accounts.totals["written_off", code]
            and accounts.totals["carried_forward", code] == 0
        )
        yield Check(
            f"sums in {code}", good, f"{text(came)} to pay: {text(total['paid'])} sent, "
            f"{text(total['ordered at the bank'])} ordered, {text(total['owed'])} owed, {text(total['fees'])} fees",
        )  # fmt: skip


def _check_times(entries: Sequence[LedgerEntry]) -> Check:
    back = [e for e, before in zip(entries[1:], entries, strict=False) if e.at < before.at]
    if not back:
        return Check("times", True, f"{entries[0].at} to {entries[-1].at}")
    shown = listed((str(e.number) for e in back), 5)
    return Check(
        "times", all("clock" in e.content for e in back), f"the clock ran backwards before entry {shown}"
    )


def add_checkpoint(path: Path, accounts: Accounts) -> str:
    line, there = accounts.checkpoint, path.exists()
    if not there or Tip(accounts.number, accounts.tip) not in read_checkpoints(path):
        before = path.read_text(encoding="ascii").splitlines() if there else []
        write_text(path, "".join(f"{text}\n" for text in [*before, line]))
    return line


def read_checkpoints(path: Path) -> list[Tip]:
    if path.exists() and not path.is_file():
        raise DataMarketError(f"the checkpoints {str(path)!r} are no file; name a text file")
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError) as error:
        raise DataMarketError(f"the checkpoints {str(path)!r} cannot be read: {error}") from error
    tips = []
    for number, line in enumerate(lines, 1):
        match line.split():
            case [entry, tip, *_] if entry.isdigit() and len(tip) == 64:
                tips.append(Tip(int(entry), tip))
            case _:
                raise DataMarketError(
                    f"line {number} of the checkpoints {str(path)!r} is no checkpoint; write number, hash and time"
                )
    if not tips:
        raise DataMarketError(f"the file {str(path)!r} holds no checkpoint")
    return tips


def check_checkpoints(entries: Sequence[LedgerEntry], path: Path) -> Check:
    tips = read_checkpoints(path)
    lost = [tip for tip in tips if not holds_tip(entries, tip)]
    detail = f"{counted(len(tips), 'checkpoint')}, the last at entry {max(tip.number for tip in tips)}"
    if lost:
        detail = f"the ledger does not hold entry {lost[0].number} of the checkpoint: it was written anew, or cut short"
    return Check(f"checkpoints {path.name}", not lost, detail)
