"""The page on numbers as labels runs."""

import re
from pathlib import Path

from datamarket_gym.analysis.metrics import provider_totals

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "regression.md").read_text(encoding="utf-8")


def test_the_page_runs():
    scope = {}
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    exec(compile(code, "regression.md", "exec"), scope)
    assert 0.1 < scope["paid"].grand_value < 0.9
    before = provider_totals(scope["paid"], scope["market"].honest)
    assert provider_totals(scope["again"], scope["attacked"]) == before
    assert sorted(scope["report"].families("stopped")) == ["exact_dup_2x_sybils", "sybil_split_k"]
