"""Markets in which nothing but what is submitted tells who is an attacker.

Providers of a market are numbered, pseudonyms are written after the name they belong to and copies after the unit they
copy, and attackers' units come last. A mechanism that looked for that would need no evidence. So identities and units
are renamed by a keyed hash, rows are shuffled, and what a real market would not know (sources, accounts) is left out.
Times are places in the order of arrival, and what an attacker adds comes among the others' units (`_arrivals`).
In tasks every provider has as many units as the next, and there are always as many providers, so that one with
another number would be an attacker. Here both differ from draw to draw, within known bounds (docs/enter.md).

One provider of one blind market facing one mechanism, and what every attack comes to.

What a name is owed below zero cannot be collected: every name is paid at least nothing, and an attacker leaves the
names that lost. The gain of an attack is measured over honest pay, or over a tenth of an equal share of the honest pot
where that is more, so that it means something under every mechanism that pays at all:

    gain = 1 + (pay - honest pay) / max(honest pay, CLEAR * pot / providers)
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from datamarket_gym.analysis.metrics import CLEAR, ROUNDING, harm_of, pot_shares, provider_totals
from datamarket_gym.analysis.redteam.best_response import AttackCosts, Effort, Response, Target
from datamarket_gym.analysis.spot_checks import checked_attack
from datamarket_gym.data.content_keys import keyed_generator
from datamarket_gym.data.ground_truth import GroundTruth, SubmittedProfile
from datamarket_gym.data.inputs import Text
from datamarket_gym.errors import DataMarketError, UnclearPayError
from datamarket_gym.evidence.graph import suppress_market_warnings
from datamarket_gym.execution.arrays import Values
from datamarket_gym.market.attacks.base import squares
from datamarket_gym.market.market import MarketState, ProviderMarket
from datamarket_gym.mechanism.allocation import PaidTotals
from datamarket_gym.mechanism.own_mechanism import OwnMechanism, OwnPayments
from datamarket_gym.mechanism.pipeline import Mechanism, get_mechanism
from datamarket_gym.utilities.labels import require_learnable
from datamarket_gym.utilities.oracle import UtilityOracle

_LEAVE = 3  # up to one less so many providers of a task stay away
_LEAST = 0.4  # of its units, what a provider brings at least
_RHYTHM = 1.5  # the largest logarithm of a beta law's parameters


def uneven(market: ProviderMarket, key: int) -> ProviderMarket:
    """Return the market of some of its providers, each with some of its units."""
    rng = keyed_generator(key, "uneven")
    parts = market.provider_partition
    coming = np.sort(rng.permutation(len(parts))[int(rng.integers(_LEAVE)) :])
    brought = [
        parts[i][: max(2, round(float(rng.uniform(_LEAST, 1.0)) * len(parts[i])))]
        for i in coming.tolist()
    ]
    return ProviderMarket(
        market.dataset, brought, market.utility.learner, market.utility.empty,
        seed=market.seed, times=market.times,
    )  # fmt: skip


def blind_state(market: ProviderMarket, key: int) -> MarketState:
    """Return what attackers of a market can act on, under names that say nothing; its clock is the operator's own."""
    state = market.state
    honest = state.honest
    if honest.submission.time is not None:
        honest = replace(honest, submission=replace(honest.submission, time=_rhythms(honest, key)))
    return replace(state, honest=_renamed(honest, key, honest=None), logged=True)


def _rhythms(honest: SubmittedProfile, key: int) -> Values:
    """Return times at which providers come each in a rhythm of its own: some early, some late, some all along.

    Copies come late, since they come after their originals. Were all other units spread evenly, a provider who is late
    on average would be an attacker.
    """
    owner, rng = honest.truth.aligned(honest.submission).owner, keyed_generator(key, "rhythms")
    times = np.empty(len(owner))
    for name in sorted(set(owner.tolist())):
        early, late = np.exp(rng.uniform(-_RHYTHM, _RHYTHM, size=2))
        own = owner == name
        times[own] = rng.beta(early, late, size=int(own.sum()))
    return times


def blind_profile(profile: SubmittedProfile, honest: SubmittedProfile, key: int) -> SubmittedProfile:
    """Return an attacked profile of a blind market: new names and units are renamed, and all rows shuffled."""
    submission = profile.submission
    if submission.time is not None:
        submission = replace(submission, time=_arrivals(profile, honest, key))
    return _renamed(replace(profile, submission=submission), key, honest=honest)


