"""What the page of a new payout run says of tables: columns, roles, and all that `pay` would refuse or warn of."""

import time

import numpy as np
import payout_new_files as files
import pytest
from payout_new_files import payout_files

from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.progress import SILENT
from datamarket_gym.explorer.payout.form import for_page
from datamarket_gym.explorer.payout.tables import (
    OrderedFile,
    check_tables,
    group_columns,
    preview_file,
    preview_table,
)
from datamarket_gym.payout.run import PayoutJob
from datamarket_gym.payout.settings import checked_spec
from datamarket_gym.payout.stored_inputs import Places


def previewed(path, text):
    path.write_text(text, encoding="utf-8")
    return preview_table(path, SILENT)


def told(found, column):
    return next(each for each in found["columns"] if each["name"] == column)


def test_three_formats_are_the_same_table(tmp_path):
    units = payout_files.units()
    by_csv = previewed(tmp_path / "a.csv", files.as_csv(files.spread(units)))
    by_lines = previewed(tmp_path / "a.jsonl", files.as_jsonl(units))
    by_parquet = preview_table(files.as_parquet(tmp_path / "a.parquet", units), SILENT)
    assert by_csv["read"] == by_lines["read"] == by_parquet["read"] == 66
    for found in (by_lines, by_parquet):
        assert told(found, "features")["kind"] == "list of 6 numbers"
        assert told(found, "identity")["values"] == [f"seller {i}" for i in range(4)]
    assert told(by_csv, "f") | {"values": []} == {
        "name": "f", "columns": 6, "kind": "6 columns of numbers", "values": [], "empty": 0,
    }  # fmt: skip
    assert told(by_csv, "label")["kind"] == told(by_parquet, "label")["kind"] == "whole numbers"


def test_marks_and_separators_are_read_over(tmp_path):
    columns = {"id": ["a", "b"], "note": ["=1+1", "<b>bold</b>"], "x": ["1.5", ""]}
    found = previewed(tmp_path / "a.csv", files.as_csv(columns, ";", "\ufeff"))
    assert [each["name"] for each in found["columns"]] == ["id", "note", "x"]
    assert told(found, "note")["values"] == ["=1+1", "<b>bold</b>"]
    assert (told(found, "x")["kind"], told(found, "x")["empty"]) == ("numbers", 1)
    assert told(found, "x")["values"] == ["1.5", ""]  # rows, not what differs in a column


