"""Bridges: units that lie between others' units, so that evidence by similarity matches dissimilar units.

Connected components take a chain of similar units for one thing, and its earliest unit for the owner. The last provider
can therefore lay a chain from any unit to an earlier one: points on the arc between two units, each within the
threshold's angle of the next, or two texts blended word by word, until each blend embeds near the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.execution.arrays import Features, Values, directions
from datamarket_gym.market.attacks.base import Attack, Block, Own, Victim
from datamarket_gym.market.attacks.content import content_of
from datamarket_gym.market.encoders.base import stored
from datamarket_gym.registry import Range, register

_WITHIN = 0.999  # of the threshold's angle, so that rounding does not cut a chain

Threshold = Annotated[float, Range(0, 1, open_low=True), "similarity that it takes for enough to match"]
MostUnits = Annotated[int, Range(1), "units at most"]

Link = tuple[int, int]
"""A unit that is connected to the hub already, and the one to be connected to it."""


@register("attack", "bridge")
@dataclass(frozen=True)
class Bridge(Attack):
    """Come last with units between the victim's and an earlier owner's, so that evidence matches the two.

    Points on the arcs between units, close enough that cosines of ``theta`` hold a chain together, connect all
    units of the victim to a hub, cheapest first. The hub is the earliest unit of all but the victim; with ``first``
    the attacker's own earliest unit, which then came before all others. Knows all units and times, and guesses theta.
    """

    title = "bridges between owners"
    tried = ("theta=0.9", "theta=0.7", "victim=all, theta=0.9, most=1000, first=True")

    victim: Victim = 1
    theta: Threshold = 0.9
    most: MostUnits = 100
    first: Annotated[bool, "from a unit of its own before all others"] = False

    def blocks(self, own: Own) -> list[Block]:
        unit = directions(own.honest.vectors)
        step = _WITHIN * float(np.arccos(min(self.theta, 1.0)))
        starts: list[int] = []
        ends: list[int] = []
        shares: list[float] = []
        for near, far in links(own, self.victim, self.first):
            angle = float(np.arccos(np.clip(unit[near] @ unit[far], -1.0, 1.0)))
            pieces = int(np.ceil(angle / step)) if step else 1
            if len(shares) + pieces - 1 > self.most:
                break
            starts += [near] * (pieces - 1)
            ends += [far] * (pieces - 1)
            shares += [i / pieces for i in range(1, pieces)]
        mine = own_block(own, self.first)
        if not shares:
            return [mine]
        a, b, share = np.array(starts), np.array(ends), np.array(shares)
        rows = np.where(share <= 0.5, a, b)
        honest = own.honest
        between = arcs(honest.vectors[a], honest.vectors[b], share)
        if honest.embedding is None:
            return [mine, Block(0, rows, features=between, copy=True)]
        straight = honest.features[a] + share[:, None] * (honest.features[b] - honest.features[a])
        return [mine, Block(0, rows, features=straight, embedding=between, copy=True)]


def own_block(own: Own, first: bool) -> Block:
    """Return the attacker's own units; with ``first`` the earliest of them comes before all others."""
    if not (first and own.clocked):
        return Block(0, own.rows)
    time = own.honest.times[own.rows].copy()
    time[time.argmin()] = own.earliest(1)[0]
    return Block(0, own.rows, time=time)


def links(own: Own, victim: int | str, first: bool) -> Iterator[Link]:
    """Connect all units of the victim to the hub by a tree that grows by its nearest unit."""
    theirs = own.rows_of(victim)
    others = np.setdiff1d(np.arange(len(own.honest)), theirs)
    hubs = own.rows if first else others
    hub = int(hubs[own.honest.times[hubs].argmin()])
    unit = directions(own.honest.vectors)
    goals, linked_to = unit[theirs], np.full(len(theirs), hub)
    nearness, left = goals @ unit[hub], np.ones(len(theirs), dtype=bool)
    for _ in range(len(theirs)):
        at = int(np.where(left, nearness, -np.inf).argmax())
        left[at] = False
        yield int(linked_to[at]), int(theirs[at])
        closer = goals @ goals[at]
        linked_to = np.where(closer > nearness, theirs[at], linked_to)
        nearness = np.maximum(nearness, closer)


def arcs(a: Features, b: Features, share: Values) -> NDArray[np.float64]:
    """Return the points at a share of the way from a to b along the arc between them, lengths in proportion."""
    lengths = np.linalg.norm(a, axis=1) * (1 - share) + np.linalg.norm(b, axis=1) * share
    one, other = directions(a), directions(b)
    angle = np.arccos(np.clip(np.einsum("ij,ij->i", one, other), -1.0, 1.0))
    sine = np.where(np.sin(angle) > 0, np.sin(angle), 1.0)
    parts = np.stack([np.sin((1 - share) * angle), np.sin(share * angle)]) / sine
    direction: NDArray[np.float64] = parts[0][:, None] * one + parts[1][:, None] * other
    return direction * lengths[:, None]


_HALVINGS = 6  # a chain has at most 2 ** 6 pieces


@register("attack", "text_bridge")
@dataclass(frozen=True)
class TextBridge(Attack):
    """Come last with texts blended from the victim's and an earlier owner's, so that evidence matches the two.

    Between two texts the words are exchanged place by place, in a random order; where two neighbours in the chain
    have a cosine below ``theta`` a blend half-way between them goes in, until none does. Knows all texts
    and times, and the encoder.
    """

    title = "texts blended between owners"

    victim: Victim = 1
    theta: Threshold = 0.9
    most: MostUnits = 150
    first: Annotated[bool, "from a text of its own before all others"] = False
    needs_content: ClassVar[str] = "text"

    def blocks(self, own: Own) -> list[Block]:
        texts = content_of(own, "text", np.arange(len(own.honest)))
        chains: list[_Chain] = []
        for link in links(own, self.victim, self.first):
            if len(chains) == self.most:
                break
            chains.append(_Chain(link, str(texts[link[0]]), str(texts[link[1]]), own))
        while short := [chain for chain in chains if chain.gaps(self.theta)]:
            new = [(chain, share) for chain in short for share in chain.gaps(self.theta)]
            embedded = stored(own.state.encoder).encode([chain.blend(share) for chain, share in new])
            for (chain, share), vector in zip(new, embedded, strict=True):
                chain.vector[share] = vector
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
        content = {"text": np.array(blends, dtype=object)}
        made = Block(0, np.array(rows), features=np.array(vectors), content=content, copy=True)
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
        return sorted(self.vector)[1:-1]

    def blend(self, share: float) -> str:
        """Return the text with this share of the places, in their random order, from the second."""
        first, second = self.words
        chosen = self.rank < share * self.places
        taken = ((second if chosen[i] else first)[i : i + 1] for i in range(self.places))
        return " ".join(word for place in taken for word in place)

    def gaps(self, theta: float) -> list[float]:
        """Return half-way shares where neighbours are less similar than theta, and can come closer."""
        shares = np.array(sorted(self.vector))
        unit = directions(np.array([self.vector[at] for at in shares.tolist()]))
        width = np.diff(shares)
        apart = np.einsum("ij,ij->i", unit[1:], unit[:-1]) < theta
        wide = width * min(self.places, 2**_HALVINGS) > 1
        middle: list[float] = (shares[:-1] + width / 2)[apart & wide].tolist()
        return middle
