"""Evidence from texts and images."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.errors import ParameterError, SubmissionError
from datamarket_gym.evidence import EvidenceGraph
from datamarket_gym.evidence.layers.minhash import (
    MISSED,
    PERMUTATIONS,
    enough_bands,
    ngrams,
    similar_sets,
)
from datamarket_gym.evidence.layers.perceptual import image_hashes, near_hashes
from datamarket_gym.registry import create
from datamarket_gym.testing.base import small_market

pytest.importorskip("rensa")
pytest.importorskip("imagehash")
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "two", "dogs", "run", "far", "home", "at"]


def jaccard(a, b):
    return len(a & b) / len(a | b)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.2, 0.3, 0.5, 0.8]))
def test_minhash_finds_what_comparing_all_pairs_finds(seed, least):
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, size=rng.integers(3, 14))) for _ in range(12)]
    texts += [texts[0], " ".join(texts[1].split()[:-1]), "cat"]
    sets = [ngrams(text, 2) for text in texts]
    left, right, score = similar_sets(sets, least, seed)
    found = {(i, j): s for i, j, s in zip(left.tolist(), right.tolist(), score.tolist(), strict=True)}
    expected = {
        (i, j): jaccard(sets[i], sets[j])
        for i in range(len(sets))
        for j in range(i + 1, len(sets))
        if jaccard(sets[i], sets[j]) >= least
    }
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("least", [0.15, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_bands_are_enough_and_not_one_size_too_many(least):
    bands = enough_bands(least)
    rows = PERMUTATIONS // bands
    assert (1 - least**rows) ** bands <= MISSED
    if rows < 32:
        assert (1 - least ** (2 * rows)) ** (bands // 2) > MISSED


def test_ngrams_do_not_see_case_or_punctuation():
    assert ngrams("The cat, sat!", 2) == ngrams("the CAT sat", 2)
    assert ngrams("cat", 3) == {"cat"}
    assert ngrams("!!!", 2) == {"!!!"}


def test_hash_distances_are_hamming_distances_to_an_image_or_its_mirror():
    rng = np.random.default_rng(0)
    plain, mirrored = (rng.integers(2**63, size=(40, 2), dtype=np.uint64) for _ in range(2))
    plain[7], mirrored[9] = plain[3], plain[2]

    def distance(a, b):
        return sum((int(x) ^ int(y)).bit_count() for x, y in zip(a, b, strict=True))

    left, right, found = near_hashes(plain, mirrored, 40)
    pairs = {
        (i, j): d
        for i in range(40)
        for j in range(i + 1, 40)
        if (d := min(distance(plain[i], plain[j]), distance(plain[i], mirrored[j]))) <= 40
    }
    assert (
        dict(zip(zip(left.tolist(), right.tolist(), strict=True), found.tolist(), strict=True)) == pairs
    )
    assert {(3, 7), (2, 9)} <= set(pairs)


def test_copies_of_content_are_tied_and_strangers_are_not():
    for kind, attack, evidence, least in (
        ("text", "text_variants(how=casing, strength=3)", "minhash", 1.0),
        ("image", "image_variants(how=flip, strength=1)", "perceptual@4", 1.0),
    ):
        market = small_market(kind)
        profile = create("attack", attack).apply(0, market.state)
        label = EvidenceGraph.build(profile, evidence).label
        row = {unit: i for i, unit in enumerate(profile.submission.id.tolist())}
        source = [row[unit] for unit in profile.truth.source.tolist()]
        copies = profile.submission.time >= 1
        assert copies.sum() == 10
        assert (label == label[source])[copies].mean() >= least
        assert len(np.unique(label[~copies])) >= 38  # honest units stay apart


def test_units_without_content_are_tied_to_nothing():
    market = small_market("text")
    profile = create("attack", "near_duplicate_2x_sybils@0.5").apply(0, market.state)
    blank = profile.submission.metadata["text"] == ""
    assert blank.sum() == 10  # noise on an embedding has no text
    clusters = EvidenceGraph.build(profile, "minhash")
    assert clusters.n_clusters == len(profile.submission)
    exact = create("attack", "exact_dup_2x_sybils").apply(0, market.state)
    assert EvidenceGraph.build(exact, "minhash").n_clusters == 40


def test_submissions_without_the_column_or_with_a_broken_image(market):
    for evidence, kind in (("minhash", "text"), ("perceptual", "image")):
        with pytest.raises(SubmissionError, match=f"no column '{kind}'"):
            EvidenceGraph.build(market.honest, evidence)
    honest = small_market("image").honest.submission
    content = honest.metadata["image"].copy()
    content[5] = b"broken"
    broken = type(honest)(
        id=honest.id, identity=honest.identity, features=honest.features, label=honest.label,
        metadata={"image": content},
    )  # fmt: skip
    with pytest.raises(SubmissionError, match=f"unit '{honest.id[5]}': .*no image"):
        EvidenceGraph.build(broken, "perceptual")
    with pytest.raises(ParameterError, match="bits"):
        create("evidence", "perceptual@200")
    with pytest.raises(ParameterError, match="jaccard"):
        create("evidence", "minhash@0")
    with pytest.raises(ParameterError, match="theta"):
        create("evidence", "containment@2")


def test_hashes_of_no_images():
    assert [h.shape for h in image_hashes([])] == [(0, 2), (0, 2)]
