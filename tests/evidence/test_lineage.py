"""Lineage: one earlier parent each, the root owns, and what comes later changes nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym import EvidenceGraph, ProviderMarket, Submission, get_mechanism
from datamarket_gym.data.content_keys import unit_keys
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.evidence import seniority_ranks
from datamarket_gym.evidence import similarity_search as decided
from datamarket_gym.evidence import similarity_search as module
from datamarket_gym.evidence import similarity_search as nearest
from datamarket_gym.evidence.graph import LAYERS, tie_break_key
from datamarket_gym.evidence.similarity_bounds import Plan
from datamarket_gym.evidence.similarity_search import nearest_acquired, nearest_earlier
from datamarket_gym.execution.arrays import directions
from datamarket_gym.mechanism.representatives import Capped


def cloud(n, seed, *, spread=0.4, dims=6, ties=True, name="u"):
    """Units around a few centres, some exactly copied, some of equal time."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(4, dims))
    features = centres[rng.integers(4, size=n)] + spread * rng.normal(size=(n, dims))
    copied = rng.integers(n, size=n // 5)
    features[rng.permutation(n)[: len(copied)]] = features[copied]
    time = rng.integers(0, n // 2, size=n).astype(float) if ties else rng.permutation(n).astype(float)
    return Submission(
        id=np.array([f"{name}{i}" for i in range(n)]),
        identity=np.array([f"p{i}" for i in rng.integers(5, size=n)]),
        features=features,
        label=rng.integers(2, size=n),
        time=time,
    )


def parents_by_hand(submission, theta, lot):
    """The definition, unit by unit."""
    rank = seniority_ranks(submission, lot)
    unit = submission.vectors / np.linalg.norm(submission.vectors, axis=1, keepdims=True)
    payload = np.round(submission.features, 8).tolist()
    found = {}
    order = np.argsort(rank, kind="stable").tolist()
    for place, u in enumerate(order):
        earlier = order[:place]
        same = [e for e in earlier if payload[e] == payload[u]]
        if same:
            found[u] = same[0]
            continue
        cosines = [
            1.0 if (unit[u] == unit[e]).all() else min(float(np.einsum("j,j->", unit[u], unit[e])), 1.0)
            for e in earlier
        ]
        if cosines and max(cosines) >= theta:
            found[u] = earlier[int(np.argmax(cosines))]
    return found


def tied(submission, evidence, lot=""):
    """Pairs (child, parent) of a lineage."""
    clusters = EvidenceGraph.build(submission, evidence, tie_breaker=lot)
    rank, edges = seniority_ranks(submission, lot), clusters.edges
    later = np.where(rank[edges.left] > rank[edges.right], edges.left, edges.right)
    return clusters, dict(zip(later.tolist(), (edges.left + edges.right - later).tolist(), strict=True))


def owners(submission, clusters):
    """The canonical unit of each unit's tree, by id."""
    canonical = Capped().canonical(submission, clusters)
    root = np.empty(clusters.n_clusters, dtype=object)
    root[canonical.cluster] = submission.id[canonical.unit]
    return dict(zip(submission.id.tolist(), root[clusters.label].tolist(), strict=True))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), theta=st.sampled_from([0.3, 0.7, 0.9, 0.99, 1.0]))
