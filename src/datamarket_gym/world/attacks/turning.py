"""Copies turned just out of reach of a similarity threshold, at the length of their originals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datamarket_gym.core.arrays import Features
from datamarket_gym.core.errors import require_in
from datamarket_gym.core.registry import register
from datamarket_gym.world.attacks.attack import Attack, Block, Own, require_victim
from datamarket_gym.world.attacks.claims import stolen


@register("attack", "turn")
@dataclass(frozen=True)
class Turn(Attack):
    """Copies others' units turned by chance to a cosine of ``cosine`` with the original, as long as that is.

    Added noise makes vectors longer, and so less useful to nearest neighbours; a turned copy is as long as the units
    around it. A share ``fraction`` of the units of the ``victim``-th provider after the attacker, or of ``all``. Knows
    their units, guesses theta, and may write vectors of its own.
    """

    title = "rotated copies"

    cosine: float = 0.8
    victim: int | str = "all"
    fraction: float = 1.0

    def __post_init__(self) -> None:
        require_in("cosine", self.cosine, -1.0, 1.0)
        require_in("fraction", self.fraction, 0.0, 1.0, open_low=True)
        require_victim(self.victim)

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
