"""Chaining: clusters in which two large parts are held together by a few units.

Components join a to c where a is similar to b and b to c, so one unit between two groups makes them one cluster. In a
group of similar units very many edges cross every cut into two large parts, and they have few ends in common; where all
of them end at a handful of units, two groups were chained. Cuts are tried at the weakest edges of a maximum spanning
forest. What holds the parts together is the smallest set of units without which no edge crosses; it is as large as the
largest set of crossing edges that have no end in common (Koenig's theorem). Parts are large from ten units and a
twentieth of the cluster on. Identical units count once. Lineage does not chain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.evidence.graph import Clusters, Edges, components
from datamarket_gym.evidence.spanning_forest import SPANNING, spanning
from datamarket_gym.execution.arrays import Codes, Values

FEW = 3
"""Units that hold two large parts together at most, where it is reported before money goes out."""
LEAST_UNITS, LEAST_SHARE = 10, 0.05
_MOST_CUTS = 3  # of a cluster that are reported
_MOST_TRIED = 12  # of a cluster, at the weakest edges


@dataclass(frozen=True)
class Chain:
    """Two large parts of a cluster, and what holds them together.

    ``left`` and ``right`` are the units (rows) of the strongest edge across, and ``score`` is its similarity. In all
    ``crossing`` edges cross, and ``held_by`` units hold the parts together; both None where not all edges are listed.
    ``through`` are these units, where they are few.
    """

    cluster: int
    units: int
    smaller: int
    left: int
    right: int
    score: float
    crossing: int | None
    held_by: int | None
    through: tuple[int, ...] = ()

    @property
    def thin(self) -> bool:
        """True if a few units hold the parts together."""
        return self.held_by is not None and self.held_by <= FEW


def find_chains(clusters: Clusters) -> list[Chain]:
    """Find the cuts of clusters of units, the thinnest first; none for batches or identities.

    Where a spanning forest alone is listed, the weakest edges come first, and crossing edges are not counted.
    """
    if clusters.granularity != "unit":
        return []
    units = np.arange(len(clusters.label))
    identical = components(units, clusters.edges.where(clusters.edges.score >= 1.0))
    return cuts(clusters, identical, np.ones(len(units)), identical)


def cuts(clusters: Clusters, group: Codes, weight: Values, end: Codes) -> list[Chain]:
    """Find cuts between groups of units, which are never cut and have the weight of their first unit.

    ``end`` says which units are one and the same end of edges, of which the fewest are counted.
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
    is_large = smaller >= np.maximum(LEAST_UNITS, LEAST_SHARE * size[cluster])
    large = np.flatnonzero((tree.edge >= 0) & is_large)
    chains: dict[int, list[Chain]] = {}
    for at in large[np.argsort(edges.score[tree.edge[large]], kind="stable")].tolist():
        of_cluster = chains.setdefault(int(cluster[at]), [])
        if len(of_cluster) == (_MOST_TRIED if whole else _MOST_CUTS):
            continue
        edge = tree.edge[at]
        chain = Chain(
            int(cluster[at]), int(size[cluster[at]]), int(smaller[at]), int(edges.left[edge]),
            int(edges.right[edge]), float(edges.score[edge]), None, None,
        )  # fmt: skip
        if whole:
            inside = np.isin(group, tree.node[tree.hanging(at)])
            crossing = int((inside[edges.left] != inside[edges.right]).sum())
            cover = _cover(edges, inside, end).tolist()
            through = tuple(cover) if len(cover) <= FEW else ()
            chain = replace(chain, crossing=crossing, held_by=len(cover), through=through)
        of_cluster.append(chain)
    return sorted((chain for some in chains.values() for chain in _thinnest(some)), key=_thinness)


def _thinness(chain: Chain) -> tuple[int, float]:
    return chain.held_by or 0, chain.score


