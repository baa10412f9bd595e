"""The kind of most experiments: every attack against every mechanism on one draw of a market."""

from __future__ import annotations

from typing import Any

from datamarket_gym.experiments.cells import Row, kind, learner_for, selected
from datamarket_gym.experiments.spec import ExperimentSpec, TaskEntry
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.market import Attack, ProviderMarket
from datamarket_gym.metrics import Metrics
from datamarket_gym.payments.mechanism import Mechanism
from datamarket_gym.payments.payments import Payments
from datamarket_gym.registry import create


@kind("market")
def market_cell(spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]) -> list[Row]:
    """Every attack against every mechanism on one draw of the market.

    Utilities that differ only in what they count from share one memo of fits.
    """
    market = ProviderMarket.from_task(create("task", task.task), seed)
    oracles: dict[str, UtilityOracle] = {}
    rows: list[Row] = []
    for utility in spec.utilities:
        if utility.learner in oracles:
            oracle = oracles[utility.learner].counted_from(utility.empty)
        else:
            oracle = market.utility_oracle(
                utility.build(), learner_for(utility, engine), engine.get("memo")
            )
        oracles[utility.learner] = oracle
        labels = {
            "task": task.task,
            "learner": utility.learner,
            "empty": utility.empty,
            **task.axes,
        }
        rows += [{**row, **labels} for row in _attacks(spec, market, oracle)]
    return [{"experiment": spec.name, "seed": seed, **row} for row in rows]


def _attacks(spec: ExperimentSpec, market: ProviderMarket, oracle: UtilityOracle) -> list[Row]:
    mechanisms = [
        (m.model_copy(update={"seed": market.seed}), axes)
        for entry in spec.mechanisms
        for m, axes in entry.expand()
    ]
    honest = [m.pay(market.honest.submission, oracle, market.honest.truth) for m, _ in mechanisms]
    rows: list[Row] = []
    for written_attack in spec.attacks:
        attack: Attack = create("attack", written_attack)
        chosen = [
            (m, axes, reference)
            for (m, axes), reference in zip(mechanisms, honest, strict=True)
            if selected(spec.only, attack.label, m.name)
        ]
        if not chosen:
            continue
        profile = attack.apply(spec.provider, market.state)
        ideal: dict[str, Payments] = {}
        for m, axes, reference in chosen:
            paid = m.pay(profile.submission, oracle, profile.truth)
            latent = _under_oracle(m)
            if latent.model_dump_json() not in ideal:
                ideal[latent.model_dump_json()] = latent.pay(profile.submission, oracle, profile.truth)
            report = Metrics.evaluate(paid, profile, reference, ideal[latent.model_dump_json()])
            rows.append(
                {
                    "attack": attack.label,
                    "mechanism": m.name,
                    "granularity": m.granularity,
                    "representative": m.representative,
                    **axes,
                    **report.as_row(),
                }
            )
    return rows


def _under_oracle(m: Mechanism) -> Mechanism:
    """The mechanism with perfect evidence, against which fairness loss is measured."""
    return m.model_copy(
        update={"name": "", "evidence": "oracle_latent", "allocation": "equal_submitted"}
    )
