"""Names and labels that became floats, and cells that hold nothing: in every format, nobody is called nan or 7.0."""

import datetime
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from datamarket_gym import read_submission
from datamarket_gym.data.columns import MARKS
from datamarket_gym.data.readers.tables import Table
from datamarket_gym.errors import SubmissionError

NAN = float("nan")


def written(folder, ending, column, **more):
    """A table of units with this identity column; NaN and None as the format has them."""
    n = len(column)
    columns = {"id": [f"u{i}" for i in range(n)], "identity": column, "label": [0] * n, **more}
    path = folder / f"units.{ending}"
    match ending:
        case "csv":
            names = [*columns, "features_0"]
            rows = zip(*columns.values(), range(n), strict=True)
            cells = [["" if v is None or v != v else str(v) for v in row] for row in rows]
            path.write_text("\n".join(",".join(row) for row in [names, *cells]))
        case "jsonl":
            rows = [{k: c[i] for k, c in columns.items()} | {"features": [float(i)]} for i in range(n)]
            path.write_text("\n".join(map(json.dumps, rows)))
        case _:
            data = pa.table({**columns, "features": [[float(i)] for i in range(n)]})
            (pq.write_table if ending == "parquet" else feather.write_feather)(data, path)
    return path


FORMATS = ["parquet", "arrow", "csv", "jsonl"]


@pytest.mark.parametrize("ending", FORMATS)
def test_whole_numbers_that_became_floats_are_written_as_whole_numbers(ending, tmp_path):
    found = read_submission(written(tmp_path, ending, [1.0, 22.0, -3.0]))
    assert found.identity.tolist() == ["1", "22", "-3"]


@pytest.mark.parametrize("ending", FORMATS)
def test_numbers_that_are_not_all_whole_stay_as_they_are(ending, tmp_path):
    assert read_submission(written(tmp_path, ending, [1.0, 2.5])).identity.tolist() == ["1.0", "2.5"]


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("nothing", [NAN, None])
def test_a_missing_one_among_them_is_an_error_with_its_row(ending, nothing, tmp_path):
    with pytest.raises(
        SubmissionError, match=r"'identity' is empty in row 2; fill it in or drop the row"
    ):
        read_submission(written(tmp_path, ending, [1.0, 2.0, nothing]))


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("column", ["id", "identity", "label"])
@pytest.mark.parametrize("mark", [*MARKS, "", "  "])
def test_what_software_writes_for_nothing_is_nobody(ending, column, mark, tmp_path):
    cells = ["anna", "bert", mark]
    more = {} if column == "identity" else {column: cells}
    path = written(tmp_path, ending, ["a", "b", "c"] if more else cells, **more)
    with pytest.raises(SubmissionError, match=rf"'{column}'.*row 2"):
        read_submission(path)


@pytest.mark.parametrize("ending", FORMATS)
def test_people_may_be_called_what_only_looks_like_it(ending, tmp_path):
    names = ["Nan", "None", "NA", "Null", "nana", "007", "7"]
    assert read_submission(written(tmp_path, ending, names)).identity.tolist() == names


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.date32()])
def test_a_date_that_is_missing_is_missing(kind):
    day = datetime.datetime(2026, 5, 1) if kind == pa.timestamp("us") else datetime.date(2026, 5, 1)
    single, _ = Table.of(pa.table({"identity": pa.array([day, None], kind)})).read(["identity"])
    with pytest.raises(SubmissionError, match="'identity' is empty in row 1"):
        single["identity"].named()


def test_floats_that_cannot_tell_their_neighbours_apart_are_refused():
    for kind, value in ((pa.float64(), 2.0**53 + 2), (pa.float32(), 2.0**24 + 2)):
        table = Table.of(pa.table({"account": pa.array([1.0, value], kind)}))
        column = table.read(["account"])[0]["account"]
        with pytest.raises(
            SubmissionError, match=r"row 1 is \d+ as a floating-point number.*write the column as text"
        ):
            column.named()


def test_a_source_that_became_a_float_finds_its_unit():
    """An integer column with missing cells is one of floats, in pandas and wherever it writes to."""
    columns = {"id": [1, 2, 3], "source": [None, 1.0, 2.0]}
    single, _ = Table.of(pa.table(columns)).read(["id", "source"])
    assert single["id"].named() == ["1", "2", "3"]
    assert single["source"].optional() == [None, "1", "2"]


@pytest.mark.parametrize("ending", FORMATS)
def test_labels_that_became_floats_are_whole_numbers_again(ending, tmp_path):
    found = read_submission(written(tmp_path, ending, ["a", "b"], label=[1.0, 3.0])).label
    assert (found.dtype, found.tolist()) == (np.int64, [1, 3])
    assert read_submission(written(tmp_path, ending, ["a", "b"], label=[1.0, 2.5])).label.tolist() == [
        1.0,
        2.5,
    ]


def test_labels_of_more_than_63_bits_are_told_apart():
    table = Table.of(pa.table({"label": pa.array([2**63, 2**63 + 1], pa.uint64())}))
    found = table.read(other=["label"])[0]["label"].values()
    assert found.tolist() == ["9223372036854775808", "9223372036854775809"]
