"""``datamarket explain --needs``: which validation rows units cover, and which nobody's do, on the terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from datamarket_gym.payout.covered_words import (
    SECRET,
    Lines,
    RunNeeds,
    covered_lines,
    covered_row_lines,
)
from datamarket_gym.payout.statements.covering import NeedsCovered


def print_needs(found: NeedsCovered, words: Sequence[str] | None, console: Console) -> None:
    """How much of the needs a payee's units cover, and its best units; with ``words``, row by row."""
    if words is not None:
        _print(covered_row_lines(found, words), console)
        return
    _print(covered_lines(found), console)
    if found.units:
        console.print(
            "Which needs these are: --needs. They are secret: keep it to yourself.",
            highlight=False,
            markup=False,
        )


def show_least_covered(run: Path, validation: Path | None, as_json: bool) -> None:
    """The needs of a run that are covered least, and how well all of them are."""
    needs = RunNeeds.read(run, validation, "Say whose payment to explain: --payee NAME")
    console = Console()
    if as_json:
        console.print_json(json.dumps({"needs": needs.rows()}))
        return
    _print(needs.least_covered_lines(), console)
    console.print(SECRET, highlight=False, markup=False)


def _print(lines: Lines, console: Console) -> None:
    for indent, words in lines:
        console.print(Padding(Text(words, overflow="fold"), (0, 0, 0, indent)))
