"""Tables from databases: ``duckdb:market.db#SELECT ...``, ``postgresql://user@host/db#SELECT ...``.

A query is run once and its answer becomes an Arrow file, whose hash is that of the input: the same rows of the same
types in the same order are the same bytes. The query has to say an order. Passwords are libpq's matter (PGPASSWORD,
~/.pgpass).
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from datamarket_gym.data.columns import is_list, is_number, is_text
from datamarket_gym.data.readers.tables import require_file
from datamarket_gym.errors import SubmissionError, require_extra
from datamarket_gym.execution.files import replacing

ENDING = ".arrow"
ROWS = 8192
"""Rows of a batch in the file of an answer."""
Answer = tuple[pa.Schema, Iterator[pa.RecordBatch]]
"""The columns, and the rows by batches of any length."""
_EXAMPLE = "'duckdb:market.db#SELECT * FROM units ORDER BY id'"
_SHOWN = 60  # characters of a query in an error
_QUOTED = re.compile(  # comments, and what stands in quotes
    r"""--[^\n]*|/\*.*?\*/|\be'(?:[^'\\]|''|\\.)*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(\w*)\$.*?\$\1\$""",
    re.DOTALL | re.IGNORECASE,
)
_SECRETS = {"password", "sslpassword"}


@dataclass(frozen=True)
class Query:
    """A query and the database it goes to; no password is in it."""

    database: str
    text: str

    @classmethod
    def of(cls, written: str) -> Query | None:
        """Parse a query; None where a file is meant."""
        if not is_query(written):
            return None
        scheme = written.partition(":")[0].lower()
        database, _, text = written.partition("#")
        if scheme != "duckdb":
            _require_address(database)
        if not text.strip():
            raise SubmissionError(
                f"{database!r} names a database and no query; add one after a #: {_EXAMPLE}"
            )
        query = cls(database, text.strip())
        bare, before = _QUOTED.sub(" ", query.text), ""
        while bare != before:  # without what stands in brackets
            bare, before = re.sub(r"\([^()]*\)", " ", bare), bare
        if not re.match(r"\s*(select|with|values|table|from)\b", bare, re.IGNORECASE):
            raise SubmissionError(
                f"what follows the # of {scheme}: is no query that only reads; begin it with SELECT or WITH, as in "
                f"{_EXAMPLE}"
            )
        if re.search(r";\s*\S", bare):
            raise SubmissionError(f"{query.shown} is more than one statement; give a single SELECT")
        if not re.search(r"\border\s+by\b", bare, re.IGNORECASE):
            raise SubmissionError(
                f"{query.shown} has no ORDER BY at its end, so that its rows come in any order; add one, by columns "
                "that tell all rows apart (ORDER BY id)"
            )
        return query

    def __str__(self) -> str:
        return f"{self.database}#{self.text}"

    @property
    def shown(self) -> str:
        line = " ".join(self.text.split())
        return repr(f"{self.database}#{line if len(line) <= _SHOWN else f'{line[:_SHOWN]}...'}")

    def fetch(self, path: Path) -> None:
        ask = _ask_duckdb if self.database.lower().startswith("duckdb:") else _ask_postgres
        with ask(self) as answer:
            write_answer(answer, path, self.shown)


@contextmanager
def as_files(tables: Mapping[str, str | Path | None]) -> Iterator[dict[str, Path]]:
    """Hold tables as paths: each query is run, once, into a file; errors of the block name the query."""
    queries = queries_of(tables)
    paths = {role: Path(where) for role, where in tables.items() if where is not None}
    with tempfile.TemporaryDirectory(prefix="datamarket-") as folder:
        for role, query in queries.items():
            paths[role] = Path(folder) / f"{role}{ENDING}"
            query.fetch(paths[role])
        try:
            yield paths
        except SubmissionError as error:
            message = str(error)
            for role, query in queries.items():
                message = message.replace(repr(str(paths[role])), query.shown)
            if message == str(error):
                raise
            raise SubmissionError(message) from error


def is_query(written: str) -> bool:
    """Tell if a table is written as that of a database, well or not."""
    return bool(re.match(r"(duckdb|postgres|postgresql):", written, re.IGNORECASE))


def queries_of(tables: Mapping[str, str | Path | None]) -> dict[str, Query]:
    queries = {role: Query.of(str(where)) for role, where in tables.items() if where is not None}
    return {role: query for role, query in queries.items() if query is not None}


def write_answer(answer: Answer, path: Path, where: str) -> None:
    schema, batches = answer
    _require_distinct(schema.names, where)
    plain = pa.schema([(field.name, _plain_type(field, where)) for field in schema])
    rows = 0
    with replacing(path) as part:
        with pa.OSFile(str(part), "wb") as file, pa.ipc.new_file(file, plain) as out:
            for batch in _even_batches(batches, plain):
                out.write_batch(batch)
                rows += len(batch)
        if not rows:
            raise SubmissionError(f"{where} gives no rows; check its conditions")


def _require_distinct(names: Sequence[str], where: str) -> None:
    for name in names:
        if (times := names.count(name)) > 1:
            raise SubmissionError(
                f"{where} gives {times} columns {name!r}; call all but one something else (AS)"
            )


def _unusable(where: str, name: str, kind: str) -> SubmissionError:
    return SubmissionError(
        f"{where}: column {name!r} holds {kind}; leave it out of the query, or cast it to text, a number or a list of "
        "numbers"
    )


def _plain_type(field: Any, where: str) -> Any:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if is_text(kind):
        return pa.string()
    if pa.types.is_timestamp(kind):
        return pa.timestamp(kind.unit, None if kind.tz is None else "UTC")
    if pa.types.is_boolean(kind) or pa.types.is_date(kind) or pa.types.is_null(kind) or is_number(kind):
        return kind
    if is_list(kind) and pa.types.is_null(kind.value_type):  # of empty lists
        return pa.list_(pa.float64())
    if is_list(kind) and is_number(kind.value_type):
        return pa.list_(kind.value_type)
    raise _unusable(where, field.name, str(kind))


def _even_batches(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of one length, but the last, whatever lengths they came in."""
    waiting = schema.empty_table()
    for batch in batches:
        waiting = pa.concat_tables([waiting, pa.Table.from_batches([batch]).cast(schema)])
        while len(waiting) >= ROWS:
            yield _clean(waiting[:ROWS])
            waiting = waiting[ROWS:]
    if len(waiting):
        yield _clean(waiting)


