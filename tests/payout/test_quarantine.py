"""--quarantine sets bad rows aside, lists them and goes on; everybody else is paid as if they had not been there."""

import csv
import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from payout_files import cents, outputs, payments, run, spec, table, units, validation, warned

from datamarket_gym.errors import SubmissionError
from datamarket_gym.payout.explain import explain
from datamarket_gym.payout.ledger.runs import run_of
from datamarket_gym.payout.manifest import run_id
from datamarket_gym.payout.names import from_csv
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.statements.page import statement_text
from datamarket_gym.payout.stored_inputs import Places
from datamarket_gym.payout.verify import verify
from datamarket_gym.payout.warnings import read_warnings
from table_files import write as write_as

BAD = 5  # the row that is spoiled; seller 1's


def listed(folder):
    with (folder / "quarantine.csv").open(encoding="utf-8", newline="") as file:
        return [
            {**{k: from_csv(v) for k, v in row.items() if k != "line"}, "row": int(row["row"])}
            for row in csv.DictReader(file)
        ]


def spoiled(name, value):
    """The units with one cell changed, whatever its type."""
    columns = units()
    cells = list(columns[name])
    cells[BAD] = value
    columns[name] = cells
    return columns


def without(rows):
    columns = units()
    keep = [i for i in range(len(columns["id"])) if i not in rows]
    return {
        n: c[keep] if isinstance(c, np.ndarray) else [c[i] for i in keep] for n, c in columns.items()
    }


WRONG = {
    "no identity": ("identity", None, "identity is missing"),
    "blank identity": ("identity", "  ", "identity is missing"),
    "nan as text": ("identity", "nan", "identity is missing"),
    "NaT": ("identity", "NaT", "identity is missing"),
    "pandas' missing": ("identity", "<NA>", "identity is missing"),
    "a control character": ("identity", "a\x07b", "identity holds the control character U+0007"),
    "no id": ("id", None, "id is missing"),
    "no label": ("label", None, "label is missing"),
    "no time": ("time", None, "time: no time"),
    "infinite time": ("time", float("inf"), "time: no time"),
    "no features": ("features", None, "features is empty"),
    "short features": ("features", [1.0, 2.0], "features has 2 numbers where most rows have 6"),
    "a missing number": ("features", [1.0, None, 0.0, 0.0, 0.0, 0.0], "features, entry 1 is nan"),
    "NaN": ("features", [1.0, float("nan"), 0.0, 0.0, 0.0, 0.0], "features, entry 1 is nan"),
    "infinity": ("features", [0.0, 0.0, 0.0, 0.0, 0.0, -float("inf")], "features, entry 5 is -inf"),
    "a number too large": ("features", [1e200, 0.0, 0.0, 0.0, 0.0, 0.0], "features, entry 0 is 1e+200"),
}  # fmt: skip


