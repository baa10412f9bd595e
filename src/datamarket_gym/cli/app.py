"""Commands, their options and their help. Heavy imports happen inside the commands."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from datamarket_gym import __version__
from datamarket_gym.errors import DataMarketError, ParameterError

app = typer.Typer(
    name="datamarket",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Pay people for training data without paying cheats.",
)

Jobs = Annotated[int, typer.Option(help="Processes to use; 0 uses every core.", min=0)]
Device = Annotated[str, typer.Option(help="Where models are fitted: cpu, cuda or auto.")]


def main() -> None:
    """Run the command line; a user's mistake is one readable line and exit code 2."""
    try:
        app()
    except DataMarketError as error:
        sys.stderr.write(f"datamarket: {error}\n")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        sys.stderr.write("datamarket: interrupted; run the same command again to resume\n")
        raise SystemExit(130) from None


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"datamarket-gym {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    attack: Annotated[
        str, typer.Option(help="Attack whose payments are shown provider by provider.")
    ] = "near_duplicate_2x_sybils",
    seeds: Annotated[int, typer.Option(help="Markets over which gains are averaged.", min=1)] = 5,
) -> None:
    """A small market, honest and attacked, paid by Shapley and by the recommended mechanism."""
    from datamarket_gym.cli.demo import show_demo

    show_demo(attack, seeds)


@app.command("list")
def list_(
    kind: Annotated[str | None, typer.Argument(help="One kind of plug point, such as attack.")] = None,
) -> None:
    """Name every plug point that is registered, with a line each."""
    from datamarket_gym.cli.listing import show_list

    show_list(kind)


@app.command()
def run(
    experiment: Annotated[
        str, typer.Argument(help="An experiment (see: datamarket list experiment) or a TOML file.")
    ],
    seeds: Annotated[
        int | None,
        typer.Option(help="How many seeds; the experiment's own count if left out.", min=1),
    ] = None,
    first_seed: Annotated[int, typer.Option(help="The first seed.", min=0)] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; runs/EXPERIMENT if left out.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(help="Only attacks or mechanisms of these names (comma-separated, * allowed)."),
    ] = None,
    jobs: Jobs = 0,
    device: Device = "cpu",
) -> None:
    """Run an experiment, or resume it, and print its table beside the paper's numbers.

    Writes results.parquet, table.json, table.md, manifest.json and timings.json.
    """
    from datamarket_gym.cli.run import run_and_show

    if device not in ("cpu", "cuda", "auto"):
        raise ParameterError("--device", device, "choose one of cpu, cuda, auto")
    run_and_show(experiment, seeds, first_seed, out, only, jobs or os.cpu_count() or 1, device)
