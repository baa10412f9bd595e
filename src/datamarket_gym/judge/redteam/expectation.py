"""What an attacker can expect where payees are checked, and of which mechanisms that is known."""

from __future__ import annotations

from datamarket_gym.core.errors import ParameterError
from datamarket_gym.judge.checked import CheckedAttack
from datamarket_gym.judge.guarantees.deterrence import Checks
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.pipeline.own import OwnMechanism
from datamarket_gym.pipeline.payments import PaidTotals, Payments
from datamarket_gym.units.truth import SubmittedProfile


def require_checkable(mechanism: Mechanism | OwnMechanism, checks: Checks | None) -> None:
    """Refuse checks of what a mechanism of somebody's own pays."""
    if checks is not None and not isinstance(mechanism, Mechanism):
        raise _uncheckable(mechanism)


def asked_checks(
    mechanism: Mechanism | OwnMechanism, per_payee: int | None, power: float
) -> Checks | None:
    """The checks that were asked for, none if that is 0; left open, the usual ones where they can be drawn."""
    if per_payee is None:
        return Checks(power=power) if isinstance(mechanism, Mechanism) else None
    return Checks(per_payee, power) if per_payee else None


def checked_attack(
    mechanism: Mechanism | OwnMechanism,
    attacked: SubmittedProfile,
    paid: PaidTotals,
    honest: SubmittedProfile,
    honest_pay: float,
    utility: UtilityOracle,
) -> CheckedAttack:
    """An attack that was paid, to be priced under any checks."""
    if not isinstance(mechanism, Mechanism) or not isinstance(paid, Payments):
        raise _uncheckable(mechanism)
    attacker = str(attacked.attacker)
    return CheckedAttack(mechanism, attacked, honest, utility, attacker, honest_pay, paid)


def _uncheckable(mechanism: Mechanism | OwnMechanism) -> ParameterError:
    return ParameterError(
        "mechanism",
        mechanism.name,
        "it does not say what each unit earns, by which units to check are drawn; leave checks out",
    )
