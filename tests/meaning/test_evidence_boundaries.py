"""Which units are tied: every boundary on the side that the words say."""

import numpy as np
import pytest

from datamarket_gym.data import Submission
from datamarket_gym.data.content_keys import unit_keys
from datamarket_gym.errors import SubmissionError
from datamarket_gym.evidence import EvidenceGraph
from datamarket_gym.evidence.layers.linkage import agreeing, read_pairs
from datamarket_gym.evidence.layers.perceptual import near_hashes
from datamarket_gym.evidence.spanning_forest import similar_pairs


def tied(features, layer, label=None):
    """Whether the units of two identities form one cluster."""
    n = len(features)
    units = Submission(
        id=[f"u{i}" for i in range(n)],
        identity=[f"name {i}" for i in range(n)],
        features=np.array(features, dtype=float),
        label=np.zeros(n, int) if label is None else label,
    )
    return EvidenceGraph.build(units, layer).n_clusters == 1


def test_a_cosine_of_exactly_theta_ties():
    pair = [[1.0, 0.0], [0.6, 0.8]]  # unit vectors in binary too, with the cosine 0.6
    assert tied(pair, "cosine@0.6")
    assert not tied(pair, f"cosine@{np.nextafter(0.6, 1.0)}")


def test_single_precision_decides_nothing():
    """A pair at exactly theta is tied even where single precision puts it below, and none below is."""
    rng = np.random.default_rng(0)
    unit = rng.normal(size=(12, 48))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    short = unit.astype(np.float32)

    def told(theta):
        found = similar_pairs(unit, theta)
        return set(zip(found.left.tolist(), found.right.tolist(), strict=True))

    pairs = similar_pairs(unit, -0.999)
    below = 0
    for i, j, theta in zip(
        pairs.left.tolist(), pairs.right.tolist(), pairs.cosine.tolist(), strict=True
    ):
        assert (i, j) in told(theta)
        assert (i, j) not in told(float(np.nextafter(theta, 1.0)))
        below += (short @ short.T)[i, j] < np.float32(theta)
    assert below > 10  # or the test would show nothing


def test_hashes_forgive_the_ninth_decimal_and_no_more():
    assert tied([[0.25, 1.0], [0.25 + 4e-9, 1.0]], "exact_hash")
    assert not tied([[0.25, 1.0], [0.25 + 1e-8, 1.0]], "exact_hash")
    assert tied([[0.25, 1.0], [0.254, 1.0]], "exact_hash@2")
    assert not tied([[0.25, 1.0], [0.26, 1.0]], "exact_hash@2")


def test_hashes_cover_the_label():
    assert not tied([[0.25, 1.0], [0.25, 1.0]], "exact_hash", label=[0, 1])


def test_negative_zero_is_zero():
    assert tied([[0.0, 1.0], [-0.0, 1.0]], "exact_hash")
    assert tied([[0.0, 1.0], [-1e-12, 1.0]], "exact_hash")  # rounds to a negative zero
    keys = unit_keys(np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, -1.0]]), np.zeros(3, int))
    assert keys[0] == keys[1] != keys[2]


def test_negative_zero_is_zero_for_cosines_too():
    """At theta 1 only identical vectors are sure to be tied: a product of theirs may round below 1."""
    rng = np.random.default_rng(0)
    rows = np.c_[rng.normal(size=(50, 5)), np.zeros(50)]
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    short = rows[np.flatnonzero(np.einsum("ij,ij->i", unit, unit) < 1.0)[0]]
    other = short.copy()
    other[-1] = -0.0
    assert tied([short, other], "cosine@1.0")


def test_a_blank_agrees_with_nobody_and_a_value_of_all_with_all():
    codes, values = agreeing("device", {"device": ["Kiosk", None, " kiosk", " "]}, np.zeros(4))
    assert codes.tolist() == [0, -1, 0, -1]
    assert values == ["kiosk"]
    assert agreeing("device", {"device": ["kiosk"] * 100}, np.zeros(100))[0].tolist() == [0] * 100


def test_a_window_of_time_begins_anew_at_its_end():
    times = np.array([0.0, 3599.0, 3600.0, 7199.0, 7200.0])
    codes = agreeing("device+time:3600", {"device": ["d"] * 5}, times)[0]
    assert codes.tolist() == [0, 0, 1, 1, 2]


def test_probabilities_of_pairs_may_be_nought_and_one(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("id_l,id_r,probability\na,b,0.0\nc,d,1.0\n")
    assert read_pairs(path) == [("a", "b", 0.0), ("c", "d", 1.0)]
    for wrong in ("1.001", "-0.001"):
        path.write_text(f"id_l,id_r,probability\na,b,{wrong}\n")
        with pytest.raises(SubmissionError, match="row 0"):
            read_pairs(path)


def hashes(*bits):
    """A dHash and a pHash with so many ones each."""
    return np.array([[(1 << d) - 1, (1 << p) - 1] for d, p in bits], dtype=np.uint64)


def test_hashes_of_images_may_differ_in_so_many_of_all_128_bits():
    plain, far = hashes((0, 0), (3, 2)), hashes((60, 60), (60, 60))
    assert near_hashes(plain, far, 5)[2].tolist() == [5]  # three of the one hash and two of the other
    assert near_hashes(plain, far, 4)[2].tolist() == []


def test_the_mirror_image_counts_where_it_is_nearer():
    plain, mirrored = hashes((0, 0), (40, 40)), hashes((40, 41), (1, 1))
    left, right, distance = near_hashes(plain, mirrored, 2)
    assert (left.tolist(), right.tolist(), distance.tolist()) == ([0], [1], [2])
