"""Negative contributions, with and without a non-negative payment rule, and what the rule hides.

Three rules: ``raw`` pays scores as they are, so that a harmful provider owes money; ``floor`` pays
scores below zero as zero; ``floor_rescaled`` takes what that costs back from everyone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from datamarket_gym.judge.metrics import Metrics, of_grand_value
from datamarket_gym.lab.cells import Row, attacks_of, kind, labels_of, market_of, oracles_of, selected
from datamarket_gym.lab.spec import ExperimentSpec, TaskEntry
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.pipeline.payments import Payments, floored, hidden_harm
from datamarket_gym.units.truth import SubmittedProfile
from datamarket_gym.world.market import ProviderMarket

RULES = ("raw", "floor", "floor_rescaled")


@kind("negative")
def negative_cell(spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]) -> list[Row]:
    """Every attack, mechanism and rule on one draw of the market."""
    market = market_of(task, seed)
    return [
        {"experiment": spec.name, "seed": seed, **row, **labels}
        for labels, oracle in oracles_of(spec, task, market, engine)
        for row in _rows(spec, market, oracle)
    ]


def _rows(spec: ExperimentSpec, market: ProviderMarket, oracle: UtilityOracle) -> list[Row]:
    rows: list[Row] = []
    profiles = [(label, attack.apply(spec.provider, market.state)) for label, attack in attacks_of(spec)]
    for entry in spec.mechanisms:
        for m, axes in entry.pipelines("negative"):
            m = m.model_copy(update={"seed": market.seed})
            honest = m.pay(market.honest.submission, oracle, market.honest.truth)
            for label, profile in profiles:
                if not selected(spec.only, label, m.name):
                    continue
                paid = m.pay(profile.submission, oracle, profile.truth)
                names = {"attack": label, **labels_of(m)}
                rows += [
                    {**names, **axes, "rule": rule, **_measured(honest, paid, profile, rule)}
                    for rule in RULES
                ]
    return rows


def _measured(honest: Payments, paid: Payments, profile: SubmittedProfile, rule: str) -> Row:
    ruled = _ruled(paid, rule)
    report = Metrics.evaluate(ruled, profile, _ruled(honest, rule))
    return {
        **replace(report, oracle_l1=0.0).as_row(),
        "attacker_paid": of_grand_value(report.attacked_payment, paid.grand_value),
        "paid_total": of_grand_value(float(ruled.totals.sum()), paid.grand_value),
        "hidden_harm": 0.0 if rule == "raw" else hidden_harm(paid),
        "harm_done": honest.grand_value - paid.grand_value,
    }


def _ruled(payments: Payments, rule: str) -> Payments:
    return payments if rule == "raw" else floored(payments, rescale=rule == "floor_rescaled")
