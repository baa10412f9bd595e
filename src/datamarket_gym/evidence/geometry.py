"""The two other bounds on a cosine threshold: how alike honest same-class units are, and copies are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.content import keyed_generator
from datamarket_gym.data.embeddings import Embeddings
from datamarket_gym.errors import DataMarketError
from datamarket_gym.evidence.chaining import UnitVectors
from datamarket_gym.market.attack import Attack
from datamarket_gym.market.market import MarketState
from datamarket_gym.registry import written
from datamarket_gym.typing import Codes, Features, Values
from datamarket_gym.units.submission import Submission
from datamarket_gym.units.truth import GroundTruth, SubmittedProfile

PAIRS = 200_000


def same_class_similarities(unit: UnitVectors, code: Codes, seed: int) -> Values:
    """Cosines of random pairs of different units of one class, each pair equally likely."""
    order = np.argsort(code, kind="stable")
    size = np.bincount(code)
    start = np.cumsum(size) - size
    weight = size * (size - 1.0)
    rng = keyed_generator(seed, "same-class pairs")
    which = rng.choice(len(size), size=PAIRS, p=weight / weight.sum())
    first = rng.integers(size[which])
    second = (first + 1 + rng.integers(size[which] - 1)) % size[which]
    left, right = order[start[which] + first], order[start[which] + second]
    return np.concatenate(
        [
            np.einsum("ij,ij->i", unit[left[a : a + 10_000]], unit[right[a : a + 10_000]])
            for a in range(0, PAIRS, 10_000)
        ]
    ).astype(np.float64)


def variant_similarities(
    pool: Embeddings, attack: Attack, rows: Codes, seed: int, encoder: str = "",
    content: dict[str, NDArray[np.object_]] | None = None,
) -> Values:  # fmt: skip
    """Cosines of units with the variants that an attack makes of them.

    The attack is played by a provider who owns the given rows of the pool; every unit it adds is
    compared with the unit it derives from.
    """
    label = np.zeros(len(rows), np.int64) if pool.label is None else pool.label[rows]
    ids = np.array([f"unit_{row}" for row in rows])
    owner = np.full(len(rows), "provider_0")
    sample = Submission(
        id=ids, identity=owner, features=pool.vectors[rows], label=label, source=ids,
        batch=owner, time=np.zeros(len(rows)), metadata=content or {},
    )  # fmt: skip
    truth = GroundTruth(ids, owner, ids, {"provider_0": "provider_0"})
    state = MarketState(SubmittedProfile(sample, truth), sample.features, label, seed, encoder)
    attacked = attack.apply(0, state)
    made = np.flatnonzero(~np.isin(attacked.submission.id, ids))
    made = made[np.isin(attacked.truth.source[made], ids)]
    if not len(made):
        raise DataMarketError(
            f"{written(attack)} makes no variants of units; name an attack that copies them, "
            "such as near_duplicate_2x_sybils"
        )
    position = {unit: row for row, unit in enumerate(ids.tolist())}
    source = [position[unit] for unit in attacked.truth.source[made].tolist()]
    return _cosines(sample.features[source], attacked.submission.features[made])


def _cosines(first: Features, second: Features) -> Values:
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosines: Values = np.einsum("ij,ij->i", first, second) / lengths
    return cosines
