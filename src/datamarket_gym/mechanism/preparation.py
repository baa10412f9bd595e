"""Resolve the threshold that a mechanism leaves open until submissions have closed, and what evidence compares.

``lineage@auto`` leaves it open. One policy (`evidence.threshold.choice`) resolves it for whoever pays. It looks at the
operator's validation rows, or at the reference rows that the utility holds in their stead, and at the submission, so
the same mechanism may resolve to another threshold when more units are submitted. Evidence that names its threshold is
used as it is.

Evidence compares the embeddings that a submission brings; else what the utility's learner compares of features
(`Learner.compared`). Coverage of a table goes by standardised features, and so must evidence: in columns of very
unequal spread the cosine of raw numbers tells hardly any two units apart, and no threshold would match a copy without
matching strangers.

A later period: which units were bought before, and what is left to play.

A unit that evidence ties to an old one, by itself and not through other new units, belongs to the old one's owner and
earns nothing now: it was bought. The others play given what was bought, v(S) = U(P + S) - U(P), with the ties that they
have among themselves.

Theorem (what was bought has no say). Given the evidence, submitting units that were bought before changes neither what
plays nor its ties and scores: whether u is known depends on u and on old units alone, and known units are taken out
before anything else is asked. Were units also known through other new units, early noisy copies of old units would draw
honest new ones into old trees; and a copy of a copy gains nothing that a farther copy would not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.acquired import AcquiredData, joined, require_same_columns
from datamarket_gym.data.labels import are_numbers
from datamarket_gym.data.submission import Submission, Text
from datamarket_gym.display import Shown, counted
from datamarket_gym.errors import NothingNewError, ParameterError, SubmissionError
from datamarket_gym.evidence.graph import LAYERS, EvidenceGraph, EvidenceLayer
from datamarket_gym.evidence.leakage import HeldRows, find_leaks
from datamarket_gym.evidence.lineage import AUTO, NONE, Lineage
from datamarket_gym.evidence.threshold import LabelledVectors, Threshold, choose_threshold, unit_density
from datamarket_gym.execution.arrays import (
    WHOLE,
    Codes,
    Features,
    LowPrecisionRows,
    Mapped,
    Rows,
    Values,
    highest_cosines,
    in_order,
)
from datamarket_gym.utilities.oracle import UtilityOracle

if TYPE_CHECKING:
    from datamarket_gym.mechanism.mechanism import Mechanism
    from datamarket_gym.mechanism.payments import Payments


OPEN = "lineage@auto"


def compared(submission: Submission, utility: UtilityOracle) -> tuple[Submission, UtilityOracle]:
    """Give the submission and the utility what evidence compares as embeddings, where that is not the features.

    For evidence alone: what is paid for, and what records hold, are the units as they were submitted. Of many units
    it is worked out where it is read.
    """
    if submission.embedding is not None:
        return submission, utility
    vectors = compared_rows(submission, utility)
    if vectors is submission.features:
        return submission, utility
    whole = submission.features.size <= WHOLE
    return submission.compared_by(
        vectors[:] if whole else LowPrecisionRows([vectors], finite=True)
    ), utility.judging


def compared_rows(units: Submission, utility: UtilityOracle) -> Rows:
    """Return what evidence compares of units, computed where it is read: those of earlier periods are many."""
    if units.embedding is not None:
        return units.embedding
    towards, one = utility.compared, units.features[:1]
    return units.features if towards(one) is one else Mapped(units.features, towards)


def open_lineage(evidence: str | EvidenceLayer) -> Lineage | None:
    """Return the layer if the validation rows have yet to say its threshold, else None."""
    layer = LAYERS.create(evidence)
    return layer if isinstance(layer, Lineage) and layer.theta == AUTO else None


def resolve_threshold(
    mechanism: Mechanism,
    submission: Submission,
    utility: UtilityOracle,
    judge: Callable[[Submission, UtilityOracle], Threshold] | None = None,
) -> tuple[Mechanism, Threshold | None]:
    """Resolve what a mechanism leaves open: its threshold, and the beacon of random tie-breaking.

    Returns the record of the threshold as well, or None where the evidence names its own. ``judge`` replaces
    `judged_threshold`.
    """
    if not mechanism.beacon:
        mechanism = mechanism.model_copy(update={"beacon": utility.secret})
    layer = open_lineage(mechanism.evidence)
    if layer is None:
        return mechanism, None
    threshold = (judge or judged_threshold)(submission, utility)
    closed = replace(layer, theta=threshold.layer_theta)
    return mechanism.model_copy(update={"evidence": closed}), threshold


def judged_threshold(
    submission: Submission,
    utility: UtilityOracle,
    wanted: str = AUTO,
    asked: dict[str, Values] | None = None,
) -> Threshold:
    """What the checks say about a submission, and about prior art with it, whatever threshold the mechanism uses.

    In ``asked`` is kept what crowding was told of the submission alone, for `highest_for_later`.
    """
    if utility.prior is not None:
        require_same_columns([utility.prior.units, submission])
        if wanted != NONE and (near := _known_crowd(utility.prior, submission, utility)):
            ours = compared(submission, utility)[0]
            honest = honest_rows(submission, utility)
            return choose_threshold(honest, ours.vectors, wanted, nearest=near)
    periods = [submission] if utility.prior is None else [_crowd(utility.prior, utility), submission]
    seen = [compared(units, utility)[0] for units in periods]
    utility = compared(submission, utility)[1]
    reference = utility.reference
    honest = honest_rows(seen[-1], utility)
    if reference is None:
        vectors = _stacked([units.vectors for units in seen])
        if asked is None or utility.prior is not None:
            return choose_threshold(honest, vectors, wanted)

        def noted(crowd: Features) -> Values:
            asked[crowd_key(crowd, utility)] = found = highest_cosines(crowd, vectors)
            return found

        return choose_threshold(honest, vectors, wanted, nearest=noted)
    # Reference rows need not be secret: who submits them again may be paid, but must not make a crowd of them.
    rows = HeldRows(reference.features, reference.embedding, reference.text, "reference")
    known = [find_leaks(units, rows) for units in seen]
    strangers = [
        in_order(units.vectors, leaks.others(len(units)))
        for units, leaks in zip(seen, known, strict=True)
    ]
    found = choose_threshold(honest, _stacked(strangers), wanted, "reference")
    equal = sum(len(leaks) for leaks in known)
    if not equal or found.floor is None:
        return found
    aside = f"{counted(equal, 'unit')} that equal reference rows, or nearly, have no say in it"
    return found.model_copy(update={"why": f"{found.why}; {aside}"})


def _stacked(periods: list[Features]) -> Rows:
    return periods[0] if len(periods) == 1 else LowPrecisionRows(periods)


def _crowd(prior: AcquiredData, utility: UtilityOracle) -> Submission:
    """Old units without those that were set aside because they are validation rows.

    Else whoever knew some of the rows, and sold them, would have lifted the threshold for good.
    """
    rows = _crowd_rows(prior.units, prior.canonical, utility)
    return prior.units if rows is None else prior.units.take(rows)


def _crowd_rows(
    units: Submission, canonical: Codes, utility: UtilityOracle, cleared: int = 0
) -> Codes | None:
    """The same by their rows; None where that is all of them. The first ``cleared`` are known to be no such rows."""
    others = np.setdiff1d(np.arange(cleared, len(units)), canonical)
    if not len(others):
        return None
    seen, judging = compared(units.take(others), utility)
    leaks = find_leaks(seen, HeldRows(judging.features, judging.embedding))
    return np.delete(np.arange(len(units)), others[leaks.unit]) if len(leaks) else None


def _known_crowd(
    prior: AcquiredData, submission: Submission, utility: UtilityOracle
) -> Callable[[Features], Values] | None:
    """How near directions that crowding asks come to any unit, where that is known of prior art; else None."""
    honest = None if utility.reference is not None else honest_rows(submission, utility)
    crowd = None if honest is None else unit_density(honest)
    known = None if crowd is None else prior.highest.get(crowd_key(crowd, utility))
    if known is None:
        return None
    new = compared(submission, utility)[0].vectors
    return lambda asked: np.maximum(known, highest_cosines(asked, new))


def highest_for_later(
    units: Submission,
    stands: Codes,
    utility: UtilityOracle,
    cleared: int = 0,
    asked: Mapping[str, Values] | None = None,
) -> dict[str, Values]:
    """What a later period will ask of these units as prior art, by a digest of what it asks with (`PriorArt.highest`).

    How near the validation rows that crowding asks come to any unit; and what the units that stand for their clusters
    (rows ``stands``) are to all validation rows, by the utility's learner. The first ``cleared`` units are known to be
    no validation rows, and ``asked`` is what `judged_threshold` was told of these, if it was asked about all of them.
    """
    out = {}
    rows = in_order(units.features, stands)
    found = utility.highest(rows, units.label[stands]) if len(stands) else None
    if found is not None:
        out[utility.held_digest] = found
    honest = honest_rows(units, utility) if utility.reference is None else None
    crowd = None if honest is None else unit_density(honest)
    if crowd is not None:
        rows = _crowd_rows(units, stands, utility, cleared)
        seen, key = compared_rows(units, utility), crowd_key(crowd, utility)
        known = None if asked is None else asked.get(key)
        if known is None:
            out[key] = highest_cosines(crowd, seen, rows=rows)
        else:
            rows = np.arange(len(units)) if rows is None else rows
            out[key] = np.maximum(known, highest_cosines(crowd, seen, rows=rows[rows >= cleared]))
    return out


def crowd_key(crowd: Features, utility: UtilityOracle) -> str:
    """A digest of what crowding asks with: directions of honest units, and how units are compared with them."""
    text = f"crowd|{utility.held_digest}|{crowd.shape}|"
    return hashlib.sha256(text.encode() + np.ascontiguousarray(crowd).tobytes()).hexdigest()


def honest_rows(submission: Submission, utility: UtilityOracle) -> LabelledVectors | None:
    """The vectors that thresholds are measured on, of reference rows or else of validation rows; None without any."""
    submission, utility = compared(submission, utility)
    whose, rows = (
        ("validation", utility) if utility.reference is None else ("reference", utility.reference)
    )
    held = rows.features if submission.embedding is None else rows.embedding
    if held is None:
        return None
    _require_width(submission, held.shape[1], whose)
    # What is a class, and what is not, is for the learner to say if it needs one.
    match utility.learner.target:
        case "number":
            return LabelledVectors(held)
        case "class" if are_numbers(rows.label):
            return LabelledVectors(held, rows.label.astype(str))
        case _:
            return LabelledVectors(held, rows.label)


def _require_width(submission: Submission, width: int, whose: str) -> None:
    ours = submission.vectors.shape[1]
    if ours != width:
        what = "features" if submission.embedding is None else "embedding"
        raise SubmissionError(
            f"column {what!r} has {ours} numbers per unit but the {whose} rows have {width}; "
            "use the same encoder for both"
        )


@dataclass(frozen=True, eq=False)
class Known(Shown):
    """New units that were bought before: row ``unit[i]`` is tied to the row ``old[i]`` of the prior art, and why."""

    unit: Codes
    old: Codes
    score: Values
    reason: Text

    def __len__(self) -> int:
        return len(self.unit)

    @staticmethod
    def none() -> Known:
        """Nothing was bought before."""
        empty = np.empty(0, dtype=np.int64)
        return Known(empty, empty, np.empty(0), np.empty(0, dtype=np.str_))

    def where(self, chosen: NDArray[np.bool_] | Codes) -> Known:
        """Some of them (a mask or places), in that order."""
        return Known(self.unit[chosen], self.old[chosen], self.score[chosen], self.reason[chosen])

    def others(self, n: int) -> Codes:
        """The rows of n that are new; an error where there are none."""
        rows = np.setdiff1d(np.arange(n), self.unit)
        if not len(rows):
            raise NothingNewError(
                "every unit is tied to one that was bought before, so nothing is left to pay for: was this period, or "
                "this file, paid already?"
            )
        return rows

    def among(self, rows: Codes) -> Known:
        """The same units by their rows in a submission of which these were ``rows``."""
        return replace(self, unit=rows[self.unit])


def acquired_from(payments: Payments) -> AcquiredData:
    """What a paid submission is to later periods: its units under their clusters' owners, and those trained on.

    Known units are no part of it: they were, before. Units that were set aside as validation rows are, under whoever
    submitted them, to be recognised: a copy of one that is changed until it is no such row any more is worth the most.
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
    aside = payments.leaks.units
    return AcquiredData(units if aside is None else Submission.concat([units, aside]), canonical.unit)


