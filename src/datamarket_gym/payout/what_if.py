"""What if: take away every match in the clusters that a payee has units in, score the market again, and divide anew.

The difference is what that evidence cost or brought. It needs the run's inputs, and as long as scoring takes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import numpy as np

from datamarket_gym.errors import DataMarketError
from datamarket_gym.evidence.graph import clusters_by
from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.mechanism.pipeline import Pipeline
from datamarket_gym.payout.ledger.runs import ledger_inputs_of
from datamarket_gym.payout.manifest import read_manifest, settled_by, spec_of
from datamarket_gym.payout.results import Results, in_cents
from datamarket_gym.payout.run import FinishedRun, PayoutJob, compute_results
from datamarket_gym.payout.stored_inputs import MovedInputs, Places, places_of


def without_its_evidence(
    folder: Path, identity: str, progress: Progress = SILENT, **moved: Unpack[MovedInputs]
) -> int:
    """Compute what a payee of a finished run would have been paid, in minor units."""
    progress.stage("reading the run and its inputs")
    job, results = finished_results(folder, places_of(folder, **moved))
    inputs = results.inputs
    if identity not in inputs.identities:  # brings a balance alone: nothing of it was scored
        return results.division.paid[results.names.index(identity)]
    code = inputs.identities.index(identity)
    mine = np.unique(results.payments.clustering.label[inputs.owner == code])
    progress.stage("scoring without its evidence")
    clusters = results.payments.clustering
    fewer = clusters.edges.where(~np.isin(clusters.label[clusters.edges.left], mine))
    apart = clusters_by(inputs.submission, fewer, clusters.granularity, clusters.tie_breaker)
    paid = Pipeline(results.mechanism, results.utility).value(apart).extended_to(inputs.everyone)
    payees, opening = results.payees.group, job.taken.opening
    return in_cents(paid, inputs, job.spec, payees, opening, job.unpaid).division.paid[code]


def read_job(folder: Path, places: Places) -> PayoutJob:
    """Read the inputs of a finished run again; refuse others."""
    manifest = read_manifest(folder)
    job = PayoutJob.read(places, spec_of(manifest), settled_by(manifest), ledger_inputs_of(manifest))
    if job.run != manifest["run"]:
        raise DataMarketError(
            "the inputs are not those of the run, or the version differs; name the right files"
        )
    return job


def finished_results(folder: Path, places: Places) -> tuple[PayoutJob, Results]:
    """Read the results of a run from its records and inputs."""
    job = read_job(folder, places)
    return job, compute_results(job, FinishedRun(folder, read_manifest(folder)["outputs"]))
