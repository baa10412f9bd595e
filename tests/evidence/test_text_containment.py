"""Texts by the containment of word pairs: what is compared, how the threshold is chosen, and what attackers try."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import datamarket_gym as dm
from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import ParameterError, SubmissionError
from datamarket_gym.evidence import text_containment
from datamarket_gym.evidence.graph import EvidenceGraph
from datamarket_gym.evidence.leak_check import ValidationContent, find_leaks
from datamarket_gym.evidence.lineage import Containment, Lineage
from datamarket_gym.evidence.text_containment import (
    FEWEST_TEXTS,
    WordPairs,
    common_pairs,
    match_earlier_texts,
    no_pairs,
    split_words,
)
from datamarket_gym.evidence.threshold import (
    DUPLICATE_SHARE,
    FEW_TEXTS_SHARE,
    LEAST_SHARE,
    measure_threshold,
)
from datamarket_gym.mechanism import Mechanism, acquired_from, get_mechanism, resolve_threshold
from datamarket_gym.utilities.oracle import ReferenceRows, UtilityOracle

RNG = np.random.default_rng(19)
LEXICON = [
    f"{a}{b}{c}" for a in "bdfgkprst" for b in ("ab", "eg", "om", "ut") for c in ("da", "fe", "so")
]


def article(seed: int, length: int = 30) -> str:
    return " ".join(np.random.default_rng(seed).choice(LEXICON, size=length))


def vectors(n: int, seed: int = 0, d: int = 24) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def submit(texts, features=None, owner=None, **rest) -> Submission:
    n = len(texts)
    return Submission.from_arrays(
        vectors(n, 7) if features is None else features,
        None,
        owner or [f"p{i}" for i in range(n)],
        time=np.arange(float(n)),
        metadata={"text": np.array(texts, dtype=object)},
        **rest,
    )


def parents(texts, least=0.35, common=None) -> list[int]:
    common = no_pairs() if common is None else common
    return match_earlier_texts(WordPairs.of(texts), common, least)[0].tolist()


def pairs_in_python(text: str) -> set[tuple[str, ...]]:
    found = split_words(text)
    if len(found) == 1:
        return {(found[0],)}
    return {(min(pair), max(pair)) for pair in pairwise(found)}


@pytest.mark.parametrize(
    "changed",
    [
        "the QUICK brown fox", "the quick, brown fox!", "the qu\u200bick brown fox", "the qui\u0301ck brown fox",
        "t\u04bb\u0435 quick br\u043ewn f\u043e\u0445", "<b>the</b> quick <i class='x'>brown</i> fox",
        "the quick&nbsp;brown fox",
        "t\x01he qu\x7fick bro\x1cwn f\x0box", "t\x01h\xe9 qui\x85ck br\ue000own f\ufffdox",
        "the qui\u3164ck brown fox",
        "\uff54\uff48\uff45 quick brown fox", "the qu1ck br0wn fox", "the_quick_brown_fox", "THE QUICK BROW\u039d FOX",
    ],
)  # fmt: skip
def test_what_looks_the_same_is_the_same(changed):
    assert split_words(changed) == split_words("the quick brown fox")


def test_what_is_no_text_has_no_words():
    for cell in (None, float("nan"), 3, b"the quick brown fox", "", "  ...  ", "<b></b>", ["a b"]):
        assert split_words(cell) == []
    assert len(split_words("数据市场")) == 4  # no spaces: each character is a word


@given(st.lists(st.lists(st.sampled_from(LEXICON[:9]), max_size=14).map(" ".join), max_size=9))
@settings(max_examples=60, deadline=None)
def test_the_search_is_what_python_says(texts):
    """Brute force, in sets of strings, with all the rules."""
    sets, common = (
        [pairs_in_python(text) for text in texts],
        pairs_in_python(" ".join(LEXICON[:2])),
    )
    common_pairs = WordPairs.of([" ".join(LEXICON[:2])]).pair
    near, score = match_earlier_texts(WordPairs.of(texts), common_pairs, 0.35)
    for i, mine in enumerate(sets):
        best = (0.0, -1)
        for j in range(i):
            a, b = mine - common, sets[j] - common
            smaller, both = min(len(a), len(b)), len(a & b)
            if mine and mine == sets[j]:
                best = max(best, (1.0, -j))
                break
            allowed = smaller >= 4 and len(b) <= 8 * len(a) and (len(b) >= len(a) or both >= 8)
            if allowed and both / smaller >= 0.35 and (best[1] == -1 or both / smaller > best[0]):
                best = (both / smaller, j)
        first = next((j for j in range(i) if mine and sets[j] == mine), None)
        if first is not None:
            assert (near[i], score[i]) == (first, 1.0)
        elif best[1] >= 0 and best[0] > 0:
            assert (near[i], score[i]) == (best[1], best[0])
        else:
            assert near[i] == -1


def test_blocks_change_nothing(monkeypatch):
    texts = [article(i // 2, 12 + i % 5) for i in range(40)]
    whole = match_earlier_texts(WordPairs.of(texts), no_pairs(), 0.35)
    monkeypatch.setattr(text_containment, "_BLOCK", 7)
    blocks = match_earlier_texts(WordPairs.of(texts), no_pairs(), 0.35)
    assert (whole[0] >= 0).sum() > 10
    for one, other in zip(whole, blocks, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_padded_stolen_text_still_descends_from_its_original():
    original = article(1)
    for junk in (30, 300, 3000):
        assert parents([original, f"{original} {article(2, junk)}"])[1] == 0


def test_a_huge_early_text_owns_nothing():
    victim = article(1)
    huge = " ".join([article(2, 400), victim])
    assert parents([huge, victim]) == [-1, -1]
    assert parents([" ".join([article(2, 100), victim]), victim]) == [
        -1,
        0,
    ]  # within the eightfold: a cut copy


def test_an_early_phrase_owns_no_article():
    """Without the rule of shared pairs, short early texts would own all later ones that contain them."""
    victim = article(1)
    for start in range(0, 20, 4):
        phrase = " ".join(victim.split()[start : start + 8])  # 7 pairs, all in the victim
        assert parents([phrase, victim]) == [-1, -1]


def test_stuffing_texts_makes_no_word_pair_of_a_victim_common():
    """What is common is decided by the operator's texts, whatever is submitted."""
    original, copy = article(1), article(1).replace(" ", "  ") + " tail"
    noise = [
        f"{article(1)} {article(100 + i, 300)}" for i in range(300)
    ]  # holds the victim's pairs 300 times
    common = common_pairs(tuple(article(1000 + i) for i in range(200)))
    found = parents([original, *noise, copy], common=common)
    assert found[-1] == 0
    assert found[0] == -1


