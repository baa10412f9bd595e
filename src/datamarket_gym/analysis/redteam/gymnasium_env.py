"""One attacker as a Gymnasium environment: a one-step contextual bandit.

`reset` draws a market and returns the context: nine numbers that describe the attacker's place in it. `step` takes one
attack, pays the attacked market, returns the reward and ends the episode. No state follows from an action, so there is
nothing to discount and no value function to learn: what can be learned is which attack to choose in which market.

Needs the extra ``gym``. Importing `datamarket_gym.envs` registers the environment.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.analysis.redteam.best_response import (
    DIMENSIONS,
    FAMILIES,
    IMPOSSIBLE,
    AttackCosts,
    Space,
    Target,
)
from datamarket_gym.analysis.spot_checks import requested_checks
from datamarket_gym.display import Described, Shown
from datamarket_gym.errors import DataMarketError, UnclearPayError
from datamarket_gym.market.market import MarketState, ProviderMarket
from datamarket_gym.market.tasks.base import TASKS
from datamarket_gym.mechanism.pipeline import MECHANISMS, as_mechanism
from datamarket_gym.utilities.coverage import RECOMMENDED
from datamarket_gym.utilities.oracle import Utility

try:
    import gymnasium
    from gymnasium import spaces
except ImportError as missing:
    raise ImportError(
        "gymnasium is not installed; run: pip install 'datamarket-gym[gym]'", name="gymnasium"
    ) from missing

Observation = NDArray[np.float32]
Action = NDArray[np.float32]
DRAWS = 100
"""Markets drawn at a reset before it gives up finding one in which honest payments are clearly above zero."""


@dataclass(frozen=True)
class SpaceField(Described):
    """Describe ``size`` consecutive entries of a flat space, with their range."""

    name: str
    low: float
    high: float
    meaning: str
    size: int = 1


OBSERVATION_FIELDS = (
    SpaceField("providers", 0, 1e6, "number of providers in the market"),
    SpaceField("own_units", 0, 1, "share of all honest units that the attacker owns"),
    SpaceField("own_pay", 0, 1e3, "the attacker's honest payment divided by `total_value`"),
    SpaceField("total_value", -1, 1e3, "v(all): value of all honest units, in units of the utility"),
    SpaceField("identity_cost", 0, 1e3, "cost of each further identity, in honest payments"),
    SpaceField("perturbation_cost", 0, 1e3, "cost of one unit of perturbation, in honest payments"),
    SpaceField("checks", 0, 1e3, "spot checks of each identity; 0: none"),
    SpaceField("power", 0, 1, "probability that a spot check detects a false unit; 0 without checks"),
    SpaceField("knowledge", 0, 1, "share of the other providers' units that the attacker sees"),
)
"""What an attacker observes. Values outside a range are clipped to it."""

ACTION_FIELDS = (
    SpaceField("family", 0, 1, f"attack family: one of {len(FAMILIES)} intervals of equal length"),
    SpaceField(
        "parameters", 0, 1, "parameters of the family, in its order; the rest is ignored", DIMENSIONS
    ),
)
"""What an attacker chooses: a point that `Space.attack_at` reads as an attack."""


def box(fields: Sequence[SpaceField]) -> spaces.Box[np.float32]:
    sizes = [field.size for field in fields]
    low, high = ([getattr(field, end) for field in fields] for end in ("low", "high"))
    return spaces.Box(
        np.repeat(low, sizes).astype(np.float32),
        np.repeat(high, sizes).astype(np.float32),
        dtype=np.float32,
    )


@dataclass(eq=False, kw_only=True)
class MarketSettings(Shown):
    """Hold what both environments are made of: markets, a mechanism, a utility, costs, checks and knowledge."""

    observation_fields: ClassVar[tuple[SpaceField, ...]] = OBSERVATION_FIELDS
    action_fields: ClassVar[tuple[SpaceField, ...]] = ACTION_FIELDS
    families: ClassVar[tuple[str, ...]] = FAMILIES

    task: str = field(default="synthetic(n_providers=4, per_provider=20, validation=60)", kw_only=False)
    mechanism_name: str = "recommended"
    learner: str = RECOMMENDED
    empty: str | None = None
    identity_cost: float = 0.0
    perturbation_cost: float = 0.0
    checks: int | None = None
    power: float = 0.8
    knowledge: float = 1.0
    render_mode: str | None = None

    def __post_init__(self) -> None:
        self._task = TASKS.create(self.task)
        self._mechanism = as_mechanism(MECHANISMS.create(self.mechanism_name), self.mechanism_name)
        self._utility = Utility.paying(self.learner)
        if self.empty is not None:
            self._utility = Utility(self.learner, self.empty)
        self._checks = requested_checks(self._mechanism, self.checks, self.power)
        self._costs = AttackCosts(self.identity_cost, self.perturbation_cost)

    def _observe(self, state: MarketState, provider: str, pay: float, total_value: float) -> Observation:
        """Return the observation of one attacker, clipped to the ranges of `OBSERVATION_FIELDS`."""
        checks = (0, 0) if self._checks is None else (self._checks.per_payee, self._checks.power)
        values = (
            len(state.providers),
            float((state.honest.truth.owner == provider).mean()),
            pay / total_value if total_value > 0 else 0.0,
            total_value,
            self._costs.identity,
            self._costs.perturbation,
            *checks,
            self.knowledge,
        )
        low, high = ([getattr(field, end) for field in OBSERVATION_FIELDS] for end in ("low", "high"))
        return np.clip(values, low, high).astype(np.float32)


@dataclass(eq=False, kw_only=True)
class AttackEnv(gymnasium.Env[Observation, Action], MarketSettings):
    """Let one provider of a market choose an attack (a one-step contextual bandit).

    Parameters
    ----------
    task, mechanism_name, provider
        What markets are drawn from, the mechanism that is attacked, by name, and the provider that attacks, by number.
    learner, empty
        The utility, by name: `coverage`, or a model whose accuracy counts, such as `knn`; and what accuracy is counted
        from: `none` (zero) or `chance` (the default).
    identity_cost, perturbation_cost
        Cost of each further identity, and of one unit of perturbation, in honest payments.
    checks, power
        Spot checks of each identity (0: none; by default 3, or none if the mechanism does not pay single units), and
        the probability that one detects a false unit.
    knowledge
        Share of the other providers' units that the attacker sees.
    channels
        Whether `info` has the channels of the gain A, L and D. They double the time of a step.
    render_mode
        Only None: there is nothing to draw.

    Examples
    --------
    >>> import gymnasium
    >>> env = gymnasium.make("datamarket_gym.envs:DataMarket/Attack-v0", checks=0)
    >>> observation, _ = env.reset(seed=0)
    >>> _, reward, terminated, _, info = env.step(env.action_space.sample())
    >>> terminated
    True
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    provider: int = 0
    channels: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.action_space = box(self.action_fields)
        self.observation_space = box(self.observation_fields)
        self._target: Target | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Draw a market in which the honest payment is clearly above zero; return its observation and no info."""
        super().reset(seed=seed)
        for _ in range(DRAWS):
            market = ProviderMarket.from_task(self._task, int(self.np_random.integers(2**31)))
            oracle = market.utility_oracle(self._utility)
            with suppress(UnclearPayError):  # the market is drawn again
                self._target = Target(
                    market.state, self._mechanism, oracle, self.provider, self._checks, self.knowledge
                )
                return self._observation(self._target), {}
        raise DataMarketError(
            f"{self._mechanism.label} pays provider {self.provider} next to nothing in {DRAWS} markets, "
            "so rewards would mean nothing; choose another mechanism_name, provider or task"
        )

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Carry out one attack and end the episode: observation, reward, True, False, info."""
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
            terms = target.certificate(attack).terms if self.channels else None
            if terms is not None:
                info |= {"A": terms.allocation, "L": terms.escape, "D": terms.drift}
        return self._observation(target), float(reward), True, False, info

    def _observation(self, target: Target) -> Observation:
        total = target.honest.payments.grand_value
        return self._observe(target.state, target.name, target.pay, total)


gymnasium.register(id="DataMarket/Attack-v0", entry_point=f"{__name__}:AttackEnv")
