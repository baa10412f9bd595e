"""What a settled threshold admits, and what it is settled on."""

import numpy as np
import pytest

from datamarket_gym import Submission, Utility, UtilityOracle, mechanism
from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.evidence.threshold.choice import Threshold


@pytest.mark.parametrize(
    ("check", "crowding", "admitted", "refused"),
    [
        # an interval: its ends are in, what lies beyond is not
        ({"usable": True, "interval": (0.8, 0.95)}, None, (0.8, 0.9, 0.95), (0.79, 0.96, 1.0)),
        # crowding lifts the floor
        ({"usable": True, "interval": (0.8, 0.95)}, 0.9, (0.9, 0.95), (0.8, 0.89, 0.96)),
        # a crowd closer than what copies reach: above it anything harms nobody
        ({"usable": True, "interval": (0.8, 0.95)}, 0.97, (0.97, 1.0), (0.95, 0.96)),
        # the check found no threshold, or was not made
        ({"usable": False, "interval": (0.8, 0.95)}, None, (), (0.8, 0.9, 1.0)),
        (None, None, (), (0.0, 0.9, 1.0)),
    ],
)
def test_what_the_checks_admit(check, crowding, admitted, refused):
    found = Threshold(why="as said", check=check, crowding=crowding)
    assert [theta for theta in (*admitted, *refused) if found.admits(theta)] == list(admitted)


def units(features, embedding=None):
    n = len(features)
    return Submission(
        id=np.array([f"u{i}" for i in range(n)]),
        identity=np.array([f"p{i % 3}" for i in range(n)]),
        features=features,
        label=np.arange(n) % 2,
        embedding=embedding,
    )


def test_validation_embeddings_of_another_width_are_refused_by_the_column():
    rng = np.random.default_rng(0)
    rows, label = rng.normal(size=(60, 8)), np.arange(60) % 2
    utility = UtilityOracle(rows, label, Utility("knn@3"), embedding=rng.normal(size=(60, 16)))
    submitted = units(rng.normal(size=(30, 8)), rng.normal(size=(30, 12)))
    with pytest.raises(SubmissionError, match=r"'embedding' has 12 numbers .* validation rows have 16"):
        mechanism("recommended").pay(submitted, utility)


def test_validation_features_of_another_width_are_refused_by_the_column():
    rng = np.random.default_rng(0)
    utility = UtilityOracle(rng.normal(size=(60, 8)), np.arange(60) % 2, Utility("knn@3"))
    with pytest.raises(SubmissionError, match=r"'features' has 5 numbers .* validation rows have 8"):
        mechanism("recommended").pay(units(rng.normal(size=(30, 5))), utility)
