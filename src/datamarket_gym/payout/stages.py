"""The stages of a run up to the cents; slow ones leave their result in a folder and are not done twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from datamarket_gym.core.content import unit_keys
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.evidence.graph import Clusters, Edges
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.payout import ledger
from datamarket_gym.payout.evidence import clustered, payees, unit_edges
from datamarket_gym.payout.files import read_json, whole, write_json
from datamarket_gym.payout.inputs import Inputs, read_inputs
from datamarket_gym.payout.manifest import run_id
from datamarket_gym.payout.overrides import Override, read_overrides
from datamarket_gym.payout.results import Results, assemble, price
from datamarket_gym.payout.scoring import Scores, canonical_units, score, validation_groups
from datamarket_gym.payout.spec import PayoutSpec
from datamarket_gym.payout.threshold import Threshold, choose_evidence
from datamarket_gym.pipeline.mechanism import Mechanism

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Places:
    """Where the files of a run are: submissions, validation rows, and what else it was given."""

    submissions: Path
    validation: Path
    overrides: Path | None = None
    carry_from: Path | None = None

    def as_dict(self) -> dict[str, str]:
        """Absolute paths by role, for the ledger."""
        named = {k: v for k, v in vars(self).items() if v is not None}
        return {role: str(path.resolve()) for role, path in named.items()}


def opening_balances(folder: Path | None) -> dict[str, int]:
    """The balances an earlier run carried, by identity."""
    if folder is None:
        return {}
    record = ledger.read_record(folder)
    if record is None or record.state == "draft":
        raise DataMarketError(f"{str(folder)!r} holds no approved run to carry balances from")
    return {e.identity: e.balance for e in ledger.read_entries(folder) if e.balance}


@dataclass(frozen=True)
class Task:
    """All that decides a run, read and checked; ``run`` is its id."""

    spec: PayoutSpec
    inputs: Inputs
    overrides: list[Override]
    opening: dict[str, int]
    edge_table: Path | None
    run: str

    @classmethod
    def read(cls, places: Places, spec: PayoutSpec) -> Task:
        """Read the inputs."""
        overrides, opening = read_overrides(places.overrides), opening_balances(places.carry_from)
        edge_table = None if spec.linkage.edges is None else Path(spec.linkage.edges)
        more = {"edges": edge_table, "overrides": places.overrides}
        inputs = read_inputs(
            places.submissions, places.validation, spec, {k: v for k, v in more.items() if v is not None}
        )
        run = run_id(spec, inputs.files, overrides, opening)
        return cls(spec, inputs, overrides, opening, edge_table, run)


@dataclass(frozen=True)
class Work:
    """The stages, each kept in the folder ``state`` once it is done; the threshold in ``out``."""

    task: Task
    out: Path
    state: Path
    tell: Progress

    def results(self) -> Results:
        """Everything up to the cents."""
        task = self.task
        self.tell("checking which similarity threshold may be used")
        threshold = self.threshold()
        mechanism = task.spec.mechanism(threshold.evidence)
        self.tell(f"looking for copies ({threshold.evidence})")
        edges = self.edges(threshold.evidence)
        clusters = clustered(edges, task.overrides, task.inputs.ids)
        owners = payees(task.inputs, task.spec, task.edge_table, task.overrides)
        self.tell(f"scoring {clusters.n_clusters:,} clusters")
        scores = self.scores("scores", mechanism, clusters, True)
        self.tell("scoring once more without evidence")
        apart = Clusters(np.arange(len(task.inputs.ids)), Edges.none(), "unit")
        alone_scores = self.scores("apart", mechanism, apart, False)
        plain = price(task.inputs, task.spec, mechanism, apart, alone_scores, owners.group, task.opening)
        return assemble(
            task.inputs, task.spec, threshold, mechanism, clusters, task.overrides, scores, owners,
            task.opening, plain.division.paid,
        )  # fmt: skip

    def threshold(self) -> Threshold:
        """The evidence that may be used."""
        task = self.task
        kept = self.out / "threshold.json"
        if not kept.exists():
            write_json(kept, choose_evidence(task.inputs, task.spec).model_dump(mode="json"))
        return Threshold.model_validate(read_json(kept))

    def edges(self, evidence: str) -> Edges:
        """The ties between units."""
        task = self.task
        kept = self.state / "evidence.npz"
        if not kept.exists():
            found = unit_edges(task.inputs, evidence, task.spec, task.edge_table)
            _save(kept, left=found.left, right=found.right, score=found.score, reason=found.reason)
        with np.load(kept, allow_pickle=False) as file:
            return Edges(file["left"], file["right"], file["score"], file["reason"])

    def scores(self, name: str, mechanism: Mechanism, clusters: Clusters, groups: bool) -> Scores:
        """Scores of clusters, and on groups of validation rows where asked."""
        task = self.task
        kept = self.state / f"{name}.npz"
        if not kept.exists():
            canonical = canonical_units(mechanism, task.inputs.submission, clusters)
            found = score(mechanism, canonical, utility_oracle(task.inputs, task.spec), groups)
            _save(
                kept, values=found.values, sampling_error=found.sampling_error, by_group=found.by_group,
                group_size=found.group_size, grand=np.array(found.grand_value), method=np.array(found.method),
            )  # fmt: skip
        with np.load(kept, allow_pickle=False) as file:
            return Scores(
                file["values"], file["sampling_error"], file["by_group"], file["group_size"],
                float(file["grand"]), str(file["method"]),
            )  # fmt: skip


def utility_oracle(inputs: Inputs, spec: PayoutSpec) -> UtilityOracle:
    """The utility on the validation rows, which are put in order of their groups and content."""
    features, label = inputs.validation_features, inputs.validation_label
    group = validation_groups(features, label, spec.seed)
    order = np.lexsort((unit_keys(features, label), group))
    return UtilityOracle(features[order], label[order], spec.utility)


def _save(path: Path, **arrays: Any) -> None:
    with whole(path) as aside, aside.open("wb") as file:
        np.savez(file, **arrays)
