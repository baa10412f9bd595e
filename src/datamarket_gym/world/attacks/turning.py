"""Copies turned just out of reach of a similarity threshold, at the length of their originals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from datamarket_gym.core.arrays import Features
from datamarket_gym.core.parameters import Range
from datamarket_gym.core.registry import register
from datamarket_gym.world.attacks.attack import Attack, Block, Own, Share, Victim
from datamarket_gym.world.attacks.claims import stolen


@register("attack", "turn")
@dataclass(frozen=True)
class Turn(Attack):
    """Copy others' units, each rotated at random to a given similarity with its original, and as long as that is.

    Added noise makes vectors longer, and so less useful to nearest neighbours; a rotated copy is as long as the units
    around it. Knows their units, guesses theta, and may write vectors of its own.
    """

    title = "rotated copies"
    tried = ("cosine=0.9", "cosine=0.8", "cosine=0.7", "cosine=0.6", "cosine=0.6, fraction=0.05")

    cosine: Annotated[float, Range(-1, 1), "cosine similarity of a copy with its original"] = 0.8
    victim: Victim = "all"
    fraction: Share = 1.0

    def blocks(self, own: Own) -> list[Block]:
        """Own units, and the turned copies."""
        rows = stolen(own, self.victim, self.fraction, "turn")
        vectors = own.honest.features[rows]
        aside = own.rng("turning").normal(size=vectors.shape)
        made = turned(vectors, aside, self.cosine)
        return [Block(0, own.rows), Block(0, rows, features=made, copy=True)]


def turned(vectors: Features, aside: Features, cosine: float) -> Features:
    """The vectors, as long as they are, turned to a cosine with themselves, towards ``aside``."""
    least = np.finfo(float).tiny
    squared = np.maximum((vectors**2).sum(axis=1, keepdims=True), least)
    aside = aside - vectors * ((aside * vectors).sum(axis=1, keepdims=True) / squared)
    aside *= np.sqrt(squared / np.maximum((aside**2).sum(axis=1, keepdims=True), least))
    made: Features = cosine * vectors + np.sqrt(1 - cosine**2) * aside
    return made
