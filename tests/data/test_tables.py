"""One table reads to one set of values from every format; what cannot be read is refused with the remedy."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datamarket_gym.data import from_table, read_submission
from datamarket_gym.data.columns import MARKS
from datamarket_gym.data.readers.tables import Table
from datamarket_gym.data.submission import read_validation
from datamarket_gym.errors import SubmissionError
from table_files import LISTS, SPREAD, arrow, delimited, lines, write

GOOD = {
    "id": ["007", "008", "9"],
    "identity": ["anna", "ben", "anna"],
    "label": [1, 0, 1],
    "features": np.array([[1.5, -2.0], [3.0, 4.25], [0.1, 1e-30]]),
    "time": [10.0, 20.5, 30.0],
    "place": ["Köln", "x,y;z", 'a "b"\nc'],
}

names = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=8
).filter(
    lambda name: name.strip() and name.strip() not in MARKS
)  # these are refused: test_written_names.py
number = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def tables(draw):
    n, width = draw(st.integers(1, 9)), draw(st.integers(1, 3))
    label = draw(st.sampled_from([st.integers(-(2**62), 2**62), st.sampled_from(["cat", "dog", "1a"])]))
    return {
        "id": draw(st.lists(names, min_size=n, max_size=n, unique=True)),
        "identity": draw(st.lists(st.sampled_from(["007", "7", "1e3", "true", "anna"]), min_size=n, max_size=n)),
        "label": draw(st.lists(label, min_size=n, max_size=n)),
        "features": np.array(draw(st.lists(number, min_size=n * width, max_size=n * width))).reshape(n, width),
    }  # fmt: skip


@given(tables())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_format_reads_to_the_same_values(tmp_path, columns):
    expected = from_table(arrow(columns))
    assert expected.id.tolist() == columns["id"]
    assert (expected.features == columns["features"]).all()
    for ending in LISTS + SPREAD:
        found = read_submission(write(tmp_path, ending, columns))
        for name in ("id", "identity", "label", "features"):
            assert getattr(found, name).tolist() == getattr(expected, name).tolist(), (ending, name)
            assert getattr(found, name).dtype == getattr(expected, name).dtype, (ending, name)
        assert (found.keys == expected.keys).all()


@pytest.mark.parametrize("ending", LISTS + SPREAD)
def test_all_roles_and_other_columns(tmp_path, ending):
    found = read_submission(write(tmp_path, ending, GOOD))
    assert found.id.tolist() == ["007", "008", "9"]
    assert found.label.tolist() == [1, 0, 1]
    assert found.features.tolist() == GOOD["features"].tolist()
    assert found.time.tolist() == [10.0, 20.5, 30.0]
    assert found.metadata["place"].tolist() == GOOD["place"]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_dates_are_times_in_every_format(tmp_path, ending):
    path = write(
        tmp_path, ending, {**GOOD, "time": ["2026-01-01", "2026-01-01 00:00:05", "2026-01-02T00:00:00"]}
    )
    assert np.diff(read_submission(path).time).tolist() == [5.0, 86395.0]
    path = write(tmp_path, ending, {**GOOD, "time": ["2026-01-01", "2026-01-01", "noon"]})
    with pytest.raises(SubmissionError, match=r"'time', row 2 is 'noon'.* dates like"):
        read_submission(path)


LATE = 60_000
"""Rows of twenty bytes and more, so that the last is beyond the first megabyte."""


def late(**last):
    """Many rows of whole numbers, and a last one that is not like them."""
    row = np.arange(LATE)
    columns = {"id": [f"u{i}" for i in row], "label": row % 2, "x": row, "n": row // LATE}
    rows = {name: [*np.asarray(c).tolist(), last.get(name, 1)] for name, c in columns.items()}
    return {**rows, "identity": rows["id"]}


def test_a_type_that_changes_late_counts_for_the_whole_column(tmp_path):
    path = tmp_path / "late.csv"
    path.write_bytes(delimited(late(id="last", label="cat", x=0.25, n=2.5)))
    assert path.stat().st_size > 1 << 20
    found = read_submission(path, {"features": "x"})
    assert found.label[[0, -1]].tolist() == ["0", "cat"]
    assert found.features[[1, -1], 0].tolist() == [1.0, 0.25]
    assert found.metadata["n"][[0, -1]].tolist() == [0.0, 2.5]


def test_line_breaks_in_quotes_are_read_wherever_they_fall(tmp_path):
    path = tmp_path / "long.csv"
    rows = 300_000
    path.write_text("label,features_0,text\n" + '1,2,"a\nb,\nc, a longer line of text, and\nd"\n' * rows)
    assert path.stat().st_size > 8 << 20
    found, _ = Table.open(path).read(["text"])
    assert found["text"].strings() == ["a\nb,\nc, a longer line of text, and\nd"] * rows


@pytest.mark.parametrize(
    ("write_as", "ending", "says"),
    [
        (delimited, "csv", rf"column 'x', row {LATE} is 'none yet', which is no number; "),
        (lines, "jsonl", rf"column 'x' changes from number to string in row {LATE}; "),
    ],
)
def test_text_that_comes_late_among_numbers_is_refused_with_its_row(tmp_path, write_as, ending, says):
    path = tmp_path / f"late.{ending}"
    path.write_bytes(write_as(late(id="last", x="none yet")))
    with pytest.raises(SubmissionError, match=rf"late\.{ending}': {says}"):
        read_submission(path, {"features": "x"})


def test_json_numbers_may_become_fractions_late_but_not_text(tmp_path):
    path = tmp_path / "late.jsonl"
    path.write_bytes(lines(late(id="last", label=0.5, x=0.25)))
    found = read_submission(path, {"features": "x"})
    assert found.label[[1, -1]].tolist() == [1.0, 0.5]
    path.write_bytes(lines(late(id="last", label="cat")))
    says = rf"'label' changes from number to string in row {LATE}; write all of it the same way"
    with pytest.raises(SubmissionError, match=says):
        read_submission(path, {"features": "x"})


HEAD = "id,identity,label,features_0,features_1,note\n"
ROWS = "007,anna,1,1.5,2,x\n008,ben,0,3,4,y\n"


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("a.csv", (HEAD + ROWS).replace("anna", "Zoë").encode("latin1"), r"'identity', row 0 is not UTF-8.*iconv"),
        ("a.csv", (HEAD + ROWS).replace("note", "größe").encode("latin1"), "the header is not UTF-8"),
        ("a.tsv", "größe\tid\n".encode("latin1"), "the header is not UTF-8"),
        ("a.csv", HEAD.replace("\n", "\r").encode() + b"7,Zo\xeb,1,2,3,x\r", "'identity', row 0 is not UTF-8"),
        ("a.csv", (HEAD + ROWS).encode("utf-16"), "UTF-16; save it as UTF-8"),
        ("a.csv", (HEAD + ROWS).replace(",", ";").replace("1.5", "1,5"), "is '1,5'.*decimals with a point"),
        ("a.csv", (HEAD + ROWS).replace(",", "|"), "separate columns by commas, semicolons or tabs"),
        ("a.csv", "", "is empty"),
        ("a.csv", "\n\n", "no rows"),
        ("a.csv", HEAD, "no rows"),
        ("a.csv", HEAD.strip(), "no rows"),
        ("a.csv", HEAD.replace("note", "label") + ROWS, "2 columns 'label'; rename"),
        ("a.csv", HEAD + ROWS + "9,c,1,2\n", "line 4 has 4 cells where the header has 6"),
        ("a.csv", HEAD + ROWS + "9,c,1,2,3,x,y\n", "line 4 has 7 cells"),
        ("a.csv", HEAD + ROWS + "9,,1,2,3,x\n", "'identity' is empty in row 2"),
        ("a.csv", HEAD + ROWS + "9, ,1,2,3,x\n", "'identity' is empty in row 2"),
        ("a.csv", HEAD + ROWS + "9,c,,2,3,x\n", "'label' is empty in row 2"),
        ("a.csv", HEAD + "7,c,cat,2,3,x\n8,c,,2,3,x\n", "'label' is empty in row 1"),
        ("a.csv", HEAD + ROWS + "9,c,1,,3,x\n", "'features_0' is empty in row 2"),
        ("a.csv", HEAD + ROWS + "9,c,1,2,nan,x\n", "'features_1', row 2 is nan"),
        ("a.csv", HEAD + ROWS + "9,c,1,2,inf,x\n", "'features_1', row 2 is inf"),
        ("a.csv", HEAD.replace("_0,features_1", "") + '1,a,0,"[1, 2]",x\n', r"text holds no lists.*features_0"),
        ("a.csv", HEAD + ROWS.replace("anna", "an\0na"), "'identity', row 0 holds a NUL byte"),
        ("a.csv", HEAD + f'1,a,0,1,2,"{"x" * (1 << 24)}\n', "a row longer than 4 MB; close its quotes"),
        ("a.csv", gzip.compress(HEAD.encode(), mtime=0), "compressed by gzip; add .gz"),
        ("a.csv.gz", HEAD + ROWS, "cannot be read as .csv.gz"),
        ("a.csv.gz", gzip.compress((HEAD + ROWS * 99).encode(), mtime=0)[:-9], "cannot be read as .csv.gz"),
        ("a.csv", b"PK\x03\x04 a sheet", "a zip archive"),
        ("a.xlsx", b"PK\x03\x04 a sheet", "cannot be read as .xlsx"),
        ("a.ods", b"PK\x03\x04 a sheet", "save it as .xlsx"),
        ("a.json", "[]", "one JSON object per line"),
        ("a.txt", HEAD + ROWS, r"unknown ending '.txt'; use .parquet, .arrow, .feather, .xlsx, .csv, .tsv, .jsonl"),
        ("a", HEAD + ROWS, "unknown ending ''"),
        ("a.npy", b"\x93NUMPY", "an array has no named columns"),
        ("a.parquet", HEAD + ROWS, "cannot be read as .parquet"),
        ("a.arrow", HEAD + ROWS, "cannot be read as .arrow"),
        ("a.feather", b"ARROW1 cut", "cannot be read as .feather"),
        ("a.jsonl", "{broken\n", "row 0 cannot be read"),
        ("a.jsonl", "[1, 2]\n", "row 0 cannot be read .*; write one JSON object per line"),
        ("a.jsonl", '{"label": 0, "id": 1, "id": 2}\n', "row 0 cannot be read .*/id.* was specified twice"),
        ("a.jsonl", '{"id": "é"}\n'.encode("latin1"), "row 0 is not UTF-8"),
        ("a.jsonl", "\n", "no column 'id'.*it has none"),
        ("a.jsonl", "[" * 100_000, "row 0 cannot be read"),
        ("a.jsonl.gz", gzip.compress(lines(GOOD) * 99, mtime=0)[:-9], "cannot be read as .jsonl.gz"),
    ],
)  # fmt: skip
def test_what_is_refused_and_how_to_mend_it(tmp_path, name, data, says):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(SubmissionError, match=rf"{name}'.*{says}"):
        read_submission(path)


def changed(**fields):
    """Four good lines of JSON, and between the last two one that is changed."""
    first = json.loads(lines(GOOD).splitlines()[0])
    rows = [{**first, "id": "changed", **fields}, {**first, "id": "last"}]
    return lines(GOOD).decode() + "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"features": [1]}, "'features', row 3 has 1 numbers where the first row has 2"),
        ({"features": [1, None]}, "'features', row 3, entry 1 is nan"),
        ({"features": [1, "2"]}, "'features/.*changes from number to string in row 3"),
        ({"features": 1}, "'features' changes from array to number in row 3"),
        ({"features": None}, "'features' is empty in row 3"),
        ({"features": [1, float("nan")]}, "'features', row 3, entry 1 is nan"),
        ({"identity": None}, "'identity' is empty in row 3"),
        ({"identity": ["a"]}, "'identity' changes from string to array in row 3"),
        ({"identity": "\ud800"}, "row 3 cannot be read .*surrogate"),
        ({"label": None}, "'label' is empty in row 3"),
        ({"label": "1"}, "'label' changes from number to string in row 3"),
        ({"label": True}, "'label' changes from number to boolean in row 3"),
        ({"place": 7}, "'place' changes from string to number in row 3"),
    ],
)
def test_cells_of_json_are_refused_with_their_row(tmp_path, fields, says):
    path = tmp_path / "a.jsonl"
    path.write_text(changed(**fields))
    with pytest.raises(SubmissionError, match=says):
        read_submission(path)


def test_json_names_may_be_numbers_and_fields_may_come_late(tmp_path):
    path = tmp_path / "a.jsonl"
    nested = changed(id="13", deep={"size": 1}).splitlines()[3]
    text = changed(id="12", size=3, place='say "deep": "x') + nested
    path.write_text(text.replace('"size"', '"si\\u007ae"'))
    found = read_submission(path)
    assert found.id.tolist() == ["007", "008", "9", "12", "last", "13"]
    assert found.metadata["size"].tolist() == [None, None, None, 3, None, None]
    assert found.metadata["deep"].tolist() == [None] * 5 + [{"size": 1}]


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (
            {"features": [[1.0], [2.0, 3.0], [1.0]]},
            "'features', row 1 has 2 numbers where the first row has 1",
        ),
        ({"features": [[1.0], None, [1.0]]}, "'features' is empty in row 1"),
        ({"features": [[1.0, 2.0], [3.0, None], [5.0, 6.0]]}, "'features', row 1, entry 1 is nan"),
        ({"features": [1.0, 2.0, None]}, "'features' is empty in row 2"),
        ({"features": [[], [], []]}, "a list of no numbers"),
        ({"features": [[1.0], [2.0], [np.inf]]}, "'features', row 2, entry 0 is inf"),
        ({"features": [["a"], ["b"], ["c"]]}, "'features' holds string; give a list of numbers"),
        ({"features": [True, False, True]}, "'features' holds bool"),
        ({"identity": ["a", None, "b"]}, "'identity' is empty in row 1"),
        ({"identity": [None, "a", "b"]}, "'identity' is empty in row 0"),
        ({"identity": [1.0, np.nan, 2.0]}, "'identity' is empty in row 1"),
        ({"identity": [b"a", b"b", b"c"]}, "'identity' holds binary; give one text"),
        ({"label": [0.0, 1.0, np.nan]}, "'label' is empty in row 2"),
        ({"label": [[0, 1], [1, 0], [0, 1]]}, "'label' holds list<.*>; give one text or number"),
        ({"label": ["a", "b", " "]}, "'label' is empty in row 2"),
        ({"time": [1.0, None, 2.0]}, r"'time' holds no time in 1 of 3 rows \(1\)"),
        ({"source": ["a", "", "b"]}, "'source' is empty in row 1"),
    ],
)
def test_columns_of_parquet_and_of_memory_are_checked_alike(tmp_path, columns, says):
    table = pa.table({**arrow(GOOD).to_pydict(), **columns})
    pq.write_table(table, tmp_path / "a.parquet")
    for read, given_ in ((read_submission, tmp_path / "a.parquet"), (from_table, table)):
        with pytest.raises(SubmissionError, match=says):
            read(given_)


def test_arrow_types_that_hold_the_same_values(tmp_path):
    plain = from_table(arrow(GOOD))
    table = arrow(GOOD)
    lists = table["features"]
    for kind in (pa.list_(pa.float64(), 2), pa.large_list(pa.float64())):
        assert (from_table(table.set_column(3, "features", lists.cast(kind))).keys == plain.keys).all()
    for name in ("identity", "label"):
        at = table.column_names.index(name)
        coded = table.set_column(at, name, table[name].dictionary_encode())
        pq.write_table(coded, tmp_path / "coded.parquet")
        found = read_submission(tmp_path / "coded.parquet")
        assert (found.identity == plain.identity).all()
        assert (found.keys == plain.keys).all()
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        narrow = table.set_column(
            3, "features", pa.array([[1.5, -2.0], [3.0, 4.25], [0.5, 0.0]]).cast(pa.list_(kind))
        )
        assert from_table(narrow).features.tolist() == [[1.5, -2.0], [3.0, 4.25], [0.5, 0.0]]


def test_a_column_can_be_a_feature_and_something_else(tmp_path):
    for ending in ("csv", "jsonl", "parquet"):
        path = write(tmp_path, ending, spread_by_name())
        found = read_submission(path, {"features": "time, x"})
        assert found.features.tolist() == [[10.0, 1.0], [20.5, 2.0], [30.0, 3.0]]
        assert found.time.tolist() == [10.0, 20.5, 30.0]


def spread_by_name():
    return {**{n: c for n, c in GOOD.items() if n != "features"}, "x": [1, 2, 3]}


def test_numbered_columns_are_in_the_order_of_their_numbers(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,identity,label,f_10,f_9,f_2\nu,a,0,10,9,2\n")
    assert read_submission(path, {"features": "f"}).features.tolist() == [[2.0, 9.0, 10.0]]


def test_what_is_not_asked_for_is_not_looked_at(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("label,features_0,note\n1,2.5,Zoë\n".encode("latin1"))
    assert read_validation(path)[0].tolist() == [[2.5]]
    path.write_text("label,features_0,note,note\n1,2.5,a,b\n")
    assert read_validation(path)[1].tolist() == [1]


def test_optional_text_is_none_where_there_is_none():
    table = Table.of({"a": ["0042", None, " "], "b": [1.5, np.nan, None], "c": [7, None, 8]})
    found, _ = table.read(["a", "b", "c"])
    assert {name: column.optional() for name, column in found.items()} == {
        "a": ["0042", None, None], "b": ["1.5", None, None], "c": ["7", None, "8"],
    }  # fmt: skip


def test_lists_that_change_their_length_between_batches_are_named():
    rows = pa.chunked_array([[[1.0, 2.0]] * 5, [[1.0]] * 4])
    with pytest.raises(SubmissionError, match="row 5 has 1 numbers where the first row has 2"):
        Table.of(pa.table({"x": rows})).read(matrices={"features": ["x"]})


def test_missing_files_and_folders_are_told_apart(tmp_path):
    with pytest.raises(SubmissionError, match="is a folder; name a file"):
        Table.open(tmp_path)
    with pytest.raises(SubmissionError, match="there is no file"):
        Table.open(tmp_path / "none.csv")
    with pytest.raises(SubmissionError, match="no column 'lable' for 'lable'; did you mean 'label'"):
        Table.of({"label": [1]}).read(other=["lable"])


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv"])
@pytest.mark.parametrize("column", ["note", "label"])
def test_quotes_that_are_never_closed_swallow_no_rows(tmp_path, ending, column):
    rows = ["id,identity,features_0,label,note", "1,anna,1,0,fine", "2,ben,2,1,x", "3,carl,3,0,fine", ""]
    if column == "label":
        rows = [row.rpartition(",")[0] for row in rows]
    rows[2] = '2,ben,2,1,"not fine' if column == "note" else '2,ben,2,"1'
    text = "\n".join(rows).replace(",", "\t" if ending == "tsv" else ",").encode()
    path = tmp_path / f"units.{ending}"

    def written(content):
        path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
        return path

    with pytest.raises(SubmissionError, match=f"inside a cell of column '{column}' whose quotes"):
        read_validation(written(text))
    if column == "note":  # a line break in quotes that are closed is fine, in the last cell too
        assert len(read_validation(written(text.rstrip() + b'"\n'))[1]) == 2
        assert len(read_validation(written(text.rstrip() + b'\n"'))[1]) == 2


def test_a_stream_that_is_cut_off_between_batches_is_refused(tmp_path):
    table, path = arrow(GOOD), tmp_path / "units.arrow"
    for legacy in (False, True):
        options = pa.ipc.IpcWriteOptions(use_legacy_format=legacy)
        with (
            pa.OSFile(str(path), "wb") as sink,
            pa.ipc.new_stream(sink, table.schema, options=options) as out,
        ):
            out.write_table(table)
            end = sink.tell()
            out.write_table(table)
        whole = path.read_bytes()
        assert len(read_validation(path)[1]) == 6
        path.write_bytes(whole[:end])
        if not legacy or not whole[:end].endswith(bytes(4)):
            with pytest.raises(SubmissionError, match="cut off"):
                read_validation(path)


def test_a_whole_number_too_large_for_a_float_is_named(tmp_path):
    path = tmp_path / "units.jsonl"
    path.write_text('{"id": 1, "identity": "a", "label": 0, "features": [1%s]}\n' % ("0" * 400))
    with pytest.raises(SubmissionError, match=r"row 0 holds 10{39}, a number too large"):
        read_submission(path)


def test_labels_too_long_for_a_number_stay_apart(tmp_path):
    path = tmp_path / "validation.csv"
    label = ["12345678901234567890", "12345678901234567891", "-9", "7" * 5000]
    path.write_text("label,features_0\n" + "".join(f"{name},1\n" for name in label))
    assert read_validation(path)[1].tolist() == label
