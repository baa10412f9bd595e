"""S3: what sampling costs in accuracy, against the exact answer and against a large sample.

The published reference is itself a sample of the largest budget, so its error never reaches zero:
both are measured. L1 is the sum over providers of |payment - reference| over v(all).
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from datamarket_gym.core.specs import Document
from datamarket_gym.judge.metrics import clearly_paid, gain_of, of_grand_value, provider_totals
from datamarket_gym.lab.cells import Row, attacks_of, kind, labels_of, market_of, oracles_of, selected
from datamarket_gym.lab.spec import ExperimentSpec, TaskEntry
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.units.truth import SubmittedProfile

_OTHER = 7_000_003  # the reference sample's seed is this far away


class BudgetOptions(Document):
    """The estimators and numbers of samples to compare."""

    estimators: list[str] = Field(min_length=1)
    samples: list[int] = Field(min_length=1)


@kind("budget", BudgetOptions)
def budget_cell(spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]) -> list[Row]:
    """Each mechanism at each budget (option ``samples``) under each sampler (``estimators``)."""
    market = market_of(task, seed)
    return [
        {"experiment": spec.name, "seed": seed, **row, **labels}
        for labels, oracle in oracles_of(spec, task, market, engine)
        for label, attack in attacks_of(spec)
        for entry in spec.mechanisms
        for m, _ in entry.pipelines("budget")
        if selected(spec.only, label, m.name)
        for row in _budgets(
            spec,
            m.model_copy(update={"seed": seed}),
            label,
            (market.honest, attack.apply(spec.provider, market.state)),
            oracle,
        )
    ]


def _budgets(
    spec: ExperimentSpec,
    m: Mechanism,
    label: str,
    profiles: tuple[SubmittedProfile, SubmittedProfile],
    oracle: UtilityOracle,
) -> list[Row]:
    honest, profile = profiles
    exact, value, _ = _paid(m.model_copy(update={"estimator": "exact"}), profile, oracle)
    rows: list[Row] = []
    for estimator in spec.options["estimators"]:
        sampler = m.model_copy(update={"estimator": estimator})
        largest = {"samples": max(spec.options["samples"]), "seed": m.seed + _OTHER}
        reference, _, _ = _paid(sampler.model_copy(update=largest), profile, oracle)
        for samples in spec.options["samples"]:
            once = sampler.model_copy(update={"samples": samples})
            paid, _, asked = _paid(once, profile, oracle)
            unattacked, grand, _ = _paid(once, honest, oracle)
            before = unattacked[str(profile.attacker)]
            after = paid[str(profile.attacker)]
            rows.append(
                {
                    "attack": label,
                    **labels_of(m),
                    "estimator": estimator,
                    "samples": samples,
                    "honest_payment": before,
                    "attacked_payment": after,
                    "gain": gain_of(after, before),
                    "gain_additive": after - before,
                    "near_zero": float(not clearly_paid(before, grand, len(unattacked))),
                    "l1_exact": of_grand_value(_l1(paid, exact), value),
                    "l1_reference": of_grand_value(_l1(paid, reference), value),
                    "asked": float(asked),
                }
            )
    return rows


def _paid(
    m: Mechanism, profile: SubmittedProfile, oracle: UtilityOracle
) -> tuple[dict[str, float], float, int]:
    paid = m.pay(profile.submission, oracle, profile.truth)
    return provider_totals(paid, profile), paid.grand_value, paid.scores.evaluations


def _l1(one: dict[str, float], other: dict[str, float]) -> float:
    return sum(abs(one[name] - other[name]) for name in one)