def _arrivals(profile: SubmittedProfile, honest: SubmittedProfile, key: int) -> Values:
    """Return times of an attacked profile at which added units come among the others, none before its source.

    Attacks hand in what they add after everything else, or before, so that a mechanism could drop the end of the
    queue. Here an added unit comes at any moment after its source and after the other provider's unit that it
    is nearest to, whatever it says that its source is; before its source where the attack wants that, the source is the
    attacker's own and nothing of others is nearer.
    """
    submission, truth = profile.submission, profile.truth.aligned(profile.submission)
    before, owner = honest.submission, honest.truth.aligned(honest.submission).owner
    place = {unit: at for at, unit in enumerate(before.id.tolist())}
    added = [row for row, unit in enumerate(submission.id.tolist()) if unit not in place]
    times, moments = submission.times.copy(), keyed_generator(key, "arrivals").random(len(added))
    others = np.flatnonzero(owner != profile.attacker)
    apart = squares(submission.features[added], before.features)
    for number, (row, moment) in enumerate(zip(added, moments.tolist(), strict=True)):
        low, high = 0.0, 1.0
        source = place.get(str(truth.source[row]))
        near = others[apart[number, others].argmin()] if len(others) else None
        if source is not None:
            mine = owner[source] == profile.attacker
            closer = near is not None and apart[number, near] <= apart[number, source]
            if mine and not closer and submission.times[row] < before.times[source]:
                high, near = before.times[source], None
            else:
                low = before.times[source]
        if near is not None:
            low = max(low, before.times[near])
        times[row] = low + (high - low) * moment
    return times


def _renamed(profile: SubmittedProfile, key: int, honest: SubmittedProfile | None) -> SubmittedProfile:
    submission, truth = profile.submission, profile.truth.aligned(profile.submission)
    names = set() if honest is None else set(honest.truth.controller)
    units = set() if honest is None else set(honest.submission.id.tolist())

    def hashed(what: str, unchanged: set[str], text: str) -> str:
        digest = hashlib.sha256(f"{key}|{what}|{text}".encode()).hexdigest()
        return text if text in unchanged else digest[:16]

    name, unit = partial(hashed, "name", names), partial(hashed, "unit", units)
    rows = keyed_generator(key, "rows").permutation(len(submission))

    def column(values: Text, by: Callable[[str], str]) -> Text:
        return np.array([by(text) for text in values[rows].tolist()])

    time = None
    if submission.time is not None:  # the order of arrival, from 0 to 1; equal times have one place
        distinct, place = np.unique(submission.time[rows], return_inverse=True)
        time = place / len(distinct)
    shown = replace(
        submission.take(rows),
        id=column(submission.id, unit),
        identity=column(submission.identity, name),
        source=None,
        batch=None,
        time=time,
        metadata={},
    )
    controller = {name(identity): name(owner) for identity, owner in truth.controller.items()}
    blind_truth = GroundTruth(
        shown.id, column(truth.owner, name), column(truth.source, unit), controller
    )
    attacker = None if profile.attacker is None else name(profile.attacker)
    return SubmittedProfile(shown, blind_truth, attacker, profile.attack)


ORACLE = get_mechanism(
    "quotient_shapley/oracle_latent", granularity="unit", representative="collapse", leak_check="drop"
)
"""Shapley over latent owners: what each owner's content is worth, whatever identity submitted it."""


def measured_gain(pay: float, honest_pay: float, pot: float, providers: int) -> float:
    """Return the gain of the module's docstring."""
    return 1.0 + (pay - honest_pay) / max(honest_pay, CLEAR * pot / providers)


def owned(profile: SubmittedProfile, utility: UtilityOracle) -> tuple[dict[str, float], float]:
    """Return what the latent oracle pays each provider for the content it owns, and what all of it is worth."""
    paid = ORACLE.pay(profile.submission, utility, profile.truth)
    playing = paid.clustering.submission or profile.submission
    owner = profile.truth.aligned(playing).owner
    amounts = dict.fromkeys(sorted(set(profile.truth.controller.values())), 0.0)
    first = np.unique(paid.clustering.label, return_index=True)[1]
    for name, value in zip(owner[first].tolist(), paid.scores.values.tolist(), strict=True):
        amounts[name] += value
    return amounts, paid.grand_value


