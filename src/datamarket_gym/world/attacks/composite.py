"""Everything at once: the attack that a best response is searched in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.errors import require_choice, require_count, require_in
from datamarket_gym.core.registry import register
from datamarket_gym.world.attacks.attack import Attack, Block, Own
from datamarket_gym.world.attacks.variants import leaked_rewards


@register("attack", "composite")
@dataclass(frozen=True)
class Composite(Attack):
    """Splits and curates its own units, adds noisy copies of them, and noisy copies of others'.

    ``split``: names for its own units; ``keep``: the share of them that it submits, best first by the
    leaked validation sample; ``copy`` and ``copy_sigma``: the share of them it copies, and the noise;
    ``steal`` and ``steal_sigma``: the same for the units of the next ``victims`` providers, picked at
    ``random`` or those the leaked sample ``rewards`` most; ``names``: further names for all copies,
    0 leaves them under its own; ``first``: the copies of its own units came before everybody's units.
    """

    title = "combined attack"

    split: int = 2
    keep: float = 1.0
    copy: float = 0.5
    copy_sigma: float = 0.5
    steal: float = 0.5
    steal_sigma: float = 0.5
    victims: int = 1
    pick: str = "random"
    names: int = 0
    first: bool = False

    def __post_init__(self) -> None:
        for name in ("split", "victims"):
            require_count(name, getattr(self, name))
        require_count("names", self.names, at_least=0)
        require_in("keep", self.keep, 0.0, 1.0, open_low=True)
        for name in ("copy", "steal"):
            require_in(name, getattr(self, name), 0.0, 1.0)
            require_in(f"{name}_sigma", getattr(self, f"{name}_sigma"), 0.0, np.inf)
        require_choice("pick", self.pick, ("random", "rewards"))

    def blocks(self, own: Own) -> list[Block]:
        """Own units over ``split`` names, then the copies."""
        kept = _best(own, own.rows, self.keep)
        blocks = [Block(j, kept[j :: self.split]) for j in range(self.split) if j < len(kept)]
        copied = _some(own, kept, self.copy, "copy")
        stolen = self._stolen(own)
        for rows, sigma, purpose, time in (
            (copied, self.copy_sigma, "copy noise", own.earliest(len(copied)) if self.first else None),
            (stolen, self.steal_sigma, "theft noise", None),
        ):
            noise = own.rng(purpose).normal(size=(len(rows), own.honest.features.shape[1]))
            features = own.honest.features[rows] + sigma * noise
            for j in range(max(1, self.names)):
                part = slice(j, None, max(1, self.names))
                name = self.split + j if self.names else 0
                if len(rows[part]):
                    when = None if time is None else time[part]
                    made = Block(name, rows[part], features=features[part], copy=True, time=when)
                    blocks.append(made)
        return blocks

    def _stolen(self, own: Own) -> NDArray[np.int64]:
        providers = own.state.providers
        me, most = providers.index(own.name), len(providers) - 1
        marks = [providers[(me + j) % len(providers)] for j in range(1, min(self.victims, most) + 1)]
        theirs = np.flatnonzero(np.isin(own.owner, marks))
        if self.pick == "random":
            return _some(own, theirs, self.steal, "theft")
        return _best(own, theirs, self.steal) if self.steal and len(theirs) else theirs[:0]


def _some(own: Own, rows: NDArray[np.int64], share: float, purpose: str) -> NDArray[np.int64]:
    return np.sort(own.rng(purpose).permutation(rows)[: round(share * len(rows))])


def _best(own: Own, rows: NDArray[np.int64], share: float) -> NDArray[np.int64]:
    count = max(1, round(share * len(rows)))
    if count == len(rows):
        return rows
    order = np.argsort(-leaked_rewards(own, rows), kind="stable")
    return np.sort(rows[order[:count]])
