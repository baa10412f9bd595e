"""The stages of a run up to the cents: those of the pipeline, overrides after matching, then money.

The records of the stages are kept in the run's folder, where they say later how a payment came about; a
run that is taken up again does not do those stages twice.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from datamarket_gym.data.submission import Submission
from datamarket_gym.display import Shown
from datamarket_gym.evidence.graph import AcquiredMatches, Clusters, Edges, clusters_by, seniority_ranks
from datamarket_gym.evidence.leakage import Leaks
from datamarket_gym.evidence.similarity_search import NearestRows
from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.execution.files import json_text, read_json
from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.execution.runs import Format, Run, record_format
from datamarket_gym.mechanism.pipeline import (
    Mechanism,
    Pipeline,
    find_leaked_units,
    match_units,
    nearest_units,
    require_playable,
)
from datamarket_gym.mechanism.representatives import CanonicalUnits, represent_clusters
from datamarket_gym.payout.acquired_units import ROLE as PRIOR
from datamarket_gym.payout.acquired_units import AcquiredRun, AcquiredUnits, overridden_known
from datamarket_gym.payout.checks.earlier_draft import SettledDraft
from datamarket_gym.payout.imported_scores import scores_file
from datamarket_gym.payout.inputs import Inputs, read_inputs, utility_oracle
from datamarket_gym.payout.intake import IntakeLog, LogTip, absolute_address
from datamarket_gym.payout.ledger.runs import INTAKE, LedgerInputs
from datamarket_gym.payout.manifest import require_as_written, run_id
from datamarket_gym.payout.money import (
    half_width,
    moved_at_most,
    standard_errors,
    validation_groups,
)
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.operator_evidence import operator_matches, payees
from datamarket_gym.payout.overrides import Override, overridden, read_overrides, select_overrides
from datamarket_gym.payout.results import Results, in_cents, raw_scores
from datamarket_gym.payout.settings import PayoutSpec
from datamarket_gym.payout.threshold import DrawnThreshold, choose_evidence
from datamarket_gym.utilities.custom import FunctionUtility
from datamarket_gym.utilities.oracle import UtilityOracle

R = TypeVar("R")


@dataclass(frozen=True)
class Places(Shown):
    """Where the files of a run are: submissions, validation rows, what else it was given, and the run it settles.

    ``queries`` are those whose answers some of the files are, by role; these are kept with the run. ``intake`` is the
    log that times are from, a file or an address, and ``upto`` how far it counts; all of it, for a run that is new.
    """

    submissions: Path
    validation: Path
    overrides: Path | None = None
    reference: Path | None = None
    settles: Path | None = None
    edges: Path | None = None  # where it is not what the spec says
    scores: Path | None = None  # likewise
    prior: tuple[Path, ...] = ()  # folders of earlier runs, the oldest first
    queries: dict[str, str] = field(default_factory=dict)
    intake: str | None = None
    upto: LogTip | None = None

    def as_dict(self) -> dict[str, str]:
        """Absolute paths by role, or queries, for the ledger."""
        named = {k: v for k, v in vars(self).items() if isinstance(v, Path)}
        named |= {f"{PRIOR} {i}": folder for i, folder in enumerate(self.prior, 1)}
        found = {role: self.queries.get(role) or str(path.resolve()) for role, path in named.items()}
        return found if self.intake is None else found | {INTAKE: absolute_address(self.intake)}


@dataclass(frozen=True)
class PayoutJob:
    """All that decides a run, read and checked; ``run`` is its id."""

    spec: PayoutSpec
    inputs: Inputs
    overrides: list[Override]
    taken: LedgerInputs
    edge_table: Path | None
    run: str
    settles: SettledDraft | None = None
    left_out: tuple[
        str, ...
    ] = ()  # what disputes decided of units and identities that are not in the run

    @classmethod
    def read(
        cls,
        places: Places,
        spec: PayoutSpec,
        settles: SettledDraft | None = None,
        taken: LedgerInputs | None = None,
    ) -> PayoutJob:
        """Read the inputs; without the units that checks of the run that this one settles found.

        ``taken`` is what the ledger brings: balances, and overrides by which disputes were resolved.
        """
        taken = taken or LedgerInputs()
        own = read_overrides(places.overrides)
        edge_table = places.edges
        if edge_table is None and spec.linkage.edges is not None:
            edge_table = Path(spec.linkage.edges)
        scores = scores_file(spec, places.scores)
        more = {"edges": edge_table, "overrides": places.overrides, "scores": scores}
        inputs = read_inputs(
            places.submissions,
            places.validation,
            spec,
            {k: v for k, v in more.items() if v is not None},
            places.reference,
            None if places.intake is None else IntakeLog.open(places.intake, places.upto),
            scores,
        )
        if settles is not None:
            inputs = inputs.without_units({found.unit for found in settles.found})
        earlier = tuple(AcquiredRun.read(folder) for folder in places.prior)
        if earlier:
            inputs = inputs.given(AcquiredUnits.read(earlier, inputs.kind), spec)
        standing, left_out = select_overrides(
            taken.overrides, inputs.units_named(taken.overrides), inputs.identities
        )
        overrides, taken = [*own, *standing], replace(taken, overrides=standing)
        run = run_id(
            spec, inputs.files, overrides, taken.opening, settles, prior=[p.plain for p in earlier]
        )
        payday = cls(spec, inputs, overrides, taken, edge_table, run, settles, tuple(left_out))
        return payday.with_names(places.queries)

    def with_names(self, names: dict[str, str]) -> PayoutJob:
        """Name the files anew: a file is what it holds, whatever it is called now."""
        files = {
            role: {**file, "name": names.get(role, file["name"])}
            for role, file in self.inputs.files.items()
        }
        return replace(self, inputs=replace(self.inputs, files=files))

    @property
    def unpaid(self) -> frozenset[str]:
        """Identities that are paid nothing in this run."""
        return frozenset() if self.settles is None else self.settles.unpaid

    @cached_property
    def utility(self) -> UtilityOracle:
        """What units are paid for, built once for the run."""
        return utility_oracle(self.inputs, self.spec)

    @cached_property
    def leaks(self) -> Leaks:
        """The units that are validation rows, or nearly; an error where there must be none."""
        inputs, check = self.inputs, self.spec.leak_check
        leaks = find_leaked_units(check, inputs.submission, self.utility, inputs.held)
        require_playable(check, inputs.named(leaks), len(inputs.ids), visible)
        return leaks


@dataclass(frozen=True)
class FinishedRun:
    """The outputs of a run that was made before: each is checked against its manifest, and none is made."""

    folder: Path
    outputs: dict[str, Any]
    progress: Progress = SILENT

    def output(self, name: str, form: Format[R], compute: Callable[[], R]) -> R:
        """An output of the run; refused where it is missing or changed."""
        return form.read(require_as_written(self.folder, self.outputs, name))


def _write_threshold(path: Path, threshold: DrawnThreshold) -> None:
    path.write_text(json_text(threshold.model_dump(mode="json")), encoding="utf-8")


_THRESHOLD = Format(
    ".json", _write_threshold, lambda path: DrawnThreshold.model_validate(read_json(path))
)


@dataclass(eq=False, kw_only=True)
class PayoutPipeline(Pipeline):
    """The stages in a run's folder: computed and kept there, or read from it."""

    payday: PayoutJob
    run: Run | FinishedRun
    reuse: NearestRows | None = None  # kept by another run; the results are the same without
    asked: dict[str, Values] = field(
        default_factory=dict
    )  # as `measure_threshold` keeps it, if made now
    overrides: list[Override] = field(init=False)  # of units of this run

    def __post_init__(self) -> None:
        self.overrides = self.payday.overrides

    def run_stage(self, name: str, kind: type[R], compute: Callable[[], R]) -> R:
        """Read the record of a stage; where it is not there yet, compute and keep it."""
        return self.run.output(f"records/{name}.npz", record_format(kind), compute)

    def find_leaks(self, submission: Submission) -> Leaks:
        """Find the units that are validation rows."""
        return self.payday.leaks

    def measure_threshold(self, submission: Submission, utility: UtilityOracle) -> DrawnThreshold:
        """Choose the threshold, or read which was chosen."""
        progress = self.run.progress
        progress.stage("checking which similarity threshold may be used")
        threshold = self.run.output(
            "threshold.json",
            _THRESHOLD,
            lambda: choose_evidence(submission, utility, self.payday.spec, self.asked),
        )
        progress.stage(f"looking for copies ({threshold.evidence})")
        return threshold

    def match_units(self, mechanism: Mechanism, submission: Submission) -> Clusters:
        """Match units by their nearest earlier ones, which are kept for another run."""

        def find_nearest() -> NearestRows:
            nearest = nearest_units(mechanism, submission, self.utility, self.reuse)
            if nearest.reused:
                self.run.progress.stage(
                    f"looking for copies: of {nearest.reused:,} of {len(nearest.digest):,} different units the nearest "
                    "earlier one was known"
                )
            return nearest

        nearest = self.run_stage("nearest", NearestRows, find_nearest)
        return match_units(mechanism, submission, utility=self.utility, nearest=nearest)

    def override_acquired(self, known: AcquiredMatches, rows: Codes) -> AcquiredMatches:
        """Apply the overrides that name units of earlier runs; the others are about units of this run."""
        prior = self.payday.inputs.prior
        assert prior is not None
        ids, absent = self._names(rows)
        overrides = [each.without(absent) for each in self.overrides]
        known, self.overrides = overridden_known(known, overrides, prior, ids)
        return known

    def override_matches(self, clusters: Clusters, rows: Codes) -> Clusters:
        """Add the matches that the operator knows, and apply the overrides."""
        day, submission = self.payday, clusters.submission
        assert submission is not None
        ids, absent = self._names(rows)
        known = operator_matches(ids, absent, day.spec, day.edge_table)
        if not len(known) and not self.overrides:
            return clusters
        overrides = [each.without(absent) for each in self.overrides]
        rank = seniority_ranks(submission, clusters.tie_breaker)
        edges = Edges.concat([clusters.edges, known]).once()
        edges = overridden(edges, overrides, ids, "units", rank)
        return clusters_by(submission, edges, clusters.granularity, clusters.tie_breaker)

    def represent(self, clusters: Clusters, prefix: str) -> CanonicalUnits:
        """Keep which rows stand for the clusters, and take what they hold from the submission."""
        submission = clusters.submission
        assert submission is not None
        chosen = self.run_stage(
            f"{prefix}represented",
            CanonicalUnits,
            lambda: represent_clusters(clusters, self.mechanism.representative).stored(),
        )
        return chosen.restored(submission)

    def count_progress(self, clusters: Clusters) -> None:
        """Let a utility of the operator's own, which may take long, say how far it is."""
        learner, progress, mechanism = self.utility.learner, self.run.progress, self.mechanism
        if isinstance(learner, FunctionUtility):
            most = mechanism.estimator.budget(mechanism.samples, clusters.n_clusters)
            self.utility = copy(self.utility)
            self.utility.learner = replace(learner, progress=lambda done: progress.count(done, most))

    def _names(self, rows: Codes) -> tuple[list[str], frozenset[str]]:
        """The ids of the units that play, and of those that were submitted and do not."""
        inputs = self.payday.inputs
        if len(rows) == len(inputs.ids):
            return inputs.ids, inputs.absent
        ids = [inputs.ids[row] for row in rows.tolist()]
        return ids, inputs.absent | (frozenset(inputs.ids) - frozenset(ids))


