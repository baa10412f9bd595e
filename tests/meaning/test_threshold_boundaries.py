"""The admissibility check: which tenths, which floor, which side of every boundary."""

import numpy as np
import pytest

from datamarket_gym.data.content_keys import keyed_generator
from datamarket_gym.evidence import predict_theta
from datamarket_gym.evidence.admissible_interval import (
    Admissibility,
    Merges,
    chaining_floors,
    variant_similarities,
)
from datamarket_gym.evidence.threshold import density_floor
from datamarket_gym.execution import arrays as highest
from datamarket_gym.execution.arrays import directions, highest_cosines
from datamarket_gym.market.datasets import Embeddings
from datamarket_gym.registry import create

RNG = np.random.default_rng(4)
LABEL = np.repeat([0, 1], 150)
POOL = RNG.normal(size=(300, 12)) + 2.0 * np.eye(2, 12)[LABEL]


def found(pairwise=0.0, chaining=0.0, p10=0.9, cutoff=0.10):
    """A check with these bounds."""
    return Admissibility(
        units=100, dimensions=8, median_norm=1.0, pairwise_floor=pairwise, chaining_floors={cutoff: chaining},
        cutoff=cutoff, near_duplicate_p10=p10, partition="iid", n_providers=4, per_provider=20, trials=8,
        variants="copies", lonely_classes=0, curve_theta=np.zeros(1), curve=np.zeros(1),
    )  # fmt: skip


@pytest.fixture(scope="module")
def checked():
    return predict_theta(POOL, LABEL, variants="near_duplicate_2x_sybils@0.5", per_provider=20, trials=2)


def test_nine_of_ten_honest_pairs_lie_below_the_pairwise_floor(checked):
    unit = POOL / np.linalg.norm(POOL, axis=1, keepdims=True)
    left, right = np.triu_indices(300, 1)
    alike = LABEL[left] == LABEL[right]
    cosines = (unit[left] * unit[right]).sum(axis=1)[alike]
    assert (cosines < checked.pairwise_floor).mean() == pytest.approx(0.90, abs=0.004)


def test_nine_of_ten_copies_lie_above_the_ceiling(checked):
    attack = create("attack", "near_duplicate_2x_sybils@0.5")
    copies = variant_similarities(Embeddings(POOL, LABEL), attack, np.arange(300), 0)
    assert len(copies) == 300
    assert (copies > checked.near_duplicate_p10).sum() == 270
    assert checked.interval[1] == checked.near_duplicate_p10


def test_variants_are_looked_for_among_a_sample_of_the_pool():
    few = predict_theta(
        POOL, LABEL, per_provider=20, trials=1, sample=50, variants="near_duplicate_2x_sybils@0.5"
    )
    rows = np.sort(keyed_generator(0, "variants").permutation(300)[:50])
    attack = create("attack", "near_duplicate_2x_sybils@0.5")
    copies = variant_similarities(Embeddings(POOL, LABEL), attack, rows, 0)
    assert few.near_duplicate_p10 == pytest.approx(np.quantile(copies, 0.1))


def test_the_larger_floor_binds_and_equal_floors_count_as_chaining():
    assert found(pairwise=0.7, chaining=0.5).interval == (0.7, 0.9)
    assert found(pairwise=0.7, chaining=0.5).binding == "pairwise"
    assert found(pairwise=0.5, chaining=0.7).interval == (0.7, 0.9)
    assert found(pairwise=0.6, chaining=0.6).binding == "chaining"


def test_the_margin_is_the_width_and_two_hundredths_suffice():
    assert found(chaining=0.5, p10=0.75).margin == 0.25
    assert found(chaining=0.75, p10=0.5).margin == -0.25
    assert found(p10=0.02).usable
    narrow = found(p10=0.0199)
    assert not narrow.usable
    assert narrow.theta is None
    assert "is only 0.020 wide" in narrow.verdict
    assert "is empty" in found(p10=0.0).verdict


def test_theta_is_a_third_of_the_way_up_to_two_decimals():
    assert found(chaining=0.6, p10=0.9).theta == 0.7
    assert found(chaining=0.5, p10=0.6).theta == 0.53


def test_the_remedy_depends_on_the_floor_that_binds():
    assert "match units instead" in found(chaining=0.8, pairwise=0.2, p10=0.5).verdict
    assert "an encoder that separates" in found(chaining=0.2, pairwise=0.8, p10=0.5).verdict


def test_a_mixed_fraction_at_the_cutoff_is_not_below_it():
    """Providers are mixed in a tenth of the components up to 0.5, and in none above."""
    simulated = [Merges(np.array([0.5]), np.array([0.10]))]
    theta, mean, floors = chaining_floors(simulated, (0.05, 0.10, 0.15))
    assert floors == {0.05: 0.52, 0.10: 0.52, 0.15: 0.0}
    assert mean[theta <= 0.5].tolist() == [0.10] * 26
    assert not mean[theta > 0.5].any()


def test_the_floor_is_where_the_fraction_falls_below_for_good():
    """It dips below the cutoff and rises again: only the last fall counts."""
    dips = [Merges(np.array([0.6, 0.4, 0.2]), np.array([0.5, 0.01, 0.6]))]
    assert chaining_floors(dips, (0.1,))[2] == {0.1: 0.62}
    always = [Merges(np.array([1.0]), np.array([0.5]))]
    assert chaining_floors(always, (0.1,))[2] == {0.1: 1.0}


def test_the_simulated_markets_are_averaged():
    two = [Merges(np.array([0.5]), np.array([0.4])), Merges(np.array([0.3]), np.array([0.4]))]
    theta, mean, floors = chaining_floors(two, (0.1, 0.3))
    assert mean[theta == 0.4] == pytest.approx(0.2)
    assert floors == {0.1: 0.52, 0.3: 0.32}


def test_crowding_takes_at_most_one_honest_unit_in_twenty_for_a_copy():
    rng = np.random.default_rng(2)
    honest, submitted = rng.normal(size=(1000, 6)), rng.normal(size=(40, 6))
    unit = directions(honest)
    nearest = np.sort(highest_cosines(unit, submitted))
    floor = density_floor(highest_cosines(unit, submitted))
    assert (nearest >= floor).sum() == 50
    just_below = nearest[nearest < floor][-1]
    assert (nearest >= just_below).mean() > 0.05  # the smallest such threshold


def test_nearest_units_are_those_of_all_blocks_and_zeros_are_near_nobody(monkeypatch):
    rng = np.random.default_rng(4)
    unit, submitted = directions(rng.normal(size=(50, 6))), rng.normal(size=(70, 6))
    by_hand = (unit @ directions(submitted).T).max(axis=1)
    assert highest_cosines(unit, submitted) == pytest.approx(by_hand, abs=1e-12)
    monkeypatch.setattr(highest, "_BLOCK", 8)
    assert highest_cosines(unit, submitted) == pytest.approx(by_hand, abs=1e-12)
    with_zeros = np.vstack([np.zeros((3, 6)), submitted])
    assert highest_cosines(unit, with_zeros) == pytest.approx(np.maximum(by_hand, 0.0), abs=1e-12)
