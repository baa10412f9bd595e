"""Before the stages, compare: what similarity evidence sees of units, and of the operator's rows.

An embedding that the submission brings; else what the utility's learner compares of features (`Learner.compared`).
Coverage of a table goes by standardised features, and so must evidence: in columns of very unequal spread the cosine
of raw numbers tells hardly any two units apart, and no threshold would tie a copy without tying strangers.
"""

from __future__ import annotations

from datamarket_gym.core.narrow import WHOLE, Mapped, Narrow, Rows
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.units.submission import Submission


def compared(submission: Submission, utility: UtilityOracle) -> tuple[Submission, UtilityOracle]:
    """The submission and the utility with what evidence compares as embeddings, where that is not the features.

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
    """What evidence compares of units, worked out where it is read: those of earlier periods are many."""
    if units.embedding is not None:
        return units.embedding
    towards, one = utility.compared, units.features[:1]
    return units.features if towards(one) is one else Mapped(units.features, towards)
