"""Units that equal validation rows, or nearly, are found; honest units on the same subject are not."""

import time

import numpy as np
import pytest

from datamarket_gym import ProviderMarket, Submission
from datamarket_gym.evidence.leak_check import ValidationContent, find_leaks, near_copy_level

WIDE = 48


def units(features, label=None, **columns):
    n = len(features)
    return Submission(
        id=np.array([f"u{i}" for i in range(n)]),
        identity=np.array(["someone"] * n),
        features=features,
        label=np.zeros(n, dtype=int) if label is None else label,
        **columns,
    )


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(120, WIDE))


@pytest.fixture
def strangers():
    return np.random.default_rng(1).normal(size=(300, WIDE))


def found(submission, held):
    leaks = find_leaks(submission, held)
    return list(zip(leaks.unit.tolist(), leaks.row.tolist(), leaks.by.tolist(), strict=True))


def test_strangers_are_no_leaks(rows, strangers):
    assert found(units(strangers), ValidationContent(rows)) == []


def test_a_copied_row_is_found_under_any_label(rows, strangers):
    features = np.vstack([strangers[:3], rows[[7, 7]], strangers[3:5]])
    submission = units(features, np.array([0, 1, 0, 0, 5, 1, 1]))
    leaks = find_leaks(submission, ValidationContent(rows))
    assert found(submission, ValidationContent(rows)) == [(3, 7, "identical"), (4, 7, "identical")]
    assert leaks.likeness.tolist() == [1.0, 1.0]
    assert leaks.others(len(submission)).tolist() == [0, 1, 2, 5, 6]


def test_the_first_of_equal_rows_is_named(rows):
    held = np.vstack([rows, rows[[3]]])
    assert found(units(rows[[3]]), ValidationContent(held)) == [(0, 3, "identical")]


@pytest.mark.parametrize("noise", [1e-6, 0.02, 0.1, 0.2])
def test_a_row_under_small_noise_or_scaled_is_found(rows, noise):
    rng = np.random.default_rng(2)
    moved = 3.0 * (rows[:40] + rng.normal(0, noise, (40, WIDE)))
    assert found(units(moved), ValidationContent(rows)) == [(i, i, "features") for i in range(40)]


def test_of_several_rows_that_a_unit_is_like_the_nearest_is_named(rows):
    near = rows[5] + 0.1 * rows[6]
    held = np.vstack([rows, near, near])
    leaks = find_leaks(units(np.vstack([1.0001 * near + 1e-4, rows[5] + 1e-4])), ValidationContent(held))
    assert leaks.row.tolist() == [120, 5]  # of rows equally near the first
    assert leaks.likeness.min() > 0.9999


def test_far_noise_is_not_found(rows):
    moved = rows + np.random.default_rng(2).normal(0, 1.5, rows.shape)
    assert found(units(moved), ValidationContent(rows)) == []


def test_the_embedding_gives_away_what_the_features_hide(rows, strangers):
    seen = np.random.default_rng(5).normal(size=(120, 64))
    submission = units(strangers[:2], embedding=np.vstack([seen[[9]], -seen[[9]]]))
    assert found(submission, ValidationContent(rows, seen)) == [(0, 9, "embedding")]
    assert found(submission, ValidationContent(rows)) == []


def test_an_embedding_that_lies_hides_nothing(rows):
    other = np.random.default_rng(6).normal(size=(121, 64))
    submission = units(rows[[4]] + 1e-3, embedding=other[[120]])
    assert found(submission, ValidationContent(rows, other[:120])) == [(0, 4, "features")]


def test_texts_are_compared_where_both_have_them(rows, strangers):
    said = [f"the {i} quick brown foxes jump over lazy dog number {i} at dawn" for i in range(120)]
    said[5] = "rain is expected in the north of the country tomorrow morning, then snow"
    texts = np.array(
        ["Rain is expected in the north of the country tomorrow evening; then SNOW", "", "   ", "snow"],
        dtype=object,
    )
    submission = units(strangers[:4], metadata={"text": texts})
    leaks = find_leaks(submission, ValidationContent(rows, text=[*said[:118], "", None]))
    assert leaks.unit.tolist() == [0]
    assert leaks.row.tolist() == [5]
    assert leaks.by.tolist() == ["text"]
    # 12 word pairs each: "tomorrow morning" and "morning then" differ
    assert leaks.likeness.tolist() == [10 / 12]
    assert len(find_leaks(submission, ValidationContent(rows))) == 0