def chain_messages(chain: Chain, named: Callable[[int], str]) -> str:
    """Describe a chain in a sentence; ``named`` returns the name of a unit (its row)."""
    parts = f"parts of {chain.smaller:,} and {chain.units - chain.smaller:,} units"
    strongest = f"{named(chain.left)} and {named(chain.right)}, {chain.score:.3f}"
    if chain.crossing is None:
        return f"{parts}: the strongest match is between {strongest}; matches across were not counted"
    if chain.crossing == 1:
        return f"{parts}: held together by one match, between {strongest}"
    if chain.crossing == chain.held_by:  # no two have an end in common: the matches say all
        return f"{parts}: held together by {chain.crossing:,} matches, the strongest between {strongest}"
    through = " and ".join(named(unit) for unit in chain.through) or f"{chain.held_by:,} units"
    return f"{parts}: {chain.crossing:,} matches, all through {through}; the strongest is between {strongest}"


def _thinnest(chains: list[Chain]) -> list[Chain]:
    """Choose the thinnest cuts of a cluster, and of those at one unit the first: it has edges to both sides."""
    thinnest: list[Chain] = []
    seen: set[int] = set()
    for chain in sorted(chains, key=_thinness):
        if len(thinnest) < _MOST_CUTS and not seen & {chain.left, chain.right, *chain.through}:
            thinnest.append(chain)
            seen.update(chain.through)
    return thinnest


def _cover(edges: Edges, inside: NDArray[np.bool_], end: Codes) -> Codes:
    """Find the fewest units at which all edges from inside to outside end, the first of each kind of end."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    is_inside = inside[edges.left]
    crossing = is_inside != inside[edges.right]
    first = np.unique(end, return_index=True)[1]
    within, beyond = (
        np.where(is_inside == ours, edges.left, edges.right)[crossing] for ours in (True, False)
    )
    ours, row = np.unique(end[within], return_inverse=True)
    theirs, column = np.unique(end[beyond], return_inverse=True)
    graph = coo_array((np.ones(len(row), dtype=np.int8), (row, column)), shape=(len(ours), len(theirs)))
    mate = maximum_bipartite_matching(graph.tocsr(), perm_type="column")  # of each row, or -1
    # Koenig: what can be reached from rows without a mate, by edges and back by mates.
    rows, columns = mate < 0, np.zeros(len(theirs), dtype=bool)
    mated = np.flatnonzero(mate >= 0)
    while True:
        columns[column[rows[row]]] = True
        more = mated[columns[mate[mated]] & ~rows[mated]]
        if not len(more):
            return first[np.concatenate([ours[~rows], theirs[columns]])].astype(np.int64)
        rows[more] = True


class _Tree:
    """The maximum spanning forest of edges between groups, rooted at one group of each cluster.

    Of group number ``node[i]``: ``up[i]`` is the place of its parent (its own at the top), ``edge[i]`` the edge to it
    (-1 at the top), and ``below[i]`` the weight of all that hangs on it, its own included.
    """

    def __init__(self, edges: Edges, group: Codes, weight: Values) -> None:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components, depth_first_order

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
        rooted = coo_array((np.ones(len(rows)), (rows, columns)), shape=(n + 1, n + 1)).tocsr()
        order, up = depth_first_order(rooted, n, directed=False)
        self.order = order[1:]  # what hangs on a node follows it without a gap
        self.up = np.where(up[:n] == n, np.arange(n), up[:n]).astype(np.int64)
        self.edge = np.full(n, -1)
        self.edge[np.where(self.up[pair[0]] == pair[1], *pair)] = chosen
        size, parent = [1] * n, self.up.tolist()
        for i in reversed(self.order.tolist()):
            if parent[i] != i:
                size[parent[i]] += size[i]
        self._start = np.argsort(self.order)
        self._stop = self._start + np.array(size)
        total = np.r_[0.0, np.cumsum(weight[self.node][self.order])]
        self.below: Values = total[self._stop] - total[self._start]

    def hanging(self, place: int) -> Codes:
        """Return the places of all that hangs on one, its own included."""
        return self.order[self._start[place] : self._stop[place]]


def _strongest(left: Codes, right: Codes, score: Values) -> Codes:
    """Choose the strongest of edges between the same two."""
    low, high = np.minimum(left, right), np.maximum(left, right)
    order = np.lexsort((-score, high, low))
    new = np.r_[True, (low[order][1:] != low[order][:-1]) | (high[order][1:] != high[order][:-1])]
    return order[new]
