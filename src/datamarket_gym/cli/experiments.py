"""``datamarket run``, ``suite``, ``results``, ``figures``, ``list`` and ``baselines``: experiments."""

from __future__ import annotations

import json
import textwrap
import warnings
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from typer import Argument, Option

from datamarket_gym import registry
from datamarket_gym.benchmark.baselines.environments import (
    BASELINES,
    baseline_named,
    baselines_folder,
    install,
    installed,
)
from datamarket_gym.cli.terminal import (
    Cluster,
    Data,
    Device,
    Jobs,
    Load,
    compute_context,
    make_list,
    print_rows,
    say,
    with_options,
)
from datamarket_gym.errors import (
    DataMarketError,
    ParameterError,
    PluginWarning,
    UnknownNameError,
    require_choice,
    require_extra,
)
from datamarket_gym.evidence.graph import collect_market_warnings
from datamarket_gym.execution.files import write_text
from datamarket_gym.execution.parallel import available_cores, gpu_name
from datamarket_gym.execution.progress import shown_on_stderr
from datamarket_gym.experiments import ExperimentSpec, builtin_specs, parse_spec, run_experiment
from datamarket_gym.experiments.cells import Row, attacks_of
from datamarket_gym.experiments.presets import draw, figures_of
from datamarket_gym.experiments.reproduction import (
    PaperComparison,
    compare_with_paper,
    paper_tables,
    reasons,
    result_pages,
    sentences,
    summarize,
)
from datamarket_gym.experiments.results import (
    as_built_in,
    collect,
    is_finished,
    list_results,
    read_results,
)
from datamarket_gym.experiments.runner import run_suite
from datamarket_gym.experiments.tables import as_text, grids
from datamarket_gym.market.datasets import looking_in
from datamarket_gym.payout.settings import option
from datamarket_gym.registry import HOMES, Document, broken_plugins, components, describe, lookup

DEVICES = ("cpu", "cuda", "auto")


class RunOptions(Document):
    """The options of ``datamarket run``."""

    seeds: int | None = option("How many seeds; as the experiment says if left out.", ge=1)
    first_seed: int | None = option("The first seed; as the experiment says if left out.", ge=0)
    out: Path | None = option("Folder for the results; runs/EXPERIMENT if left out.")
    only: str | None = option("Only these attacks or mechanisms: names separated by commas, * allowed.")
    cache: Path | None = option(
        "File of the utility cache: values computed once, for this and later runs."
    )
    everything: bool = option("Also print the tables that the paper does not have.", False, option="all")
    allow_programs: bool = option(
        "Let a TOML file start the programs that it names as mechanisms; they run with your rights.",
        False,
    )


@with_options(RunOptions)
def run(
    experiment: Annotated[
        str, Argument(help="An experiment (see: datamarket list experiment), or a TOML file.")
    ],
    options: RunOptions,
    jobs: Jobs = 0,
    device: Device = "cpu",
    cluster: Cluster = "",
    data: Data = None,
    load: Load = None,
) -> None:
    """Run an experiment, and print its table beside the paper's numbers.

    The same command resumes a run that was interrupted; with more seeds, it computes the new ones alone. Writes
    results.parquet, table.json, table.md, manifest.json and timings.json.
    """
    registry.load(load or [])
    require_choice("--device", device, DEVICES)
    with looking_in(data), compute_context(cluster=cluster):
        spec = _spec(experiment)
        changes = options.model_dump(include={"seeds", "first_seed", "only"}, exclude_none=True)
        spec = spec.model_copy(update=changes)
        out = options.out or Path("runs") / spec.name
        with collect_market_warnings() as warned, shown_on_stderr() as progress:
            rows = run_experiment(
                spec,
                out,
                jobs=jobs or available_cores(),
                device=device,
                cache=options.cache,
                progress=progress,
                programs=options.allow_programs or not experiment.endswith(".toml"),
            )
    width = Console().width
    say(f"{spec.title}\n", "bold")
    shown, tables = compare_with_paper(spec.name, rows), grids(rows, spec.tables)
    if shown:
        say(_paper(spec, rows, shown, width), whole=True)
    if options.everything or not shown:
        say(as_text(tables, width), whole=True)
    for warning in warned:
        say(f"Warning: {warning}.", "red")
    if shown and not options.everything:
        say(f"All {len(tables)} tables: the same command with --all, or {out}/table.md", whole=True)
    drawn = [out / f"{name}.svg" for name in figures_of(spec.name) or [spec.name]]
    figures = ", ".join(map(str, drawn)) if all(file.exists() for file in drawn) else ""
    say(f"Figure: {figures or f'datamarket figures {out}'}", whole=True)
    say(f"Results, tables and manifest: {out}/", whole=True)


