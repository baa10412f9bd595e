"""A table with column names of its own goes through pay, audit and theta, by the same flags or the same file."""

import json

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from datamarket_gym.cli.app import app

SELLERS, LABELS = ("ann", "bob", "cid"), ("cat", "dog")
SAID = (  # words of each label, of which texts are made
    "purr nap stove mouse whisker tail roof milk claw moon sofa yarn window hunt shadow paw",
    "bark leash bone letter park stick fetch kennel growl wag muddy garden walk guard howl ball",
)
FLAGS = ("--payee", "seller", "--label", "kind", "--features", "f", "--time", "received")
CONFIG = 'payee = "seller"\nlabel = "kind"\nfeatures = "f"\ntime = "received"\n'


def written(path, rows, seed, more):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, rows)
    vectors = 3.0 * np.eye(2, 4)[label] + rng.normal(0, 0.5, (rows, 4))
    body = [" ".join(rng.choice(SAID[i].split(), 8)) for i in label]
    columns = {
        "kind": [LABELS[i] for i in label],
        "body": body,
        **{f"f_{j}": vectors[:, j] for j in range(4)},
    }
    if more:
        columns |= {
            "seller": [SELLERS[i % 3] for i in range(rows)],
            "received": np.arange(rows, dtype=float),
            "place": ["here"] * rows,
        }
    pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flags")
    (folder / "pay.toml").write_text(CONFIG)
    written(folder / "validation.parquet", 60, 1, more=False)
    written(folder / "units.parquet", 45, 0, more=True)
    with duckdb.connect(folder / "market.db") as connection:
        connection.execute(f"CREATE TABLE units AS SELECT * FROM '{folder}/units.parquet'")
    return folder


def typed(*words):
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})


def commands(files, flags, out, units=None):
    units, validation = units or files / "units.parquet", files / "validation.parquet"
    small = ("--per-provider", 5, "--trials", 2)
    yield (
        "pay",
        units,
        "--validation",
        validation,
        "--amount",
        "100",
        "--no-audit",
        "--out",
        out / "pay",
        *flags,
    )
    yield (
        "audit",
        units,
        "--validation",
        validation,
        "--only",
        "copycat",
        "--out",
        out / "audit",
        "--jobs",
        1,
        *flags,
    )
    yield "theta", units, *small, "--json", out / "theta.json", *flags
    yield "theta", units, "--partition", "identities", *small, *flags


def test_by_flags_by_file_and_by_query(files, tmp_path):
    query = f"duckdb:{files / 'market.db'}#SELECT * FROM units ORDER BY received"
    ways = {
        "flags": (FLAGS, None), "file": (("--config", files / "pay.toml"), None), "query": (FLAGS, query),
    }  # fmt: skip
    found = {}
    for way, (flags, units) in ways.items():
        out = tmp_path / way
        out.mkdir()
        for words in commands(files, flags, out, units):
            done = typed(*words)
            assert done.exit_code == 0, (words, done.output, done.exception)
        audited = json.loads((out / "audit" / "audit.json").read_text())
        assert set(audited["providers"]) <= set(SELLERS)
        assert audited["trials"]
        paid = pq.read_table(out / "pay" / "payments.parquet").to_pylist()
        assert {row["identity"] for row in paid} == set(SELLERS)
        measured = json.loads((out / "theta.json").read_text())
        measured.pop("created")
        found[way] = (audited, measured, paid)
    assert found["flags"] == found["file"] == found["query"]


def test_texts_are_embedded_for_all_three(files, tmp_path):
    flags = ("--payee", "seller", "--label", "kind", "--text", "body", "--encoder", "ngrams")
    for words in commands(files, flags, tmp_path):
        done = typed(*words)
        assert done.exit_code == 0, (words, done.output, done.exception)


def test_features_beside_the_table(files, tmp_path):
    for name in ("units", "validation"):
        frame = pq.read_table(files / f"{name}.parquet")
        np.save(tmp_path / f"{name}.npy", np.column_stack([frame[f"f_{j}"] for j in range(4)]))
        pq.write_table(frame.drop_columns([f"f_{j}" for j in range(4)]), tmp_path / f"{name}.parquet")
    flags = ("--payee", "seller", "--label", "kind", "--features-file", tmp_path / "units.npy")
    pay, audit, theta, _ = commands(tmp_path, flags, tmp_path)
    validation = ("--validation-features-file", tmp_path / "validation.npy")
    for words in ((*pay, *validation), (*audit, *validation), theta):
        done = typed(*words)
        assert done.exit_code == 0, (words, done.output, done.exception)
    plain = typed("theta", files / "units.parquet", "--per-provider", 5, "--trials", 2, *FLAGS)
    assert typed(*theta).stdout == plain.stdout  # the same numbers


@pytest.mark.parametrize("command", [0, 1, 2])
def test_a_column_that_is_not_there_is_named(files, tmp_path, command):
    flags = tuple("knd" if word == "kind" else word for word in FLAGS)
    done = typed(*list(commands(files, flags, tmp_path))[command])
    assert "has no column 'knd' for 'label'; did you mean 'kind'" in str(done.exception)


def test_the_settings_of_a_payout_run_hold_for_its_audit(files, tmp_path):
    config = tmp_path / "pay.toml"
    config.write_text(f'amount = "5"\nutility = "knn"\nchecks = 7\npower = 0.5\n{CONFIG}')
    audit = list(commands(files, ("--config", config), tmp_path))[1]
    assert typed(*audit).exit_code == 0
    report = json.loads((tmp_path / "audit" / "audit.json").read_text())
    assert "knn" in report["utility"]
    assert (report["checks"]["per_payee"], report["checks"]["power"]) == (7, 0.5)


def test_flags_for_columns_are_refused_where_there_are_none(files, tmp_path):
    np.savez(tmp_path / "e.npz", embeddings=np.eye(4))
    done = typed("theta", tmp_path / "e.npz", "--label", "kind")
    assert "holds arrays and has no columns, of which one would be 'label'" in str(done.exception)
