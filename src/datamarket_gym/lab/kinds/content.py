"""Attacks on content: which evidence still ties a changed copy to its original, and what it is worth."""

from __future__ import annotations

from typing import Any

import numpy as np

from datamarket_gym.lab.cells import Row, kind
from datamarket_gym.lab.kinds.domain import honest_cost
from datamarket_gym.lab.kinds.market import measured
from datamarket_gym.lab.predicted import with_predicted, write_predictions
from datamarket_gym.lab.spec import ExperimentSpec, TaskEntry
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.pipeline.payments import Payments
from datamarket_gym.units.truth import SubmittedProfile
from datamarket_gym.world.market import ProviderMarket


@kind("content", before=write_predictions)
def content_cell(spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]) -> list[Row]:
    """Every content attack against every evidence layer."""
    return measured(with_predicted(spec, task), task, seed, engine, caught)


def caught(
    m: Mechanism,
    paid: Payments,
    market: ProviderMarket,
    profile: SubmittedProfile,
    oracle: UtilityOracle,
) -> Row:
    """The share of copies that the evidence puts into the cluster of their original."""
    submission = profile.submission
    honest = set(market.honest.submission.id.tolist())
    copies = np.flatnonzero([unit not in honest for unit in submission.id.tolist()])
    if not len(copies):
        return honest_cost(m, paid, profile, oracle)
    truth = profile.truth.aligned(submission)
    row = {unit: at for at, unit in enumerate(submission.id.tolist())}
    source = [row[unit] for unit in truth.source[copies].tolist()]
    label = paid.clusters.label
    return {"caught": float((label[copies] == label[source]).mean())}
