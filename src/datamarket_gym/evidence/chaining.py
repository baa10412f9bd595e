"""Chaining: at which threshold do honest providers grow together into one component?

For one partition of the pool only the highest similarity between each two providers matters: its
maximum spanning forest gives the components at every threshold at once, so no graph is built per theta.
The mixed-component fraction (MCF) at theta is the share of components that hold several providers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.typing import Codes, Values

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
