"""Sheets of Excel files read as other tables do; what a spreadsheet hides is named by its cell."""

import datetime
import sys
import zipfile

import numpy as np
import openpyxl
import pytest

from datamarket_gym.data import read_submission
from datamarket_gym.data.readers.tables import Table
from datamarket_gym.errors import MissingExtraError, SubmissionError
from excel_files import sheet, with_values, write_book

UNITS = {
    "id": ["007", 8, 9.0],
    "identity": ["anna", "ben", "anna"],
    "label": [1, 0.0, 1],
    "features_0": [1.5, 3, 0.1],
    "features_1": [-2.0, 4.25, 1e-30],
    "time": [datetime.datetime(2026, 5, 1, 12, 0, s) for s in (0, 30, 59)],
    "note": ["Köln", None, 7],
}


def written(path, **changes):
    return write_book(path / "units.xlsx", Units=sheet({**UNITS, **changes}))


def test_a_sheet_reads_as_a_submission(tmp_path):
    found = read_submission(written(tmp_path))
    assert found.id.tolist() == ["007", "8", "9"]
    assert found.identity.tolist() == ["anna", "ben", "anna"]
    assert (found.label.tolist(), found.label.dtype.kind) == ([1, 0, 1], "i")
    assert found.features.tolist() == [[1.5, -2.0], [3.0, 4.25], [0.1, 1e-30]]
    assert (found.time - found.time[0]).tolist() == [0.0, 30.0, 59.0]
    assert found.metadata["note"].tolist() == ["Köln", None, "7"]


def test_times_are_those_of_a_csv_in_utc(tmp_path):
    (tmp_path / "units.csv").write_text(
        "id,identity,label,features_0,time\n1,a,0,1,2026-05-01T12:00:00\n2,b,1,2,2026-05-02\n"
    )
    times = [datetime.datetime(2026, 5, 1, 12), datetime.datetime(2026, 5, 2)]
    columns = {
        "id": [1, 2],
        "identity": ["a", "b"],
        "label": [0, 1],
        "features_0": [1, 2],
        "time": times,
    }
    path = write_book(tmp_path / "units.xlsx", A=sheet(columns))
    assert read_submission(path).time.tolist() == read_submission(tmp_path / "units.csv").time.tolist()
    columns["time"] = [times[0], "2026-05-02T00:00:00"]  # a date and its text
    path = write_book(tmp_path / "mixed.xlsx", A=sheet(columns))
    assert read_submission(path).time.tolist() == read_submission(tmp_path / "units.csv").time.tolist()


def test_labels_are_numbers_if_all_are_and_otherwise_text(tmp_path):
    assert read_submission(written(tmp_path, label=[1, 2.5, 3])).label.tolist() == [1.0, 2.5, 3.0]
    assert read_submission(written(tmp_path, label=[1, "cat", 3])).label.tolist() == ["1", "cat", "3"]
    assert read_submission(written(tmp_path, label=[True, False, True])).label.dtype == np.bool_


def test_a_sheet_is_named_where_there_are_several(tmp_path):
    rows, other = sheet(UNITS), sheet({"id": ["x"]})
    path = write_book(tmp_path / "two.xlsx", Units=rows, **{"Old one": other})
    with pytest.raises(
        SubmissionError, match=r"2 sheets to read \('Units', 'Old one'\).* two\.xlsx#NAME"
    ):
        Table.open(path)
    assert read_submission(f"{path}#Units").id.tolist() == ["007", "8", "9"]
    assert Table.open(tmp_path / "two.xlsx#Old one").names == ("id",)
    with pytest.raises(SubmissionError, match="no sheet 'units'; did you mean 'Units'"):
        Table.open(tmp_path / "two.xlsx#units")
    book = openpyxl.load_workbook(path)
    book["Old one"].sheet_state = "hidden"
    book.create_chartsheet("Chart").add_chart(openpyxl.chart.BarChart())
    book.save(path)
    assert Table.open(path).names == tuple(UNITS)  # neither a hidden sheet nor a chart counts
    assert Table.open(tmp_path / "two.xlsx#Old one").names == ("id",)
    with pytest.raises(SubmissionError, match=r"no sheet 'Z'; it has 'Units', 'Old one' \(hidden\)"):
        Table.open(tmp_path / "two.xlsx#Z")


