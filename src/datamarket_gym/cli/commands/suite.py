"""``datamarket suite``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from datamarket_gym.cli.options import Cluster, Device, Jobs, computes_by
from datamarket_gym.core.errors import require_choice
from datamarket_gym.core.machine import available_cores


def command(
    suite: Annotated[str, typer.Argument(help="A suite of experiments, such as synthetic.")],
    seeds: Annotated[
        int | None, typer.Option(help="How many seeds; each experiment's own count if left out.", min=1)
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the runs, one folder each.")] = Path("runs"),
    jobs: Jobs = 0,
    device: Device = "cpu",
    cluster: Cluster = "",
) -> None:
    """Run all experiments of a suite in order, or go on where an earlier run stopped."""
    from datamarket_gym.cli.run import run_and_tell

    require_choice("--device", device, ("cpu", "cuda", "auto"))
    with computes_by(cluster=cluster):
        run_and_tell(suite, seeds, out, jobs or available_cores(), device)
