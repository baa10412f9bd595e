"""docs/scale.md and docs/billion.md say what benchmarks/scaling.py has measured, and no more."""

import importlib
import json
import re
import sys

import pytest

from repository import ROOT, tool_named

BENCHMARKS = ROOT / "docs" / "benchmarks"
BILLION = ROOT / "docs" / "billion.md"


@pytest.fixture
def scaling(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    yield importlib.import_module("scaling")
    sys.modules.pop("scaling")


def figures(power=2.0, **other):
    """Rows of two machines' benchmark: a search that grows by some power, and a payday that is linear."""
    rows = []
    for units in (1_000, 10_000, 100_000, 1_000_000):
        for what, cpu in (
            ("search", 1e-9 * units**power), ("coverage", 3e-6 * units), ("payday", 4e-6 * units + 1e-9 * units**2),
        ):  # fmt: skip
            rows.append(
                {
                    "workload": what, "who": "datamarket-gym", "units": units, "validation": 1_000, "seconds": cpu / 2,
                    "cpu_seconds": cpu, "peak_gib": units / 2e5, "work_gib": None, "note": "", **other,
                }
            )  # fmt: skip
    return rows


def saved(rows):
    return {"title": "", "command": "python it", "machine": {"machine": "two cores"}, "rows": rows}


def test_the_table_of_costs_is_not_stale():
    page = (ROOT / "docs" / "scale.md").read_text("utf-8")
    table = tool_named("scale_table")
    assert table.written(page, table.block(BENCHMARKS)) == page, "run: python tools/scale_table.py"


def test_the_page_of_a_billion_is_not_stale():
    names = [BENCHMARKS / "scale.json", BENCHMARKS / "scale-h200.json"]
    if not all(name.exists() for name in names):
        assert not BILLION.exists()  # it would say what nobody has measured
        return
    page = tool_named("billion_page").page(*(json.loads(name.read_text("utf-8")) for name in names))
    assert page == BILLION.read_text("utf-8"), "run: python tools/billion_page.py"


def test_the_table_has_a_line_for_each_size_and_says_what_was_left_out(tmp_path):
    table = tool_named("scale_table")
    assert table.block(tmp_path) == ""
    rows = figures()
    late = [r for r in rows if (r["workload"], r["units"]) == ("payday", 1_000_000)]
    late[0].update(seconds=None, cpu_seconds=None, peak_gib=None, note="over 600 s")
    rows.append({**rows[0], "who": "faiss flat", "seconds": 9.0})
    rows.append(
        {
            **rows[0],
            "workload": "fitted, search: CPU seconds grow as units^2.00",
            "units": None,
            "validation": None,
        }
    )
    (tmp_path / "scale.json").write_text(json.dumps(saved(rows)))
    said = table.block(tmp_path)
    lines = re.findall(r"^\| ([\d,]+) \| (.*) \|$", said, re.M)
    assert lines[2] == ("100,000", "5.0 s (10.0) | 0.1 s (0.3) | 5.2 s (10.4) | 0.50 GiB")
    assert lines[3] == ("1,000,000", "500.0 s (1,000.0) | 1.5 s (3.0) | over 600 s | ")
    assert "faiss" not in said
    assert "CPU seconds grow as units^2.00." in said
    assert "billion" not in said
    assert table.written("a\n<!-- costs -->\nold\n<!-- /costs -->\nb", "new\n") == (
        "a\n<!-- costs -->\nnew\n<!-- /costs -->\nb"
    )


def test_a_billion_is_the_square_of_the_search_and_in_proportion_for_the_rest():
    page = tool_named("billion_page").page(saved(figures()), saved(figures(seconds=2.0)))
    cells = {
        row[0]: row
        for line in re.findall(r"^\| (10\^\d.*) \|$", page, re.M)
        if len(row := line.split(" | ")) == 10
    }
    hours = {size: float(row[2].replace(",", "")) for size, row in cells.items()}
    assert hours["10^6"] == pytest.approx(1e-9 * 1e12 / 3600, rel=0.05)
    assert hours["10^9"] == pytest.approx(1e-9 * 1e18 / 3600, rel=0.01)
    scores = [float(cells[size][3].replace(",", "")) for size in ("10^6", "10^9")]
    assert scores == pytest.approx([2 * 3.0 / 3600, 2 * 3e3 / 3600], rel=0.05)
    assert float(cells["10^9"][4].replace(",", "")) == pytest.approx(1e-6 * 1e9 / 3600, rel=0.5)


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0])
def test_exponents_are_slopes_over_the_largest_three(scaling, power):
    rows = figures(power)
    rows[0]["cpu_seconds"] = 100.0  # the smallest: start-up, which is not looked at
    said = [row["workload"] for row in scaling.exponents(rows)]
    assert said[0] == f"fitted, search: CPU seconds grow as units^{power:.2f}"
    assert len(said) == 3  # nothing was measured along validation rows


def test_what_takes_too_long_or_fails_is_said(scaling):
    assert scaling.told([sys.executable, "-c", "print(1); print('{\"a\": 2}')"], 60.0) == {"a": 2}
    assert (
        scaling.told([sys.executable, "-c", "raise SystemExit('no such thing')"], 60.0)
        == "failed: no such thing"
    )
    assert scaling.told([sys.executable, "-c", "import time; time.sleep(60)"], 0.3) == "over 0.3 s"


def test_a_search_is_measured_on_the_market_of_the_payday(scaling):
    features, label, held, held_label = scaling.market(500, 20)
    assert (features.shape, label.shape, held.shape, held_label.shape) == (
        (500, 384),
        (500,),
        (20, 384),
        (20,),
    )
    found = scaling.ours("search", 500, 20, "cpu")
    assert found["seconds"] > 0
    assert found["peak_gib"] > 0
    work = scaling.search(500)()
    assert (work.parent >= 0).sum() >= 50  # every tenth is a noisy copy


def test_the_figures_of_k_nn_are_the_printed_ones():
    page, printed = (
        (ROOT / "docs" / name).read_text("utf-8") for name in ("scale.md", "benchmarks/knn-scale.txt")
    )
    cells = re.findall(r"^\| `knn.* \| ([\d.]+) \| ([\d.]+) times \|$", page, re.M)
    assert cells == re.findall(r"closed form: ([\d.]+) CPU s.*\n.*ratio ([\d.]+)$", printed, re.M)
    assert max(float(ratio) for _, ratio in cells) <= 2.5
    apart, off = re.findall(
        r"order: ([\d.]+) apart; a float32 distance: off by at most ([\d.]+)", printed
    )[0]
    assert f"order are {apart[1:]} apart" in page
    assert f"be off by {off[1:]}:" in page


def test_the_figures_of_the_search_for_pairs_are_the_printed_ones():
    page, printed = (
        (ROOT / "docs" / name).read_text("utf-8") for name in ("scale.md", "benchmarks/pair-search.txt")
    )
    said = re.findall(r"^(.*): ([\d.]+) CPU s", printed, re.M)
    lines = {"prefixes": "prefixes, exact", "all products": "all products, exact", "join of": "cells",
             "faiss": "faiss IVF512, 4", "the same": "faiss IVF512, 16"}  # fmt: skip
    for begin, name in lines.items():
        (row,) = re.findall(rf"^\| {begin}[^|]*\|(.*)\|[^|]*\|$", page, re.M)
        assert re.findall(r"[\d.]+", row) == [cpu for what, cpu in said if what.startswith(name)]
