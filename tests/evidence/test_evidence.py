import numpy as np
import pytest

from datamarket_gym.data import Submission
from datamarket_gym.errors import OracleRequiredError, ParameterError, SubmissionError
from datamarket_gym.evidence import EvidenceGraph, EvidenceLayer
from datamarket_gym.registry import create, written


def clusters(submission, layer, granularity="unit", **more):
    label = EvidenceGraph.build(submission, layer, granularity=granularity, **more).label
    return sorted(sorted(submission.id[label == k].tolist()) for k in np.unique(label))


def test_granularities(submission):
    assert clusters(submission, "none") == [[u] for u in "uvwxyz"]
    assert clusters(submission, "none", "identity") == [["u", "v"], ["w", "x"], ["y", "z"]]
    assert clusters(submission, "exact_hash") == [["u", "w", "y"], ["v"], ["x"], ["z"]]
    assert clusters(submission, "exact_hash", "identity") == [["u", "v", "w", "x", "y", "z"]]
    assert clusters(submission, "pool") == [list("uvwxyz")]


def test_batches_of_different_identities_never_merge_by_name(submission):
    named = submission.take(np.arange(6), {"batch": np.array(["1", "2", "1", "1", "1", "1"])})
    assert clusters(named, "none", "batch") == [["u"], ["v"], ["w", "x"], ["y", "z"]]
    with pytest.raises(SubmissionError, match="needs a column 'batch'"):
        clusters(submission, "none", "batch")


def test_edges_keep_reason_and_score(submission):
    edges = EvidenceGraph.build(submission, "hybrid_hash_cosine@0.8").edges
    assert set(edges.reason) == {"exact_hash", "cosine"}
    pair = next(i for i in range(len(edges)) if 3 in (edges.left[i], edges.right[i]))
    assert edges.score[pair] == pytest.approx(2 / np.sqrt(5))


def test_threshold_argument_sets_theta(submission):
    assert clusters(submission, "cosine", threshold=0.8) == clusters(submission, "cosine@0.8")
    assert clusters(submission, "cosine@0.9", threshold=0.8) == clusters(submission, "cosine@0.8")


def test_cosine_compares_the_embedding_where_there_is_one(submission):
    embedded = submission.take(np.arange(6), {"embedding": np.eye(6)})
    assert clusters(embedded, "cosine@0.5") == [[u] for u in "uvwxyz"]


def test_zero_norm_embedding_names_the_row(submission):
    zero = submission.features.copy()
    zero[4] = 0
    with pytest.raises(SubmissionError, match="row 4 has zero norm"):
        clusters(submission.take(np.arange(6), {"features": zero}), "cosine@0.9")


@pytest.mark.parametrize("text", ["cosine@1.1", "cosine@-1", "cosine@nan", "hybrid_hash_cosine@2"])
def test_thresholds_outside_the_range(text):
    with pytest.raises(ParameterError, match=r"theta"):
        create("evidence", text)
    with pytest.raises(ParameterError, match="give a value for theta"):
        create("evidence", "cosine")


@pytest.mark.parametrize("text", ["noisy_oracle_latent@1.5", "noisy_oracle_latent(p_fm=-0.1)"])
def test_probabilities_outside_the_range(text):
    with pytest.raises(ParameterError, match=r"p_f[sm]"):
        create("evidence", text)


def test_oracles_need_the_truth_and_others_never_see_it(market, submission):
    with pytest.raises(OracleRequiredError, match="oracle_latent"):
        clusters(submission, "oracle_latent")

    class Peeking(EvidenceLayer):
        needs_oracle = False

        def edges(self, view):
            assert view.oracle is None
            return create("evidence", "none").edges(view)

    EvidenceGraph.build(market.honest, Peeking())


def test_oracles_see_through_what_they_should(market):
    split = create("attack", "sybil_split_k@3").apply(0, market.state)
    copies = create("attack", "exact_dup_2x_sybils").apply(0, market.state)
    stolen = create("attack", "copycat").apply(0, market.state)
    count = lambda p, layer, g: EvidenceGraph.build(p, layer, granularity=g).n_clusters  # noqa: E731
    assert count(split, "oracle_latent", "identity") == 4
    assert count(split, "oracle_source", "identity") == 6
    assert count(copies, "oracle_source", "identity") == 4
    assert count(copies, "oracle_source", "unit") == 48
    assert count(stolen, "oracle_latent", "unit") == 4
    assert count(stolen, "oracle_latent", "identity") == 4


def test_noisy_oracle_rates(market):
    copies = create("attack", "exact_dup_2x_sybils").apply(0, market.state)
    exact = EvidenceGraph.build(copies, "noisy_oracle_latent", granularity="identity")
    assert exact.n_clusters == 4
    merged = "noisy_oracle_latent(p_fs=1.0, p_fm=1.0)"
    assert EvidenceGraph.build(copies, merged, granularity="identity").n_clusters == 1
    lost = EvidenceGraph.build(copies, "noisy_oracle_latent@1.0", granularity="identity")
    assert lost.n_clusters == 6
    false = [
        (
            EvidenceGraph.build(
                copies, "noisy_oracle_latent(p_fm=0.2)", granularity="identity", seed=s
            ).edges.reason
            == "false_merge"
        ).sum()
        for s in range(300)
    ]
    assert np.mean(false) == pytest.approx(0.2 * 12, abs=4 * np.sqrt(12 * 0.16 / 300))


def test_truth_of_another_profile_is_refused(market, submission):
    with pytest.raises(SubmissionError, match="not in the ground truth"):
        EvidenceGraph.build(submission, "oracle_latent", truth=market.honest.truth)


def test_copies_in_any_order_form_one_cluster():
    rng = np.random.default_rng(0)
    features = np.repeat(rng.normal(size=(5, 4)), 30, axis=0)[rng.permutation(150)]
    many = Submission(
        id=np.arange(150), identity=np.arange(150) % 7, features=features, label=np.zeros(150, int)
    )
    assert EvidenceGraph.build(many, "cosine@0.999999").n_clusters == 5


def test_an_open_threshold_is_written_and_not_guessed(submission):
    layer = create("evidence", "lineage@auto")
    assert written(layer) == "lineage@auto"
    with pytest.raises(ParameterError, match="resolve the threshold first, or name a number"):
        EvidenceGraph.build(submission, layer)
    for text, remedy in (
        ("cosine@auto", "choose a value in"),
        ("lineage@automatic", "or auto, or none"),
    ):
        with pytest.raises(ParameterError, match=remedy):
            create("evidence", text)
