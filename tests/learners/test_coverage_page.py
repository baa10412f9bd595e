"""The page on the coverage game runs, and its figures are the printed ones."""

import re
from pathlib import Path

import pytest

from datamarket_gym.learners.coverage import Coverage

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "coverage.md").read_text(encoding="utf-8")
PRINTED = {
    name: (DOCS / "benchmarks" / f"coverage-{name}.txt").read_text(encoding="utf-8").splitlines()
    for name in ("frontier", "scale")
}


def test_the_page_runs():
    scope = {}
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    exec(compile(code, "coverage.md", "exec"), scope)
    paid = scope["paid"]
    assert paid.totals.sum() == pytest.approx(paid.grand_value, abs=1e-12)
    assert (paid.totals >= 0).all()


def test_its_figures_are_those_that_were_printed():
    """Every line of a measured table stands in what a benchmark wrote."""
    measured = re.findall(r"^\| (?:k-NN|coverage|knn|\(30).*\|$", PAGE, re.M)
    assert len(measured) > 25
    known = {line for lines in PRINTED.values() for line in lines}
    assert [line for line in measured if line not in known] == []


def test_the_default_quantile_is_what_the_rule_says():
    rule = r"^The highest quantile that is nowhere more .* above: ([\d.]+)\.$"
    (found,) = re.findall(rule, "\n".join(PRINTED["frontier"]), re.M)
    assert float(found) == Coverage().quantile


def test_coverage_costs_at_most_one_and_a_half_float32_passes():
    ratios = re.findall(r"^\| coverage \|.* ([\d.]+) x \|$", "\n".join(PRINTED["scale"]), re.M)
    assert len(ratios) == 2  # 50,000 and 100,000 units
    assert max(map(float, ratios)) <= 1.5
