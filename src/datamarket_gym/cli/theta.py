"""``datamarket theta``: the table, the verdict, and the files asked for."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from datamarket_gym.core.files import write_text
from datamarket_gym.evidence.threshold.admissibility import Admissibility, predict_theta
from datamarket_gym.evidence.threshold.choice import LabelledVectors, Threshold, choose_threshold
from datamarket_gym.learners.base import LEARNERS
from datamarket_gym.learners.oracle import RECOMMENDED
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


def show_theta(asked: Question, to_json: Path | None, plot: Path | None) -> None:
    """Answer, print, and write."""
    found, policy = answer(asked), recommended(asked)
    if to_json is not None:
        both = found.as_dict() | {"recommended": policy.model_dump(mode="json")}
        write_text(to_json, json.dumps(both, indent=2) + "\n")
    if plot is not None:
        from datamarket_gym.evidence.threshold.drawing import draw

        draw(found, plot)
    console = Console()
    console.print(_policy_words(policy), style="green" if policy.theta else "red", highlight=False)
    console.print(_table(found))
    console.print(
        f"Components: {found.verdict}", style="green" if found.usable else "red", highlight=False
    )


def recommended(asked: Question) -> Threshold:
    """The threshold that `recommended` takes where these, all of them, are the validation or reference rows."""
    named = asked.embeddings in DOMAINS
    pool = _pool(asked.embeddings) if named else _read(asked.embeddings)
    if pool.label is None:
        return Threshold(
            why="these embeddings have no labels, and the honest price is a share of pay; add labels"
        )
    return choose_threshold(LabelledVectors(pool.vectors, pool.label), None)


def _pool(embeddings: str) -> Embeddings:
    if embeddings not in DOMAINS:
        return _read(embeddings).training()
    task = TASKS.create(embeddings)
    assert isinstance(task, DomainTask)  # DOMAINS names no other tasks
    return task.pool()


def _read(path: str) -> Embeddings:
    """The rows of a file as evidence compares them where they are the validation rows' features."""
    found = load_embeddings(Path(path))
    learner = LEARNERS.create(RECOMMENDED)
    return replace(found, vectors=learner.compared(found.vectors, found.vectors))


def _policy_words(policy: Threshold) -> str:
    why = f"{policy.why[:1].upper()}{policy.why[1:]}."
    if policy.theta is None:
        return f"`recommended` ties identical units alone, where these are the validation or reference rows. {why}"
    return (
        f"`recommended` takes theta {policy.theta:g}, where these are the validation or reference rows. {why} "
        "A large submission lifts it where units lie closer."
    )


def answer(asked: Question) -> Admissibility:
    """The check for a domain by name, or for a file."""
    options = {
        "n_providers": asked.providers, "per_provider": asked.per_provider, "trials": asked.trials,
        "variants": asked.variants, "sample": asked.sample, "cutoff": asked.cutoff, "seed": asked.seed,
    }  # fmt: skip
    if asked.embeddings not in DOMAINS:
        return predict_theta(_pool(asked.embeddings), partition=asked.partition or "iid", **options)  # type: ignore[arg-type]
    task = TASKS.create(asked.embeddings)
    assert isinstance(task, DomainTask)  # DOMAINS names no other tasks
    attack = ATTACKS.create(asked.variants)
    content = None
    if attack.needs_content:
        corpus = load_corpus(task.domain.name)
        content = {corpus.kind: corpus.content[corpus.train]}
    return predict_theta(
        task.pool(),
        partition=asked.partition or task.dealt_by,
        encoder=task.domain.encoder,
        content=content,
        **options,  # type: ignore[arg-type]
    )


def _table(found: Admissibility) -> Table:
    table = Table(
        title=f"For components: {found.units} units of {found.dimensions} numbers, {found.partition} partition"
    )
    table.add_column("quantity")
    table.add_column("value", justify="right")
    table.add_row("median norm", f"{found.median_norm:.3f}")
    table.add_row(
        "pairwise floor: cosine of honest units of one class, p90", f"{found.pairwise_floor:.3f}"
    )
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
