"""Stage 1, tie: which submitted units are one attribution object, and why.

The record is `Clusters`: the cluster of each unit and the ties that made it, each with its reason and
score. Whoever has a say after the evidence (an operator who signs off an exception, a question of what
would be without some ties) makes other clusters from other edges by `clusters_by`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from datamarket_gym.evidence.graph import LAYERS, Clusters, Edges, EvidenceGraph, View
from datamarket_gym.evidence.lineage import Lineage
from datamarket_gym.evidence.nearest import NearestRows
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
    nearest: NearestRows | None = None,
) -> Clusters:
    """Clusters by the mechanism's evidence, and by ties that are known from elsewhere.

    The truth is shown only to evidence that declares an oracle. With the utility that is paid for, evidence compares
    units as it does (`pipeline.compare`); without one, their embeddings or features as they are. Ties are among these
    units: those that were bought before (`pipeline.prior`) are taken out first. ``nearest``
    is what `nearest_units` said of this submission, or of another: it saves work and changes nothing.
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
        nearest=nearest,
    )
    return found if seen is submission else replace(found, submission=submission)


def nearest_units(
    mechanism: Mechanism,
    submission: Submission,
    utility: UtilityOracle,
    known: NearestRows | None = None,
) -> NearestRows:
    """The nearest earlier unit of each unit, as far as the mechanism's evidence asks for it, to be kept.

    ``known`` is what was kept of another submission: of units that are in both, in the same order, it is taken over.
    """
    layer = LAYERS.create(mechanism.evidence)
    if not isinstance(layer, Lineage):
        return NearestRows.none()
    seen = compared(submission, utility)[0]
    everyone = np.arange(len(seen))
    return layer.nearest(View(seen, "unit", everyone, mechanism.seed, lot=mechanism.lot), known)
