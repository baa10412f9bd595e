"""Bridges: units that lie between others' units, so that evidence by likeness ties what is not alike.

Connected components take a chain of likenesses for one thing, and its earliest unit for the owner. Who
comes last can therefore lay a chain from anybody's unit to an earlier one. What a chain costs depends on
the angles: points on the arc between two units, each within the threshold's angle of the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Features, Values, directions
from datamarket_gym.core.parameters import Range
from datamarket_gym.core.registry import register
from datamarket_gym.world.attacks.attack import Attack, Block, Own, Victim

_WITHIN = 0.999  # of the threshold's angle, so that rounding does not cut a chain

Threshold = Annotated[float, Range(0, 1, open_low=True), "similarity that it takes for enough to match"]
MostUnits = Annotated[int, Range(1), "units at most"]

Link = tuple[int, int]
"""A unit that is tied to the hub already, and the one to be tied to it."""


@register("attack", "bridge")
@dataclass(frozen=True)
class Bridge(Attack):
    """Come last with units between the victim's and an earlier owner's, so that evidence matches the two.

    Points on the arcs between units, close enough that cosines of ``theta`` hold a chain together, connect all
    units of the victim to a hub, cheapest first. The hub is the earliest unit of anybody but the victim; with ``first``
    the attacker's own earliest unit, which then came before everybody's. Knows everybody's units and times, and
    guesses theta.
    """

    title = "bridges between owners"
    tried = ("theta=0.9", "theta=0.7", "victim=all, theta=0.9, most=1000, first=True")

    victim: Victim = 1
    theta: Threshold = 0.9
    most: MostUnits = 100
    first: Annotated[bool, "from a unit of its own before everybody's"] = False

    def blocks(self, own: Own) -> list[Block]:
        """Own units, and the bridges; each derives from the end that it is nearer to."""
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
    """The attacker's own units; with ``first`` the earliest of them came before everybody's."""
    if not (first and own.clocked):
        return Block(0, own.rows)
    time = own.honest.times[own.rows].copy()
    time[time.argmin()] = own.earliest(1)[0]
    return Block(0, own.rows, time=time)


def links(own: Own, victim: int | str, first: bool) -> Iterator[Link]:
    """What to tie to what, so that all units of the victim hang on the hub: a tree that grows by its nearest."""
    theirs = own.rows_of(victim)
    others = np.setdiff1d(np.arange(len(own.honest)), theirs)
    hubs = own.rows if first else others
    hub = int(hubs[own.honest.times[hubs].argmin()])
    unit = directions(own.honest.vectors)
    goals, tied_to = unit[theirs], np.full(len(theirs), hub)
    nearness, left = goals @ unit[hub], np.ones(len(theirs), dtype=bool)
    for _ in range(len(theirs)):
        at = int(np.where(left, nearness, -np.inf).argmax())
        left[at] = False
        yield int(tied_to[at]), int(theirs[at])
        closer = goals @ goals[at]
        tied_to = np.where(closer > nearness, theirs[at], tied_to)
        nearness = np.maximum(nearness, closer)


def arcs(a: Features, b: Features, share: Values) -> NDArray[np.float64]:
    """The points at a share of the way from a to b along the arc between them, lengths in proportion."""
    lengths = np.linalg.norm(a, axis=1) * (1 - share) + np.linalg.norm(b, axis=1) * share
    one, other = directions(a), directions(b)
    angle = np.arccos(np.clip(np.einsum("ij,ij->i", one, other), -1.0, 1.0))
    sine = np.where(np.sin(angle) > 0, np.sin(angle), 1.0)
    parts = np.stack([np.sin((1 - share) * angle), np.sin(share * angle)]) / sine
    direction: NDArray[np.float64] = parts[0][:, None] * one + parts[1][:, None] * other
    return direction * lengths[:, None]