def test_word_pairs_of_many_validation_texts_do_not_count():
    boilerplate = article(5, 25)
    validation = tuple(f"{article(i)} {boilerplate}" for i in range(100, 100 + FEWEST_TEXTS))
    texts = [f"{article(1, 20)} {boilerplate}", f"{article(2, 20)} {boilerplate}"]
    assert parents(texts) == [-1, 0]
    assert parents(texts, common=common_pairs(validation)) == [-1, -1]
    assert not len(common_pairs(validation[: FEWEST_TEXTS - 1]))  # too few to tell


def test_boilerplate_of_the_operators_texts_matches_nobody_in_payments():
    boilerplate = article(5, 25)
    utility = oracle(tuple(f"{text} {boilerplate}" for text in OPERATOR))
    texts = [f"{article(i, 20)} {boilerplate}" for i in range(12)]
    for evidence in ("containment@auto", "containment@0.35"):
        paid = get_mechanism("recommended", evidence=evidence).pay(submit(texts), utility)
        assert not len(paid.clustering.edges)
    assert (
        len(EvidenceGraph.build(submit(texts), "containment@0.35").edges) == 11
    )  # no operator: all pairs count


def test_short_texts_match_when_identical_and_not_else():
    assert parents(["good film", "Good film!", "good films", "", None, "", "fine"]) == [
        -1,
        0,
        -1,
        -1,
        -1,
        -1,
        -1,
    ]


OPERATOR = tuple(article(5000 + i) for i in range(150))


def oracle(text=OPERATOR, features=None) -> UtilityOracle:
    return UtilityOracle(vectors(150, 3) if features is None else features, None, "coverage", text=text)


def resolved(submission, utility, evidence="lineage@auto") -> tuple[Mechanism, object]:
    return resolve_threshold(get_mechanism("recommended", evidence=evidence), submission, utility)


