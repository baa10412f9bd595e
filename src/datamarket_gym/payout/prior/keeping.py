"""From a run's results to the file of what it has bought."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np

from datamarket_gym.core.arrays import Codes
from datamarket_gym.payout.inputs import utility_oracle
from datamarket_gym.payout.manifest import BOUGHT
from datamarket_gym.payout.prior.bought import BoughtUnits, KeptNames, shortest
from datamarket_gym.payout.results import Results
from datamarket_gym.pipeline.records import write_record
from datamarket_gym.pipeline.settle import highest_for_later
from datamarket_gym.units.submission import Submission


def write_bought(results: Results, unpaid: Collection[str], folder: Path) -> None:
    """Keep what a run has bought, for later periods; the ``unpaid`` have sold nothing."""
    write_record(folder / BOUGHT, bought_units(results, unpaid))


def bought_units(results: Results, unpaid: Collection[str]) -> BoughtUnits:
    """The units of a run that somebody is paid for, then those that were set aside as validation rows."""
    inputs, submission, whose = results.inputs, results.inputs.submission, _owners(results)
    label = results.payments.clusters.label
    sold = np.array([not names <= frozenset(unpaid) for names in whose])
    rows = np.flatnonzero(sold[label])
    place = np.full(len(label), -1)
    place[rows] = np.arange(len(rows))
    stands = place[np.sort(results.payments.canonical.unit)]
    ids = [inputs.ids[i] for i in rows]
    submitters = [inputs.identities[c] for c in inputs.owner[rows]]
    owners = [" and ".join(sorted(whose[c])) for c in label[rows].tolist()]
    root = place[_roots(results)[label[rows]]]
    leaks, kept = results.leaks, _taken(submission, rows)
    if leaks.units is not None:
        kept = Submission.concat([kept, leaks.units])
        ids += leaks.id.tolist()
        submitters += leaks.identity.tolist()
        owners += leaks.identity.tolist()
        root = np.concatenate([root, np.arange(len(rows), len(kept))])
    people = sorted({*submitters, *owners})
    number = {name: i for i, name in enumerate(people)}
    labels, which = np.unique(kept.label, return_inverse=True)
    stands = stands[stands >= 0]
    highest = highest_for_later(kept, stands, utility_oracle(replace(inputs, prior=None), results.spec))
    return BoughtUnits(
        features=shortest(kept.features),
        embedding=None if kept.embedding is None else shortest(kept.embedding),
        labels=labels,
        label=which.astype(np.int64),
        unit=KeptNames.of(ids),
        people=KeptNames.of(people),
        submitter=np.array([number[name] for name in submitters], dtype=np.int64),
        owner=np.array([number[name] for name in owners], dtype=np.int64),
        root=root,
        stands=stands,
        time=kept.time,
        columns=KeptNames.of(inputs.columns if len(inputs.columns) > 1 else ()),
        encoder=inputs.encoder,
        asked=KeptNames.of(highest),
        answers=np.concatenate([np.empty(0), *highest.values()]),
        answered=np.cumsum([len(found) for found in highest.values()], dtype=np.int64),
    )


def _owners(results: Results) -> list[frozenset[str]]:
    """Who owns each cluster: several names only where they sent the same at the same time."""
    inputs, canonical = results.inputs, results.payments.canonical
    found: list[set[str]] = [set() for _ in range(canonical.n_clusters)]
    cluster = canonical.cluster[canonical.claim_row]
    for c, owner in zip(cluster.tolist(), inputs.owner[canonical.claim_unit].tolist(), strict=True):
        found[c].add(inputs.identities[owner])
    return [frozenset(names) for names in found]


def _roots(results: Results) -> Codes:
    """The unit that stands for each cluster."""
    canonical = results.payments.canonical
    root = np.full(canonical.n_clusters, -1)
    root[canonical.cluster] = canonical.unit
    return root


def _taken(submission: Submission, rows: Codes) -> Submission:
    """Some units; without a copy where that is all of them."""
    return submission if len(rows) == len(submission) else submission.take(rows)
