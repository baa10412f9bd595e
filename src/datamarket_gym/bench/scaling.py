"""How the engine's cost grows with players, rows, features and classes.

The work of one pass over all coalitions is coalitions x rows x features x classes. An exponent is the
slope of log seconds on log work; 1 is proportional growth. Below 400 parameters the compiled engine
builds each coalition's own Hessian, (features x classes)^2 per row, which saves more gradients than it
costs there; above, the engine only multiplies by the data.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from datamarket_gym.bench.workloads import every_coalition
from datamarket_gym.learners.base import TrainingRows, ValidationRows
from datamarket_gym.learners.logistic import Logistic
from datamarket_gym.world.tasks.synthetic import Synthetic

SIZES = (
    {"players": 8}, {"players": 10}, {"players": 12}, {"players": 14},
    {"rows": 15}, {"rows": 30}, {"rows": 120}, {"rows": 240},
    {"features": 12}, {"features": 48}, {"features": 90},
    {"classes": 2}, {"classes": 3}, {"classes": 6},
)  # fmt: skip
"""What differs from 10 players x 60 rows x 24 features x 4 classes."""


BASE = {"players": 10, "rows": 60, "features": 24, "classes": 4}


def scaling_rows(jobs: int) -> Iterator[dict[str, Any]]:
    """Seconds for each size (the better of two), then the fitted exponents."""
    measured: list[tuple[dict[str, int], float, float]] = []
    for change in SIZES:
        size = {**BASE, **change}
        seconds = min(_seconds(size, jobs) for _ in range(2))
        coalitions = (1 << size["players"]) - 1
        work = float(coalitions * size["players"] * size["rows"] * size["features"] * size["classes"])
        measured.append((size, work, seconds))
        name = ", ".join(f"{key} {value}" for key, value in size.items())
        yield _row(name, work, seconds, 1e9 * seconds / work)
    for axis in BASE:
        along = [
            m for m in measured if all(m[0][other] == BASE[other] for other in BASE if other != axis)
        ]
        yield _row(f"fitted, {axis} alone: seconds grow as work^{_slope(along):.2f}")
    yield _row(f"fitted, all sizes: seconds grow as work^{_slope(measured):.2f}")


def _slope(measured: list[tuple[dict[str, int], float, float]]) -> float:
    work = np.log([work for _, work, _ in measured])
    seconds = np.log([seconds for _, _, seconds in measured])
    return float(np.polyfit(work, seconds, 1)[0])


def _row(
    name: str, work: float | None = None, seconds: float | None = None, each: float | None = None
) -> dict[str, Any]:
    return {"workload": name, "work": work, "seconds": seconds, "nanoseconds_per_work": each}


def _seconds(size: dict[str, int], jobs: int) -> float:
    task = Synthetic(
        n_providers=size["players"],
        per_provider=size["rows"],
        features=size["features"],
        classes=size["classes"],
    )
    draw = task.draw(0)
    dealt, data = draw.provider_partition, draw.dataset
    rows = np.concatenate(dealt)
    player = np.repeat(np.arange(len(dealt)), [len(part) for part in dealt])
    training = TrainingRows(data.features[rows], data.label[rows], player, len(dealt), size["classes"])
    validation = ValidationRows(data.validation_features, data.validation_label)
    started = time.perf_counter()
    Logistic(jobs=jobs).scorer(training, validation).utility(every_coalition(len(dealt)))
    return time.perf_counter() - started
