"""Best response: search families and parameters for the attack with the largest net gain.

Each attack family is a cube of parameters in [0, 1], for optimisers, Gymnasium actions and grids alike. Noise is in
standard deviations of the market's features, on a logarithmic scale; parts are on a cubic one, since little that is
false may pay more than much where units are checked.

Costs are in units of the honest payment: net gain = G - c_id (identities - 1) - c_d d. The perturbation d is the sum,
over the attacker's submitted units, of the distance to the unit they derive from, in units of the market's standard
deviation, per honest unit of the attacker. Generated content has no distance.

The optimiser is Optuna's TPE where the extra ``gym`` is installed, else SciPy's differential evolution. An attack is
paid once and priced at every level of costs and checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, Protocol, TypeVar

import numpy as np

from datamarket_gym.analysis.metrics import CLEAR, Harm, clearly_paid, harm_of
from datamarket_gym.analysis.redteam.attack_grid import attacked_profile, feature_scale, source_rows
from datamarket_gym.analysis.redteam.multi_attacker import HONEST, StageGame, Strategies
from datamarket_gym.analysis.spot_checks import CheckedAttack, checked_attack, require_checkable
from datamarket_gym.analysis.theorems import Certificate
from datamarket_gym.analysis.theorems.certificate import certified
from datamarket_gym.analysis.theorems.deterrence import Checks
from datamarket_gym.analysis.theorems.paid_profile import paid_by
from datamarket_gym.data.content_keys import keyed_generator
from datamarket_gym.data.ground_truth import SubmittedProfile
from datamarket_gym.display import Described, Shown
from datamarket_gym.errors import (
    DataMarketError,
    ParameterError,
    UnclearPayError,
    UnknownNameError,
    require_choice,
    require_count,
    require_extra,
    require_in,
)
from datamarket_gym.evidence.graph import suppress_market_warnings
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.market.market import MarketState
from datamarket_gym.mechanism.own_mechanism import Payer
from datamarket_gym.mechanism.pipeline import as_mechanism
from datamarket_gym.registry import written
from datamarket_gym.utilities.oracle import UtilityOracle


@dataclass(frozen=True)
class AttackCosts(Described):
    """State what an attack costs the attacker, as shares of its honest payment.

    Parameters
    ----------
    identity
        Cost of each further identity.
    perturbation
        Cost per unit of perturbation.
    """

    identity: float = 0.0
    perturbation: float = 0.0

    def __post_init__(self) -> None:
        require_in("identity", self.identity, 0.0, np.inf)
        require_in("perturbation", self.perturbation, 0.0, np.inf)

    def of(self, effort: Effort) -> float:
        return self.identity * (effort.identities - 1) + self.perturbation * effort.perturbation


@dataclass(frozen=True)
class Effort(Described):
    """Hold how many identities an attack uses, and how far it moves content."""

    identities: int
    perturbation: float

    @classmethod
    def of(cls, profile: SubmittedProfile, state: MarketState) -> Effort:
        provider = str(profile.attacker)
        names = profile.identities_of(provider)
        submission, honest = profile.submission, state.honest.submission
        mine = np.flatnonzero(np.isin(submission.identity, names))
        origin = source_rows(profile, state)[mine]
        derived = origin >= 0
        moved = submission.features[mine[derived]] - honest.features[origin[derived]]
        total = float(np.linalg.norm(moved, axis=1).sum())
        scale = float(np.sqrt(honest.features.var(axis=0).sum())) or 1.0
        owned = int((state.honest.truth.owner == provider).sum())
        return cls(len(names), total / scale / owned)


@dataclass(frozen=True)
class SearchParameter:
    """A parameter and the values that a number in [0, 1] stands for."""

    name: str
    low: float = 0.0
    high: float = 1.0
    kind: str = "share"  # or "part" (cubic), "count", "noise" (logarithmic, times the scale), "choice"
    choices: tuple[str | int | bool, ...] = ()

    def value(self, at: float, scale: float) -> Any:
        """Return the value at a number in [0, 1]; shares and noise are rounded to read well."""
        at = min(max(float(at), 0.0), 1.0)
        match self.kind:
            case "count":
                return int(min(self.low + at * (self.high - self.low + 1), self.high))
            case "choice":
                return self.choices[min(int(at * len(self.choices)), len(self.choices) - 1)]
            case "noise":
                return float(f"{scale * self.low * (self.high / self.low) ** at:.4g}")
            case "part":
                return round(self.low + at**3 * (self.high - self.low), 3)
            case _:
                return round(self.low + at * (self.high - self.low), 3)


def _noise(name: str) -> SearchParameter:
    return SearchParameter(name, 0.01, 3.0, "noise")


def _part(name: str, low: float = 0.01, high: float = 1.0) -> SearchParameter:
    return SearchParameter(name, low, high, "part")


def _count(name: str, low: int, high: int) -> SearchParameter:
    return SearchParameter(name, low, high, "count")


def _choice(name: str, *choices: str | int | bool) -> SearchParameter:
    return SearchParameter(name, kind="choice", choices=choices)


_FIRST, _VICTIM = _choice("first", False, True), _choice("victim", 1, "all")

SPACE: Mapping[str, tuple[SearchParameter, ...]] = {
    "sybil_split_k": (_count("k", 2, 4),),
    "exact_dup_2x_sybils": (_part("fraction"), _count("sybils", 1, 4)),
    "near_duplicate_2x_sybils": (_noise("sigma"), _part("fraction"), _count("sybils", 1, 4)),
    "copycat": (_noise("sigma"), _part("fraction")),
    "turn": (SearchParameter("cosine", 0.3, 0.98), _VICTIM, _part("fraction")),
    "synthetic_laundering": (_part("ratio", high=4.0), _choice("how", "gaussian", "mix"), _FIRST),
    "strategic_curation": (SearchParameter("keep", 0.1, 1.0), SearchParameter("rest", 0.0, 1.0)),
    "junk_padding": (_part("ratio", high=3.0), _count("identities", 1, 3), _FIRST),
    "composite": (
        _count("split", 1, 3),
        SearchParameter("keep", 0.3, 1.0),
        _part("copy", low=0.0),
        _noise("copy_sigma"),
        _part("steal", low=0.0),
        _noise("steal_sigma"),
        _count("victims", 1, 16),
        _choice("pick", "random", "rewards"),
        _count("names", 0, 2),
        _FIRST,
    ),
    "bridge": (_VICTIM, SearchParameter("theta", 0.6, 0.98), _count("most", 20, 400)),
    "leak_stuffing": (_part("share"), _noise("sigma")),
    "squat": (
        _choice("knows", "leak"),
        _count("points", 1, 20),
        _noise("sigma"),
        _choice("worthless", False, True),
    ),
    "shadow": (SearchParameter("budget", 0.05, 1.5), _count("steps", 5, 20)),
    "outlier": (SearchParameter("budget", 0.05, 1.5), _part("ratio", high=2.0)),
}
"""Families and their parameters, within bounds that keep identity-level games cheap.