def _clean(table: pa.Table) -> pa.RecordBatch:
    """Return rows as one batch with zeros under empty cells and in spare bits, and not what was there before."""
    (batch,) = table.combine_chunks().to_batches()
    arrays = [
        array.take(pc.if_else(array.is_valid(), pa.array(range(len(array))), None))
        if array.null_count or pa.types.is_boolean(array.type)
        else pa.concat_arrays([array])
        for array in batch.columns
    ]
    return pa.record_batch(arrays, schema=table.schema)


@contextmanager
def _ask_duckdb(query: Query) -> Iterator[Answer]:
    """Ask DuckDB, whose file is opened for reading only; without a file it reads others' (Parquet, CSV)."""
    require_extra("duckdb", "sql")
    import duckdb

    file = query.database.partition(":")[2].removeprefix("//")
    if file:
        require_file(Path(file))
    config = {
        "python_enable_replacements": "false",  # variables of this program are no tables
        "autoinstall_known_extensions": "false",  # a view in somebody's file reaches no network
        "autoload_known_extensions": "false",
    }
    try:
        with duckdb.connect(file or ":memory:", read_only=bool(file), config=config) as connection:
            kinds = [each.type for each in connection.extract_statements(query.text)]
            if kinds != [duckdb.StatementType.SELECT]:
                raise SubmissionError(
                    f"{query.shown} is no single statement that only reads; give one SELECT"
                )
            answer = connection.sql(query.text)
            for name, kind in zip(answer.columns, answer.types, strict=True):
                if str(kind) == "JSON":  # would come as text, with quotes around the text in it
                    raise _unusable(query.shown, name, "JSON")
            reader = pa.RecordBatchReader.from_stream(answer)
            yield reader.schema, iter(reader)
    except duckdb.Error as error:
        raise SubmissionError(f"{query.shown}: {str(error).splitlines()[0]}") from error