def test_a_part_of_a_validation_text_and_one_among_other_words_are_leaks(rows, strangers):
    said = [
        " ".join(
            f"{word}{i}"
            for word in ["rain", "is", "due", "in", "the", "north", "of", "our", "country", "soon"]
        )
        for i in range(120)
    ]
    others = " ".join(f"word{i}" for i in range(80))
    texts = np.array(
        [" ".join(said[3].split()[:6]), f"{others} {said[4].upper()}", others], dtype=object
    )
    submission = units(strangers[:3], metadata={"text": texts})
    assert found(submission, ValidationContent(rows, text=said)) == [(0, 3, "text"), (1, 4, "text")]


def test_texts_of_another_story_are_no_leaks(rows, strangers):
    text = np.array(["rain is expected in the south, says the minister of finance"], dtype=object)
    held = ["rain is expected in the north of the country tomorrow morning, then snow", *[None] * 119]
    assert found(units(strangers[:1], metadata={"text": text}), ValidationContent(rows, text=held)) == []


def test_zero_vectors_are_similar_to_nothing(rows, strangers):
    held = np.vstack([np.zeros((1, WIDE)), rows])
    submission = units(np.vstack([1e-3 * strangers[:1], strangers[1:2]]))
    assert found(submission, ValidationContent(held)) == []
    assert found(units(np.zeros((2, WIDE))), ValidationContent(rows)) == []


def test_few_rows_are_compared_exactly_alone(rows):
    held = ValidationContent(rows[:10])
    assert near_copy_level(rows[:10]) is None
    assert found(units(rows[[2, 3]] + [[0.0], [1e-3]]), held) == [(0, 2, "identical")]


def test_the_level_does_not_depend_on_the_order_of_rows_and_a_few_duplicates_do_not_lift_it(rows):
    level = near_copy_level(rows)
    assert near_copy_level(rows[::-1]) == level
    doubled = np.vstack([rows, rows[:3] + 1e-9])  # equal directions, other contents
    assert near_copy_level(doubled) < level + 0.05
    assert near_copy_level(np.vstack([rows, rows + 1e-9])) is None


def test_where_directions_repeat_equal_features_alone_count(rows):
    """Prices and counts share directions with one another: a parallel unit is no copy."""
    held = np.vstack([rows, 2.0 * rows])
    assert found(units(np.vstack([3.0 * rows[:2], rows[2:3]])), ValidationContent(held)) == [
        (2, 2, "identical")
    ]
    one = np.arange(1.0, 61.0)[:, None]
    assert found(units(one + 0.5), ValidationContent(one)) == []


def test_no_honest_unit_of_synthetic_markets_is_hit():
    for seed in range(1000, 1005):
        market = ProviderMarket.from_task("synthetic", seed=seed)
        held = ValidationContent(market.dataset.validation_features)
        assert len(find_leaks(market.honest.submission, held)) == 0


def test_low_dimensions_where_everybody_is_alike():
    rng = np.random.default_rng(0)
    rows, honest = rng.normal(size=(400, 3)), rng.normal(size=(2000, 3))
    assert len(find_leaks(units(honest), ValidationContent(rows))) <= 0.005 * len(honest)
    assert len(find_leaks(units(rows[:50]), ValidationContent(rows))) == 50


@pytest.mark.slow
def test_a_hundred_thousand_units_take_seconds():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1000, 384))
    features = rng.normal(size=(100_000, 384))
    features[::1000] = rows[:100]
    started = time.perf_counter()
    assert find_leaks(units(features), ValidationContent(rows)).row.tolist() == list(range(100))
    assert time.perf_counter() - started < 20
