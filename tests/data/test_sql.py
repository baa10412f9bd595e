"""Queries to DuckDB and PostgreSQL read as other tables do, write nothing, and let no password out."""

import re
import sys
import time
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datamarket_gym.data import read_submission
from datamarket_gym.data.readers.databases import ROWS, Query, as_files, write_answer
from datamarket_gym.data.readers.tables import Table
from datamarket_gym.errors import MissingExtraError, SubmissionError
from datamarket_gym.execution.files import sha256

MADE = """
CREATE TABLE units (id text, seller text, label integer, features {list}, received timestamp, price {decimal});
INSERT INTO units VALUES
    ('007', 'anna', 1, '{a}', '2026-05-01 12:00:00', 1.25),
    ('008', 'bén', 0, '{b}', '2026-05-01 12:00:30', 2.50),
    ('9', 'anna', 1, '{a}', '2026-05-02', NULL);
"""
READ = "#SELECT id, seller AS identity, label, features, received AS time, price FROM units ORDER BY id"


@pytest.fixture
def duck(tmp_path):
    path = tmp_path / "market.db"
    with duckdb.connect(path) as connection:
        made = MADE.format(list="double[]", decimal="decimal(9,2)", a="[1.5, 2]", b="[3, 4]")
        connection.execute(made)
    return f"duckdb:{path}"


@pytest.fixture
def server(postgres, monkeypatch):
    """The address of a fresh database, without the password, which is in the environment."""
    import psycopg

    monkeypatch.setenv("PGPASSWORD", postgres.password)
    address = re.sub(r":[^:@/]+@", "@", postgres.database())
    with psycopg.connect(address) as connection:
        made = MADE.format(list="float8[]", decimal="numeric(9,2)", a="{1.5, 2}", b="{3, 4}")
        connection.execute(made)
    return address


@pytest.fixture(params=["duck", "server"])
def database(request):
    return request.getfixturevalue(request.param)


def fetched(written, path):
    Query.of(written).fetch(path / "q.arrow")
    return pa.ipc.open_file(path / "q.arrow").read_all()


def test_a_query_reads_as_a_submission(database):
    found = read_submission(database + READ)
    assert found.id.tolist() == ["007", "008", "9"]
    assert found.identity.tolist() == ["anna", "bén", "anna"]
    assert (found.label.tolist(), found.features.tolist()) == (
        [1, 0, 1],
        [[1.5, 2.0], [3.0, 4.0], [1.5, 2.0]],
    )
    assert np.diff(found.time).tolist() == [30.0, 43170.0]
    assert [str(price) for price in found.metadata["price"]] == ["1.25", "2.50", "None"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT * FROM units", "has no ORDER BY at its end"),
        ("SELECT *, row_number() OVER (ORDER BY id) FROM units -- ORDER BY id", "has no ORDER BY at its end"),
        ("SELECT 'ORDER BY id' FROM units", "has no ORDER BY at its end"),
        ("SELECT * FROM units ORDER BY id; DROP TABLE units", "more than one statement"),
        ("DROP TABLE units", "no query that only reads; begin it with SELECT"),
        ("INSERT INTO units SELECT * FROM units ORDER BY id", "no query that only reads"),
        ("WITH gone AS (DELETE FROM units RETURNING *) SELECT * FROM gone ORDER BY 1", ""),
        ("SELECT * FROM units WHERE id = 'none' ORDER BY id", "gives no rows"),
        ("SELECT id, id FROM units ORDER BY id", "gives 2 columns 'id'; call all but one"),
        ("SELECT * FROM nowhere ORDER BY 1", "nowhere"),
        ("SELECT id FRM units ORDER BY id", "units"),
        ("SELECT ARRAY[ARRAY[1.0::float8]] AS f ORDER BY 1", "column 'f'"),
        ("SELECT CAST('{}' AS json) AS j ORDER BY 1::integer", "column 'j' holds (json|struct)"),
        ("", "names a database and no query"),
    ],
)  # fmt: skip
def test_what_is_refused_and_nothing_is_written(database, tmp_path, query, said):
    with pytest.raises(SubmissionError, match=f"(?i){said}"):
        fetched(f"{database}#{query}", tmp_path)
    assert not (tmp_path / "q.arrow").exists()
    assert len(fetched(database + READ, tmp_path)) == 3


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("'a'::bytea", "holds binary; leave it out of the query, or cast it"),
        ("ARRAY['a']", "holds list<.*string>; leave it out"),
        ("'NaN'::numeric(4,2)", "column 'c' cannot be read between rows 0 and 0"),
        ("'infinity'::timestamp", "timestamp too large"),
        ("interval '1 day'", "holds duration"),
        ("nextval('counter')", "read-only transaction"),
    ],
)
def test_types_and_writes_that_postgresql_refuses(server, tmp_path, column, said):
    import psycopg

    with psycopg.connect(server) as connection:
        connection.execute("CREATE SEQUENCE counter")
    with pytest.raises(SubmissionError, match=said):
        fetched(f"{server}#SELECT {column} AS c ORDER BY 1", tmp_path)


