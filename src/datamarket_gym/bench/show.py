"""Printing benchmark rows as they come, and saving them with the machine they were measured on."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from datamarket_gym.core.files import write_text
from datamarket_gym.core.progress import shown_on_stderr

Row = dict[str, Any]


def show(rows: Iterable[Row], as_json: bool, save: Path | None, title: str) -> None:
    """Print rows (progress on stderr, the result on stdout) and write them to a file if asked."""
    done: list[Row] = []
    with shown_on_stderr(in_logs=False) as progress:
        progress.stage("measuring")
        for row in rows:
            done.append(row)
            progress.stage(f"{row['workload']}: done; measuring")
    if save is not None:
        saved = {"title": title, "command": _command(), "machine": machine(), "rows": done}
        write_text(save, json.dumps(saved, indent=1) + "\n")
    if as_json:
        Console(soft_wrap=True).print_json(data=done)
        return
    table = Table()
    for name in done[0]:
        wide = name in ("workload", "who", "note")
        table.add_column(name.replace("_", " "), justify="left" if wide else "right", min_width=7)
    for row in done:
        table.add_row(*(cell(value) for value in row.values()))
    Console().print(table)


def _command() -> str:
    """The command as typed, without the folders and files of this machine."""
    words = ["datamarket", *sys.argv[1:]]
    for option in ("--save", "--envs"):
        if option in words:
            at = words.index(option)
            words[at : at + 2] = []
    return " ".join(words)


def cell(value: Any) -> str:
    """A value as a person reads it."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def machine() -> dict[str, Any]:
    """Where the figures were measured."""
    names = ("numpy", "scipy", "scikit-learn")
    return {
        "cpu": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: version(name) for name in names},
    }
