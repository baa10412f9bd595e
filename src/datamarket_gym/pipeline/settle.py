"""Before the stages, settle: what a mechanism leaves open until submissions have closed.

That is the threshold of evidence that leaves it open (``lineage@auto``), and the text that units of equal time draw
lots under. One policy (`evidence.threshold.choice`) for whoever pays. It looks at the operator's validation rows, or
at the reference rows that the utility holds in their stead, and at the submission, so the same mechanism may settle
on another threshold when more units are submitted. Evidence that names its threshold is used as it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from datamarket_gym.core.arrays import Features
from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.core.registry import written
from datamarket_gym.core.screen import counted
from datamarket_gym.core.stacked import Rows, Stacked
from datamarket_gym.evidence.graph import LAYERS
from datamarket_gym.evidence.leak import HeldRows, find_leaks
from datamarket_gym.evidence.lineage import AUTO, Lineage
from datamarket_gym.evidence.threshold.choice import LabelledVectors, Threshold, choose_threshold
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.pipeline.compare import compared
from datamarket_gym.units.prior import PriorArt, require_same_columns
from datamarket_gym.units.submission import Submission

if TYPE_CHECKING:
    from datamarket_gym.pipeline.mechanism import Mechanism

OPEN = "lineage@auto"


def open_lineage(evidence: str) -> Lineage | None:
    """The layer, where the validation rows have yet to say its threshold."""
    layer = LAYERS.create(evidence)
    return layer if isinstance(layer, Lineage) and layer.theta == AUTO else None


def settle(
    mechanism: Mechanism, submission: Submission, utility: UtilityOracle
) -> tuple[Mechanism, Threshold | None]:
    """The mechanism with nothing left open, and the record of its threshold; None where that was not open."""
    mechanism = drawing_lots(mechanism, utility)
    layer = open_lineage(mechanism.evidence)
    if layer is None:
        return mechanism, None
    found = judged_threshold(submission, utility)
    closed = written(replace(layer, theta=found.layer_theta))
    return mechanism.model_copy(update={"evidence": closed}), found


def drawing_lots(mechanism: Mechanism, utility: UtilityOracle) -> Mechanism:
    """The mechanism with a beacon: its own, or one made of the validation rows."""
    return mechanism if mechanism.beacon else mechanism.model_copy(update={"beacon": utility.secret})


def judged_threshold(submission: Submission, utility: UtilityOracle, wanted: str = AUTO) -> Threshold:
    """What the checks say about a submission, and about prior art with it, whatever threshold the mechanism uses."""
    periods = [submission] if utility.prior is None else [_crowd(utility.prior, utility), submission]
    require_same_columns(periods)
    seen = [compared(units, utility)[0] for units in periods]
    utility = compared(submission, utility)[1]
    reference = utility.reference
    honest = honest_rows(seen[-1], utility)
    if reference is None:
        return choose_threshold(honest, _stacked([units.vectors for units in seen]), wanted)
    # Reference rows need not be secret: who submits them again may be paid, but must not make a crowd of them.
    rows = HeldRows(reference.features, reference.embedding, reference.text, "reference")
    known = [find_leaks(units, rows) for units in seen]
    strangers = [
        units.vectors[leaks.others(len(units))] for units, leaks in zip(seen, known, strict=True)
    ]
    found = choose_threshold(honest, _stacked(strangers), wanted, "reference")
    equal = sum(len(leaks) for leaks in known)
    if not equal or found.floor is None:
        return found
    aside = f"{counted(equal, 'unit')} that equal reference rows, or nearly, have no say in it"
    return found.model_copy(update={"why": f"{found.why}; {aside}"})


def _stacked(periods: list[Features]) -> Rows:
    return periods[0] if len(periods) == 1 else Stacked(*periods)


def _crowd(prior: PriorArt, utility: UtilityOracle) -> Submission:
    """Old units without those that were set aside because they are validation rows.

    Else whoever knew some of the rows, and sold them, would have lifted the threshold for good.
    """
    others = np.setdiff1d(np.arange(len(prior)), prior.canonical)
    if not len(others):
        return prior.units
    seen, judging = compared(prior.units.take(others), utility)
    leaks = find_leaks(seen, HeldRows(judging.features, judging.embedding))
    if not len(leaks):
        return prior.units
    return prior.units.take(np.delete(np.arange(len(prior)), others[leaks.unit]))


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
    return LabelledVectors(held, rows.label)


def _require_width(submission: Submission, width: int, whose: str) -> None:
    ours = submission.vectors.shape[1]
    if ours != width:
        what = "features" if submission.embedding is None else "embedding"
        raise SubmissionError(
            f"column {what!r} has {ours} numbers per unit but the {whose} rows have {width}; "
            "use the same encoder for both"
        )