def test_empty_rows_at_the_end_are_no_units_and_one_between_is_refused(tmp_path):
    path = written(tmp_path)
    book = openpyxl.load_workbook(path)
    book.active["A40"] = "   "
    book.active["C90"].font = openpyxl.styles.Font(bold=True)  # a cell that is there, and empty
    book.save(path)
    assert len(read_submission(path).id) == 3
    with pytest.raises(SubmissionError, match="'identity' is empty in row 1; fill it in"):
        read_submission(written(tmp_path, identity=["anna", None, "anna"]))


def test_a_formula_counts_by_the_value_that_was_saved(tmp_path):
    path = written(tmp_path, features_0=[1.5, "=1+2", 0.1])
    with pytest.raises(SubmissionError, match="'features_0' is empty in row 1"):
        read_submission(path)
    assert read_submission(with_values(path, {"D3": 3})).features[1, 0] == 3.0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"features_1": [1, "#N/A", 2]}, "cell E3 is #N/A; mend it"),
        (
            {"features_1": [1, "1,5", 2]},
            "'features_1', row 1 is '1,5', which is no number; write decimals with a point",
        ),
        ({"features_1": [1, True, 2]}, "'features_1', row 1 is 'TRUE', which is no number"),
        ({"id": [1, 1234567890123456, 2]}, "cell A3 is a number of more than 15 digits, of which Excel"),
        ({"features_1": [1, None, 2]}, "'features_1' is empty in row 1"),
        ({"": [None, "?", None]}, "cell H3 is filled but its column has no name; name the column"),
    ],
)
def test_what_is_wrong_is_named_by_its_cell_or_row(tmp_path, changes, said):
    with pytest.raises(SubmissionError, match=said):
        read_submission(written(tmp_path, **changes))


def test_a_missing_header_and_a_column_twice_are_refused(tmp_path):
    path = write_book(tmp_path / "late.xlsx", A=[[None, None], ["id", "identity"]])
    with pytest.raises(SubmissionError, match="the first row of the sheet is empty"):
        Table.open(path)
    path = write_book(tmp_path / "twice.xlsx", A=sheet(UNITS))
    book = openpyxl.load_workbook(path)
    book.active["H1"] = "label"
    book.save(path)
    with pytest.raises(SubmissionError, match="has 2 columns 'label'; rename"):
        read_submission(path)


@pytest.mark.parametrize(
    "content", [b"PK\x03\x04 cut", b"\xd0\xcf\x11\xe0 old or with a password", b"id,x\n1,2\n"]
)
def test_what_is_no_excel_file_is_refused(tmp_path, content):
    (tmp_path / "a.xlsx").write_bytes(content)
    with pytest.raises(SubmissionError, match=r"a\.xlsx' cannot be read as \.xlsx .* save it again"):
        Table.open(tmp_path / "a.xlsx")
    with pytest.raises(SubmissionError, match=r"there is no file '.*none\.xlsx'"):
        Table.open(tmp_path / "none.xlsx#A")
    (tmp_path / "a.csv").write_text("id\n1\n")
    with pytest.raises(SubmissionError, match=r"there is no file '.*a\.csv#A'"):
        Table.open(tmp_path / "a.csv#A")
    (tmp_path / "b.xls").write_bytes(content)
    with pytest.raises(SubmissionError, match=r"save it as \.xlsx"):
        Table.open(tmp_path / "b.xls")


def test_without_openpyxl_the_extra_is_named(tmp_path, monkeypatch):
    path = written(tmp_path)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'datamarket-gym\[payout\]'"):
        Table.open(path)


def test_a_sheet_that_is_damaged_is_named(tmp_path):
    path = written(tmp_path)
    with zipfile.ZipFile(path) as old:
        content = {name: old.read(name) for name in old.namelist()}
    sheet_xml = content["xl/worksheets/sheet1.xml"]
    for broken in (sheet_xml[: len(sheet_xml) // 2], b"", sheet_xml.replace(b"<row", b"<&row", 1)):
        with zipfile.ZipFile(path, "w") as new:
            for name, data in {**content, "xl/worksheets/sheet1.xml": broken}.items():
                new.writestr(name, data)
        with pytest.raises(SubmissionError, match=r"units\.xlsx"):
            read_submission(path)
