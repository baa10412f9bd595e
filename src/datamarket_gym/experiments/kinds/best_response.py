"""The attacker of the paper's Remark on costs: the best response to each mechanism at each cost level.

A seed in whose market the provider's honest pay is not clearly above zero plays another market, and its
rows say so (``redrawn``): tables name these seeds.

On every seed the search prices attacks by the mechanism itself, so its winner is picked with
hindsight: ``net_gain`` is what that attacker really gets in that market. ``net_gain_fresh`` is the same
attack in a market it was not tuned on, which shows what is left when hindsight is taken away.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pydantic import Field

from datamarket_gym.analysis.redteam.best_response import AttackCosts, Target, best_response
from datamarket_gym.errors import DataMarketError, UnclearPayError
from datamarket_gym.experiments.cells import Row, kind, labels_of, market_of, selected, utility_for
from datamarket_gym.experiments.spec import ExperimentSpec, TaskEntry, UtilityEntry
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.mechanism.external import OwnMechanism
from datamarket_gym.mechanism.pipeline import Mechanism
from datamarket_gym.registry import Document

_FRESH = 1_000_000  # added to a seed: a market that no experiment searches in
_TRIES = 50


class SearchOptions(Document):
    """How many attacks a search tries, and what they cost."""

    trials: int = Field(ge=1)
    costs: list[dict[str, float]] = Field(min_length=1)


@kind("best_response", SearchOptions)
def best_response_cell(
    spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]
) -> list[Row]:
    """The best response to every mechanism at every cost level, on one draw of the market."""
    rows: list[Row] = []
    for utility in spec.utilities:
        for entry in spec.mechanisms:
            for m, axes in entry.expand():
                if selected(spec.only, "best_response", m.name):
                    rows += [{**row, **axes} for row in _against(spec, task, seed, utility, m, engine)]
    return rows


def _against(
    spec: ExperimentSpec,
    task: TaskEntry,
    seed: int,
    utility: UtilityEntry,
    m: Mechanism | OwnMechanism,
    engine: dict[str, Any],
) -> list[Row]:
    target, _, used = clear_target(spec, task, seed, utility, m, engine)
    fresh, _, _ = clear_target(spec, task, used + _FRESH, utility, m, engine)
    rows: list[Row] = []
    for level in spec.options["costs"]:
        costs = AttackCosts(**level)
        found = best_response(target, costs, trials=spec.options["trials"], seed=seed)
        again = fresh.respond(found.attack, costs)
        rows.append(
            {
                "experiment": spec.name,
                "task": task.label,
                "learner": utility.learner,
                "empty": utility.empty,
                "seed": seed,
                "attack": "best_response",
                **labels_of(m),
                **{f"cost_{name}": float(value) for name, value in level.items()},
                **task.axes,
                "best_attack": found.attack,
                "redrawn": float(used != seed),
                "honest_payment": target.pay,
                "attacked_payment": target.pay * found.gain,
                "gain": found.gain,
                "gain_additive": target.pay * (found.gain - 1.0),
                "net_gain": found.net_gain,
                "victim_loss": found.harm.victim_loss,
                "victim_loss_sum": found.harm.victim_loss_sum,
                "theft": found.harm.theft,
                "honest_payment_fresh": fresh.pay,
                "net_gain_fresh": float("nan") if again is None else again.net_gain,
            }
        )
    return rows


def clear_target(
    spec: ExperimentSpec,
    task: TaskEntry,
    seed: int,
    utility: UtilityEntry,
    m: Mechanism | OwnMechanism,
    engine: dict[str, Any],
) -> tuple[Target, ProviderMarket, int]:
    """The provider in the market of a seed, or of the next in which its honest pay is clearly above zero."""
    learner = utility_for(utility, engine)
    for at in range(seed, seed + _TRIES * 1000, 1000):
        market = market_of(task, at)
        oracle = market.utility_oracle(utility.build(), learner, engine.get("memo"))
        with suppress(UnclearPayError):  # the next market is tried
            return Target(market.state, m.seeded(at), oracle, spec.provider), market, at
    raise DataMarketError(
        f"{m.name} pays provider {spec.provider} almost nothing in {_TRIES} markets; "
        "leave it out with --only, or choose another provider"
    )
