import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.data import Submission
from datamarket_gym.data.content_keys import DistinctRows
from datamarket_gym.evidence import EvidenceGraph
from datamarket_gym.evidence import spanning_forest as searched
from datamarket_gym.evidence.graph import Edges, components
from datamarket_gym.evidence.layers.content import COSINE
from datamarket_gym.evidence.spanning_forest import SPANNING, Pairs, Stream, similar_pairs, spanning
from datamarket_gym.execution.arrays import LowPrecisionRows, directions
from datamarket_gym.execution.parallel import Compute, compute, computing


def brute(rows, theta, node=None):
    """All pairs, one float64 product each."""
    left, right = np.triu_indices(len(rows), 1)
    if node is not None:
        left, right = left[node[left] != node[right]], right[node[left] != node[right]]
    cosine = np.einsum("ij,ij->i", rows[left], rows[right])
    near = cosine >= theta
    return left[near], right[near], np.minimum(cosine[near], 1.0)


def in_order(left, right, cosine):
    order = np.lexsort((right, left))
    return left[order].tolist(), right[order].tolist(), cosine[order].tolist()


def drawn(kind, n, d=24, seed=0):
    rng = np.random.default_rng(seed)
    if kind == "even":
        rows = rng.normal(size=(n, d))
    elif kind == "groups":
        rows = rng.normal(size=(12, d))[rng.integers(12, size=n)] + 0.15 * rng.normal(size=(n, d))
    elif kind == "alike":  # all above theta, and below what float32 can tell apart
        rows = np.ones(d) + 1e-9 * rng.normal(size=(n, d))
    else:  # on a circle, at equal angles: many pairs at the same cosine, up to the last bit
        angle = np.arange(n) * (2 * np.pi / 360)
        rows = np.zeros((n, d))
        rows[:, 0], rows[:, 1] = np.cos(angle), np.sin(angle)
    return directions(rows)


@pytest.fixture
def small(monkeypatch):
    """Blocks and prefixes of a market of a million, on a small one."""
    monkeypatch.setattr(searched, "_ROWS", 64)
    monkeypatch.setattr(searched, "_COLUMNS", 48)
    monkeypatch.setattr("datamarket_gym.evidence.similarity_bounds._LEAST_ROWS", 0)


@pytest.mark.parametrize("kind", ["even", "groups", "alike", "circle"])
@pytest.mark.parametrize("theta", [-0.5, 0.3, 0.9, float(np.cos(5 * 2 * np.pi / 360)), 0.99999])
@pytest.mark.parametrize("memory", [4.0, 0.00001])
@pytest.mark.usefixtures("small")
def test_pairs_are_those_of_all_products_to_the_last_bit(kind, theta, memory):
    rows = drawn(kind, 333)
    with computing(Compute(memory=memory)):
        found = similar_pairs(rows, theta)
    assert found.whole
    assert in_order(found.left, found.right, found.cosine) == in_order(*brute(rows, theta))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(-0.5, 0.999), st.integers(1, 40), st.integers(1, 12))
def test_pairs_of_a_few_rows_of_any_width(seed, theta, n, d):
    rows = directions(np.random.default_rng(seed).normal(size=(n, d)))
    node = np.random.default_rng(seed).integers(3, size=n)
    found = similar_pairs(rows, theta, node)
    assert in_order(found.left, found.right, found.cosine) == in_order(*brute(rows, theta, node))


@pytest.mark.usefixtures("small")
def test_a_float32_prefix_decides_nothing():
    """Pairs at exactly theta are told, though thousands of prefixes are as near."""
    rows = drawn("circle", 360)
    cosine = brute(rows, 0.9)[2]
    for theta in np.unique(cosine)[::7].tolist():
        assert similar_pairs(rows, theta).seen == (cosine >= theta).sum()
        assert similar_pairs(rows, float(np.nextafter(theta, 2.0))).seen == (cosine > theta).sum()


