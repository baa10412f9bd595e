"""What each unit earns: a name's amounts sum to its total, whatever the mechanism."""

import numpy as np
import pytest

from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic
from datamarket_gym.mechanism.payment_tables import unit_amounts
from datamarket_gym.mechanism.pipeline import get_mechanism
from datamarket_gym.utilities.oracle import Utility

SMALL = Synthetic(n_providers=3, per_provider=8)


@pytest.mark.parametrize("learner", ["coverage", "knn"])
@pytest.mark.parametrize(
    "name",
    [
        "recommended",
        "shapley",
        "quotient_shapley/cosine@0.9",
        "recommended/hybrid_hash_cosine@0.5",
        "uniform",
    ],
)
def test_a_names_units_sum_to_its_total(name, learner):
    market = ProviderMarket.from_task(SMALL, seed=3)
    profile = ATTACKS.create("copycat(sigma=0.3)").apply(0, market.state)
    oracle = market.utility_oracle(Utility.paying(learner))
    paid = get_mechanism(name).pay(profile.submission, oracle)
    found = unit_amounts(paid)
    totals = np.bincount(found.identity, weights=found.amount, minlength=len(paid.identities))
    assert totals == pytest.approx(paid.totals, abs=1e-12)
    assert len(np.unique(found.row)) == len(found.row)
    owner = paid.clustering.submission.identity[found.row]
    assert (owner == paid.identities[found.identity]).all()


def test_a_tied_copy_earns_nothing_and_the_original_all():
    market = ProviderMarket.from_task(SMALL, seed=3)
    profile = ATTACKS.create("copycat").apply(0, market.state)  # exact copies, later
    oracle = market.utility_oracle(Utility.paying())
    found = unit_amounts(get_mechanism("recommended").pay(profile.submission, oracle))
    playing = profile.submission
    copies = np.flatnonzero(np.char.find(playing.id.astype(str), "~") >= 0)
    assert len(copies)
    assert not set(copies) & set(found.row)
