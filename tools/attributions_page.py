"""Writes docs/attributions.md: what examples/attributions.py types, is answered and measures, on two markets.

The page holds the prose; each scene stands between two comments, `<!-- news-pay -->` and `<!-- /news-pay -->`.
`python tools/attributions_page.py --tools PYTHON` plays both markets (minutes; it needs AG News, see
docs/real-domains.md, and a Python that has torch, captum, dattri and traker) and fills them; without --tools only what
is drawn, whose scores are kept in examples/attribution_scores.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

from three_months import filled, scenes_of, shown

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
PAGE = ROOT / "docs" / "attributions.md"
TABLES = ("news-gains", "news-shares", "drawn-gains")


def play(market: str, folder: Path, tools: str | None = None) -> dict[str, str]:
    """Play a market in a folder that is not there yet; what each scene printed, and how far tools agree."""
    how = [] if tools is None else ["--tools", tools]
    played = scenes_of(EXAMPLES / "attributions.py", folder, "--market", market, *how)
    if tools is not None:
        played["check"] = checked(tools, folder)
    return {f"{market}-{name}": text for name, text in played.items()}


def checked(tools: str, folder: Path) -> str:
    """What attribution_check.py prints on the honest month, under the command."""
    words = ["attribution_check.py", "what-if/june/canonical.parquet", "validation.parquet"]
    script, *rest = words
    run = [tools, "-W", "ignore", str(EXAMPLES / script), *rest]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return f"$ python {' '.join(words)}\n{done.stdout.strip()}"


def written(page: str, scenes: dict[str, str]) -> str:
    """The page with these scenes; those that were not played stay as they are."""
    before = {
        name: text.removeprefix("```\n").removesuffix("\n```\n").strip("\n")
        for name, text in shown(page).items()
    }
    return filled(page, before | scenes, TABLES)


def main() -> None:
    """Write the page anew."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tools", help="the Python that has torch, captum, dattri and traker")
    tools = parser.parse_args().tools
    page = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        page = written(page, play("drawn", Path(folder) / "drawn"))
        if tools is not None:
            page = written(page, play("news", Path(folder) / "news", tools))
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