def arrow(columns):
    return pa.table(
        {n: pa.array([None if v is None else v for v in list(c)]) for n, c in columns.items()}
    )


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What everybody is paid where the spoiled row was never submitted."""
    return cents(run(tmp_path_factory.mktemp("expected"), without({BAD})))


@pytest.mark.parametrize("wrong", WRONG)
def test_a_bad_row_is_set_aside_and_the_others_are_paid_as_without_it(wrong, expected, tmp_path):
    name, value, says = WRONG[wrong]
    columns = spoiled(name, value)
    columns["features"] = [None if row is None else list(row) for row in columns["features"]]
    pq.write_table(arrow(columns), tmp_path / "units.parquet")
    pq.write_table(table(validation()), tmp_path / "validation.parquet")
    places = Places(tmp_path / "units.parquet", tmp_path / "validation.parquet")
    with pytest.raises(SubmissionError, match=f"row {BAD}|unit 'u{BAD}'|rows \\({BAD}\\)"):
        pay(places, spec(), tmp_path / "refused")
    manifest = pay(places, spec(quarantine=True), tmp_path / "run")
    assert manifest["quarantined"] == 1
    unit, who = (columns[c][BAD] if name != c else "" for c in ("id", "identity"))
    if wrong == "a control character":
        who = value
    assert listed(tmp_path / "run") == [{"row": BAD, "unit": unit, "identity": who, "wrong": says}]
    assert cents(tmp_path / "run") == expected
    assert "quarantined" in warned(tmp_path / "run")
    assert all(check.good for check in verify(tmp_path / "run", recompute=wrong == "no identity"))


@pytest.mark.parametrize("ending", ["csv", "jsonl", "arrow", "parquet"])
def test_every_format_gives_the_same_list_and_the_same_payments(ending, expected, tmp_path):
    columns = units()
    columns["features"][BAD, 2] = np.nan
    (tmp_path / "held").mkdir()
    places = Places(
        write_as(tmp_path, ending, columns), write_as(tmp_path / "held", "parquet", validation())
    )
    pay(places, spec(quarantine=True), tmp_path / "run")
    (row,) = listed(tmp_path / "run")
    assert (row["row"], row["unit"], row["identity"]) == (BAD, "u5", "seller 1")
    assert cents(tmp_path / "run") == expected


def test_text_among_the_numbers_of_a_csv_is_a_bad_row(expected, tmp_path):
    path = write_as(tmp_path, "csv", units())
    lines = path.read_text().splitlines()
    cells = lines[BAD + 1].split(",")
    lines[BAD + 1] = ",".join([*cells[:-1], "abc"])
    path.write_text("\n".join(lines))
    pq.write_table(table(validation()), tmp_path / "validation.parquet")
    pay(Places(path, tmp_path / "validation.parquet"), spec(quarantine=True), tmp_path / "run")
    assert [row["wrong"] for row in listed(tmp_path / "run")] == [
        "features_5 is 'abc', which is no number"
    ]
    assert cents(tmp_path / "run") == expected


def test_all_bad_rows_are_listed_at_once_by_the_line_of_the_file(tmp_path):
    path = write_as(tmp_path, "csv", units())
    head, *lines = path.read_text().splitlines()
    names = head.split(",")
    rows = [dict(zip(names, line.split(","), strict=True)) for line in lines]
    for i, row in enumerate(rows):
        row["note"] = '"two\nlines"' if i == 2 else ""
    rows[4]["label"] = rows[7]["label"] = ""
    rows[9]["features_1"] = "1,5".join('""')
    rows[30]["id"] = rows[31]["id"]
    path.write_text("\n\n".join([f"{head},note", *(",".join(row.values()) for row in rows)]))
    pq.write_table(table(validation()), tmp_path / "validation.parquet")
    with pytest.raises(SubmissionError) as refused:
        pay(Places(path, tmp_path / "validation.parquet"), spec(), tmp_path / "run")
    first, *listed_rows = str(refused.value).split("\n  ")
    assert first.endswith(
        "units.csv': 5 of 66 rows cannot be used: label is missing (in 2); the id is that of 2 rows (in 2); "
        "features_1 is '1,5', which is no number; write decimals with a point (in 1); mend them, or leave them out "
        "with --quarantine"
    )
    # Every second line is blank, and the cell of two lines is before all bad rows.
    assert [row.split(": ")[0] for row in listed_rows] == [
        f"line {2 * row + 4}, “{rows[row]['id']}” of “seller {row % 4}”" for row in (4, 7, 9, 30, 31)
    ]
    pay(Places(path, tmp_path / "validation.parquet"), spec(quarantine=True), tmp_path / "run")
    with (tmp_path / "run" / "quarantine.csv").open(newline="") as file:
        assert [row["line"] for row in csv.DictReader(file)] == ["12", "18", "22", "64", "66"]


def test_of_many_bad_rows_the_first_are_listed_and_one_is_named_with_its_remedy(tmp_path):
    path = write_as(tmp_path, "jsonl", {**units(), "label": [None] * 25 + [1] * 41})
    pq.write_table(table(validation()), tmp_path / "validation.parquet")
    places = Places(path, tmp_path / "validation.parquet")
    with pytest.raises(SubmissionError) as refused:
        pay(places, spec(), tmp_path / "run")
    assert str(refused.value).count("\n") == 21
    assert str(refused.value).endswith("\n  ... and 5 more")
    write_as(tmp_path, "jsonl", {**units(), "label": [0, None, *[1] * 64]})
    one = r"'label' is empty in row 1; fill it in or drop the row \(line 2 of the file\), or leave it out with --q"
    with pytest.raises(SubmissionError, match=one):
        pay(places, spec(), tmp_path / "run")


def test_all_rows_that_share_an_id_are_set_aside(tmp_path):
    columns = units()
    columns["id"][40] = columns["id"][8] = columns["id"][3]
    folder = run(tmp_path, columns, quarantine=True)
    assert [row["row"] for row in listed(folder)] == [3, 8, 40]
    assert {row["wrong"] for row in listed(folder)} == {"the id is that of 3 rows"}
    assert cents(folder) == cents(run(tmp_path / "without", without({3, 8, 40})))


def test_rows_keep_their_numbers_and_units_without_ids_are_called_by_them(tmp_path):
    columns = {name: column for name, column in units().items() if name != "id"}
    columns["features"][[2, 9], 0] = np.inf
    folder = run(tmp_path, columns, quarantine=True)
    assert [(row["row"], row["unit"]) for row in listed(folder)] == [(2, "row 2"), (9, "row 9")]
    (warning,) = [w for w in read_warnings(folder) if w.name == "quarantined"]
    assert warning.items[0] == "row 2, of “seller 2”: features, entry 0 is inf"
    named = pq.read_table(folder / "clusters.parquet")["unit"].to_pylist()
    assert set(named) == {f"row {i}" for i in range(66)} - {"row 2", "row 9"}


def test_who_submitted_bad_rows_alone_is_listed_with_nothing(tmp_path):
    columns = units()
    columns["identity"][BAD] = "=unlucky"
    columns["features"][BAD] = np.nan
    folder = run(tmp_path, columns, quarantine=True)
    assert payments(folder)["=unlucky"]["payment"] == "0.00"
    assert "'=unlucky" in (folder / "quarantine.csv").read_text()
    assert listed(folder)[0]["identity"] == "=unlucky"
    assert run_of(folder).state == "draft"
    told = explain(folder, "=unlucky")
    assert (told.units, told.unusable) == (
        1,
        [{"row": 5, "unit": "u5", "wrong": "features, entry 0 is nan", "line": None}],
    )
    page = statement_text(folder, "=unlucky")
    assert '<td class="n first">1</td><td>set aside: could not be read, or something was missing' in page
    assert explain(folder, "seller 1").unusable == []


def test_an_override_may_name_a_unit_that_was_set_aside(tmp_path):
    columns = units()
    columns["features"][BAD] = np.nan
    split = tmp_path / "split.toml"
    split.write_text('[[split]]\nunits = ["u5"]\nreason = "seen"\nby = "R. Okafor"\ndate = 2026-05-31\n')
    assert sum(cents(run(tmp_path, columns, overrides=split, quarantine=True)).values()) == 100_000


def test_more_than_half_bad_is_an_error_and_half_is_not(tmp_path):
    columns = units()
    columns["features"][:33] = np.nan
    assert len(listed(run(tmp_path / "half", columns, quarantine=True))) == 33
    columns["features"][33] = np.nan
    with pytest.raises(SubmissionError, match=r"34 of 66 rows .* more than half.* row 0: features"):
        run(tmp_path / "more", columns, quarantine=True)


@pytest.mark.parametrize("what", ["features", "label"])
def test_validation_rows_are_never_set_aside(what, tmp_path):
    held = validation()
    held["label"] = held["label"].astype(float)
    held[what][11] = np.nan
    with pytest.raises(SubmissionError, match=r"validation\.parquet.*row 11"):
        run(tmp_path, held=held, quarantine=True)


def test_without_a_bad_row_the_list_is_empty_and_it_is_another_run_all_the_same(tmp_path):
    one, other = run(tmp_path / "a", quarantine=True), run(tmp_path / "b")
    assert (one / "quarantine.csv").read_text() == "line,row,unit,identity,wrong\n"
    assert cents(one) == cents(other)
    assert "quarantined" not in warned(one)
    ids = [json.loads((folder / "manifest.json").read_text())["run"] for folder in (one, other)]
    assert ids[0] != ids[1]


def test_runs_that_do_not_ask_for_it_have_the_id_that_they_had():
    files = {"submissions": {"sha256": "a" * 64, "bytes": 1}}
    asked = spec(quarantine=True)
    assert run_id(spec(), files, [], {}) == run_id(spec(quarantine=False), files, [], {})
    assert run_id(asked, files, [], {}) != run_id(spec(), files, [], {})


def test_the_same_inputs_give_the_same_bytes(tmp_path):
    columns = units()
    columns["features"][[3, 7], 1] = np.nan
    first, second = (
        run(tmp_path / "a", columns, quarantine=True),
        run(tmp_path / "b", columns, quarantine=True),
    )
    assert outputs(first) == outputs(second)
    assert "quarantine.csv" in outputs(first)


def test_features_beside_the_table_and_embeddings_are_looked_at_too(tmp_path):
    columns = units()
    features = columns.pop("features")
    features[4, 0] = np.nan
    np.save(tmp_path / "f.npy", features)
    columns["embedding"] = np.vstack([np.eye(66, 4)[:, :]]) + 0.1
    columns["embedding"][6, 1] = np.inf
    files = {"features": str(tmp_path / "f.npy")}
    folder = run(tmp_path, columns, quarantine=True, files=files)
    assert {row["row"]: row["wrong"] for row in listed(folder)} == {
        4: "features, entry 0 is nan",
        6: "embedding, entry 1 is inf",
    }


def test_empty_texts_are_set_aside(tmp_path):
    words = ["red apple", "green pear", "blue plum", "old car"]
    columns = {
        "identity": [f"s{i % 4}" for i in range(24)],
        "label": [i % 2 for i in range(24)],
        "time": list(range(24)),
        "text": [f"{words[i % 4]} number {i}" for i in range(24)],
    }
    columns["text"][3], columns["text"][9] = "", " \n"
    held = {"label": [0, 1] * 6, "text": [f"{words[i % 4]} of {i}" for i in range(12)]}
    folder = run(tmp_path, columns, held, quarantine=True, columns={"text": "text"}, encoder="ngrams")
    assert [row["row"] for row in listed(folder)] == [3, 9]
    held["text"][4] = ""
    with pytest.raises(SubmissionError, match=r"validation row 4: the text is empty"):
        run(tmp_path / "b", columns, held, quarantine=True, columns={"text": "text"}, encoder="ngrams")


def test_dates_that_cannot_be_read_are_set_aside_with_a_hint(tmp_path):
    columns = units()
    columns["time"] = [f"2026-05-{1 + i % 28:02d}T10:00:{i % 60:02d}" for i in range(66)]
    columns["time"][5], columns["time"][6] = "01.05.2026", "soon"
    folder = run(tmp_path, columns, quarantine=True)
    said = {row["row"]: row["wrong"] for row in listed(folder)}
    assert said[5].startswith(
        "time: no time: '01.05.2026'; it looks like a date; write year, month and day"
    )
    assert said[6] == "time: no time: 'soon'"
    columns["time"] = [f"2026-05-{1 + i % 28:02d}" if i % 2 else str(i) for i in range(66)]
    with pytest.raises(SubmissionError, match="row 1 is '2026-05-02'"):
        run(
            tmp_path / "mixed", columns, quarantine=True
        )  # each alone is a time: the file is wrong, not a row


def test_the_warning_shows_what_and_approval_must_name_it(tmp_path, monkeypatch, capsys):
    from datamarket_gym.cli import main

    columns = units()
    columns["features"][BAD, 3] = np.nan
    pq.write_table(table(columns), tmp_path / "units.parquet")
    pq.write_table(table(validation()), tmp_path / "validation.parquet")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def cli(*args):
        monkeypatch.setattr(sys, "argv", ["datamarket", *args])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code, *capsys.readouterr()

    asked = ["pay", "units.parquet", "--validation", "validation.parquet", "--amount", "10", "--no-audit",
             "--checks", "0", "--theta", "none", "--out", "run"]  # fmt: skip
    code, said, wrong = cli(*asked)
    assert (code, said) == (2, "")
    assert "row 5, entry 3 is nan" in wrong
    code, said, _ = cli(*asked, "--quarantine")
    assert code == 0
    assert "1 row of the submissions was set aside" in said
    assert "row 5, “u5” of “seller 1”: features, entry 3 is nan" in said
    others = [w.name for w in read_warnings(tmp_path / "run") if w.name != "quarantined"]
    accepted = [part for name in others for part in ("--accept", name)]
    code, _, wrong = cli("ledger", "approve", "run", "--by", "R. Okafor", *accepted)
    assert code == 2
    assert "--accept quarantined" in wrong
    assert (
        cli("ledger", "approve", "run", "--by", "R. Okafor", *accepted, "--accept", "quarantined")[0]
        == 0
    )
