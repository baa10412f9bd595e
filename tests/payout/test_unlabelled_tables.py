"""Tables without labels: read in every format, paid by coverage, and an error where what is paid for needs labels."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from acquired_files import stacked
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from payout_files import (
    bare,
    cents,
    outputs,
    payments,
    rows,
    run,
    spec,
    table,
    units,
    validation,
    warned,
)
from typer.testing import CliRunner

from datamarket_gym import read_submission
from datamarket_gym.cli.app import app
from datamarket_gym.data.submission import read_validation
from datamarket_gym.errors import SubmissionError
from datamarket_gym.market.datasets import load_embeddings
from datamarket_gym.payout.inputs import read_inputs
from datamarket_gym.payout.stored_inputs import Places
from datamarket_gym.payout.verify import verify
from datamarket_gym.payout.warnings import read_warnings
from excel_files import write_book
from table_files import LISTS, SPREAD
from table_files import write as write_as


def typed(*words):
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})


def told(folder, name):
    (found,) = [each for each in read_warnings(folder) if each.name == name]
    return list(found.items)


def same_pay(one, other):
    return cents(one) == cents(other) and all(
        outputs(one)[name] == outputs(other)[name]
        for name in ("payments.parquet", "clusters.parquet", "evidence.parquet", "canonical.parquet")
    )


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A run of tables without labels."""
    return run(tmp_path_factory.mktemp("plain"), bare(units()), bare(validation()))


def test_tables_without_a_label_column_are_paid_as_coverage_without_labels(plain, tmp_path):
    by_rule = run(tmp_path, learner="coverage(labels=False)")  # the same tables, labels and all
    assert cents(plain) == cents(by_rule)
    assert sum(cents(plain).values()) == 100_000
    assert "labels_ignored" not in warned(plain)
    manifest = json.loads((plain / "manifest.json").read_text())
    assert manifest["labelled"] is False
    assert "label" not in manifest["paid_for"]["divided"]
    assert json.loads((by_rule / "manifest.json").read_text())["labelled"] is True


def test_what_to_train_on_has_no_column_of_labels_where_there_are_none(plain, tmp_path):
    assert pq.read_schema(plain / "canonical.parquet").names == ["unit", "cluster", "weight", "features"]
    assert "label" in pq.read_schema(run(tmp_path) / "canonical.parquet").names


@pytest.mark.parametrize("ending", [*LISTS, *SPREAD])
def test_every_format_reads_without_labels(ending, tmp_path):
    path = write_as(tmp_path, ending, bare(units(12, copies=0)))
    held = tmp_path / "held.parquet"
    pq.write_table(table(bare(validation(8))), held)
    found = read_inputs(Places(path, held), spec())
    assert not found.labelled
    assert found.submission.label.tolist() == [""] * 12
    assert found.ignored_labels == ()


