"""``datamarket run``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from datamarket_gym.cli.options import Cluster, Data, Device, Jobs, Load, computes_by
from datamarket_gym.core import scripts
from datamarket_gym.core.errors import require_choice
from datamarket_gym.core.machine import available_cores


def command(
    experiment: Annotated[
        str, typer.Argument(help="An experiment (see: datamarket list experiment) or a TOML file.")
    ],
    seeds: Annotated[
        int | None,
        typer.Option(help="How many seeds; the experiment's own count if left out.", min=1),
    ] = None,
    first_seed: Annotated[
        int | None, typer.Option(help="The first seed; the experiment's own if left out.", min=0)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; runs/EXPERIMENT if left out.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(help="Only attacks or mechanisms of these names (comma-separated, * allowed)."),
    ] = None,
    jobs: Jobs = 0,
    device: Device = "cpu",
    cluster: Cluster = "",
    memo: Annotated[
        Path | None, typer.Option(help="A file in which fits are kept, for this and later runs.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Print all tables below the paper's.")
    ] = False,
    data: Data = None,
    load: Load = None,
) -> None:
    """Run an experiment, or resume it, and print its table beside the paper's numbers.

    An experiment of which the paper says nothing prints all its tables. Writes results.parquet, table.json,
    table.md, manifest.json and timings.json. With more seeds, a finished run in the same folder computes the new
    ones alone.
    """
    from datamarket_gym.cli.run import run_and_show
    from datamarket_gym.world.data.files import looking_in

    scripts.load(load or [])
    require_choice("--device", device, ("cpu", "cuda", "auto"))
    with looking_in(data), computes_by(cluster=cluster):
        run_and_show(
            experiment,
            seeds,
            first_seed,
            out,
            only,
            jobs or available_cores(),
            device,
            memo,
            everything=everything,
        )