def test_auto_compares_words_where_both_sides_have_texts():
    texts = [article(i) for i in range(20)]
    mechanism, threshold = resolved(submit([*texts, article(0).upper()]), oracle())
    assert threshold.words == LEAST_SHARE
    assert threshold.words_cost.at(threshold.words) <= 0.01
    assert "word pairs" in threshold.why
    assert mechanism.evidence == Lineage(
        threshold.theta, words=threshold.words, copies=threshold.text_copies
    )
    assert str(mechanism.evidence) == threshold.evidence
    by_name, _ = resolved(submit(texts), oracle(), "containment@auto")
    assert by_name.evidence.words == LEAST_SHARE


def test_explicit_lineage_ignores_texts():
    submission = submit([article(0), article(0).title() + " more"])
    paid = get_mechanism("recommended/lineage@0.9").pay(submission, oracle())
    assert not len(paid.clustering.edges)
    paid = get_mechanism("recommended/containment@0.9").pay(submission, oracle())
    assert paid.clustering.edges.reason.tolist() == ["words"]
    assert (paid.clustering.edges.left[0], paid.clustering.edges.right[0]) == (0, 1)


def test_without_validation_texts_embeddings_decide_and_the_result_says_so():
    submission = submit([article(0), article(0)])
    for text in (None, ("", None) * 75):
        mechanism, threshold = resolved(submission, oracle(text))
        assert mechanism.evidence.words == "none"
        assert "texts are not compared by words" in threshold.why
        with pytest.raises(ParameterError, match="containment@auto"):
            resolved(submission, oracle(text), "containment@auto")
    with pytest.raises(SubmissionError, match="no column 'text'"):
        EvidenceGraph.build(Submission.from_arrays(vectors(2), None, ["a", "b"]), "containment@0.4")
    with pytest.raises(ParameterError, match="validation texts"):
        EvidenceGraph.build(submission, Containment("auto"))
    with pytest.raises(SubmissionError, match="3 validation texts for 150"):
        oracle(("a", "b", "c"))


def test_few_validation_texts_say_nothing_of_cost():
    few = UtilityOracle(vectors(60, 3), None, "coverage", text=OPERATOR[:60])
    _, threshold = resolved(submit([article(0)] * 2), few)
    assert (threshold.words, threshold.words_cost) == (FEW_TEXTS_SHARE, None)


def test_reference_texts_stand_in_for_validation_texts():
    reference = ReferenceRows(vectors(150, 4), text=list(OPERATOR))
    utility = UtilityOracle(vectors(30, 3), None, "coverage", reference=reference)
    _, threshold = resolved(submit([article(0), article(1)]), utility)
    assert threshold.words == LEAST_SHARE
    assert "reference texts" in threshold.why


def test_leaked_validation_texts_lift_the_threshold_no_further_than_duplicates():
    """An attacker who knows every validation text submits half of each."""
    halves = [
        " ".join([*text.split()[:13], *article(i + 9000, 40).split()]) for i, text in enumerate(OPERATOR)
    ]
    submission = submit(halves, vectors(150, 8))
    threshold = measure_threshold(submission, oracle())
    assert LEAST_SHARE < threshold.words <= DUPLICATE_SHARE
    everything = submit(list(OPERATOR), vectors(150, 8))  # whole ones are duplicates, which lift nothing
    assert measure_threshold(everything, oracle()).words == LEAST_SHARE


@pytest.fixture(scope="module")
def market():
    """Forty articles of one encoder, and an attacker's copies of the first."""
    return [article(i) for i in range(40)], vectors(40, 11)


def owners(texts, features, utility=None) -> list[int]:
    """The first unit of each unit's cluster."""
    submission = submit(texts, features)
    paid = get_mechanism("recommended", leak_check="off").pay(submission, utility or oracle())
    label = paid.clustering.label
    return [int(np.flatnonzero(label == each)[0]) for each in label]


def test_leaving_the_text_out_gains_nothing(market):
    """A noisy copy without text, or with one too short, is compared at the theta of embeddings."""
    texts, features = market
    utility = oracle()
    theta = measure_threshold(submit(texts, features), utility).theta
    noise = np.random.default_rng(0).normal(size=24)
    noise -= noise @ features[0] / (features[0] @ features[0]) * features[0]
    cosine = (theta + 1) / 2
    near = features[0] / np.linalg.norm(features[0]) * cosine + noise / np.linalg.norm(noise) * np.sqrt(
        1 - cosine**2
    )
    for text in ("", None, "too short", 7.0):
        assert owners([*texts, text], np.vstack([features, near]), utility)[-1] == 0
    blank = ["", *texts[1:]]  # the original has no text, its copy a made-up one
    assert owners([*blank, article(777)], np.vstack([features, near]), utility)[-1] == 0