def test_parents_are_those_of_the_definition(seed, theta):
    submission = cloud(60, seed, ties=False)
    _, found = tied(submission, f"lineage@{theta}")
    assert found == parents_by_hand(submission, theta, "")


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    theta=st.sampled_from([0.0, 0.5, 0.8, 0.95]),
    future=st.integers(1, 120),
    block=st.sampled_from([7, 64, 2048]),
)
def test_the_past_is_immune(seed, theta, future, block):
    """Who owns the units up to t is a function of the units up to t, whatever comes later: ==."""
    past = cloud(60, seed)
    rng = np.random.default_rng(seed + 1)
    # A hostile future: bridges between random pairs of past units, and copies of them under noise.
    a, b = past.features[rng.integers(60, size=(2, future))]
    weight = rng.uniform(size=(future, 1))
    later = Submission(
        id=np.array([f"later{i}" for i in range(future)]),
        identity=np.full(future, "attacker"),
        features=weight * a + (1 - weight) * b + rng.choice([0.0, 0.05]) * rng.normal(size=a.shape),
        label=rng.integers(2, size=future),
        time=past.times.max() + 1 + rng.integers(0, 3, size=future),
    )
    everything = Submission.concat([past, later])
    evidence = f"lineage@{theta}"
    before = owners(past, EvidenceGraph.build(past, evidence, tie_breaker="x"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            nearest.Plan, "of", lambda wanted, *_: Plan(block, 2 * block, 1, -(-wanted // block), ())
        )
        after = owners(everything, EvidenceGraph.build(everything, evidence, tie_breaker="x"))
    assert {unit: after[unit] for unit in before} == before


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("times", ["given", "equal"])
def test_nobody_who_comes_later_is_paid_for_the_past(seed, times):
    """The theorem through `Mechanism.pay`: of each past unit the same identities own the same shares, ==."""
    market = ProviderMarket.from_task(
        "synthetic(n_providers=4, per_provider=30)",
        seed=seed,
        learner="knn",
        utility="chance",
        times=times,
    )
    past, oracle = market.honest.submission, market.utility_oracle()
    m = get_mechanism("recommended/lineage@0.85", beacon="a round")
    rng = np.random.default_rng(seed)
    a, b = past.features[rng.integers(len(past), size=(2, 90))]
    weight = rng.choice([0.3, 0.5, 1.0], size=(90, 1))  # bridges, and exact copies
    later = past.take(
        rng.integers(len(past), size=90),
        {"id": np.array([f"later{i}" for i in range(90)]), "features": weight * a + (1 - weight) * b,
         "identity": rng.choice(["attacker", "provider_0"], size=90),
         "time": past.times.max() + 1 + rng.integers(0, 3, size=90)},
    )  # fmt: skip
    everything = Submission.concat([past, later])

    def shares(some):
        paid = m.pay(some, oracle)
        owners = {cluster: set() for cluster in range(paid.clustering.n_clusters)}
        for cluster, who, share in zip(
            paid.shares.cluster.tolist(),
            paid.shares.identity.tolist(),
            paid.shares.share.tolist(),
            strict=True,
        ):
            owners[cluster] |= {(some.identities[who], share)} if share else set()
        return {
            unit: owners[c]
            for unit, c in zip(some.id.tolist(), paid.clustering.label.tolist(), strict=True)
        }

    before, after = shares(past), shares(everything)
    assert {unit: after[unit] for unit in before} == before
    assert any(
        after[unit] == after[old] for unit in later.id.tolist() for old in before
    )  # some were tied


def test_components_are_not_immune_to_a_bridge():
    """The hole that lineage closes: one later unit between two makes the earlier own both."""
    angles = np.array([0.0, 0.5, 0.25])  # cos .5 = .88, cos .25 = .97
    submission = Submission(
        id=np.array(["first", "victim", "bridge"]),
        identity=np.array(["a", "b", "attacker"]),
        features=np.stack([np.cos(angles), np.sin(angles)], axis=1),
        label=np.array([0, 1, 0]),
        time=np.array([0.0, 1.0, 2.0]),
    )
    by_components = owners(submission, EvidenceGraph.build(submission, "hybrid_hash_cosine@0.95"))
    by_lineage = owners(submission, EvidenceGraph.build(submission, "lineage@0.95"))
    assert by_components == dict.fromkeys(by_components, "first")
    assert by_lineage["victim"] == "victim"
    assert by_lineage["bridge"] in ("first", "victim")


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_names_and_row_order_decide_nothing(seed):
    submission = cloud(50, seed)
    order = np.random.default_rng(seed).permutation(50)
    shuffled = submission.take(order, {"identity": submission.identity[order][::-1].copy()})

    def canonical_content(some):
        clusters = EvidenceGraph.build(some, "lineage@0.9", tie_breaker="7|b")
        kept = Capped().canonical(some, clusters)
        return sorted(zip(kept.keys.tolist(), some.times[kept.unit].tolist(), strict=True))

    assert canonical_content(submission) == canonical_content(shuffled)


def test_twins_share_and_their_embeddings_do_not_let_row_order_decide():
    base = cloud(6, 3, ties=False)
    twins = base.take(
        np.array([0, 1, 2, 2]),
        {"id": np.array(["a", "b", "x", "y"]), "identity": np.array(["a", "b", "x", "y"]),
         "time": np.array([0.0, 1.0, 2.0, 2.0]),
         "embedding": np.array([[1.0, 0], [0, 1.0], [1, 0.01], [0.01, 1]])},
    )  # fmt: skip
    for order in ([0, 1, 2, 3], [3, 2, 1, 0]):
        some = twins.take(np.array(order))
        clusters = EvidenceGraph.build(some, "lineage@0.9", tie_breaker="z")
        where = dict(zip(some.id.tolist(), clusters.label.tolist(), strict=True))
        assert where["x"] == where["y"]
        assert clusters.n_clusters == 2
    rank = seniority_ranks(twins, "z")
    assert rank[2] == rank[3]


def test_equal_times_are_settled_by_lot_not_by_hash():
    n = 400
    rng = np.random.default_rng(0)
    submission = Submission(
        id=np.arange(n).astype(str), identity=np.full(n, "p"), features=rng.normal(size=(n, 3)),
        label=np.arange(n) % 2,
    )  # fmt: skip
    by_hash = np.argsort(np.argsort(submission.keys))
    orders = [seniority_ranks(submission, lot) for lot in ("0|one", "0|two", "1|one")]
    for ranks in orders:
        assert sorted(ranks.tolist()) == list(range(n))
        assert abs(np.corrcoef(ranks, by_hash)[0, 1]) < 0.2  # what an attacker can grind says nothing
    assert abs(np.corrcoef(orders[0], orders[1])[0, 1]) < 0.2
    assert (
        tie_break_key(b"key", "beacon")
        == tie_break_key(b"key", "beacon")
        != tie_break_key(b"key", "Beacon")
    )


def test_grinding_hashes_wins_half_of_the_lots():
    market = ProviderMarket.from_task(
        "synthetic(n_providers=4, per_provider=30)", learner="knn", utility="chance"
    )
    honest = market.honest.submission
    others = np.flatnonzero(honest.identity != "provider_0")
    rng, copies = np.random.default_rng(0), []
    for row in others:
        tries = honest.features[row] + 1e-6 * rng.normal(size=(20, honest.features.shape[1]))
        copies.append(tries[np.argmin(unit_keys(tries, np.repeat(honest.label[row], 20)))])
    stolen = honest.take(
        others,
        {"id": np.array([f"copy{i}" for i in others]), "identity": np.full(len(others), "provider_0"),
         "features": np.array(copies)},
    )  # fmt: skip
    undated = Submission.concat([honest, stolen])
    undated = undated.take(np.arange(len(undated)), {"time": np.zeros(len(undated))})
    paid = get_mechanism("recommended", evidence="lineage@0.999").pay(undated, market.utility_oracle())
    canonical = paid.canonical
    attacker = undated.identity[canonical.claim_unit] == "provider_0"
    copied = np.isin(canonical.claim_unit, np.arange(len(honest), len(undated)))
    won = copied.sum() / len(others)
    assert attacker.sum() < len(undated) / 2 + 30
    assert 0.3 < won < 0.7  # by the smallest hash it was more than nine in ten


def test_sources_count_only_if_earlier():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(6, 8))
    submission = Submission(
        id=np.array(["old", "other", "derived", "self", "late", "last"]),
        identity=np.array(["a", "b", "c", "d", "e", "f"]),
        features=features,
        label=np.array([0, 1, 0, 1, 0, 1]),
        source=np.array(["late", "other", "old", "self", "nowhere", "zzz"]),
        time=np.arange(6.0),
    )
    without, none = tied(submission, "lineage@0.99")
    clusters, found = tied(submission, "lineage(theta=0.99, sources=true)")
    assert none == {}
    assert without.n_clusters == 6
    assert found == {2: 0}
    assert clusters.edges.reason.tolist() == ["trusted source"]


def test_a_vector_of_zeros_is_similar_to_nothing():
    submission = cloud(12, 5, ties=False)
    features = submission.features.copy()
    features[3] = 0
    some = submission.take(np.arange(12), {"features": features})
    _, found = tied(some, "lineage@-0.5")
    assert 3 not in found
    assert 3 not in found.values()
    parent, cosine = nearest_earlier(np.zeros((3, 2)))
    assert parent.tolist() == [-1, -1, -1]
    assert not np.isfinite(cosine).any()


def test_nearest_earlier_does_not_depend_on_blocks(monkeypatch):
    vectors = cloud(300, 11, dims=20).features
    expected = nearest_earlier(vectors)
    for block in (1, 13, 128):
        monkeypatch.setattr(
            nearest.Plan, "of", lambda wanted, *_, b=block: Plan(b, b, 3, -(-wanted // b), (2, 8))
        )
        parent, cosine = nearest_earlier(vectors)
        assert (parent == expected[0]).all()
        assert (cosine == expected[1]).all()
    cut = nearest_earlier(vectors, least=0.9)
    near = expected[1] >= 0.9
    assert (cut[0] == np.where(near, expected[0], -1)).all()


@pytest.mark.parametrize("noise", [1e-9, 1e-4])  # of the second float32 products put others first
def test_many_near_copies_are_decided_in_parts(monkeypatch, noise):
    monkeypatch.setattr(decided, "_PAIRS", 100)
    rng = np.random.default_rng(2)
    vectors = np.ones(30) + noise * rng.normal(size=(200, 30))
    parent, cosine = nearest_earlier(vectors, least=0.9)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for i in range(1, 200):
        exact = np.minimum(np.einsum("ij,ij->i", np.repeat(unit[i : i + 1], i, axis=0), unit[:i]), 1.0)
        assert parent[i] == exact.argmax()
        assert cosine[i] == exact.max()


def test_thetas_are_checked():
    for bad in ("lineage@2", "lineage@sometimes"):
        with pytest.raises((ParameterError, DataMarketError)):
            EvidenceGraph.build(cloud(10, 0), bad)
    with pytest.raises(ParameterError, match="validation rows"):
        EvidenceGraph.build(cloud(10, 0), "lineage@auto")
    clusters = EvidenceGraph.build(cloud(40, 0), "lineage@none")
    assert set(clusters.edges.reason.tolist()) == {"exact_hash"}


@pytest.mark.parametrize("evidence", ["lineage@none", "lineage@0.9"])
@pytest.mark.parametrize(
    "features", [[[3.0, 1.0], [1.0, -2.0], [3.0, 1.0]], [[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]]
)
def test_a_copy_is_a_copy_whatever_number_it_is_given(evidence, features):
    label = np.array([5.0, 2.0, 5.0 + 1e-6])
    units = Submission(
        id=list("abc"), identity=list("xyz"), features=features, label=label, time=[0.0, 1.0, 2.0]
    )
    assert tied(units, evidence)[1] == {2: 0}
    old, new = units.take(np.arange(2)), units.take(np.array([2]))
    edges = LAYERS.create(evidence).edges_to(old, new)
    assert (edges.left.tolist(), edges.right.tolist()) == ([0], [2])


def test_no_row_is_longer_than_one_however_small_its_numbers():
    """Squares of numbers below 1e-162 are lost, one by one: the rest of such a row would be like everything."""
    rng = np.random.default_rng(5)
    rows = np.abs(rng.normal(size=(6, 40)))
    small = rows * (1.55e-162 / np.sort(rows, axis=1)[:, -2:-1])  # only the largest square would be left
    for vectors in (small, small * 1e-100, small * 1e20, np.nextafter(0.0, 1.0) * np.ones((2, 3))):
        assert np.linalg.norm(directions(vectors), axis=1) == pytest.approx(1.0)
    assert directions(small) == pytest.approx(directions(rows))
    near, cosine = nearest_earlier(np.concatenate([rows, small]))
    assert near[6:].tolist() == list(range(6))
    assert cosine[6:] == pytest.approx(1.0)
    assert not directions(np.zeros((2, 3))).any()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    settled=st.integers(1, 89),
    least=st.sampled_from([-1.0, 0.5, 0.9, 1.0]),
    block=st.sampled_from([1, 7, 2048]),
    cores=st.sampled_from([1, 2, 16]),
)
def test_the_nearest_acquired_row_is_that_of_every_pair(seed, settled, least, block, cores):
    vectors = cloud(90, seed).features
    vectors[seed % 90] = 0
    vectors[-1] = vectors[0]
    vectors[-2] = 2 * vectors[-3]  # of one direction, and both may be new
    unit = directions(vectors)
    pairs = np.minimum(np.einsum("id,jd->ij", unit[settled:], unit[:settled]), 1.0)
    pairs[:, ~unit[:settled].any(axis=1)] = -np.inf
    pairs[~unit[settled:].any(axis=1)] = -np.inf
    before = module._OLD, module.available_cores
    module._OLD, module.available_cores = block, lambda: cores
    try:
        near, score = nearest_acquired(vectors[:settled], vectors[settled:], least)
    finally:
        module._OLD, module.available_cores = before
    best = pairs.max(axis=1)
    sure = (
        np.abs(best - least) > 1e-12
    )  # products of matrices may differ from products of rows in the last bit
    assert ((near >= 0) == (best >= least))[sure].all()
    has = np.flatnonzero(near >= 0)
    assert score[has] == pytest.approx(best[has], abs=1e-14)
    assert pairs[has, near[has]] == pytest.approx(best[has], abs=1e-14)
    assert near[-1] == 0 or least > 1.0 or not unit[-1].any()
    assert settled > 86 or (near[-2], score[-2]) == (near[-3], score[-3])


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    settled=st.integers(1, 79),
    evidence=st.sampled_from(["lineage@0.8", "lineage(theta=0.9, sources=true)", "lineage@none"]),
)
def test_ties_to_settled_units_depend_on_the_unit_and_on_them_alone(seed, settled, evidence):
    some = cloud(80, seed)
    both = EvidenceGraph.build(some, evidence, tie_breaker="x", n_acquired=settled).edges
    assert (both.left < settled).all()
    assert (both.right >= settled).all()
    assert len(np.unique(both.right)) == len(both)
    for unit in range(settled, 80, 7):
        alone = some.take(np.r_[np.arange(settled), unit])
        one = EvidenceGraph.build(alone, evidence, tie_breaker="x", n_acquired=settled).edges
        mine = both.where(both.right == unit)
        for name in ("left", "score", "reason"):
            assert getattr(one, name).tolist() == getattr(mine, name).tolist()


@pytest.mark.parametrize("evidence", ["cosine@0.9", "exact_hash", "pool"])
def test_ties_among_old_units_are_left_out_whatever_finds_them(evidence):
    some = cloud(60, 8)
    full = EvidenceGraph.build(some, evidence).edges
    part = EvidenceGraph.build(some, evidence, n_acquired=30).edges
    assert 0 < len(part) < len(full)
    assert part.right.min() >= 30
    assert part.left.max() < 30
    with pytest.raises(ParameterError, match="n_acquired"):
        EvidenceGraph.build(some, evidence, n_acquired=60)
