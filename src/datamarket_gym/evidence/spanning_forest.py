"""The maximum spanning forest of a graph: of each component the strongest ties that hold it together.

The order of ties is by cosine, the higher first, and of equals by rows, the smaller first. No two ties are equal in it,
so there is one forest F(A) of a set of ties A, however they come; and since a tie that is the weakest of a cycle stays
so when more ties come, F(F(A) + B) = F(A + B): ties are reduced as they stream by.

What it keeps. Two rows are joined by ties of at least theta' in the forest exactly if they are in the whole graph, for
every theta' (a tie that is left out closes a cycle of stronger ones). The strongest tie of every row is in it.

All pairs of directions with a cosine of at least theta, exactly, without the products of all pairs.

Bands of rows are held against all later rows. A float32 product of prefixes (`evidence.prefix`) proves most pairs below
theta. Each of the others is decided by one float64 product of the two rows, the same wherever it is worked out, so
that the answer depends neither on blocks nor on prefixes. Where prefixes leave many pairs of a block, whole float32
products come between, and rows are read once for all of their pairs.

Up to `MOST_PAIRS` all pairs are told, beyond that their maximum spanning forest (`evidence.forest`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.evidence.similarity_bounds import Directions, Prefix, prefix_of
from datamarket_gym.execution.arrays import Codes, Features, Values, products, slack_of
from datamarket_gym.execution.parallel import available_cores, compute, over_blocks

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


MOST_PAIRS = 1 << 18
TOLD = 10_000
"""From so many rows on a search says how it goes about it."""
_ROWS, _COLUMNS = 2048, 512  # of a block: its products stay near the processor
_LEAST_ROWS = 64
_MANY = 64  # one pair in so many is left by prefixes: the block is multiplied whole
_PAIR = 24  # bytes


def similar_pairs(rows: Directions, theta: float, node: Codes | None = None) -> Pairs:
    """Pairs i < j of directions with dot product >= theta, of different nodes where there are such.

    Memory follows `core.compute`: a quarter of it for prefixes, a quarter for blocks, and half for pairs on their way.
    """
    n, d = rows.shape
    by = compute().bytes
    prefix = prefix_of(rows, theta, by // 4)
    if n >= TOLD:
        compute().progress.stage(f"comparing {n:,} units, {prefix.words}", "blocks")
    search = _Search(rows, prefix, theta, node, MOST_PAIRS)
    a_row = 4 * _COLUMNS * 4 + 20 * d  # its products and what is chosen of them, and its direction twice
    height = int(np.clip(by // 4 // (a_row * available_cores()), _LEAST_ROWS, _ROWS))
    bands = [(at, min(at + height, n)) for at in range(0, n, height)]
    at_once = max(available_cores(), by // 2 // (_PAIR * MOST_PAIRS))
    found = Stream(MOST_PAIRS)
    for at in range(0, len(bands), at_once):
        some = bands[at : at + at_once]
        for pairs in over_blocks(
            search, some, sum((stop - start) * (n - start) for start, stop in some)
        ):
            found.add(pairs)
    return found.pairs()


@dataclass(frozen=True, eq=False)
class _Search:
    """What a band of rows is searched with, here or elsewhere."""

    rows: Directions
    prefix: Prefix
    theta: float
    node: Codes | None
    most: int

    def __call__(self, band: tuple[int, int]) -> Pairs:
        """Pairs whose first row is in the band."""
        start, stop = band
        found, ours = Stream(self.most), _Band(self.rows, start, stop)
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
            asked = at + column > start + row
            if self.node is not None:
                asked &= self.node[start + row] != self.node[at + column]
            row, column = row[asked], column[asked]
            if len(row):
                found.add(self._decided(ours, at, len(theirs), row, column))
        return found.pairs()

    def _decided(self, ours: _Band, at: int, width: int, row: Codes, column: Codes) -> Pairs:
        """Those of a block that reach theta."""
        if len(row) * _MANY < len(ours.whole) * width:
            cosine = products(ours.whole[row], self.rows[at + column])
        else:
            theirs = self.rows[at : at + width]
            if self.prefix.rest:
                about = ours.short @ theirs.astype(np.float32).T
                near = about[row, column] >= np.float32(self.theta) - slack_of(theirs.shape[1])
                row, column = row[near], column[near]
                if not len(row):
                    return Pairs.joined([])
            cosine = _row_by_row(ours.whole, theirs, row, column)
        near = cosine >= self.theta
        row, column, cosine = row[near], column[near], np.minimum(cosine[near], 1.0)
        return Pairs(ours.start + row, at + column, cosine, len(row))


class _Band:
    """Rows of a band in float64 and float32, read when first asked for."""

    def __init__(self, rows: Directions, start: int, stop: int) -> None:
        self._rows, self.start, self._stop = rows, start, stop
        self._whole: Features | None = None
        self._short: NDArray[np.float32] | None = None

    @property
    def whole(self) -> Features:
        """All numbers of its directions."""
        if self._whole is None:
            self._whole = self._rows[self.start : self._stop]
        return self._whole

    @property
    def short(self) -> NDArray[np.float32]:
        """The same in float32."""
        if self._short is None:
            self._short = self.whole.astype(np.float32)
        return self._short


def _row_by_row(ours: Features, theirs: Features, row: Codes, column: Codes) -> Values:
    """Products of pairs, a row with all of its columns at a time: numpy adds them up as it does pair by pair."""
    out = np.empty(len(row))
    ends = np.flatnonzero(row[1:] != row[:-1]) + 1
    for start, end in zip([0, *ends.tolist()], [*ends.tolist(), len(row)], strict=True):
        others = theirs[column[start:end]]
        out[start:end] = products(np.broadcast_to(ours[row[start]], others.shape), others)
    return out
