"""Laws of coalition sizes, as closed forms need them: whether one is Shapley's, and how many of a few are there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from datamarket_gym.core.arrays import Values

MAX_PLAYERS_ANY_LAW = 200_000  # thinning is quadratic, 3 s at 50,000; Shapley needs none


def is_uniform(law: Values) -> bool:
    """Whether a size law is Shapley's."""
    return bool(np.allclose(law, 1.0 / len(law), rtol=1e-9, atol=0.0))


def thinned(law: Values) -> Iterator[tuple[int, Values]]:
    """f_m(t), t = 0..m: P(t of m fixed players are in S), m = M, M - 1, ..., 0, for S of the law on sizes 0..M.

    One player fewer: f_m(t) = f_{m+1}(t) (m+1-t)/(m+1) + f_{m+1}(t+1) (t+1)/(m+1). O(M^2) in all.
    """
    count = law.copy()
    sizes = np.arange(len(law), dtype=np.float64)
    yield len(law) - 1, count
    for m in range(len(law) - 2, -1, -1):
        left = count[: m + 1] * ((m + 1 - sizes[: m + 1]) / (m + 1))
        count = left + count[1 : m + 2] * (sizes[1 : m + 2] / (m + 1))
        yield m, count
