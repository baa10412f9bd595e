"""Content keys: what a unit *is*, apart from who submitted it and under which name.

Scores may depend on content only. Everything random in a mechanism is therefore drawn from a
generator keyed by content (`keyed_generator`), and players are put into the order of their keys
before anything is summed, so that renaming, reordering or re-partitioning identities changes no bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.execution.arrays import Codes, Keys, Rows

_ROWS = 1024


def unit_keys(features: Rows, labels: NDArray[Any], decimals: int | None = None) -> Keys:
    """Sha256 of each unit's payload (features and label), optionally rounded to ``decimals``."""
    if len(features) != len(labels):
        raise ValueError(f"{len(features)} rows of features but {len(labels)} labels")
    return _keys(features, decimals, _tails(labels))


def row_keys(rows: Rows, decimals: int | None = None) -> Keys:
    """Sha256 of each row of numbers alone, likewise."""
    return _keys(rows, decimals, None)


def _keys(rows: Rows, decimals: int | None, tails: list[bytes] | None) -> Keys:
    """Sha256 of the bytes of each row, and of its tail after them.

    A few rows are made float64 at a time, and hashed where they lie: most of the time is OpenSSL's, with the
    processor's own instructions for it (docs/scale.md). Nothing that leaves these for numpy could be
    faster, and threads are not: they take turns at each row.
    """
    digests: list[bytes] = []
    for at in range(0, len(rows), _ROWS):
        some = np.array(rows[at : at + _ROWS], dtype="<f8", order="C")
        if decimals is not None:
            np.round(some, decimals, out=some)
        some += 0.0  # -0.0 and 0.0 are the same content
        whole, width = some.data.cast("B"), some.shape[1] * 8
        hashes = [hashlib.sha256(whole[i : i + width]) for i in range(0, len(some) * width, width)]
        if tails is not None:
            for found, tail in zip(hashes, tails[at : at + _ROWS], strict=True):
                found.update(tail)
        digests += [found.digest() for found in hashes]
    return _written(b"".join(digests))


def _written(digests: bytes | bytearray) -> Keys:
    """Digests that lie end to end, in hexadecimal."""
    return np.frombuffer(digests.hex().encode(), dtype="S64")


def _tails(labels: NDArray[Any]) -> list[bytes]:
    """What stands after the numbers of each unit; labels that are written alike are written once."""
    written = labels.tolist()
    if labels.dtype.kind not in "biuUS":  # among others equal ones may be written unlike: 0.0 and -0.0
        return [f"|{label}".encode() for label in written]
    tail = {label: f"|{label}".encode() for label in set(written)}
    return [tail[label] for label in written]


def combined_key(keys: Iterable[bytes]) -> bytes:
    """Key of a multiset of keys; the order in which they come does not matter."""
    return hashlib.sha256(b"".join(sorted(keys))).hexdigest().encode()


def combined_keys(keys: Keys, ends: Codes) -> Keys:
    """`combined_key` of each of several groups that lie one after the other, sorted, and end at ``ends``."""
    raw, start, digests = np.ascontiguousarray(keys).view(np.uint8).data, 0, bytearray()
    for end in (ends * keys.dtype.itemsize).tolist():
        digests += hashlib.sha256(raw[start:end]).digest()
        start = end
    return _written(digests)


def keyed_generator(*parts: int | str | bytes) -> np.random.Generator:
    """A generator whose stream is a function of the given parts and nothing else."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(raw).to_bytes(8, "little") + raw)
    entropy = int.from_bytes(digest.digest(), "little")
    return np.random.default_rng(np.random.SeedSequence(entropy))
