"""Resolve the threshold that a mechanism leaves open until submissions have closed, and what evidence compares.

``lineage@auto`` leaves it open. One policy (`evidence.threshold.choice`) resolves it for whoever pays. It looks at the
operator's validation rows, or at the reference rows that the utility holds in their stead, and at the submission, so
the same mechanism may resolve to another threshold when more units are submitted. Evidence that names its threshold is
used as it is.

Evidence compares the embeddings that a submission brings; else what the utility's learner compares of features
(`Learner.compared`). Coverage of a table goes by standardised features, and so must evidence: in columns of very
unequal spread the cosine of raw numbers tells hardly any two units apart, and no threshold would match a copy without
matching strangers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from datamarket_gym.core.arrays import Codes, Features, Values
from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.core.highest import highest_cosines
from datamarket_gym.core.narrow import WHOLE, Mapped, Narrow, Rows, in_order
from datamarket_gym.core.screen import counted
from datamarket_gym.evidence.graph import LAYERS, EvidenceLayer
from datamarket_gym.evidence.leak import HeldRows, find_leaks
from datamarket_gym.evidence.lineage import AUTO, NONE, Lineage
from datamarket_gym.evidence.threshold.choice import (
    LabelledVectors,
    Threshold,
    choose_threshold,
    crowd_of,
)
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.units.labels import are_numbers
from datamarket_gym.units.prior import PriorArt, require_same_columns
from datamarket_gym.units.submission import Submission

if TYPE_CHECKING:
    from datamarket_gym.pipeline.mechanism import Mechanism

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
        vectors[:] if whole else Narrow([vectors], finite=True)
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
    return periods[0] if len(periods) == 1 else Narrow(periods)


def _crowd(prior: PriorArt, utility: UtilityOracle) -> Submission:
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
    prior: PriorArt, submission: Submission, utility: UtilityOracle
) -> Callable[[Features], Values] | None:
    """How near directions that crowding asks come to any unit, where that is known of prior art; else None."""
    honest = None if utility.reference is not None else honest_rows(submission, utility)
    crowd = None if honest is None else crowd_of(honest)
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
    crowd = None if honest is None else crowd_of(honest)
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
