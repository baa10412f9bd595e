"""What a run was submitted, in a few hundred hashes: enough to see that another run was submitted the same.

A file has another hash when a row is moved, a column added or another format written; its units have not. Of the hashes
of all units' features (as single-precision numbers, so that formats agree) the least `LEAST` are kept, and the number
of different ones. Of two runs with n and m different units, the least hashes of both together are a fair sample of
their union; if a part J of it is in both, J (n + m) / (1 + J) units are (Broder 1997). Where all are kept, they are
counted.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from datamarket_gym.core.arrays import Features
from datamarket_gym.core.narrow import in_blocks

LEAST = 256
_HEX = 16  # characters of a hash: 64 bits


@dataclass(frozen=True)
class Contents:
    """How many different units there are, and the least of their hashes."""

    distinct: int = 0
    least: tuple[str, ...] = ()

    @classmethod
    def of(cls, features: Features) -> Contents:
        """The contents of units, in any order."""
        found: list[bytes] = []
        size = 4 * features.shape[1]
        for _, block in in_blocks(features):
            with np.errstate(over="ignore"):
                raw = (np.ascontiguousarray(block, dtype="<f4") + np.float32(0)).data.cast("B")
            rows = (raw[at : at + size] for at in range(0, len(raw), size))
            found.append(b"".join(hashlib.sha256(row).digest()[: _HEX // 2] for row in rows))
        digests = np.unique(np.frombuffer(b"".join(found), dtype=">u8").astype(np.uint64))
        return cls(len(digests), tuple(f"{each:0{_HEX}x}" for each in digests[:LEAST].tolist()))

    @classmethod
    def from_plain(cls, said: dict[str, Any]) -> Contents:
        """The same read back; nothing where nothing was kept."""
        return cls(int(said["distinct"]), tuple(map(str, said["least"]))) if said else cls()

    @property
    def plain(self) -> dict[str, Any]:
        """The same as plain values."""
        return {"distinct": self.distinct, "least": list(self.least)}

    def shared(self, other: Contents) -> float:
        """How many of the different units are in both, about."""
        ours, theirs = set(self.least), set(other.least)
        if max(self.distinct, other.distinct) <= LEAST:
            return float(len(ours & theirs))
        sample = sorted(ours | theirs)[:LEAST]
        part = sum(each in ours and each in theirs for each in sample) / len(sample)
        return part * (self.distinct + other.distinct) / (1 + part)
