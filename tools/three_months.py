"""Writes docs/three-months.md: what examples/three_months.py types and what it is answered, scene by scene.

The page holds the prose; each scene that it shows stands between two comments, `<!-- name -->` and `<!-- /name -->`.
`python tools/three_months.py` plays the story (a minute; it needs AG News, see docs/real-domains.md) and fills them.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "three_months.py"
PAGE = ROOT / "docs" / "three-months.md"
ARTICLES = 100
TABLES = ("taken", "money")
"""Scenes that are tables; the others are what a terminal shows."""
LEFT_OUT = "[...]"
_BLOCK = re.compile(r"(<!-- ([\w-]+) -->\n)(.*?)(<!-- /\2 -->)", re.DOTALL)
_TEXT = re.compile(r"(  )?(?!ok  )[^\s$┏┃┡│└]")  # no table, no command


def play(folder: Path, number: int = ARTICLES) -> dict[str, str]:
    """Play the story in a folder that is not there yet; what each scene printed."""
    return scenes_of(EXAMPLE, folder, "--articles", str(number))


def scenes_of(example: Path, folder: Path, *options: str) -> dict[str, str]:
    """Play an example in a folder that is not there yet; what each scene printed."""
    words = [sys.executable, "-W", "ignore", str(example), "--out", str(folder), *options]
    done = subprocess.run(words, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode:
        raise SystemExit(f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    said = done.stdout.replace(str(folder.resolve()), "...")  # where it was played
    parts = re.split(r"^== (.+) ==\n", said, flags=re.MULTILINE)[1:]
    return {name: text.strip("\n") for name, text in zip(parts[::2], parts[1::2], strict=True)}


def filled(page: str, scenes: dict[str, str], tables: Sequence[str] = TABLES) -> str:
    """The page with its scenes as they were played; what is said a second time is left out."""
    before: set[str | tuple[str, str]] = set()

    def scene(match: re.Match[str]) -> str:
        opening, name, _, closing = match.groups()
        said = scenes[name]
        if name in tables:
            return f"{opening}{said}\n{closing}"
        return f"{opening}```\n{_once(said, before)}\n```\n{closing}"

    return _BLOCK.sub(scene, page)


def _once(said: str, before: set[str | tuple[str, str]]) -> str:
    """A text without what was said before, where that is several lines: a long one, and those that followed it."""
    lines = said.split("\n")
    pairs = list(zip(["", *lines], lines, strict=False))
    again = [
        bool(_TEXT.match(line)) and (line in before or (last, line) in before) for last, line in pairs
    ]
    kept: list[str] = []
    for known, group in groupby(zip(again, lines, strict=True), key=itemgetter(0)):
        part = [line for _, line in group]
        kept += [LEFT_OUT] if known and len(part) > 1 else part
    before.update(pairs)
    before.update(line for line in lines if len(line) > 60)
    return "\n".join(kept)


def shown(page: str) -> dict[str, str]:
    """The scenes of a page, as they stand there."""
    return {name: text for _, name, text, _ in _BLOCK.findall(page)}


def lasting(text: str) -> str:
    """A text without what is another each time it is played: times, days, hashes and ids."""
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00)?", "TIME", text)
    text = re.sub(r"\b[0-9a-f]{8,}\b", "HASH", text)
    return re.sub(r"(?<= )\d{4}-\d\d-\d\d(?=   | \(days|$)", "DAY", text, flags=re.MULTILINE)


def write(
    page: Path, play: Callable[[Path], dict[str, str]], filled: Callable[[str, dict[str, str]], str]
) -> None:
    """Write a page anew."""
    with tempfile.TemporaryDirectory() as folder:
        scenes = play(Path(folder) / "market")
    page.write_text(filled(page.read_text(encoding="utf-8"), scenes), encoding="utf-8")


if __name__ == "__main__":
    write(PAGE, play, filled)
