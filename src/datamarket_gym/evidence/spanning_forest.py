"""All pairs of directions with a cosine of at least theta, exactly, and the maximum spanning forest of a graph.

Batches of rows are compared with all later rows. A float32 product of prefixes (`evidence.similarity_bounds`) proves
most pairs below theta; each of the others is decided by one float64 product of the two rows. Where prefixes leave many
pairs of a block, whole float32 products come between. Up to `MOST_PAIRS` all pairs are returned, beyond that their
forest.

Edges are ordered by cosine, the higher first, then by rows. No two are equal in this order, so there is one forest F(A)
of a set of edges A; and since an edge that is the weakest of a cycle stays so when more edges come, F(F(A) + B) =
F(A + B): edges are reduced as they stream by. Two rows are joined by edges of at least theta' in the forest exactly if
they are in the whole graph, for every theta', and the strongest edge of every row is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from datamarket_gym.evidence.similarity_bounds import Directions, Prefix, prefix_of
from datamarket_gym.execution.arrays import Codes, Features, Values, products, slack_of
from datamarket_gym.execution.parallel import available_cores, compute, over_blocks

_STRONG = 8  # edges a row that are sorted before all others
SPANNING = "cosine, spanning"
"""The reason of edges by cosine where a spanning forest of them alone is listed."""


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
        """True if none is left out."""
        return self.seen == len(self)

    def forest(self) -> Pairs:
        """Return those in the maximum spanning forest of these, in its order."""
        chosen = spanning(self.left, self.right, self.cosine)
        return Pairs(self.left[chosen], self.right[chosen], self.cosine[chosen], self.seen)

    @staticmethod
    def joined(parts: list[Pairs]) -> Pairs:
        """Join several sets of pairs."""
        none = np.empty(0, dtype=np.int64)
        parts = [Pairs(none, none, np.empty(0), 0), *parts]
        left, right, cosine = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("left", "right", "cosine")
        )
        return Pairs(left, right, cosine, sum(part.seen for part in parts))


def spanning(left: Codes, right: Codes, score: Values) -> Codes:
    """Find the places of the edges in the maximum spanning forest, the strongest first; each pair comes once."""
    left, right = _numbered(np.minimum(left, right), np.maximum(left, right))
    n = int(right.max()) + 1 if len(right) else 0
    many = _STRONG * n
    if len(left) <= 2 * many:
        return _kruskal(left, right, score, n)
    # Of very many edges the strongest first: among what they join, weaker ones are in no forest, and need no sorting.
    level = np.partition(score, len(score) - many)[len(score) - many]
    strong = np.flatnonzero(score >= level)
    strong = strong[_kruskal(left[strong], right[strong], score[strong], n)]
    joined = _joined(left[strong], right[strong], n)
    weak = np.flatnonzero((score < level) & (joined[left] != joined[right]))
    both = np.concatenate([strong, weak])
    return both[_kruskal(left[both], right[both], score[both], n)]


def _numbered(low: Codes, high: Codes) -> tuple[Codes, Codes]:
    """Number rows anew, in order, without those that have no edge."""
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
    # Places in the order as weights, from one: a weight of zero is no edge to scipy, and equal ones are ambiguous.
    weight = np.empty(len(order))
    weight[order] = np.arange(1, len(order) + 1)
    graph = coo_array((weight, (low, high)), shape=(n, n))
    chosen = minimum_spanning_tree(graph.tocsr()).data.astype(np.int64)
    return order[np.sort(chosen) - 1]


def _joined(low: Codes, high: Codes, n: int) -> Codes:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(low), dtype=np.int8), (low, high)), shape=(n, n))
    return connected_components(graph, directed=False)[1].astype(np.int64)


class Stream:
    """Collect pairs block by block: all of them up to ``most``, their maximum spanning forest beyond."""

    def __init__(self, most: int) -> None:
        self._most = self._capacity = most
        self._parts: list[Pairs] = []
        self._seen = self._stored = 0

    def add(self, pairs: Pairs) -> None:
        """Add pairs, or the forest of some."""
        if not len(pairs):
            return
        self._parts.append(pairs)
        self._seen += pairs.seen
        self._stored += len(pairs)
        if self._seen > self._most and self._stored > self._capacity:
            self._reduce()

    def _reduce(self) -> None:
        self._parts = [Pairs.joined(self._parts).forest()]
        self._stored = len(self._parts[0])
        self._capacity = self._stored + self._most

    def pairs(self) -> Pairs:
        """Return all pairs in order of rows, or their forest in its own."""
        if self._seen > self._most:
            self._reduce()
        return Pairs.joined(self._parts)


MOST_PAIRS = 1 << 18
_REPORTED = 10_000  # rows from which on a search reports its progress
_ROWS, _COLUMNS = 2048, 512  # of a block: its products stay near the processor
_LEAST_ROWS = 64
_MANY = 64  # one pair in so many is left by prefixes: the block is multiplied whole
_PAIR = 24  # bytes


def similar_pairs(rows: Directions, theta: float, node: Codes | None = None) -> Pairs:
    """Find the pairs i < j of directions with dot product >= theta, of different nodes where nodes are named.

    Of the memory that `compute` allows a quarter is for prefixes, a quarter for blocks, and half for pairs.
    """
    n, d = rows.shape
    by = compute().bytes
    prefix = prefix_of(rows, theta, by // 4)
    if n >= _REPORTED:
        compute().progress.stage(f"comparing {n:,} units, {prefix.description}", "blocks")
    search = _Search(rows, prefix, theta, node, MOST_PAIRS)
    a_row = 4 * _COLUMNS * 4 + 20 * d  # its products and what is chosen of them, and its direction twice
    height = int(np.clip(by // 4 // (a_row * available_cores()), _LEAST_ROWS, _ROWS))
    batches = [(at, min(at + height, n)) for at in range(0, n, height)]
    at_once = max(available_cores(), by // 2 // (_PAIR * MOST_PAIRS))
    stream = Stream(MOST_PAIRS)
    for at in range(0, len(batches), at_once):
        some = batches[at : at + at_once]
        size = sum((stop - start) * (n - start) for start, stop in some)
        for pairs in over_blocks(search, some, size):
            stream.add(pairs)
    return stream.pairs()


@dataclass(frozen=True, eq=False)
class _Search:
    """Search the pairs of a batch of rows, in this process or elsewhere."""

    rows: Directions
    prefix: Prefix
    theta: float
    node: Codes | None
    most: int

    def __call__(self, batch: tuple[int, int]) -> Pairs:
        """Find the pairs whose first row is in the batch."""
        start, stop = batch
        stream, ours = Stream(self.most), self.rows[start:stop]
        short, least = self.prefix.short, self.prefix.least(self.theta)
        products = np.empty((stop - start) * _COLUMNS, dtype=np.float32)
        for at in range(start, len(short), _COLUMNS):
            theirs = short[at : at + _COLUMNS]
            similar = products[: (stop - start) * len(theirs)].reshape(stop - start, len(theirs))
            np.matmul(short[start:stop], theirs.T, out=similar)
            if similar.max() < least:
                continue
            some = np.flatnonzero(similar.max(axis=1) >= least)
            row, column = np.nonzero(similar[some] >= least)
            row = some[row]
            wanted = at + column > start + row
            if self.node is not None:
                wanted &= self.node[start + row] != self.node[at + column]
            row, column = row[wanted], column[wanted]
            if len(row):
                row, column, cosine = self._decided(ours, at, len(theirs), row, column)
                stream.add(Pairs(start + row, at + column, cosine, len(row)))
        return stream.pairs()

    def _decided(
        self, ours: Features, at: int, width: int, row: Codes, column: Codes
    ) -> tuple[Codes, Codes, Values]:
        """Choose those of a block that reach theta."""
        if len(row) * _MANY < len(ours) * width:
            cosine = products(ours[row], self.rows[at + column])
        else:
            theirs = self.rows[at : at + width]
            if self.prefix.rest:
                about = ours.astype(np.float32) @ theirs.astype(np.float32).T
                near = about[row, column] >= np.float32(self.theta) - slack_of(theirs.shape[1])
                row, column = row[near], column[near]
            cosine = _row_by_row(ours, theirs, row, column)
        near = cosine >= self.theta
        return row[near], column[near], np.minimum(cosine[near], 1.0)


def _row_by_row(ours: Features, theirs: Features, row: Codes, column: Codes) -> Values:
    """Multiply pairs, a row with all of its columns at a time: numpy adds them up as it does pair by pair."""
    out = np.empty(len(row))
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    for start, end in pairwise([*starts.tolist(), len(row)]):
        others = theirs[column[start:end]]
        out[start:end] = products(np.broadcast_to(ours[row[start]], others.shape), others)
    return out
