"""From a run's results to the file of what it has bought.

What a period adds, at the price of what was bought before: a hint for how much money it should divide.

Earlier runs divided so much for U(P), counted from U of no units, both on this run's validation rows; the new units add
v(all). At the same price they are worth amount x v(all) / U(P). Where every period divides the same amount whatever it
adds, units are dearer later, and whoever waits with them is paid more.

What is said on screens of the earlier runs that a run is priced given.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from datamarket_gym.data.submission import Submission
from datamarket_gym.display import counted, listed
from datamarket_gym.evidence.threshold import highest_for_later
from datamarket_gym.execution.arrays import Codes, distinct_pairs
from datamarket_gym.execution.runs import write_record
from datamarket_gym.payout.acquired_units import ROLE
from datamarket_gym.payout.acquisitions import KeptNames, RunUnits, shortest
from datamarket_gym.payout.inputs import utility_oracle
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.entries import APPROVED
from datamarket_gym.payout.manifest import BOUGHT
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import run_called
from datamarket_gym.payout.results import Results


def write_acquired(results: Results, unpaid: Collection[str], folder: Path) -> None:
    """Keep what a run has bought, for later periods; the ``unpaid`` have sold nothing."""
    write_record(folder / BOUGHT, acquired_units(results, unpaid))


def acquired_units(results: Results, unpaid: Collection[str]) -> RunUnits:
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
    return RunUnits(
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


def priced_given(results: Results) -> dict[str, Any]:
    """What was there is worth, what is new adds, and in minor units what that is at the earlier price, or None.

    There is none where earlier runs divided another currency, or where either is worth nothing.
    """
    prior, spec = results.inputs.prior, results.spec
    if prior is None:
        return {}
    utility = results.utility
    there = utility.empty_value - utility.nothing_value
    adds = results.payments.scores.grand_value
    same = {run.currency for run in prior.runs} == {spec.currency}
    price = None
    if same and there > 0 and adds > 0:
        price = round(sum(run.amount for run in prior.runs) * adds / there)
    return {"there": there, "adds": adds, "at_earlier_price": price}


def price_messages(given: dict[str, Any], amount: int, currency: str) -> str:
    """The same in a sentence; blank where there is no earlier price."""
    price = given.get("at_earlier_price")
    if price is None:
        return ""
    money = Currency(currency)
    then, now = (f"{currency} {money.shown(each)}" for each in (price, amount))
    return (
        f"What is new adds {given['adds'] / given['there']:.1%} to the worth of what was bought; at the price of then "
        f"that is {then}, and this run divides {now}. Where every period divides the same, whoever waits is paid more."
    )


_FEW = 5


def acquired_messages(manifest: dict[str, Any], accounts: Accounts) -> str:
    """What a run is priced given; where it names nothing, what its ledger has bought and it does not look at."""
    given = manifest.get(ROLE, ())
    if given:
        names = listed((run_called(each["period"], each["run"]) for each in given), _FEW)
        known = counted(manifest["known"], "unit was", "units were")
        said = (
            f"Priced given what was bought before ({names}): {known} bought then and earn nothing now."
        )
        price = price_messages(manifest["given"], manifest["amount"], manifest["currency"])
        return f"{said} {price}".strip()
    bought = [
        run for run in accounts.runs.values() if run.state in APPROVED and run.run != manifest["run"]
    ]
    if not bought:
        return ""
    names = listed((run_called(run.period, run.run) for run in bought), _FEW)
    return (
        f"Not priced given what the ledger has bought before ({names}): whoever submits that again is paid again. "
        "See: pay --help, --prior."
    )
