"""Copies on the level of content: rewritten or augmented by rule, then embedded again by the encoder.

The attacker keeps its units and puts changed copies of a share of them into further identities, as in
near_duplicate_2x_sybils; what differs is that the change is made to the text or the image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from datamarket_gym.encoders.store import stored
from datamarket_gym.errors import DataMarketError
from datamarket_gym.market.attack import CONTENT, Block, Own

STRENGTHS = (1, 2, 3)
Change = Callable[[Any, Sequence[Any], np.random.Generator], Any]
"""A unit's content, the attacker's other content of the same label and a generator; the new content."""


def changed_copies(
    own: Own, kind: str, fraction: float, sybils: int, change: Change, purpose: str
) -> list[Block]:
    """Own units, and changed copies of a share of them under each of ``sybils`` further names."""
    content = _content(own, kind)
    count = max(1, round(fraction * len(own.rows)))
    copied = np.sort(own.rng("copied units").permutation(own.rows)[:count])
    rng = own.rng(purpose)
    blocks = [Block(0, own.rows)]
    for pseudonym in range(1, sybils + 1):
        new = np.empty(count, dtype=object)
        for i, row in enumerate(copied):
            alike = own.rows[(own.honest.label[own.rows] == own.honest.label[row]) & (own.rows != row)]
            new[i] = change(content[row], content[alike], rng)
        features = own.honest.features[copied].copy()
        differs = np.array([a != b for a, b in zip(new, content[copied], strict=True)])
        if differs.any():  # what came out unchanged is an exact copy, embedding included
            features[differs] = stored(own.state.encoder).encode(new[differs].tolist())
        blocks.append(Block(pseudonym, copied, features=features, content={kind: new}, copy=True))
    return blocks


def _content(own: Own, kind: str) -> Any:
    if kind not in own.honest.metadata:
        raise DataMarketError(
            f"this market's units carry no {kind}, so there is nothing to change; use a task with "
            "content, such as agnews(content=True) for texts or cifar10(content=True) for images"
        )
    column = own.honest.metadata[kind]
    blank = np.array([column[row] == CONTENT[kind] for row in own.rows])
    if blank.any():
        raise DataMarketError(f"unit {own.honest.id[own.rows][blank][0]!r} of {own.name} has no {kind}")
    if not own.state.encoder or stored(own.state.encoder).kind != kind:
        raise DataMarketError(
            f"this market names no encoder for {kind}, so changed content cannot be embedded again; "
            "set the dataset's encoder"
        )
    return column