@pytest.mark.parametrize("kind", ["even", "groups", "alike", "circle"])
@pytest.mark.parametrize("memory", [4.0, 0.00001])
@pytest.mark.parametrize("rows_at_once", [64, 100])
@pytest.mark.usefixtures("small")
def test_beyond_so_many_pairs_their_forest_is_told(kind, memory, rows_at_once, monkeypatch):
    monkeypatch.setattr(searched, "MOST_PAIRS", 500)
    monkeypatch.setattr(searched, "_ROWS", rows_at_once)
    rows = drawn(kind, 333)
    left, right, cosine = brute(rows, 0.2)
    with computing(Compute(memory=memory)):
        found = similar_pairs(rows, 0.2)
    assert found.seen == len(left) > 500
    kept = kruskal(left, right, cosine, len(rows))
    assert (
        list(zip(found.left.tolist(), found.right.tolist(), found.cosine.tolist(), strict=True)) == kept
    )


def kruskal(left, right, cosine, n):
    """The maximum spanning forest by the book."""
    root = list(range(n))

    def of(i):
        while root[i] != i:
            i = root[i]
        return i

    kept = []
    for _, i, j, score in sorted(
        (-c, a, b, c) for a, b, c in zip(left.tolist(), right.tolist(), cosine.tolist(), strict=True)
    ):
        if of(i) != of(j):
            root[of(i)] = of(j)
            kept.append((i, j, score))
    return kept


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 30), st.integers(0, 600), st.integers(1, 60))
def test_clusters_at_every_theta_are_those_of_the_whole_graph(seed, n, m, levels):
    rng = np.random.default_rng(seed)
    code = np.unique(rng.integers(n, size=(m, 2)) @ np.array([n, 1]))
    left, right = code // n, code % n
    left, right = left[left < right], right[left < right]
    score = rng.integers(levels, size=len(left)) / levels  # many ties, and zeros
    chosen = spanning(left, right, score)
    whole, forest = (
        Edges.of(left[at], right[at], "x", score[at]) for at in (np.arange(len(left)), chosen)
    )
    expected = [(i, j) for i, j, _ in kruskal(left, right, score, n)]
    assert list(zip(left[chosen].tolist(), right[chosen].tolist(), strict=True)) == expected
    for theta in np.unique(score):
        some, few = whole.where(whole.score >= theta), forest.where(forest.score >= theta)
        assert components(np.arange(n), some).tolist() == components(np.arange(n), few).tolist()
        assert len(few) == n - len(np.unique(components(np.arange(n), few)))
    parts = np.array_split(rng.permutation(len(left)), 4)
    stream = Stream(int(rng.integers(0, 10)))
    for part in parts:
        stream.add(Pairs(left[part], right[part], score[part], len(part)))
    held = stream.pairs()
    assert held.seen == len(left)
    if not held.whole:
        assert list(zip(held.left.tolist(), held.right.tolist(), strict=True)) == expected
    for i in range(n):
        mine = np.flatnonzero((left == i) | (right == i))
        strongest = mine[np.lexsort((right[mine], left[mine], -score[mine]))][:1]
        assert np.isin(strongest, chosen).all()


def market(rows, **more):
    n = len(rows)
    return Submission(
        id=np.arange(n).astype(str), identity=(np.arange(n) % 7).astype(str), features=rows,
        label=np.zeros(n, dtype=np.int64), **more,
    )  # fmt: skip


@pytest.mark.parametrize("granularity", ["unit", "identity"])
@pytest.mark.parametrize("evidence", ["cosine@0.9", "hybrid_hash_cosine@0.9"])
def test_a_forest_makes_the_clusters_of_all_pairs(granularity, evidence, monkeypatch):
    submission = market(drawn("groups", 300)[np.r_[0:300, 0:20, 5:9]])
    whole = EvidenceGraph.build(submission, evidence, granularity=granularity)
    monkeypatch.setattr(searched, "MOST_PAIRS", 100)
    forest = EvidenceGraph.build(submission, evidence, granularity=granularity)
    assert forest.label.tolist() == whole.label.tolist()
    assert len(forest.edges) < len(whole.edges)
    assert COSINE in whole.edges.reason
    assert SPANNING not in whole.edges.reason
    assert SPANNING in forest.edges.reason