Attackers who forge the clock, or see units before they come, own them under any rule: such attacks are not searched.
"""

FAMILIES = tuple(SPACE)
UNLEAKED = tuple(name for name in SPACE if name not in ("leak_stuffing", "squat"))
"""Families that submit no leaked row. Others that look at leaked rows take what the market's state holds for them."""
DIMENSIONS = max(len(parameters) for parameters in SPACE.values())
_HALF_A_DEVIATION = 0.69  # a noise parameter of half a standard deviation: escapes, and still teaches
_ONE_DEVIATION = 0.81
_FIVE_PERCENT = 0.37  # where the parameter of a part stands for that

_THEFT = dict.fromkeys(("split", "copy", "pick", "names", "first"), 0.0)
_THEFT |= {"keep": 1.0, "steal": 1.0, "victims": 1.0}
_THEFT |= {"copy_sigma": _HALF_A_DEVIATION, "steal_sigma": _HALF_A_DEVIATION}
_LITTLE = {"steal": _FIVE_PERCENT, "steal_sigma": _ONE_DEVIATION, "pick": 1.0}
_OWN_COPIES = {"copy": 1.0, "steal": 0.0, "first": 1.0}


def starts(families: Sequence[str] = FAMILIES) -> list[tuple[str, dict[str, float]]]:
    """Return where a search begins: each family at 1, 1/2 and 0, and four good composite attacks."""
    grid = [
        (family, {d.name: _HALF_A_DEVIATION if d.kind == "noise" else at for d in parameters})
        for at in (1.0, 0.5, 0.0)
        for family, parameters in SPACE.items()
    ]
    changes: tuple[dict[str, float], ...] = ({}, _LITTLE, _LITTLE | {"keep": 0.86}, _OWN_COPIES)
    every = [*(("composite", _THEFT | change) for change in changes), *grid]
    return [(family, parameters) for family, parameters in every if family in families]


