"""The leaderboard's tables as lines of text, and as a page that holds everything in itself.

Names, authors, specs and commands are strangers' texts: they are escaped wherever they stand.

The leaderboard as Markdown; strangers' texts are escaped, and none becomes markup or a link.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from datamarket_gym.benchmark.leaderboard import Board, RankedBundle, RankGroup
from datamarket_gym.benchmark.scoring import MechanismScores, Score, gain
from datamarket_gym.benchmark.submissions import Bundle

if TYPE_CHECKING:
    from jinja2 import Template


MECHANISM_HEADS = (
    "loss", "best response", "worst case", "mean gain", "unfair", "efficiency", "checks", "seconds", "values"
)  # fmt: skip


@dataclass(frozen=True)
class BoardLine:
    """One submission: its place, its texts, and its numbers as they are shown."""

    place: int
    name: str
    authors: str
    what: str
    checks: int
    checked: str
    worst: str
    cells: tuple[str, ...]
    id: str
    made: str
    detail: GainTable


@dataclass(frozen=True)
class GainTable:
    """Mean gains by what was played (down) and task (across)."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Section:
    """A table of submissions that are ranked beside one another."""

    title: str
    track: str
    quick: bool
    heads: tuple[str, ...]
    lines: tuple[BoardLine, ...]


def sections(board: Board) -> list[Section]:
    """The board's tables."""
    return [_section(board, group, ranked) for group, ranked in board.groups.items()]


def _section(board: Board, group: RankGroup, ranked: list[RankedBundle]) -> Section:
    heads: tuple[str, ...] = MECHANISM_HEADS
    if group.track == "attack":
        heads = ("mean gain", *(opponent.label for opponent in board.suite.opponents))
    lines = tuple(_line(board, place, each) for place, each in enumerate(ranked, 1))
    return Section(group.title, group.track, group.quick, heads, lines)


def _line(board: Board, place: int, ranked: RankedBundle) -> BoardLine:
    scores, entry, manifest = ranked.scores, ranked.bundle.entry, ranked.bundle.manifest
    worst = ""
    if isinstance(scores, MechanismScores):
        worst = scores.worst_attack
        told = "-" if scores.evaluations is None else f"{scores.evaluations:,.0f}"
        gains = (scores.loss, scores.best_response, scores.worst_case, scores.mean_gain)
        parts = (_score(scores.fairness_loss, 3), _score(scores.efficiency, 3))
        cells = (*map(_score, gains), *parts, str(entry.checks), f"{scores.seconds:.2g}", told)
    else:
        cells = (_score(scores.gain), *map(_score, scores.against.values()))
    version = manifest.versions.get("datamarket-gym", "unknown")
    made = f"datamarket-gym {version}, {manifest.finished[:10]}, {manifest.machine}"
    return BoardLine(
        place, entry.name, entry.authors, entry.what, entry.checks, ranked.checked, worst, cells,
        ranked.bundle.id[:12], made, _detail(ranked.bundle),
    )  # fmt: skip


def _detail(bundle: Bundle) -> GainTable:
    found: dict[str, dict[str, list[float]]] = {}
    for row in bundle.rows:
        found.setdefault(row.against, {}).setdefault(row.task, []).append(gain(row))
    heads = tuple(dict.fromkeys(row.task for row in bundle.rows))
    rows = tuple(
        (against, tuple(f"{np.mean(by_task[task]):.2f}" for task in heads)) for against, by_task in found.items()
    )  # fmt: skip
    return GainTable(heads, rows)


def _score(score: Score, digits: int = 2) -> str:
    error = "" if score.error is None else f" ± {score.error:.{digits}f}"
    return f"{score.value:.{digits}f}{error}"


def html_page(board: Board) -> str:
    """The page."""
    from datamarket_gym.payout.report.pages import read_template

    style = read_template("base.css") + _text("leaderboard.css")
    shown = sections(board)
    return _template().render(board=board, suite=board.suite, sections=shown, style=style)


@lru_cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("datamarket_gym.benchmark", "templates"),
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("leaderboard.html.j2")


def _text(name: str) -> str:
    return (files("datamarket_gym.benchmark") / "templates" / name).read_text(encoding="utf-8")


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