def compute_results(
    payday: PayoutJob, run: Run | FinishedRun, reuse: NearestRows | None = None
) -> Results:
    """Compute everything up to the cents, or read what of it the run's folder keeps."""
    inputs, spec, utility, progress = payday.inputs, payday.spec, payday.utility, run.progress
    mechanism = spec.mechanism("lineage@auto")
    pipeline = PayoutPipeline(mechanism, utility, payday=payday, run=run, reuse=reuse)
    progress.stage("looking for leaked validation rows")
    matching = pipeline.match(inputs.submission)
    assert isinstance(matching.threshold, DrawnThreshold)
    clusters, playing = matching.clusters, inputs.playing(matching.rows)
    owners = payees(playing, spec, payday.edge_table, payday.overrides)
    progress.stage(f"scoring {clusters.n_clusters:,} clusters")
    groups = validation_groups(utility.features, utility.label, mechanism.seed)
    pipeline.count_progress(clusters)
    paid = pipeline.value(clusters, groups=groups).extended_to(inputs.everyone)
    progress.stage("scoring once more without evidence")
    apart = clusters_by(matching.playing, Edges.none(), clusters.granularity, clusters.tie_breaker)
    pipeline.count_progress(apart)
    plain = pipeline.value(apart, "without_evidence_").extended_to(inputs.everyone)
    cents, without = (
        in_cents(each, playing, spec, owners.group, payday.taken.opening, payday.unpaid)
        for each in (paid, plain)
    )
    return Results(
        spec, playing, utility, matching.threshold, matching.mechanism, payday.overrides, paid, owners, cents.names,
        cents.division, raw_scores(paid), standard_errors(cents.payer, paid.scores),
        half_width(len(paid.scores.by_group)), moved_at_most(cents.payer, paid.scores), without.division.paid,
        inputs.named(matching.leaks), inputs.named_known(matching.acquired), pipeline.asked,
    )  # fmt: skip
