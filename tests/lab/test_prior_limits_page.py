"""What docs/prior.md says of the limits of prior art is what the benchmark printed."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "prior.md").read_text(encoding="utf-8").split("\n## Limits\n")[1]
PRINTED = (DOCS / "benchmarks" / "prior-limits.txt").read_text(encoding="utf-8")
FIGURE = re.compile(r"(?<![\w.,-])-?\d+(?:\.\d+%?|%)")


def test_its_tables_are_those_that_were_printed():
    lines = re.findall(r"^\| .*\|$", PAGE, re.M)
    assert len(lines) > 10
    assert [line for line in lines if line not in PRINTED.splitlines()] == []


def test_its_figures_are_those_that_were_printed():
    """Every figure with a decimal place or a percent sign stands in some cell; a noise is none."""
    told = FIGURE.findall(PAGE)
    assert len(told) > 20
    known = {*FIGURE.findall(PRINTED), "0.3"}  # 0.3: a noise
    assert [figure for figure in told if figure not in known] == []
