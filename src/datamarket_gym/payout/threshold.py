"""The thresholds that rows allow: those of a domain or of a table, for ``datamarket theta`` and the explorer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from pydantic import Field

from datamarket_gym.data.readers.tables import Table
from datamarket_gym.evidence.admissible_interval import (
    Admissibility,
    predict_theta,
)
from datamarket_gym.evidence.leakage import LabelledVectors
from datamarket_gym.evidence.threshold import (
    Threshold,
    choose_threshold,
)
from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.market.datasets import Embeddings, load_corpus, load_embeddings
from datamarket_gym.market.tasks.base import TASKS
from datamarket_gym.market.tasks.datasets import DomainTask
from datamarket_gym.payout.inputs import InputReader
from datamarket_gym.payout.settings import PayoutSpec
from datamarket_gym.registry import Document
from datamarket_gym.utilities.base import LEARNERS
from datamarket_gym.utilities.oracle import RECOMMENDED


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

    def of(self, rows: Embeddings, own: str = "iid", progress: Progress = SILENT) -> Admissibility:
        """The check of rows that are no domain's; ``own`` is how providers come by them if nothing else is said."""
        return self._asked(rows, own, progress=progress)

    def of_domain(self, name: str, progress: Progress = SILENT) -> Admissibility:
        """The check of a public domain, dealt as its markets are; with its content where variants are made of it."""
        task = domain_task(name)
        content = None
        if ATTACKS.create(self.variants).needs_content:
            progress.stage(f"reading the {task.domain.kind}s of {task.domain.title}")
            corpus = load_corpus(name)
            content = {corpus.kind: corpus.content[corpus.train]}
        encoder = task.domain.encoder
        return self._asked(task.pool(), task.dealt_by, encoder, content, progress)

    def _asked(
        self,
        rows: Embeddings,
        own: str,
        encoder: str = "",
        content: dict[str, np.ndarray] | None = None,
        progress: Progress = SILENT,
    ) -> Admissibility:
        return predict_theta(
            rows,
            partition=self.partition or own,
            n_providers=self.providers,
            per_provider=self.per_provider,
            trials=self.trials,
            variants=self.variants,
            sample=self.sample,
            cutoff=self.cutoff,
            seed=self.seed,
            encoder=encoder,
            content=content,
            progress=progress,
        )


def recommended(rows: Embeddings) -> Threshold:
    """The threshold that `recommended` takes where these, all of them, are the validation or reference rows."""
    return choose_threshold(LabelledVectors(rows.vectors, rows.label), None)


def in_words(policy: Threshold) -> str:
    """What `recommended` takes, and why."""
    why = f"{policy.why[:1].upper()}{policy.why[1:]}."
    if policy.theta is None:
        return f"`recommended` matches identical units alone, where these are the validation or reference rows. {why}"
    return (
        f"`recommended` takes theta {policy.theta:g}, where these are the validation or reference rows. {why} "
        "A large submission lifts it where units lie closer."
    )


def domain_task(name: str) -> DomainTask:
    """The task of a public domain."""
    task = TASKS.create(name)
    assert isinstance(task, DomainTask)  # DOMAINS names no other tasks
    return task


def table_rows(path: Path, spec: PayoutSpec) -> Embeddings:
    """The rows of a file as evidence compares them where they are the validation rows' features."""
    found = _vectors(path, spec)
    learner = LEARNERS.create(RECOMMENDED)
    return replace(found, vectors=learner.comparing(found.vectors)(found.vectors))


def _vectors(path: Path, spec: PayoutSpec) -> Embeddings:
    """The rows as validation rows are read: embeddings if there are any, else features, from wherever they come."""
    columns, files = spec.columns, spec.files
    if not path.is_dir() and not (columns.text or columns.image or files.features):
        return load_embeddings(path, columns.model_dump(exclude_unset=True))
    ours = files.model_copy(update={"validation_features": files.features})
    held = InputReader(spec.model_copy(update={"files": ours})).rows(path)
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
