"""Times that were written out: what is refused says what it looks like, and how to write it."""

import datetime

import pyarrow as pa
import pytest

from datamarket_gym.data.readers.tables import Table
from datamarket_gym.data.times import looks_like, not_among
from datamarket_gym.errors import SubmissionError


def times(cells, kind=None):
    return Table.of(pa.table({"time": pa.array(cells, kind)})).read(other=["time"])[0]["time"].times()


HINTS = {
    "01.05.2026": "the day first; write it as 2026-05-01 (1 May)",
    "1.5.2026 10:30": "write it as 2026-05-01, the time of day after a T (1 May)",
    "31.12.2026": "write it as 2026-12-31 (31 December)",
    "05/01/2026": "2026-01-05 (5 January) if the day comes first, 2026-05-01 (1 May) if the month does",
    "13/01/2026": "the day first; write it as 2026-01-13 (13 January)",
    "01/13/2026": "the month first; write it as 2026-01-13 (13 January)",
    "05-01-2026": "if the month does",
    "2026/05/01": "hyphens, 2026-05-01",
    "2026.5.1": "hyphens, 2026-05-01",
    "2026-5-1": "two digits each and hyphens, 2026-05-01",
    "01.05.26": "a year of two digits",
    "12:30": "a time of day without a date",
    "1714557600,5": "a decimal comma",
    "Mon, 16 Nov 2026 05:37:00 GMT": "write it as 2026-11-16T05:37:00+00:00",
    "1 May 2026": "the month as a word",
}  # fmt: skip


@pytest.mark.parametrize("cell", HINTS)
def test_a_date_that_is_not_read_is_told_how_to_be_written(cell):
    with pytest.raises(SubmissionError) as error:
        times([cell, cell])
    assert f"row 0 is {cell!r}; it looks like" in str(error.value)
    assert HINTS[cell] in str(error.value)


@pytest.mark.parametrize(
    "cell", ["soon", "99.99.2026", "45/45/2026", "2026-13-45", "x", "12", "2026-05-01"]
)
def test_nothing_is_said_of_what_looks_like_nothing(cell):
    assert looks_like(cell) == ""


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


def test_the_bad_ones_are_found_by_halves():
    asked = []

    def good(some):
        asked.append(len(some))
        return 77 not in some and 1234 not in some

    assert not_among(list(range(10_000)), good) == [77, 1234]
    assert len(asked) < 70
