"""The truth follows its units, in whatever order either of them is listed."""

import numpy as np
import pytest

from datamarket_gym.data import GroundTruth
from datamarket_gym.data.ground_truth import SubmittedProfile, genuine
from datamarket_gym.errors import SubmissionError


def test_the_truth_is_aligned_by_id_where_neither_side_is_sorted(submission):
    shuffled = submission.take(np.array([4, 0, 5, 2, 1, 3]))
    ids = ["x", "z", "u", "w", "y", "v", "not submitted"]
    truth = GroundTruth(
        np.array(ids),
        np.array([f"owner of {i}" for i in ids]),
        np.array([f"source of {i}" for i in ids]),
        {"a": "p"},
    )
    found = truth.aligned(shuffled)
    assert found.id.tolist() == shuffled.id.tolist()
    assert found.owner.tolist() == [f"owner of {i}" for i in shuffled.id]
    assert found.source.tolist() == [f"source of {i}" for i in shuffled.id]
    assert found.controller == {"a": "p"}
    some = shuffled.take(np.array([3]))
    assert truth.aligned(some).owner.tolist() == [f"owner of {some.id[0]}"]


def test_an_unknown_unit_is_named_even_if_it_would_sort_last(submission):
    ids = np.array(["y", "x", "w", "v", "u"])  # z, the last of all, is missing
    with pytest.raises(SubmissionError, match="unit 'z' is not in the ground truth"):
        GroundTruth(ids, ids, ids, {}).aligned(submission)


def test_a_unit_under_another_embedding_is_not_genuine(submission):
    """What ties a unit is part of it: an own unit under an embedding of one's invention captures, or escapes."""
    rng = np.random.default_rng(0)
    everything = np.arange(len(submission))
    dated = submission.take(everything, {"embedding": rng.normal(size=(len(submission), 3))})
    names = {str(name): str(name) for name in dated.identities}
    truth = GroundTruth(dated.id, dated.identity, dated.id, names)
    honest = SubmittedProfile(dated, truth)
    assert genuine(honest, honest).all()
    moved = dated.embedding.copy()
    moved[2] += 1.0
    other = SubmittedProfile(dated.take(everything[::-1], {"embedding": moved[::-1]}), truth)
    assert genuine(other, honest).tolist() == [u != dated.id[2] for u in other.submission.id]
