"""A checkpoint belongs to one game: the same players with other values, or others of the same value, are refused."""

import numpy as np
import pytest
from semivalue_games import ContentGame

from datamarket_gym.errors import ParameterError
from datamarket_gym.games import Permutation, Shapley
from datamarket_gym.games.closed_form import UnanimityGame

CONTENTS = list("abcdef")


class Elsewhere(ContentGame):
    """The same players on other validation rows."""

    def _evaluate(self, coalitions):
        return 0.5 * super()._evaluate(coalitions)


class CountGame(ContentGame):
    """A coalition is worth its size, whoever is in it."""

    def _evaluate(self, coalitions):
        return coalitions.sum(axis=1).astype(float)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ContentGame(CONTENTS), Elsewhere(CONTENTS)),
        (CountGame(CONTENTS), CountGame([*CONTENTS[:-1], "g"])),
        (UnanimityGame(6), UnanimityGame(5)),
    ],
    ids=["other values", "other players", "fewer players"],
)
def test_a_checkpoint_of_another_game_is_refused(one, other, tmp_path):
    estimator = Permutation(checkpoint=str(tmp_path / "sums.npz"))
    estimator.estimate(one, Shapley(), 60, np.random.default_rng(0))
    with pytest.raises(ParameterError, match="belongs to another game"):
        estimator.estimate(other, Shapley(), 60, np.random.default_rng(0))
