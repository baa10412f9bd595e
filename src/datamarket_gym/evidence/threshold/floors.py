"""The bounds on a cosine threshold: chaining, how alike honest same-class units are, and copies are.

Chaining: at which threshold do honest providers grow together into one component? For one partition
of the pool only the highest similarity between each two providers matters: its maximum spanning
forest gives the components at every threshold at once, so no graph is built per theta. The mixed-
component fraction (MCF) at theta is the share of components that hold several providers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Features, Values
from datamarket_gym.core.content import keyed_generator
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.registry import written
from datamarket_gym.units.labels import unlabelled
from datamarket_gym.units.submission import Submission
from datamarket_gym.units.truth import GroundTruth, SubmittedProfile
from datamarket_gym.world.attacks.attack import Attack
from datamarket_gym.world.data.embeddings import Embeddings
from datamarket_gym.world.market import MarketState

_BLOCK = 4096

UnitVectors = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Merges:
    """Similarities at which components merge, falling, and the MCF from each of them on down."""

    similarity: Values
    mixed: Values

    def at(self, theta: Values) -> Values:
        """The MCF at thresholds: pairs at or above theta are tied."""
        tied = np.searchsorted(-self.similarity, -np.asarray(theta), side="right")
        return np.concatenate([[0.0], self.mixed])[tied]


def merges(highest: NDArray[np.floating]) -> Merges:
    """The merges of a symmetric matrix of highest similarities between providers (Kruskal)."""
    n = len(highest)
    left, right = np.triu_indices(n, 1)
    order = np.argsort(-highest[left, right], kind="stable")
    parent, size = list(range(n)), [1] * n
    components, mixed = n, 0
    similarity, fraction = [], []

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for at in order.tolist():
        a, b = root(int(left[at])), root(int(right[at]))
        if a == b:
            continue
        mixed += 1 - (size[a] > 1) - (size[b] > 1)
        parent[b] = a
        size[a] += size[b]
        components -= 1
        similarity.append(float(highest[left[at], right[at]]))
        fraction.append(mixed / components)
        if components == 1:
            break
    return Merges(np.array(similarity), np.array(fraction))


def highest_between(unit: UnitVectors, rows: Sequence[Codes]) -> NDArray[np.float32]:
    """The highest similarity between each two providers' units, one block pair at a time."""
    n = len(rows)
    order = np.concatenate(rows)
    owner = np.repeat(np.arange(n), [len(part) for part in rows])
    out = np.full((n, n), -1.0, dtype=np.float32)
    for a in range(0, len(order), _BLOCK):
        first, owners_a = unit[order[a : a + _BLOCK]], owner[a : a + _BLOCK]
        starts_a = _starts(owners_a)
        for b in range(a, len(order), _BLOCK):
            owners_b = owner[b : b + _BLOCK]
            starts_b = _starts(owners_b)
            similar = first @ unit[order[b : b + _BLOCK]].T
            best = np.maximum.reduceat(np.maximum.reduceat(similar, starts_a, axis=0), starts_b, axis=1)
            where = np.ix_(owners_a[starts_a], owners_b[starts_b])
            out[where] = np.maximum(out[where], best)
    return np.maximum(out, out.T)


def _starts(owner: Codes) -> Codes:
    return np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])


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


def variants_for(pool: Embeddings) -> str:
    """Noisy copies of these units: noise of 2 % of a median vector, whatever the length of vectors."""
    norm = float(np.median(np.linalg.norm(pool.vectors, axis=1)))
    return f"near_duplicate_2x_sybils@{0.02 * norm:.3g}"


def variant_similarities(
    pool: Embeddings, attack: Attack, rows: Codes, seed: int, encoder: str = "",
    content: dict[str, NDArray[np.object_]] | None = None,
) -> Values:  # fmt: skip
    """Cosines of units with the variants that an attack makes of them.

    The attack is played by a provider who owns the given rows of the pool; every unit it adds is
    compared with the unit it derives from.
    """
    label = unlabelled(len(rows)) if pool.label is None else pool.label[rows]
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
