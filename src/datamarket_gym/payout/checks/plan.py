"""check plan: how many units of each payee are looked at, what that costs, and what it leaves to be gained.

A plan decides the draw, with the run and the beacon, and may change until there is one. Payees who are paid less than
``least`` are not checked, and not paid: what is paid is what is drawn from. Their units can be handed in again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from datamarket_gym.core.arrays import Values
from datamarket_gym.core.errors import DataMarketError, ParameterError, require_in
from datamarket_gym.core.files import json_text, write_text
from datamarket_gym.core.specs import Document
from datamarket_gym.judge.guarantees.deterrence import (
    Checks,
    deterrence_gap,
    expected_false_alarm_cost,
    false_alarm_probability,
)
from datamarket_gym.payout.checks import entries
from datamarket_gym.payout.checks.payees import CheckedPayee, paid_payees
from datamarket_gym.payout.manifest import read_manifest, settled_by, spec_of
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.spec import MOST_CHECKS

FOLDER = "checks"
FILE = f"{FOLDER}/plan.json"


class CheckPlan(Document):
    """What was planned; amounts are in minor units."""

    checks: int = Field(ge=1, le=MOST_CHECKS)
    power: float = Field(gt=0, le=1)
    announced: str = ""  # what the beacon will be
    least: int = Field(default=0, ge=0)
    carried: list[str] = Field(default_factory=list)  # payees who are paid less than that
    price: int = Field(default=0, ge=0)  # of one check
    false_alarms: float = Field(
        default=0.0, ge=0, le=1
    )  # how often a check takes a genuine unit for false

    @property
    def spot_checks(self) -> Checks:
        """m and q."""
        return Checks(self.checks, self.power)

    @property
    def text(self) -> str:
        """The plan as it is entered into the book, hashed and kept."""
        return json_text(self.model_dump(mode="json"))


@dataclass(frozen=True)
class Wishes:
    """What the operator asks for; None where the run's own settings decide."""

    checks: int | None = None
    gain: float | None = None
    power: float | None = None
    price: str | None = None
    least: str | None = None
    false_alarms: float = 0.0
    announce: str = ""


@dataclass(frozen=True)
class PlanSummary:
    """A plan in numbers; amounts are in minor units."""

    plan: CheckPlan
    payees: int  # to be checked
    paid: int  # to them
    carried: int  # what those who are not checked would be paid
    kappa: float  # the largest of those checked
    gap: float  # what may still be gained, in expectation, as a part of what is paid to them
    once: float  # the same, were a unit that is drawn twice looked at once
    most: float  # the same of one payee, as a part of its payment, at the most
    units: float  # different units that are expected to be drawn
    below_price: int  # payees who are to be checked and are paid less than their checks cost

    @property
    def in_all(self) -> int:
        """Checks at most; fewer in a run that settles another, of which looks stand."""
        return self.plan.checks * self.payees

    @property
    def again(self) -> float:
        """Looks at units that somebody else looks at too, as many as are expected."""
        return max(0.0, self.in_all - self.units)

    @property
    def cost(self) -> int:
        """What the checks cost."""
        return self.in_all * self.plan.price

    @property
    def alarmed(self) -> float:
        """The probability that an honest payee fails, by checks that take genuine units for false."""
        return false_alarm_probability(self.plan.spot_checks, self.plan.false_alarms)

    @property
    def alarm_cost(self) -> int:
        """What honest payees lose by that in expectation, all together."""
        return round(
            expected_false_alarm_cost(self.plan.spot_checks, self.plan.false_alarms, [self.paid])
        )


def make_plan(run: Path, wishes: Wishes, by: str | None = None) -> PlanSummary:
    """Plan a run's checks; a plan that was made before is replaced, unless it was drawn by."""
    found = foreseen(run, wishes)
    with entries.working_in(run):
        entries.enter_plan(run, found.plan.text, found.plan.announced, by)
        write_text(run / FILE, found.plan.text)
    return found


def foreseen(run: Path, wishes: Wishes) -> PlanSummary:
    """What a plan would come to; nothing is written."""
    manifest = read_manifest(run)
    payees = paid_payees(run, manifest)
    return summary(_plan(manifest, payees, wishes), payees)


def read_plan(run: Path) -> CheckPlan:
    """The plan as the book has it."""
    text = entries.read_plan(run)
    if text is None:
        raise DataMarketError(f"no checks are planned; run: datamarket check plan {run}")
    return CheckPlan.model_validate_json(text)


