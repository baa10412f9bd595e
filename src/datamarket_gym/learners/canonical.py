"""Training rows in an order that depends on content alone, so that no sum depends on names."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.learners.base import TrainingRows
from datamarket_gym.typing import Codes, Features


def distinct_features(features: Features) -> tuple[Features, Codes]:
    """The distinct feature rows in byte order, and each row's place among them."""
    clean = np.ascontiguousarray(features, dtype=np.float64) + 0.0  # -0.0 and 0.0 are the same
    # Big-endian bytes compare from the sign and exponent down: any fixed total order would do.
    raw = clean.astype(">f8").view(np.dtype((np.void, 8 * clean.shape[1]))).ravel()
    order = np.argsort(raw, kind="stable")
    ranked = clean[order]
    new = np.ones(len(clean), dtype=bool)
    new[1:] = (ranked[1:] != ranked[:-1]).any(axis=1)
    place = np.empty(len(clean), dtype=np.int64)
    place[order] = np.cumsum(new) - 1
    return (ranked if new.all() else ranked[new]), place


def content_order(rows: TrainingRows, place: Codes) -> NDArray[np.int64]:
    """Row numbers by (label, features, weight); rows equal in all three keep no order of their own.

    ``place`` is the second answer of `distinct_features`.
    """
    return np.lexsort((rows.weights, place, rows.label)).astype(np.int64)
