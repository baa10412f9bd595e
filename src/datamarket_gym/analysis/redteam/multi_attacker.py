"""Several attackers in one market, and best-response dynamics among them.

With pay_i(p) what party i (a provider, or a coalition together) collects where everybody plays p, and 0 for honesty,

    gain               = pay_i(p) / pay_i(0)            against a market of honest providers,
    gain_from_attack = pay_i(p) / pay_i(0_i, p_-i)    against the same market, in which only i is honest.

``worth`` is v of the distinct genuine units, each once: what the buyer gets. ``value`` is v(all) as the mechanism
counts it. Where payees are checked all of it is in expectation over who fails.

In best-response dynamics a player moves only if that pays more than ``epsilon`` more, and then to the best of its menu.
A path ends in an *equilibrium* (nobody gains more than ``epsilon`` by another item of its menu), in a *cycle* (a
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
from datamarket_gym.mechanism.external import OwnMechanism, Payer, worth
from datamarket_gym.mechanism.pipeline import Mechanism, as_mechanism
from datamarket_gym.utilities.oracle import UtilityOracle

HONEST = "honest"
"""How those play who do not attack."""

Plays = tuple[str, ...]
"""What each party plays: an attack as it is written, or `HONEST`."""


@dataclass(frozen=True)
class StageOutcome:
    """Payments and shares of a fixed pot by party (expected where payees are checked), v(all) and genuine worth."""

    pay: Mapping[str, float]
    share: Mapping[str, float]
    value: float
    worth: float


@dataclass(frozen=True)
class Standing:
    """One party that may attack: what it plays, what it is paid, and what honesty would have paid it."""

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
        """Over what it is paid where all are honest."""
        return gain_of(self.pay, self.honest_pay)

    @property
    def gain_from_attack(self) -> float:
        """Over what it would be paid if it alone were honest."""
        return gain_of(self.pay, self.lone_honest_pay)

    @property
    def each(self) -> dict[str, float]:
        """What every member gains, in units of the utility, where a coalition divides what it gains equally."""
        return {name: (self.pay - self.honest_pay) / len(self.members) for name in self.members}


@dataclass(frozen=True)
class Standings:
    """How a market is divided between those who may attack and the rest; NaN where a quantity is undefined.

    ``pot_taken`` is the share of the pot of those who may attack, ``pot_moved`` what of it honesty would not have given
    them. ``honest_pay``, ``honest_share``, ``honest_least`` (who lost most), ``worth`` and ``value`` are ratios to the
    market in which all are honest.
    """

    attackers: tuple[Standing, ...]
    pot_taken: float
    pot_moved: float
    honest_pay: float
    honest_share: float
    honest_least: float
    worth: float
    value: float

    @property
    def gain(self) -> float:
        """What all who may attack are paid together, over what they are paid where all are honest."""
        return gain_of(sum(c.pay for c in self.attackers), sum(c.honest_pay for c in self.attackers))

    @property
    def gain_from_attack(self) -> float:
        """What attackers are paid together, over the sum of what each would be paid if it alone were honest."""
        return gain_of(
            sum(c.pay for c in self.attackers), sum(c.lone_honest_pay for c in self.attackers)
        )

    @property
    def gain_largest(self) -> float:
        """The largest gain of one of them, among those whose honest pay is clearly above zero."""
        return max((c.gain for c in self.attackers if c.clear), default=math.nan)

    @property
    def attack_adds(self) -> float:
        """What they are paid together less the sum of what each would be paid if it alone were honest."""
        return sum(c.pay - c.lone_honest_pay for c in self.attackers)


@dataclass(eq=False)
class StageGame(Shown):
    """Pay a market in which several parties may attack at once, and remember every outcome.

    Parameters
    ----------
    state, mechanism, utility
        The market, the mechanism that is attacked, and what data are worth.
    parties
        Who may attack: providers, or coalitions of them, none in two.
    checks
        The spot checks of each payee, if any.
    knowledge
        The share of everybody else's units that each party sees.
    """

    state: MarketState
    mechanism: Payer
    utility: UtilityOracle
    parties: Sequence[Sequence[str | int] | str | int]
    checks: Checks | None = None
    knowledge: float = 1.0
    impossible: dict[Plays, str] = field(default_factory=dict, init=False)

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
        self._known: dict[Plays, StageOutcome] = {}
        self._worths: dict[bytes, float] = {}
        self.honest = self.outcome((HONEST,) * len(self.members))
        if not self.honest.value > ROUNDING:
            raise UnclearPayError(
                f"all data of this market are worth {self.honest.value:.4g} together: there is nothing to divide; "
                "choose another market or utility"
            )

    @property
    def scale(self) -> float:
        """What payoffs are counted in: an equal share of what all honest data are worth."""
        return self.honest.value / len(self.state.providers)

    def payoffs(self, plays: Plays) -> tuple[float, ...] | None:
        """Payment of each party in equal shares of v(all); None where it cannot be played, see ``impossible``."""
        if plays in self.impossible:
            return None
        if plays not in self._known:
            self._require_plays(plays)
        try:
            found = self.outcome(plays)
        except (
            DataMarketError
        ) as error:  # more names than units, a class that is gone, too many names to check
            self.impossible[plays] = str(error)
            return None
        return tuple(found.pay[members[0]] / self.scale for members in self.members)

    def profile(self, plays: Plays) -> SubmittedProfile:
        """What is submitted where everybody plays so."""
        self._require_plays(plays)
        attackers = [
            MultiAttackerGame(members, attack, self.knowledge)
            for members, attack in zip(self.members, plays, strict=True)
            if attack != HONEST
        ]
        return moved_embeddings(attacked_by(attackers, self.state), self.state)

    def _require_plays(self, plays: Plays) -> None:
        """Refuse what says nothing of some party, and attacks that there are none of."""
        if len(plays) != len(self.members):
            raise ParameterError(
                "plays", plays, f"give one attack for each of {len(self.members)} parties"
            )
        for attack in plays:
            ATTACKS.create(attack)

    def outcome(self, plays: Plays) -> StageOutcome:
        """What is paid where everybody plays so."""
        if plays not in self._known:
            self._known[plays] = self._played(plays)
        return self._known[plays]

    def drawn(self, plays: Plays, rng: np.random.Generator) -> StageOutcome:
        """What is paid in one draw of the checks, where there are some: for any number of names."""
        if self.checks is None:
            return self.outcome(plays)
        profile, drafts = self._drafts(plays)
        return self._expected(profile, [drafts.ending(self.checks, rng)])

    def _played(self, plays: Plays) -> StageOutcome:
        if self.checks is not None:
            profile, drafts = self._drafts(plays)
            return self._expected(profile, drafts.endings(self.checks))
        profile, paid = self._paid(plays)
        pay = self._by_party(provider_totals(paid, profile))
        return StageOutcome(pay, pot_shares(pay), paid.grand_value, self._worth(profile.submission))

    def _paid(self, plays: Plays) -> tuple[SubmittedProfile, PaidTotals]:
        profile = self.profile(plays)
        with suppress_market_warnings():
            return profile, self._payer.pay(profile.submission, self.utility, profile.truth)

    def _drafts(self, plays: Plays) -> tuple[SubmittedProfile, _Checked]:
        """What is submitted, and the drafts of it in which the names of all attackers may fail."""
        profile, paid = self._paid(plays)
        assert isinstance(paid, Payments)
        assert isinstance(self._payer, Mechanism)
        attacking = [m for m, attack in zip(self.members, plays, strict=True) if attack != HONEST]
        owners = as_owners(self.state.honest, attacking)
        names = [name for members in attacking for name in profile.identities_of(members[0])]
        return profile, _Checked(self._payer, profile, owners, self.utility, names, paid)

    def _expected(self, profile: SubmittedProfile, endings: Sequence[_Ending]) -> StageOutcome:
        """The expectation over how a market ends."""
        pay, share = defaultdict[str, float](float), defaultdict[str, float](float)
        value = kept = 0.0
        for end in endings:
            by_party = self._by_party(_totals(end.amounts, profile))
            shares = pot_shares(by_party)
            for name, amount in by_party.items():
                pay[name] += end.chance * amount
                share[name] += end.chance * shares[name]
            value += end.chance * end.value
            kept += end.chance * self._worth(end.left)
        return StageOutcome(dict(pay), dict(share), value, kept)

    def _by_party(self, totals: Mapping[str, float]) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, amount in totals.items():
            lead = self._lead.get(name, name)
            found[lead] = found.get(lead, 0.0) + amount
        return found

    def _worth(self, submission: Submission) -> float:
        """v of the honest units whose content is there, each once; nothing of none."""
        honest = self.state.honest.submission
        there = np.isin(honest.keys, submission.keys)
        key = there.tobytes()
        if key not in self._worths:
            rows = np.flatnonzero(there)
            self._worths[key] = worth(honest.take(rows), self.utility) if len(rows) else 0.0
        return self._worths[key]

    def standings(self, plays: Plays, attackers: Sequence[int] | None = None) -> Standings:
        """Compare what parties gain and lose where everybody plays so; ``attackers`` count as such, else all."""
        now, then = self.outcome(plays), self.honest
        counted = range(len(self.members)) if attackers is None else attackers
        found = tuple(self._standing(plays, party) for party in counted)
        leads = {one.members[0] for one in found}
        others = [name for name in then.pay if name not in leads]
        n, grand = len(self.state.providers), then.value
        kept = [
            now.pay[name] / then.pay[name] for name in others if clearly_paid(then.pay[name], grand, n)
        ]
        taken = sum(one.share for one in found)
        return Standings(
            attackers=found,
            pot_taken=taken,
            pot_moved=taken - sum(one.honest_share for one in found),
            honest_pay=_over(now.pay, then.pay, others),
            honest_share=_over(now.share, then.share, others),
            honest_least=min(kept, default=math.nan),
            worth=gain_of(now.worth, then.worth),
            value=gain_of(now.value, then.value),
        )

    def _standing(self, plays: Plays, party: int) -> Standing:
        lead = self.members[party][0]
        alone = self.outcome((*plays[:party], HONEST, *plays[party + 1 :]))
        now, then = self.outcome(plays), self.honest
        return Standing(
            self.members[party], plays[party], now.pay[lead], then.pay[lead], alone.pay[lead],
            now.share[lead], then.share[lead],
            clearly_paid(then.pay[lead], then.value, len(self.state.providers)),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Ending:
    """How a market with checks ends, with its chance: what each name is paid, v(all), and what is left in it."""

    chance: float
    amounts: Mapping[str, float]
    value: float
    left: Submission


@dataclass(eq=False)
class _Checked(Drafts):
    """The drafts of a market in which the names of several attackers may fail."""

    names: list[str]
    paid: Payments

    def __post_init__(self) -> None:
        self._begin(self.names, self.paid)

    def endings(self, checks: Checks) -> list[_Ending]:
        """All the ways in which it may end."""
        return [self._ending(d.failed, d.ends) for d in self._reached(checks) if d.ends]

    def ending(self, checks: Checks, rng: np.random.Generator) -> _Ending:
        """One of them, drawn: names fail, draft by draft, until none does."""
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
    """Refuse parties whose pseudonyms would be the same: no way to play both could be paid."""
    known: dict[str, str] = {}
    for name in [members[0] for members in parties]:
        other = known.setdefault(name.rstrip("~"), name)
        if other != name:
            raise ParameterError(
                "parties",
                name,
                f"{other!r} has the same pseudonyms; rename one, not by a tilde at the end",
            )


def _totals(amounts: Mapping[str, float], profile: SubmittedProfile) -> dict[str, float]:
    """Amounts of names as those of who controls them; who has none left is paid nothing."""
    found = dict.fromkeys(sorted(set(profile.truth.controller.values())), 0.0)
    for name, amount in amounts.items():
        found[profile.truth.controller[name]] += amount
    return found


def _over(now: Mapping[str, float], then: Mapping[str, float], names: Sequence[str]) -> float:
    return gain_of(sum(now[name] for name in names), sum(then[name] for name in names))


ORDERS = ("round_robin", "simultaneous")
EQUILIBRIUM, CYCLE, UNSETTLED = "equilibrium", "cycle", "unsettled"

Profile = tuple[str, ...]
"""What each player plays."""

Payoffs = Callable[[Profile], Sequence[float] | None]
"""What each player gets; None where a profile cannot be played."""


@dataclass(frozen=True)
class Path(Shown):
    """A path of best responses, how it ended, and what each player could still gain at the end.

    ``cycle`` are the profiles that come back, ``untried`` the items of each menu that could not be played at the end.
    """

    profiles: tuple[Profile, ...]
    ended: str
    regrets: tuple[float, ...]
    epsilon: float
    rounds: int
    cycle: tuple[Profile, ...] = ()
    why: str = ""
    untried: tuple[tuple[str, ...], ...] = ()

    @property
    def last(self) -> Profile:
        """The profile at the end; of a cycle, the one that came again."""
        return self.profiles[-1]

    @property
    def ends(self) -> tuple[Profile, ...]:
        """Where it ends: the last profile, or all of the cycle."""
        return self.cycle or (self.last,)


def best_response_dynamics(
    payoffs: Payoffs,
    menus: Sequence[Sequence[str]],
    *,
    epsilon: float = 0.01,
    rounds: int = 20,
    order: str = "round_robin",
    start: Profile | None = None,
) -> Path:
    """Let players move to their best responses until nobody gains.

    Parameters
    ----------
    payoffs
        What each player gets at a profile; None where it cannot be played.
    menus
        What each player may play.
    epsilon
        A player moves only for more than this.
    rounds
        How many rounds are played at the most.
    order
        ``round_robin`` (one after another) or ``simultaneous`` (all at once in each round).
    start
        The first profile; the first item of each menu if left out.

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
    game = _Game(payoffs, menus, epsilon)
    if payoffs(profile) is None:
        raise DataMarketError(f"the first profile, {profile}, cannot be played; start elsewhere")
    seen, gone = {profile: 0}, [profile]
    for number in range(1, rounds + 1):
        before = profile
        if order == "round_robin":
            for player in range(len(menus)):
                moved = game.moved(profile, player)
                if moved != profile:
                    gone.append(moved)
                profile = moved
        else:
            profile = tuple(game.moved(before, p)[p] for p in range(len(menus)))
            if profile != before:
                gone.append(profile)
            if payoffs(profile) is None:
                why = "all moved at once to what cannot be played together"
                regrets = (float("nan"),) * len(menus)
                return Path(tuple(gone), UNSETTLED, regrets, epsilon, number, why=why)
        if profile == before:
            return game.ended(gone, EQUILIBRIUM, number)
        if profile in seen:
            return game.ended(gone, CYCLE, number, tuple(gone[seen[profile] : -1]))
        seen[profile] = len(gone) - 1
    return game.ended(gone, UNSETTLED, rounds, why=f"{rounds} rounds were played")


