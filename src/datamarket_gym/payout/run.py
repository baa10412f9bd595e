"""The payout run: validate, evidence, clusters, scores, money, files, ledger; killed, it resumes.

Slow stages leave their result in ``RUN/.state`` (written aside, renamed when whole); everything else
is a quick function of them and of the inputs. A killed run loses the stage it was in; the next one
with the same inputs takes up what is there and ends with the same bytes. Inputs and settings are part
of the run's id: a folder that holds another run is refused, and an approved one is never written to.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from datamarket_gym.errors import DataMarketError
from datamarket_gym.evidence.base import Edges
from datamarket_gym.evidence.graph import Clusters
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.payments.mechanism import Mechanism
from datamarket_gym.payout import ledger
from datamarket_gym.payout.evidence import clustered, payees, unit_edges
from datamarket_gym.payout.files import alone, read_json, sha256, whole, write_json
from datamarket_gym.payout.inputs import Inputs, read_inputs
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import read_manifest, run_id, write_manifest
from datamarket_gym.payout.outputs import write_tables
from datamarket_gym.payout.overrides import Override, read_overrides
from datamarket_gym.payout.page import write_report
from datamarket_gym.payout.red_team import run_red_team
from datamarket_gym.payout.results import Results, assemble, price
from datamarket_gym.payout.scoring import Scores, canonical_units, score, validation_groups
from datamarket_gym.payout.spec import PayoutSpec
from datamarket_gym.payout.threshold import Threshold, choose_evidence
from datamarket_gym.typing import Codes

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


def pay(places: Places, spec: PayoutSpec, out: Path, progress: Progress | None = None) -> dict[str, Any]:
    """Run, or resume, a payout into a folder; returns its manifest."""
    tell = progress or (lambda _: None)
    tell("reading and checking the inputs")
    overrides = read_overrides(places.overrides)
    opening = opening_balances(places.carry_from)
    edge_table = None if spec.linkage.edges is None else Path(spec.linkage.edges)
    more = {"edges": edge_table, "overrides": places.overrides}
    inputs = read_inputs(
        places.submissions, places.validation, spec, {k: v for k, v in more.items() if v is not None}
    )
    run = run_id(spec, inputs.files, overrides, opening)
    _take(out)
    with alone(out):
        if not _finished(out, run):
            work = Work(inputs, spec, overrides, opening, edge_table, out / ".state", tell)
            results = work.results()
            tell("writing tables")
            write_tables(results, out)
            tell("attacking a sample of the market")
            run_red_team(inputs, spec, results.mechanism, work.state / "audit", out / "audit.json")
            tell("writing the report")
            write_report(results, run, out)
            write_manifest(results, run, opening, out)
        tell("entering the run into the ledger")
        manifest = read_manifest(out)
        _enter(manifest, places, overrides, out)
        shutil.rmtree(out / ".state", ignore_errors=True)
    return manifest


def opening_balances(folder: Path | None) -> dict[str, int]:
    """The balances an earlier run carried, by identity."""
    if folder is None:
        return {}
    record = ledger.read_record(folder)
    if record is None or record.state == "draft":
        raise DataMarketError(f"{str(folder)!r} holds no approved run to carry balances from")
    return {e.identity: e.balance for e in ledger.read_entries(folder) if e.balance}


@dataclass(frozen=True)
class Work:
    """The stages, each kept in the state folder once it is done."""

    inputs: Inputs
    spec: PayoutSpec
    overrides: list[Override]
    opening: dict[str, int]
    edge_table: Path | None
    state: Path
    tell: Progress

    def results(self) -> Results:
        """Everything up to the cents."""
        self.tell("checking which similarity threshold may be used")
        threshold = self.threshold()
        mechanism = self.spec.mechanism(threshold.evidence)
        self.tell(f"looking for copies ({threshold.evidence})")
        edges = self.edges(threshold.evidence)
        clusters = clustered(edges, self.overrides, self.inputs.ids)
        owners = payees(self.inputs, self.spec, self.edge_table, self.overrides)
        self.tell(f"scoring {clusters.n_clusters:,} clusters")
        scores = self.scores("scores", mechanism, clusters, True)
        self.tell("scoring once more without evidence")
        apart = Clusters(np.arange(len(self.inputs.ids)), Edges.none(), "unit")
        alone_scores = self.scores("apart", mechanism, apart, False)
        plain = price(self.inputs, self.spec, mechanism, apart, alone_scores, owners.group, self.opening)
        return assemble(
            self.inputs, self.spec, threshold, mechanism, clusters, self.overrides, scores, owners,
            self.opening, plain.division.paid,
        )  # fmt: skip

    def threshold(self) -> Threshold:
        """The evidence that may be used."""
        kept = self.state.parent / "threshold.json"
        if not kept.exists():
            write_json(kept, choose_evidence(self.inputs, self.spec).model_dump(mode="json"))
        return Threshold.model_validate(read_json(kept))

    def edges(self, evidence: str) -> Edges:
        """The ties between units."""
        kept = self.state / "evidence.npz"
        if not kept.exists():
            found = unit_edges(self.inputs, evidence, self.spec, self.edge_table)
            _save(kept, left=found.left, right=found.right, score=found.score, reason=found.reason)
        with np.load(kept, allow_pickle=False) as file:
            return Edges(file["left"], file["right"], file["score"], file["reason"])

    def scores(self, name: str, mechanism: Mechanism, clusters: Clusters, groups: bool) -> Scores:
        """Scores of clusters, and on groups of validation rows where asked."""
        kept = self.state / f"{name}.npz"
        if not kept.exists():
            canonical = canonical_units(mechanism, self.inputs.submission, clusters)
            found = score(mechanism, canonical, utility_oracle(self.inputs, self.spec), groups)
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
    group: Codes = validation_groups(features, label, spec.seed)
    from datamarket_gym.content import unit_keys

    order = np.lexsort((unit_keys(features, label), group))
    return UtilityOracle(features[order], label[order], spec.utility)


def _save(path: Path, **arrays: Any) -> None:
    with whole(path) as aside, aside.open("wb") as file:
        np.savez(file, **arrays)


def _take(out: Path) -> None:
    """Make the folder; refuse one that holds something else."""
    out.mkdir(parents=True, exist_ok=True)
    there = {path.name for path in out.iterdir()}
    if there and not there & {MANIFEST, ".state", ".lock"}:
        raise DataMarketError(f"{str(out)!r} is not empty and holds no payout run; choose another --out")


def _finished(out: Path, run: str) -> bool:
    """Whether this run is complete here; an unfinished one is marked as ours."""
    record = ledger.read_record(out)
    mark = out / ".state" / "run.json"
    if (out / MANIFEST).exists():
        held = read_manifest(out)["run"]
    elif mark.exists():
        held = read_json(mark)["run"]
    else:
        held = run
    if held != run or (record is not None and record.run != run):
        raise DataMarketError(
            f"{str(out)!r} holds another run (other inputs, settings or version); choose another --out"
        )
    if (out / MANIFEST).exists():
        return True
    if record is not None and record.state != "draft":
        raise DataMarketError(
            f"the run in {str(out)!r} is {record.state} but its manifest is gone; run verify"
        )
    mark.parent.mkdir(exist_ok=True)
    write_json(mark, {"run": run})
    return False


def _enter(manifest: dict[str, Any], places: Places, overrides: list[Override], out: Path) -> None:
    import pyarrow.parquet as pq

    from datamarket_gym.payout.money import Currency

    money = Currency(manifest["currency"])
    rows = pq.read_table(
        out / "payments.parquet", columns=["identity", "payment", "entitled", "balance"]
    )
    entries = [
        ledger.Entry(r["identity"], *(money.signed(r[c]) for c in ("payment", "entitled", "balance")))
        for r in rows.to_pylist()
    ]
    record = ledger.Record(
        manifest["run"],
        "draft",
        manifest["amount"],
        manifest["currency"],
        sha256(out / MANIFEST),
        places.as_dict(),
    )
    ledger.draft(out, record, entries, overrides)