def test_a_made_up_text_beside_stolen_features_does_not_help(market):
    texts, features = market
    for scale in (0.0, 0.01):
        stolen = features[:1] * 1.0 + scale * vectors(1, 5)
        assert owners([*texts, article(777)], np.vstack([features, stolen]))[-1] == 0


def test_a_stolen_text_beside_made_up_features_is_matched(market):
    texts, features = market
    changed = " ".join(texts[0].split()[::-1][:3] + texts[0].split())
    assert owners([*texts, changed], np.vstack([features, vectors(1, 6)]))[-1] == 0


def test_similar_embeddings_of_different_articles_are_two_articles(market):
    """What theta of lineage takes for copies, where words tell two reports of one event apart."""
    texts, features = market
    utility = oracle()
    threshold = measure_threshold(submit(texts, features), utility)
    cosine = (threshold.theta + threshold.text_copies) / 2
    assert threshold.theta + 0.02 < threshold.text_copies
    noise = np.random.default_rng(1).normal(size=24)
    noise -= noise @ features[0] / (features[0] @ features[0]) * features[0]
    near = features[0] / np.linalg.norm(features[0]) * cosine + noise / np.linalg.norm(noise) * np.sqrt(
        1 - cosine**2
    )
    assert owners([*texts, article(777)], np.vstack([features, near]), utility)[-1] == len(texts)


CELLS = st.one_of(
    st.integers(0, 5).map(article),
    st.tuples(st.integers(0, 5), st.integers(0, 5)).map(
        lambda ij: article(ij[0])[:90] + " " + article(ij[1])[60:]
    ),
    st.tuples(st.integers(0, 5), st.integers(3, 9)).map(lambda ij: article(*ij)),
    st.sampled_from(
        ["", None, "good film", 3.5, article(0).upper(), article(0) + " " + article(1, 600)]
    ),
)


@given(st.lists(st.tuples(CELLS, st.integers(0, 4)), min_size=2, max_size=12), st.integers(1, 11))
@settings(max_examples=80, deadline=None)
def test_the_past_is_immune(units, cut):
    """Who owns the units up to time t is a function of the units up to t, with texts, too."""
    cut = min(cut, len(units))
    texts, features = [text for text, _ in units], vectors(5, 2)[[f for _, f in units]] + 0.1
    layer = Lineage(0.9, words=0.35, copies=0.99)
    common = common_pairs(OPERATOR)

    def roots(n: int) -> list[int]:
        clusters = EvidenceGraph.build(submit(texts[:n], features[:n]), layer, common=common)
        first = {int(c): i for i, c in reversed(list(enumerate(clusters.label)))}
        return [first[int(c)] for c in clusters.label]

    assert roots(len(units))[:cut] == roots(cut)


@given(st.lists(CELLS, min_size=2, max_size=8), st.permutations(range(8)))
@settings(max_examples=40, deadline=None)
def test_row_order_decides_nothing(texts, order):
    """Twins in time and features differ in their texts alone."""
    n = len(texts)
    order = [i for i in order if i < n]
    features = vectors(3, 2)[np.arange(n) % 3]
    submission = Submission.from_arrays(
        features, None, [f"p{i}" for i in range(n)], time=np.zeros(n),
        metadata={"text": np.array(texts, dtype=object)},
    )  # fmt: skip
    layer = Lineage(0.9, words=0.35, copies=0.99)
    one, other = (
        EvidenceGraph.build(each, layer).label for each in (submission, submission.take(np.array(order)))
    )
    same = one[:, None] == one
    np.testing.assert_array_equal(same[np.ix_(order, order)], other[:, None] == other)


def test_texts_of_earlier_periods_are_recognised(market):
    texts, features = market
    utility = oracle()
    before = get_mechanism("recommended", leak_check="off").pay(submit(texts, features), utility)
    given_before = utility.given(acquired_from(before))
    stolen = [texts[3] + " " + article(888, 60), article(999)]
    later = submit(stolen, vectors(2, 21), ["thief", "new"])
    paid = get_mechanism("recommended", leak_check="off").pay(later, given_before)
    assert paid.acquired.unit.tolist() == [0]
    assert (paid.acquired.old[0], paid.acquired.reason[0]) == (3, "words")


