"""Which evidence may be used: hashes always, cosine only where the admissibility check allows it.

The check asks how alike *honest* units are. It is therefore made on the validation rows, which are the
operator's own: made on the submissions, a few copies would look like honest units that are alike, and
whoever submits copies could switch the evidence off. Where only the submissions have embeddings it has to
be made on those, less identical ones, and says so. A second floor comes from the size of the submission
of units.

Crowding: how alike is an honest unit to the most similar of all units that were submitted? The
admissibility check simulates markets of a few providers; the more units there are, the closer the
nearest stranger comes. The validation rows are honest units that nobody submitted: the 99th
percentile of their highest cosine with any submitted unit is a floor for thresholds in *this*
submission, since above it at most one honest unit in a hundred is taken for somebody's copy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from datamarket_gym.core.arrays import Codes, Features, Values
from datamarket_gym.core.content import keyed_generator, unit_keys
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.evidence.threshold.admissibility import USEFUL_MARGIN, Admissibility, predict_theta
from datamarket_gym.evidence.threshold.floors import (
    UnitVectors,
    same_class_similarities,
    variant_similarities,
)
from datamarket_gym.payout.inputs import Inputs
from datamarket_gym.payout.spec import HASH_ONLY, PayoutSpec
from datamarket_gym.world.attacks.attack import ATTACKS
from datamarket_gym.world.data.embeddings import Embeddings

ALLOWED = 0.01
_ROWS, _BLOCK = 1000, 8192
_SLACK = 1e-4  # float32 products within this of the highest are decided in float64


def crowding_floor(validation: Features, submitted: Features, seed: int) -> float:
    """The smallest threshold that takes at most one honest unit in a hundred for a copy."""
    order = np.argsort(unit_keys(validation, np.zeros(len(validation))), kind="stable")
    rows = order[np.sort(keyed_generator(seed, "crowding").permutation(len(order))[:_ROWS])]
    nearest = highest_cosines(_directions(validation[rows]), submitted)
    return float(np.quantile(nearest, 1 - ALLOWED, method="higher"))


def highest_cosines(unit: Features, others: Features) -> Values:
    """For each unit vector its highest cosine with any of the others, exactly and in any order of rows."""
    short = unit.astype(np.float32)
    highest: Values = np.full(len(unit), -np.inf)
    for at in range(0, len(others), _BLOCK):
        some = _directions(others[at : at + _BLOCK]).astype(np.float32)
        np.maximum(highest, (short @ some.T).max(axis=1), out=highest)
    exact = np.full(len(unit), -1.0)
    for at in range(0, len(others), _BLOCK):
        block = _directions(others[at : at + _BLOCK])
        row, column = np.nonzero(short @ block.astype(np.float32).T >= highest[:, None] - _SLACK)
        np.maximum.at(exact, row, np.einsum("ij,ij->i", unit[row], block[column]))
    return exact


def _directions(vectors: Features) -> Features:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    directions: Features = vectors / np.where(norms > 0, norms, 1.0)
    return directions


_POOL = 20_000  # units the check looks at; its floors come from small simulated markets anyway
_SIGMA = 0.02  # noise of the copies that must be caught, relative to a median vector
_BINS = np.round(np.linspace(-0.2, 1.0, 61), 10)
LEAST = 20
"""Units below which the check has nothing to go by."""


class Threshold(BaseModel):
    """The evidence that is used, why, and the checks it rests on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    evidence: str = HASH_ONLY
    theta: float | None = None
    why: str
    check: dict[str, Any] | None = None
    crowding: float | None = None
    bins: list[float] = []
    honest: list[float] = []  # shares of same-class pairs per bin of cosine
    copies: list[float] = []  # shares of noisy copies with their originals

    @property
    def interval(self) -> tuple[float, float]:
        """The admissible interval, crowding included; empty where the first exceeds the second."""
        low, high = (self.check or {"interval": (1.0, 0.0)})["interval"]
        return (low if self.crowding is None else max(low, self.crowding)), high