@dataclass(frozen=True, eq=False)
class Space(Described):
    """Map points of [0, 1]^n to the attacks on one market, by family and parameters.

    Parameters
    ----------
    scale
        The typical standard deviation of a feature, in which noise is counted.
    families
        The families that are searched.
    """

    scale: float
    families: tuple[str, ...] = FAMILIES

    @classmethod
    def of(cls, state: MarketState) -> Space:
        return cls(feature_scale(state))

    def attack(self, family: str, parameters: Mapping[str, float]) -> str:
        """Return the written attack at some parameters, each in [0, 1]."""
        if family not in SPACE:
            raise UnknownNameError("attack family", family, FAMILIES)
        values = {d.name: d.value(parameters[d.name], self.scale) for d in SPACE[family]}
        return written(ATTACKS.create({"name": family, **values}))

    @staticmethod
    def point(
        family: str, parameters: Mapping[str, float], families: Sequence[str] = FAMILIES
    ) -> list[float]:
        """Return the point of [0, 1]^(1 + DIMENSIONS) that `attack_at` reads as this family and parameters."""
        values = [parameters[parameter.name] for parameter in SPACE[family]]
        first = (families.index(family) + 0.5) / len(families)
        return [first, *values, *[0.5] * (DIMENSIONS - len(values))]

    def attack_at(self, point: np.ndarray) -> str:
        """Return the written attack at a point of [0, 1]^(1 + DIMENSIONS): family first, then parameters."""
        if point.shape != (1 + DIMENSIONS,) or not ((point >= 0.0) & (point <= 1.0)).all():
            raise ParameterError(
                "action", np.array2string(point, threshold=5), f"give {1 + DIMENSIONS} numbers in [0, 1]"
            )
        number = min(int(point[0] * len(self.families)), len(self.families) - 1)
        family = self.families[number]
        names = [parameter.name for parameter in SPACE[family]]
        return self.attack(family, dict(zip(names, point[1:].tolist(), strict=False)))


@dataclass(frozen=True)
class Reply:
    """Hold an attack and its payoff, in equal shares of v(all)."""

    attack: str
    payoff: float
    net_gain: float  # 1 + payoff less honesty's