def test_frames_with_a_column_of_texts_are_matched_by_words():
    texts = [*(article(i) for i in range(10)), article(0) + " " + article(55, 30)]
    units = {
        "id": [f"u{i}" for i in range(11)], "identity": [*"abcdefghij", "thief"],
        "features": vectors(11, 31).tolist(), "time": np.arange(11.0), "text": texts,
    }  # fmt: skip
    validation = {"features": vectors(150, 3).tolist(), "text": list(OPERATOR)}
    paid = dm.pay(units, validation, amount=100)
    edges = paid.clustering.edges
    assert (edges.left.tolist(), edges.right.tolist(), edges.reason.tolist()) == ([0], [10], ["words"])
    assert paid.as_dict()["thief"] == 0.0


@pytest.mark.parametrize("theirs", [["", None], ["short one"] * 2])
def test_old_texts_without_pairs_match_nothing(theirs):
    """Where no earlier text has enough pairs, later ones are not compared with one another."""
    mine = [article(1), f"{article(1)} and more words", article(2)]
    near, _ = match_earlier_texts(WordPairs.of([*theirs, *mine]), no_pairs(), 0.35, old=len(theirs))
    assert near[2:].tolist() == [-1, -1, -1]


def test_blank_validation_texts_are_no_leaks():
    units = submit([article(1), f"{article(1)} and more words"], vectors(2, 3))
    rows = ValidationContent(vectors(40, 4), text=[""] * 40)
    assert len(find_leaks(units, rows)) == 0


@pytest.mark.parametrize("hidden", ["<b {}> ", "<!-- {} --> ", '<a title="{}"></a> ', "&lt;x {}&gt; "])
def test_a_text_in_markup_beside_made_up_words_is_matched(hidden):
    """Encoders read what stands in markup."""
    stolen = hidden.format(article(1)) + article(2, 7)
    assert parents([article(1), stolen]) == [-1, 0]
    link = '<a href="http://news.example/quote?ticker=ABC" target="_blank">ABC</a>'
    few = [f"{article(3)} {link}", f"{article(4)} {link}"]
    assert parents(few, 0.05) == [-1, -1]  # a link is no text


def test_words_in_another_order_are_the_same_text():
    """An encoder that takes the mean over tokens hardly tells them apart."""
    words_of = article(1, 40).split()
    swapped = [word for i in range(0, 40, 2) for word in (words_of[i + 1], words_of[i])]
    assert parents([article(1, 40), " ".join(words_of[::-1]), " ".join(swapped)])[1:] == [0, 0]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [(article(1, 300), article(1, 300)[:200]), (article(1, 7), article(1, 7) + " and more words here")],
)
def test_vectors_decide_where_words_cannot(earlier, later):
    """A tenth of a long text, and a short text among more words, are excluded from matching by words."""
    assert parents([earlier, later]) == [-1, -1]
    features = np.eye(2, 24)
    features[1] += 2 * features[0]  # a cosine of 0.89
    layer = Lineage(0.8, words=0.38, copies=0.99)

    def matched(texts):
        return len(EvidenceGraph.build(submit(texts, features), layer).edges)

    assert matched([earlier, later]) == 1
    assert matched([article(1), article(2)]) == 0


@pytest.mark.parametrize("acquired", [0, 2])
def test_a_unit_of_other_words_hides_no_copy_of_one_without_words(acquired):
    """The second unit is nearer to the third than the first is, which has no text; at theta the first still counts."""
    angles = np.radians([0.0, 40.0, 24.0])
    features = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)
    units = submit([None, article(1), article(2)], features)
    layer = Lineage(0.85, words=0.38, copies=0.99)
    if acquired:
        edges = layer.edges_to(units.take(slice(2)), units.take(slice(2, 3)))
    else:
        edges = EvidenceGraph.build(units, layer).edges
    found = list(
        zip(edges.left.tolist(), edges.right.tolist(), np.round(edges.score, 6).tolist(), strict=True)
    )
    assert found == [(0, 2, round(float(np.cos(np.radians(24.0))), 6))]
