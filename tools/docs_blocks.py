"""The blocks of code of a page, the commands in them, and which of them no test runs, and why.

A block runs in CI unless a line before it says why not: ``<!-- not run: minutes -->``. A page whose blocks were printed
by something else says so once: ``<!-- no block is run: printed by examples/three_months.py -->``. A reason begins with
one of ``REASONS``, and a file that it names is there.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docs_links import lines_of

REASONS = (
    "minutes",
    "hours",
    "needs ",
    "starts a server",
    "printed by ",
    "run by ",
    "a fragment",
    "installs ",
)
SHELLS = ("", "console", "sh", "bash", "shell")
PROGRAMS = (
    "datamarket",
    "python",
    "python3",
    "make",
    "pip",
    "dask",
    "docker",
    "git",
    "uv",
    "pytest",
    ".",
)
_OPENS = re.compile(r"^(?:`{3,}|~{3,})\s*([^\s`]*)")
_MARK = re.compile(r"<!-- not run: (.+?) -->")
_PAGE_MARK = re.compile(r"<!-- no block is run: (.+?) -->")


@dataclass(frozen=True)
class CodeBlock:
    """A fenced block: its page, the line it begins at, its language, its text, and why it is not run ("": it is)."""

    page: Path
    line: int
    language: str
    code: str
    not_run: str

    def commands(self) -> list[str]:
        """The commands of a block for a shell; none where it shows what was printed, or something else."""
        if self.language not in SHELLS:
            return []
        joined = self.code.replace("\\\n", " ").splitlines()
        if any(line.startswith("$ ") for line in joined):
            return [line[2:] for line in joined if line.startswith("$ ")]
        return joined_if_typed(joined)

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def joined_if_typed(lines: list[str]) -> list[str]:
    """The lines that are not empty, if each of them is a command; otherwise nothing."""
    lines = [line for line in lines if line.strip() and not line.startswith("#")]
    return lines if lines and all(program(line) in PROGRAMS for line in lines) else []


def program(command: str) -> str:
    """What a command calls, without its folder."""
    first = command.split()[0] if command.split() else ""
    return first.removeprefix(".venv/bin/")


def words_of(command: str) -> list[str]:
    """The words of a command, up to a pipe, without what is said about it after ``#``."""
    words = shlex.split(command, comments=True)
    return words[: words.index("|")] if "|" in words else words


def blocks(page: Path) -> Iterator[CodeBlock]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    all_of_it = _PAGE_MARK.search(text)
    language, began, code, before = "", 0, [], ""
    for number, (line, says) in enumerate(lines_of(text), start=1):
        if says:
            if code:
                raise ValueError(f"{page}:{began}: a block that does not end")
            before = line if line.strip() else before
            continue
        if not began:
            language, began = _OPENS.match(line.lstrip(" >"))[1], number
            continue
        if re.fullmatch(r"[ >]*(`{3,}|~{3,})\s*", line):
            marked = _MARK.search(before) or all_of_it
            yield CodeBlock(page, began, language, "".join(code), marked[1] if marked else "")
            began, code, before = 0, [], ""
        else:
            code.append(line)
