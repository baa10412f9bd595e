"""Writes the table of docs/scale.md, what a payday costs by its units, from the rows of benchmarks/scaling.py.

Usage: python tools/scale_table.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "scale.md"
VALIDATION = 1_000
COLUMNS = {
    "search": "search for copies",
    "coverage": "scores by coverage",
    "knn": "scores by 5-NN",
    "payday": "whole payday",
}
FILES = {"scale.json": "", "scale-h200.json": ", on a GPU"}


def table(saved: dict[str, Any], where: str) -> str:
    """A line for each number of units: seconds by the clock and, in brackets, of all cores; the payday's memory."""
    ours = [r for r in saved["rows"] if r["who"] == "datamarket-gym" and r["validation"] == VALIDATION]
    by = {(r["workload"], r["units"]): r for r in ours}
    shown = [what for what in COLUMNS if any(key[0] == what and by[key]["seconds"] for key in by)]
    peak = "payday" in shown
    head = [f"units{where}", *(COLUMNS[what] for what in shown), *(["its peak memory"] if peak else [])]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for units in sorted({key[1] for key in by}):
        cells = [_seconds(by.get((what, units))) for what in shown]
        if peak:
            day = by.get(("payday", units))
            cells.append(f"{day['peak_gib']:.2f} GiB" if day and day["peak_gib"] else "")
        lines.append("| " + " | ".join([f"{units:,}", *cells]) + " |")
    return "\n".join(lines) + f"\n\n(`{saved['command']}`, {saved['machine']['machine']}.)\n"


def _seconds(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    if not row["seconds"]:
        return str(row["note"])
    return f"{row['seconds']:,.1f} s ({row['cpu_seconds']:,.1f})"


def grown(saved: dict[str, Any]) -> str:
    """How seconds grow, as fitted."""
    fitted = [r["workload"].removeprefix("fitted, ") for r in saved["rows"] if r["units"] is None]
    return f"Fitted over the largest three sizes: {'; '.join(fitted)}.\n" if fitted else ""


def block(folder: Path) -> str:
    """What stands between the comments; nothing where nothing was measured."""
    rows = {
        name: json.loads((folder / name).read_text("utf-8"))
        for name in FILES
        if (folder / name).exists()
    }
    if not rows:
        return ""
    parts = [
        "## What it costs\n",
        f"{VALIDATION:,} validation rows, 384 numbers a unit, theta .95; seconds by the clock (of all cores).\n",
        *(table(saved, FILES[name]) for name, saved in rows.items()),
    ]
    if "scale.json" in rows:
        parts.append(grown(rows["scale.json"]))
    if (folder.parent / "figures" / "scale-units.svg").exists():
        parts.append("![Seconds and memory by the number of units](figures/scale-units.svg)\n")
        parts.append("![The same by the number of validation rows](figures/scale-validation.svg)\n")
    parts.append("All rows, with peers beside them: [benchmarks](benchmarks.md).")
    if (folder.parent / "billion.md").exists():
        parts.append("Carried on paper to a billion units: [what it would take](billion.md).")
    return "\n".join(parts) + "\n"


def written(page: str, text: str) -> str:
    """The page with that block."""
    return re.sub(
        r"<!-- costs -->\n.*?<!-- /costs -->",
        lambda _: f"<!-- costs -->\n{text}<!-- /costs -->",
        page,
        flags=re.S,
    )


def main() -> None:
    """Write the block."""
    PAGE.write_text(
        written(PAGE.read_text("utf-8"), block(ROOT / "docs" / "benchmarks")), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
