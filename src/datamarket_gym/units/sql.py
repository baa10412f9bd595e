"""Tables that are asked of a database: ``duckdb:market.db#SELECT ...``, ``postgresql://user@host/db#SELECT ...``.

As ``file.npz#name`` and ``file.xlsx#Sheet`` say which part of a file is meant, what follows the first ``#`` says
which part of a database. A query is run once, what it gives becomes a file (`units.answers`), and everybody reads
that. The order of rows is the query's, which therefore has to say one.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa

from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.core.extras import require_extra
from datamarket_gym.units.answers import ENDING, Answer, unreadable, write_answer
from datamarket_gym.units.formats import require_file
from datamarket_gym.units.postgres import ask_postgres

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
        """The query that is written so; None where a file is meant."""
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
        found = cls(database, text.strip())
        bare = found._bare()
        if not re.match(r"\s*(select|with|values|table|from)\b", bare, re.IGNORECASE):
            raise SubmissionError(
                f"what follows the # of {scheme}: is no query that only reads; begin it with SELECT or WITH, as in "
                f"{_EXAMPLE}"
            )
        if re.search(r";\s*\S", bare):
            raise SubmissionError(f"{found.shown} is more than one statement; give a single SELECT")
        if not re.search(r"\border\s+by\b", bare, re.IGNORECASE):
            raise SubmissionError(
                f"{found.shown} has no ORDER BY at its end, so that its rows come in any order; add one, by columns "
                "that tell all rows apart (ORDER BY id)"
            )
        return found

    def __str__(self) -> str:
        return f"{self.database}#{self.text}"

    @property
    def shown(self) -> str:
        """The query as errors call it."""
        line = " ".join(self.text.split())
        return repr(f"{self.database}#{line if len(line) <= _SHOWN else f'{line[:_SHOWN]}...'}")

    def fetch(self, path: Path) -> None:
        """Run the query, and write what it gives to a file."""
        with self._asked() as answer:
            write_answer(answer, path, self.shown)

    def _asked(self) -> AbstractContextManager[Answer]:
        if self.database.lower().startswith("duckdb:"):
            return _ask_duckdb(self)
        return ask_postgres(self.database, self.text, self.shown)

    def _bare(self) -> str:
        """The query without comments, without what stands in quotes, and without what stands in brackets."""
        text, before = _QUOTED.sub(" ", self.text), ""
        while text != before:
            text, before = re.sub(r"\([^()]*\)", " ", text), text
        return text


@contextmanager
def as_files(tables: Mapping[str, str | Path | None]) -> Iterator[dict[str, Path]]:
    """Tables by role as paths, for as long as the block lasts: each query is run, once, into a file of the role's name.

    Errors of the block name the query instead of that file.
    """
    asked = queries_of(tables)
    found = {role: Path(where) for role, where in tables.items() if where is not None}
    with tempfile.TemporaryDirectory(prefix="datamarket-") as folder:
        for role, query in asked.items():
            found[role] = Path(folder) / f"{role}{ENDING}"
            query.fetch(found[role])
        try:
            yield found
        except SubmissionError as error:
            told = str(error)
            for role, query in asked.items():
                told = told.replace(repr(str(found[role])), query.shown)
            if told == str(error):
                raise
            raise SubmissionError(told) from error


def is_query(written: str) -> bool:
    """Whether a table is written as that of a database, well or not."""
    return bool(re.match(r"(duckdb|postgres|postgresql):", written, re.IGNORECASE))


def queries_of(tables: Mapping[str, str | Path | None]) -> dict[str, Query]:
    """Those of some tables, by role, that are queries."""
    asked = {role: Query.of(str(where)) for role, where in tables.items() if where is not None}
    return {role: query for role, query in asked.items() if query is not None}


def _require_address(database: str) -> None:
    """Refuse a password in PostgreSQL's address, and what is no address, without showing either."""
    user, _, hosts = urlsplit(database).netloc.rpartition("@")
    ports = re.sub(r"\[[^\]]*\]", "", hosts)  # without addresses of IPv6
    given = {name.lower() for name in parse_qs(urlsplit(database).query)}
    if ":" in user or _SECRETS & given or not re.fullmatch(r"[^:,]*(:\d*)?(,[^:,]*(:\d*)?)*", ports):
        raise SubmissionError(
            "the address of PostgreSQL has a password in it (or a port that is no number), and a command line is "
            "seen by others; leave it out, and set PGPASSWORD or write it into ~/.pgpass"
        )
    if "://" not in database:
        raise SubmissionError(
            "PostgreSQL's address is written postgresql://user@host/database, as text and not as a Path"
        )


@contextmanager
def _ask_duckdb(query: Query) -> Iterator[Answer]:
    """An answer of DuckDB, whose file is opened for reading only; without a file it reads others' (Parquet, CSV)."""
    require_extra("duckdb", "sql")
    import duckdb

    file = query.database.partition(":")[2].removeprefix("//")
    if file:
        require_file(Path(file))
    config = {"python_enable_replacements": "false"}  # variables of this program are no tables
    try:
        with duckdb.connect(file or ":memory:", read_only=bool(file), config=config) as connection:
            kinds = [each.type for each in connection.extract_statements(query.text)]
            if kinds != [duckdb.StatementType.SELECT]:
                raise SubmissionError(
                    f"{query.shown} is no single statement that only reads; give one SELECT"
                )
            found = connection.sql(query.text)
            for name, kind in zip(found.columns, found.types, strict=True):
                if str(kind) == "JSON":  # would come as text, with quotes around the text in it
                    raise unreadable(query.shown, name, "JSON")
            reader = pa.RecordBatchReader.from_stream(found)
            yield reader.schema, iter(reader)
    except duckdb.Error as error:
        raise SubmissionError(f"{query.shown}: {str(error).splitlines()[0]}") from error