def test_columns_that_are_there_twice_are_told(tmp_path):
    found = previewed(tmp_path / "a.csv", "id,x,x\na,1,2\nb,3,4\n")
    assert found["notes"] == ["There are several columns 'x'; rename all but one."]
    assert told(found, "id")["values"] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b"id,identity\n", "no rows"),
        ("a.csv", b"PK\x03\x04junk", "zip archive"),
        ("a.parquet", b"\x00\x01junk that is no Parquet", "cannot be read as .parquet"),
        ("a.csv", b"id,name\na,\xff\xfe\xfa\n", "UTF-8"),
        ("a.jsonl", b'{"id": 1}\nnot json\n', "row 1 cannot be read"),
        ("a.csv", b"id,x\na,1\nb\n", "line 3 has 1 cells where the header has 2"),
    ],
)
def test_wrong_files_say_why_and_not_where_they_are_kept(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    found = preview_file(OrderedFile(path=str(path), name="my file"), SILENT)
    said = found.get("refused") or " ".join(found["notes"])  # of one column: the others are shown
    assert words in said
    assert "my file" in said
    assert str(tmp_path) not in said


def test_numbered_columns_are_one_unless_the_stem_is_a_column(tmp_path):
    assert group_columns(["id", "f_1", "f_0", "g_0"]) == [["id"], ["f_1", "f_0"], ["g_0"]]
    assert group_columns(["f", "f_0", "f_1"]) == [["f"], ["f_0"], ["f_1"]]


def test_of_numbered_columns_one_is_looked_at(tmp_path):
    wide = "id," + ",".join(f"f_{i}" for i in range(3000)) + "\n" + "a" + ",1" * 3000 + "\n"
    began = time.process_time()
    found = previewed(tmp_path / "a.csv", wide)
    assert time.process_time() - began < 2.5
    assert told(found, "f")["kind"] == "3,000 columns of numbers"


def test_arrays_say_their_shape(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((5, 3)))
    assert preview_table(tmp_path / "a.npy", SILENT)["notes"] == ["A matrix of 5 rows of 3 numbers."]


class TestCheckedTables:
    """The answer of the check, against what the library says of the same tables."""

    def test_good_tables(self, tmp_path):
        paths = files.written(tmp_path)
        found = check_tables(files.order(*paths, columns__features="f"), SILENT)
        assert found["refused"] is None
        assert found["bad"]["count"] == 0
        facts = found["facts"]
        assert (facts["units"], facts["identities"], facts["validation"]) == (66, 5, 40)
        roles = found["tables"]["submissions"]["roles"]
        assert roles == {
            "id": ["columns.id"], "identity": ["columns.identity"], "label": ["columns.label"],
            "time": ["columns.time"], "f": ["columns.features"],
        }  # fmt: skip
        validation = found["tables"]["validation"]["roles"]
        assert validation == {"label": ["columns.label"], "f": ["columns.features"]}

    def test_columns_are_suggested_as_init_finds_them(self, tmp_path):
        columns = files.spread(payout_files.units())
        names = {"identity": "contributor", "id": "article_id"}
        paths = files.written(tmp_path, {names.get(n, n): column for n, column in columns.items()})
        found = check_tables(files.order(*paths), SILENT)
        wanted = {"columns.identity": "contributor", "columns.id": "article_id", "columns.features": "f"}
        assert wanted.items() <= found["suggested"].items()
        chosen = {name.replace(".", "__"): column for name, column in found["suggested"].items()}
        assert check_tables(files.order(*paths, **chosen), SILENT)["refused"] is None

    def test_a_missing_column_is_told_with_the_words_of_pay(self, tmp_path):
        paths = files.written(tmp_path)
        found = check_tables(
            files.order(*paths, columns__features="f", columns__identity="identiti"), SILENT
        )
        with pytest.raises(DataMarketError) as refused:
            PayoutJob.read(
                Places(*paths),
                checked_spec({"amount": "1", "columns": {"features": "f", "identity": "identiti"}}),
            )
        said = for_page(str(refused.value).replace(str(paths[0]), "my units.csv"))
        assert found["refused"] == said
        assert "did you mean 'identity'?" in said
        (missing,) = found["tables"]["submissions"]["missing"]
        assert "has no column 'identiti' for 'payee'; did you mean 'identity'?" in missing

    def test_bad_rows_are_those_that_quarantine_sets_aside(self, tmp_path):
        columns = files.spread(payout_files.units())
        columns["id"][5], columns["identity"][9], columns["f_2"][3] = "u4", "", "nan"
        columns["label"][7], columns["time"][8] = "", "soon"
        paths = files.written(tmp_path, columns)
        asked = files.order(*paths, columns__features="f")
        found = check_tables(asked, SILENT)
        assert found["refused"] is not None
        spec = checked_spec({"amount": "1", "quarantine": True, "columns": {"features": "f"}})
        bad = PayoutJob.read(Places(*paths), spec).inputs.bad
        assert [(row["row"], row["wrong"]) for row in found["bad"]["rows"]] == [
            (row.row, row.wrong) for row in bad
        ]
        assert {row.row for row in bad} == {3, 4, 5, 7, 8, 9}
        aside = check_tables(files.order(*paths, columns__features="f", quarantine=True), SILENT)
        assert aside["refused"] is None
        assert aside["facts"]["units"] == 60

    def test_lists_of_different_lengths_are_bad_rows(self, tmp_path):
        units = payout_files.units()
        short = [*units["features"].tolist()]
        short[2] = short[2][:4]
        (tmp_path / "a.jsonl").write_text(files.as_jsonl(units | {"features": short}), encoding="utf-8")
        held = files.as_parquet(tmp_path / "held.parquet", payout_files.validation())
        found = check_tables(files.order(tmp_path / "a.jsonl", held), SILENT)
        assert "row 2" in found["refused"]
        assert found["bad"]["rows"][0]["wrong"] == "features has 4 numbers where most rows have 6"

    def test_warnings_are_told_before_anything_is_scored(self, tmp_path):
        columns = files.spread(payout_files.units())
        columns["time"] = [time.time() + 1e6 + each for each in columns["time"]]
        columns["label"] = [0 if each == 2 else each for each in columns["label"]]
        paths = files.written(tmp_path, columns)
        found = check_tables(files.order(*paths, columns__features="f"), SILENT)
        warned = {each["name"]: each for each in found["warnings"]}
        assert set(warned) == {"unseen_labels", "future_times"}
        assert warned["future_times"]["count"] == 66
        strict = check_tables(files.order(*paths, columns__features="f", strict=True), SILENT)
        assert strict["refused"].startswith("stopped, as “Strict” asks.")

    def test_labels_that_could_never_agree_are_refused_before_anything_is_scored(self, tmp_path):
        held = files.spread(payout_files.validation())
        held["label"] = [f"class {each}" for each in held["label"]]
        paths = files.written(tmp_path, None, held)
        found = check_tables(files.order(*paths, columns__features="f"), SILENT)
        assert found["refused"].endswith("write both as numbers or both as text")

    def test_faulty_settings_do_not_hide_what_the_tables_are(self, tmp_path):
        asked = files.order(*files.written(tmp_path), columns__features="f", theta="high", power=3)
        assert set(asked.faults()) == {"amount", "theta", "power"}
        assert check_tables(asked, SILENT)["facts"]["units"] == 66

    def test_texts_are_checked_without_the_model_that_will_read_them(self, tmp_path):
        texts = [f"a text on {i % 7}" for i in range(66)]
        columns = {name: column for name, column in payout_files.units().items() if name != "features"}
        columns["words"] = [*texts[:3], None, *texts[4:]]
        files.as_parquet(tmp_path / "a.parquet", columns)
        files.as_parquet(tmp_path / "b.parquet", {"label": [0, 1, 2], "words": texts[:3]})
        asked = files.order(
            tmp_path / "a.parquet", tmp_path / "b.parquet", columns__text="words", encoder="ngrams", quarantine=True
        )  # fmt: skip
        found = check_tables(asked, SILENT)
        assert (found["refused"], found["facts"]["encoded"], found["bad"]["count"]) == (None, True, 1)
