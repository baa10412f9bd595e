"""One provider of one blind market facing one mechanism, and what every attack comes to.

What a name is owed below zero nobody can collect: every name is paid at least nothing, and an attacker leaves the
names that lost. The gain of an attack is measured over honest pay, or over a tenth of an equal share of the honest pot
where that is more, so that it means something under every mechanism that pays anybody at all:

    gain = 1 + (pay - honest pay) / max(honest pay, CLEAR * pot / providers)
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass

import numpy as np

from datamarket_gym.arena.blind import blind_profile
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.evidence.collapse import told_once
from datamarket_gym.judge.metrics import CLEAR, ROUNDING, harm_of, pot_shares, provider_totals
from datamarket_gym.judge.redteam.best_response import Response, Target
from datamarket_gym.judge.redteam.expectation import checked_attack
from datamarket_gym.judge.redteam.space import AttackCosts, Effort
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.learners.targets import require_learnable
from datamarket_gym.pipeline.mechanism import Mechanism, mechanism
from datamarket_gym.pipeline.own import OwnMechanism, OwnPayments
from datamarket_gym.pipeline.payments import PaidTotals
from datamarket_gym.units.truth import SubmittedProfile

ORACLE = mechanism(
    "quotient_shapley/oracle_latent", granularity="unit", representative="collapse", leak_check="drop"
)
"""Shapley over latent owners: what each owner's content is worth, whoever handed it in."""


def measured_gain(pay: float, honest_pay: float, pot: float, providers: int) -> float:
    """The gain of the module's docstring."""
    return 1.0 + (pay - honest_pay) / max(honest_pay, CLEAR * pot / providers)


def owned(profile: SubmittedProfile, utility: UtilityOracle) -> tuple[dict[str, float], float]:
    """What the latent oracle pays each provider for the content it owns, and what all of it is worth."""
    paid = ORACLE.pay(profile.submission, utility, profile.truth)
    playing = paid.clustering.submission or profile.submission
    owner = profile.truth.aligned(playing).owner
    amounts = dict.fromkeys(sorted(set(profile.truth.controller.values())), 0.0)
    first = np.unique(paid.clustering.label, return_index=True)[1]
    for name, value in zip(owner[first].tolist(), paid.scores.values.tolist(), strict=True):
        amounts[name] += value
    return amounts, paid.grand_value


def fairness_loss(paid: PaidTotals, profile: SubmittedProfile, utility: UtilityOracle) -> float:
    """The part of the pot that is with the wrong provider: half the L1 distance to the latent oracle's shares.

    All of it where nobody is paid anything.
    """
    shares = pot_shares(provider_totals(paid, profile))
    if not any(shares.values()):
        return 1.0
    ideal = pot_shares(owned(profile, utility)[0])
    return sum(abs(shares[name] - ideal[name]) for name in shares) / 2


@dataclass(frozen=True)
class PlayedAttack:
    """What an attack was paid, in expectation where payees are checked, and by what payments."""

    pay: float
    paid: PaidTotals
    profile: SubmittedProfile
    seconds: float
    evaluations: int | None


