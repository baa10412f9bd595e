"""The code of the page about scores from elsewhere runs."""

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
