"""Several attackers in one market, and best-response dynamics among them.

With pay_i(p) what party i (a provider, or a coalition together) is paid at strategies p, and 0 for honesty,

    gain             = pay_i(p) / pay_i(0)            against a market of honest providers,
    gain_from_attack = pay_i(p) / pay_i(0_i, p_-i)    against the same market, in which only i is honest.

``worth`` is v of the distinct genuine units, each once: what the buyer gets. ``value`` is v(all) as the mechanism
counts it. Where payees are checked all of it is in expectation over who fails.

In best-response dynamics a player moves only if that pays more than ``epsilon`` more, and then to the best of its menu.
A path ends in an *equilibrium* (no player gains more than ``epsilon`` by another item of its menu), in a *cycle* (a
profile has come back), or *unsettled* (after ``rounds`` rounds, or where all moved at once to what cannot be played).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from datamarket_gym.analysis.metrics import ROUNDING, clearly_paid, gain_of, pot_shares, provider_totals
from datamarket_gym.analysis.redteam.attack_grid import moved_embeddings
from datamarket_gym.analysis.spot_checks import Drafts, require_checkable
from datamarket_gym.analysis.theorems.deterrence import Checks
from datamarket_gym.data.ground_truth import SubmittedProfile
from datamarket_gym.data.submission import Submission
from datamarket_gym.display import Shown
from datamarket_gym.errors import (
    DataMarketError,
    ParameterError,
    UnclearPayError,
    require_choice,
    require_count,
    require_in,
)
from datamarket_gym.evidence.graph import suppress_market_warnings
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.market.attacks.multi_attacker import (
    MultiAttackerGame,
    as_owners,
    attacked_by,
    members_of,
)
from datamarket_gym.market.market import MarketState
from datamarket_gym.mechanism.allocation import PaidTotals, Payments
from datamarket_gym.mechanism.own_mechanism import OwnMechanism, Payer, worth
from datamarket_gym.mechanism.pipeline import Mechanism, as_mechanism
from datamarket_gym.utilities.oracle import UtilityOracle

HONEST = "honest"
"""The strategy of parties that do not attack."""

Strategies = tuple[str, ...]
"""The choice of each party or player: a written attack, or `HONEST`."""


@dataclass(frozen=True)
class StageOutcome:
    """Payments and shares of a fixed pot by party (expected where payees are checked), v(all) and genuine worth."""

    pay: Mapping[str, float]
    share: Mapping[str, float]
    value: float
    worth: float


@dataclass(frozen=True)
class PartyResult:
    """Hold a party's attack, what it is paid, and what honesty would have paid it."""

    members: tuple[str, ...]
    attack: str
    pay: float
    honest_pay: float  # where all are honest
    lone_honest_pay: float  # where all play as they do, and only it is honest
    share: float
    honest_share: float
    clear: bool  # whether its honest pay is clearly above zero, so that gains mean something

    @property
    def gain(self) -> float:
        return gain_of(self.pay, self.honest_pay)

    @property
    def gain_from_attack(self) -> float:
        return gain_of(self.pay, self.lone_honest_pay)

    @property
    def each(self) -> dict[str, float]:
        """Divide the additive gain equally among the members."""
        return {name: (self.pay - self.honest_pay) / len(self.members) for name in self.members}


@dataclass(frozen=True)
class StageResult:
    """Hold how a market is divided between the attacking parties and the others; NaN where undefined.

    ``pot_taken`` is the attackers' share of the pot, ``pot_moved`` the part of it that honesty would not have given
    them. ``honest_pay``, ``honest_share``, ``honest_least`` (the least), ``worth`` and ``value`` are ratios to the
    market in which all are honest. Gains are those of all attackers together.
    """

    attackers: tuple[PartyResult, ...]
    pot_taken: float
    pot_moved: float
    honest_pay: float
    honest_share: float
    honest_least: float
    worth: float
    value: float

    @property
    def gain(self) -> float:
        return gain_of(sum(c.pay for c in self.attackers), sum(c.honest_pay for c in self.attackers))

    @property
    def gain_from_attack(self) -> float:
        alone = sum(c.lone_honest_pay for c in self.attackers)
        return gain_of(sum(c.pay for c in self.attackers), alone)

    @property
    def gain_largest(self) -> float:
        """Return the largest gain of one party, among those whose honest pay is clearly above zero."""
        return max((c.gain for c in self.attackers if c.clear), default=math.nan)

    @property
    def attack_adds(self) -> float:
        return sum(c.pay - c.lone_honest_pay for c in self.attackers)


