"""Whole cents by largest remainder, exactly: the one rule by which `pay` and payout runs round."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fractions import Fraction


def largest_remainder(amount: int, exact: Sequence[Fraction], order: Sequence[int]) -> list[int]:
    """Whole parts that sum to the amount, each the floor of its exact part or one more."""
    parts = [e.numerator // e.denominator for e in exact]
    left = amount - sum(parts)
    ranked = sorted(order, key=lambda i: parts[i] - exact[i])  # stable: equal remainders keep the order
    for i in ranked[:left]:
        parts[i] += 1
    return parts


def by_content(keys: Sequence[bytes], names: Sequence[str]) -> list[int]:
    """The order in which equal remainders are served: by content key, equal ones by a draw keyed by all content."""
    everything = hashlib.sha256(b"".join(sorted(keys))).digest()
    lots = [hashlib.sha256(everything + name.encode()).digest() for name in names]
    return sorted(range(len(keys)), key=lambda i: (keys[i], lots[i]))
