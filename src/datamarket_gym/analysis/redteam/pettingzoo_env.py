"""All providers as attackers in a PettingZoo parallel environment: one step, an attack by each, all in one market.

Each agent plays the one-step contextual bandit of `gym_env`, in a market that the others attack at the same time. Its
observation describes its place in the honest market; its action is a point of the same action space.

Needs the extra ``gym``. Importing `datamarket_gym.envs` registers the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from gymnasium import error, spaces

from datamarket_gym.analysis.metrics import clearly_paid, gain_of
from datamarket_gym.analysis.redteam.best_response import (
    FAMILIES,
    IMPOSSIBLE,
    AttackCosts,
    Effort,
    Space,
)
from datamarket_gym.analysis.redteam.gymnasium_env import (
    ACTION_FIELDS,
    DRAWS,
    OBSERVATION_FIELDS,
    Action,
    Observation,
    SpaceField,
    box,
    observe,
)
from datamarket_gym.analysis.redteam.multi_attacker import HONEST, StageGame
from datamarket_gym.analysis.spot_checks import requested_checks
from datamarket_gym.display import Shown
from datamarket_gym.errors import DataMarketError, UnclearPayError, UnknownNameError
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks.base import TASKS
from datamarket_gym.mechanism.pipeline import MECHANISMS, as_mechanism
from datamarket_gym.utilities.oracle import RECOMMENDED, Utility

try:
    from pettingzoo import ParallelEnv, register
except ImportError as missing:
    raise ImportError(
        "the parallel environment needs pettingzoo 1.27 or later; run: pip install 'datamarket-gym[gym]'",
        name="pettingzoo",
    ) from missing


class ParallelMarketEnv(ParallelEnv[str, Observation, Action], Shown):  # type: ignore[misc]
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

    metadata: dict[str, Any] = {"name": "datamarket_multi_attacker_v0", "render_modes": []}  # noqa: RUF012
    observation_fields: ClassVar[tuple[SpaceField, ...]] = OBSERVATION_FIELDS
    action_fields: ClassVar[tuple[SpaceField, ...]] = ACTION_FIELDS
    families: ClassVar[tuple[str, ...]] = FAMILIES

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
        self._checks = requested_checks(self._mechanism, checks, power)
        self._costs = AttackCosts(identity_cost, perturbation_cost)
        self._knowledge = knowledge
        self.possible_agents: list[str] = ProviderMarket.from_task(self._task).state.providers
        self.agents: list[str] = []
        self.observation_spaces = {name: box(self.observation_fields) for name in self.possible_agents}
        self.action_spaces = {name: box(self.action_fields) for name in self.possible_agents}
        self._rng = np.random.default_rng()
        self._stage: StageGame | None = None

    def observation_space(self, agent: str) -> spaces.Box[np.float32]:
        """Return the space of an agent's observations."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Box[np.float32]:
        """Return the space of an agent's actions."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """Draw a market in which every honest payment is clearly above zero."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        for _ in range(DRAWS):
            market = ProviderMarket.from_task(self._task, int(self._rng.integers(2**31)))
            stage = self._staged(market)
            if stage is not None:
                self._stage, self.agents = stage, list(self.possible_agents)
                return self._observations(stage), {name: {} for name in self.agents}
        raise DataMarketError(
            f"{self._mechanism.label} pays some provider next to nothing in {DRAWS} markets, so rewards would mean "
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
        """Carry out the attacks of all agents in one market and end the episode.

        An agent without an action is honest; one whose attack cannot be carried out is, too, and its reward is -1.
        """
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
        stage: StageGame,
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

    def _staged(self, market: ProviderMarket) -> StageGame | None:
        """Prepare a market, or None where some honest payment is not clearly above zero."""
        names = market.state.providers
        oracle = market.utility_oracle(self._utility)
        try:
            stage = StageGame(
                market.state, self._mechanism, oracle, names, self._checks, self._knowledge
            )
        except UnclearPayError:  # worth nothing: the caller draws another
            return None
        honest = stage.honest
        clear = all(clearly_paid(honest.pay[name], honest.value, len(names)) for name in names)
        return stage if clear and names == self.possible_agents else None

    def _observations(self, stage: StageGame) -> dict[str, Observation]:
        owner, honest = stage.state.honest.truth.owner, stage.honest
        return {
            name: observe(
                len(self.possible_agents),
                float((owner == name).mean()),
                honest.pay[name],
                honest.value,
                self._costs,
                self._checks,
                self._knowledge,
            )
            for name in self.possible_agents
        }


def parallel_env(**arguments: Any) -> ParallelMarketEnv:
    """Make the parallel environment, as the modules of PettingZoo's own environments do."""
    return ParallelMarketEnv(**arguments)


def _only(attack: str, party: int, parties: int) -> tuple[str, ...]:
    return tuple(attack if i == party else HONEST for i in range(parties))


register("parallel", "DataMarket/MultiAttacker-v0", entry_point=f"{__name__}:parallel_env")