def test_a_sheet_and_a_query_read_without_labels(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    write_book(
        tmp_path / "market.xlsx",
        units=[
            ["id", "identity", "features_0", "features_1"],
            ["a", "anna", 1.5, 0.5],
            ["b", "ben", 0.0, 1.0],
        ],
        held=[["features_0", "features_1"], [1.0, 0.5], [0.25, 1.0]],
    )
    with duckdb.connect(tmp_path / "market.db") as market:
        market.execute(
            "CREATE TABLE units AS FROM (VALUES ('a', 'anna', [1.5, 0.5]), ('b', 'ben', [0.0, 1.0])) "
            "AS t(id, identity, features)"
        )
        market.execute(
            "CREATE TABLE held AS FROM (VALUES (1, [1.0, 0.5]), (2, [0.25, 1.0])) AS t(row, features)"
        )
    paid = {}
    for name, (mine, held) in {
        "sheet": (f"{tmp_path / 'market.xlsx'}#units", f"{tmp_path / 'market.xlsx'}#held"),
        "query": (
            f"duckdb:{tmp_path / 'market.db'}#SELECT * FROM units ORDER BY id",
            f"duckdb:{tmp_path / 'market.db'}#SELECT features FROM held ORDER BY row",
        ),
    }.items():
        out = tmp_path / name / "run"
        done = typed(
            "pay", mine, "--validation", held, "--utility", "coverage@0", "--amount", "10", "--out", out, "--no-audit",
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        paid[name] = cents(out)
    assert paid["sheet"] == paid["query"]
    assert sum(paid["query"].values()) == 1000


def test_arrays_beside_tables_of_nothing_but_names(tmp_path):
    """Of the validation rows nothing is read then but how many there are."""
    mine, held = units(12, copies=0), validation(8)
    pq.write_table(pa.table({"identity": mine["identity"]}), tmp_path / "units.parquet")
    pq.write_table(pa.table({"note": [""] * 8}), tmp_path / "held.parquet")
    np.save(tmp_path / "units.npy", mine["features"])
    np.save(tmp_path / "held.npy", held["features"])
    files = {"features": str(tmp_path / "units.npy"), "validation_features": str(tmp_path / "held.npy")}
    found = read_inputs(Places(tmp_path / "units.parquet", tmp_path / "held.parquet"), spec(files=files))
    assert found.validation_features.tolist() == held["features"].tolist()
    assert not found.labelled
    np.save(tmp_path / "held.npy", held["features"][1:])
    with pytest.raises(SubmissionError, match="one row for each of the 8 rows of the table"):
        read_inputs(Places(tmp_path / "units.parquet", tmp_path / "held.parquet"), spec(files=files))


def test_texts_without_labels_are_paid_from_the_command_line(tmp_path):
    (tmp_path / "units.csv").write_text(
        "identity,text\nanna,the red fox jumps\nben,blue birds sing\nben,the red fox jumps high\n"
    )
    (tmp_path / "needs.csv").write_text("text\na red fox\nbirds that sing\nrain in spring\n")
    done = typed(
        "pay", tmp_path / "units.csv", "--validation", tmp_path / "needs.csv", "--text", "text", "--encoder",
        "ngrams", "--utility", "coverage@0.5", "--amount", "10", "--out", tmp_path / "run", "--no-audit",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert sum(cents(tmp_path / "run").values()) == 1000
    assert "of its label" not in done.output


@pytest.mark.parametrize("side", ["submissions", "validation rows"])
def test_labels_of_one_side_do_not_count_and_the_run_says_so(side, plain, tmp_path):
    mine, held = units(), validation()
    made = run(tmp_path, mine, bare(held)) if side == "submissions" else run(tmp_path, bare(mine), held)
    assert same_pay(made, plain)
    other = {"submissions": "validation rows", "validation rows": "submissions"}[side]
    assert told(made, "labels_ignored") == [f"the {side} have labels, the {other} have none"]


@pytest.mark.parametrize("empty", [None, "", "nan"])
def test_a_column_in_which_nothing_stands_is_no_labels_and_is_told(empty, plain, tmp_path):
    made = run(tmp_path, bare(units(), [empty] * 66), validation())
    assert same_pay(made, plain)
    assert told(made, "labels_ignored") == [
        "the validation rows have labels, the submissions have none",
        "column “label” of the submissions is empty in every row",
    ]
    asked = tmp_path / "in" / "units.parquet", tmp_path / "in" / "validation.parquet"
    with pytest.raises(SubmissionError, match=r"'label' is empty in every row; .* leave --label out"):
        read_inputs(Places(*asked), spec(columns={"label": "label"}))


def test_some_labels_that_are_missing_stay_an_error_or_are_set_aside(tmp_path):
    label = units()["label"].tolist()
    label[5] = None
    with pytest.raises(SubmissionError, match="column 'label' is empty in row 5"):
        run(tmp_path / "a", bare(units(), label))
    made = run(tmp_path / "b", bare(units(), label), quarantine=True)
    assert json.loads((made / "manifest.json").read_text())["quarantined"] == 1
    whole = run(tmp_path / "c", bare(units()), bare(validation()), quarantine=True)
    assert json.loads((whole / "manifest.json").read_text())["quarantined"] == 0


def test_a_column_that_was_named_must_be_there(tmp_path):
    with pytest.raises(SubmissionError, match="no column 'section' for 'label'"):
        run(tmp_path, bare(units()), columns={"label": "section"})
    with pytest.raises(SubmissionError, match="did you mean 'Label'"):
        run(tmp_path, bare(units()) | {"Label": units()["label"]})
    made = run(tmp_path, units(), validation(), columns={"label": ""})
    assert json.loads((made / "manifest.json").read_text())["labelled"] is False


def test_where_labels_are_needed_the_error_comes_before_anything_is_embedded(tmp_path, monkeypatch):
    from datamarket_gym.payout import inputs

    def never(*_):
        raise AssertionError("texts were embedded")

    monkeypatch.setattr(inputs, "embed", never)
    for name, columns in {"units": "identity,text,label", "held": "text"}.items():
        (tmp_path / f"{name}.csv").write_text(f"{columns}\n{columns}\n")
    how = spec(learner="knn", columns={"text": "text"})
    with pytest.raises(
        SubmissionError, match=r"held.csv' has no column 'label'.*knn needs.*none: .*coverage"
    ):
        read_inputs(Places(tmp_path / "units.csv", tmp_path / "held.csv"), how)
    with pytest.raises(SubmissionError, match=r"the submissions .*held.csv' has no column 'label'"):
        read_inputs(Places(tmp_path / "held.csv", tmp_path / "units.csv"), how)
    (tmp_path / "held.csv").write_text("text,label\na,x\nb,y\n")
    (tmp_path / "units.csv").write_text("identity,text,label\nanna,a,\nben,b,\n")
    with pytest.raises(
        SubmissionError, match=r"units.csv' \(column 'label' is empty in every row\).*coverage"
    ):
        read_inputs(Places(tmp_path / "units.csv", tmp_path / "held.csv"), how)


@pytest.mark.parametrize("command", ["pay", "audit"])
def test_both_commands_name_the_column_and_what_needs_none(command, tmp_path):
    pq.write_table(table(bare(units(20))), tmp_path / "units.parquet")
    pq.write_table(table(bare(validation(20))), tmp_path / "held.parquet")
    asked = ["--amount", "1"] if command == "pay" else []
    done = typed(
        command, tmp_path / "units.parquet", "--validation", tmp_path / "held.parquet", "--utility", "ridge",
        "--out", tmp_path / "out", *asked,
    )  # fmt: skip
    assert isinstance(done.exception, SubmissionError)
    assert "units.parquet' has no column 'label'" in str(done.exception)
    assert "ridge needs them" in str(done.exception)
    assert "coverage" in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_an_audit_of_a_market_without_labels(tmp_path):
    pq.write_table(table(units(20)), tmp_path / "units.parquet")
    pq.write_table(table(bare(validation(20))), tmp_path / "held.parquet")
    done = typed(
        "audit", tmp_path / "units.parquet", "--validation", tmp_path / "held.parquet", "--utility", "coverage@0.9",
        "--only", "sybil_split_k", "--providers", "1", "--jobs", "1", "--out", tmp_path / "out",
    )  # fmt: skip
    assert done.exit_code == 0, done.output + str(done.exception)
    assert "Labels do not count: the submissions have labels, the validation rows have none" in " ".join(
        done.output.split()
    )


def dealt(columns, names):
    return columns | {"identity": names}


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1000), whose=st.sampled_from(["seller 0", "seller 3", "a new name"]))
def test_order_names_and_exact_copies_decide_nothing(seed, whose, tmp_path_factory):
    """Names of one's own and exact copies are worth exactly nothing; the order of rows changes no byte."""
    rng, place = np.random.default_rng(seed), tmp_path_factory.mktemp("market")
    mine, held = bare(units(24, copies=0, seed=seed)), bare(validation(20, seed=seed))
    first, order = run(place / "first", mine, held), rng.permutation(24)

    moved = run(place / "moved", rows(mine, order), rows(held, rng.permutation(20)))
    for name in ("payments.csv", "payments.parquet", "canonical.parquet"):
        assert outputs(first)[name] == outputs(moved)[name]

    names = [f"{rng.integers(2) if who == 'seller 0' else 0} {who}" for who in mine["identity"]]
    split = run(place / "split", rows(dealt(mine, names), order), held)
    assert unit_amounts(first) == unit_amounts(split)
    others = [
        n for n in cents(first) if n != "seller 0"
    ]  # to a cent, which is rounded among other names
    assert all(abs(cents(first)[n] - cents(split)[f"0 {n}"]) <= 1 for n in others)

    again = rows(mine, rng.choice(24, 8, replace=False))
    again |= {
        "id": [f"copy {i}" for i in range(8)],
        "identity": [whose] * 8,
        "time": 100.0 + np.arange(8),
    }
    copied = run(place / "copied", stacked(mine, again), held)
    assert cents(first) | {whose: cents(first).get(whose, 0)} == cents(copied)
    earned = {n: row["score"] for n, row in payments(first).items()}
    assert earned == {n: row["score"] for n, row in payments(copied).items() if n in earned}


def unit_amounts(folder):
    table = pq.read_table(folder / "clusters.parquet").sort_by("unit")
    return table.select(["unit", "amount"]).to_pylist()


def test_a_run_without_labels_is_worked_out_again_to_the_byte(plain):
    assert [check for check in verify(plain, True) if not check.good] == []


def test_python_reads_a_column_in_which_nothing_stands_as_none(tmp_path):
    save = tmp_path / "units.parquet"
    pq.write_table(table(bare(units(8), [None] * 14)), save)
    assert read_submission(save).labelled is False
    with pytest.raises(SubmissionError, match="column 'label' is empty in row 0"):
        read_submission(save, {"label": "label"})
    assert read_validation(save)[1].tolist() == [""] * 14
    assert load_embeddings(save).label is None


def test_labels_that_are_not_to_be_read_are_not_said_to_be_missing(tmp_path):
    for name, columns in {"units": units(), "held": validation()}.items():
        pq.write_table(table(columns), tmp_path / f"{name}.parquet")
    with pytest.raises(
        SubmissionError, match=r"units.parquet' is read without labels, as asked\) have no"
    ):
        read_inputs(
            Places(tmp_path / "units.parquet", tmp_path / "held.parquet"),
            spec(learner="knn", columns={"label": ""}),
        )
