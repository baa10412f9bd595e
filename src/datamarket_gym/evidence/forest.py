"""The maximum spanning forest of a graph: of each component the strongest ties that hold it together.

The order of ties is by cosine, the higher first, and of equals by rows, the smaller first. No two ties are equal in it,
so there is one forest F(A) of a set of ties A, however they come; and since a tie that is the weakest of a cycle stays
so when more ties come, F(F(A) + B) = F(A + B): ties are reduced as they stream by.

What it keeps. Two rows are joined by ties of at least theta' in the forest exactly if they are in the whole graph, for
every theta' (a tie that is left out closes a cycle of stronger ones). The strongest tie of every row is in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datamarket_gym.core.arrays import Codes, Values

_STRONG = 8  # ties a row that are sorted before all others
SPANNING = "cosine, spanning"
"""The reason of ties by cosine where not all are listed, but those that hold each cluster together."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of rows and their cosines: all of the ``seen``, or the forest of them."""

    left: Codes
    right: Codes
    cosine: Values
    seen: int

    def __len__(self) -> int:
        return len(self.left)

    @property
    def whole(self) -> bool:
        """Whether none is left out."""
        return self.seen == len(self)

    def forest(self) -> Pairs:
        """Those that are in the maximum spanning forest of these, in its order."""
        chosen = spanning(self.left, self.right, self.cosine)
        return Pairs(self.left[chosen], self.right[chosen], self.cosine[chosen], self.seen)

    @staticmethod
    def joined(parts: list[Pairs]) -> Pairs:
        """Several as one."""
        none = np.empty(0, dtype=np.int64)
        return Pairs(
            np.concatenate([none, *(p.left for p in parts)]),
            np.concatenate([none, *(p.right for p in parts)]),
            np.concatenate([np.empty(0), *(p.cosine for p in parts)]),
            sum(p.seen for p in parts),
        )


def spanning(left: Codes, right: Codes, score: Values) -> Codes:
    """Places of the ties in the maximum spanning forest, the strongest first; each pair comes once."""
    left, right = _numbered(np.minimum(left, right), np.maximum(left, right))
    n = int(right.max()) + 1 if len(right) else 0
    many = _STRONG * n
    if len(left) <= 2 * many:
        return _kruskal(left, right, score, n)
    # Of very many ties the strongest first: among what they join, weaker ones are in no forest, and need no sorting.
    level = np.partition(score, len(score) - many)[len(score) - many]
    strong = np.flatnonzero(score >= level)
    strong = strong[_kruskal(left[strong], right[strong], score[strong], n)]
    joined = _joined(left[strong], right[strong], n)
    weak = np.flatnonzero((score < level) & (joined[left] != joined[right]))
    both = np.concatenate([strong, weak])
    return both[_kruskal(left[both], right[both], score[both], n)]


def _numbered(low: Codes, high: Codes) -> tuple[Codes, Codes]:
    """Rows numbered anew, in order, without those that no tie has."""
    if not len(low):
        return low, high
    used = np.zeros(int(high.max()) + 1, dtype=bool)
    used[low] = used[high] = True
    number = np.cumsum(used) - 1
    return number[low], number[high]


def _kruskal(low: Codes, high: Codes, score: Values, n: int) -> Codes:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    order = np.lexsort((high, low, -score))
    # Places in the order as weights, from one: a weight of zero is no tie to scipy, and equal ones are drawn for.
    weight = np.empty(len(order))
    weight[order] = np.arange(1, len(order) + 1)
    graph = coo_array((weight, (low, high)), shape=(n, n))
    kept = minimum_spanning_tree(graph.tocsr()).data.astype(np.int64)
    return order[np.sort(kept) - 1]


def _joined(low: Codes, high: Codes, n: int) -> Codes:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(low), dtype=np.int8), (low, high)), shape=(n, n))
    return connected_components(graph, directed=False)[1].astype(np.int64)


class Stream:
    """Pairs that come one block after the other: all are held up to ``most`` of them, the forest beyond.

    Which of the two depends on how many pairs there are, and on nothing else.
    """

    def __init__(self, most: int) -> None:
        self._most, self._room = most, most
        self._parts: list[Pairs] = []
        self._seen = self._held = 0

    def add(self, pairs: Pairs) -> None:
        """Some more, or the forest of some more."""
        if not len(pairs):
            return
        self._parts.append(pairs)
        self._seen += pairs.seen
        self._held += len(pairs)
        if self._seen > self._most and self._held > self._room:
            self._reduce()

    def _reduce(self) -> None:
        self._parts = [Pairs.joined(self._parts).forest()]
        self._held = len(self._parts[0])
        self._room = self._held + self._most

    def pairs(self) -> Pairs:
        """What is held of all that came; all in order of rows, a forest in its own."""
        if self._seen > self._most:
            self._reduce()
        return Pairs.joined(self._parts)
