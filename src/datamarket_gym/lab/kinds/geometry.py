"""The quantities behind an admissible threshold, measured for each domain; a seed is a simulation."""

from __future__ import annotations

from typing import Any

from datamarket_gym.lab.cells import Row, kind
from datamarket_gym.lab.predicted import admissibility_of
from datamarket_gym.lab.spec import ExperimentSpec, TaskEntry


@kind("geometry")
def geometry_cell(spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]) -> list[Row]:
    """Norm, floors and near-duplicate similarity of one domain."""
    found = admissibility_of(task.task, seed)
    quantities = {
        "median norm": found.median_norm,
        "pairwise floor": found.pairwise_floor,
        **{f"chaining floor at {cut:.2f}": f for cut, f in found.chaining_floors.items()},
        "near-duplicate p10": found.near_duplicate_p10,
        "theta to use": found.theta,
    }
    labels = {"experiment": spec.name, "seed": seed, "task": task.task, "attack": found.variants}
    labels |= {"mechanism": "cosine", "granularity": "identity", "representative": "identity"}
    # Nothing is paid here: the payments are zero.
    paid = {"honest_payment": 0.0, "attacked_payment": 0.0}
    return [
        {**labels, "quantity": name, "measured": value, **paid} for name, value in quantities.items()
    ]
