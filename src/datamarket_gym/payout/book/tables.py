"""The tables of a book, the triggers that guard them, and how transactions on them begin.

Two tables every book has. The third, of the digests of batches that arrived, is made with the first batch.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

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
