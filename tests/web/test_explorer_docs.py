"""docs/explorer.md shows what its pictures, keys and figures are of."""

import json
import re

import pytest

from repository import ROOT, tool_named

PAGE = ROOT / "docs" / "explorer.md"


def row(what, **figures):
    return {"workload": what, "people": 20, **figures}


def test_keys_and_figures_are_not_stale():
    tool = tool_named("explorer_page")
    page = PAGE.read_text("utf-8")
    blocks = {"keys": tool.keys(tool.PAGES), "measured": tool.measured(tool.MEASURED)}
    assert tool.written(page, blocks) == page, "run: python tools/explorer_page.py"


def test_every_picture_is_there_and_is_one_that_the_command_takes():
    shown = set(re.findall(r"\(figures/explorer-([\w-]+)\.png\)", PAGE.read_text("utf-8")))
    taken = {shot.name for shot in tool_named("screenshots").SHOTS}
    there = {
        path.stem.removeprefix("explorer-")
        for path in (ROOT / "docs" / "figures").glob("explorer-*.png")
    }
    assert shown <= there
    assert there == taken


def test_keys_are_read_from_scripts(tmp_path):
    (tmp_path / "market.js").write_text(
        'const stop = keys({\n  c: ["copy", f],\n  "[": ["before", () => g(1)],\n  ArrowLeft: ["lower", h],\n});\n'
        'const other = { x: ["no key", f] };\n'
    )
    assert tool_named("explorer_page").keys(tmp_path).splitlines()[2:] == [
        "| Market | `c` | copy |",
        "| Market | `[` | before |",
        "| Market | `←` | lower |",
    ]


def test_what_was_measured_is_told(tmp_path):
    measured = tool_named("explorer_page").measured
    assert measured(tmp_path / "none.json") == ""
    rows = [
        row("first page, just started", seconds=0.61), row("first page, again", seconds=0.2),
        row("question to answer", count=1234, errors=0, note="7 refused in words", p50=0.1, p95=1.5, p99=1.9),
        row("last move to its answer", count=300, p50=0.2, p95=1.75, p99=2.5),
        row("memory of all processes", middle_mib=1400, last_mib=1410),
    ]  # fmt: skip
    saved = {"title": "", "command": "python it", "machine": {"machine": "two cores"}, "rows": rows}
    (tmp_path / "explorer.json").write_text(json.dumps(saved))
    told = measured(tmp_path / "explorer.json")
    for words in (
        "20 people",
        "1,234 answers, 0 errors; 7 refused in words",
        "| 0.20 s | 1.75 s | 2.50 s |",
        "0.61 s",
        "1,410 MiB",
    ):
        assert words in told


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        ({}, []), ({"p95": 2.0}, ["question to answer: p95 2.0 s"]), ({"errors": 1}, ["1 errors"]),
        ({"last_mib": 2000}, ["memory grew from 1400 to 2000 MiB"]), ({"seconds": 1.2}, ["first page: 1.2 s"]),
    ],
)  # fmt: skip
def test_bars_that_were_missed_are_named(monkeypatch, change, missed):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from explorer_load import missed as told

    def with_change(figures):
        return figures | {name: value for name, value in change.items() if name in figures}

    rows = [
        row("first page, just started", **with_change({"seconds": 0.6})),
        row("question to answer", **with_change({"errors": 0, "p95": 1.0})),
        row("last move to its answer", **{"p95": 1.0}),
        row("memory of all processes", middle_mib=1400, **with_change({"last_mib": 1400})),
    ]
    assert told(rows) == missed
