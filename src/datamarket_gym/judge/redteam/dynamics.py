"""Best-response dynamics: everybody in turn plays what pays best given what the others play, until nobody gains.

Players have finite menus. A player moves only if that pays more than ``epsilon`` more, and then to the best of its
menu, the first listed among equals; so the path is a function of the game. It ends

- in an *equilibrium*: nobody can gain more than ``epsilon`` by another item of its menu (an epsilon-equilibrium of the
  game with these menus: what is on no menu was not tried, nor what cannot be played there, which is told),
- in a *cycle*: the same profile has come back, and as moves depend on the profile alone it will again, or
- *unsettled*: after ``rounds`` rounds, or where all moved at once to what cannot be played.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from datamarket_gym.core.errors import (
    DataMarketError,
    ParameterError,
    require_choice,
    require_count,
    require_in,
)
from datamarket_gym.core.screen import Shown
from datamarket_gym.judge.metrics import ROUNDING

ORDERS = ("round_robin", "simultaneous")
EQUILIBRIUM, CYCLE, UNSETTLED = "equilibrium", "cycle", "unsettled"

Profile = tuple[str, ...]
"""What each player plays."""

Payoffs = Callable[[Profile], Sequence[float] | None]
"""What each player gets; None where a profile cannot be played."""


@dataclass(frozen=True)
class Path(Shown):
    """A path of best responses: the profiles gone through, the first included, and how it ended.

    ``regrets``: what each player could still gain at the last profile by another item of its menu. ``cycle``: the
    profiles that come again and again, in order; none where there is no cycle. ``why`` is said of an unsettled one.
    ``untried``: of each player, the items of its menu that could not be played at the last profile. Regrets and an
    equilibrium say nothing of these.
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
    """The path from ``start``, or from where everybody plays the first of its menu.

    In ``round_robin`` players move one after another, in ``simultaneous`` order all of them at once in each round.
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
