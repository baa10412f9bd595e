"""The checks that a run asks for before it is approved, in a sentence: how many, of what power, what they deter."""

from __future__ import annotations

import numpy as np

from datamarket_gym.analysis.theorems.deterrence import Earned, deterrence_gap
from datamarket_gym.display import counted
from datamarket_gym.execution.arrays import Values
from datamarket_gym.mechanism.allocation import floored
from datamarket_gym.mechanism.payment_tables import unit_amounts
from datamarket_gym.payout.results import Results


def kappas(results: Results) -> Values:
    """kappa = P / T of each payee whose units earn anything, by the amounts that are divided.

    Under ``zero`` nothing below zero is.
    """
    used = floored(results.payments) if results.spec.negative == "zero" else results.payments
    units = unit_amounts(used)
    sums = Earned(results.payees.group[units.identity], units.amount).sums()
    return sums.kappas(sums.owed)


def required_checks_message(results: Results) -> str:
    """What is to be checked and what that deters; runs by accuracy without checks say nothing, as they always did."""
    spec = results.spec
    if not spec.checks:
        return (
            "" if spec.worth.signed else "No checks of units are asked for before this run is approved."
        )
    kappa = kappas(results)
    gaps = np.array([deterrence_gap(spec.spot_checks, each) for each in kappa.tolist()])
    half, most = f"{np.median(gaps):.1%}", f"{gaps.max():.1%}"
    gain = f"at most {most} of its payment"
    if half != most:
        gain = f"at most {half} of its payment, for half of the payees, and {most} for any"
    return (
        f"Before this run is approved, {counted(spec.checks, 'unit')} of each payee are to be checked, drawn by what "
        "they earn (datamarket check plan, draw, record, settle). Where a check finds a unit that is not genuine "
        f"{spec.power:.0%} of the time and who fails is paid nothing, submitting such units can be expected to gain a "
        f"payee {gain}, beyond what they raise the pay of its genuine units by (kappa is at most {kappa.max():.2f}). A "
        "unit that is drawn more than once is to be looked at as often, by different people."
    )
