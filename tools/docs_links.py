"""Markdown pages of the repository: what in them is code, where their links lead, and links written anew.

Pages are read on a code host and on the site. There, a link to a file that is no page of the site leads to a page that
shows the file, so that nothing on the site needs the code host.
"""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
OF_THE_ROOT = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
)  # pages of the site that do not lie in docs/
LARGEST = (
    100_000  # bytes of a file that is shown as a page; larger ones, and data, are offered for download
)
_FENCE = re.compile(r"^([ >]*)(`{3,}|~{3,})(.*)$")
_LINK = re.compile(r"(?<=\]\()([^()\s]+)(?=\))")
_INCLUDED = re.compile(r"^```\{literalinclude\} (\S+)\n:language: (\w+)\n```$", re.M)
_TOGETHER = re.compile(r"(?<=\d) [±→] (?=\d)|(?<=\(p) (?=[-\d])")
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")


def lines_of(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is prose, and not of a fenced block."""
    fence = ""
    for line in text.splitlines(keepends=True):
        found = _FENCE.match(line.rstrip("\n"))
        if fence:
            closes = found and found[2].startswith(fence) and not found[3].strip()
            fence = "" if closes else fence
            yield line, False
        elif found:
            fence = found[2]
            yield line, False
        else:
            yield line, True


def prose(text: str) -> str:
    """A page without its code."""
    return "".join(_CODE.sub("``", line) for line, says in lines_of(text) if says)


def anchors(text: str) -> set[str]:
    """What links to the headings of a page are called; a second heading of the same words has -1 after them."""
    found: list[str] = []
    for title in re.findall(r"^#+ (.*)$", "".join(line for line, says in lines_of(text) if says), re.M):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        slug = re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")
        found.append(slug if slug not in found else f"{slug}-{found.count(slug)}")
    return set(found)


def pages() -> list[Path]:
    """Every page that people read: those of the root and those in docs/."""
    return [ROOT / name for name in OF_THE_ROOT] + sorted(
        page for page in DOCS.rglob("*.md") if not page.relative_to(DOCS).parts[0].startswith("_")
    )


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """(file, heading or "") of each link of a page to a place in the repository."""
    for target in _LINK.findall(prose(page.read_text(encoding="utf-8"))):
        if not re.match(r"[a-z]+:", target):
            name, _, heading = target.partition("#")
            yield (page.parent / name if name else page).resolve(), heading


def place(file: Path) -> Path:
    """Where a file of the repository is on the site, below its root: a page, a page that shows it, or a download."""
    if file.parent == ROOT and file.name in OF_THE_ROOT:
        return Path(file.name.lower())
    if file.is_relative_to(DOCS) and file.suffix in (".md", ".ipynb", ".svg", ".png"):
        return file.relative_to(DOCS)
    if file.suffix == ".json" or file.stat().st_size > LARGEST:
        return Path("files", file.relative_to(ROOT))
    return Path("source", f"{file.relative_to(ROOT)}.md")


def together(line: str) -> str:
    """A line of prose in which no line break falls between a number and its error."""
    return _TOGETHER.sub(lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), line)


def rewritten(page: Path, needed: Callable[[Path], None]) -> str:
    """The text of a page for the site; ``needed`` is told of every file that it links to and that is no page.

    A number and its error stay on one line, however narrow a column of a table is.
    """
    here = place(page)

    def moved(match: re.Match[str]) -> str:
        target = match[0]
        name, mark, heading = target.partition("#")
        if not name or re.match(r"[a-z]+:", target):
            return target
        file = (page.parent / name).resolve()
        if not file.is_file():
            raise FileNotFoundError(f"{page} links to {target}, which is no file")
        there = place(file)
        if there.parts[0] in ("source", "files"):
            needed(file)
            mark = heading = ""
        return Path(os.path.relpath(there, here.parent)).as_posix() + mark + heading

    def included(match: re.Match[str]) -> str:
        body = (page.parent / match[1]).read_text(encoding="utf-8").rstrip("\n")
        return f"`````{match[2]}\n{body}\n`````"

    text = _INCLUDED.sub(included, page.read_text(encoding="utf-8"))
    return "".join(together(_LINK.sub(moved, line)) if says else line for line, says in lines_of(text))