def summary(plan: CheckPlan, payees: list[CheckedPayee]) -> PlanSummary:
    """What a plan comes to for the payees of its run."""
    waiting = frozenset(plan.carried)
    checked = [p for p in payees if p.name not in waiting]
    each = plan.checks * plan.price
    gaps = _gaps(plan.spot_checks, checked)
    once = [deterrence_gap(plan.spot_checks, p.kappa, largest_unit=p.largest_unit) for p in checked]
    return PlanSummary(
        plan,
        len(checked),
        sum(p.paid for p in checked),
        sum(p.paid for p in payees if p.name in waiting),
        max(p.kappa for p in checked),
        _together(gaps, checked),
        _together(np.array(once), checked),
        float(gaps.max()),
        float(sum((1.0 - (1.0 - p.share) ** plan.checks).sum() for p in checked)),
        sum(p.paid < each for p in checked),
    )


def _plan(manifest: dict[str, Any], payees: list[CheckedPayee], wishes: Wishes) -> CheckPlan:
    money = Currency(manifest["currency"])
    power = spec_of(manifest).power if wishes.power is None else wishes.power
    require_in("power", power, 0.0, 1.0, open_low=True)
    require_in("false alarms", wishes.false_alarms, 0.0, 1.0)
    if not wishes.announce.isprintable():
        raise ParameterError("announce", ascii(wishes.announce), "announce plain text that can be read")
    least = 0 if wishes.least is None else money.minor(wishes.least)
    carried = [p.name for p in payees if p.paid < least]
    checked = [p for p in payees if p.paid >= least]
    if not checked:
        raise DataMarketError(
            f"nobody is paid {wishes.least} or more, so nobody would be checked or paid; lower --least"
        )
    return CheckPlan(
        checks=_checks(_promised(manifest), checked, wishes, power),
        power=power,
        announced=wishes.announce.strip(),
        least=least,
        carried=carried,
        price=0 if wishes.price is None else money.minor(wishes.price),
        false_alarms=wishes.false_alarms,
    )


def _promised(manifest: dict[str, Any]) -> int:
    """Checks that the run was paid with the promise of, or that were made of the draft that it settles."""
    settles = settled_by(manifest)
    asked = spec_of(manifest).checks
    return asked if settles is None else max(asked, settles.checks)


def _checks(asked: int, checked: list[CheckedPayee], wishes: Wishes, power: float) -> int:
    """Checks of each payee: as many as were named, or as leave no more than a gain; not fewer than the run promised."""
    if wishes.checks is not None and wishes.gain is not None:
        raise ParameterError(
            "gain", wishes.gain, "give either the checks or the gain that they may leave"
        )
    if wishes.gain is not None:
        return max(asked, _enough(wishes.gain, power, checked))
    count = max(asked, 1) if wishes.checks is None else wishes.checks
    require_in("checks", count, 1, MOST_CHECKS)
    if count < asked:
        raise ParameterError(
            "checks",
            count,
            f"{asked} for each payee were promised when the run was paid; plan as many or more",
        )
    return count


def _gaps(checks: Checks, payees: Sequence[CheckedPayee]) -> Values:
    """What each payee can still gain, as a part of its payment; every draw is a look of its own."""
    return np.array([deterrence_gap(checks, p.kappa) for p in payees])


def _together(gaps: Values, payees: Sequence[CheckedPayee]) -> float:
    """What all of them can gain, as a part of what they are paid: gains of payees add up."""
    return float(np.average(gaps, weights=[p.paid for p in payees]))


def _enough(gain: float, power: float, payees: Sequence[CheckedPayee]) -> int:
    """The least number of checks that leave no more than this part of what is paid."""
    require_in("gain", gain, 0.0, 1.0)

    def left(count: int) -> float:
        return _together(_gaps(Checks(count, power), payees), payees)

    if left(MOST_CHECKS) > gain or (gain == 0.0 and left(1) > 0.0):  # more leave less, and never nothing
        raise ParameterError(
            "gain",
            gain,
            f"checks of power {power:g} leave something, however many: 3 leave {left(3):.2g} of what is paid, 10 "
            f"{left(10):.2g}, {MOST_CHECKS} {left(MOST_CHECKS):.2g}; allow such a gain",
        )
    return bisect_left(range(1, MOST_CHECKS), -gain, key=lambda count: -left(count)) + 1
