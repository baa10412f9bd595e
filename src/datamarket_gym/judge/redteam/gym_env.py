"""The attacker as a Gymnasium environment: one step, an attack as action, the net gain as reward.

Needs the extra ``gym``::

    gymnasium.make("datamarket_gym.judge.redteam.gym_env:DataMarket/Attack-v0")

The observation describes the attacker's place in the market; the action is a point of the search space
(`datamarket_gym.judge.redteam.space`); the reward is the net gain that is expected given the checks, less one, so
honesty earns nothing. ``info`` has the attack, its gains without and with checks, net of costs, what the others lose,
and the channels A, L and D where Theorem 3 applies; of an attack that cannot be carried out it has the reason, ``why``.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from datamarket_gym.core.errors import DataMarketError, UnclearPayError
from datamarket_gym.judge.redteam.best_response import IMPOSSIBLE, Target
from datamarket_gym.judge.redteam.expectation import asked_checks
from datamarket_gym.judge.redteam.space import DIMENSIONS, AttackCosts, Space
from datamarket_gym.learners.oracle import RECOMMENDED, Utility
from datamarket_gym.pipeline.mechanism import MECHANISMS, as_mechanism
from datamarket_gym.world.market import ProviderMarket
from datamarket_gym.world.tasks.base import TASKS

Observation = NDArray[np.float32]
_HIGH: Observation = np.array(
    (1e6, 1, 1e3, 1, 1e3, 1e3, 1e3, 1, 1), dtype=np.float32
)  # beyond, nothing is told apart
_DRAWS = 100  # of markets, until the provider's honest pay is clearly above zero


class AttackEnv(gymnasium.Env[Observation, NDArray[np.float32]]):
    """A market is drawn at each reset; one action is one attack on it, and ends the episode.

    Each name is checked ``checks`` times with this ``power`` (0: never; left out: thrice, or never by a mechanism of
    one's own), and the attacker sees the share ``knowledge`` of the others' units. ``empty`` is what accuracy is
    counted from; left out, it is as where money is divided.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own name and type

    def __init__(
        self,
        task: str = "synthetic(n_providers=4, per_provider=20, validation=60)",
        mechanism_name: str = "recommended",
        learner: str = RECOMMENDED,
        empty: str | None = None,
        provider: int = 0,
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
        self._provider, self._knowledge = provider, knowledge
        self._checks = asked_checks(self._mechanism, checks, power)
        self._costs = AttackCosts(identity_cost, perturbation_cost)
        self.action_space = spaces.Box(0.0, 1.0, (1 + DIMENSIONS,), np.float32)
        # providers, own share of units, of pay, the value of all data, two costs, checks, power, knowledge
        low = np.array((0, 0, 0, -1, 0, 0, 0, 0, 0), dtype=np.float32)
        self.observation_space = spaces.Box(low, _HIGH)
        self._target: Target | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """A new market, drawn again until the provider's honest pay is clearly above zero."""
        super().reset(seed=seed)
        for _ in range(_DRAWS):
            market = ProviderMarket.from_task(self._task, int(self.np_random.integers(2**31)))
            oracle = market.utility_oracle(self._utility)
            with suppress(UnclearPayError):  # the market is drawn again
                self._target = Target(
                    market.state,
                    self._mechanism,
                    oracle,
                    self._provider,
                    self._checks,
                    self._knowledge,
                )
                return self._observation(self._target), {}
        raise DataMarketError(
            f"{self._mechanism.label} pays provider {self._provider} next to nothing in {_DRAWS} markets, "
            "so rewards would mean nothing; choose another mechanism_name, provider or task"
        )

    def step(self, action: NDArray[np.float32]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Carry out the attack; the episode ends."""
        if self._target is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        target = self._target
        attack = Space.of(target.state).attack_at(np.asarray(action, dtype=np.float64))
        response = target.respond(attack, self._costs)
        info: dict[str, Any] = {"attack": attack, "possible": response is not None}
        reward = IMPOSSIBLE
        if response is None:
            info["why"] = target.impossible[attack]
        else:
            reward = response.net_gain - 1.0
            info |= {
                "gain": response.gain,
                "expected_gain": response.expected_gain,
                "net_gain": response.net_gain,
                **asdict(response.harm),
            }
            terms = target.certificate(attack).terms
            if terms is not None:
                info |= {"A": terms.allocation, "L": terms.escape, "D": terms.drift}
        return self._observation(target), float(reward), True, False, info

    def _observation(self, target: Target) -> Observation:
        honest = target.state.honest
        owned = float((honest.truth.owner == target.name).mean())
        grand = target.honest.payments.grand_value
        share = target.pay / grand if grand > 0 else 0.0
        costs = (self._costs.identity, self._costs.perturbation)
        checks = (0, 0) if self._checks is None else (self._checks.per_payee, self._checks.power)
        numbers = (len(target.state.providers), owned, share, grand, *costs, *checks, self._knowledge)
        return np.minimum(np.array(numbers, dtype=np.float32), _HIGH)


gymnasium.register(id="DataMarket/Attack-v0", entry_point=f"{__name__}:AttackEnv")
