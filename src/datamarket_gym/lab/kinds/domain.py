"""Real domains: identities play as in the paper, and units play as we recommend, on the same draws.

Mechanisms of unit granularity are paid under the utility in ``options.units`` (a learner with closed
forms: hundreds of units play) and also face the attacks listed there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from datamarket_gym.lab.cells import Row, kind
from datamarket_gym.lab.kinds.market import measured
from datamarket_gym.lab.predicted import with_predicted, write_predictions
from datamarket_gym.lab.spec import ExperimentSpec, TaskEntry, UtilityEntry
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.pipeline.payments import Payments
from datamarket_gym.units.truth import SubmittedProfile
from datamarket_gym.world.market import ProviderMarket

FAMILIES = {
    "honest": "nobody cheats",
    "label_noise": "wrong labels",
    "strategic_curation": "units left out",
    "synthetic_laundering": "generated units",
}
"""What an attack is, where it is not one of false names, copies or junk."""


@kind("domain", before=write_predictions)
def domain_cell(spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]) -> list[Row]:
    """Identity and unit mechanisms, each under its utility and against its attacks."""
    spec = with_predicted(spec, task)
    units = [entry for entry in spec.mechanisms if entry.granularity == ["unit"]]
    identities = [entry for entry in spec.mechanisms if entry.granularity != ["unit"]]
    rows = measured(spec.model_copy(update={"mechanisms": identities}), task, seed, engine)
    if units:
        options = dict(spec.options["units"])
        more = options.pop("attacks", [])
        changes = {
            "mechanisms": units,
            "utilities": [UtilityEntry(**options)],
            "attacks": [*spec.attacks, *more],
        }
        rows += measured(spec.model_copy(update=changes), task, seed, engine, of_units)
    return rows


def of_units(
    m: Mechanism,
    paid: Payments,
    market: ProviderMarket,
    profile: SubmittedProfile,
    oracle: UtilityOracle,
) -> Row:
    """The attack's family, so that the worst of each is found, and what honesty costs."""
    family = FAMILIES.get(profile.attack, "splits, copies, junk")
    return {"family": family, **honest_cost(m, paid, profile, oracle)}


def honest_cost(m: Mechanism, paid: Payments, profile: SubmittedProfile, oracle: UtilityOracle) -> Row:
    """The share of the money that changes hands when evidence is switched on and nobody cheats."""
    if profile.attack != "honest":
        return {}
    untied = m.model_copy(update={"evidence": "none"})
    without = untied.pay(profile.submission, oracle, profile.truth).totals
    return {"honest_cost": float(np.abs(paid.totals - without).sum() / 2 / np.abs(without).sum())}
