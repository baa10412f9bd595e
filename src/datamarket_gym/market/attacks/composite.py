"""The combined attack, in which best responses are searched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.market.attacks.base import Attack, Block, Own
from datamarket_gym.market.attacks.generated import leaked_rewards
from datamarket_gym.registry import OneOf, Range, register


@register("attack", "composite")
@dataclass(frozen=True)
class Composite(Attack):
    """Split and curate the own units, and add noisy copies of them and of others' units."""

    title = "combined attack"
    tried = (
        "split=1, copy=1.0, copy_sigma={noise}, steal=1.0, steal_sigma={noise}",
        "split=1, copy=0.0, steal=1.0, steal_sigma={noise}, victims=99",
        "split=1, copy=0.0, steal=0.3, steal_sigma={noise}, victims=99, pick=rewards",
        "split=1, copy=0.0, steal=0.05, steal_sigma={noise}, victims=99, pick=rewards",
        "split=1, copy=1.0, copy_sigma={half}, steal=0.0, first=True",
    )

    split: Annotated[int, Range(1), "identities for its own units"] = 2
    keep: Annotated[
        float,
        Range(0, 1, open_low=True),
        "share of its own units that are submitted; the best by the leaked validation sample",
    ] = 1.0
    copy: Annotated[float, Range(0, 1), "share of its own units that are copied"] = 0.5
    copy_sigma: Annotated[float, Range(0), "noise on copies of its own units"] = 0.5
    steal: Annotated[float, Range(0, 1), "share of others' units that are copied"] = 0.5
    steal_sigma: Annotated[float, Range(0), "noise on copies of others' units"] = 0.5
    victims: Annotated[int, Range(1), "others it copies from; the next providers"] = 1
    pick: Annotated[
        str,
        OneOf("random", "rewards"),
        "which of others' units; random ones, or those the leaked sample rewards",
    ] = "random"
    names: Annotated[int, Range(0), "further identities for the copies; 0 leaves them under its own"] = 0
    first: Annotated[bool, "copies of its own units before everybody's units"] = False

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
