"""What an attack costs the others: the largest loss, the summed one, and what moved to the attacker."""

from dataclasses import dataclass

import numpy as np
import pytest

from datamarket_gym.analysis.metrics import Metrics, harm_of
from datamarket_gym.data import Submission
from datamarket_gym.data.ground_truth import GroundTruth, SubmittedProfile
from datamarket_gym.errors import DataMarketError
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.mechanism.allocation import PaidTotals
from datamarket_gym.utilities.oracle import Utility


@dataclass
class Given(PaidTotals):
    """Payments as given."""

    by_name: dict
    seconds: float = 0.0

    @property
    def identities(self):
        return np.array(sorted(self.by_name))

    @property
    def totals(self):
        return np.array([self.by_name[name] for name in sorted(self.by_name)])

    @property
    def grand_value(self):
        return float(self.totals.sum())


def profile(*names, attacker="a"):
    """A unit of each name; names such as a~1 are the attacker's."""
    units = [f"u{i}" for i in range(len(names))]
    submission = Submission(
        id=units, identity=list(names), features=np.eye(max(2, len(names)))[: len(names)],
        label=[i % 2 for i in range(len(names))],
    )  # fmt: skip
    owner = [name.partition("~")[0] for name in names]
    truth = GroundTruth(
        submission.id, np.array(owner), submission.id, dict(zip(names, owner, strict=True))
    )
    return SubmittedProfile(submission, truth, attacker, "x")


def harm(before, after, attacker="a"):
    return harm_of(Given(before), Given(after), profile(*sorted(after), attacker=attacker), attacker)


def test_losses_and_theft_are_those_of_the_formulas():
    found = harm({"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}, {"a": 2.0, "b": 1.5, "c": 0.5, "d": 6.0})
    assert found.victim == "c"
    assert found.victim_loss == pytest.approx(1 - 0.05 / 0.3)
    assert found.victim_loss_sum == pytest.approx((0.05 + 0.25) / 0.9)  # d wins, and pays for nobody
    assert found.theft == pytest.approx(0.1)


def test_shares_count_and_not_the_size_of_the_pot():
    before = {"a": 1.0, "b": 2.0, "c": 1.0}
    doubled = harm(before, {name: 2 * amount for name, amount in before.items()})
    assert (doubled.victim, doubled.victim_loss, doubled.victim_loss_sum, doubled.theft) == (
        None,
        0,
        0,
        0,
    )
    diluted = harm(before, {"a": 5.0, "b": 2.0, "c": 1.0})  # no amount fell, every share of others did
    assert diluted.victim_loss == pytest.approx(0.5)
    assert diluted.theft == pytest.approx(5 / 8 - 1 / 4)


def test_what_goes_to_third_parties_is_a_loss_and_no_theft():
    """A bridge that hands b's units to c: nobody's gain shows it, the attacker's least of all."""
    found = harm({"a": 1.0, "b": 1.0, "c": 2.0}, {"a": 1.0, "b": 0.0, "c": 3.0})
    assert (found.victim, found.victim_loss, found.theft) == ("b", 1.0, 0.0)
    assert found.victim_loss_sum == pytest.approx(1 / 3)


def test_all_names_of_the_attacker_count_and_theft_is_never_negative():
    found = harm({"a": 1.0, "b": 1.0}, {"a": 0.5, "a~1": 1.0, "b": 0.5})
    assert found.theft == pytest.approx(0.25)
    assert harm({"a": 1.0, "b": 1.0}, {"a": 0.5, "b": 1.5}).theft == 0.0


def test_only_those_clearly_paid_can_be_the_victim_but_the_sum_has_everybody():
    before = {"a": 1.0, "b": 0.01, "c": 1.99}
    found = harm(before, {"a": 1.0, "b": 0.0, "c": 2.0})
    assert (found.victim, found.victim_loss) == (None, 0.0)
    assert found.victim_loss_sum == pytest.approx(0.01 / 2.0)


def test_debts_count_as_nothing():
    found = harm({"a": 1.0, "b": 1.0, "c": -1.0}, {"a": 1.0, "b": 1.0, "c": -7.0})
    assert (found.victim_loss, found.victim_loss_sum, found.theft) == (0.0, 0.0, 0.0)
    assert harm({"a": 1.0, "b": 1.0}, {"a": 1.0, "b": -0.5}).victim_loss == 1.0


def test_where_nobody_is_paid_any_more_everything_is_lost():
    found = harm({"a": 1.0, "b": 1.0}, {"a": 0.0, "b": 0.0})
    assert (found.victim, found.victim_loss, found.victim_loss_sum, found.theft) == ("b", 1.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("before", "after", "theft"),
    [
        ({"a": 1.0}, {"a": 2.0}, 0.0),  # the attacker alone
        ({"a": 1.0, "b": 0.0}, {"a": 1.0, "b": 1.0}, 0.0),  # nobody else is paid
        ({"a": 0.0, "b": 0.0}, {"a": 1.0, "b": 0.0}, float("nan")),  # there was nothing to steal
    ],
)
def test_without_anybody_to_lose_there_is_no_loss(before, after, theft):
    found = harm(before, after)
    assert found.victim is None
    assert np.isnan([found.victim_loss, found.victim_loss_sum]).all()
    assert found.theft == theft or (np.isnan(theft) and np.isnan(found.theft))


def test_payments_of_two_markets_are_refused():
    with pytest.raises(DataMarketError, match="'c' is no provider"):
        harm({"a": 1.0, "b": 1.0, "c": 1.0}, {"a": 1.0, "b": 1.0})
    with pytest.raises(DataMarketError, match="no honest payment"):
        harm({"b": 1.0}, {"a": 1.0, "b": 1.0})


def test_reports_hold_the_harm(market):
    """Copies of another's units, where names play and nothing is tied: competition, and counted as such."""
    oracle = market.utility_oracle(Utility("knn@3", "chance"))
    attacked = ATTACKS.create("copycat").apply(1, market.state)
    m = get_mechanism("shapley")
    honest, paid = (m.pay(p.submission, oracle) for p in (market.honest, attacked))
    report = Metrics.evaluate(paid, attacked, honest)
    found = harm_of(honest, paid, attacked, "provider_1")
    assert (report.victim_loss, report.victim_loss_sum, report.theft) == (
        found.victim_loss, found.victim_loss_sum, found.theft,
    )  # fmt: skip
    assert report.victim_loss > 0
    assert {"victim_loss", "victim_loss_sum", "theft"} <= set(report.as_row())
    untouched = Metrics.evaluate(honest, market.honest, honest)
    assert (untouched.victim_loss, untouched.victim_loss_sum, untouched.theft) == (0.0, 0.0, 0.0)
