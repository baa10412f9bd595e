"""Poisoning: wrong labels that all point the same way, so that they do not cancel out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datamarket_gym.errors import require_in
from datamarket_gym.market.attack import Attack, Block, Own
from datamarket_gym.registry import register


@register("attack", "label_poisoning")
@dataclass(frozen=True)
class LabelPoisoning(Attack):
    """Relabels a share ``p`` of its units as the class after their own: systematic, not random."""

    p: float = 1.0

    def __post_init__(self) -> None:
        require_in("p", self.p, 0.0, 1.0)

    def blocks(self, own: Own) -> list[Block]:
        """The same units, the chosen ones with the next class's label."""
        label = own.honest.label[own.rows].copy()
        classes = np.unique(own.honest.label)
        chosen = own.rng("poisoned units").permutation(len(label))[: round(self.p * len(label))]
        label[chosen] = classes[(np.searchsorted(classes, label[chosen]) + 1) % len(classes)]
        return [Block(0, own.rows, label=label)]
