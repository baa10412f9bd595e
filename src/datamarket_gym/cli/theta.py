"""``datamarket theta``: the table, the verdict, and the files asked for."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich import table as rich
from rich.console import Console

from datamarket_gym.core.files import write_text
from datamarket_gym.evidence.threshold.admissibility import Admissibility, predict_theta
from datamarket_gym.evidence.threshold.choice import LabelledVectors, Threshold, choose_threshold
from datamarket_gym.learners.base import LEARNERS
from datamarket_gym.learners.oracle import RECOMMENDED
from datamarket_gym.payout.spec import PayoutSpec, payout_spec
from datamarket_gym.payout.submitted import read_held
from datamarket_gym.units.labels import are_numbers, is_labelled
from datamarket_gym.units.sql import as_files
from datamarket_gym.units.tables import Table
from datamarket_gym.world.attacks.attack import ATTACKS
from datamarket_gym.world.data import DOMAINS, Embeddings, load_corpus, load_embeddings
from datamarket_gym.world.tasks.base import TASKS
from datamarket_gym.world.tasks.domains import DomainTask


@dataclass(frozen=True)
class Question:
    """What the command line asked."""

    embeddings: str
    partition: str
    providers: int
    per_provider: int
    trials: int
    variants: str
    sample: int
    cutoff: float
    seed: int
    config: Path | None
    columns: dict[str, Any]


def show_theta(asked: Question, to_json: Path | None, plot: Path | None) -> None:
    """Answer, print, and write."""
    rows = _pool(asked.embeddings) if asked.embeddings in DOMAINS else _read(asked)
    found, policy = answer(asked, rows), recommended(rows)
    if to_json is not None:
        both = found.as_dict() | {"recommended": policy.model_dump(mode="json")}
        write_text(to_json, json.dumps(both, indent=2) + "\n")
    if plot is not None:
        from datamarket_gym.evidence.threshold.drawing import draw

        draw(found, plot)
    console = Console()
    console.print(_policy_words(policy), style="green" if policy.theta else "red", highlight=False)
    classes = rows.label is not None and is_labelled(rows.label) and not are_numbers(rows.label)
    console.print(_table(found, classes))
    console.print(
        f"Components: {found.verdict}", style="green" if found.usable else "red", highlight=False
    )


def recommended(rows: Embeddings) -> Threshold:
    """The threshold that `recommended` takes where these, all of them, are the validation or reference rows."""
    return choose_threshold(LabelledVectors(rows.vectors, rows.label), None)


def _pool(domain: str) -> Embeddings:
    task = TASKS.create(domain)
    assert isinstance(task, DomainTask)  # DOMAINS names no other tasks
    return task.pool()


def _read(asked: Question) -> Embeddings:
    """The rows of a file as evidence compares them where they are the validation rows' features."""
    # Nothing is paid here; but the settings of a payday say an amount.
    spec = payout_spec(asked.config, {"amount": "1", **asked.columns})
    with as_files({"embeddings": asked.embeddings}) as files:
        found = _vectors(files["embeddings"], spec)
    learner = LEARNERS.create(RECOMMENDED)
    return replace(found, vectors=learner.compared(found.vectors, found.vectors))


def _vectors(path: Path, spec: PayoutSpec) -> Embeddings:
    """The rows as validation rows are read: embeddings if there are any, else features, from wherever they come."""
    columns, files = spec.columns, spec.files
    if not path.is_dir() and not (columns.text or columns.image or files.features):
        return load_embeddings(path, columns.model_dump(exclude_unset=True))
    ours = files.model_copy(update={"validation_features": files.features})
    held = read_held(path, spec.model_copy(update={"files": ours}), {})
    vectors = held.features if held.embedding is None else held.embedding
    if path.is_dir():
        return Embeddings(vectors, held.label)
    table = Table.open(path)
    known = [name for name in (columns.identity, "split") if name in table.names]
    text = table.read(known)[0] if known else {}
    return Embeddings(
        vectors,
        held.label,
        np.array(text["split"].optional()) == "train" if "split" in text else None,
        np.array(text[columns.identity].named()) if columns.identity in text else None,
    )


def _policy_words(policy: Threshold) -> str:
    why = f"{policy.why[:1].upper()}{policy.why[1:]}."
    if policy.theta is None:
        return f"`recommended` ties identical units alone, where these are the validation or reference rows. {why}"
    return (
        f"`recommended` takes theta {policy.theta:g}, where these are the validation or reference rows. {why} "
        "A large submission lifts it where units lie closer."
    )


def answer(asked: Question, rows: Embeddings) -> Admissibility:
    """The check for a domain by name, or for a file."""
    options = {
        "n_providers": asked.providers, "per_provider": asked.per_provider, "trials": asked.trials,
        "variants": asked.variants, "sample": asked.sample, "cutoff": asked.cutoff, "seed": asked.seed,
    }  # fmt: skip
    if asked.embeddings not in DOMAINS:
        return predict_theta(rows.training(), partition=asked.partition or "iid", **options)  # type: ignore[arg-type]
    task = TASKS.create(asked.embeddings)
    assert isinstance(task, DomainTask)  # DOMAINS names no other tasks
    attack = ATTACKS.create(asked.variants)
    content = None
    if attack.needs_content:
        corpus = load_corpus(task.domain.name)
        content = {corpus.kind: corpus.content[corpus.train]}
    return predict_theta(
        rows,
        partition=asked.partition or task.dealt_by,
        encoder=task.domain.encoder,
        content=content,
        **options,  # type: ignore[arg-type]
    )


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
