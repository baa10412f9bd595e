"""Run the stages of a payment in their one order: leak check, threshold, match, represent, score, allocate.

`Mechanism.pay`, payout runs, certificates and questions of what would be paid run this sequence and never repeat it.
Two hooks let them take part: `Pipeline.override_acquired` and `Pipeline.override_matches` have a say after matching,
and `Pipeline.run_stage` keeps the record of a stage or reads it again.

Units that are validation rows, or nearly (`evidence.leakage`), and units that were acquired before are excluded first.
They earn nothing and have no say: neither the threshold nor the evidence nor the scores of others see them, so
everybody else is paid as if those units had not been submitted. Whoever submitted them is still listed among those who
are paid, with 0 for these units.

A unit that evidence matches with an acquired one, by itself and not through other new units, belongs to the acquired
one's owner and earns nothing now. The others play given the acquired data P, v(S) = U(P + S) - U(P), with the matches
that they have among themselves.

Theorem (acquired units have no say). Given the evidence, submitting units that were acquired before changes neither
what plays nor its matches and scores: whether u was acquired depends on u and on old units alone, and such units are
taken out before anything else is asked. Were units also recognised through other new units, early noisy copies of old
units would draw honest new ones into old trees; and a copy of a copy gains nothing that a farther copy would not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from datamarket_gym.data.acquired import AcquiredData, joined, require_same_columns
from datamarket_gym.data.ground_truth import GroundTruth
from datamarket_gym.data.submission import Submission
from datamarket_gym.display import Shown, counted
from datamarket_gym.errors import LeakError, ParameterError, SubmissionError
from datamarket_gym.evidence.graph import AcquiredMatches, Clusters, EvidenceGraph, EvidenceLayer, View
from datamarket_gym.evidence.leakage import Leaks, ValidationContent, find_leaks
from datamarket_gym.evidence.lineage import AUTO, Lineage
from datamarket_gym.evidence.similarity_search import NearestRows
from datamarket_gym.evidence.threshold import (
    Threshold,
    compared_vectors,
    measure_threshold,
    with_compared_vectors,
)
from datamarket_gym.execution.arrays import Codes
from datamarket_gym.mechanism.allocation import Amounts, allocate
from datamarket_gym.mechanism.payments import Payments
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

    ``rows`` are their places in the submission; those of `leaks` and `acquired` were excluded. ``mechanism`` has
    nothing left open; ``threshold`` says how it was resolved, where it was open.
    """

    submitted: Submission
    rows: Codes
    clusters: Clusters
    mechanism: Mechanism
    threshold: Threshold | None
    leaks: Leaks
    acquired: AcquiredMatches

    @property
    def playing(self) -> Submission:
        """The units that play."""
        assert self.clusters.submission is not None
        return self.clusters.submission

    def complete(self, payments: Payments) -> Payments:
        """Add to the payments of the clusters everybody who submitted, and what was excluded."""
        return replace(
            payments.extended_to(self.submitted.identities),
            threshold=self.threshold,
            leaks=self.leaks,
            acquired=self.acquired,
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

    def match(self, submission: Submission) -> Matching:
        """Check for leaks, resolve the threshold, exclude acquired units, and match the units that are left."""
        leaks = self.run_stage("leaks", Leaks, lambda: self.find_leaks(submission))
        rows = leaks.others(len(submission))
        playing = submission if len(rows) == len(submission) else submission.take(rows)
        require_learnable(playing.label, self.utility)
        mechanism, threshold = resolve_threshold(
            self.mechanism, playing, self.utility, self.measure_threshold
        )
        acquired = AcquiredMatches.none()
        if self.utility.prior is not None:
            acquired = self.run_stage(
                "acquired",
                AcquiredMatches,
                lambda: find_acquired_units(mechanism, playing, self.utility),
            )
            acquired = self.override_acquired(acquired, rows)
        if len(acquired):
            new = acquired.others(len(rows))
            acquired, rows = replace(acquired, unit=rows[acquired.unit]), rows[new]
            playing = playing.take(new)
            require_learnable(playing.label, self.utility)  # acquired units have no say in it
        clusters = self.run_stage("matches", Clusters, lambda: self.match_units(mechanism, playing))
        # A record that is read does not say of which units it is.
        clusters = replace(clusters, submission=playing, tie_breaker=mechanism.tie_breaker)
        clusters = self.override_matches(clusters, rows)
        return Matching(submission, rows, clusters, mechanism, threshold, leaks, acquired)

    def value(self, clusters: Clusters, prefix: str = "", groups: Codes | None = None) -> Payments:
        """Represent, score and allocate clusters; ``prefix`` tells the records of several clusterings apart.

        ``groups`` numbers groups of validation rows on which scores are asked for as well.
        """
        mechanism = self.mechanism
        canonical = self.represent(clusters, prefix)

        def score() -> Scores:
            return score_clusters(
                canonical,
                self.utility,
                mechanism.semivalue,
                mechanism.estimator,
                samples=mechanism.samples,
                seed=mechanism.seed,
                normalize=mechanism.normalize,
                groups=groups,
            )

        scores = self.run_stage(f"{prefix}scores", Scores, score)
        amounts = self.run_stage(
            f"{prefix}amounts",
            Amounts,
            lambda: allocate(clusters, canonical, scores, mechanism.allocation, self.truth),
        )
        return Payments.of(clusters, canonical, scores, amounts)

    def run_stage(self, name: str, kind: type[R], compute: Callable[[], R]) -> R:
        """Compute the record of a stage; a subclass may keep it, or read it where it was kept."""
        return compute()

    def override_acquired(self, acquired: AcquiredMatches, rows: Codes) -> AcquiredMatches:
        """Change which units, of those at ``rows`` of the submission, count as acquired before."""
        return acquired

    def override_matches(self, clusters: Clusters, rows: Codes) -> Clusters:
        """Change the clusters of the units at ``rows`` of the submission."""
        return clusters

    def find_leaks(self, submission: Submission) -> Leaks:
        """Find the units that are validation rows; raise an error where there must be none."""
        check = self.mechanism.leak_check
        leaks = find_leaked_units(check, submission, self.utility)
        require_playable(check, leaks, len(submission))
        return leaks

    def measure_threshold(self, submission: Submission, utility: UtilityOracle) -> Threshold:
        """Choose the threshold of evidence that leaves it open."""
        return measure_threshold(submission, utility)

    def match_units(self, mechanism: Mechanism, submission: Submission) -> Clusters:
        """Match units by the evidence of a mechanism that leaves nothing open."""
        return match_units(mechanism, submission, self.truth, self.utility)

    def represent(self, clusters: Clusters, prefix: str) -> CanonicalUnits:
        """Choose the rows that stand for the clusters."""
        return represent_clusters(clusters, self.mechanism.representative)


def find_leaked_units(
    leak_check: LeakCheck,
    submission: Submission,
    utility: UtilityOracle,
    validation: ValidationContent | None = None,
) -> Leaks:
    """Find the units that are validation rows, or nearly.

    ``validation`` are the validation rows where they have texts, or another order than the utility's.
    """
    if leak_check == "off":
        return Leaks.none()
    compared, judging = with_compared_vectors(submission, utility)
    rows = validation or ValidationContent(judging.features, judging.embedding)
    if validation is not None and judging is not utility:
        rows = replace(validation, embedding=utility.compared(validation.features))
    leaks = find_leaks(compared, rows)
    return replace(leaks, units=submission.take(leaks.unit)) if len(leaks) else leaks


def require_playable(
    leak_check: LeakCheck, leaks: Leaks, units: int, shown: Callable[[str], str] = str
) -> None:
    """Refuse leaks where they are errors, and a submission that is nothing but leaks."""
    if not len(leaks):
        return
    if leak_check == "error":
        raise LeakError(
            f"{leaks.message(shown)}. {REMEDY}; with the leak check 'drop' they are excluded"
        )
    if len(leaks) == units:
        raise LeakError(
            f"every unit equals a validation row, or nearly, so nothing is left to pay for: {leaks.message(shown)}. "
            "Check that the submissions and the validation rows are not the same data"
        )


def describe_leaks(leaks: Leaks, shown: Callable[[str], str] = str) -> str:
    """Say which units were excluded as leaked, and what to do about it."""
    return f"{leaks.message(shown)}; they are excluded and earn nothing. {REMEDY}"


def describe_acquired_rows(leak_check: LeakCheck, utility: UtilityOracle) -> str:
    """Say which validation rows were acquired before, number for number; blank where none was.

    They are covered for good: nobody is paid for them, and who covers the other rows takes all.
    """
    if leak_check == "off" or utility.prior is None:
        return ""
    rows = np.flatnonzero(are_among(utility.features, utility.prior.features))
    if not len(rows):
        return ""
    message = (
        f"{len(rows):,} of the {counted(len(utility.label), 'validation row')} were acquired in an earlier period, the "
        f"first being row {rows[0]}, so nobody is paid for what is like them; take rows that nobody has sold"
    )
    if leak_check == "error":
        raise LeakError(message)
    return message


def is_open(evidence: EvidenceLayer) -> bool:
    """Tell whether evidence leaves its threshold to the validation rows (``lineage@auto``)."""
    return isinstance(evidence, Lineage) and evidence.theta == AUTO


def resolve_threshold(
    mechanism: Mechanism,
    submission: Submission,
    utility: UtilityOracle,
    measure: Callable[[Submission, UtilityOracle], Threshold] = measure_threshold,
) -> tuple[Mechanism, Threshold | None]:
    """Resolve what a mechanism leaves open: its threshold, and the beacon of random tie-breaking.

    Returns the record of the threshold as well, or None where the evidence names its own.
    """
    if not mechanism.beacon:
        mechanism = mechanism.model_copy(update={"beacon": utility.secret})
    layer = mechanism.evidence
    if not (isinstance(layer, Lineage) and is_open(layer)):
        return mechanism, None
    threshold = measure(submission, utility)
    resolved = replace(layer, theta=threshold.layer_theta)
    return mechanism.model_copy(update={"evidence": resolved}), threshold


def match_units(
    mechanism: Mechanism,
    submission: Submission,
    truth: GroundTruth | None = None,
    utility: UtilityOracle | None = None,
    nearest: NearestRows | None = None,
) -> Clusters:
    """Match the units of a submission by a mechanism's evidence, and return the clusters of matched units.

    With the utility that is paid for, evidence compares units as it does (`with_compared_vectors`); without one,
    their embeddings or features as they are. ``nearest`` is what `nearest_units` said of this submission, or of
    another: it saves work and changes nothing.
    """
    compared = submission if utility is None else with_compared_vectors(submission, utility)[0]
    clusters = EvidenceGraph.build(
        compared,
        mechanism.evidence,
        granularity=mechanism.granularity,
        truth=truth,
        seed=mechanism.seed,
        tie_breaker=mechanism.tie_breaker,
        nearest=nearest,
    )
    return clusters if compared is submission else replace(clusters, submission=submission)


def nearest_units(
    mechanism: Mechanism,
    submission: Submission,
    utility: UtilityOracle,
    known: NearestRows | None = None,
) -> NearestRows:
    """Find the nearest earlier unit of each unit, as far as the mechanism's evidence asks for it, to be kept.

    ``known`` is what was kept of another submission: of units that are in both, in the same order, it is taken over.
    """
    if not isinstance(mechanism.evidence, Lineage):
        return NearestRows.none()
    compared = with_compared_vectors(submission, utility)[0]
    view = View(
        compared, "unit", np.arange(len(compared)), mechanism.seed, tie_breaker=mechanism.tie_breaker
    )
    return mechanism.evidence.nearest(view, known)


def find_acquired_units(
    mechanism: Mechanism, submission: Submission, utility: UtilityOracle
) -> AcquiredMatches:
    """Find the units that the mechanism's evidence matches with previously acquired ones, each by its strongest match.

    What evidence compares is as in `match_units`. Unit by unit, whatever plays: that one unit of an identity was
    acquired says nothing of its others. Evidence that matches people (``linkage``) or everything (``pool``) says
    nothing of what was acquired: who sold in June sells other units in July.
    """
    acquired, layer = utility.prior, mechanism.evidence
    if acquired is None or not layer.same_content:
        return AcquiredMatches.none()
    if layer.needs_oracle:
        raise ParameterError(
            "evidence",
            str(layer),
            "it asks an oracle, and none knows earlier periods; choose evidence that compares units",
        )
    n = len(acquired)
    if isinstance(layer, Lineage):
        require_same_columns([acquired.units, submission])
        compared = with_compared_vectors(submission, utility)[0]
        edges = layer.edges_to(acquired.units, compared, compared_vectors(acquired.units, utility))
    else:
        both = with_compared_vectors(joined(acquired, submission), utility)[0]
        edges = EvidenceGraph.build(
            both, layer, seed=mechanism.seed, tie_breaker=mechanism.tie_breaker, n_acquired=n
        ).edges
    old, unit = np.minimum(edges.left, edges.right), np.maximum(edges.left, edges.right) - n
    order = np.lexsort((old, -edges.score, unit))
    first = order[np.unique(unit[order], return_index=True)[1]]
    return AcquiredMatches(unit[first], old[first], edges.score[first], edges.reason[first])


def acquired_from(payments: Payments) -> AcquiredData:
    """Return what a paid submission is to later periods: its units under their clusters' owners.

    Units that were acquired before are no part of it: they were, before. Units that were excluded as validation rows
    are, under whoever submitted them, to be recognised: a copy of one that is changed until it is no such row any more
    is worth the most.

    Parameters
    ----------
    payments : Payments
        What `Mechanism.pay` returned.

    Returns
    -------
    AcquiredData
        The units, and which of them the model was trained on.

    Raises
    ------
    SubmissionError
        If the payments do not say which submission they divide, or rows were made (centroids).
    """
    submission, canonical = payments.clustering.submission, payments.canonical
    if submission is None:
        raise SubmissionError("these payments do not say which submission they divide")
    if (canonical.unit < 0).any() or canonical.weight is not None:
        raise SubmissionError(
            "rows that were made (centroids) are no units that somebody can submit again; pay by another representative"
        )
    # Of each cluster the first row that was trained on, and the first who has a claim on it.
    first = np.unique(canonical.cluster, return_index=True)[1]
    claim = np.unique(canonical.claim_row, return_index=True)[1]
    owner = submission.identity[canonical.claim_unit[claim[first]]][payments.clustering.label]
    owner = owner.astype(object)
    owner[canonical.unit] = submission.identity[canonical.claim_unit[claim]]
    units = submission.take(np.arange(len(submission)), {"identity": owner.astype(np.str_)})
    leaked = payments.leaks.units
    return AcquiredData(units if leaked is None else Submission.concat([units, leaked]), canonical.unit)
