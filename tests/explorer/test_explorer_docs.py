"""docs/explorer.md shows what its pictures, keys and figures are of."""

import re

import pytest

from repository import ROOT, tool_named

PAGE = ROOT / "docs" / "explorer.md"


def test_every_picture_is_there_and_is_one_that_the_command_takes():
    shown = set(re.findall(r"\(figures/explorer-([\w-]+)\.png\)", PAGE.read_text("utf-8")))
    taken = {shot.name for shot in tool_named("screenshots").SHOTS}
    there = {
        path.stem.removeprefix("explorer-")
        for path in (ROOT / "docs" / "figures").glob("explorer-*.png")
    }
    assert shown <= there
    assert there == taken


def row(what, **figures):
    return {"workload": what, "people": 20, **figures}


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
