"""Bridges made of texts: two articles blended word by word, until each blend embeds near the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from datamarket_gym.core.arrays import Features, directions
from datamarket_gym.core.registry import register
from datamarket_gym.world.attacks.attack import Attack, Block, Own, Victim
from datamarket_gym.world.attacks.bridges import Link, MostUnits, Threshold, links, own_block
from datamarket_gym.world.attacks.content import content_of
from datamarket_gym.world.encoders.store import stored

_HALVINGS = 6  # a chain has at most 2 ** 6 pieces


@register("attack", "text_bridge")
@dataclass(frozen=True)
class TextBridge(Attack):
    """Come last with texts blended from the victim's and an earlier owner's, so that evidence matches the two.

    Between two texts the words are exchanged place by place, in a random order; where two neighbours in the chain
    have a cosine below ``theta`` a blend half-way between them goes in, until none does. Knows everybody's texts
    and times, and the encoder.
    """

    title = "texts blended between owners"

    victim: Victim = 1
    theta: Threshold = 0.9
    most: MostUnits = 150
    first: Annotated[bool, "from a text of its own before everybody's"] = False
    needs_content: ClassVar[str] = "text"

    def blocks(self, own: Own) -> list[Block]:
        """Own units, and the blends; each derives from the text of which it has more."""
        texts = content_of(own, "text", np.arange(len(own.honest)))
        chains: list[_Chain] = []
        for link in links(own, self.victim, self.first):
            if len(chains) == self.most:
                break
            chains.append(_Chain(link, str(texts[link[0]]), str(texts[link[1]]), own))
        while short := [chain for chain in chains if chain.gaps(self.theta)]:
            new = [(chain, share) for chain in short for share in chain.gaps(self.theta)]
            found = stored(own.state.encoder).encode([chain.blend(share) for chain, share in new])
            for (chain, share), vector in zip(new, found, strict=True):
                chain.add(share, vector)
        rows: list[int] = []
        blends: list[str] = []
        vectors: list[Features] = []
        for chain in chains:
            if len(rows) + len(chain.inside) > self.most:
                break
            rows += [chain.link[share > 0.5] for share in chain.inside]
            blends += [chain.blend(share) for share in chain.inside]
            vectors += [chain.vector[share] for share in chain.inside]
        mine = own_block(own, self.first)
        if not rows:
            return [mine]
        content = np.empty(len(rows), dtype=object)
        content[:] = blends
        made = Block(0, np.array(rows), features=np.array(vectors), content={"text": content}, copy=True)
        return [mine, made]


class _Chain:
    """Blends between two texts, by their share of the second."""

    def __init__(self, link: Link, first: str, second: str, own: Own) -> None:
        self.link, self.words = link, (first.split(), second.split())
        self.places = max(map(len, self.words))
        names = own.honest.id[list(link)].tolist()
        self.rank = own.rng(f"blend {names[0]} {names[1]}").permutation(self.places)
        self.vector = {float(at): own.honest.features[row] for at, row in enumerate(link)}

    @property
    def inside(self) -> list[float]:
        """The shares of the blends, without the two ends."""
        return sorted(self.vector)[1:-1]

    def blend(self, share: float) -> str:
        """The text with this share of the places, in their random order, from the second."""
        first, second = self.words
        chosen = self.rank < share * self.places
        taken = ((second if chosen[i] else first)[i : i + 1] for i in range(self.places))
        return " ".join(word for place in taken for word in place)

    def gaps(self, theta: float) -> list[float]:
        """Half-way shares where two neighbours are less alike than theta, and can come closer."""
        shares = np.array(sorted(self.vector))
        unit = directions(np.array([self.vector[at] for at in shares.tolist()]))
        width = np.diff(shares)
        apart = np.einsum("ij,ij->i", unit[1:], unit[:-1]) < theta
        wide = width * min(self.places, 2**_HALVINGS) > 1
        middle: list[float] = (shares[:-1] + width / 2)[apart & wide].tolist()
        return middle

    def add(self, share: float, vector: Features) -> None:
        """A blend's embedding."""
        self.vector[share] = vector
