import numpy as np
import pytest

from datamarket_gym.errors import ParameterError
from datamarket_gym.evidence import EvidenceGraph
from datamarket_gym.games import estimate
from datamarket_gym.mechanism import QuotientGame, canonical_training_set
from datamarket_gym.registry import create
from datamarket_gym.utilities.oracle import Utility, UtilityOracle


def canonical(submission, representative, evidence="exact_hash", granularity="unit"):
    clusters = EvidenceGraph.build(submission, evidence, granularity=granularity)
    return create("representative", representative).canonical(submission, clusters)


def owners(submission, kept):
    return [
        {
            submission.id[u]: s
            for r, u, s in zip(kept.claim_row, kept.claim_unit, kept.claim_share, strict=True)
            if r == row
        }
        for row in range(len(kept.label))
    ]


def test_identity_keeps_copies_and_collapse_does_not(submission):
    assert len(canonical(submission, "identity").label) == 6
    kept = canonical(submission, "collapse")
    assert submission.id[kept.unit].tolist() == ["u", "v", "x", "z"]
    assert owners(submission, kept)[0] == {"u": 1.0}


def test_units_alike_in_time_and_content_share_the_claim(submission):
    same = submission.take(np.arange(6), {"time": np.array([1.0, 0, 1.0, 1, 2, 2])})
    kept = canonical(same, "collapse")
    shared = next(claims for claims in owners(same, kept) if len(claims) > 1)
    assert shared == {"u": 0.5, "w": 0.5}


def test_capped_keeps_the_earliest_medoids_or_centroids(submission):
    whole = {"evidence": "pool"}
    first = canonical(submission, "capped@2", **whole)
    assert set(submission.id[first.unit]) == {"u", "v"}
    assert len(canonical(submission, "capped@99", **whole).label) == 6
    medoid = canonical(submission, "capped(kappa=1, pick=medoid)", **whole)
    distance = ((submission.features - submission.features.mean(axis=0)) ** 2).sum(axis=1)
    assert distance[medoid.unit[0]] == distance.min()
    centroids = canonical(submission, "capped(kappa=2, pick=centroid)", **whole)
    assert centroids.label.tolist() == [0, 1]
    assert np.allclose(centroids.features, [[1.0, 0.0], [1 / 3, 5 / 3]])
    assert (centroids.unit == -1).all()


def test_weight_normalized_gives_each_cluster_the_same_mass(submission):
    kept = canonical(submission, "weight_normalized@2.0")
    assert np.allclose(np.bincount(kept.cluster, weights=kept.weight), 2.0)


def test_provenance_keeps_the_declared_origin(submission):
    named = submission.take(np.arange(6), {"source": np.array(["w", "v", "w", "x", "w", "z"])})
    kept = canonical(named, "provenance")
    assert sorted(named.id[kept.unit]) == ["v", "w", "x", "z"]


def test_weights_reach_the_learner(submission):
    oracle = UtilityOracle(np.array([[1.0, 0.1], [0.4, 1.0]]), np.array([0, 1]), Utility("knn(k=3)"))
    games = [
        QuotientGame(canonical(submission, r, "pool"), oracle) for r in ("identity", "weight_normalized")
    ]
    assert games[0].keys[0] != games[1].keys[0]  # another training set, so another place in the cache
    assert games[0]._scorer is not games[1]._scorer


def test_bad_parameters():
    for text in ("capped@0", "capped(pick=last)", "weight_normalized@0"):
        with pytest.raises(ParameterError):
            create("representative", text)


def test_canonical_training_set_is_the_grand_coalition(submission):
    kept = canonical(submission, "collapse")
    features, label, weight = canonical_training_set(kept)
    assert features.shape == (4, 2)
    assert label.shape == weight.shape == (4,)
    assert (weight == 1).all()


def test_memo_is_shared_by_mechanisms_and_profiles(market):
    oracle = market.utility_oracle(Utility("knn(k=3, vote=majority)"))
    honest = EvidenceGraph.build(market.honest, "none", granularity="identity")
    identity = create("representative", "identity")
    game = QuotientGame(identity.canonical(market.honest.submission, honest), oracle)
    estimate(game)
    assert game.computed == 15
    again = QuotientGame(identity.canonical(market.honest.submission, honest), oracle)
    estimate(again)
    assert again.computed == 0
    split = create("attack", "sybil_split_k@2").apply(0, market.state)
    parts = EvidenceGraph.build(split, "none", granularity="identity")
    attacked = QuotientGame(identity.canonical(split.submission, parts), oracle)
    estimate(attacked)
    assert attacked.computed == 31 - 15  # coalitions without a lone half are already known
