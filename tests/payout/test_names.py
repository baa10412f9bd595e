"""Names as people and spreadsheets see them."""

import pytest

from datamarket_gym.errors import SubmissionError
from datamarket_gym.payout.names import csv_safe, find_look_alikes, from_csv, require_writable, visible


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "'"])
def test_what_a_spreadsheet_would_run_gets_an_apostrophe_that_can_be_taken_off(first):
    assert csv_safe(f"{first}SUM(A1)") == f"'{first}SUM(A1)"
    for name in (first, f"{first}x", f"x{first}", f"'{first}"):
        assert from_csv(csv_safe(name)) == name
    assert csv_safe(f"x{first}") == f"x{first}"


def test_long_names_are_cut_where_the_reader_is_told():
    assert visible("x" * 64) == "x" * 64
    assert visible("x" * 65) == "x" * 64 + "… (65 characters)"
    assert visible("x" * 12_345) == "x" * 64 + "… (12,345 characters)"
    assert visible("abcdef", 3) == "abc… (6 characters)"


@pytest.mark.parametrize("hidden", ["\u200b", "\u202e", "\u2028", "\u2029", "\ue000", "\u0378", "\x1b"])
def test_what_cannot_be_seen_is_spelled_out(hidden):
    assert visible(f"a{hidden}b") == f"a⟨U+{ord(hidden):04X}⟩b"
    assert visible("naïve Ünal 王") == "naïve Ünal 王"


@pytest.mark.parametrize("other", ["ANNA m", "anna  m", "anna\u200b m", "\uff41nna m", " anna m"])
def test_names_that_read_the_same_are_one_group(other):
    assert find_look_alikes(["anna m", "bert", other]) == [["anna m", other]]


def test_names_that_differ_are_no_group():
    assert find_look_alikes(["anna m", "annam", "anna n", "ánna m"]) == []


@pytest.mark.parametrize("name", ["\ud800", "a\x7f", "a\nb", " ", "\u3000"])
def test_what_no_file_can_hold_is_refused_with_its_row(name):
    with pytest.raises(SubmissionError, match=r"'identity'.* row 1"):
        require_writable("identity", ["fine", name])
