"""What each stage owes the next: weights to the learner, the truth to nobody, errors to the payments."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from datamarket_gym.data import Submission
from datamarket_gym.data.content_keys import unit_keys
from datamarket_gym.evidence import Clusters
from datamarket_gym.evidence.graph import Edges, EvidenceGraph, clusters_by
from datamarket_gym.mechanism import (
    Payments,
    allocate,
    get_mechanism,
    match_units,
    represent_clusters,
    resolve_threshold,
    score_clusters,
)
from datamarket_gym.mechanism.allocation import Allocation, Amounts, EqualSubmitted
from datamarket_gym.mechanism.pipeline import Pipeline
from datamarket_gym.registry import _components, create
from datamarket_gym.utilities.oracle import Utility, UtilityOracle


def crowd():
    """Nine units of one identity say 1 at a place where two others, one unit each, say 0."""
    names = ["many"] * 9 + ["one", "other"] + ["far"] * 2
    features = np.array([[1.0, 0.0]] * 11 + [[-1.0, 0.0]] * 2)
    return Submission(
        id=[f"u{i}" for i in range(13)],
        identity=names,
        features=features,
        label=[1] * 9 + [0, 0] + [1, 1],
    )


@pytest.mark.parametrize("learner", ["knn@11", "ridge"])
def test_row_weights_reach_the_learner(learner):
    # Counted by units the nine win; where every identity weighs the same, two stand against one.
    oracle = UtilityOracle(np.array([[1.0, 0.0]]), np.array([0]), Utility(learner))
    found = {
        r: get_mechanism("shapley", representative=r).pay(crowd(), oracle)
        for r in ("identity", "weight_normalized@20")
    }
    assert found["identity"].grand_value < 0.5 < found["weight_normalized@20"].grand_value
    assert found["weight_normalized@20"].as_dict()["one"] > found["identity"].as_dict()["one"]


def test_a_centroid_is_the_mean_of_its_label_and_has_that_label():
    features = np.array([[0.0, 0.0], [2.0, 0.0], [10.0, 4.0], [12.0, 4.0], [14.0, 4.0], [30.0, 0.0]])
    submission = Submission(
        id=list("abcdef"),
        identity=list("xxxyyy"),
        features=features,
        label=["cat", "cat", "dog", "dog", "dog", "ant"],
    )
    clusters = Clusters(np.zeros(6, dtype=np.int64), Edges.none(), "unit")
    most = create("representative", "capped(kappa=1, pick=centroid)").canonical(submission, clusters)
    assert most.label.tolist() == ["dog"]
    assert most.features.tolist() == [[12.0, 4.0]]
    both = create("representative", "capped(kappa=2, pick=centroid)").canonical(submission, clusters)
    found = dict(zip(both.label.tolist(), both.features.tolist(), strict=True))
    assert found == {"dog": [12.0, 4.0], "cat": [1.0, 0.0]}
    assert both.keys.tolist() == unit_keys(both.features, both.label).tolist()


@pytest.fixture
def looked():
    """An allocation that declares no oracle, and one that does; both note what they are shown."""
    seen = []

    @dataclass(frozen=True)
    class Looking(Allocation):
        def shares(self, provenance):
            seen.append(provenance.truth)
            return EqualSubmitted().shares(provenance)

    @dataclass(frozen=True)
    class Declared(Looking):
        needs_oracle: ClassVar[bool] = True

    create("allocation", "equal_submitted")  # the built-in ones are registered first
    _components["allocation"] |= {"looking": Looking, "declared": Declared}
    yield seen
    del _components["allocation"]["looking"], _components["allocation"]["declared"]


def test_the_truth_reaches_only_an_allocation_that_declares_it(market, looked):
    oracle, truth = market.utility_oracle(Utility("knn")), market.honest.truth
    get_mechanism("shapley", allocation="looking").pay(market.honest.submission, oracle, truth)
    assert looked == [None]
    get_mechanism("shapley", allocation="declared").pay(market.honest.submission, oracle, truth)
    assert looked == [None, truth]


def test_standard_errors_are_scaled_with_the_scores(market):
    oracle = market.utility_oracle(Utility("ridge"))
    m = get_mechanism("banzhaf", estimator="subset", samples=8)
    raw = m.pay(market.honest.submission, oracle)
    scaled = m.model_copy(update={"normalize": True}).pay(market.honest.submission, oracle)
    factor = raw.grand_value / raw.scores.values.sum()
    assert factor != pytest.approx(1.0)
    assert scaled.scores.raw_total == raw.scores.values.sum()
    assert raw.scores.raw_total is None
    assert (raw.scores.standard_errors > 0).all()
    assert scaled.scores.standard_errors == pytest.approx(raw.scores.standard_errors * abs(factor))


def test_an_identitys_error_adds_parts_of_one_cluster_and_squares_over_clusters(market):
    paid = get_mechanism("shapley").pay(market.honest.submission, market.utility_oracle(Utility("knn")))
    errors = np.array([3.0, 1.0, 0.0, 0.0])
    shares = Amounts(
        np.array([0, 0, 0, 1, 1, 2, 3]), np.array([0, 0, 1, 0, 2, 3, 3]),
        np.array([0.25, 0.25, 0.5, 0.4, 0.6, 1.0, 1.0]), np.zeros(7),
    )  # fmt: skip
    scores = type(paid.scores)(
        np.zeros(4), errors, 0, "made up", number=np.arange(4), grand_value=0.0,
        by_group=np.empty((0, 4)), group_size=np.empty(0, dtype=int),
    )  # fmt: skip
    made = Payments(paid.identities, paid.clustering, paid.canonical, scores, shares)
    # identity 0: half of cluster 0 in two parts, and 0.4 of cluster 1
    assert made.standard_errors == pytest.approx([np.hypot(1.5, 0.4), 1.5, 0.6, 0.0])


def test_pay_is_its_four_stages_and_other_clusters_replace_the_first(market):
    profile = create("attack", "near_duplicate_2x_sybils").apply(0, market.state)
    submission, oracle = profile.submission, market.utility_oracle(Utility("knn", "chance"))
    m = get_mechanism("recommended")
    paid = m.pay(submission, oracle)
    settled, threshold = resolve_threshold(m, submission, oracle)
    assert threshold == paid.threshold
    clusters = match_units(settled, submission)
    canonical = represent_clusters(clusters, m.representative)
    scores = score_clusters(canonical, oracle, m.semivalue, m.estimator)
    shares = allocate(clusters, canonical, scores, m.allocation)
    assert (shares.amount == paid.amount).all()
    assert (shares.identity == paid.shares.identity).all()
    untied = match_units(m.model_copy(update={"evidence": "none"}), submission)
    given = Pipeline(m, oracle).value(untied)
    assert given.as_dict() == m.model_copy(update={"evidence": "none"}).pay(submission, oracle).as_dict()
    assert given.as_dict() != paid.as_dict()


def test_matches_of_the_operator_hold_besides_those_that_are_found(submission):
    seen = Edges.of(np.array([5, 3]), np.array([1, 3 - 2]), "seen", np.array([0.5, 1.0]))
    edges = Edges.concat([EvidenceGraph.build(submission, "exact_hash").edges, seen]).once()
    found = clusters_by(submission, edges, "unit")
    assert found.label.tolist() == [0, 1, 0, 1, 0, 1]
    pairs = list(
        zip(
            found.edges.left.tolist(),
            found.edges.right.tolist(),
            found.edges.reason.tolist(),
            strict=True,
        )
    )
    assert pairs == [(0, 2, "exact_hash"), (0, 4, "exact_hash"), (1, 3, "seen"), (1, 5, "seen")]


def test_ties_are_listed_once_with_their_best_score():
    edges = Edges.concat([
        Edges.of(np.array([4, 1, 2]), np.array([2, 0, 4]), "b", np.array([0.5, 0.7, 0.9])),
        Edges.of(np.array([2]), np.array([4]), "a", 0.1),
    ])  # fmt: skip
    found = edges.once()
    assert found.left.tolist() == [0, 2, 2]
    assert found.right.tolist() == [1, 4, 4]
    assert found.reason.tolist() == ["b", "a", "b"]
    assert found.score.tolist() == [0.7, 0.1, 0.9]


def test_scores_are_numbered_by_content_and_shares_listed_by_it(market):
    m, oracle = get_mechanism("recommended"), market.utility_oracle(Utility("knn", "chance"))
    submission = market.honest.submission
    order = np.random.default_rng(0).permutation(len(submission))
    one, two = m.pay(submission, oracle), m.pay(submission.take(order), oracle)
    shuffled = submission.take(order)
    found = [
        dict(zip(s.keys.tolist(), p.scores.number[p.clustering.label].tolist(), strict=True))
        for s, p in ((submission, one), (shuffled, two))
    ]
    assert found[0] == found[1]
    assert (np.diff(one.scores.number[one.shares.cluster]) >= 0).all()
    assert one.amount.tolist() == two.amount.tolist()
    assert one.shares.identity.tolist() == two.shares.identity.tolist()
