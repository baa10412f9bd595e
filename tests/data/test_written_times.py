"""Times that were written out: what is refused says what it looks like, and how to write it."""

import datetime

import pyarrow as pa
import pytest

from datamarket_gym.data.columns import time_hint
from datamarket_gym.data.readers.tables import Table
from datamarket_gym.errors import SubmissionError


def times(cells, kind=None):
    return Table.of(pa.table({"time": pa.array(cells, kind)})).read(other=["time"])[0]["time"].times()


HINTS = {
    **dict.fromkeys(
        (
            "01.05.2026",
            "1.5.2026 10:30",
            "13/01/2026",
            "05-01-2026",
            "2026/05/01",
            "2026-5-1",
            "01.05.26",
        ),
        "it looks like a date; write year, month and day, as 2026-05-31",
    ),
    **dict.fromkeys(("Mon, 16 Nov 2026 05:37:00 GMT", "1 May 2026"), "it looks like a date; write year"),
    "12:30": "it looks like a time of day without a date",
    "1714557600,5": "it looks like seconds with a decimal comma",
}


@pytest.mark.parametrize("cell", HINTS)
def test_a_date_that_is_not_read_is_told_how_to_be_written(cell):
    with pytest.raises(SubmissionError) as error:
        times([cell, cell])
    assert f"row 0 is {cell!r}; {HINTS[cell]}" in str(error.value)


@pytest.mark.parametrize("cell", ["soon", "x", "12", "mayor"])
def test_nothing_is_said_of_what_looks_like_nothing(cell):
    assert time_hint(cell) == ""


def test_one_among_many_is_named_by_its_row():
    with pytest.raises(SubmissionError, match=r"row 40 is '01\.02\.2026'; it looks like"):
        times(["2026-01-01"] * 40 + ["01.02.2026"] * 26)
    with pytest.raises(SubmissionError, match="row 2 is 'soon', unlike the rows before or no time"):
        times(["1", "2", "soon"])


@pytest.mark.parametrize(
    "cells",
    [
        [20260501, 20260502],
        [45000, 45001.5],
        [1_770_000_000_000, 1_770_000_000_001],
        ["2026-05-01", "2026-05-02"],
        ["2026-05-01T10:00:00Z", "2026-05-01T10:00:00+02:00"],
        ["1770000000", "1770000001.5"],
        [datetime.date(2026, 5, 1), datetime.date(2026, 5, 2)],
    ],
    ids=str,
)
def test_what_was_read_is_read(cells):
    assert len(times(cells)) == 2


def test_times_of_day_alone_are_refused_by_the_column():
    with pytest.raises(SubmissionError, match="'time' holds times of day without a date"):
        times([datetime.time(10), datetime.time(11)])


def test_all_that_are_no_times_are_found():
    cells = [f"2026-01-{1 + i % 28:02d}" for i in range(300)]
    cells[77], cells[123] = "soon", "01.02.2026"
    column = Table.of(pa.table({"time": cells})).read(other=["time"])[0]["time"]
    bad = column.bad_times()
    assert list(bad) == [77, 123]
    assert "it looks like a date" in bad[123]