@dataclass(eq=False)
class StageParty:
    """Price attacks of one party of a stage, given all strategies; `best_response` searches it like a `Target`.

    Net gains are 1 + the payoff less that of being honest there, as honesty may pay next to nothing. Attacks are free.
    """

    stage: StageGame
    strategies: Strategies
    party: int = 0
    _replies: dict[str, Reply] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._honest = self._payoff(HONEST)

    @property
    def state(self) -> MarketState:
        return self.stage.state

    def respond(self, attack: str, costs: AttackCosts) -> Reply | None:
        if costs.of(Effort(2, 1.0)):
            raise ParameterError(
                "costs", costs, "in multi-attacker games attacks are free; leave costs out"
            )
        if attack not in self._replies:
            payoff = self._payoff(attack)
            if payoff is None or self._honest is None:
                return None
            self._replies[attack] = Reply(attack, payoff, 1.0 + payoff - self._honest)
        return self._replies[attack]

    @property
    def tried(self) -> list[str]:
        return list(self._replies)

    @property
    def honesty(self) -> Reply:
        return Reply(HONEST, self._honest or 0.0, 1.0)

    def _payoff(self, attack: str) -> float | None:
        strategies = (*self.strategies[: self.party], attack, *self.strategies[self.party + 1 :])
        payoffs = self.stage.payoffs(strategies)
        return None if payoffs is None else payoffs[self.party]


IMPOSSIBLE = -1.0
"""The net gain for optimisers of an attack that cannot be carried out."""


@dataclass(frozen=True)
class Response(Shown):
    """Hold what an attack gains unchecked, in expectation given checks, and net of costs; and others' losses."""

    attack: str
    gain: float
    expected_gain: float  # without checks the gain
    net_gain: float  # the expected gain less the costs
    effort: Effort
    harm: Harm


@dataclass(eq=False)
class Target(Shown):
    """Price attacks of one provider of a market on a mechanism, and remember every outcome.

    Parameters
    ----------
    state, mechanism, utility, provider
        The market, the mechanism that is attacked, what data are worth, and the attacker, by name or number.
    checks, knowledge
        The spot checks that the attacker expects, if any, and the share of others' units that the attacker sees.
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
        # The same under any checks, so `under` shares them; gains are unchecked.
        self._unchecked: dict[str, tuple[float, Effort, Harm]] = {}
        self._checked: dict[str, CheckedAttack] = {}
        self.impossible: dict[str, str] = {}
        grand, n = self.honest.payments.grand_value, len(self.state.providers)
        if not clearly_paid(self.pay, grand, n):
            raise UnclearPayError(
                f"{self.name} earns {self.pay:.4g} when honest, where an equal share of v(all) is "
                f"{grand / n:.4g}: gains have no meaning below a share of {CLEAR:g} of that; "
                "choose another provider or market"
            )

    def under(self, checks: Checks | None) -> Target:
        """Return this target under other checks, or none; both remember what is paid."""
        require_checkable(self._payer, checks)
        other = copy(self)
        other.checks = checks
        return other

    def profile(self, attack: str) -> SubmittedProfile:
        return attacked_profile(attack, self.name, self.state, self.knowledge)

    def respond(self, attack: str, costs: AttackCosts) -> Response | None:
        """Price an attack: its gross and net gain, and others' losses; None where it cannot be carried out."""
        try:
            self._carry_out(attack)
            gain, effort, harm = self._unchecked[attack]
            expected = gain
            if self.checks is not None:
                expected = self._checked[attack].expected(self.checks).pay / self.pay
        except DataMarketError as error:  # more names than units, a class that is gone, no labels
            self.impossible[attack] = str(error)
            return None
        return Response(attack, gain, expected, expected - costs.of(effort), effort, harm)

    def _carry_out(self, attack: str) -> None:
        if attack in (self._unchecked if self.checks is None else self._checked):
            return
        profile = self.profile(attack)
        with suppress_market_warnings():
            paid = self._payer.pay(profile.submission, self.utility, profile.truth)
        gain = paid.total(profile.identities_of(self.name)) / self.pay
        harm = harm_of(self.honest.payments, paid, profile, self.name)
        self._unchecked[attack] = gain, Effort.of(profile, self.state), harm
        if self.checks is not None:
            self._checked[attack] = checked_attack(
                self._payer, profile, paid, self.state.honest, self.pay, self.utility
            )

    @property
    def honesty(self) -> Response:
        payments = self.honest.payments
        harm = harm_of(payments, payments, self.honest.profile, self.name)
        return Response(HONEST, 1.0, 1.0, 1.0, Effort(1, 0.0), harm)

    @property
    def tried(self) -> list[str]:
        return list(self._unchecked if self.checks is None else self._checked)

    def certificate(self, attack: str) -> Certificate:
        with suppress_market_warnings():
            attacked = paid_by(self._payer, self.profile(attack), self.utility)
        left = None
        if self.checks is not None:
            self._carry_out(attack)
            left = self._checked[attack].expected(self.checks).deterrence()
        return certified(
            self.honest, attacked, self._payer, comparisons=max(1, len(self._unchecked)), deterrence=left
        )


