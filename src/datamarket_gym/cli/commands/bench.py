"""``datamarket bench``: engine and peers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from datamarket_gym.cli.options import Device
from datamarket_gym.core.errors import require_choice

group = typer.Typer(no_args_is_help=True, help="Time the engine, against plain loops and against peers.")

Json = Annotated[bool, typer.Option("--json", help="Print a JSON list instead of a table.")]
Save = Annotated[Path | None, typer.Option(help="Also write the rows to this JSON file.")]


@group.command("engine")
def engine(
    full: Annotated[
        bool, typer.Option("--full", help="All workloads and whole loops (minutes).")
    ] = False,
    as_json: Json = False,
    save: Save = None,
    device: Device = "cpu",
    jobs: Annotated[int, typer.Option(help="Threads inside a fit; 0 uses every core.", min=0)] = 0,
) -> None:
    """Our engine against a plain scikit-learn loop on one core, in one run."""
    from datamarket_gym.bench.engine import engine_rows
    from datamarket_gym.bench.page import show

    require_choice("--device", device, ("cpu", "cuda", "auto"))
    show(engine_rows(full, device, jobs), as_json, save, f"The coalition engine on {device}")


@group.command("scaling")
def scaling(
    as_json: Json = False,
    save: Save = None,
    jobs: Annotated[int, typer.Option(help="Threads inside a fit; 0 uses every core.", min=0)] = 0,
) -> None:
    """How the engine's cost grows with players, rows, features and classes."""
    from datamarket_gym.bench.page import show
    from datamarket_gym.bench.scaling import scaling_rows

    show(scaling_rows(jobs), as_json, save, "How the cost grows")


@group.command("peers")
def peers(
    as_json: Json = False,
    save: Save = None,
) -> None:
    """Our engine against the peers that are installed (datamarket peers list), side by side in one run."""
    from datamarket_gym.bench.page import show
    from datamarket_gym.bench.peers import peer_rows

    show(peer_rows(), as_json, save, "Peers, side by side")


@group.command("page")
def page(
    results: Annotated[Path, typer.Argument(help="Folder with the JSON files of --save.")] = Path(
        "docs/benchmarks"
    ),
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("docs/benchmarks.md"),
) -> None:
    """Write the benchmark page from saved results."""
    from datamarket_gym.bench.page import benchmark_page
    from datamarket_gym.core.files import write_text

    files = sorted(results.glob("*.json"))
    write_text(out, benchmark_page([json.loads(file.read_text(encoding="utf-8")) for file in files]))
