"""What must hold of rows: whether it does, and by name where it does not."""

import pytest

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.lab.promises import kept, promises_page
from datamarket_gym.lab.spec import ExperimentSpec, Promise

WHERE = {"metric": "net", "learner": "a"}


def row(task, value, learner="a", **more):
    return {"metric": "net", "task": task, "learner": learner, "attack": "theft", "value": value, **more}


def test_rows_above_the_bound_are_named_the_largest_first_and_others_are_not():
    rows = [row("x", 1.0), row("y", 1.2, checks=3), row("z", 1.5), row("x", 9.0, "b")]
    promise = Promise(says="No theft pays.", where=WHERE, at_most=1.1)
    assert [(n, r["task"]) for n, r in kept(promise, rows).broken] == [(1.5, "z"), (1.2, "y")]
    page = promises_page(ExperimentSpec(name="mine", title="Mine", promises=[promise]), rows)
    assert "- **Does not hold**: No theft pays. 2 of 3 rows are above 1.1; the largest is 1.500" in page
    assert "  - theft, z: 1.500\n  - theft, y, checks = 3: 1.200\n" in page
    assert "theft, x" not in page


def test_what_holds_says_so_with_the_largest():
    promise = Promise(says="No theft pays.", where=WHERE, at_most=1.1)
    page = promises_page(
        ExperimentSpec(name="mine", title="Mine", promises=[promise]), [row("x", 1.1), row("y", 0.5)]
    )
    assert (
        "**Holds**: No theft pays. 0 of 2 rows are above 1.1; the largest is 1.100 (theft, x)." in page
    )


@pytest.mark.parametrize(
    ("values", "holds"), [([(0.3, 0.2), (0.1, 0.2)], True), ([(0.3, 0.2)] * 2, False)]
)
def test_rows_are_compared_with_their_partners_and_some_may_be_spared(values, holds):
    pairs = [(row(t, ours), row(t, theirs, "b")) for t, (ours, theirs) in zip("xy", values, strict=True)]
    promise = Promise(says="Nearer.", where=WHERE, less={"learner": "b"}, at_most=0.0, spared=1)
    assert kept(promise, [r for pair in pairs for r in pair]).holds is holds


def test_no_row_a_row_without_a_value_and_one_without_a_partner_are_no_success():
    promise = Promise(says="No theft pays.", where=WHERE, at_most=1.1)
    assert not kept(promise, []).holds
    assert "have no row of it" in promises_page(
        ExperimentSpec(name="m", title="M", promises=[promise]), []
    )
    assert not kept(promise, [row("x", None)]).holds
    compared = Promise(says="Nearer.", where=WHERE, less={"learner": "b"}, at_most=0.0)
    with pytest.raises(DataMarketError, match="0 rows to compare"):
        kept(compared, [row("x", 0.1)])
