"""What watermark layers share: the operator's secret, and ties between units that bear the same number.

A mark is a number that the operator gives to a unit when it hands it out, under a secret of its own. Whoever
submits the unit again, or a copy of it, submits the number too. The secret is read from an environment
variable, so that specs, results and manifests, which people publish, name the variable and not the secret.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from datamarket_gym.core.arrays import Codes
from datamarket_gym.core.errors import ParameterError, require_count
from datamarket_gym.evidence.graph import Edges

KEY = "DATAMARKET_WATERMARK_KEY"
"""The environment variable that holds the secret, unless another is named."""


def secret(variable: str = KEY) -> bytes:
    """The operator's secret."""
    found = os.environ.get(variable, "")
    if not found:
        raise ParameterError(
            "key",
            variable,
            "no such environment variable; put the secret that the marks were made with there",
        )
    return found.encode()


def keyed(key: bytes, *parts: str) -> bytes:
    """32 bytes that nobody can tell without the secret."""
    return hmac.new(key, "/".join(parts).encode(), hashlib.sha256).digest()


def require_number(number: int, count: int) -> None:
    """Refuse a number that a mark cannot hold."""
    require_count("number", number, at_least=0)
    if number >= count:
        raise ParameterError("number", number, f"a mark holds the numbers 0 to {count - 1}")


def same_mark(rows: Codes, numbers: Sequence[set[int]], reason: str) -> Edges:
    """Tie every unit that bears a number to the first that does."""
    bearers: dict[int, list[int]] = defaultdict(list)
    for row, found in zip(rows.tolist(), numbers, strict=True):
        for number in found:
            bearers[number].append(row)
    pairs = [(units[0], other) for _, units in sorted(bearers.items()) for other in units[1:]]
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return Edges.of(ends[:, 0], ends[:, 1], reason)
