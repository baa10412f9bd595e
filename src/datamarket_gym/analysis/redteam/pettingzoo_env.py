"""All providers as attackers in a PettingZoo parallel environment: one step, an attack by each, all in one market.

Each agent plays the one-step contextual bandit of `gymnasium_env`, in a market that the others attack at the same time.
Its observation describes its place in the honest market; its action is a point of the same action space.

Needs the extra ``gym``. Importing `datamarket_gym.envs` registers the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import error, spaces

from datamarket_gym.analysis.metrics import clearly_paid, gain_of
from datamarket_gym.analysis.redteam.best_response import IMPOSSIBLE, Effort, Space
from datamarket_gym.analysis.redteam.gymnasium_env import (
    DRAWS,
    Action,
    MarketSettings,
    Observation,
    box,
)
from datamarket_gym.analysis.redteam.multi_attacker import HONEST, StageGame
from datamarket_gym.errors import DataMarketError, UnclearPayError, UnknownNameError
from datamarket_gym.market.market import ProviderMarket

try:
    from pettingzoo import ParallelEnv, register
except ImportError as missing:
    raise ImportError(
        "the parallel environment needs pettingzoo 1.27 or later; run: pip install 'datamarket-gym[gym]'",
        name="pettingzoo",
    ) from missing


Step = tuple[
    dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]
]
"""Observations, rewards, terminations, truncations and infos."""


@dataclass(eq=False, kw_only=True)
class ParallelMarketEnv(ParallelEnv[str, Observation, Action], MarketSettings):  # type: ignore[misc]
    """Let every provider of a market choose an attack at the same time (the multi-attacker game).

    Parameters
    ----------
    task, mechanism_name, learner, empty, identity_cost, perturbation_cost, checks, power, knowledge, render_mode
        As of `AttackEnv`.

    Examples
    --------
    >>> from datamarket_gym.envs import ParallelMarketEnv
    >>> env = ParallelMarketEnv("synthetic(n_providers=3, per_provider=12, validation=60)")
    >>> observations, _ = env.reset(seed=0)
    >>> _, rewards, *_ = env.step({"provider_0": env.action_space("provider_0").sample()})
    >>> sorted(rewards)
    ['provider_0', 'provider_1', 'provider_2']
    """

    metadata = {"name": "datamarket_multi_attacker_v0", "render_modes": []}  # noqa: RUF012

    def __post_init__(self) -> None:
        super().__post_init__()
        self.possible_agents: list[str] = ProviderMarket.from_task(self._task).state.providers
        self.agents: list[str] = []
        self.observation_spaces = {name: box(self.observation_fields) for name in self.possible_agents}
        self.action_spaces = {name: box(self.action_fields) for name in self.possible_agents}
        self._rng = np.random.default_rng()
        self._stage: StageGame | None = None

    def observation_space(self, agent: str) -> spaces.Box[np.float32]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Box[np.float32]:
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        for _ in range(DRAWS):
            market = ProviderMarket.from_task(self._task, int(self._rng.integers(2**31)))
            stage = self._prepare(market)
            if stage is not None:
                self._stage, self.agents = stage, list(self.possible_agents)
                return self._observations(stage), {name: {} for name in self.agents}
        raise DataMarketError(
            f"{self._mechanism.label} pays some provider next to nothing in {DRAWS} markets, so rewards would mean "
            "nothing; choose another mechanism_name or task"
        )

    def step(self, actions: Mapping[str, Action]) -> Step:
        """Carry out the attacks of all agents in one market and end the episode.

        An agent without an action is honest; one whose attack cannot be carried out is, too, and its reward is -1.
        """
        if self._stage is None or not self.agents:
            raise error.ResetNeeded("call reset before step")
        if unknown := set(actions) - set(self.agents):
            raise UnknownNameError("agent", min(unknown), self.agents)
        stage, space = self._stage, Space.of(self._stage.state)
        strategies, infos, efforts = [], {}, {}
        for party, name in enumerate(self.agents):
            attack, info = HONEST, {"attack": HONEST, "possible": True}
            if name in actions:
                attack = space.attack_at(np.asarray(actions[name], dtype=np.float64))
                info["attack"] = attack
                try:
                    alone = [HONEST] * len(self.agents)
                    alone[party] = attack
                    efforts[name] = Effort.of(stage.profile(tuple(alone)), stage.state)
                except DataMarketError as why:
                    attack, info = HONEST, {**info, "possible": False, "why": str(why)}
            strategies.append(attack)
            infos[name] = info
        rewards = self._rewards(stage, tuple(strategies), infos, efforts)
        ended = dict.fromkeys(self.agents, True)
        observed = self._observations(stage)
        self.agents = []
        return observed, rewards, ended, dict.fromkeys(ended, False), infos

    def _rewards(
        self,
        stage: StageGame,
        strategies: tuple[str, ...],
        infos: dict[str, dict[str, Any]],
        efforts: Mapping[str, Effort],
    ) -> dict[str, float]:
        try:
            now = stage.drawn(strategies, self._rng)
        except DataMarketError as why:  # such as a class without units
            for name, attack in zip(self.agents, strategies, strict=True):
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

    def _prepare(self, market: ProviderMarket) -> StageGame | None:
        """Prepare a market, or None where some honest payment is not clearly above zero."""
        names = market.state.providers
        oracle = market.utility_oracle(self._utility)
        try:
            stage = StageGame(market.state, self._mechanism, oracle, names, self._checks, self.knowledge)
        except UnclearPayError:  # worth nothing: the caller draws another
            return None
        honest = stage.honest
        clear = all(clearly_paid(honest.pay[name], honest.value, len(names)) for name in names)
        return stage if clear and names == self.possible_agents else None

    def _observations(self, stage: StageGame) -> dict[str, Observation]:
        pay, total = stage.honest.pay, stage.honest.value
        return {n: self._observe(stage.state, n, pay[n], total) for n in self.possible_agents}


parallel_env = ParallelMarketEnv
"""The name under which modules of PettingZoo's own environments make theirs."""

register("parallel", "DataMarket/MultiAttacker-v0", entry_point=f"{__name__}:parallel_env")
