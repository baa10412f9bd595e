"""``datamarket benchmark``: the suite, private keys, submissions and the leaderboard."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from typer import Argument, Option

from datamarket_gym import registry
from datamarket_gym.benchmark.bundles import BenchmarkEntry
from datamarket_gym.benchmark.leaderboard import Board, board_of
from datamarket_gym.benchmark.leaderboard import leaderboard as rank
from datamarket_gym.benchmark.leaderboard_pages import html_page, markdown_page, sections
from datamarket_gym.benchmark.runner import submit as play
from datamarket_gym.benchmark.suite import make_key, private, public
from datamarket_gym.benchmark.suite import suite as benchmark_suite
from datamarket_gym.cli.terminal import Jobs, Load, make_list, print_rows, say, with_options
from datamarket_gym.errors import DataMarketError, ParameterError, require_extra
from datamarket_gym.execution.files import write_text
from datamarket_gym.execution.parallel import available_cores
from datamarket_gym.execution.progress import shown_on_stderr
from datamarket_gym.payout.settings import option
from datamarket_gym.registry import Document

_WIDE = 130  # columns of a terminal from which on submissions are rows of a table

benchmark = typer.Typer(
    no_args_is_help=True,
    help="DataMarket-v1: evaluate a mechanism, a program or an attack, and rank the results.",
)


@benchmark.command("suite")
def suite() -> None:
    """Show the tasks, utilities and attacks of the benchmark, and the hash that every result carries."""
    played = benchmark_suite()
    say(f"{played.name}, hash {played.hash}", whole=True)
    tables: dict[str, list[Sequence[str]]] = {
        "task": [
            (t.name, t.market.task, f"{t.utility.learner}, empty {t.utility.empty}")
            for t in played.tasks
        ],
        "attack": [
            (a.name, a.attack, f"sees {a.knowledge:.0%} of others' units") for a in played.attacks
        ],
        "opponent": [(o.label, o.mechanism, f"{o.checks} checks") for o in played.opponents],
    }
    for title, rows in tables.items():
        say("")
        print_rows(make_list(title, "written", "how"), rows)
    say(f"\n{played.draws} draws of each task; {played.trials} searched attacks in each market")


@benchmark.command("key")
def key(file: Annotated[Path, Argument(help="File of the key.")]) -> None:
    """Make a private key, which draws markets that others cannot prepare for."""
    typer.echo(f"{file}: keep it secret. Bundles that use it carry {make_key(file).commitment}")


class SubmitOptions(Document):
    """The options of ``datamarket benchmark submit``."""

    program: str = option(
        "Instead of SPEC, a program that speaks the file protocol (docs/protocol.md).",
        "",
        option="command",
    )
    attack: str = option(
        "Instead of SPEC, an attack, for the attack track; {0.5} is noise in standard deviations.", ""
    )
    checks: int = option("Units of each payee that are spot-checked.", 0, ge=0)
    name: str = option("Its name on the leaderboard.", "")
    authors: str = option("Who submits it.", "")
    out: Path | None = option("Folder of the result; bundles/NAME if left out.")
    quick: bool = option("Run one market only, as a test; such a result is not ranked.", False)
    private_key: Path | None = option("Private key for further markets (see: datamarket benchmark key).")


@benchmark.command("submit")
@with_options(SubmitOptions)
def submit(
    options: SubmitOptions,
    spec: Annotated[
        str | None, Argument(help="A mechanism, by name (see: datamarket list mechanism) or as JSON.")
    ] = None,
    jobs: Jobs = 0,
    load: Load = None,
) -> None:
    """Evaluate a mechanism, a program or an attack on DataMarket-v1, and write a result for the leaderboard.

    The result is a folder, called a bundle. The same command resumes a run that was interrupted. See docs/enter.md.
    """
    registry.load(load or [])
    program, attack, checks = options.program, options.attack, options.checks
    if sum(map(bool, (spec, program, attack))) != 1:
        raise DataMarketError(
            "submit one thing: a mechanism, as in datamarket benchmark submit recommended, or a program with "
            "--command, or an attack with --attack"
        )
    names = {"name": options.name, "authors": options.authors}
    if spec:
        entry = BenchmarkEntry.of_spec(spec, checks=checks, **names)
    elif checks:
        raise ParameterError("--checks", checks, "only a mechanism of our pipeline can be checked")
    elif program:
        entry = BenchmarkEntry.of_command(program, **names)
    else:
        entry = BenchmarkEntry.of_attack(attack, **names)
    draws = public() if options.private_key is None else private(options.private_key)
    file_name = re.sub(r"[^\w.@-]+", "-", entry.name).strip("-.") or "submission"
    folder = options.out or Path("bundles") / (f"{file_name}-quick" if options.quick else file_name)
    with shown_on_stderr() as progress:
        bundle = play(
            entry, draws, folder, quick=options.quick, jobs=jobs or available_cores(), progress=progress
        )
    _print_board(board_of(bundle))
    say(f"\nthe bundle is in {folder}/", whole=True)


@benchmark.command("leaderboard")
def leaderboard(
    bundles: Annotated[Path, Argument(help="Folder of bundles, one folder each.")],
    out: Annotated[
        list[Path] | None, Option(help="Also write a page: FILE.html or FILE.md; repeatable.")
    ] = None,
    recompute: Annotated[
        int,
        Option(help="Run this many markets of each bundle again, drawn at random, and compare.", min=0),
    ] = 0,
    private_key: Annotated[
        list[Path] | None, Option(help="Private key, to run its markets again; repeatable.")
    ] = None,
    load: Load = None,
) -> None:
    """Verify bundles and rank them; one that fails is listed with the reason.

    Scores are computed from the rows of each bundle. No code of a bundle is loaded or run.
    """
    registry.load(load or [])
    for path in out or []:
        if path.suffix not in (".html", ".md"):
            raise ParameterError("--out", str(path), "end it in .html or .md")
        require_extra("jinja2", "payout")
    with shown_on_stderr(in_logs=bool(recompute)) as progress:
        draws = [private(each) for each in private_key or []]
        board = rank(bundles, markets=recompute, draws=draws, progress=progress)
    _print_board(board)
    for path in out or []:
        page = html_page(board) if path.suffix == ".html" else markdown_page(board, bundles.as_posix())
        write_text(path, page)


def _print_board(board: Board) -> None:
    wide = Console().width >= _WIDE
    for section in sections(board):
        say(f"{board.suite.name}: {section.group.title}", "bold")
        if wide:
            figures = range(2, 2 + len(section.heads))
            table = make_list("", "submission", *section.heads, right=figures)
            lines = ((str(e.place), e.ranked.bundle.entry.name, *e.cells) for e in section.lines)
            print_rows(table, lines)
            say("")
        by_check: dict[str, list[str]] = {}
        for line in section.lines:
            entry = line.ranked.bundle.entry
            by_check.setdefault(line.ranked.checked, []).append(entry.name)
            if not wide:
                scores = zip(section.heads, line.cells, strict=True)
                say(f"{line.place} {entry.name}: {'; '.join(f'{head} {cell}' for head, cell in scores)}")
            if entry.what != entry.name:
                say(f"{entry.name} is {entry.what}", "dim")
        for text, names in by_check.items():
            say(f"{text}: {', '.join(names)}", "dim")
    for each in board.refused:
        say(f"not ranked, {each.folder}: {each.why}", "red")