def test_near_copies_of_one_unit_are_held_by_as_many_ties_as_there_are():
    rng = np.random.default_rng(0)
    rows = np.r_[rng.normal(size=(50, 32)), np.ones((2000, 32)) + 1e-6 * rng.normal(size=(2000, 32))]
    clusters = EvidenceGraph.build(market(rows), "cosine@0.95")
    assert clusters.n_clusters == 51
    assert len(clusters.edges) == 1999
    equal = EvidenceGraph.build(market(np.r_[rows[:50], np.ones((5000, 32))]), "cosine@0.95")
    assert len(equal.edges) == 4999


def test_memory_does_not_grow_with_the_pairs_of_near_copies():
    """4.5 million pairs, of which 24 bytes each would be 108 MB, and twice the rows have four times as many."""
    rng, peak = np.random.default_rng(0), []
    for n in (1500, 3000):
        rows = directions(np.ones(16) + 1e-6 * rng.normal(size=(n, 16)))
        tracemalloc.start()
        found = similar_pairs(rows, 0.95)
        peak.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert (found.seen, len(found)) == (n * (n - 1) // 2, n - 1)
    assert peak[1] < 2.5 * peak[0]


def test_rows_are_read_a_block_at_a_time_in_whatever_kind_of_number():
    rows = drawn("groups", 300).astype(np.float16)
    narrow = similar_pairs(DistinctRows(LowPrecisionRows([rows[:100], rows[100:]])), 0.9)
    plain = similar_pairs(DistinctRows(rows.astype(np.float64)), 0.9)
    assert narrow.seen > 0
    assert narrow.left.tolist() == plain.left.tolist()
    assert narrow.cosine.tolist() == plain.cosine.tolist()


def test_different_directions():
    rows = np.array([[1.0, 0.0], [0.0, 0.0], [2.0, 0.0], [0.0, 1.0], [-0.0, 3.0], [1e-200, 0.0]])
    found = DistinctRows(rows)
    assert found[:].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert found[1:].tolist() == [[0.0, 1.0]]
    assert found[np.array([1, 0, 1])].tolist() == [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]


class Told:
    """What is said, and counted, of a search."""

    def __init__(self):
        self.stages, self.counts = [], []

    def stage(self, what, unit=""):
        self.stages.append((what, unit))

    def count(self, done, total):
        self.counts.append((done, total))


@pytest.mark.parametrize(("n", "is_told"), [(searched._REPORTED, True), (searched._REPORTED - 1, False)])
def test_from_ten_thousand_rows_on_it_says_how_it_searches(n, is_told):
    assert searched._REPORTED == 10_000  # docs/scale.md says so
    rng = np.random.default_rng(0)
    rows = directions(rng.normal(size=(n, 24)) * np.r_[np.full(6, 8.0), np.ones(18)])
    told = Told()
    with computing(Compute(progress=told)):
        found = similar_pairs(rows, 0.9999)
        width = searched.prefix_of(rows, 0.9999, compute().bytes // 4).width
    assert found.seen == len(found)
    assert told.counts[-1][0] == told.counts[-1][1]
    words = f"comparing {n:,} units, exactly, by prefixes of {width}"
    assert told.stages == ([(words, "blocks")] if is_told else [])


def test_where_prefixes_would_not_pay_it_says_so(monkeypatch):
    monkeypatch.setattr(searched, "_REPORTED", 50)
    told = Told()
    with computing(Compute(progress=told)):
        similar_pairs(drawn("even", 60), 0.5)
    assert told.stages == [("comparing 60 units, exactly, by whole products", "blocks")]


@pytest.mark.parametrize(("memory", "rows", "bands"), [(4.0, 300, 2), (0.0001, 64, 2), (1e-9, 64, 2)])
def test_blocks_and_pairs_on_their_way_follow_the_memory(memory, rows, bands, monkeypatch):
    """Bands of fewer rows where there is less, never fewer than 64, and as many at a time as there are cores."""
    monkeypatch.setattr(searched, "available_cores", lambda: 2)
    asked = []

    def watched(work, blocks, cells):
        asked.append([stop - start for start, stop in blocks])
        return map(work, blocks)

    monkeypatch.setattr(searched, "over_blocks", watched)
    with computing(Compute(memory=memory)):
        similar_pairs(drawn("even", 300), 0.9)
    assert max(map(max, asked)) == rows
    assert sum(map(sum, asked)) == 300
    assert max(map(len, asked)) <= bands
