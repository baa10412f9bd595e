"""``datamarket theta``: measure which similarity threshold embeddings allow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import table as rich
from rich.console import Console

from datamarket_gym.cli import options
from datamarket_gym.data.inputs import are_numbers, is_labelled
from datamarket_gym.data.readers.databases import as_files
from datamarket_gym.evidence.admissible_interval import Admissibility
from datamarket_gym.execution.files import write_text
from datamarket_gym.market.datasets import DOMAINS, Embeddings, looking_in
from datamarket_gym.payout.settings import payout_spec
from datamarket_gym.payout.threshold import ThetaCheck, domain_task, in_words, recommended, table_rows


@options.with_settings((*options.TABLE,))
def theta(
    embeddings: Annotated[
        str,
        typer.Argument(
            help="Embeddings (.npz, .npy, or a table with a column 'embedding' or 'features' as for `pay`), "
            "or a domain: cifar10, stl10, agnews, imdb."
        ),
    ],
    settings: dict[str, Any],
    partition: Annotated[
        str,
        typer.Option(
            help="How honest providers come by their units: iid, class_stratified, dirichlet@0.5, ..., "
            "or identities (the table's own). A domain has its own default."
        ),
    ] = "",
    providers: Annotated[int, typer.Option(help="Providers in a simulated market.", min=2)] = 4,
    per_provider: Annotated[int, typer.Option(help="Units of each.", min=1)] = 50,
    trials: Annotated[int, typer.Option(help="Simulated markets.", min=1)] = 30,
    variants: Annotated[
        str,
        typer.Option(help="The attack whose copies must be matched; see: datamarket list attack."),
    ] = "near_duplicate_2x_sybils@0.02",
    sample: Annotated[int, typer.Option(help="Units of which variants are made.", min=1)] = 5000,
    cutoff: Annotated[float, typer.Option(help="Tolerated share of mixed components.")] = 0.10,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.")] = 0,
    json_: Annotated[
        Path | None, typer.Option("--json", help="Write everything that was found to this file.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the curve and the bounds (.png, .svg or .pdf).")
    ] = None,
    data: options.Data = None,
    config: options.Config = None,
) -> None:
    """Measure which similarity threshold these embeddings allow.

    Prints the theta that `recommended` takes where these are the validation rows (or the reference rows), by the
    false-match cost of lineage: a share of pay by 5-NN accuracy, whatever a run pays for. Then the check for
    components, by which the paper's mechanisms match: two floors, a ceiling, the admissible interval and a verdict.
    The options are those of the second. Columns are named as for `pay`.
    """
    check = ThetaCheck(partition, providers, per_provider, trials, variants, sample, cutoff, seed)
    with looking_in(data):
        domain = embeddings if embeddings in DOMAINS else ""
        rows = domain_task(domain).pool() if domain else _read(embeddings, config, settings)
        found = check.of_domain(domain) if domain else check.of(rows.training())
        policy = recommended(rows)
    if json_ is not None:
        both = found.as_dict() | {"recommended": policy.model_dump(mode="json")}
        write_text(json_, json.dumps(both, indent=2) + "\n")
    if plot is not None:
        found.save_plot(plot)
    console = Console()
    console.print(in_words(policy), style="green" if policy.theta else "red", highlight=False)
    classes = rows.label is not None and is_labelled(rows.label) and not are_numbers(rows.label)
    console.print(_table(found, classes))
    console.print(
        f"Components: {found.verdict}", style="green" if found.usable else "red", highlight=False
    )


def _read(embeddings: str, config: Path | None, settings: dict[str, Any]) -> Embeddings:
    # Nothing is paid here; but the settings of a payout run include an amount.
    spec = payout_spec(config, {"amount": "1", **settings})
    with as_files({"embeddings": embeddings}) as files:
        return table_rows(files["embeddings"], spec)


def _table(found: Admissibility, classes: bool) -> rich.Table:
    table = rich.Table(
        title=f"For components: {found.units} units of {found.dimensions} numbers, {found.partition} partition"
    )
    table.add_column("quantity")
    table.add_column("value", justify="right")
    table.add_row("median norm", f"{found.median_norm:.3f}")
    whose = "honest units of one class" if classes else "any two honest units"
    table.add_row(f"pairwise floor: cosine of {whose}, p90", f"{found.pairwise_floor:.3f}")
    for cutoff, floor in found.chaining_floors.items():
        style = "bold" if cutoff == found.cutoff else None
        table.add_row(f"chaining floor: mixed components below {cutoff:g}", f"{floor:.2f}", style=style)
    table.add_row(
        f"ceiling: cosine with variants ({found.variants}), p10", f"{found.near_duplicate_p10:.4f}"
    )
    low, high = found.interval
    table.add_row("admissible interval", f"[{low:.3f}, {high:.4f}]".replace("[", r"\["), style="bold")
    table.add_row("margin", f"{found.margin:.3f}")
    if found.lonely_classes:
        table.add_row("classes of a single unit, left out", str(found.lonely_classes))
    return table
