"""Run the stages of a payment in their one order: leak check, threshold, match, represent, score, allocate.

`Mechanism.pay`, payout runs, certificates and questions of what would be paid run this sequence and never repeat it.
Two hooks let them take part: `Pipeline.override_acquired` and `Pipeline.override_matches` have a say after matching,
and `Pipeline.run_stage` keeps the record of a stage or takes it up again.

Units that are validation rows, or nearly (`evidence.leak`), and units that were acquired before (`pipeline.prior`) are
set aside first. They earn nothing and have no say: neither the threshold nor the evidence nor the scores of others see
them, so everybody else is paid as if those units had not been submitted. Whoever submitted them is still listed among
those who are paid, with 0 for these units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from datamarket_gym.data.ground_truth import GroundTruth
from datamarket_gym.data.submission import Submission
from datamarket_gym.display import Shown, counted
from datamarket_gym.errors import LeakError
from datamarket_gym.evidence.graph import LAYERS, Clusters, EvidenceGraph, View
from datamarket_gym.evidence.leakage import HeldRows, Leaks, find_leaks
from datamarket_gym.evidence.lineage import Lineage
from datamarket_gym.evidence.similarity_search import NearestRows
from datamarket_gym.evidence.threshold import Threshold
from datamarket_gym.execution.arrays import Codes
from datamarket_gym.mechanism.allocation import Amounts, allocate
from datamarket_gym.mechanism.payments import Payments, among
from datamarket_gym.mechanism.preparation import (
    Known,
    compared,
    find_acquired_units,
    judged_threshold,
    resolve_threshold,
)
from datamarket_gym.mechanism.quotient_game import Scores, score_clusters
from datamarket_gym.mechanism.representatives import CanonicalUnits, represent_clusters
from datamarket_gym.utilities.base import among as are_among
from datamarket_gym.utilities.labels import require_learnable
from datamarket_gym.utilities.oracle import UtilityOracle

if TYPE_CHECKING:
    from datamarket_gym.mechanism.mechanism import Mechanism


R = TypeVar("R")

LeakCheck = Literal["off", "drop", "error"]

REMEDY = (
    "Validation rows decide what data are worth, so somebody may know them: take new ones if they leaked, or remove "
    "those that others come by honestly, such as boilerplate that many units repeat"
)


@dataclass(frozen=True, eq=False)
class Matching(Shown):
    """The units of a submission that play, and the clusters that evidence makes of them.

    ``rows`` are their places in the submission; those of `leaks` and `known` were set aside. ``mechanism`` has nothing
    left open; ``threshold`` says how it was resolved, where it was open.
    """

    submitted: Submission
    rows: Codes
    clusters: Clusters
    mechanism: Mechanism
    threshold: Threshold | None
    leaks: Leaks
    known: Known

    @property
    def playing(self) -> Submission:
        """The units that play."""
        assert self.clusters.submission is not None
        return self.clusters.submission

    def complete(self, payments: Payments) -> Payments:
        """Add to the payments of the clusters everybody who submitted, and what was set aside."""
        return replace(
            among(payments, self.submitted.identities),
            threshold=self.threshold,
            leaks=self.leaks,
            known=self.known,
            submitted=self.submitted,
        )


@dataclass(eq=False)
class Pipeline:
    """The stages by which a mechanism pays submissions for a utility.

    The truth is shown only to evidence and allocations that declare an oracle.
    """

    mechanism: Mechanism
    utility: UtilityOracle
    truth: GroundTruth | None = None

    def run_stage(self, name: str, kind: type[R], compute: Callable[[], R]) -> R:
        """Compute the record of a stage; a subclass may keep it, or read it where it was kept."""
        return compute()

    def override_acquired(self, known: Known, rows: Codes) -> Known:
        """Change which units, of those at ``rows`` of the submission, count as acquired before."""
        return known

    def override_matches(self, clusters: Clusters, rows: Codes) -> Clusters:
        """Change the clusters of the units at ``rows`` of the submission."""
        return clusters

    def find_leaks(self, submission: Submission) -> Leaks:
        """Find the units that are validation rows; raise an error where there must be none."""
        check = self.mechanism.leak_check
        leaks = find_leaked_units(check, submission, self.utility)
        require_playable(check, leaks, len(submission))
        return leaks

    def judge_threshold(self, submission: Submission, utility: UtilityOracle) -> Threshold:
        """Choose the threshold of evidence that leaves it open."""
        return judged_threshold(submission, utility)

    def match_units(self, mechanism: Mechanism, submission: Submission) -> Clusters:
        """Match units by the evidence of a mechanism that leaves nothing open."""
        return match_units(mechanism, submission, self.truth, self.utility)

    def represent(self, clusters: Clusters, prefix: str) -> CanonicalUnits:
        """Choose the rows that stand for the clusters."""
        return represent_clusters(clusters, self.mechanism.representative)

    def match(self, submission: Submission) -> Matching:
        """Set units aside, resolve the threshold, and match the units that are left."""
        leaks = self.run_stage("leaks", Leaks, lambda: self.find_leaks(submission))
        rows = leaks.others(len(submission))
        playing = _taken(submission, rows)
        require_learnable(playing.label, self.utility)
        mechanism, threshold = resolve_threshold(
            self.mechanism, playing, self.utility, self.judge_threshold
        )
        known = Known.none()
        if self.utility.prior is not None:
            known = self.override_acquired(
                self.run_stage(
                    "prior_known", Known, lambda: find_acquired_units(mechanism, playing, self.utility)
                ),
                rows,
            )
        if len(known):
            new = known.others(len(rows))
            known, rows = known.among(rows), rows[new]
            playing = playing.take(new)
            require_learnable(playing.label, self.utility)  # acquired units have no say in it
        clusters = self.run_stage("ties", Clusters, lambda: self.match_units(mechanism, playing))
        # A record that is read does not say of which units it is.
        clusters = replace(clusters, submission=playing, lot=mechanism.lot)
        clusters = self.override_matches(clusters, rows)
        return Matching(submission, rows, clusters, mechanism, threshold, leaks, known)

    def value(self, clusters: Clusters, prefix: str = "", groups: Codes | None = None) -> Payments:
        """Represent, score and allocate clusters; ``prefix`` tells the records of several clusterings apart.

        ``groups`` numbers groups of validation rows on which scores are asked for as well.
        """
        mechanism = self.mechanism
        canonical = self.represent(clusters, prefix)
        scores = self.run_stage(
            f"{prefix}scores",
            Scores,
            lambda: score_clusters(
                canonical, self.utility, mechanism.semivalue, mechanism.estimator,
                samples=mechanism.samples, seed=mechanism.seed, normalize=mechanism.normalize, groups=groups,
            ),
        )  # fmt: skip
        amounts = self.run_stage(
            f"{prefix}amounts",
            Amounts,
            lambda: allocate(clusters, canonical, scores, mechanism.allocation, self.truth),
        )
        assert clusters.submission is not None  # else nothing is allocated
        return Payments(clusters.submission.identities, clusters, canonical, scores, amounts)


def match_units(
    mechanism: Mechanism,
    submission: Submission,
    truth: GroundTruth | None = None,
    utility: UtilityOracle | None = None,
    nearest: NearestRows | None = None,
) -> Clusters:
    """Match the units of a submission by a mechanism's evidence, and return the clusters of matched units.

    With the utility that is paid for, evidence compares units as it does (`pipeline.threshold.compared`); without one,
    their embeddings or features as they are. ``nearest`` is what `nearest_units` said of this submission, or of
    another: it saves work and changes nothing.
    """
    seen = submission if utility is None else compared(submission, utility)[0]
    clusters = EvidenceGraph.build(
        seen,
        mechanism.evidence,
        granularity=mechanism.granularity,
        truth=truth,
        seed=mechanism.seed,
        lot=mechanism.lot,
        nearest=nearest,
    )
    return clusters if seen is submission else replace(clusters, submission=submission)


def nearest_units(
    mechanism: Mechanism,
    submission: Submission,
    utility: UtilityOracle,
    known: NearestRows | None = None,
) -> NearestRows:
    """Find the nearest earlier unit of each unit, as far as the mechanism's evidence asks for it, to be kept.

    ``known`` is what was kept of another submission: of units that are in both, in the same order, it is taken over.
    """
    layer = LAYERS.create(mechanism.evidence)
    if not isinstance(layer, Lineage):
        return NearestRows.none()
    seen = compared(submission, utility)[0]
    everyone = np.arange(len(seen))
    return layer.nearest(View(seen, "unit", everyone, mechanism.seed, lot=mechanism.lot), known)


def find_leaked_units(
    leak_check: LeakCheck,
    submission: Submission,
    utility: UtilityOracle,
    validation: HeldRows | None = None,
) -> Leaks:
    """Find the units that are validation rows, or nearly.

    ``validation`` are the validation rows where they have texts, or another order than the utility's.
    """
    if leak_check == "off":
        return Leaks.none()
    seen, judging = compared(submission, utility)
    rows = validation or HeldRows(judging.features, judging.embedding)
    if validation is not None and judging is not utility:
        rows = replace(validation, embedding=utility.compared(validation.features))
    leaks = find_leaks(seen, rows)
    return replace(leaks, units=submission.take(leaks.unit)) if len(leaks) else leaks


def require_playable(
    leak_check: LeakCheck, leaks: Leaks, units: int, shown: Callable[[str], str] = str
) -> None:
    """Refuse leaks where they are errors, and a submission that is nothing but leaks."""
    if not len(leaks):
        return
    if leak_check == "error":
        raise LeakError(f"{leaks.words(shown)}. {REMEDY}; with the leak check 'drop' they are set aside")
    if len(leaks) == units:
        raise LeakError(
            f"every unit equals a validation row, or nearly, so nothing is left to pay for: {leaks.words(shown)}. "
            "Check that the submissions and the validation rows are not the same data"
        )


def describe_leaks(leaks: Leaks, shown: Callable[[str], str] = str) -> str:
    """Say which units were set aside as leaked, and what to do about it."""
    return f"{leaks.words(shown)}; they are set aside and earn nothing. {REMEDY}"


def describe_acquired_rows(leak_check: LeakCheck, utility: UtilityOracle) -> str:
    """Say which validation rows were acquired before, number for number; blank where none was.

    They are covered for good: nobody is paid for them, and who covers the other rows takes all.
    """
    if leak_check == "off" or utility.prior is None:
        return ""
    bought = np.flatnonzero(are_among(utility.features, utility.prior.features))
    if not len(bought):
        return ""
    words = (
        f"{len(bought):,} of the {counted(len(utility.label), 'validation row')} were bought in an earlier period, the "
        f"first being row {bought[0]}, so nobody is paid for what is like them; take rows that nobody has sold"
    )
    if leak_check == "error":
        raise LeakError(words)
    return words


def _taken(submission: Submission, rows: Codes) -> Submission:
    return submission if len(rows) == len(submission) else submission.take(rows)
