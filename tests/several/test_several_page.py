"""docs/several-cheats.md: its numbers are those of the published results."""

import pytest

from datamarket_gym.lab.promises import kept
from datamarket_gym.lab.results import read_all
from repository import ROOT, tool_named

tool = tool_named("several_page")


def test_the_generated_block_of_several_cheats_is_up_to_date():
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page(), "run: python tools/several_page.py"


def test_every_promise_of_s14_stands_there_with_whether_it_holds():
    (one,) = [one for one in read_all(ROOT / "docs" / "results") if one.spec.name == "s14"]
    lines = tool.block(tool.PAGE.read_text(encoding="utf-8")).splitlines()
    for promise in one.spec.promises:
        (line,) = [line for line in lines if promise.says in line]
        found = kept(promise, one.rows)
        assert found.numbers
        assert ("**Does not hold**" in line) == (not found.holds)


def test_two_rows_for_one_cell_are_an_error():
    row = {"metric": "gain", "learner": "coverage", "value": 1.0}
    with pytest.raises(ValueError, match="2 rows of gain"):
        tool._value([row, row], "gain", learner="coverage")
    assert tool._value([row], "gain", learner="knn") is None
