"""The page about scores from elsewhere: its code runs, and its tables are those that the benchmark printed."""

import re
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "scores.md").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore::datamarket_gym.UndatedMarketWarning")
def test_the_code_of_the_page_runs():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    found = {}
    exec(compile(code, "scores.md", "exec"), found)
    assert np.isfinite(found["paid"].totals).all()


def test_the_tables_are_as_printed():
    printed = (DOCS / "benchmarks" / "scores-attacked.txt").read_text(encoding="utf-8")
    rows = [line for line in printed.splitlines() if line.startswith("|")]
    assert len(rows) == 16
    assert [line for line in PAGE.splitlines() if line.startswith("|") and line in rows] == rows