@dataclass(frozen=True)
class _Game:
    payoffs: Payoffs
    menus: Sequence[Sequence[str]]
    epsilon: float

    def best(self, profile: Profile, player: int) -> tuple[str, float]:
        """The player's best item given the others', and how much more it pays than what it plays."""
        now = self.payoffs(profile)
        assert now is not None
        chosen, most = profile[player], now[player]
        for item in self.menus[player]:
            found = self.payoffs((*profile[:player], item, *profile[player + 1 :]))
            if found is not None and found[player] > most + ROUNDING:
                chosen, most = item, found[player]
        return chosen, most - now[player]

    def moved(self, profile: Profile, player: int) -> Profile:
        """The profile after the player's move, if it has one."""
        item, more = self.best(profile, player)
        if more <= self.epsilon:
            return profile
        return (*profile[:player], item, *profile[player + 1 :])

    def ended(
        self, gone: list[Profile], how: str, rounds: int, cycle: tuple[Profile, ...] = (), why: str = ""
    ) -> Path:
        last, players = gone[-1], range(len(self.menus))
        regrets = tuple(self.best(last, player)[1] for player in players)
        untried = tuple(
            tuple(i for i in self.menus[p] if self.payoffs((*last[:p], i, *last[p + 1 :])) is None)
            for p in players
        )
        return Path(tuple(gone), how, regrets, self.epsilon, rounds, cycle, why, untried)