@dataclass(eq=False)
class StageGame(Shown):
    """Pay a market in which several parties may attack at once, and remember every outcome.

    Parameters
    ----------
    state, mechanism, utility
        The market, the mechanism that is attacked, and what data are worth.
    parties
        The attackers: providers, or coalitions of them, none in two.
    checks, knowledge
        The spot checks of each payee, if any, and the share of others' units that each party sees.
    """

    state: MarketState
    mechanism: Payer
    utility: UtilityOracle
    parties: Sequence[Sequence[str | int] | str | int]
    checks: Checks | None = None
    knowledge: float = 1.0
    impossible: dict[Strategies, str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        require_in("knowledge", self.knowledge, 0.0, 1.0)
        if not self.parties:
            raise ParameterError("parties", self.parties, "name at least one provider who may attack")
        self.members = tuple(members_of(party, self.state) for party in self.parties)
        self._payer: Mechanism | OwnMechanism = as_mechanism(self.mechanism)
        require_checkable(self._payer, self.checks)
        listed = [name for members in self.members for name in members]
        if twice := [name for name in listed if listed.count(name) > 1]:
            raise ParameterError("parties", twice[0], "a provider attacks alone or in one coalition")
        _require_names_apart(self.members)
        self._lead = {name: members[0] for members in self.members for name in members}
        self._outcomes: dict[Strategies, StageOutcome] = {}
        self._worths: dict[bytes, float] = {}
        self.honest = self.outcome((HONEST,) * len(self.members))
        if not self.honest.value > ROUNDING:
            raise UnclearPayError(
                f"all data of this market are worth {self.honest.value:.4g} together: there is nothing to divide; "
                "choose another market or utility"
            )

    @property
    def scale(self) -> float:
        """Return the unit of payoffs: an equal share of v(all) of the honest market."""
        return self.honest.value / len(self.state.providers)

    def payoffs(self, strategies: Strategies) -> tuple[float, ...] | None:
        """Return each party's payment in equal shares of v(all); None where it cannot be played (``impossible``)."""
        if strategies in self.impossible:
            return None
        if strategies not in self._outcomes:
            self._require_strategies(strategies)
        try:
            pay = self.outcome(strategies).pay
        except DataMarketError as error:  # too many names for its units or to check, or a class is gone
            self.impossible[strategies] = str(error)
            return None
        return tuple(pay[members[0]] / self.scale for members in self.members)

    def profile(self, strategies: Strategies) -> SubmittedProfile:
        self._require_strategies(strategies)
        attackers = [
            MultiAttackerGame(members, attack, self.knowledge)
            for members, attack in zip(self.members, strategies, strict=True)
            if attack != HONEST
        ]
        return moved_embeddings(attacked_by(attackers, self.state), self.state)

    def _require_strategies(self, strategies: Strategies) -> None:
        if len(strategies) != len(self.members):
            raise ParameterError(
                "strategies", strategies, f"give one attack for each of {len(self.members)} parties"
            )
        for attack in strategies:
            ATTACKS.create(attack)

    def outcome(self, strategies: Strategies) -> StageOutcome:
        if strategies not in self._outcomes:
            if self.checks is None:
                profile, paid = self._paid(strategies)
                pay = self._by_party(provider_totals(paid, profile))
                worth = self._worth(profile.submission)
                outcome = StageOutcome(pay, pot_shares(pay), paid.grand_value, worth)
            else:
                profile, drafts = self._drafts(strategies)
                outcome = self._expected(profile, drafts.endings(self.checks))
            self._outcomes[strategies] = outcome
        return self._outcomes[strategies]

    def drawn(self, strategies: Strategies, rng: np.random.Generator) -> StageOutcome:
        if self.checks is None:
            return self.outcome(strategies)
        profile, drafts = self._drafts(strategies)
        return self._expected(profile, [drafts.ending(self.checks, rng)])

    def _paid(self, strategies: Strategies) -> tuple[SubmittedProfile, PaidTotals]:
        profile = self.profile(strategies)
        with suppress_market_warnings():
            return profile, self._payer.pay(profile.submission, self.utility, profile.truth)

    def _drafts(self, strategies: Strategies) -> tuple[SubmittedProfile, _Checked]:
        profile, paid = self._paid(strategies)
        assert isinstance(paid, Payments)
        assert isinstance(self._payer, Mechanism)
        attacking = [m for m, attack in zip(self.members, strategies, strict=True) if attack != HONEST]
        owners = as_owners(self.state.honest, attacking)
        names = [name for members in attacking for name in profile.identities_of(members[0])]
        return profile, _Checked(self._payer, profile, owners, self.utility, names, paid)

    def _expected(self, profile: SubmittedProfile, endings: Sequence[_Ending]) -> StageOutcome:
        pay, share = defaultdict[str, float](float), defaultdict[str, float](float)
        value = genuine = 0.0
        for end in endings:
            by_party = self._by_party(_totals(end.amounts, profile))
            shares = pot_shares(by_party)
            for name, amount in by_party.items():
                pay[name] += end.chance * amount
                share[name] += end.chance * shares[name]
            value += end.chance * end.value
            genuine += end.chance * self._worth(end.left)
        return StageOutcome(dict(pay), dict(share), value, genuine)

    def _by_party(self, totals: Mapping[str, float]) -> dict[str, float]:
        by_party = defaultdict[str, float](float)
        for name, amount in totals.items():
            by_party[self._lead.get(name, name)] += amount
        return dict(by_party)

    def _worth(self, submission: Submission) -> float:
        """Compute v of the honest units whose content is there, each once."""
        honest = self.state.honest.submission
        rows = np.flatnonzero(np.isin(honest.keys, submission.keys))
        key = rows.tobytes()
        if key not in self._worths:
            self._worths[key] = worth(honest.take(rows), self.utility) if len(rows) else 0.0
        return self._worths[key]

    def standings(self, strategies: Strategies, attackers: Sequence[int] | None = None) -> StageResult:
        """Compare each party's payment with honesty's; ``attackers`` count as such, else all."""
        now, then = self.outcome(strategies), self.honest
        counted = range(len(self.members)) if attackers is None else attackers
        results = tuple(self._result(strategies, party) for party in counted)
        leads = {party.members[0] for party in results}
        others = [name for name in then.pay if name not in leads]
        n, grand = len(self.state.providers), then.value
        clear = [name for name in others if clearly_paid(then.pay[name], grand, n)]
        taken = sum(party.share for party in results)
        return StageResult(
            attackers=results,
            pot_taken=taken,
            pot_moved=taken - sum(party.honest_share for party in results),
            honest_pay=_over(now.pay, then.pay, others),
            honest_share=_over(now.share, then.share, others),
            honest_least=min((now.pay[name] / then.pay[name] for name in clear), default=math.nan),
            worth=gain_of(now.worth, then.worth),
            value=gain_of(now.value, then.value),
        )

    def _result(self, strategies: Strategies, party: int) -> PartyResult:
        lead = self.members[party][0]
        alone = self.outcome(_with(strategies, party, HONEST))
        now, then = self.outcome(strategies), self.honest
        return PartyResult(
            self.members[party], strategies[party], now.pay[lead], then.pay[lead], alone.pay[lead],
            now.share[lead], then.share[lead],
            clearly_paid(then.pay[lead], then.value, len(self.state.providers)),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Ending:
    """Hold an ending of a market with checks: its chance, what each name is paid, v(all), and the units left."""

    chance: float
    amounts: Mapping[str, float]
    value: float
    left: Submission


@dataclass(eq=False)
class _Checked(Drafts):
    names: list[str]
    paid: Payments

    def __post_init__(self) -> None:
        self._begin(self.names, self.paid)

    def endings(self, checks: Checks) -> list[_Ending]:
        return [self._ending(d.failed, d.ends) for d in self._reached(checks) if d.ends]

    def ending(self, checks: Checks, rng: np.random.Generator) -> _Ending:
        """Draw one ending: identities fail, draft by draft, until none does."""
        failed = frozenset[str]()
        while True:
            names = self._after(failed).names
            left = [name for name in self._names if name not in failed]
            caught = [n for n in left if rng.random() >= checks.passes(names[n].drawn_false)]
            if not caught:
                return self._ending(failed, 1.0)
            failed = failed.union(caught)

    def _ending(self, failed: frozenset[str], chance: float) -> _Ending:
        market = self._after(failed)
        amounts = {n: 0.0 if n in failed else max(a, 0.0) for n, a in market.totals.items()}
        left = self.profile.submission.take(self._left(failed))
        return _Ending(chance, amounts, market.value, left)


def _require_names_apart(parties: Sequence[Sequence[str]]) -> None:
    """Refuse parties whose pseudonyms would be the same: playing both could not be paid."""
    stems: dict[str, str] = {}
    for name in [members[0] for members in parties]:
        if (other := stems.setdefault(name.rstrip("~"), name)) != name:
            why = f"{other!r} has the same pseudonyms; rename one, not by a tilde at the end"
            raise ParameterError("parties", name, why)


def _totals(amounts: Mapping[str, float], profile: SubmittedProfile) -> dict[str, float]:
    """Sum amounts of identities by controller; 0 for a provider without any."""
    totals = dict.fromkeys(sorted(set(profile.truth.controller.values())), 0.0)
    for name, amount in amounts.items():
        totals[profile.truth.controller[name]] += amount
    return totals


def _over(now: Mapping[str, float], then: Mapping[str, float], names: Sequence[str]) -> float:
    return gain_of(sum(now[name] for name in names), sum(then[name] for name in names))


ORDERS = ("round_robin", "simultaneous")
EQUILIBRIUM, CYCLE, UNSETTLED = "equilibrium", "cycle", "unsettled"
Payoffs = Callable[[Strategies], Sequence[float] | None]
"""Compute what each player gets; None where a profile cannot be played."""


@dataclass(frozen=True)
class Path(Shown):
    """A path of best responses, how it ended, and what each player could still gain at the end.

    ``cycle`` are the profiles that come back, ``untried`` the items of each menu that could not be played at the end.
    """

    profiles: tuple[Strategies, ...]
    ended: str
    regrets: tuple[float, ...]
    epsilon: float
    rounds: int
    cycle: tuple[Strategies, ...] = ()
    why: str = ""
    untried: tuple[tuple[str, ...], ...] = ()

    @property
    def last(self) -> Strategies:
        return self.profiles[-1]

    @property
    def ends(self) -> tuple[Strategies, ...]:
        return self.cycle or (self.last,)


def best_response_dynamics(
    payoffs: Payoffs,
    menus: Sequence[Sequence[str]],
    *,
    epsilon: float = 0.01,
    rounds: int = 20,
    order: str = "round_robin",
    start: Strategies | None = None,
) -> Path:
    """Let players move to their best responses until no player gains.

    Parameters
    ----------
    payoffs, menus
        What each player gets at a profile (None where it cannot be played), and what each player may play.
    epsilon, rounds
        A player moves only for more than this; how many rounds are played at the most.
    order, start
        ``round_robin`` (one after another) or ``simultaneous`` (all at once in each round); and the first profile, by
        default the first item of each menu.

    Returns
    -------
    Path
    """
    require_in("epsilon", epsilon, 0.0, float("inf"))
    require_count("rounds", rounds)
    require_choice("order", order, ORDERS)
    if not menus or not all(menus):
        raise ParameterError("menus", menus, "give every player at least one way to play")
    profile = tuple(menu[0] for menu in menus) if start is None else tuple(start)
    if len(profile) != len(menus) or any(p not in m for p, m in zip(profile, menus, strict=False)):
        raise ParameterError("start", start, "give every player an item of its menu")
    if payoffs(profile) is None:
        raise DataMarketError(f"the first profile, {profile}, cannot be played; start elsewhere")

    def best(player: int) -> tuple[str, float]:
        """Return the player's best item given the others', and how much more it pays than the current one."""
        now = payoffs(profile)
        assert now is not None
        chosen, most = profile[player], now[player]
        for item in menus[player]:
            pay = payoffs(_with(profile, player, item))
            if pay is not None and pay[player] > most + ROUNDING:
                chosen, most = item, pay[player]
        return chosen, most - now[player]

    def move(player: int) -> str:
        item, more = best(player)
        return item if more > epsilon else profile[player]

    players = range(len(menus))
    seen, path = {profile: 0}, [profile]
    ended, why, cycle = UNSETTLED, f"{rounds} rounds were played", tuple[Strategies, ...]()
    for number in range(1, rounds + 1):
        before = profile
        if order == "round_robin":
            for player in players:
                profile = _with(profile, player, move(player))
                if profile != path[-1]:
                    path.append(profile)
        else:
            profile = tuple(move(player) for player in players)
            if profile != before:
                path.append(profile)
            if payoffs(profile) is None:
                why = "all moved at once to what cannot be played together"
                regrets = (float("nan"),) * len(menus)
                return Path(tuple(path), UNSETTLED, regrets, epsilon, number, why=why)
        if profile == before:
            ended, why = EQUILIBRIUM, ""
            break
        if profile in seen:
            ended, why, cycle = CYCLE, "", tuple(path[seen[profile] : -1])
            break
        seen[profile] = len(path) - 1
    regrets = tuple(best(player)[1] for player in players)
    untried = tuple(
        tuple(item for item in menus[p] if payoffs(_with(profile, p, item)) is None) for p in players
    )
    return Path(tuple(path), ended, regrets, epsilon, number, cycle, why, untried)


def _with(strategies: Strategies, player: int, item: str) -> Strategies:
    return (*strategies[:player], item, *strategies[player + 1 :])
