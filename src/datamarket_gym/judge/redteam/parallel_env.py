"""Several cheats as a PettingZoo parallel environment: one step, an attack for everybody, each paid in one market.

Needs the extra ``gym``. Every provider is an agent, `AttackEnv` (``gym_env``) with company: the observation describes
its place in the honest market, the action is a point of the same search space. The reward is what it is paid, over its
honest pay, less costs, less one: all honest earn nothing. Where payees are checked it is what is paid in *one draw* of
the checks, of the environment's seed, as the names of many cheats are too many to take an expectation over.

Whose attack cannot be carried out is honest instead, and has the reward `IMPOSSIBLE`; ``info`` says why. Whoever is
given no action is honest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import error, spaces
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from datamarket_gym.core.errors import DataMarketError, UnclearPayError, UnknownNameError
from datamarket_gym.core.screen import Shown
from datamarket_gym.judge.metrics import clearly_paid, gain_of
from datamarket_gym.judge.redteam.best_response import IMPOSSIBLE
from datamarket_gym.judge.redteam.expectation import asked_checks
from datamarket_gym.judge.redteam.several import HONEST, Stage
from datamarket_gym.judge.redteam.space import DIMENSIONS, AttackCosts, Effort, Space
from datamarket_gym.learners.oracle import RECOMMENDED, Utility
from datamarket_gym.pipeline.mechanism import MECHANISMS, as_mechanism
from datamarket_gym.world.market import ProviderMarket
from datamarket_gym.world.tasks.base import TASKS

Observation = NDArray[np.float32]
Action = NDArray[np.float32]
_LOW = (0, 0, 0, -1, 0, 0, 0, 0, 0)
_HIGH: Observation = np.array((1e6, 1, 1e3, 1, 1e3, 1e3, 1e3, 1, 1), dtype=np.float32)
_DRAWS = 100  # of markets, until everybody's honest pay is clearly above zero


class ParallelMarketEnv(ParallelEnv[str, Observation, Action], Shown):  # type: ignore[misc]
    """A market is drawn at each reset; one action of everybody is paid, and ends the episode.

    Each name is checked ``checks`` times with this ``power`` (0: never; left out: thrice, or never by a mechanism of
    one's own), and everybody sees the share ``knowledge`` of the others' units. ``empty`` is what accuracy is counted
    from; left out, it is as where money is divided.
    """

    metadata: dict[str, Any] = {"name": "datamarket_several_v0", "render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        task: str = "synthetic(n_providers=4, per_provider=20, validation=60)",
        mechanism_name: str = "recommended",
        learner: str = RECOMMENDED,
        empty: str | None = None,
        identity_cost: float = 0.0,
        perturbation_cost: float = 0.0,
        checks: int | None = None,
        power: float = 0.8,
        knowledge: float = 1.0,
        render_mode: str | None = None,
    ) -> None:
        self.render_mode = render_mode
        self._task = TASKS.create(task)
        self._mechanism = as_mechanism(MECHANISMS.create(mechanism_name), mechanism_name)
        self._utility = Utility.paying(learner) if empty is None else Utility(learner, empty)
        self._checks = asked_checks(self._mechanism, checks, power)
        self._costs = AttackCosts(identity_cost, perturbation_cost)
        self._knowledge = knowledge
        self.possible_agents: list[str] = ProviderMarket.from_task(self._task).state.providers
        self.agents: list[str] = []
        # providers, own share of units, of pay, the value of all data, two costs, checks, power, knowledge
        low = np.array(_LOW, dtype=np.float32)
        self.observation_spaces = {name: spaces.Box(low, _HIGH) for name in self.possible_agents}
        self.action_spaces = {
            name: spaces.Box(0.0, 1.0, (1 + DIMENSIONS,), np.float32) for name in self.possible_agents
        }
        self._rng = np.random.default_rng()
        self._stage: Stage | None = None

    def observation_space(self, agent: str) -> spaces.Box:
        """What an agent observes: the same object whenever asked."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Box:
        """What an agent may do: the same object whenever asked."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """A new market, drawn again until everybody's honest pay is clearly above zero."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        for _ in range(_DRAWS):
            market = ProviderMarket.from_task(self._task, int(self._rng.integers(2**31)))
            stage = self._staged(market)
            if stage is not None:
                self._stage, self.agents = stage, list(self.possible_agents)
                return self._observations(stage), {name: {} for name in self.agents}
        raise DataMarketError(
            f"{self._mechanism.label} pays some provider next to nothing in {_DRAWS} markets, so rewards would mean "
            "nothing; choose another mechanism_name or task"
        )

    def step(
        self, actions: Mapping[str, Action]
    ) -> tuple[
        dict[str, Observation],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Carry out everybody's attack in one market; the episode ends."""
        if self._stage is None or not self.agents:
            raise error.ResetNeeded("call reset before step")
        if unknown := set(actions) - set(self.agents):
            raise UnknownNameError("agent", min(unknown), self.agents)
        stage, space = self._stage, Space.of(self._stage.state)
        plays, infos, efforts = [], {}, {}
        for party, name in enumerate(self.agents):
            attack, info = HONEST, {"attack": HONEST, "possible": True}
            if name in actions:
                attack = space.attack_at(np.asarray(actions[name], dtype=np.float64))
                info["attack"] = attack
                try:
                    alone = stage.profile(_only(attack, party, len(self.agents)))
                    efforts[name] = Effort.of(alone, stage.state)
                except DataMarketError as why:
                    attack, info = HONEST, {**info, "possible": False, "why": str(why)}
            plays.append(attack)
            infos[name] = info
        rewards = self._rewards(stage, tuple(plays), infos, efforts)
        ended = dict.fromkeys(self.agents, True)
        observed = self._observations(stage)
        self.agents = []
        return observed, rewards, ended, dict.fromkeys(ended, False), infos

    def _rewards(
        self,
        stage: Stage,
        plays: tuple[str, ...],
        infos: dict[str, dict[str, Any]],
        efforts: Mapping[str, Effort],
    ) -> dict[str, float]:
        try:
            now = stage.drawn(plays, self._rng)
        except DataMarketError as why:  # such as a class of which nobody is left
            for name, attack in zip(self.agents, plays, strict=True):
                if attack != HONEST:
                    infos[name] |= {"possible": False, "why": str(why)}
            return {n: 0.0 if infos[n]["possible"] else IMPOSSIBLE for n in self.agents}
        rewards = {}
        for name in self.agents:
            gain = gain_of(now.pay[name], stage.honest.pay[name])
            cost = self._costs.of(efforts[name]) if name in efforts else 0.0
            infos[name] |= {"gain": gain, "net_gain": gain - cost, "share": now.share[name]}
            rewards[name] = gain - cost - 1.0 if infos[name]["possible"] else IMPOSSIBLE
        return rewards

    def _staged(self, market: ProviderMarket) -> Stage | None:
        """The market, where everybody's honest pay is clearly above zero."""
        names = market.state.providers
        oracle = market.utility_oracle(self._utility)
        try:
            stage = Stage(market.state, self._mechanism, oracle, names, self._checks, self._knowledge)
        except UnclearPayError:  # worth nothing: another is drawn, and in the end it is said
            return None
        honest = stage.honest
        clear = all(clearly_paid(honest.pay[name], honest.value, len(names)) for name in names)
        return stage if clear and names == self.possible_agents else None

    def _observations(self, stage: Stage) -> dict[str, Observation]:
        owner, honest = stage.state.honest.truth.owner, stage.honest
        costs = (self._costs.identity, self._costs.perturbation)
        checks = (0, 0) if self._checks is None else (self._checks.per_payee, self._checks.power)
        found = {}
        for name in self.possible_agents:
            owned, share = float((owner == name).mean()), honest.pay[name] / honest.value
            numbers = (
                len(self.possible_agents), owned, share, honest.value, *costs, *checks, self._knowledge
            )  # fmt: skip
            found[name] = np.minimum(np.array(numbers, dtype=np.float32), _HIGH)
        return found


def _only(attack: str, party: int, parties: int) -> tuple[str, ...]:
    return tuple(attack if i == party else HONEST for i in range(parties))
