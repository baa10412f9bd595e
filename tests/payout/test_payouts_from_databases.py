"""Payout runs whose tables are queries or sheets: what was read is hashed, kept with the run, and read again later."""

import csv
import json
import re
import shutil

import duckdb
import pytest
from payout_files import cents, table, units, validation, write
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.payout.ledger.runs import run_of
from excel_files import sheet, write_book

UNITS = "#SELECT * FROM units ORDER BY id"
HELD = "#SELECT label, features FROM held ORDER BY place"


def typed(*words):
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "160"})


def paid(submissions, held, out, *more):
    return typed(
        "pay", submissions, "--validation", held, "--amount", "1000.00", "--out", out, "--theta", "none",
        "--no-audit", "--checks", "0", *more,
    )  # fmt: skip


def market(path):
    """A DuckDB file with the units, the validation rows and a table of who is who."""
    submitted, held = table(units()), table(validation())  # noqa: F841  DuckDB reads them by name
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE units AS SELECT * FROM submitted")
        connection.execute("CREATE TABLE held AS SELECT row_number() OVER () AS place, * FROM held")
        connection.execute(
            "CREATE TABLE pairs AS SELECT 'seller 0' AS id_l, 'seller 1' AS id_r, 1.0 AS p"
        )
    return f"duckdb:{path}"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of queries; of its database nothing is left."""
    folder = tmp_path_factory.mktemp("queries")
    database = market(folder / "market.db")
    edges = f"{database}#SELECT id_l, id_r, p AS probability FROM pairs ORDER BY ALL"
    done = paid(database + UNITS, database + HELD, folder / "run", "--edges", edges)
    assert done.exit_code == 0, done.output
    (folder / "market.db").unlink()
    return folder / "run"


def copied(run, place):
    shutil.copytree(run.parent, place, dirs_exist_ok=True)
    return place / run.name


def test_a_run_of_queries_pays_what_a_run_of_files_pays(run, tmp_path):
    places = write(tmp_path / "in", units(), validation())
    (tmp_path / "edges.csv").write_text("id_l,id_r,probability\nseller 0,seller 1,1\n")
    done = paid(
        places.submissions, places.validation, tmp_path / "run", "--edges", tmp_path / "edges.csv"
    )
    assert done.exit_code == 0, done.output
    assert cents(run) == cents(tmp_path / "run")


def test_manifest_and_ledger_say_what_was_asked(run):
    inputs = json.loads((run / "manifest.json").read_text())["inputs"]
    said = run_of(run).places
    for role, end in (("submissions", UNITS), ("validation", HELD), ("edges", "ORDER BY ALL")):
        assert inputs[role]["name"].startswith("duckdb:")
        assert inputs[role]["name"].endswith(end)
        assert said[role] == inputs[role]["name"]
        assert inputs[role]["bytes"] == (run / "inputs" / f"{role}.arrow").stat().st_size


def test_verify_and_explain_read_what_was_read_then(run):
    done = typed("verify", run, "--recompute")
    assert done.exit_code == 0, done.output
    assert "inputs/submissions.arrow" in done.output
    assert "payments.parquet, recomputed" in done.output
    assert typed("explain", run, "--payee", "attacker").exit_code == 0


def test_a_run_that_is_moved_takes_its_answers_along(run, tmp_path):
    moved = copied(run, tmp_path / "elsewhere")
    done = typed("verify", moved, "--recompute")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("role", ["submissions", "validation", "edges"])
def test_verify_finds_an_answer_that_was_changed_or_removed(run, tmp_path, role):
    copy = copied(run, tmp_path)
    kept = copy / "inputs" / f"{role}.arrow"
    content = bytearray(kept.read_bytes())
    content[len(content) // 2] ^= 1
    kept.write_bytes(content)
    done = typed("verify", copy)
    assert done.exit_code == 1
    assert re.search(rf"inputs/{role}\.arrow +changed since it was read", done.output)
    kept.unlink()
    assert re.search(rf"inputs/{role}\.arrow +missing", typed("verify", copy).output)


def test_a_database_that_changed_is_another_run_and_leaves_the_first_alone(tmp_path):
    database = market(tmp_path / "market.db")
    places = write(tmp_path / "in")
    assert paid(database + UNITS, places.validation, tmp_path / "run").exit_code == 0
    again = paid(database + UNITS, places.validation, tmp_path / "run")
    assert again.exit_code == 0, again.output  # the same answer: the same run
    kept = (tmp_path / "run" / "inputs" / "submissions.arrow").read_bytes()
    with duckdb.connect(tmp_path / "market.db") as connection:
        connection.execute("DELETE FROM units WHERE identity = 'attacker'")
    done = paid(database + UNITS, places.validation, tmp_path / "run")
    assert "holds another run" in str(done.exception)
    assert (tmp_path / "run" / "inputs" / "submissions.arrow").read_bytes() == kept
    # What was read then is a file like any other: it is the same run.
    done = paid(tmp_path / "run" / "inputs" / "submissions.arrow", places.validation, tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert typed("verify", tmp_path / "run", "--recompute").exit_code == 0


def test_an_error_of_a_query_leaves_nothing_behind(tmp_path):
    database = market(tmp_path / "market.db")
    query = "#SELECT id, identity, NULLIF(label, 2) AS label, features FROM units ORDER BY id"
    done = paid(database + query, write(tmp_path / "in").validation, tmp_path / "run")
    said = str(done.exception)
    assert re.search(r"market\.db#SELECT id, .* rows cannot be used", said)
    assert ": label is missing" in said
    assert not (tmp_path / "run").exists()


def test_units_must_not_be_their_own_validation_rows(tmp_path):
    database = market(tmp_path / "market.db")
    done = paid(database + UNITS, database + UNITS, tmp_path / "run")
    assert "are the same data, as submissions and as validation rows" in str(done.exception)


def test_a_payout_run_from_postgresql_writes_the_password_nowhere(postgres, tmp_path, monkeypatch):
    import psycopg

    monkeypatch.setenv("PGPASSWORD", postgres.password)
    address = re.sub(r":[^:@/]+@", "@", postgres.database())
    columns = units()
    with psycopg.connect(address) as connection:
        connection.execute(
            "CREATE TABLE units (id text, identity text, label int, time float8, features float8[])"
        )
        rows = zip(*(list(column) for column in columns.values()), strict=True)
        connection.cursor().executemany(
            "INSERT INTO units VALUES (%s, %s, %s, %s, %s)",
            [(i, who, int(label), float(t), list(map(float, f))) for i, who, label, t, f in rows],
        )
    places = write(tmp_path / "in", columns)
    done = paid(address + UNITS, places.validation, tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert paid(places.submissions, places.validation, tmp_path / "files").exit_code == 0
    assert cents(tmp_path / "run") == cents(tmp_path / "files")
    assert typed("verify", tmp_path / "run", "--recompute").exit_code == 0
    for path in [*tmp_path.rglob("*")]:
        assert not path.is_file() or postgres.password.encode() not in path.read_bytes()


def spread(columns):
    features = columns.pop("features")
    return {
        **{name: list(column) for name, column in columns.items()},
        **{f"features_{j}": features[:, j].tolist() for j in range(features.shape[1])},
    }


def plain(columns):
    """Numbers of numpy as Python's, which Excel files can hold."""
    return {n: [c.item() if hasattr(c, "item") else c for c in column] for n, column in columns.items()}