def find_acquired_units(mechanism: Mechanism, submission: Submission, utility: UtilityOracle) -> Known:
    """Find the units that the mechanism's evidence matches with previously acquired ones, each by its strongest match.

    What evidence compares is as in `match_units`. Unit by unit, whatever plays: that one unit of an identity was
    acquired says nothing of its others. Evidence that matches people (``linkage``) or everything (``pool``) says
    nothing of what was acquired: who sold in June sells other units in July.
    """
    prior, layer = utility.prior, LAYERS.create(mechanism.evidence)
    if prior is None or not layer.same_content:
        return Known.none()
    if layer.needs_oracle:
        raise ParameterError(
            "evidence",
            str(layer),
            "it asks an oracle, and nobody told it of earlier periods; choose evidence that looks at units",
        )
    n = len(prior)
    if isinstance(layer, Lineage):
        require_same_columns([prior.units, submission])
        old, new = prior.units, compared(submission, utility)[0]
        edges = layer.ties_to(old, new, compared_rows(old, utility))
    else:
        seen = compared(joined(prior, submission), utility)[0]
        edges = EvidenceGraph.build(
            seen, mechanism.evidence, seed=mechanism.seed, lot=mechanism.lot, settled=n
        ).edges
    tied, unit = np.minimum(edges.left, edges.right), np.maximum(edges.left, edges.right) - n
    order = np.lexsort((tied, -edges.score, unit))
    first = order[np.unique(unit[order], return_index=True)[1]]
    return Known(unit[first], tied[first], edges.score[first], edges.reason[first])