def fairness_loss(paid: PaidTotals, profile: SubmittedProfile, utility: UtilityOracle) -> float:
    """Return the part of the pot that is with the wrong provider: half the L1 distance to the latent oracle's shares.

    All of it where nothing is paid.
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
        with suppress(UnclearPayError):  # gains are measured over a part of the pot
            super().__post_init__()
        self._outcomes: dict[tuple[str, float], PlayedAttack] = {}
        paid = self._due(self.honest.payments, self.state.honest)
        self.honest_due = paid
        self.pay = paid.total([self.name])
        self.pot = float(paid.totals.sum())
        if self.pot <= ROUNDING:
            raise DataMarketError(
                f"{self._payer.name} pays no provider anything where all are honest; "
                "a mechanism that is to be ranked pays for data"
            )

    def over_honest(self, paid: float) -> float:
        return measured_gain(paid, self.pay, self.pot, len(self.state.providers))

    def knowing(self, knowledge: float) -> BlindTarget:
        """Return the same attacker with another knowledge of the others' units; both share what is paid."""
        other = copy(self)
        other.knowledge = knowledge
        return other

    def as_handed_in(self, attack: str) -> SubmittedProfile:
        """Return the manipulated profile at the times that the attack wants."""
        return super().profile(attack)

    def profile(self, attack: str) -> SubmittedProfile:
        return blind_profile(self.as_handed_in(attack), self.state.honest, self.key)

    def outcome(self, attack: str) -> PlayedAttack:
        """Return what an attack comes to; an error of a mechanism that will not pay goes through."""
        key = (attack, self.knowledge)
        if key not in self._outcomes:
            profile = self.profile(attack)
            require_learnable(profile.submission.label, self.utility)
            self._outcomes[key] = self._played(profile)
        return self._outcomes[key]

    def _played(self, profile: SubmittedProfile) -> PlayedAttack:
        try:
            with suppress_market_warnings():
                paid = self._payer.pay(profile.submission, self.utility)
                due = self._due(paid, profile)
                pay = due.total(profile.identities_of(self.name))
                if self.checks is not None:
                    checked = checked_attack(
                        self._payer, profile, paid, self.state.honest, self.pay, self.utility
                    )
                    pay = checked.expected(self.checks).pay
        except Exception as error:  # whatever a submitted mechanism raises, it has not paid
            raise refused(self._payer, profile.attack, error) from error
        evaluations = None if math.isnan(paid.evaluations) else int(paid.evaluations)
        return PlayedAttack(pay, due, profile, paid.seconds, evaluations)

    def _due(self, paid: PaidTotals, profile: SubmittedProfile) -> OwnPayments:
        """Return what names collect: nothing below zero."""
        amounts = paid.as_dict()
        names = profile.submission.identities.tolist()
        due = np.array([max(amounts[name], 0.0) for name in names])
        return OwnPayments(profile.submission, due, self.utility, paid.seconds)

    def respond(self, attack: str, costs: AttackCosts) -> Response | None:
        """Return what an attack gains; None where it cannot be carried out, whatever the mechanism."""
        try:
            played = self.outcome(attack)
        except RefusedError:
            raise
        except DataMarketError as error:  # more names than units, a class that is gone
            self.impossible[attack] = str(error)
            return None
        effort = Effort.of(played.profile, self.state)
        gain = self.over_honest(played.pay)
        unchecked = self.over_honest(played.paid.total(played.profile.identities_of(self.name)))
        harm = harm_of(self.honest_due, played.paid, played.profile, self.name)
        return Response(attack, unchecked, gain, gain - costs.of(effort), effort, harm)

    @property
    def tried(self) -> list[str]:
        """Return the attacks whose outcomes are known at this knowledge."""
        return [attack for attack, knowledge in self._outcomes if knowledge == self.knowledge]

    def fairness_loss(self, played: PlayedAttack) -> float:
        return fairness_loss(played.paid, played.profile, self.utility)


class RefusedError(DataMarketError):
    """A mechanism did not pay a market; one that is to be ranked pays all of them."""


def refused(payer: Mechanism | OwnMechanism, attack: str, error: Exception) -> RefusedError:
    return RefusedError(
        f"{payer.name} did not pay the market of attack {attack!r}: {type(error).__name__}: {error}"
    )


def require_after_originals(profile: SubmittedProfile) -> None:
    """Refuse an attack whose copies of others' units came before them: a forged clock, or foresight."""
    submission, truth = profile.submission, profile.truth.aligned(profile.submission)
    mine = np.isin(submission.identity, profile.identities_of(str(profile.attacker)))
    theirs = np.flatnonzero(~mine).tolist()
    named = {str(submission.id[row]): row for row in theirs}
    by_content = {submission.features[row].tobytes(): row for row in theirs}
    for at in np.flatnonzero(mine).tolist():
        for original in (
            named.get(str(truth.source[at])),
            by_content.get(submission.features[at].tobytes()),
        ):
            if original is not None and submission.times[at] <= submission.times[original]:
                raise DataMarketError(
                    f"attack {profile.attack!r} hands in a copy of another's unit before that came; the track has "
                    "neither forged clocks nor foresight: let copies come later"
                )
