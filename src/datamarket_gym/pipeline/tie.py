"""Stage 1, tie: which submitted units are one attribution object, and why.

The record is `Clusters`: the cluster of each unit and the ties that made it, each with its reason and
score. Whoever has a say after the evidence (an operator who signs off an exception, a question of what
would be without some ties) makes other clusters from other edges by `clusters_by`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from datamarket_gym.evidence.graph import Clusters, Edges, EvidenceGraph
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.pipeline.compare import compared
from datamarket_gym.units.submission import Submission
from datamarket_gym.units.truth import GroundTruth

if TYPE_CHECKING:
    from datamarket_gym.pipeline.mechanism import Mechanism


def tie(
    mechanism: Mechanism,
    submission: Submission,
    truth: GroundTruth | None = None,
    known: Edges | None = None,
    utility: UtilityOracle | None = None,
) -> Clusters:
    """Clusters by the mechanism's evidence, and by ties that are known from elsewhere.

    The truth is shown only to evidence that declares an oracle. With the utility that is paid for, evidence compares
    units as it does (`pipeline.compare`); without one, their embeddings or features as they are. Ties are among these
    units: those that were bought before (`pipeline.prior`) are taken out first.
    """
    seen = submission if utility is None else compared(submission, utility)[0]
    found = EvidenceGraph.build(
        seen,
        mechanism.evidence,
        granularity=mechanism.granularity,
        truth=truth,
        seed=mechanism.seed,
        known=known,
        lot=mechanism.lot,
    )
    return found if seen is submission else replace(found, submission=submission)