def test_types_of_postgresql(server, tmp_path):
    import psycopg

    with psycopg.connect(server) as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    cells = {
        "mood": ("'ok'::mood", "ok"),
        "padded": ("'x'::char(6)", "x"),
        "uuid": ("'f47ac10b-58cc-4372-a567-0e02b2c3d479'::uuid", "f47ac10b-58cc-4372-a567-0e02b2c3d479"),
        "truth": ("true", True),
        "small": ("ARRAY[1, 2]::int2[]", [1, 2]),
        "holes": ("ARRAY[1, NULL, 3]::float4[]", [1.0, None, 3.0]),
        "none": ("'{}'::float8[]", []),
        "many": ("sum(2::int)", 2),
        "exact": ("1.25::numeric", Decimal("1.25")),
        "percent": ("'100 %s'", "100 %s"),
    }
    columns = ", ".join(f"{sql} AS {name}" for name, (sql, _) in cells.items())
    found = fetched(f"{server}#SELECT {columns} ORDER BY 1", tmp_path).to_pylist()[0]
    assert found == {name: value for name, (_, value) in cells.items()}
    zoned = fetched(f"{server}#SELECT '2026-05-01 12:00+02'::timestamptz AS t ORDER BY 1", tmp_path)
    assert str(zoned["t"].type) == "timestamp[us, tz=UTC]"
    assert zoned["t"][0].as_py().isoformat() == "2026-05-01T10:00:00+00:00"


def test_types_of_duckdb(tmp_path):
    columns = (
        "'x'::ENUM('x', 'y') e, [1, 2]::FLOAT[2] f, TIMESTAMPTZ '2026-05-01 12:00:00+02' t, sum(2) s"
    )
    found = fetched(f"duckdb:#SELECT {columns} ORDER BY 1", tmp_path)
    assert [str(field.type) for field in found.schema] == [
        "string", "list<item: float>", "timestamp[us, tz=UTC]", "decimal128(38, 0)",
    ]  # fmt: skip
    for kind in ("'a'::BLOB", "{'a': 1}", "[[1]]", "TIME '10:00'"):
        with pytest.raises(SubmissionError, match=r"column 'c' holds .*; leave it out of the query"):
            fetched(f"duckdb:#SELECT {kind} AS c ORDER BY 1", tmp_path)


def test_duckdb_reads_files_and_no_variables_of_ours(tmp_path):
    units = pa.table({"id": ["a", "b"]})
    pq.write_table(units, tmp_path / "units.parquet")
    assert fetched(f"duckdb:#SELECT id FROM '{tmp_path}/*.parquet' ORDER BY id", tmp_path) == units
    with pytest.raises(SubmissionError, match="units does not exist"):
        fetched("duckdb:#SELECT id FROM units ORDER BY id", tmp_path)
    with pytest.raises(SubmissionError, match=r"there is no file '.*none\.db'"):
        fetched(f"duckdb:{tmp_path}/none.db#SELECT 1 ORDER BY 1", tmp_path)
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "text.db").write_text("no database\n" * 1000)
    with pytest.raises(SubmissionError, match="not a valid DuckDB database file"):
        fetched(f"duckdb:{tmp_path}/text.db#SELECT 1 ORDER BY 1", tmp_path)
    for writes in (
        "COPY (SELECT 1) TO '{}/x.csv'",
        "FROM (SELECT 1) ORDER BY 1; COPY (SELECT 1) TO '{}/x.csv'",
    ):
        with pytest.raises(SubmissionError, match=r"only reads|more than one"):
            fetched(f"duckdb:#{writes.format(tmp_path)}", tmp_path)
    assert not (tmp_path / "x.csv").exists()


