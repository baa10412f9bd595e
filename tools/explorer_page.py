"""Writes what docs/explorer.md does not say in its own words: the keys of the pages, and what was measured.

Keys are those that the pages' scripts tell ``?``, figures those of docs/benchmarks/explorer.json
(`benchmarks/explorer_load.py`).

Usage: python tools/explorer_page.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explorer.md"
PAGES = ROOT / "src" / "datamarket_gym" / "web" / "static" / "pages"
MEASURED = ROOT / "docs" / "benchmarks" / "explorer.json"
TITLES = {"market": "Market", "threshold": "Threshold", "benchmark": "Benchmark", "payday": "Payday"}
_SAID = {"ArrowLeft": "←", "ArrowRight": "→", "ArrowUp": "↑", "ArrowDown": "↓", " ": "space"}
_MAP = re.compile(r"\bkeys\(\{\n(.*?)\n\s*\}\)", re.S)
_KEY = re.compile(r'^\s*(?:"([^"]+)"|(\w+)): \["([^"]+)"', re.M)


def keys(folder: Path) -> str:
    """A table of shortcuts, page by page."""
    lines = ["| page | key | what it does |", "|---|---|---|"]
    for path in sorted(
        folder.rglob("*.js"), key=lambda path: (list(TITLES).index(_page(path, folder)), path)
    ):
        for written in _MAP.findall(path.read_text("utf-8")):
            for quoted, plain, words in _KEY.findall(written):
                key = quoted or plain
                lines.append(f"| {TITLES[_page(path, folder)]} | `{_SAID.get(key, key)}` | {words} |")
    return "\n".join(lines) + "\n"


def _page(path: Path, folder: Path) -> str:
    return path.relative_to(folder).parts[0].removesuffix(".js")


def measured(path: Path) -> str:
    """What the load test has found, in sentences; nothing where it was not played."""
    if not path.exists():
        return ""
    saved: dict[str, Any] = json.loads(path.read_text("utf-8"))
    by = {row["workload"]: row for row in saved["rows"]}
    asked, settled = by["question to answer"], by["last move to its answer"]
    first, again = by["first page, just started"], by["first page, again"]
    used = by["memory of all processes"]
    return "\n".join(
        [
            f"{asked['people']} people who drag sliders of the market page at once, each in a market of their own: "
            f"{asked['count']:,} answers, {asked['errors']} errors; {asked['note']} (an attacker who knows nobody "
            "is told that there is nobody to attack: that is an answer, not counted as an error).",
            "",
            "| | median | 95 % within | 99 % within |",
            "|---|---|---|---|",
            *(
                f"| {what} | {row['p50']:.2f} s | {row['p95']:.2f} s | {row['p99']:.2f} s |"
                for what, row in (
                    ("from a question to its answer", asked),
                    ("from the last move of a drag to the answer it settles on", settled),
                )
            ),
            "",
            f"The first page, with all its scripts, takes {first['seconds']:.2f} s right after the start and "
            f"{again['seconds']:.2f} s later. The server and its processes have {used['last_mib']:,} MiB in the last "
            f"third of the time, and had {used['middle_mib']:,} MiB in the middle one.",
            "",
            f"(`{saved['command']}`, {saved['machine']['machine']}.)",
            "",
        ]
    )


def written(page: str, blocks: dict[str, str]) -> str:
    """The page with these blocks between their comments."""
    for name, text in blocks.items():
        page = re.sub(
            rf"<!-- {name} -->\n.*?<!-- /{name} -->",
            lambda _, name=name, text=text: f"<!-- {name} -->\n{text}<!-- /{name} -->",
            page,
            flags=re.S,
        )
    return page


def main() -> None:
    """Write the blocks."""
    blocks = {"keys": keys(PAGES), "measured": measured(MEASURED)}
    PAGE.write_text(written(PAGE.read_text("utf-8"), blocks), encoding="utf-8")


if __name__ == "__main__":
    main()
