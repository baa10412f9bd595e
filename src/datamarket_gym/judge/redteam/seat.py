"""One party among several, with what the others play held: what a best response is searched for."""

from __future__ import annotations

from dataclasses import dataclass, field

from datamarket_gym.core.errors import ParameterError
from datamarket_gym.judge.redteam.several import HONEST, Plays, Stage
from datamarket_gym.judge.redteam.space import AttackCosts, Effort
from datamarket_gym.world.market import MarketState


@dataclass(frozen=True)
class Reply:
    """An attack, and what it is worth: its payoff over that of being honest there, both in equal shares of v(all)."""

    attack: str
    payoff: float
    net_gain: float  # what the search looks for; honesty is at 1


@dataclass(eq=False)
class Seat:
    """A party of a stage, given what everybody plays; `best_response` searches it as it does a `Target`.

    Net gains are 1 + the payoff less that of being honest there: differences, as honesty may pay next to nothing where
    others cheat. Cheating costs nothing here.
    """

    stage: Stage
    plays: Plays
    party: int = 0
    _known: dict[str, Reply] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._honest = self._payoff(HONEST)

    @property
    def state(self) -> MarketState:
        """The market."""
        return self.stage.state

    def respond(self, attack: str, costs: AttackCosts) -> Reply | None:
        """What an attack is worth; None where it cannot be carried out."""
        if costs.of(Effort(2, 1.0)):
            raise ParameterError(
                "costs", costs, "among several cheats cheating is free; leave costs out"
            )
        if attack not in self._known:
            payoff = self._payoff(attack)
            if payoff is None or self._honest is None:
                return None
            self._known[attack] = Reply(attack, payoff, 1.0 + payoff - self._honest)
        return self._known[attack]

    @property
    def tried(self) -> list[str]:
        """The attacks whose worth is known."""
        return list(self._known)

    @property
    def honesty(self) -> Reply:
        """What honest units are worth there."""
        return Reply(HONEST, self._honest or 0.0, 1.0)

    def _payoff(self, attack: str) -> float | None:
        plays = (*self.plays[: self.party], attack, *self.plays[self.party + 1 :])
        found = self.stage.payoffs(plays)
        return None if found is None else found[self.party]
