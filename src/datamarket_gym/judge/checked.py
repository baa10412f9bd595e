"""What an attack is worth, in expectation, where the market checks some units of every payee.

The market of `judge.guarantees.deterrence`, played to its end: a name fails with probability 1 - (1 - q F / P)^m, F
being what its units earn that are not genuine. It is paid nothing from then on, but its genuine units go on playing:
if they left, the cheat's other names would earn what they earned, and failing would cost nothing. Its false units
leave, all of them. (An operator takes out those that were found; the bound does not ask which of them go.) The market
is then paid, and drawn, again, until nobody fails. Names whose total is below zero are paid nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from datamarket_gym.evidence.collapse import told_once
from datamarket_gym.judge.drafts import Drafts
from datamarket_gym.judge.guarantees.deterred import GAIN, Deterrence, certified_checks
from datamarket_gym.judge.guarantees.deterrence import Checks
from datamarket_gym.judge.guarantees.spill import Spill
from datamarket_gym.judge.metrics import ROUNDING
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.pipeline.payments import Payments
from datamarket_gym.units.truth import SubmittedProfile


@dataclass(frozen=True)
class Expected:
    """A provider's expected payment, in units of the utility and as a share of a fixed pot, and what it is made of.

    Of a fixed pot what was forfeited is divided among those who are left. There it matters whether false units of
    names that failed leave: as long as they stay they dilute the others, and the share of whoever is not diluted
    grows. ``share`` is the larger one of all of them leaving and none.

    The bound that it obeys is pay <= honest pay + drafted * gap(kappa) + spill. Name j takes part in it in the market
    R in which all others pass, of which there is one at most on any path, reached with probability w_j(R):

        drafted = sum over j, R of w_j(R) (what j is due in R)
        spill   = sum over j, R of w_j(R) (what of that is for genuine units) - honest pay, or 0 if that is less

    so that spill is what genuine units earn more than when honest: more than they did, or because bad units that would
    have taken something off were parked under a name below zero. ``false_share``: the part of the payment, before
    checks, that is not for genuine units. ``kappa`` and ``largest_unit`` are the largest of its names'.
    """

    checks: Checks
    pay: float
    share: float
    spill: float
    false_share: float
    kappa: float
    drafted: float
    largest_unit: float

    def deterrence(self, *, gain: float = GAIN) -> Deterrence:
        """What the checks leave to this attack by the bound, to be filed; all its names are taken for one payee."""
        spill = Spill(known="measured", amount=self.spill)
        return certified_checks(
            self.checks, payments=[self.drafted], kappa=self.kappa, largest_unit=self.largest_unit, spill=spill,
            gain=gain, examined="anew",
        )  # fmt: skip


@dataclass(eq=False)
class CheckedAttack(Drafts):
    """One provider's attack on a market with checks: every outcome is paid once, and priced under any `Checks`."""

    provider: str
    honest_pay: float
    paid: Payments | None = None

    def __post_init__(self) -> None:
        self._begin(self.profile.identities_of(self.provider), self.paid)

    def expected(self, checks: Checks) -> Expected:
        """The expectation under these checks."""
        first = self._after(frozenset()).names.values()
        due, own = sum(name.due for name in first), sum(name.own for name in first)
        pay = share = drafted = earned = 0.0
        kappa, largest = 1.0, 0.0
        for draft in self._reached(checks):
            if not draft.left:
                continue  # nothing is paid to this provider
            chance, left, passes = draft.chance, draft.left, draft.passes
            everybody, pot = math.prod(passes.values()), self._after(draft.failed).pot
            paid = sum(pays.due for pays in left.values())
            pay += chance * everybody * paid
            share += chance * everybody * (paid / pot if pot > ROUNDING else 0.0)
            for name, pays in left.items():
                others = math.prod(p for other, p in passes.items() if other != name)
                drafted += chance * others * pays.due
                earned += chance * others * pays.own
                if pays.due > ROUNDING:
                    kappa, largest = max(kappa, pays.kappa), max(largest, pays.largest_unit)
        return Expected(
            checks=checks,
            pay=pay,
            share=max(share, self._share_where_the_rest_stays(checks)),
            spill=max(0.0, earned - max(self.honest_pay, 0.0)),
            false_share=1.0 - own / due if due > ROUNDING else 0.0,
            kappa=kappa,
            drafted=drafted,
            largest_unit=largest,
        )

    def passes(self, checks: Checks) -> dict[str, float]:
        """The probability that each of the provider's names passes, in the market in which nobody has failed yet."""
        first = self._after(frozenset()).names
        return {name: checks.passes(pays.drawn_false) for name, pays in first.items()}

    def _share_where_the_rest_stays(self, checks: Checks) -> float:
        """The expected share of the pot where an operator takes out nothing but what was found: next to nothing.

        False units of names that failed go on diluting the others, and amounts, hence draws, stay as they were.
        """
        market, passes = self._after(frozenset()), self.passes(checks)
        share = 0.0
        for caught, likely in self._outcomes(passes):
            paid = sum(pays.due for name, pays in market.names.items() if name not in caught)
            pot = market.pot - sum(market.names[name].due for name in caught)
            share += likely * (paid / pot if pot > ROUNDING else 0.0)
        return share


def expected(
    mechanism: Mechanism,
    profile: SubmittedProfile,
    honest: SubmittedProfile,
    utility: UtilityOracle,
    provider: str,
    checks: Checks,
    paid: Payments | None = None,
) -> Expected:
    """What an attack pays its provider in expectation; ``paid`` is what the attacked profile was paid, if known."""
    with told_once():
        honest_pay = mechanism.pay(honest.submission, utility, honest.truth).total([provider])
    return CheckedAttack(mechanism, profile, honest, utility, provider, honest_pay, paid).expected(
        checks
    )
