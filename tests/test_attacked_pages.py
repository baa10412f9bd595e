"""What pages say of attacks on the utilities is what the benchmark printed."""

from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ("coverage.md", "regression.md", "scores.md", "payout.md")


@pytest.mark.parametrize(("number", "page"), list(enumerate(PAGES)))
def test_tables_are_as_printed(number, page):
    printed = (DOCS / "benchmarks" / "utilities-attacked.txt").read_text().strip().split("\n\n")
    assert len(printed) == len(PAGES)
    assert f"\n\n{printed[number]}\n\n" in (DOCS / page).read_text()
