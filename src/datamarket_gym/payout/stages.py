"""The stages of a run up to the cents: those of the pipeline, overrides after `tie`, money after `share`.

The records of the stages are kept in the run's folder, where they say later how a payment came about; a
run that is taken up again does not do those stages twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from datamarket_gym.core.arrays import Values
from datamarket_gym.core.files import json_text, read_json
from datamarket_gym.core.progress import SILENT, Progress
from datamarket_gym.core.runs import Format, Run
from datamarket_gym.core.screen import Shown
from datamarket_gym.evidence.graph import Clusters, Edges, clusters_by
from datamarket_gym.evidence.leak import HeldRows, Leaks, find_leaks
from datamarket_gym.evidence.nearest import NearestRows
from datamarket_gym.evidence.order import seniority_ranks
from datamarket_gym.games.semivalue import ESTIMATORS
from datamarket_gym.learners.function import FunctionUtility
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.learners.targets import require_learnable
from datamarket_gym.payout.book.disputes import fitting
from datamarket_gym.payout.book.runs import Taken
from datamarket_gym.payout.evidence import known_ties, payees
from datamarket_gym.payout.inputs import Inputs, read_inputs, utility_oracle
from datamarket_gym.payout.intake.times import ROLE as INTAKE
from datamarket_gym.payout.intake.times import IntakeLog, LogHead, placed
from datamarket_gym.payout.intervals import half_width, moved_at_most, standard_errors, validation_groups
from datamarket_gym.payout.manifest import require_as_written, run_id
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.overrides import Override, overridden, read_overrides
from datamarket_gym.payout.prior.known import KnownUnits
from datamarket_gym.payout.prior.overrides import overridden_known
from datamarket_gym.payout.prior.runs import ROLE as PRIOR
from datamarket_gym.payout.prior.runs import PriorRun
from datamarket_gym.payout.prior.units import PriorUnits
from datamarket_gym.payout.results import Results, in_cents, raw_scores
from datamarket_gym.payout.reuse import told
from datamarket_gym.payout.scored import scores_file
from datamarket_gym.payout.settles import Settles
from datamarket_gym.payout.spec import PayoutSpec
from datamarket_gym.payout.threshold import DrawnThreshold, choose_evidence
from datamarket_gym.pipeline.compare import compared
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.pipeline.payments import Payments, among
from datamarket_gym.pipeline.prior import Known, bought_before
from datamarket_gym.pipeline.records import record_format
from datamarket_gym.pipeline.represent import CanonicalUnits, represent
from datamarket_gym.pipeline.score import Scores, score
from datamarket_gym.pipeline.set_aside import require_playable
from datamarket_gym.pipeline.settle import drawing_lots
from datamarket_gym.pipeline.share import Amounts, share
from datamarket_gym.pipeline.tie import nearest_units, tie
from datamarket_gym.units.submission import Submission

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
    upto: LogHead | None = None

    def as_dict(self) -> dict[str, str]:
        """Absolute paths by role, or queries, for the book."""
        named = {k: v for k, v in vars(self).items() if isinstance(v, Path)}
        named |= {f"{PRIOR} {i}": folder for i, folder in enumerate(self.prior, 1)}
        found = {role: self.queries.get(role) or str(path.resolve()) for role, path in named.items()}
        return found if self.intake is None else found | {INTAKE: placed(self.intake)}


@dataclass(frozen=True)
class Payday:
    """All that decides a run, read and checked; ``run`` is its id."""

    spec: PayoutSpec
    inputs: Inputs
    overrides: list[Override]
    taken: Taken
    edge_table: Path | None
    run: str
    settles: Settles | None = None
    left_out: tuple[
        str, ...
    ] = ()  # what disputes decided of units and identities that are not in the run

    @classmethod
    def read(
        cls, places: Places, spec: PayoutSpec, settles: Settles | None = None, taken: Taken | None = None
    ) -> Payday:
        """Read the inputs; without the units that checks of the run that this one settles found.

        ``taken`` is what the book brings: balances, and overrides by which disputes were resolved.
        """
        taken = taken or Taken()
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
        earlier = tuple(PriorRun.read(folder) for folder in places.prior)
        if earlier:
            inputs = inputs.given(PriorUnits.read(earlier, inputs.kind), spec)
        standing, left_out = fitting(
            taken.overrides, inputs.units_named(taken.overrides), inputs.identities
        )
        overrides, taken = [*own, *standing], replace(taken, overrides=standing)
        run = run_id(
            spec, inputs.files, overrides, taken.opening, settles, prior=[p.plain for p in earlier]
        )
        payday = cls(spec, inputs, overrides, taken, edge_table, run, settles, tuple(left_out))
        return payday.with_names(places.queries)

    def with_names(self, names: dict[str, str]) -> Payday:
        """The same run of files that had these names: a file is what it holds, whatever it is called now."""
        files = {
            role: {**said, "name": names.get(role, said["name"])}
            for role, said in self.inputs.files.items()
        }
        return replace(self, inputs=replace(self.inputs, files=files))

    @property
    def unpaid(self) -> frozenset[str]:
        """Identities that are paid nothing in this run."""
        return frozenset() if self.settles is None else self.settles.unpaid

    @cached_property
    def leaks(self) -> Leaks:
        """The units that are validation rows, or nearly; an error where there must be none."""
        inputs, check = self.inputs, self.spec.leak_check
        leaks = Leaks.none() if check == "off" else find_leaks(*self._compared())
        require_playable(check, inputs.named(leaks), len(inputs.ids), visible)
        return leaks

    def _compared(self) -> tuple[Submission, HeldRows]:
        """The units and, in the order of their file, the validation rows, as evidence compares them."""
        inputs, utility = self.inputs, utility_oracle(self.inputs, self.spec)
        seen, held = compared(inputs.submission, utility)[0], inputs.held
        if seen is not inputs.submission:
            held = replace(held, embedding=utility.compared(held.features))
        return seen, held


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


@dataclass(frozen=True)
class Work:
    """The stages of a payday in a run: one that is made now, or a finished one."""

    payday: Payday
    run: Run | FinishedRun
    reuse: NearestRows | None = None  # kept by another run; the results are the same without
    asked: dict[str, Values] = field(default_factory=dict)  # as `judged_threshold` keeps it, if made now

    def results(self) -> Results:
        """Everything up to the cents."""
        self.run.progress.stage("looking for leaked validation rows")
        leaks, inputs = self._kept("leaks", Leaks, lambda: self.payday.leaks), self.payday.inputs
        playing = replace(self, payday=replace(self.payday, inputs=inputs.without(leaks)))
        return playing._paid_out(inputs.named(leaks))

    def _paid_out(self, leaks: Leaks) -> Results:
        """The stages on the units that play."""
        day, inputs, spec = self.payday, self.payday.inputs, self.payday.spec
        self.run.progress.stage("checking which similarity threshold may be used")
        threshold = self.threshold()
        mechanism = drawing_lots(spec.mechanism(threshold.evidence), utility_oracle(inputs, spec))
        self.run.progress.stage(f"looking for copies ({threshold.evidence})")
        found, overrides = self.bought_before(mechanism)
        known = inputs.named_known(found)
        playing = replace(self, payday=replace(day, inputs=inputs.without_known(found)))
        return playing._divided(
            threshold, mechanism, playing.clusters(mechanism, overrides), leaks, known
        )

    def _divided(
        self,
        threshold: DrawnThreshold,
        mechanism: Mechanism,
        clusters: Clusters,
        leaks: Leaks,
        known: KnownUnits,
    ) -> Results:
        """What units that play, and were not bought before, are worth, and what that comes to in cents."""
        day, inputs, spec = self.payday, self.payday.inputs, self.payday.spec
        owners = payees(inputs, spec, day.edge_table, day.overrides)
        self.run.progress.stage(f"scoring {clusters.n_clusters:,} clusters")
        paid = self.paid(mechanism, clusters, "", groups=True)
        self.run.progress.stage("scoring once more without evidence")
        apart = clusters_by(inputs.submission, Edges.none(), clusters.granularity, clusters.lot)
        plain = self.paid(mechanism, apart, "without_evidence_", groups=False)
        cents, without = (
            in_cents(p, inputs, spec, owners.group, day.taken.opening, day.unpaid) for p in (paid, plain)
        )
        return Results(
            spec, inputs, threshold, mechanism, day.overrides, paid, owners, cents.names, cents.division,
            raw_scores(paid), standard_errors(cents.payer, paid.scores), half_width(len(paid.scores.by_group)),
            moved_at_most(cents.payer, paid.scores), without.division.paid, leaks, known, self.asked,
        )  # fmt: skip

    def threshold(self) -> DrawnThreshold:
        """The evidence that may be used."""
        inputs, spec = self.payday.inputs, self.payday.spec
        return self.run.output(
            "threshold.json", _THRESHOLD, lambda: choose_evidence(inputs, spec, self.asked)
        )

    def bought_before(self, mechanism: Mechanism) -> tuple[Known, list[Override]]:
        """The units that earlier runs have bought, after overrides; and what these say of the others."""
        day, inputs, prior = self.payday, self.payday.inputs, self.payday.inputs.prior
        if prior is None:
            return Known.none(), day.overrides

        def found() -> Known:
            return bought_before(mechanism, inputs.submission, utility_oracle(inputs, day.spec))

        known = self._kept("prior_known", Known, found)
        overrides = [o.without(inputs.absent) for o in day.overrides]
        return overridden_known(known, overrides, prior, inputs.ids)

    def clusters(self, mechanism: Mechanism, overrides: Sequence[Override]) -> Clusters:
        """The ties that were found, after the operator's overrides."""
        day, submission = self.payday, self.payday.inputs.submission

        def tied() -> Clusters:
            known = known_ties(day.inputs, day.spec, day.edge_table)
            utility = utility_oracle(day.inputs, day.spec)
            nearest = self._kept(
                "nearest",
                NearestRows,
                lambda: told(
                    nearest_units(mechanism, submission, utility, self.reuse), self.run.progress
                ),
            )
            return tie(mechanism, submission, known=known, utility=utility, nearest=nearest)

        ties = self._kept("ties", Clusters, tied)
        left = [o.without(day.inputs.absent) for o in overrides]
        rank = seniority_ranks(submission, mechanism.lot)
        edges = overridden(ties.edges, left, day.inputs.ids, "units", rank)
        return clusters_by(submission, edges, ties.granularity, mechanism.lot)

    def paid(self, mechanism: Mechanism, clusters: Clusters, prefix: str, *, groups: bool) -> Payments:
        """The other stages; ``groups`` asks for scores on groups of validation rows too."""
        inputs, submission = self.payday.inputs, self.payday.inputs.submission

        def scored() -> Scores:
            utility = utility_oracle(inputs, self.payday.spec)
            require_learnable(canonical.label, utility)
            dealt = (
                validation_groups(utility.features, utility.label, mechanism.seed) if groups else None
            )
            return score(mechanism, canonical, self._counted(utility, canonical, mechanism), dealt)

        canonical = self._kept(
            f"{prefix}represented",
            CanonicalUnits,
            lambda: represent(mechanism, submission, clusters).stored(),
        ).restored(submission)
        scores = self._kept(f"{prefix}scores", Scores, scored)
        shares = self._kept(
            f"{prefix}amounts",
            Amounts,
            lambda: share(mechanism, submission, clusters, canonical, scores),
        )
        paid = Payments(submission.identities, clusters, canonical, scores, shares)
        return among(paid, inputs.everyone)

    def _counted(
        self, utility: UtilityOracle, canonical: CanonicalUnits, mechanism: Mechanism
    ) -> UtilityOracle:
        """The same utility; one of the operator's own, which may take long, says how far it is."""
        learner, progress = utility.learner, self.run.progress
        if isinstance(learner, FunctionUtility):
            most = ESTIMATORS.create(mechanism.estimator).budget(mechanism.samples, canonical.n_clusters)
            utility.learner = replace(learner, progress=lambda done: progress.count(done, most))
        return utility

    def _kept(self, name: str, kind: type[R], make: Callable[[], R]) -> R:
        """A stage's record; made, and kept, where it is not there yet."""
        return self.run.output(f"records/{name}.npz", record_format(kind), make)
