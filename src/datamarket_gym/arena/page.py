"""The leaderboard's tables as lines of text, and as a page that holds everything in itself.

Names, authors, specs and commands are strangers' texts: they are escaped wherever they stand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from datamarket_gym.arena.bundle import Bundle
from datamarket_gym.arena.leaderboard import Board, RankedBundle, RankGroup
from datamarket_gym.arena.scores import MechanismScores, Score, gain

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
    from datamarket_gym.payout.report.html import template_text

    style = template_text("base.css") + _text("leaderboard.css")
    shown = sections(board)
    return _template().render(board=board, suite=board.suite, sections=shown, style=style)


@lru_cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("datamarket_gym.arena", "templates"),
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("leaderboard.html.j2")


def _text(name: str) -> str:
    return (files("datamarket_gym.arena") / "templates" / name).read_text(encoding="utf-8")
