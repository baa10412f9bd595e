"""From a run's results to the file of what it has bought."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np

from datamarket_gym.core.arrays import Codes, distinct_pairs
from datamarket_gym.payout.inputs import utility_oracle
from datamarket_gym.payout.manifest import BOUGHT
from datamarket_gym.payout.prior.bought import BoughtUnits, KeptNames, shortest
from datamarket_gym.payout.results import Results
from datamarket_gym.pipeline.records import write_record
from datamarket_gym.pipeline.threshold import highest_for_later
from datamarket_gym.units.submission import Submission


def write_bought(results: Results, unpaid: Collection[str], folder: Path) -> None:
    """Keep what a run has bought, for later periods; the ``unpaid`` have sold nothing."""
    write_record(folder / BOUGHT, bought_units(results, unpaid))


def bought_units(results: Results, unpaid: Collection[str]) -> BoughtUnits:
    """The units of a run that somebody is paid for, then those that were set aside as validation rows."""
    inputs, submission, label = (
        results.inputs,
        results.inputs.submission,
        results.payments.clustering.label,
    )
    sold, whose, names = _owners(results, unpaid)
    rows = np.flatnonzero(sold[label])
    place = np.full(len(label), -1)
    place[rows] = np.arange(len(rows))
    stands = place[np.sort(results.payments.canonical.unit)]
    ids = [inputs.ids[i] for i in rows]
    submitters, owners = inputs.owner[rows], whose[label[rows]]
    root = place[_roots(results)[label[rows]]]
    leaks, kept = results.leaks, _taken(submission, rows)
    if leaks.units is not None:
        kept = Submission.concat([kept, leaks.units])
        ids += leaks.id.tolist()
        code = {name: i for i, name in enumerate(names)}
        theirs = np.array([code[name] for name in leaks.identity.tolist()], dtype=np.int64)
        submitters, owners = np.concatenate([submitters, theirs]), np.concatenate([owners, theirs])
        root = np.concatenate([root, np.arange(len(rows), len(kept))])
    people, number = _people(names, np.union1d(submitters, owners))
    labels, which = np.unique(kept.label, return_inverse=True)
    stands = stands[stands >= 0]
    checked = results.spec.leak_check != "off"  # then those that are validation rows were set aside
    highest = highest_for_later(
        kept,
        stands,
        results.utility
        if inputs.prior is None
        else utility_oracle(replace(inputs, prior=None), results.spec),
        len(rows) if checked else 0,
        results.asked if checked and len(rows) == len(submission) else None,
    )
    return BoughtUnits(
        features=shortest(kept.features),
        embedding=None if kept.embedding is None else shortest(kept.embedding),
        labels=labels,
        label=which.astype(np.int64),
        unit=KeptNames.of(ids),
        people=KeptNames.of(people),
        submitter=number[submitters],
        owner=number[owners],
        root=root,
        stands=stands,
        time=kept.time,
        columns=KeptNames.of(inputs.columns if len(inputs.columns) > 1 else ()),
        encoder=inputs.encoder,
        asked=KeptNames.of(highest),
        answers=np.concatenate([np.empty(0), *highest.values()]),
        answered=np.cumsum([len(found) for found in highest.values()], dtype=np.int64),
    )


def _owners(results: Results, unpaid: Collection[str]) -> tuple[np.ndarray, Codes, list[str]]:
    """Of each cluster whether somebody is paid for it and who owns it, by the place in a list of names.

    Several names own it together only where they sent the same at the same time.
    """
    inputs, canonical = results.inputs, results.payments.canonical
    names, n = list(inputs.identities), canonical.n_clusters
    cluster, owner = distinct_pairs(
        canonical.cluster[canonical.claim_row], inputs.owner[canonical.claim_unit]
    )
    is_paid = np.array([name not in unpaid for name in names])
    sold = np.bincount(cluster, weights=is_paid[owner], minlength=n) > 0
    whose, count = np.zeros(n, dtype=np.int64), np.bincount(cluster, minlength=n)
    whose[cluster] = owner
    together: dict[str, int] = {}
    shared = np.flatnonzero(count[cluster] > 1)
    for part in np.split(shared, np.flatnonzero(np.diff(cluster[shared])) + 1) if len(shared) else []:
        name = " and ".join(sorted(names[code] for code in owner[part].tolist()))
        whose[cluster[part[0]]] = together.setdefault(name, len(inputs.identities) + len(together))
    return sold, whose, [*names, *together]


def _people(names: list[str], used: Codes) -> tuple[list[str], Codes]:
    """The names that are used, sorted, and for each of all names its place among them."""
    people = sorted({names[code] for code in used.tolist()})
    place = {name: i for i, name in enumerate(people)}
    number = np.full(len(names), -1)
    number[used] = [place[names[code]] for code in used.tolist()]
    return people, number


def _roots(results: Results) -> Codes:
    """The unit that stands for each cluster."""
    canonical = results.payments.canonical
    root = np.full(canonical.n_clusters, -1)
    root[canonical.cluster] = canonical.unit
    return root


def _taken(submission: Submission, rows: Codes) -> Submission:
    """Some units; without a copy where that is all of them."""
    return submission if len(rows) == len(submission) else submission.take(rows)