Priced = TypeVar("Priced", bound=Response | Reply)
PricedOut = TypeVar("PricedOut", bound=Response | Reply, covariant=True)


class _Searchable(Protocol[PricedOut]):
    """A `Target`, or one party among several (`StageParty`)."""

    @property
    def state(self) -> MarketState: ...

    @property
    def tried(self) -> list[str]: ...

    @property
    def honesty(self) -> PricedOut: ...

    def respond(self, attack: str, costs: AttackCosts) -> PricedOut | None: ...


def best_response(
    target: _Searchable[Priced],
    costs: AttackCosts | None = None,
    *,
    trials: int = 200,
    seed: int = 0,
    optimiser: str = "auto",
    families: Sequence[str] = FAMILIES,
) -> Priced:
    """Search for the attack with the largest net gain.

    Parameters
    ----------
    target
        The attacker; a party among several is one, too.
    costs
        What attacks cost; nothing if left out.
    trials, seed
        How many attacks are tried, and the seed of the search.
    optimiser
        ``optuna``, ``scipy``, or ``auto``: Optuna where it is installed.
    families
        The attack families that are searched; all if left out.

    Returns
    -------
    Response or Reply
        The best attack that was found; being honest (net gain 1) if none is better.
    """
    require_count("trials", trials)
    require_choice("optimiser", optimiser, ("auto", "optuna", "scipy"))
    if optimiser == "auto":
        optimiser = "optuna" if find_spec("optuna") else "scipy"
    if optimiser == "optuna":
        require_extra("optuna", "gym")
    costs = costs or AttackCosts()
    for family in families:
        require_choice("families", family, FAMILIES)
    space = replace(Space.of(target.state), families=tuple(families))
    search = _by_optuna if optimiser == "optuna" else _by_scipy

    def price(attack: str) -> float:
        response = target.respond(attack, costs)
        return IMPOSSIBLE if response is None else response.net_gain

    search(price, space, trials, seed)
    # All that was tried on this target, in earlier searches too, is priced at these costs and checks: it is free.
    responses = [target.respond(attack, costs) for attack in target.tried]
    possible = [response for response in responses if response is not None]
    return max([*possible, target.honesty], key=lambda r: (r.net_gain, r.attack))


def _by_optuna(price: Callable[[str], float], space: Space, trials: int, seed: int) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def objective(trial: optuna.Trial) -> float:
        family = trial.suggest_categorical("family", space.families)
        at = {p.name: trial.suggest_float(f"{family}.{p.name}", 0.0, 1.0) for p in SPACE[family]}
        return price(space.attack(family, at))

    first = starts(space.families)
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=len(first))
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for family, parameters in first:
        at = {f"{family}.{name}": value for name, value in parameters.items()}
        study.enqueue_trial({"family": family, **at})
    study.optimize(objective, n_trials=trials)


def _by_scipy(price: Callable[[str], float], space: Space, trials: int, seed: int) -> None:
    from scipy.optimize import differential_evolution

    left = iter(range(trials))  # the optimiser counts generations; we count attacks

    def loss(point: np.ndarray) -> float:
        return 0.0 if next(left, None) is None else -price(space.attack_at(point))

    first = np.array(
        [
            space.point(family, parameters, space.families)
            for family, parameters in starts(space.families)
        ]
    )
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
