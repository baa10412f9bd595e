"""What a settled threshold admits, and what it is settled on."""

import numpy as np
import pytest

from datamarket_gym import Submission, Utility, UtilityOracle, get_mechanism
from datamarket_gym.errors import SubmissionError
from datamarket_gym.evidence.false_match_cost import GRID, FalseMatchCost
from datamarket_gym.evidence.threshold import Threshold


def price(theta):
    """A price that admits thresholds from one on."""
    return FalseMatchCost(rows=200, units=160, thetas=[1.0], costs=[0.0], errors=[0.0], theta=theta)


@pytest.mark.parametrize(
    ("lowest", "crowding", "admitted", "refused"),
    [
        (0.8, None, (0.8, 0.9, 1.0), (0.79, 0.0)),  # what costs the honest less harms nobody: no ceiling
        (0.8, 0.7, (0.8, 0.9, 1.0), (0.79, 0.7)),  # a crowd that is further away lowers nothing
        (0.8, 0.9, (0.9, 0.95, 1.0), (0.8, 0.89)),  # a nearer one lifts the floor
        (None, 0.5, (), (0.5, 0.9, 1.0)),  # no threshold is cheap enough
    ],
)
def test_what_the_price_and_the_crowd_admit(lowest, crowding, admitted, refused):
    found = Threshold(why="as said", cost=price(lowest), density=crowding)
    assert [theta for theta in (*admitted, *refused) if found.admits(theta)] == list(admitted)


def test_where_nothing_was_measured_no_threshold_is_admitted():
    assert not any(Threshold(why="as said").admits(theta) for theta in (0.0, 0.9, 1.0))


def test_the_lowest_is_the_floor_rounded_up_to_hundredths():
    floors = [(0.74, None, 0.74), (0.74, 0.7401, 0.75), (0.58, 0.57, 0.58), (0.8, 0.999, 1.0)]
    floors += [(theta, None, theta) for theta in GRID.tolist()]  # 100 * 0.55 is more than 55
    for lowest, crowding, theta in floors:
        found = Threshold(why="as said", cost=price(lowest), density=crowding)
        assert found.lowest == theta
        assert found.admits(theta)


@pytest.mark.parametrize("floor", [0.9, 0.83, 0.75, 0.57])
def test_a_crowd_at_a_hundredth_does_not_switch_the_evidence_off(floor):
    """A floor above a hundredth by rounding alone: whoever places units at that cosine chooses where it lies."""
    found = Threshold(why="as said", cost=price(0.5), density=np.nextafter(floor, 2.0))
    assert found.lowest == floor
    assert found.admits(found.lowest)
    assert not found.admits(floor - 1e-6)


def units(features, embedding=None):
    n = len(features)
    return Submission(
        id=np.array([f"u{i}" for i in range(n)]),
        identity=np.array([f"p{i % 3}" for i in range(n)]),
        features=features,
        label=np.arange(n) % 2,
        embedding=embedding,
    )


@pytest.mark.parametrize("leak_check", ["drop", "off"])
def test_validation_embeddings_of_another_width_are_refused_by_the_column(leak_check):
    rng = np.random.default_rng(0)
    rows, label = rng.normal(size=(60, 8)), np.arange(60) % 2
    utility = UtilityOracle(rows, label, Utility("knn@3"), embedding=rng.normal(size=(60, 16)))
    submitted = units(rng.normal(size=(30, 8)), rng.normal(size=(30, 12)))
    with pytest.raises(SubmissionError, match=r"'embedding' has 12 numbers .* validation rows have 16"):
        get_mechanism("recommended", leak_check=leak_check).pay(submitted, utility)


@pytest.mark.parametrize("leak_check", ["drop", "off"])
def test_validation_features_of_another_width_are_refused_by_the_column(leak_check):
    rng = np.random.default_rng(0)
    utility = UtilityOracle(rng.normal(size=(60, 8)), np.arange(60) % 2, Utility("knn@3"))
    with pytest.raises(SubmissionError, match=r"'features' has 5 numbers .* validation rows have 8"):
        get_mechanism("recommended", leak_check=leak_check).pay(units(rng.normal(size=(30, 5))), utility)
