"""The thresholds that rows allow: those of a domain or of a table, for ``datamarket theta`` and the explorer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from datamarket_gym.data.readers.tables import Table
from datamarket_gym.evidence.admissible_interval import Admissibility, predict_theta
from datamarket_gym.evidence.leak_check import LabelledVectors
from datamarket_gym.evidence.threshold import Threshold, choose_threshold
from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.market.datasets import Embeddings, load_corpus, load_embeddings
from datamarket_gym.market.tasks.base import TASKS
from datamarket_gym.market.tasks.real_data import DomainTask
from datamarket_gym.payout.inputs import InputReader
from datamarket_gym.payout.settings import PayoutSpec
from datamarket_gym.registry import Document
from datamarket_gym.utilities.base import LEARNERS
from datamarket_gym.utilities.coverage import RECOMMENDED


class ThetaCheck(Document):
    """The settings of the simulation behind the check for components; an empty ``partition`` is the rows' own."""

    partition: str = Field(
        default="",
        description="How units are dealt to honest providers: iid, class_stratified, dirichlet@0.5, ..., or "
        "identities (as in the table). Each domain has its default, a table iid.",
    )
    providers: int = Field(
        default=4, description="Providers of a simulated market; 4 if left out.", ge=2
    )
    per_provider: int = Field(default=50, description="Units of each provider; 50 if left out.", ge=1)
    trials: int = Field(default=30, description="Simulated markets; 30 if left out.", ge=1)
    variants: str = Field(
        default="near_duplicate_2x_sybils@0.02",
        description="The attack whose copies must be matched; near_duplicate_2x_sybils@0.02 if left out. See: "
        "datamarket list attack.",
    )
    sample: int = Field(
        default=5000, description="Units that are copied for it; 5000 if left out.", ge=1
    )
    cutoff: float = Field(
        default=0.10, description="Tolerated share of clusters that mix providers; 0.1 if left out."
    )
    seed: int = Field(default=0, description="Seed of the simulation; 0 if left out.")

    def of(
        self, rows: Embeddings, own: str = "iid", progress: Progress = SILENT, **content: Any
    ) -> Admissibility:
        """Check rows; ``own`` is how providers come by them if nothing else is said."""
        options = self.model_dump(exclude={"partition", "providers"})
        partition = self.partition or own
        return predict_theta(
            rows,
            partition=partition,
            n_providers=self.providers,
            progress=progress,
            **options,
            **content,
        )

    def of_domain(self, name: str, progress: Progress = SILENT) -> Admissibility:
        """Check a public domain, dealt as its markets are; with its content where variants are made of it."""
        task = domain_task(name)
        content = None
        if ATTACKS.create(self.variants).needs_content:
            progress.stage(f"reading the {task.domain.kind}s of {task.domain.title}")
            corpus = load_corpus(name)
            content = {corpus.kind: corpus.content[corpus.train]}
        return self.of(
            task.pool(), task.dealt_by, progress, encoder=task.domain.encoder, content=content
        )


def recommended(rows: Embeddings) -> Threshold:
    """Choose the threshold of `recommended` where these, all of them, are the validation or reference rows."""
    return choose_threshold(LabelledVectors(rows.vectors, rows.label), None)


def describe_threshold(policy: Threshold) -> str:
    """Say what `recommended` takes, and why."""
    why = f"{policy.why[:1].upper()}{policy.why[1:]}."
    rows = "where these are the validation or reference rows"
    if policy.theta is None:
        return f"`recommended` matches identical units alone, {rows}. {why}"
    lift = "A large submission lifts it where units lie closer."
    return f"`recommended` takes theta {policy.theta:g}, {rows}. {why} {lift}"


def domain_task(name: str) -> DomainTask:
    """Return the task of a public domain."""
    task = TASKS.create(name)
    assert isinstance(task, DomainTask)  # DOMAINS names no other tasks
    return task


def table_rows(path: Path, spec: PayoutSpec) -> Embeddings:
    """Read the rows of a file as evidence compares them where they are the validation rows' features."""
    rows = _read_rows(path, spec)
    learner = LEARNERS.create(RECOMMENDED)
    return replace(rows, vectors=learner.comparing(rows.vectors)(rows.vectors))


def _read_rows(path: Path, spec: PayoutSpec) -> Embeddings:
    """Read rows as validation rows are: embeddings if there are any, else features, from wherever they come."""
    columns, files = spec.columns, spec.files
    if not path.is_dir() and not (columns.text or columns.image or files.features):
        return load_embeddings(path, columns.model_dump(exclude_unset=True))
    files = files.model_copy(update={"validation_features": files.features})
    validation = InputReader(spec.model_copy(update={"files": files})).rows(path)
    vectors = validation.features if validation.embedding is None else validation.embedding
    if path.is_dir():
        return Embeddings(vectors, validation.label)
    table = Table.open(path)
    present = [name for name in (columns.identity, "split") if name in table.names]
    text = table.read(present)[0] if present else {}
    is_train = np.array(text["split"].optional()) == "train" if "split" in text else None
    identity = np.array(text[columns.identity].named()) if columns.identity in text else None
    return Embeddings(vectors, validation.label, is_train, identity)
