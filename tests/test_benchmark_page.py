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
    assert len(saved) == 8


def test_the_synthetic_game_is_measured_against_150_times_the_loop():
    def verdict(ratio):
        row = {"workload": "synthetic, 12 players x 60 x 24, 4 classes"}
        row |= {"ratio_default": ratio, "ratio_converged": 2 * ratio}
        return benchmark_page([{"title": "Engine", "command": "x", "machine": {}, "rows": [row]}])

    assert "| 150x, 121.0x | 46x, 242.0x | no |" in verdict(121.0)
    assert "| 150x, 151.0x | 46x, 302.0x | yes |" in verdict(151.0)
