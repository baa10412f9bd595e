"""A utility names a learner that there is, and counts from where that learner can be counted from."""

from dataclasses import astuple

import pytest

from datamarket_gym import Utility, create
from datamarket_gym.errors import ParameterError, UnknownNameError
from datamarket_gym.utilities.coverage import RECOMMENDED, RecommendedCoverage


@pytest.mark.parametrize("empty", ["none", "chance"])
def test_a_learner_that_there_is_not_is_refused_at_once(empty):
    with pytest.raises(UnknownNameError, match="nonsense"):
        Utility("nonsense", empty)


def test_money_is_divided_by_accuracy_over_chance_and_by_coverage_as_it_is():
    assert Utility.paying() == Utility(RECOMMENDED, "none")
    assert create("learner", "recommended") == RecommendedCoverage()
    assert astuple(RecommendedCoverage()) == astuple(create("learner", RECOMMENDED))
    assert Utility.paying("knn") == Utility("knn", "chance")
    with pytest.raises(ParameterError, match="is no accuracy"):
        Utility("coverage", "chance")
