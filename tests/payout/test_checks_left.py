"""What a plan says is left to gain: payee by payee, by each one's kappa, weighted by what it is paid."""

import numpy as np
import pytest

from datamarket_gym.analysis.theorems import Checks, deterrence_gap
from datamarket_gym.payout.checks.plan import CheckedPayee, CheckPlan, summarize_plan

CHECKS = Checks(3, 0.8)
PLAN = CheckPlan(checks=3, power=0.8, carried=["waiting"], least=50)


def payee(name, paid, kappa, units=2000):
    """Many small units, so that whether one that is drawn twice is examined anew hardly matters."""
    amount = np.full(units, 1.0)
    names = [f"{name} {i}" for i in range(units)]
    return CheckedPayee(name, paid, names, [name] * units, np.arange(units), amount, units / kappa)


def test_what_is_left_goes_by_kappa_and_by_pay():
    payees = [payee("even", 100, 1.0), payee("lossy", 300, 2.0), payee("waiting", 40, 4.0)]
    found = summarize_plan(PLAN, payees)
    even, lossy = deterrence_gap(CHECKS), deterrence_gap(CHECKS, 2.0)
    assert found.gap == pytest.approx((100 * even + 300 * lossy) / 400, rel=0.01)
    assert found.most == pytest.approx(lossy, rel=0.01)
    assert found.kappa == 2.0
    assert (found.payees, found.paid, found.carried) == (2, 400, 40)


def test_a_payee_of_many_units_is_hardly_drawn_twice_and_one_of_a_single_unit_always():
    assert summarize_plan(PLAN, [payee("even", 100, 1.0)]).units == pytest.approx(3, rel=0.01)
    assert summarize_plan(PLAN, [payee("one", 100, 1.0, units=1)]).units == pytest.approx(1)