def test_a_payout_run_from_sheets(tmp_path):
    places = write(tmp_path / "in", units(), validation())
    assert paid(places.submissions, places.validation, tmp_path / "files").exit_code == 0
    submitted, held = plain(spread(units())), plain(spread(validation()))
    ledger = tmp_path / "market.xlsx"
    write_book(
        ledger,
        June=sheet(submitted),
        Validation=sheet(held),
        July=sheet({**submitted, "id": submitted["id"][::-1]}),
    )
    done = paid(f"{ledger}#June", f"{ledger}#Validation", tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert cents(tmp_path / "run") == cents(tmp_path / "files")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["inputs"]["submissions"]["sheet"] == "June"
    done = typed("verify", tmp_path / "run", "--recompute")
    assert done.exit_code == 0, done.output
    done = paid(f"{ledger}#July", f"{ledger}#Validation", tmp_path / "run")
    assert "holds another run" in str(done.exception)
    done = paid(ledger, f"{ledger}#Validation", tmp_path / "other")
    assert "3 sheets to read ('June', 'Validation', 'July')" in str(done.exception)
    done = paid(f"{ledger}#June", f"{ledger}#June", tmp_path / "other")
    assert "are the same data, as submissions and as validation rows" in str(done.exception)


def test_a_settlement_takes_the_answers_along(tmp_path):
    database = market(tmp_path / "market.db")
    run, settled = tmp_path / "run", tmp_path / "settled"
    held = write(tmp_path / "in").validation
    assert paid(database + UNITS, held, run, "--checks", "1").exit_code == 0
    (tmp_path / "market.db").unlink()
    assert typed("check", "sample", run, "--announce", "a number").exit_code == 0
    assert typed("check", "sample", run, "--beacon", "a number: 7").exit_code == 0
    with (run / "checks.csv").open(encoding="utf-8", newline="") as file:
        numbers = [row["number"] for row in csv.DictReader(file)]
    found = [f"{n},{'genuine' if i else 'false'},ro {n}\n" for i, n in enumerate(numbers)]
    (tmp_path / "outcomes.csv").write_text("number,outcome,by\n" + "".join(found))
    asked = f"duckdb:#SELECT * FROM '{tmp_path}/outcomes.csv' ORDER BY number"  # outcomes may be a query, too
    assert typed("check", "record", run, asked).exit_code == 0
    assert typed("check", "settle", run, "--out", settled).exit_code == 0
    shutil.rmtree(run / "inputs")
    done = typed("verify", settled, "--recompute")
    assert done.exit_code == 0, done.output
