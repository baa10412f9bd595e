"""Budget balance and individual rationality, asked of payments and of mechanisms."""

from types import SimpleNamespace

import numpy as np
import pytest

from datamarket_gym import create, get_mechanism
from datamarket_gym.mechanism.allocation import floored
from datamarket_gym.testing import (
    ConformanceError,
    budget_balanced,
    budget_gap,
    individually_rational,
    validate_budget_balance,
    validate_individual_rationality,
)
from datamarket_gym.testing.base import small_market
from datamarket_gym.utilities.oracle import Utility


def test_any_payments_can_be_asked():
    for totals, worth, balanced, rational in (
        ([0.25, 0.75], 1.0, True, True),
        ([0.25, 0.70], 1.0, False, True),
        ([-0.25, 1.25], 1.0, True, False),
        ([-0.25, 0.5], 1.0, False, False),
        ([], 0.0, True, True),
    ):
        paid = SimpleNamespace(totals=np.array(totals), grand_value=worth)
        assert (budget_balanced(paid), individually_rational(paid)) == (balanced, rational)
        assert budget_gap(paid) == pytest.approx(sum(totals) - worth)
    near = SimpleNamespace(totals=np.array([0.5, 0.501]), grand_value=1.0)
    assert not budget_balanced(near)
    assert budget_balanced(near, tolerance=0.01)


def poisoned(m):
    market = small_market()
    profile = create("attack", "label_poisoning").apply(0, market.state)
    return m.pay(profile.submission, market.utility_oracle(Utility("knn@3", "chance")))


def test_a_floor_makes_payments_rational_and_rescaling_keeps_the_budget():
    paid = poisoned(get_mechanism("shapley"))
    assert (budget_balanced(paid), individually_rational(paid)) == (True, False)
    assert (budget_balanced(floored(paid)), individually_rational(floored(paid))) == (False, True)
    both = floored(paid, rescale=True)
    assert (budget_balanced(both), individually_rational(both)) == (True, True)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("shapley", {}),
        ("shapley", {"estimator": "permutation", "samples": 8}),
        ("recommended", {}),
        ("uniform", {}),
        ("quotient_banzhaf/cosine@0.95", {"normalize": True}),
    ],
)
def test_efficient_mechanisms_spend_the_value_created(name, changes):
    validate_budget_balance(get_mechanism(name, **changes))


def test_what_a_mechanism_breaks_is_said_with_the_amounts():
    with pytest.raises(ConformanceError, match=r"payments sum to .* all data are worth"):
        validate_budget_balance(get_mechanism("banzhaf"))
    with pytest.raises(ConformanceError, match="after label_poisoning an identity is paid -0"):
        validate_individual_rationality(get_mechanism("shapley"))
    validate_individual_rationality(get_mechanism("uniform"))


class EqualShares:
    """A mechanism of one's own: it takes no truth, and answers with a mapping."""

    def pay(self, submission, utility):
        value = get_mechanism("uniform").pay(submission, utility).grand_value
        return {name: value / len(submission.identities) for name in submission.identities.tolist()}


class Fines(EqualShares):
    def pay(self, submission, utility):
        return dict.fromkeys(submission.identities.tolist(), -1.0)


def test_mechanisms_of_ones_own_are_checked_too():
    validate_budget_balance(EqualShares())
    validate_individual_rationality(EqualShares())
    with pytest.raises(ConformanceError, match="sum to"):
        validate_budget_balance(Fines())
    with pytest.raises(ConformanceError, match="less than by staying away"):
        validate_individual_rationality(Fines())
