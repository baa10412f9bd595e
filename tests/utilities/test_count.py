"""The utility count: every distinct unit is worth 1, whoever holds it."""

import numpy as np
import pytest

from datamarket_gym import Submission, Utility, UtilityOracle, get_mechanism
from datamarket_gym.data.acquired import AcquiredData
from datamarket_gym.errors import LeakedRowsWarning
from datamarket_gym.games.exact import coalitions_numbered, semivalues_from_table
from datamarket_gym.games.semivalues import SEMIVALUES
from datamarket_gym.utilities.base import TrainingRows, ValidationRows
from datamarket_gym.utilities.count import Count

RNG = np.random.default_rng(3)
HELD = RNG.normal(size=(6, 3))
CONTENT = RNG.normal(size=(7, 3))
ROW, PLAYER = (
    np.array([0, 0, 1, 1, 1, 2, 3, 4, 4, 5, 6, 6]),
    np.array([0, 1, 1, 2, 3, 2, 2, 3, 3, 0, 4, 0]),
)
"""Contents that several players hold, that one holds twice, and that one holds alone."""


def rows(row=ROW, player=PLAYER):
    label = np.arange(len(row)) % 2  # labels do not count
    return TrainingRows(CONTENT[row], label, player, int(player.max()) + 1, 2)


@pytest.mark.parametrize("semivalue", ["shapley", "banzhaf", "beta", "loo"])
@pytest.mark.parametrize("acquired", [None, [1, 5]])
def test_scores_are_those_of_enumeration(semivalue, acquired):
    validation = ValidationRows(HELD, np.zeros(6, dtype=np.int64))
    everything = coalitions_numbered(0, 32, 5)
    counted = [len(set(ROW[inside[PLAYER]]) | set(acquired or ())) for inside in everything]
    if acquired is None:
        scorer = Count().scorer(rows(), validation)
        assert scorer.utility(everything[1:]).tolist() == counted[1:]
    else:
        scorer = Count().scorer_given(rows(), rows(acquired, np.zeros(2, dtype=np.int64)), validation)
        assert scorer.utility(everything).tolist() == counted
    weights = SEMIVALUES.create(semivalue)
    [wanted] = semivalues_from_table(np.array(counted, dtype=float) - counted[0], [weights])
    assert scorer.closed_form(weights, counted[0]) == pytest.approx(wanted, abs=1e-12)
    by_group = scorer.closed_form_by_group(weights, counted[0], np.array([0, 0, 1, 1, 2, 2]))
    assert by_group == pytest.approx(np.tile(wanted, (3, 1)), abs=1e-12)


def test_what_is_matched_leaked_or_acquired_counts_nothing():
    units = Submission.from_arrays(
        np.vstack([CONTENT, CONTENT[:2], HELD[:1], 9.0 * CONTENT[6:]]),
        owner=["a", "a", "a", "b", "b", "b", "b", "copier", "copier", "leaker", "seller"],
        time=np.arange(11.0),
    )
    oracle = UtilityOracle(HELD, None, Utility.paying("count"))
    pays = get_mechanism("recommended/lineage@0.999")
    with pytest.warns(LeakedRowsWarning):
        first = pays.pay(units, oracle).as_dict()
    assert first == {"a": 3.0, "b": 4.0, "copier": 0.0, "leaker": 0.0, "seller": 0.0}
    old = AcquiredData(units.take([0, 3]), np.arange(2))
    for discount in (False, True):
        later = pays.pay(units.take(np.arange(9)), oracle.given(old, discount=discount)).as_dict()
        assert later == {"a": 2.0, "b": 3.0, "copier": 0.0}
