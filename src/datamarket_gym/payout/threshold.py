"""Which evidence may be used: hashes always, cosine only where the admissibility check allows it.

The check asks how alike *honest* units are. It is therefore made on the validation rows, which are the
operator's own: made on the submissions, a few copies would look like honest units that are alike, and
whoever submits copies could switch the evidence off. Where only the submissions have embeddings it has to
be made on those, less identical ones, and says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from datamarket_gym.content import keyed_generator, unit_keys
from datamarket_gym.data.embeddings import Embeddings
from datamarket_gym.errors import DataMarketError
from datamarket_gym.evidence.admissibility import predict_theta
from datamarket_gym.evidence.chaining import UnitVectors
from datamarket_gym.evidence.geometry import same_class_similarities, variant_similarities
from datamarket_gym.payout.inputs import Inputs
from datamarket_gym.payout.spec import HASH_ONLY, PayoutSpec
from datamarket_gym.registry import create
from datamarket_gym.typing import Codes, Values

_POOL = 20_000  # units the check looks at; its floors come from small simulated markets anyway
_SIGMA = 0.02  # noise of the copies that must be caught, relative to a median vector
_BINS = np.round(np.linspace(-0.2, 1.0, 61), 10)
LEAST = 20
"""Units below which the check has nothing to go by."""


class Threshold(BaseModel):
    """The evidence that is used, why, and the check it rests on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    evidence: str
    theta: float | None
    why: str
    check: dict[str, Any] | None = None
    bins: list[float] = []
    honest: list[float] = []  # shares of same-class pairs per bin of cosine
    copies: list[float] = []  # shares of noisy copies with their originals


def choose_evidence(inputs: Inputs, spec: PayoutSpec) -> Threshold:
    """Exact hashes, with cosine at a threshold that the admissibility check admits."""
    if spec.theta == "none":
        return _hash_only("cosine evidence was switched off")
    pool = _pool(inputs, spec.seed)
    if len(pool.vectors) < LEAST:
        return _hash_only(
            f"{len(pool.vectors)} validation rows are too few to check a threshold on; {LEAST} are needed"
        )
    norm = float(np.median(np.linalg.norm(pool.vectors, axis=1)))
    variants = f"near_duplicate_2x_sybils@{_SIGMA * norm:.3g}"
    try:
        found = predict_theta(
            pool, variants=variants, seed=spec.seed, per_provider=min(50, len(pool.vectors) // 4)
        )
    except DataMarketError as error:
        return _hash_only(f"the threshold check could not be made: {error}")
    # The time of the check belongs to the ledger: this document is a function of the inputs.
    check = {k: v for k, v in found.as_dict().items() if k not in ("created", "sha256")}
    low, high = found.interval
    theta = found.theta if spec.theta == "auto" else float(spec.theta)
    pictures = _pictures(pool, variants, spec.seed)
    if theta is None or not found.usable:
        return _hash_only(found.verdict, check, pictures)
    if not low <= theta <= high:
        return _hash_only(
            f"theta {theta:g} is outside the admissible interval [{low:.2f}, {high:.2f}]",
            check,
            pictures,
        )
    on = "" if inputs.validation_embedding is not None else " (checked on the submissions themselves)"
    return Threshold(
        evidence=f"hybrid_hash_cosine@{theta}",
        theta=theta,
        why=found.verdict + on,
        check=check,
        **pictures,
    )


def _hash_only(
    why: str, check: dict[str, Any] | None = None, pictures: dict[str, list[float]] | None = None
) -> Threshold:
    why = f"identical units only, no similarity: {why}"
    return Threshold(evidence=HASH_ONLY, theta=None, why=why, check=check, **(pictures or {}))


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
    copies = variant_similarities(pool, create("attack", variants), rows, seed)
    return {"bins": _BINS.tolist(), "honest": _shares(honest), "copies": _shares(copies)}


def _shares(similarities: Values) -> list[float]:
    counts = np.histogram(np.clip(similarities, _BINS[0], _BINS[-1]), bins=_BINS)[0]
    return [round(float(share), 6) for share in counts / counts.sum()]
