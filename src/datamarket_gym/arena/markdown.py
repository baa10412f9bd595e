"""The leaderboard as Markdown; strangers' texts are escaped, and none becomes markup or a link."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from datamarket_gym.arena.leaderboard import Board
from datamarket_gym.arena.page import BoardLine, Section, sections

_RANKING = 4  # of the heads of mechanisms, those before what else is told
_MARKUP = frozenset("\\`*_{}[]#!|<>&~$@:")


def markdown_page(board: Board, folder: str) -> str:
    """The same tables as Markdown, with the command that writes them."""
    lines = [
        "# Leaderboard",
        "",
        f"Written by `datamarket benchmark leaderboard {folder} --out {folder}.md`; do not edit. "
        "What the columns mean, and how to enter: [enter.md](enter.md).",
        "",
        f"Suite {board.suite.name}, hash `{board.suite.hash[:16]}`. Scores are worked out from the rows of bundles; "
        "no bundle says what it scored.",
    ]
    for section in sections(board):
        lines += ["", f"## {section.title}", ""]
        lines += [_best(section), ""]
        parts = _parts_of_scores if section.track == "mechanism" else _parts_of_gains
        for heads, rows in parts(section):
            lines += _table(heads, rows)
        lines.append(_checked(section))
    if board.refused:
        lines += ["", "## Not ranked", ""]
        lines += [f"- {plain(each.folder)}: {plain(each.why)}" for each in board.refused]
    return "\n".join(lines) + "\n"


_Part = tuple[Sequence[str], list[Sequence[str]]]  # the heads of a table and its rows


def _parts_of_scores(section: Section) -> Iterator[_Part]:
    """The table of mechanisms as two, so that each fits a page: what ranks, and what else is told."""
    yield (
        ("", "submission", *section.heads[:_RANKING]),
        [(str(line.place), _entered(line), *line.cells[:_RANKING]) for line in section.lines],
    )
    yield (
        ("", "worst case", *section.heads[_RANKING:]),
        [(str(line.place), plain(line.worst), *line.cells[_RANKING:]) for line in section.lines],
    )


def _parts_of_gains(section: Section) -> Iterator[_Part]:
    """The table of attacks as two: the gain that ranks with its error, and that against each mechanism."""
    yield (
        ("", "submission", section.heads[0]),
        [(str(line.place), _entered(line), line.cells[0]) for line in section.lines],
    )
    yield (
        ("", *(head.replace("/", "/ ") for head in section.heads[1:])),
        [
            (str(line.place), *(cell.split(" ± ")[0] for cell in line.cells[1:]))
            for line in section.lines
        ],
    )


def _table(heads: Sequence[str], rows: list[Sequence[str]]) -> list[str]:
    texts = 2 if heads[1] in ("submission", "worst case") else 1
    rule = "|" + "---|" * texts + "---:|" * (len(heads) - texts)
    return ["| " + " | ".join(heads) + " |", rule, *("| " + " | ".join(row) + " |" for row in rows), ""]


def _entered(line: BoardLine) -> str:
    name = plain(line.name) if line.name == line.what else f"{plain(line.name)}: {plain(line.what)}"
    return f"{name} ({plain(line.authors)})" if line.authors else name


def _best(section: Section) -> str:
    return (
        "Less loss is better."
        if section.track == "mechanism"
        else "More gain is better, for the attacker."
    )


def _checked(section: Section) -> str:
    told = dict.fromkeys(line.checked for line in section.lines)
    if len(told) == 1:
        return f"All {plain(next(iter(told)))}."
    by = {text: [plain(line.name) for line in section.lines if line.checked == text] for text in told}
    return " ".join(
        f"{plain(text[0].upper() + text[1:])}: {'; '.join(names)}." for text, names in by.items()
    )


def plain(text: str) -> str:
    """Text that Markdown, and HTML within it, shows as it is; no address in it becomes a link."""
    told = "".join(f"&#{ord(character)};" if character in _MARKUP else character for character in text)
    return re.sub(r"(?i)www\.", lambda found: f"{found[0][:3]}&#46;", told)
