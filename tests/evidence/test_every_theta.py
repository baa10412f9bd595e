"""The forest of all similarities makes the clusters of cosine evidence at every threshold."""

import numpy as np
import pytest

from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import SubmissionError
from datamarket_gym.evidence import EvidenceGraph
from datamarket_gym.evidence.admissible_interval import forest_of
from datamarket_gym.evidence.graph import components


def rows(n=160, d=5, seed=0):
    """Some of everything: strangers, near copies, equal rows, equal directions and opposite ones."""
    rng = np.random.default_rng(seed)
    some = rng.normal(size=(n, d))
    some[10:30] = some[30:50] + 0.01 * rng.normal(size=(20, d))
    some[60:70] = some[70:80]
    some[90] = 3 * some[91]
    some[92] = -some[93]
    return some


def clusters(vectors, theta):
    names = np.array([f"u{i}" for i in range(len(vectors))])
    return EvidenceGraph.build(Submission(names, names, vectors), "cosine", theta).label


def same_parts(one, other):
    return len(set(zip(one.tolist(), other.tolist(), strict=True))) == len(set(one)) == len(set(other))


@pytest.mark.parametrize("seed", range(4))
def test_it_makes_the_clusters_of_every_threshold(seed):
    vectors = rows(seed=seed)
    found = forest_of(vectors)
    assert len(found) == len(vectors) - 1
    assert (np.diff(found.score) <= 0).all()
    for theta in [0.999, 0.9, 0.5, 0.0, -0.5, *found.score[::7].tolist()]:
        ours = components(np.arange(len(vectors)), found.where(found.score >= theta))
        assert same_parts(ours, clusters(vectors, theta))


def test_a_row_without_a_direction_is_refused():
    vectors = rows()
    vectors[7] = 0
    with pytest.raises(SubmissionError, match="row 7 has zero norm"):
        forest_of(vectors)
