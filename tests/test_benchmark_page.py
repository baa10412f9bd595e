"""docs/benchmarks.md is what its saved rows say."""

import json
from pathlib import Path

from datamarket_gym.bench.page import benchmark_page

DOCS = Path(__file__).parent.parent / "docs"


def test_the_page_is_not_stale():
    saved = [
        json.loads(f.read_text(encoding="utf-8")) for f in sorted((DOCS / "benchmarks").glob("*.json"))
    ]
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    assert page == benchmark_page(saved), "run: datamarket bench page"
    assert len(saved) == 5
