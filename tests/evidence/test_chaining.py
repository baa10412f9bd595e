import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.data import Submission
from datamarket_gym.evidence import EvidenceGraph
from datamarket_gym.evidence import spanning_forest as searched
from datamarket_gym.evidence.chaining import _cover, _Tree, find_chains
from datamarket_gym.evidence.graph import Clusters, Edges, clusters_by


def market(rows):
    n = len(rows)
    return Submission(
        id=np.array([f"u{i}" for i in range(n)]), identity=(np.arange(n) % 7).astype(str), features=rows,
        label=np.zeros(n, dtype=np.int64),
    )  # fmt: skip


def blobs(bridges, spread=0.03, each=50, seed=0):
    """Two groups around two directions at a cosine of 0.6, and units half way between them, which come last."""
    rng = np.random.default_rng(seed)
    d = 20
    one, other = np.eye(d)[0], 0.6 * np.eye(d)[0] + 0.8 * np.eye(d)[1]
    rows = [one + spread * rng.normal(size=(each, d)), other + spread * rng.normal(size=(each, d))]
    rows.append((one + other) / 2 + 0.01 * rng.normal(size=(bridges, d)))
    return np.concatenate(rows)


def chains(rows, evidence="cosine@0.85"):
    clusters = EvidenceGraph.build(market(rows), evidence)
    return clusters, find_chains(clusters)


def test_a_unit_between_two_groups_is_named():
    apart, thick = chains(blobs(0))
    assert apart.n_clusters == 2
    assert min(chain.held_by for chain in thick) >= 10
    clusters, found = chains(blobs(1))
    assert clusters.n_clusters == 1
    assert (found[0].through, found[0].held_by, found[0].units) == ((100,), 1, 101)
    assert found[0].thin
    assert found[0].crossing > 3  # it matches many on either side, and alone holds them together
    assert {found[0].smaller} <= {50, 51}
    assert not any(chain.thin for chain in found[1:])


def test_as_many_units_between_as_there_are_are_counted():
    for bridges in (2, 3, 6):
        found = chains(blobs(bridges))[1]
        assert found[0].held_by == bridges
        assert found[0].thin == (bridges <= 3)
        between = tuple(range(100, 100 + bridges))
        assert tuple(sorted(found[0].through)) == (between if bridges <= 3 else ())


def test_a_single_tie_between_two_groups_is_named():
    clusters = EvidenceGraph.build(market(blobs(0)), "cosine@0.85")
    more = Edges.concat([clusters.edges, Edges.of(np.array([3]), np.array([77]), "cosine", 0.86)])
    found = find_chains(clusters_by(clusters.submission, more, "unit"))
    assert (found[0].left, found[0].right, found[0].crossing, found[0].held_by) == (3, 77, 1, 1)
    assert (found[0].smaller, found[0].score) == (50, 0.86)


@pytest.mark.parametrize("rows", [blobs(0, 0.001)[:50], blobs(0, each=100)[:100]])
def test_one_dense_group_is_not_named(rows):
    clusters, found = chains(rows)
    assert clusters.n_clusters == 1
    assert not any(chain.thin for chain in found)


def test_copies_of_two_alike_units_are_no_parts():
    pair = np.array([[1.0, 0.0], [0.95, np.sqrt(1 - 0.95**2)]])
    clusters, found = chains(np.repeat(pair, 40, axis=0), "cosine@0.9")
    assert clusters.n_clusters == 1
    assert not found


def test_small_parts_and_clusters_of_identities_are_none():
    assert not chains(blobs(1, each=9))[1]
    clusters = EvidenceGraph.build(market(blobs(1)), "cosine@0.85", granularity="identity")
    assert not find_chains(clusters)


def test_where_a_forest_is_kept_cuts_are_named_and_not_counted(monkeypatch):
    monkeypatch.setattr(searched, "MOST_PAIRS", 100)
    clusters = EvidenceGraph.build(market(blobs(1)), "cosine@0.85")
    found = find_chains(clusters)
    assert found
    assert 100 in {found[0].left, found[0].right}
    assert (found[0].crossing, found[0].held_by, found[0].thin) == (None, None, False)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.integers(1, 40))
def test_ties_across_are_those_that_cross(seed, n, m):
    rng = np.random.default_rng(seed)
    code = np.unique(rng.integers(n, size=(m, 2)) @ np.array([n, 1]))
    left, right = code // n, code % n
    left, right = left[left != right], right[left != right]
    if not len(left):
        return
    edges = Edges.of(left, right, "x", rng.integers(4, size=len(left)) / 4)
    tree = _Tree(edges, np.arange(n), np.ones(n))
    below = {i: {i} for i in range(len(tree.node))}
    for i in tree.order[::-1].tolist():
        if tree.up[i] != i:
            below[int(tree.up[i])] |= below[i]
    for i in range(len(tree.node)):
        assert tree.below[i] == len(below[i])
        if tree.edge[i] < 0:
            assert tree.up[i] == i
            continue
        inside = (
            [a in below[i] for a in tree.left.tolist()],
            [b in below[i] for b in tree.right.tolist()],
        )
        crossing = np.flatnonzero(np.array(inside[0]) != np.array(inside[1]))
        assert tree.edge[i] in crossing
        assert sorted(tree.hanging(i).tolist()) == sorted(below[i])
        found = _cover(edges, np.isin(np.arange(n), tree.node[tree.hanging(i)]), np.arange(n))
        ends = np.stack([edges.left, edges.right])[:, crossing].T
        assert np.isin(ends, found).any(axis=1).all()
        assert len(found) == smallest(ends)


def smallest(ends):
    """By trying: the size of the smallest set in which every pair has an end."""
    names = np.unique(ends).tolist()
    for size in range(1, len(names)):
        for some in itertools.combinations(names, size):
            if np.isin(ends, some).any(axis=1).all():
                return size
    raise AssertionError


def test_clusters_without_ties_have_no_chains():
    label = np.arange(3)
    assert find_chains(Clusters(label, Edges.none(), "unit")) == []
