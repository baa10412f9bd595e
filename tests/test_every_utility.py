"""Whatever the utility, splitting into names and exact copies change nobody's pay, to the last bit."""

import numpy as np
import pytest

from component_samples import WRITTEN, with_scores
from datamarket_gym import ImportedScores, Utility, UtilityOracle, create, get_mechanism
from datamarket_gym.analysis.metrics import provider_totals
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks.base import Dataset
from datamarket_gym.registry import components
from datamarket_gym.utilities.base import LEARNERS

pytestmark = pytest.mark.filterwarnings("ignore")

ATTACKS = ["sybil_split_k@3", "exact_dup_2x_sybils"]
RNG = np.random.default_rng(11)
CLASS, HELD_CLASS = np.arange(20) % 3, np.arange(30) % 3
FEATURES = RNG.normal(size=(20, 5)) + np.eye(5)[CLASS]
HELD = RNG.normal(size=(30, 5)) + np.eye(5)[HELD_CLASS]
LABELS = {  # by what a learner needs: the labels of the units and of the validation rows
    "class": [(CLASS, HELD_CLASS)],
    "number": [(FEATURES[:, 0] + 0.1 * RNG.normal(size=20), HELD[:, 0])],
    "none": [(None, None), (CLASS, HELD_CLASS)],
}
UTILITIES = sorted(
    [WRITTEN.get(("learner", name), name) for name in components("learner")]
    + ["coverage@0.9", "coverage(labels=False)", "knn(k=1)", "knn(vote=majority)"]
)


CASES = [(name, i) for name in UTILITIES for i in range(len(LABELS[LEARNERS.create(name).target]))]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize(("utility", "place"), CASES)
def test_splits_and_exact_copies_gain_exactly_nothing(utility, place, attack):
    learner = LEARNERS.create(utility)
    label, held = LABELS[learner.target][place]
    market = ProviderMarket(
        Dataset("d", FEATURES, label, HELD, held), np.split(np.arange(20), 4), seed=3
    )
    oracle = UtilityOracle(HELD, held, Utility.paying(utility), learner=_told(learner, label))
    payer = get_mechanism("recommended", samples=8)
    before = provider_totals(payer.pay(market.honest.submission, oracle), market.honest)
    attacked = create("attack", attack).apply(0, market.state)
    after = provider_totals(payer.pay(attacked.submission, oracle), attacked)
    assert after == before
    assert max(before.values()) > 0


def _told(learner, label):
    """The learner itself; scores from elsewhere need their table."""
    return with_scores(FEATURES, label, HELD) if isinstance(learner, ImportedScores) else learner
