"""Chaining's fingerprint: clusters in which two large parts are held together by a few units.

Components tie a to c where a is near b and b near c. So one unit between two groups makes them one cluster, whoever
sent it. In a group of units that are all alike very many ties cross every cut into two large parts, and they have few
ends in common; where all of them end at a handful of units, two groups were chained. Cuts are looked for where a
maximum spanning forest can be cut, at one of its edges. What holds the parts together is the smallest set of units
without which no tie crosses; it is as large as the largest set of ties across that have no end in common (Koenig's
theorem). Parts are large from ten units and a twentieth of the cluster on. Units that are the same anyway count once.

Lineage does not chain (docs/lineage.md): a unit descends from one earlier unit, and joins no two others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.evidence.graph import Clusters, Edges, components
from datamarket_gym.evidence.spanning_forest import SPANNING, spanning
from datamarket_gym.execution.arrays import Codes, Values

FEW = 3
"""Units that hold two large parts together and are told before money goes out."""
LEAST_UNITS, LEAST_SHARE = 10, 0.05
_MOST_CUTS = 3  # of a cluster are told
_MOST_TRIED = 12  # of a cluster, those with the fewest ties across


@dataclass(frozen=True)
class Chain:
    """Two large parts of a cluster, and what holds them together.

    ``left`` and ``right`` are rows of the units whose tie is the strongest across, ``score`` is its likeness. ``ties``
    is how many ties cross in all, and ``held_by`` how many units hold the parts together; both None where not all ties
    are listed. ``through`` are the rows of these units, where they are few.
    """

    cluster: int
    units: int
    smaller: int
    left: int
    right: int
    score: float
    ties: int | None
    held_by: int | None
    through: tuple[int, ...] = ()

    @property
    def thin(self) -> bool:
        """Whether a few units hold the parts together."""
        return self.held_by is not None and self.held_by <= FEW


def find_chains(clusters: Clusters) -> list[Chain]:
    """Cuts of clusters of units by likeness, the thinnest first; none where batches or identities play.

    Where the ties of a spanning forest alone are listed, the weakest come first, and nobody knows how many cross.
    """
    if clusters.granularity != "unit":
        return []
    everyone = np.arange(len(clusters.label))
    alike = components(everyone, clusters.edges.where(clusters.edges.score >= 1.0))
    return cuts(clusters, alike, np.ones(len(everyone)), alike)


def cuts(clusters: Clusters, group: Codes, weight: Values, end: Codes) -> list[Chain]:
    """The same where groups of units are never cut, and have the weight of their first unit.

    ``end`` says which units are one and the same end of ties, of which the fewest are counted.
    """
    label, whole = clusters.label, SPANNING not in clusters.edges.reason
    edges = clusters.edges.where(group[clusters.edges.left] != group[clusters.edges.right])
    first = np.unique(group, return_index=True)[1]
    size = np.bincount(label[first], weights=weight[first], minlength=clusters.n_clusters)
    edges = edges.where(size[label[edges.left]] >= 2 * LEAST_UNITS)
    if not len(edges):
        return []
    tree = _Tree(edges, group, weight[first])
    cluster = label[first[tree.node]]
    smaller = np.minimum(tree.below, size[cluster] - tree.below)
    large = np.flatnonzero(
        (tree.edge >= 0) & (smaller >= np.maximum(LEAST_UNITS, LEAST_SHARE * size[cluster]))
    )
    across = tree.across() if whole else np.zeros(len(tree.node), dtype=np.int64)
    order = large[np.lexsort((edges.score[tree.edge[large]], across[large]))]
    found: dict[int, list[Chain]] = {}
    for at in order.tolist():
        of_cluster = found.setdefault(int(cluster[at]), [])
        if len(of_cluster) == (_MOST_TRIED if whole else _MOST_CUTS):
            continue
        tie = int(tree.edge[at])
        cover = (
            _cover(edges, np.isin(group, tree.node[tree.hanging(at)]), end)
            if whole
            else np.empty(0, dtype=np.int64)
        )
        of_cluster.append(
            Chain(
                int(cluster[at]),
                int(size[cluster[at]]),
                int(smaller[at]),
                int(edges.left[tie]),
                int(edges.right[tie]),
                float(edges.score[tie]),
                int(across[at]) if whole else None,
                len(cover) if whole else None,
                tuple(cover.tolist()) if len(cover) <= FEW else (),
            )
        )
    told = [chain for each in found.values() for chain in _thinnest(each)]
    return sorted(told, key=lambda chain: (chain.held_by or 0, chain.score))


def chain_messages(chain: Chain, named: Callable[[int], str]) -> str:
    """A chain in a sentence; ``named`` says how a unit (its row) is called."""
    parts = f"parts of {chain.smaller:,} and {chain.units - chain.smaller:,} units"
    strongest = f"{named(chain.left)} and {named(chain.right)}, {chain.score:.3f}"
    if chain.ties is None:
        return f"{parts}: the strongest tie is between {strongest}; ties across were not counted"
    if chain.ties == chain.held_by:  # no two have an end in common: the ties say all
        held = "one tie, between" if chain.ties == 1 else f"{chain.ties:,} ties, the strongest between"
        return f"{parts}: held together by {held} {strongest}"
    through = " and ".join(named(unit) for unit in chain.through) or f"{chain.held_by:,} units"
    return f"{parts}: {chain.ties:,} ties, all through {through}; the strongest is between {strongest}"


def _thinnest(chains: list[Chain]) -> list[Chain]:
    """The thinnest cuts of a cluster, and of those at one unit the first: it has ties to both sides."""
    kept: list[Chain] = []
    seen: set[int] = set()
    for chain in sorted(chains, key=lambda chain: (chain.held_by or 0, chain.score)):
        if len(kept) < _MOST_CUTS and not seen & {chain.left, chain.right, *chain.through}:
            kept.append(chain)
            seen.update(chain.through)
    return kept


def _cover(edges: Edges, inside: NDArray[np.bool_], end: Codes) -> Codes:
    """The fewest units at which all ties between those inside and the others end, the first of each kind of end."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    held = inside[edges.left]
    crossing = held != inside[edges.right]
    first = np.unique(end, return_index=True)[1]
    within, beyond = (
        np.where(held == ours, edges.left, edges.right)[crossing] for ours in (True, False)
    )
    ours, row = np.unique(end[within], return_inverse=True)
    theirs, column = np.unique(end[beyond], return_inverse=True)
    graph = coo_array((np.ones(len(row), dtype=np.int8), (row, column)), shape=(len(ours), len(theirs)))
    mate = maximum_bipartite_matching(graph.tocsr(), perm_type="column")  # of each row, or -1
    # Koenig: what can be reached from rows without a mate, by ties and back by mates.
    rows, columns = mate < 0, np.zeros(len(theirs), dtype=bool)
    mated = np.flatnonzero(mate >= 0)
    while True:
        columns[column[rows[row]]] = True
        more = mated[columns[mate[mated]] & ~rows[mated]]
        if not len(more):
            return first[np.concatenate([ours[~rows], theirs[columns]])].astype(np.int64)
        rows[more] = True


