"""``datamarket theta``: the table, the verdict, and the files asked for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import table as rich
from rich.console import Console

from datamarket_gym.core.files import write_text
from datamarket_gym.evidence.threshold.admissibility import Admissibility
from datamarket_gym.payout.spec import payout_spec
from datamarket_gym.payout.theta import ThetaCheck, domain_task, in_words, recommended, table_rows
from datamarket_gym.units.labels import are_numbers, is_labelled
from datamarket_gym.units.readers.databases import as_files
from datamarket_gym.world.data import DOMAINS, Embeddings


@dataclass(frozen=True)
class Question:
    """What the command line asked."""

    embeddings: str
    check: ThetaCheck
    config: Path | None
    columns: dict[str, Any]


def show_theta(asked: Question, to_json: Path | None, plot: Path | None) -> None:
    """Answer, print, and write."""
    domain = asked.embeddings if asked.embeddings in DOMAINS else ""
    rows = domain_task(domain).pool() if domain else _read(asked)
    found = asked.check.of_domain(domain) if domain else asked.check.of(rows.training())
    policy = recommended(rows)
    if to_json is not None:
        both = found.as_dict() | {"recommended": policy.model_dump(mode="json")}
        write_text(to_json, json.dumps(both, indent=2) + "\n")
    if plot is not None:
        from datamarket_gym.evidence.threshold.drawing import draw

        draw(found, plot)
    console = Console()
    console.print(in_words(policy), style="green" if policy.theta else "red", highlight=False)
    classes = rows.label is not None and is_labelled(rows.label) and not are_numbers(rows.label)
    console.print(_table(found, classes))
    console.print(
        f"Components: {found.verdict}", style="green" if found.usable else "red", highlight=False
    )


def _read(asked: Question) -> Embeddings:
    # Nothing is paid here; but the settings of a payday say an amount.
    spec = payout_spec(asked.config, {"amount": "1", **asked.columns})
    with as_files({"embeddings": asked.embeddings}) as files:
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
