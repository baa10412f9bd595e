"""Takes the pictures of docs/explorer.md: starts the explorer on a small market and on the results of this repository.

Usage: python tools/screenshots.py [--only NAME] [--market FOLDER] [--out docs/figures]

The market is made by `tools/demo_market.py` (a minute or two) unless a folder of it is named. Seeds are fixed, nothing
moves, and what depends on the clock (when a run was entered, and its id) is written as it would be on 1 July.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import demo_market

ROOT = Path(__file__).parents[1]
WIDE, PHONE, LONG = (1280, 900), (400, 860), (1280, 2250)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
)
STILL = r"""() => {
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    node.data = node.data.replace(/20\d\d-\d\d-\d\d \d\d:\d\d/g, "2026-07-01 09:00")
      .replace(/\b[0-9a-f]{16}\b/g, "5a1f0c2e9b7d4e36");
  }
}"""
"""Of a page: dates and ids of runs that are of this very day."""


@dataclass(frozen=True)
class Shot:
    """One picture: of which address, how wide, and in which colours."""

    name: str
    path: str
    size: tuple[int, int] = WIDE
    dark: bool = False


TABLES = {"submissions": "market/tables/june.csv", "validation": "market/tables/wanted.csv"}
COLUMNS = {
    "columns.id": "id", "columns.identity": "writer", "columns.label": "topic", "columns.time": "received",
    "columns.text": "note", "encoder": "ngrams", "amount": "1500.00", "currency": "EUR", "period": "June 2026",
}  # fmt: skip
SHOTS = (
    Shot("market", "/market?seed=3", size=LONG),
    Shot("market-dark", "/market?seed=3&attack=copycat(sigma%3D0.5)", size=LONG, dark=True),
    Shot("market-phone", "/market?seed=3", size=PHONE),
    Shot("threshold", "/threshold"),
    Shot("threshold-phone", "/threshold", size=PHONE, dark=True),
    Shot("benchmark", "/benchmark?result=results&name=s2"),
    Shot("benchmark-dark", "/benchmark?result=copies", dark=True),
    Shot("payout", "/payout"),
    Shot(
        "new",
        f"/payout/new?files={quote(json.dumps(TABLES))}&set={quote(json.dumps(COLUMNS))}",
        size=LONG,
    ),
    Shot("run", "/payout/run?run=market%2Fjune"),
    Shot("payee", "/payout/run?run=market%2Fjune&payee=quick+copy"),
    Shot("run-phone", "/payout/run?run=market%2Fjune", size=PHONE, dark=True),
    Shot("checks", "/payout/checks?run=market%2Fjune&step=review"),
    Shot("checks-phone", "/payout/checks?run=market%2Fjune&step=review", size=PHONE),
    Shot("ledger", "/payout/ledger?ledger=market%2Fledger.sqlite"),
)


@contextlib.contextmanager
def explorer(*named: Path) -> Iterator[str]:
    """The explorer as anybody starts it; its address."""
    command = "from datamarket_gym.cli import main; main()"
    typed = [sys.executable, "-c", command, "explore", *map(str, named), "--no-browser", "--port", "0"]
    process = subprocess.Popen(typed, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"http://\S+", line):
                yield found.group().rstrip("/")
                break
        else:
            raise SystemExit("the explorer did not start")
    finally:
        process.terminate()
        process.wait(20)


def take(browser: Any, url: str, shot: Shot, out: Path) -> Path:
    """One picture, once the page says that it is ready and nothing is asked any more."""
    context = browser.new_context(
        viewport={"width": shot.size[0], "height": shot.size[1]},
        color_scheme="dark" if shot.dark else "light",
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
    )
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.set_default_timeout(90_000)
    page.goto(url + shot.path)
    page.wait_for_selector("main[data-ready]")
    page.wait_for_load_state("networkidle")
    page.wait_for_selector("main .progress", state="detached")
    page.wait_for_timeout(500)
    path = out / f"explorer-{shot.name}.png"
    page.evaluate(STILL)
    page.screenshot(path=path, animations="disabled", caret="hide")
    wide = page.evaluate("document.documentElement.scrollWidth")
    if wide > shot.size[0]:
        wrong.append(f"{wide} pixels wide on a screen of {shot.size[0]}")
    context.close()
    for each in wrong:
        print(f"{shot.name}: {each}", file=sys.stderr)
    return path


def main() -> None:
    """Take them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", help="a picture by its name; repeatable")
    parser.add_argument("--market", type=Path, help="a folder that tools/demo_market.py has made")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "figures")
    chosen = parser.parse_args()
    from playwright.sync_api import sync_playwright

    program = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if program is None:
        raise SystemExit("there is no chromium to take pictures with")
    with tempfile.TemporaryDirectory() as folder:
        made = chosen.market or Path(folder) / "demo"
        if chosen.market is None:
            demo_market.make(made)
        chosen.out.mkdir(parents=True, exist_ok=True)
        os.environ["TZ"] = "UTC"
        named = (made / "market", made / "results" / "copies", ROOT / "docs" / "results")
        with explorer(*named) as url, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
            for shot in SHOTS:
                if not chosen.only or shot.name in chosen.only:
                    print(take(browser, url, shot, chosen.out))
            browser.close()


if __name__ == "__main__":
    main()