def _spec(experiment: str) -> ExperimentSpec:
    if not experiment.endswith(".toml"):
        spec: ExperimentSpec = lookup("experiment", experiment)
        return spec
    path = Path(experiment)
    if not path.is_file():
        raise DataMarketError(f"there is no file {experiment!r}; check the path")
    return parse_spec(path.read_text(encoding="utf-8"), path.name)


def _paper(spec: ExperimentSpec, rows: list[Row], shown: list[PaperComparison], width: int) -> str:
    """Write the paper's table, how many of its numbers are within our tolerance, and why the others are not."""
    built_in = builtin_specs()[spec.name]
    tables = paper_tables(rows, _names(spec) - _names(built_in))
    parts = [as_text(tables, width)] if tables else []
    parts.append("\n".join(_wrap(f"- {text}", width) for text in sentences(shown)))
    lines = [f"{summarize(shown)}."]
    if spec.seeds < built_in.seeds:
        seeds = f"{spec.seeds} of the experiment's {built_in.seeds} seeds"
        lines.append(f"This run has {seeds}: expect more cells outside.")
    lines += [_wrap(text, width) for text in reasons(shown)]
    return "\n\n".join(filter(None, [*parts, "\n".join(lines)])) + "\n"


def _names(spec: ExperimentSpec) -> set[str]:
    """Collect the mechanisms and attacks that an experiment lists, as tables name them."""
    mechanisms = {mechanism.name for entry in spec.mechanisms for mechanism, _ in entry.expand()}
    return mechanisms | {name for name, _ in attacks_of(spec)}


def _wrap(text: str, width: int) -> str:
    return textwrap.fill(text, width, subsequent_indent="  ", break_on_hyphens=False)


def suite(
    name: Annotated[str, Argument(metavar="SUITE", help="A suite of experiments, such as synthetic.")],
    seeds: Annotated[
        int | None, Option(help="How many seeds; as the experiment says if left out.", min=1)
    ] = None,
    out: Annotated[Path, Option(help="Folder for the runs, one folder each.")] = Path("runs"),
    jobs: Jobs = 0,
    device: Device = "cpu",
    cluster: Cluster = "",
) -> None:
    """Run all experiments of a suite in order; the same command resumes one that was interrupted."""
    require_choice("--device", device, DEVICES)
    specs = [spec.model_copy(update={"seeds": seeds or spec.seeds}) for spec in members(name, device)]
    with compute_context(cluster=cluster), shown_on_stderr() as progress:
        seconds = run_suite(specs, out, jobs=jobs or available_cores(), device=device, progress=progress)
    rows = []
    for spec in specs:
        timings = json.loads((out / spec.name / "timings.json").read_text(encoding="utf-8"))
        rows.append((spec.name, str(timings["cells"]), f"{timings['cell_seconds']:.1f}"))
    print_rows(make_list("experiment", "cells", "seconds, added up", right=(1, 2)), rows)
    say(f"\n{seconds:,.1f} seconds by the clock for all of them")


def members(suite: str, device: str) -> list[ExperimentSpec]:
    """List the experiments of a suite in order; those that need a GPU only where there is one to use."""
    specs = builtin_specs().values()
    suites = {spec.suite for spec in specs if spec.suite}
    if suite not in suites:
        raise UnknownNameError("suite", suite, suites)
    gpu = device == "cuda" or (device == "auto" and gpu_name())
    return [s for s in specs if s.suite == suite and (s.device == "any" or gpu)]


