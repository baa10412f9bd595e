"""``datamarket submit``, ``leaderboard`` and ``arena``: what is asked, and tables on stdout."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from datamarket_gym.arena.entry import ArenaEntry
from datamarket_gym.arena.leaderboard import Board, board_of, leaderboard
from datamarket_gym.arena.markdown import markdown_page
from datamarket_gym.arena.page import Section, html_page, sections
from datamarket_gym.arena.submit import submit
from datamarket_gym.arena.suite import private, public, suite
from datamarket_gym.core.errors import DataMarketError, ParameterError
from datamarket_gym.core.extras import require_extra
from datamarket_gym.core.files import write_text
from datamarket_gym.core.progress import shown_on_stderr

_WIDE = 130
"""Columns of a terminal from which on standard errors and costs are shown."""
_COSTS = 2  # the last columns of a table of mechanisms


@dataclass(frozen=True)
class AskedSubmission:
    """What was typed."""

    spec: str
    command: str
    attack: str
    checks: int
    name: str
    authors: str

    def entry(self) -> ArenaEntry:
        """The submission; one thing is submitted at a time."""
        given = [text for text in (self.spec, self.command, self.attack) if text]
        if len(given) != 1:
            raise DataMarketError(
                "submit one thing: a mechanism, as in datamarket submit recommended, or a program with --command, "
                "or an attack with --attack"
            )
        if self.checks and not self.spec:
            raise ParameterError(
                "--checks", self.checks, "only a mechanism of our pipeline can be checked"
            )
        if self.command:
            return ArenaEntry.of_command(self.command, name=self.name, authors=self.authors)
        if self.attack:
            return ArenaEntry.of_attack(self.attack, name=self.name, authors=self.authors)
        return ArenaEntry.of_spec(self.spec, checks=self.checks, name=self.name, authors=self.authors)


def submit_and_show(
    asked: AskedSubmission, out: Path | None, quick: bool, key: Path | None, jobs: int
) -> None:
    """Play the suite, then print the scores and where the bundle is."""
    entry = asked.entry()
    draws = public() if key is None else private(key)
    folder = out or Path("bundles") / _folder(entry, quick)
    with shown_on_stderr() as progress:
        bundle = submit(entry, draws, folder, quick=quick, jobs=jobs, progress=progress)
    show_board(board_of(bundle))
    Console().print(f"\nthe bundle is in {folder}/", highlight=False, markup=False, soft_wrap=True)


def _folder(entry: ArenaEntry, quick: bool) -> str:
    """A folder's name from a submission's."""
    words = re.sub(r"[^\w.@-]+", "-", entry.name).strip("-.") or "submission"
    return f"{words}-quick" if quick else words


def rank_and_show(bundles: Path, out: list[Path], markets: int, keys: list[Path]) -> None:
    """Print the leaderboard and write pages."""
    for path in out:
        if path.suffix not in (".html", ".md"):
            raise ParameterError("--out", str(path), "end it in .html or .md")
        if path.suffix == ".html":
            require_extra("jinja2", "payout")
    with shown_on_stderr(in_logs=bool(markets)) as progress:
        board = leaderboard(
            bundles, markets=markets, draws=[private(key) for key in keys], progress=progress
        )
    show_board(board)
    for path in out:
        page = html_page(board) if path.suffix == ".html" else markdown_page(board, bundles.as_posix())
        write_text(path, page)


def show_board(board: Board) -> None:
    """The tables on a terminal."""
    console = Console()
    for section in sections(board):
        console.print(
            f"{board.suite.name}: {section.title}", style="bold", markup=False, highlight=False
        )
        if section.track == "attack" and console.width < _WIDE:
            for line in section.lines:  # too many mechanisms to stand beside one another
                gains = zip(section.heads, line.cells, strict=True)
                told = "; ".join(f"{head} {cell}" for head, cell in gains)
                console.print(f"{line.place} {line.name}: {told}", markup=False, highlight=False)
        else:
            console.print(_table(section, console.width >= _WIDE), "")
        for line in section.lines:
            if line.what != line.name:
                told = f"{line.name} is {line.what}"
                console.print(told, style="dim", markup=False, highlight=False)
        for text in dict.fromkeys(line.checked for line in section.lines):
            names = ", ".join(line.name for line in section.lines if line.checked == text)
            console.print(f"{text}: {names}", style="dim", markup=False, highlight=False)
    for each in board.refused:
        told = f"not ranked, {each.folder}: {each.why}"
        console.print(told, style="red", markup=False, highlight=False)


def _table(section: Section, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", justify="right")
    table.add_column("submission", overflow="fold", min_width=12)
    shown = len(section.heads) - (0 if wide else _COSTS)
    for head in section.heads[:shown]:
        table.add_column(head, justify="right", overflow="fold")
    for line in section.lines:
        cells = line.cells if wide else [each.split(" ± ")[0] for each in line.cells]
        table.add_row(str(line.place), Text(line.name), *cells[:shown])
    return table


def show_suite() -> None:
    """The suite in words."""
    console, found = Console(), suite()
    console.print(f"{found.name}, hash {found.hash}", highlight=False, markup=False, soft_wrap=True)
    for title, rows in (
        ("task", [(t.name, t.market.task, f"{t.utility.learner}, empty {t.utility.empty}") for t in found.tasks]),
        ("attack", [(a.name, a.attack, f"sees {a.knowledge:.0%} of others' units") for a in found.attacks]),
        ("opponent", [(o.label, o.mechanism, f"{o.checks} checks") for o in found.opponents]),
    ):  # fmt: skip
        table = Table(box=None, pad_edge=False)
        for head in (title, "written", "how"):
            table.add_column(head)
        for row in rows:
            table.add_row(*map(Text, row))
        console.print("", table)
    console.print(f"\n{found.draws} draws of each task; {found.trials} searched attacks in each market",
                  highlight=False)  # fmt: skip
