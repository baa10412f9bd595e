"""The threshold of a payout run: one that the false-match cost admits, and above one honest unit in twenty."""

import math

import numpy as np
import pytest
from payout_files import run, spec, write

from datamarket_gym.evidence.threshold import density_floor, measure_threshold
from datamarket_gym.execution.arrays import highest_cosines
from datamarket_gym.execution.files import read_json
from datamarket_gym.payout.inputs import read_inputs

DIMENSIONS, HELD = 64, 200


def vectors(n, seed):
    rng = np.random.default_rng(seed)
    label = np.arange(n) % 2
    drawn = rng.normal(size=(n, DIMENSIONS)) + 2.0 * np.eye(2, DIMENSIONS)[label]
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True), label


def held():
    features, label = vectors(HELD, 5)
    return {"label": label, "features": features}


def strangers(cosines):
    """Units with given cosines to the first validation rows."""
    near = held()["features"][: len(cosines)]
    away = np.random.default_rng(9).normal(size=near.shape)
    away -= (away * near).sum(axis=1, keepdims=True) * near
    away /= np.linalg.norm(away, axis=1, keepdims=True)
    cosine = np.array(cosines)[:, None]
    return cosine * near + np.sqrt(1 - cosine**2) * away


def market(cosines):
    features, label = vectors(60, 4)
    features = np.vstack([features, strangers(cosines)])
    n = len(features)
    return {
        "id": [f"u{i}" for i in range(n)],
        "identity": [f"seller {i % 4}" for i in range(n)],
        "label": np.concatenate([label, held()["label"][: len(cosines)]]),
        "time": np.arange(float(n)),
        "features": features,
    }


# Twelve of 200 validation rows have a close stranger; all others are below 0.6.
NEAR = (0.999, 0.99, 0.98, 0.97, 0.96, 0.95, 0.94, 0.93, 0.92, 0.9131, 0.75, 0.70)


@pytest.fixture(scope="module")
def cosines():
    return NEAR


@pytest.fixture(scope="module")
def said(cosines, tmp_path_factory):
    """threshold.json of a payout run that chooses for itself."""
    place = tmp_path_factory.mktemp("threshold")
    paid = run(
        place, market(cosines), held(), theta="auto", leak_check="off"
    )  # some are close on purpose
    return read_json(paid / "threshold.json")


@pytest.fixture(scope="module")
def asked(cosines, tmp_path_factory):
    """The evidence for a threshold somebody asked for."""
    places = write(tmp_path_factory.mktemp("asked"), market(cosines), held())
    inputs = read_inputs(places, spec())
    return lambda theta: measure_threshold(
        inputs.submission, inputs.utility_oracle(spec(theta=theta)), theta
    )


def test_one_honest_unit_in_twenty_may_be_as_close_as_the_floor(said, cosines):
    assert said["density"] == pytest.approx(cosines[9], abs=1e-12)  # ten of 200


def test_the_threshold_is_lifted_to_the_crowd_rounded_up(said, cosines):
    assert said["cost"]["theta"] < cosines[9]  # the price alone would have taken a lower one
    assert said["theta"] == math.ceil(100 * cosines[9]) / 100 == 0.92
    assert said["evidence"] == "lineage@0.92"
    assert "5% of the validation rows have a submitted unit at 0.91 or closer" in said["why"]


def test_three_known_validation_rows_switch_nothing_off(tmp_path):
    """Submitted, they moved the floor of one in a hundred to 1: noisy copies were then paid."""
    found = []
    for near in ((), (1.0, 1.0, 1.0)):
        places = write(tmp_path / str(len(near)), market(list(near)), held())
        inputs = read_inputs(places, spec())
        found.append(
            measure_threshold(inputs.submission, inputs.utility_oracle(spec(theta="auto")), "auto")
        )
    assert found[1].theta == found[0].theta < 0.8
    assert found[0].density <= found[1].density < found[0].density + 0.03


def test_no_threshold_below_the_floor_is_used(asked):
    low = asked("auto").density
    assert asked(str(low)).theta == low
    below = asked(str(low - 1e-6))
    assert (below.theta, below.evidence) == (None, "lineage@none")
    assert f"is below {low:.3f}, the lowest that may be used here" in below.why


def test_a_threshold_above_the_floor_harms_nobody_and_is_used(asked):
    assert asked("0.995").evidence == "lineage@0.995"
    assert asked("1").evidence == "lineage@1.0"


def test_the_floor_is_the_highest_but_five_percent_whatever_the_number_of_rows():
    rng = np.random.default_rng(0)
    submitted = np.eye(1, DIMENSIONS)
    for rows, above in ((10, 0), (20, 0), (21, 1), (60, 2), (200, 9)):
        cosine = np.sort(rng.uniform(0.0, 0.99, rows))
        away = np.eye(1, DIMENSIONS, 1)
        honest = cosine[:, None] * submitted + np.sqrt(1 - cosine[:, None] ** 2) * away
        floor = density_floor(highest_cosines(rng.permutation(honest), 7.0 * submitted))
        assert floor == pytest.approx(cosine[-1 - above], abs=1e-12)
        assert (cosine > floor + 1e-12).mean() <= 0.05


def test_the_nearest_of_many_that_are_almost_equally_near_is_found_to_the_last_digits():
    rng = np.random.default_rng(1)
    unit = vectors(20, 1)[0]
    others = vectors(1, 2)[0] + rng.normal(0, 1e-8, (300, DIMENSIONS))
    cosines = unit @ (others / np.linalg.norm(others, axis=1, keepdims=True)).T
    assert 1e-9 < np.ptp(cosines, axis=1).max() < 1e-6  # single precision cannot tell which is nearest
    assert np.abs(highest_cosines(unit, others) - cosines.max(axis=1)).max() < 1e-14


def test_a_market_without_close_strangers_does_not_lower_the_floor(tmp_path):
    places = write(tmp_path, market([]), held())
    inputs = read_inputs(places, spec())
    found = measure_threshold(inputs.submission, inputs.utility_oracle(spec(theta="0.5")), "0.5")
    assert found.density < 0.5 < found.cost.theta
    assert found.evidence == "lineage@none"


def test_the_length_of_embeddings_decides_nothing(tmp_path):
    said = []
    for scale in (1.0, 8.0):
        longer = [
            {**columns, "features": scale * columns["features"]} for columns in (market([]), held())
        ]
        places = write(tmp_path / str(scale), *longer)
        inputs = read_inputs(places, spec())
        said.append(
            measure_threshold(inputs.submission, inputs.utility_oracle(spec(theta="auto")), "auto")
        )
    assert said[0].theta == said[1].theta
    assert said[0].cost.theta == said[1].cost.theta