SECRET = "hunter2secret"


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://market:{SECRET}@127.0.0.1:1/db#SELECT 1 ORDER BY 1",
        f"postgres://market:{SECRET}@127.0.0.1/db",
        f"postgresql://127.0.0.1:1/db?user=market&password={SECRET}#SELECT 1 ORDER BY 1",
        f"postgresql://market:{SECRET}#{SECRET}@127.0.0.1:1/db#SELECT 1 ORDER BY 1",
        f"postgresql://market:7#{SECRET}@127.0.0.1:1/db#SELECT 1 ORDER BY 1",
        f"postgresql://market:{SECRET}/{SECRET}@127.0.0.1:1/db#SELECT 1 ORDER BY 1",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(address):
    with pytest.raises(SubmissionError, match=r"PGPASSWORD|begin it with SELECT") as caught:
        Query.of(address)
    told = caught.value
    while told is not None:
        assert SECRET not in str(told)
        told = told.__cause__


def test_a_wrong_password_and_a_server_that_is_not_there(server, tmp_path, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", SECRET)
    with pytest.raises(
        SubmissionError, match=r"password authentication failed .*; set PGPASSWORD"
    ) as caught:
        fetched(server + READ, tmp_path)
    assert SECRET not in str(caught.value)
    with pytest.raises(SubmissionError, match="Connection refused"):
        fetched("postgresql://market@127.0.0.1:1/db#SELECT 1 ORDER BY 1", tmp_path)
    with pytest.raises(SubmissionError, match="nohost"):
        fetched("postgresql://market@nohost.invalid/db#SELECT 1 ORDER BY 1", tmp_path)


def test_the_file_of_an_answer_depends_on_its_rows_alone(tmp_path):
    rows = 2 * ROWS + 5
    value, there = np.arange(rows, dtype=np.float64), np.arange(rows) % 3 != 0
    hashes = set()
    for step, under in ((rows, 0.0), (1000, 7.0), (ROWS, -1.0)):
        cells = pa.array(np.where(there, value, under), mask=~there)
        below = np.where(there, value, under)  # what lies under an empty cell of the buffer itself
        bits = pa.array(there).buffers()[1]
        cells = pa.Array.from_buffers(pa.float64(), rows, [bits, pa.py_buffer(below)])
        lists = pa.array([[float(i), 2.0] for i in range(rows)])
        batch = pa.record_batch({"v": cells, "t": pa.array(there), "l": lists})
        some = (batch.slice(i, step) for i in range(0, rows, step))
        write_answer((batch.schema, some), tmp_path / "a.arrow", "q")
        hashes.add(sha256(tmp_path / "a.arrow"))
        assert pa.ipc.open_file(tmp_path / "a.arrow").read_all().to_pylist() == batch.to_pylist()
    assert len(hashes) == 1
    changed = batch.set_column(0, "v", pa.array(value))
    write_answer((changed.schema, iter([changed])), tmp_path / "a.arrow", "q")
    assert sha256(tmp_path / "a.arrow") not in hashes


def test_errors_name_the_query_and_not_the_file_of_its_answer(duck):
    with pytest.raises(
        SubmissionError, match=r"market\.db#SELECT id FROM units ORDER BY id' has no column"
    ):
        read_submission(f"{duck}#SELECT id FROM units ORDER BY id")
    with as_files(
        {"a": "plain.csv", "b": None, "c": f"{duck}#SELECT id FROM units ORDER BY id"}
    ) as found:
        assert str(found["a"]) == "plain.csv"
        assert found.keys() == {"a", "c"}
        assert Table.open(found["c"]).names == ("id",)
    assert not found["c"].exists()


@pytest.mark.parametrize(("module", "extra"), [("duckdb", "sql"), ("psycopg", "postgres")])
def test_without_the_driver_the_extra_is_named(tmp_path, monkeypatch, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    scheme = {"duckdb": "duckdb:", "psycopg": "postgresql://u@127.0.0.1:1/db"}[module]
    with pytest.raises(MissingExtraError, match=rf"{module} .*pip install 'datamarket-gym\[{extra}\]'"):
        fetched(f"{scheme}#SELECT 1 ORDER BY 1", tmp_path)


@pytest.mark.slow
def test_a_hundred_thousand_units_of_384_numbers(server, tmp_path):
    import psycopg

    with psycopg.connect(server) as connection:
        connection.execute(
            "CREATE TABLE big AS SELECT i AS id, (SELECT array_agg(random() + 0 * i * k) "
            "FROM generate_series(1, 384) k) AS features FROM generate_series(1, 100000) i"
        )
    started = time.monotonic()
    Query.of(f"{server}#SELECT * FROM big ORDER BY id").fetch(tmp_path / "q.arrow")
    assert time.monotonic() - started < 60
    assert pa.ipc.open_file(tmp_path / "q.arrow").read_all().num_rows == 100_000
