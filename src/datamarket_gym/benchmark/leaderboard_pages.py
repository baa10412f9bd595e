"""The leaderboard as tables, as an HTML page and as Markdown.

Names, authors, specs and commands are text of strangers: both templates escape them, and none becomes markup or a link.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from datamarket_gym.benchmark.leaderboard import Board, RankedBundle, RankGroup
from datamarket_gym.benchmark.scoring import MechanismScores, Score, gain

MECHANISM_HEADS = (
    "loss", "best response", "worst case", "mean gain", "unfair", "efficiency", "checks", "seconds", "values"
)  # fmt: skip
_MARKUP = re.compile(r"(?i)[\\`*_{}\[\]#!|<>&~$@:]|(?<=www)\.")


@dataclass(frozen=True)
class BoardLine:
    """A submission with its place, its numbers as they are shown, and its mean gains by what was played and task."""

    place: int
    ranked: RankedBundle
    worst: str
    cells: tuple[str, ...]
    tasks: tuple[str, ...]
    gains: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Section:
    """A table of submissions that are ranked beside one another."""

    group: RankGroup
    heads: tuple[str, ...]
    lines: tuple[BoardLine, ...]


def sections(board: Board) -> list[Section]:
    attack_heads = ("mean gain", *(opponent.label for opponent in board.suite.opponents))
    return [
        Section(
            group,
            attack_heads if group.track == "attack" else MECHANISM_HEADS,
            tuple(_line(place, each) for place, each in enumerate(ranked, 1)),
        )
        for group, ranked in board.groups.items()
    ]


def _line(place: int, ranked: RankedBundle) -> BoardLine:
    scores, rows = ranked.scores, ranked.bundle.rows
    if isinstance(scores, MechanismScores):
        worst, evaluations = scores.worst_attack, scores.evaluations
        gains = (scores.loss, scores.best_response, scores.worst_case, scores.mean_gain)
        parts = (_score(scores.fairness_loss, 3), _score(scores.efficiency, 3))
        cost = (f"{scores.seconds:.2g}", "-" if evaluations is None else f"{evaluations:,.0f}")
        cells = (*map(_score, gains), *parts, str(ranked.bundle.entry.checks), *cost)
    else:
        worst, cells = "", (_score(scores.gain), *map(_score, scores.against.values()))
    by_play: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        by_play.setdefault(row.against, {}).setdefault(row.task, []).append(gain(row))
    tasks = tuple(dict.fromkeys(row.task for row in rows))
    means = {name: tuple(f"{np.mean(of[task]):.2f}" for task in tasks) for name, of in by_play.items()}
    return BoardLine(place, ranked, worst, cells, tasks, means)


def _score(score: Score, digits: int = 2) -> str:
    error = "" if score.error is None else f" ± {score.error:.{digits}f}"
    return f"{score.value:.{digits}f}{error}"


def html_page(board: Board) -> str:
    return _rendered("leaderboard.html.j2", board=board)


def markdown_page(board: Board, folder: str) -> str:
    return _rendered("leaderboard.md.j2", board=board, folder=folder)


def _rendered(name: str, board: Board, **values: str) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from datamarket_gym.payout.report.pages import read_template

    environment = Environment(
        loader=PackageLoader("datamarket_gym.benchmark", "templates"),
        autoescape=name.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["plain"] = plain
    style = read_template("base.css")
    return environment.get_template(name).render(
        board=board, suite=board.suite, sections=sections(board), style=style, **values
    )


def plain(text: str) -> str:
    """Escape text so that Markdown, and HTML within it, shows it as it is and makes no link of it."""
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", text)
