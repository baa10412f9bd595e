"""The threshold of a payday: the policy of `evidence.threshold.choice`, with pictures of what it rests on.

A payday asks for ``auto``, for ``none``, or for a number, which the same rule must admit.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from datamarket_gym.core.arrays import Values
from datamarket_gym.evidence.threshold.choice import Threshold
from datamarket_gym.evidence.threshold.floors import (
    UnitVectors,
    same_class_similarities,
    variant_similarities,
    variants_for,
)
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.payout.spec import PayoutSpec
from datamarket_gym.pipeline.threshold import honest_rows, judged_threshold
from datamarket_gym.units.submission import Submission
from datamarket_gym.world.attacks.attack import ATTACKS
from datamarket_gym.world.data.embeddings import Embeddings

_BINS = np.round(np.linspace(-0.2, 1.0, 61), 10)


class DrawnThreshold(Threshold):
    """The threshold with the similarities that the report draws; empty where nothing was measured."""

    bins: list[float] = Field(default_factory=list)
    honest: list[float] = Field(default_factory=list)  # shares of pairs (of one class) per bin of cosine
    copies: list[float] = Field(default_factory=list)  # shares of noisy copies with their originals


def choose_evidence(
    submission: Submission,
    utility: UtilityOracle,
    spec: PayoutSpec,
    asked: dict[str, Values] | None = None,
) -> DrawnThreshold:
    """Choose a threshold that the false-match cost and the density correction admit.

    ``asked`` is as `judged_threshold` keeps it.
    """
    threshold = judged_threshold(submission, utility, spec.theta, asked)
    drawn = DrawnThreshold.model_validate(threshold.model_dump())
    honest = honest_rows(submission, utility)
    if honest is None or threshold.price is None:
        return drawn
    return drawn.model_copy(update=_pictures(honest.pool(), spec.seed))


def _pictures(pool: Embeddings, seed: int) -> dict[str, list[float]]:
    norms = np.linalg.norm(pool.vectors, axis=1, keepdims=True)
    unit: UnitVectors = (pool.vectors / norms).astype(np.float32)
    assert pool.label is not None
    code = np.unique(pool.label, return_inverse=True)[1].astype(np.int64)
    paired = np.bincount(code)[code] > 1
    rows = np.arange(min(len(unit), 2000))
    honest = same_class_similarities(unit[paired], np.unique(code[paired], return_inverse=True)[1], seed)
    copies = variant_similarities(pool, ATTACKS.create(variants_for(pool)), rows, seed)
    return {"bins": _BINS.tolist(), "honest": _shares(honest), "copies": _shares(copies)}


def _shares(similarities: Values) -> list[float]:
    counts = np.histogram(np.clip(similarities, _BINS[0], _BINS[-1]), bins=_BINS)[0]
    return [round(float(share), 6) for share in counts / counts.sum()]
