"""Checker for encoders."""

from __future__ import annotations

import numpy as np

from datamarket_gym.conformance.promise import check_written, promise, small_market
from datamarket_gym.conformance.samples import samples
from datamarket_gym.encoders.base import KINDS, ContentError, Encoder


def check_encoder(encoder: Encoder) -> None:
    """One finite vector per item, whatever its neighbours in the batch; bad content is named."""
    check_written("encoder", encoder)
    promise(encoder.kind in KINDS, f"kind {encoder.kind!r} is none of {KINDS}")
    items = samples(encoder.kind, small_market().dataset.features[:6]).tolist()
    found = encoder.encode(items)
    promise(found.ndim == 2 and len(found) == len(items), "not one vector per item")
    promise(np.isfinite(found).all(), "a vector is not finite")
    promise((np.linalg.norm(found, axis=1) > 0).all(), "a vector has zero norm")
    promise((encoder.encode(items) == found).all(), "the same items gave two sets of vectors")
    alone = np.concatenate([encoder.encode([item]) for item in items[::-1]])[::-1]
    gap = np.linalg.norm(alone - found, axis=1) / np.linalg.norm(found, axis=1)
    promise((gap < 1e-2).all(), "a vector depends on the other items of its batch")
    for bad in ("", b"", None):
        try:
            encoder.encode([items[0], bad])
        except ContentError as error:
            promise(error.row == 1, f"bad content in row 1 was reported in row {error.row}")
        else:
            promise(False, f"{bad!r} was embedded")
