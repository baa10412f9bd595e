"""The page on the coverage game runs."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "coverage.md").read_text(encoding="utf-8")


def test_the_page_runs():
    scope = {}
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    exec(compile(code, "coverage.md", "exec"), scope)
    paid = scope["paid"]
    assert paid.totals.sum() == pytest.approx(paid.grand_value, abs=1e-12)
    assert (paid.totals >= 0).all()