_FETCHED = 2048  # rows at a time
_WAIT = 10  # seconds after which a server counts as unreachable
_BPCHAR = 1042  # PostgreSQL's number of the type char(n)


@contextmanager
def _ask_postgres(query: Query) -> Iterator[Answer]:
    """Ask PostgreSQL: one statement, in a transaction that cannot write, fetched in binary some rows at a time."""
    require_extra("psycopg", "postgres")
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        wait = conninfo_to_dict(query.database).get("connect_timeout", _WAIT)
        with psycopg.connect(query.database, connect_timeout=wait, client_encoding="utf8") as connection:
            connection.read_only = True
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            with connection.cursor("datamarket", binary=True) as cursor:
                cursor.execute(query.text.encode())
                columns = list(cursor.description or ())
                names = [column.name for column in columns]
                _require_distinct(names, query.shown)
                find = "SELECT oid FROM pg_type WHERE typtype = 'e' AND oid = ANY(%s)"
                enums = {oid for (oid,) in connection.execute(find, [[c.type_code for c in columns]])}
                tables: list[pa.Table] = []
                while rows := cursor.fetchmany(_FETCHED):
                    begin = len(tables) * _FETCHED
                    where = f"between rows {begin} and {begin + len(rows) - 1}"
                    arrays = [
                        _postgres_array(column, cells, column.type_code in enums, query.shown, where)
                        for column, cells in zip(columns, zip(*rows, strict=True), strict=True)
                    ]
                    tables.append(pa.Table.from_arrays(arrays, names))
                table = (
                    pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})
                )
                yield table.schema, iter(table.to_batches())
    except (psycopg.Error, UnicodeError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        if "password" in first:
            first += "; set PGPASSWORD, or write the password into ~/.pgpass"
        raise SubmissionError(f"{query.shown}: {first}") from error


def _postgres_array(
    column: Any, cells: Sequence[Any], is_enum: bool, shown: str, where: str
) -> pa.Array:
    if is_enum:  # which binary cursors leave as bytes
        cells = [None if cell is None else cell.decode() for cell in cells]
    if column.type_code == _BPCHAR:  # filled up with blanks, which PostgreSQL does not count
        cells = [None if cell is None else cell.rstrip(" ") for cell in cells]
    try:
        return pa.array([str(cell) if isinstance(cell, UUID) else cell for cell in cells])
    except (pa.ArrowException, ValueError, OverflowError, TypeError) as error:
        raise SubmissionError(
            f"{shown}: column {column.name!r} cannot be read {where} ({error}); mend it, or leave it out of the query"
        ) from error


def _require_address(database: str) -> None:
    """Refuse a password in PostgreSQL's address, and what is no address, without showing either."""
    user, _, hosts = urlsplit(database).netloc.rpartition("@")
    ports = re.sub(r"\[[^\]]*\]", "", hosts)  # without addresses of IPv6
    options = {name.lower() for name in parse_qs(urlsplit(database).query)}
    if ":" in user or _SECRETS & options or not re.fullmatch(r"[^:,]*(:\d*)?(,[^:,]*(:\d*)?)*", ports):
        raise SubmissionError(
            "the address of PostgreSQL has a password in it (or a port that is no number), and a command line is "
            "seen by others; leave it out, and set PGPASSWORD or write it into ~/.pgpass"
        )
    if "://" not in database:
        raise SubmissionError(
            "PostgreSQL's address is written postgresql://user@host/database, as text and not as a Path"
        )
