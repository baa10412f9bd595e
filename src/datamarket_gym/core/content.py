"""Content keys: what a unit *is*, apart from who submitted it and under which name.

Scores may depend on content only. Everything random in a mechanism is therefore drawn from a
generator keyed by content (`keyed_generator`), and players are put into the order of their keys
before anything is summed, so that renaming, reordering or re-partitioning identities changes no bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from datamarket_gym.core.arrays import Features, Keys

_ROWS = 4096


def unit_keys(features: Features, labels: np.ndarray, decimals: int | None = None) -> Keys:
    """Sha256 of each unit's payload (features and label), optionally rounded to ``decimals``."""
    values, digests = np.asarray(features, dtype="<f8"), []
    for at in range(0, len(values), _ROWS):  # a few rows at a time: no second copy of a large matrix
        some = values[at : at + _ROWS]
        if decimals is not None:
            some = np.round(some, decimals)
        rows = np.ascontiguousarray(some + 0.0)  # -0.0 and 0.0 are the same content
        digests += [
            hashlib.sha256(row.tobytes() + b"|" + str(label).encode()).hexdigest()
            for row, label in zip(rows, labels[at : at + _ROWS].tolist(), strict=True)
        ]
    if len(digests) != len(labels):
        raise ValueError(f"{len(digests)} rows of features but {len(labels)} labels")
    return np.array(digests, dtype="S64")


def combined_key(keys: Iterable[bytes]) -> bytes:
    """Key of a multiset of keys; the order in which they come does not matter."""
    return hashlib.sha256(b"".join(sorted(keys))).hexdigest().encode()


def keyed_generator(*parts: int | str | bytes) -> np.random.Generator:
    """A generator whose stream is a function of the given parts and nothing else."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(raw).to_bytes(8, "little") + raw)
    entropy = int.from_bytes(digest.digest(), "little")
    return np.random.default_rng(np.random.SeedSequence(entropy))
