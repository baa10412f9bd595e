"""Before the stages, settle: the threshold of evidence that leaves it open (``hybrid_hash_cosine@auto``).

One policy (`evidence.threshold.choice`) for whoever pays. It looks at the operator's validation rows, which
the utility holds, and at the submission, so the same mechanism may settle on another threshold when more
units are submitted. Evidence that names its threshold is used as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.evidence.threshold.choice import LabelledVectors, Threshold, choose_threshold
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.units.submission import Submission

if TYPE_CHECKING:
    from datamarket_gym.pipeline.mechanism import Mechanism

OPEN = "hybrid_hash_cosine@auto"


def settle(
    mechanism: Mechanism, submission: Submission, utility: UtilityOracle
) -> tuple[Mechanism, Threshold | None]:
    """The mechanism with its threshold filled in, and the record of how; None where nothing was open."""
    if mechanism.evidence != OPEN:
        return mechanism, None
    found = judged_threshold(mechanism, submission, utility)
    return mechanism.model_copy(update={"evidence": found.evidence}), found


def judged_threshold(mechanism: Mechanism, submission: Submission, utility: UtilityOracle) -> Threshold:
    """What the checks say about a submission, whatever threshold the mechanism uses."""
    held = utility.features if submission.embedding is None else utility.embedding
    validation = None
    if held is not None:
        _require_width(submission, held.shape[1])
        validation = LabelledVectors(held, utility.label)
    return choose_threshold(
        LabelledVectors(submission.vectors, submission.label),
        validation,
        seed=mechanism.seed,
        granularity=mechanism.granularity,
    )


def _require_width(submission: Submission, width: int) -> None:
    ours = submission.vectors.shape[1]
    if ours != width:
        what = "features" if submission.embedding is None else "embedding"
        raise SubmissionError(
            f"column {what!r} has {ours} numbers per unit but the validation rows have {width}; "
            "use the same encoder for both"
        )