class _Tree:
    """The maximum spanning forest of ties between groups, hung up at one group of each cluster.

    Of group number ``node[i]``: ``up[i]`` is the place of its parent (its own at the top), ``edge[i]`` the tie to it
    (-1 at the top), and ``below[i]`` the weight of all that hangs on it, its own included.
    """

    def __init__(self, edges: Edges, group: Codes, weight: Values) -> None:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import breadth_first_order, connected_components

        ends = np.stack([group[edges.left], group[edges.right]])
        self.node, place = np.unique(ends, return_inverse=True)
        self.left, self.right = place.reshape(2, -1).astype(np.int64)
        best = _strongest(self.left, self.right, edges.score)
        chosen = best[spanning(self.left[best], self.right[best], edges.score[best])]
        n = len(self.node)
        pair = (self.left[chosen], self.right[chosen])
        forest = coo_array((np.ones(len(chosen)), pair), shape=(n, n)).tocsr()
        part = connected_components(forest, directed=False)[1]
        tops = np.unique(part, return_index=True)[1]
        # One more node, above all tops, so that one walk sees every tree.
        rows, columns = np.r_[pair[0], np.full(len(tops), n)], np.r_[pair[1], tops]
        hung = coo_array((np.ones(len(rows)), (rows, columns)), shape=(n + 1, n + 1)).tocsr()
        order, up = breadth_first_order(hung, n, directed=False)
        self.order = order[1:]
        self.up = np.where(up[:n] == n, np.arange(n), up[:n]).astype(np.int64)
        self.edge = np.full(n, -1)
        down = np.where(self.up[pair[0]] == pair[1], pair[0], pair[1])
        self.edge[down] = chosen
        self.below = self._summed(weight[self.node])

    def _summed(self, own: Values | Codes) -> Values:
        """Sums over all that hangs on each."""
        total, up = own.tolist(), self.up.tolist()
        for i in reversed(self.order.tolist()):
            if up[i] != i:
                total[up[i]] += total[i]
        return np.array(total, dtype=np.float64)

    def hanging(self, place: int) -> Codes:
        """The places of all that hangs on one, its own included."""
        hangs = np.zeros(len(self.node), dtype=bool)
        hangs[place] = True
        for lift in self._lifts:
            hangs |= hangs[lift]
        return np.flatnonzero(hangs)

    def across(self) -> Codes:
        """How many ties cross each edge of the tree: those that end below it, less those of which both ends do."""
        n = len(self.node)
        one, other = self.left, self.right
        deeper = self._depth[one] >= self._depth[other]
        low, high = np.where(deeper, one, other), np.where(deeper, other, one)
        for i, lift in enumerate(self._lifts):
            low = np.where((self._depth[low] - self._depth[high]) >> i & 1, lift[low], low)
        for lift in self._lifts[::-1]:
            apart = lift[low] != lift[high]
            low, high = np.where(apart, lift[low], low), np.where(apart, lift[high], high)
        meet = np.where(low == high, low, self.up[low])
        ends = np.bincount(one, minlength=n) + np.bincount(other, minlength=n)
        crossing = self._summed(ends - 2 * np.bincount(meet, minlength=n))
        return crossing.astype(np.int64)

    @cached_property
    def _depth(self) -> Codes:
        depth = np.zeros(len(self.node), dtype=np.int64)
        for i in self.order.tolist():
            depth[i] = depth[self.up[i]] + (self.up[i] != i)
        return depth

    @cached_property
    def _lifts(self) -> list[Codes]:
        """Ancestors 1, 2, 4, ... generations up, as far as there are any."""
        lifts = [self.up]
        while 1 << len(lifts) <= self._depth.max():
            lifts.append(lifts[-1][lifts[-1]])
        return lifts


def _strongest(left: Codes, right: Codes, score: Values) -> Codes:
    """Of ties between the same two the strongest."""
    low, high = np.minimum(left, right), np.maximum(left, right)
    order = np.lexsort((-score, high, low))
    new = np.r_[True, (low[order][1:] != low[order][:-1]) | (high[order][1:] != high[order][:-1])]
    return order[new]