def choose_evidence(inputs: Inputs, spec: PayoutSpec) -> Threshold:
    """Exact hashes, with cosine at a threshold that both checks admit."""
    if spec.theta == "none":
        return Threshold(why="similarity was switched off")
    pool = _pool(inputs, spec.seed)
    if len(pool.vectors) < LEAST:
        rows = len(pool.vectors)
        return Threshold(
            why=f"{rows} validation rows are too few to check a threshold on; {LEAST} are needed"
        )
    norm = float(np.median(np.linalg.norm(pool.vectors, axis=1)))
    variants = f"near_duplicate_2x_sybils@{_SIGMA * norm:.3g}"
    per_provider = min(50, len(pool.vectors) // 4)
    try:
        found = predict_theta(pool, variants=variants, seed=spec.seed, per_provider=per_provider)
    except DataMarketError as error:
        return Threshold(why=f"the threshold check could not be made: {error}")
    # The time of the check belongs to the ledger: this document is a function of the inputs.
    check = {k: v for k, v in found.as_dict().items() if k not in ("created", "sha256")}
    crowding = None
    if inputs.validation_embedding is not None:
        crowding = crowding_floor(inputs.validation_embedding, inputs.submission.vectors, spec.seed)
    theta, why = _admitted(found, crowding, spec.theta)
    return Threshold(
        evidence=HASH_ONLY if theta is None else f"hybrid_hash_cosine@{theta}",
        theta=theta,
        why=why,
        check=check,
        crowding=crowding,
        **_pictures(pool, variants, spec.seed),
    )


def _admitted(found: Admissibility, crowding: float | None, wanted: str) -> tuple[float | None, str]:
    """The threshold to use, or None, and why.

    The floors protect honest units and are never crossed. Where crowding lifts them above what most copies
    reach, a threshold above the crowd still catches plain copies and harms nobody: it is used, and called weak.
    """
    low, high = found.interval
    if not found.usable:
        return None, found.verdict
    low = low if crowding is None else max(low, crowding)
    crowded = high - low < USEFUL_MARGIN
    ceiling = 1.0 if crowded else high
    theta = found.theta if wanted == "auto" else float(wanted)
    if wanted == "auto" and (theta is None or theta < low):
        theta = math.ceil(100 * low if crowded else 50 * (low + high)) / 100
    if theta is None or not low <= theta <= ceiling:
        return None, f"theta {theta} is outside the admissible interval [{low:.2f}, {ceiling:.2f}]"
    copies = f"nine of ten variants ({found.variants})"
    if crowded:
        return theta, (
            f"similarity of at least {theta:g} counts as a copy; that is safe but weak: among so many units one "
            f"honest unit in a hundred has a stranger at {low:.2f} or closer, and {copies} are tied only "
            f"below {high:.2f}"
        )
    on = (
        ""
        if crowding is not None
        else " (checked on the submissions themselves, for want of other embeddings)"
    )
    return theta, (
        f"similarity of at least {theta:g} counts as a copy: honest units stay apart above {low:.2f}, and {copies} "
        f"are more alike than {high:.2f}{on}"
    )


def _pool(inputs: Inputs, seed: int) -> Embeddings:
    """Units to check on, in order of content: neither names nor the order of rows decide a threshold."""
    vectors, label = inputs.validation_embedding, inputs.validation_label
    if vectors is None:
        vectors, label = inputs.submission.vectors, inputs.submission.label
    keys, first = np.unique(unit_keys(vectors, label), return_index=True)
    rows: Codes = first[np.sort(keyed_generator(seed, "threshold").permutation(len(keys))[:_POOL])]
    return Embeddings(vectors[rows], label[rows])


def _pictures(pool: Embeddings, variants: str, seed: int) -> dict[str, list[float]]:
    norms = np.linalg.norm(pool.vectors, axis=1, keepdims=True)
    unit: UnitVectors = (pool.vectors / norms).astype(np.float32)
    assert pool.label is not None
    code = np.unique(pool.label, return_inverse=True)[1].astype(np.int64)
    paired = np.bincount(code)[code] > 1
    rows = np.arange(min(len(unit), 2000))
    honest = same_class_similarities(unit[paired], np.unique(code[paired], return_inverse=True)[1], seed)
    copies = variant_similarities(pool, ATTACKS.create(variants), rows, seed)
    return {"bins": _BINS.tolist(), "honest": _shares(honest), "copies": _shares(copies)}


def _shares(similarities: Values) -> list[float]:
    counts = np.histogram(np.clip(similarities, _BINS[0], _BINS[-1]), bins=_BINS)[0]
    return [round(float(share), 6) for share in counts / counts.sum()]