@dataclass(eq=False)
class BlindTarget(Target):
    """A `Target` in a blind market. The mechanism is shown no truth, and must pay whatever can be paid."""

    key: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._outcomes: dict[tuple[str, float], PlayedAttack] = {}
        paid = self._due(self.honest.payments, self.state.honest)
        self.honest_due = paid
        self.pay = paid.total([self.name])
        self.pot = float(paid.totals.sum())
        if self.pot <= ROUNDING:
            raise DataMarketError(
                f"{self._payer.name} pays nobody anything where all are honest; "
                "a mechanism that is to be ranked pays for data"
            )

    def _require_clear(self) -> None:
        """Whatever honest pay is, gains have a meaning here."""

    def over_honest(self, paid: float) -> float:
        """As the module's docstring has it."""
        return measured_gain(paid, self.pay, self.pot, len(self.state.providers))

    def knowing(self, knowledge: float) -> BlindTarget:
        """The same attacker, who sees another share of the others' units; what is paid is remembered by both."""
        other = copy(self)
        other.knowledge = knowledge
        return other

    def as_handed_in(self, attack: str) -> SubmittedProfile:
        """The manipulated profile at the times that the attack wants."""
        return super().profile(attack)

    def profile(self, attack: str) -> SubmittedProfile:
        """The manipulated profile, blind."""
        return blind_profile(self.as_handed_in(attack), self.state.honest, self.key)

    def outcome(self, attack: str) -> PlayedAttack:
        """What an attack comes to; an error of a mechanism that will not pay goes through."""
        known = (attack, self.knowledge)
        if known not in self._outcomes:
            profile = self.profile(attack)
            require_learnable(profile.submission.label, self.utility)
            self._outcomes[known] = self._played(profile)
        return self._outcomes[known]

    def _played(self, profile: SubmittedProfile) -> PlayedAttack:
        try:
            with told_once():
                paid = self._payer.pay(profile.submission, self.utility)
                due = self._due(paid, profile)
                pay = due.total(profile.identities_of(self.name))
                if self.checks is not None:
                    checked = checked_attack(
                        self._payer, profile, paid, self.state.honest, self.pay, self.utility
                    )
                    pay = checked.expected(self.checks).pay
        except Exception as error:  # whatever somebody's mechanism does, it has not paid
            raise refused(self._payer, profile.attack, error) from error
        told = paid.evaluations
        return PlayedAttack(pay, due, profile, paid.seconds, None if math.isnan(told) else int(told))

    def _due(self, paid: PaidTotals, profile: SubmittedProfile) -> OwnPayments:
        """What names collect: nothing below zero."""
        amounts = paid.as_dict()
        names = profile.submission.identities.tolist()
        due = np.array([max(amounts[name], 0.0) for name in names])
        return OwnPayments(profile.submission, due, self.utility, paid.seconds)

    def respond(self, attack: str, costs: AttackCosts) -> Response | None:
        """What an attack gains; None where it cannot be carried out, whatever the mechanism."""
        try:
            found = self.outcome(attack)
        except RefusedError:
            raise
        except DataMarketError as error:  # more names than units, a class that is gone
            self.impossible[attack] = str(error)
            return None
        effort = Effort.of(found.profile, self.state)
        gain = self.over_honest(found.pay)
        unchecked = self.over_honest(found.paid.total(found.profile.identities_of(self.name)))
        harm = harm_of(self.honest_due, found.paid, found.profile, self.name)
        return Response(attack, unchecked, gain, gain - costs.of(effort), effort, harm)

    @property
    def tried(self) -> list[str]:
        """The attacks whose outcomes are known at this knowledge."""
        return [attack for attack, knowledge in self._outcomes if knowledge == self.knowledge]

    def fairness_loss(self, found: PlayedAttack) -> float:
        """Of an outcome."""
        return fairness_loss(found.paid, found.profile, self.utility)


class RefusedError(DataMarketError):
    """A mechanism did not pay a market; whoever is to be ranked pays all of them."""


def refused(payer: Mechanism | OwnMechanism, attack: str, error: Exception) -> RefusedError:
    """That somebody's mechanism did not pay, and why."""
    return RefusedError(
        f"{payer.name} did not pay the market of attack {attack!r}: {type(error).__name__}: {error}"
    )


def require_after_originals(profile: SubmittedProfile) -> None:
    """Refuse an attack whose copies of others' units came before them: a forged clock, or foresight."""
    submission, truth = profile.submission, profile.truth.aligned(profile.submission)
    mine = np.isin(submission.identity, profile.identities_of(str(profile.attacker)))
    theirs = np.flatnonzero(~mine).tolist()
    named = {str(submission.id[row]): row for row in theirs}
    alike = {submission.features[row].tobytes(): row for row in theirs}
    for at in np.flatnonzero(mine).tolist():
        said, found = named.get(str(truth.source[at])), alike.get(submission.features[at].tobytes())
        for original in (said, found):
            if original is not None and submission.times[at] <= submission.times[original]:
                raise DataMarketError(
                    f"attack {profile.attack!r} hands in a copy of another's unit before that came; the track has "
                    "neither forged clocks nor foresight: let copies come later"
                )
