"""Best response: search families and parameters for the attack with the largest net gain.

The attacker can price any manipulation by the mechanism itself, whatever share of the others' units it sees to make
it of. Where payees are checked it looks for the largest *expected* net gain, so that it may choose to cheat a little.
The optimiser is Optuna's TPE where the extra ``gym`` is installed, and SciPy's differential evolution elsewhere. What
is paid depends neither on costs nor on how many checks there are, so one attack is paid once and priced at every level
of both. What the others lose is told beside each gain, unchecked; the search does not look for it.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Protocol, TypeVar

import numpy as np

from datamarket_gym.core.content import keyed_generator
from datamarket_gym.core.errors import (
    DataMarketError,
    UnclearPayError,
    require_choice,
    require_count,
    require_in,
)
from datamarket_gym.core.extras import require_extra
from datamarket_gym.core.screen import Shown
from datamarket_gym.evidence.collapse import told_once
from datamarket_gym.judge.checked import CheckedAttack
from datamarket_gym.judge.guarantees import Certificate
from datamarket_gym.judge.guarantees.certify import certified
from datamarket_gym.judge.guarantees.deterrence import Checks
from datamarket_gym.judge.guarantees.paid import paid_by
from datamarket_gym.judge.metrics import CLEAR, Harm, clearly_paid, harm_of
from datamarket_gym.judge.redteam.expectation import checked_attack, require_checkable
from datamarket_gym.judge.redteam.own_market import moved_embeddings
from datamarket_gym.judge.redteam.space import (
    DIMENSIONS,
    FAMILIES,
    SPACE,
    AttackCosts,
    Effort,
    Space,
    starts,
)
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.pipeline.mechanism import as_mechanism
from datamarket_gym.pipeline.own import Payer
from datamarket_gym.units.truth import SubmittedProfile
from datamarket_gym.world.attacks.attack import ATTACKS
from datamarket_gym.world.attacks.knowledge import apply_knowing
from datamarket_gym.world.market import MarketState

IMPOSSIBLE = -1.0
"""The net gain an optimiser is told where an attack cannot be carried out."""


@dataclass(frozen=True)
class Response(Shown):
    """An attack: what it gains unchecked, in expectation given checks, and net of costs; what it costs the others."""

    attack: str
    gain: float
    expected_gain: float  # without checks the gain
    net_gain: float  # the expected gain less the costs
    effort: Effort
    harm: Harm


@dataclass(frozen=True)
class _Unchecked:
    gain: float
    effort: Effort
    harm: Harm


@dataclass(eq=False)
class Target(Shown):
    """One provider of one market facing one mechanism; remembers what each attack did.

    The provider expects these ``checks``, if any, and sees the share ``knowledge`` of everybody else's units.
    ``impossible`` holds the attacks that were asked for and cannot be carried out, with the reason.
    """

    state: MarketState
    mechanism: Payer
    utility: UtilityOracle
    provider: int | str = 0
    checks: Checks | None = None
    knowledge: float = 1.0

    def __post_init__(self) -> None:
        require_in("knowledge", self.knowledge, 0.0, 1.0)
        self.name = self.state.provider(self.provider)
        self._payer = as_mechanism(self.mechanism)
        require_checkable(self._payer, self.checks)
        self.honest = paid_by(self._payer, self.state.honest, self.utility)
        self.pay = self.honest.total(self.name)
        # Both are the same under any checks, so `under` shares them.
        self._known: dict[str, _Unchecked] = {}
        self._checked: dict[str, CheckedAttack] = {}
        self.impossible: dict[str, str] = {}
        self._require_clear()

    def _require_clear(self) -> None:
        """Refuse a provider whose honest pay is too little to divide by."""
        grand, n = self.honest.payments.grand_value, len(self.state.providers)
        if not clearly_paid(self.pay, grand, n):
            raise UnclearPayError(
                f"{self.name} earns {self.pay:.4g} when honest, where an equal share of v(all) is "
                f"{grand / n:.4g}: gains have no meaning below a share of {CLEAR:g} of that; "
                "choose another provider or market"
            )

    def over_honest(self, paid: float) -> float:
        """The gain of whoever is paid so much."""
        return paid / self.pay

    def under(self, checks: Checks | None) -> Target:
        """The same provider facing other checks, or none; what is paid is remembered by both."""
        require_checkable(self._payer, checks)
        other = copy(self)
        other.checks = checks
        return other

    def profile(self, attack: str) -> SubmittedProfile:
        """The manipulated profile."""
        chosen = ATTACKS.create(attack)
        found = apply_knowing(chosen, self.name, self.state, self.knowledge)
        return replace(moved_embeddings(found, self.state), attack=attack)

    def respond(self, attack: str, costs: AttackCosts) -> Response | None:
        """What an attack gains, gross and net, and what the others lose; None where it cannot be carried out."""
        try:
            self._carry_out(attack)
            known = self._known[attack]
            expected = known.gain
            if self.checks is not None:
                expected = self.over_honest(self._checked[attack].expected(self.checks).pay)
        except (
            DataMarketError
        ) as error:  # more names than units, a class that is gone, no labels to change
            self.impossible[attack] = str(error)
            return None
        net = expected - costs.of(known.effort)
        return Response(attack, known.gain, expected, net, known.effort, known.harm)

    def _carry_out(self, attack: str) -> None:
        """Pay what is not known of an attack yet."""
        if attack in (self._known if self.checks is None else self._checked):
            return
        profile = self.profile(attack)
        with told_once():
            paid = self._payer.pay(profile.submission, self.utility, profile.truth)
        gain = self.over_honest(paid.total(profile.identities_of(self.name)))
        harm = harm_of(self.honest.payments, paid, profile, self.name)
        self._known[attack] = _Unchecked(gain, Effort.of(profile, self.state), harm)
        if self.checks is not None:
            self._checked[attack] = checked_attack(
                self._payer, profile, paid, self.state.honest, self.pay, self.utility
            )

    @property
    def honesty(self) -> Response:
        """What honest units gain, which is nothing, from nobody."""
        honest = self.honest
        return Response(
            "honest", 1.0, 1.0, 1.0, Effort(1, 0.0),
            harm_of(honest.payments, honest.payments, honest.profile, self.name),
        )  # fmt: skip

    @property
    def tried(self) -> list[str]:
        """The attacks whose outcomes are known, and cost nothing to price again."""
        return list(self._known if self.checks is None else self._checked)

    def certificate(self, attack: str) -> Certificate:
        """What the theorems say about an attack, and what the checks leave to it."""
        with told_once():
            attacked = paid_by(self._payer, self.profile(attack), self.utility)
        left = None
        if self.checks is not None:
            self._carry_out(attack)
            left = self._checked[attack].expected(self.checks).deterrence()
        return certified(
            self.honest, attacked, self._payer, comparisons=max(1, len(self._known)), deterrence=left
        )


class Priced(Protocol):
    """What an attack is worth to who plays it."""

    @property
    def attack(self) -> str:
        """The attack as it is written."""
        ...

    @property
    def net_gain(self) -> float:
        """What is searched for the largest of; honesty is at 1."""
        ...


Found = TypeVar("Found", bound=Priced)
FoundOut = TypeVar("FoundOut", bound=Priced, covariant=True)


class Searchable(Protocol[FoundOut]):
    """Whose best response can be searched: a `Target`, or one party among several (`seat.Seat`)."""

    @property
    def state(self) -> MarketState:
        """The market."""
        ...

    @property
    def tried(self) -> list[str]:
        """The attacks that cost nothing to price again."""
        ...

    @property
    def honesty(self) -> FoundOut:
        """What being honest is worth."""
        ...

    def respond(self, attack: str, costs: AttackCosts) -> FoundOut | None:
        """What an attack is worth; None where it cannot be carried out."""
        ...


def best_response(
    target: Searchable[Found],
    costs: AttackCosts | None = None,
    *,
    trials: int = 200,
    seed: int = 0,
    optimiser: str = "auto",
) -> Found:
    """The attack with the largest net gain that was found; honesty (net gain 1) if none does better."""
    require_count("trials", trials)
    require_choice("optimiser", optimiser, ("auto", "optuna", "scipy"))
    if optimiser == "auto":
        optimiser = "optuna" if find_spec("optuna") else "scipy"
    if optimiser == "optuna":
        require_extra("optuna", "gym")
    costs = costs or AttackCosts()
    space = Space.of(target.state)
    search = _by_optuna if optimiser == "optuna" else _by_scipy
    found = [r for r in search(target, costs, space, trials, seed) if r is not None]
    # What an earlier search on this target paid for is priced again at these costs and checks: it is free.
    known = [target.respond(attack, costs) for attack in target.tried]
    found += [r for r in known if r is not None]
    found.append(target.honesty)
    return max(found, key=lambda r: (r.net_gain, r.attack))


def _by_optuna(
    target: Searchable[Found], costs: AttackCosts, space: Space, trials: int, seed: int
) -> list[Found | None]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    found: list[Found | None] = []

    def objective(trial: optuna.Trial) -> float:
        family = trial.suggest_categorical("family", FAMILIES)
        dials = {d.name: trial.suggest_float(f"{family}.{d.name}", 0.0, 1.0) for d in SPACE[family]}
        found.append(target.respond(space.attack(family, dials), costs))
        return IMPOSSIBLE if (last := found[-1]) is None else last.net_gain

    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=len(starts()))
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for family, dials in starts():
        study.enqueue_trial({"family": family, **{f"{family}.{k}": v for k, v in dials.items()}})
    study.optimize(objective, n_trials=trials)
    return found


def _by_scipy(
    target: Searchable[Found], costs: AttackCosts, space: Space, trials: int, seed: int
) -> list[Found | None]:
    from scipy.optimize import differential_evolution

    found: list[Found | None] = []

    def loss(point: np.ndarray) -> float:
        if len(found) >= trials:  # the optimiser counts generations; we count attacks
            return 0.0
        found.append(target.respond(space.attack_at(point), costs))
        return -IMPOSSIBLE if (last := found[-1]) is None else -last.net_gain

    first = np.array([space.point(family, dials) for family, dials in starts()])
    people = len(first) + 15
    others = keyed_generator(seed, "best response").random((people - len(first), 1 + DIMENSIONS))
    differential_evolution(
        loss,
        [(0.0, 1.0)] * (1 + DIMENSIONS),
        maxiter=max(1, trials // people),
        init=np.concatenate([first, others]),
        rng=keyed_generator(seed, "evolution"),
        polish=False,
        tol=0.0,
    )
    return found