def results(
    runs: Annotated[
        Path | None,
        Argument(
            help="Folder of runs whose results are added; without it the pages are only rewritten."
        ),
    ] = None,
    out: Annotated[Path, Option(help="The front page to write.")] = Path("docs/results.md"),
) -> None:
    """Write the pages of results: a front page, and for each experiment all tables beside the paper's numbers.

    The results of each experiment are stored as one compact file in the folder named as the front page (docs/results),
    with its page beside it.
    """
    if out.suffix != ".md":
        raise ParameterError("out", str(out), "the pages are Markdown; name a file that ends in .md")
    folder = out.with_suffix("")
    for name in collect(runs, folder) if runs is not None else ():
        typer.echo(f"{folder / name}.json")
    for place, text in result_pages(folder).items():
        write_text(out.parent / place, text)
        typer.echo(str(out.parent / place))


def figures(
    folder: Annotated[
        Path,
        Argument(
            metavar="RESULTS",
            help="Folder of a run, of several runs, or of compact results (see: datamarket results).",
        ),
    ] = Path("docs/results"),
    out: Annotated[
        Path | None,
        Option(
            help="Folder for the figures; if left out, that of the run, and docs/figures for compact results."
        ),
    ] = None,
) -> None:
    """Draw figures of results, as SVG and PNG; nothing is computed again.

    For an experiment of your own, the figure shows the gain of every attack under every mechanism.
    """
    require_extra("matplotlib", "figures")  # before anything is read
    places = [
        place for place in list_results(folder) if place.form == "compact" or is_finished(place.path)
    ]
    if not places:
        raise DataMarketError(
            f"there is neither a finished run nor a compact result in {str(folder)!r}; run an experiment first "
            "(datamarket run s2), then: datamarket figures runs/s2"
        )
    results = [(place, read_results(place)) for place in places]
    others = {place.name: result.rows for place, result in results}
    for place, result in results:
        spec = result.spec
        into = out or (place.path if place.form == "run" else Path("docs/figures"))
        # A run has its experiment's own figures, if it was run as that is built in, else the general one.
        own = (
            figures_of(spec.name)
            if place.form == "compact" or as_built_in(result, builtin_specs())
            else []
        )
        general, title = {} if own else {"of": ""}, f"{spec.name}: {spec.title}"
        for name in own or [spec.name]:
            for file in draw(name, result.rows, into, title=title, others=others, **general):
                typer.echo(str(file))


def list_(
    kind: Annotated[
        str | None, Argument(help="One kind of component, such as attack or utility.")
    ] = None,
    load: Load = None,
) -> None:
    """List every registered component, each with a line."""
    registry.load(load or [])
    warnings.simplefilter("ignore", PluginWarning)  # they are listed at the end
    kind = "learner" if kind == "utility" else kind  # as the registry calls it
    rows = []
    for each in [kind] if kind else sorted(HOMES):
        for name in components(each):
            component = describe(each, name)
            line = ": ".join(filter(None, [component.title, component.summary]))
            rows.append(("utility" if each == "learner" else each, name, line))
    table = make_list("kind", "name", "what it is")
    table.columns[1].no_wrap = True
    print_rows(table, rows)
    for why in broken_plugins().values():
        say(f"\n{why}", whole=True)


baselines = typer.Typer(
    no_args_is_help=True,
    help="Compare with other data-valuation libraries, each installed in an environment of its own.",
)


@baselines.command("list")
def list_baselines() -> None:
    """List the other libraries, which are installed, and the names of their mechanisms."""
    table = make_list("library", "installed", "mechanisms")
    for name, library in BASELINES.items():
        state = f"no: datamarket baselines install {name}"
        if version := installed(name):
            state = f"{version['version']}, Python {version['python']}"
        table.add_row(name, state, " ".join(f"baseline@{name}-{way}" for way in library.valuators))
    Console().print(table)
    say(f"\nenvironments lie in {baselines_folder()}", whole=True)


@baselines.command("install")
def install_baselines(
    names: Annotated[list[str], Argument(help="Libraries to install (see: datamarket baselines list).")],
    python: Annotated[
        Path | None, Option(help="Python of the environment; this one if left out.")
    ] = None,
) -> None:
    """Install other libraries, each in a new environment.

    Environments lie in the folder DATAMARKET_BASELINES, or in the user's data folder.
    """
    for name in names:
        baseline_named(name)
    for name in names:
        version = install(name, python, lambda line: typer.echo(line, err=True))
        typer.echo(f"{name} {version['version']} is installed, with Python {version['python']}")
