"""What one cell of an experiment computes: a task and a seed in, tidy rows out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatch
from typing import Any

from datamarket_gym.errors import UnknownNameError
from datamarket_gym.experiments.spec import ExperimentSpec, TaskEntry, UtilityEntry
from datamarket_gym.learners.base import Learner
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.market import Attack, ProviderMarket
from datamarket_gym.metrics import Metrics
from datamarket_gym.payments.mechanism import Mechanism
from datamarket_gym.payments.payments import Payments
from datamarket_gym.registry import create

Row = dict[str, Any]
CellFunction = Callable[[ExperimentSpec, TaskEntry, int, dict[str, Any]], list[Row]]

KINDS: dict[str, CellFunction] = {}


def kind(name: str) -> Callable[[CellFunction], CellFunction]:
    """Decorator: the function computes the cells of experiments of this kind."""

    def add(function: CellFunction) -> CellFunction:
        KINDS[name] = function
        return function

    return add


def compute(spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]) -> list[Row]:
    """The rows of one cell; ``engine`` holds learner settings that do not change results."""
    if spec.kind not in KINDS:
        raise UnknownNameError("experiment kind", spec.kind, KINDS)
    return KINDS[spec.kind](spec, task, seed, engine)


def learner_for(utility: UtilityEntry, engine: dict[str, Any]) -> Learner:
    """The learner with the run's device and threads, where it has such settings."""
    learner: Learner = create("learner", utility.learner)
    fields = getattr(learner, "__dataclass_fields__", {})
    return replace(learner, **{k: v for k, v in engine.items() if k in fields})  # type: ignore[type-var]


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
            oracle = market.utility_oracle(utility.build(), learner_for(utility, engine))
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


def selected(only: str | None, attack: str, mechanism: str) -> bool:
    """Whether ``--only`` (comma-separated patterns of attacks or mechanisms) keeps this pair."""
    if only is None:
        return True
    patterns = only.split(",")
    return any(fnmatch(attack, p) or fnmatch(mechanism, p) for p in patterns)
