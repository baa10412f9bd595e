"""What a run is warned of: one function that collects all warnings of its results."""

from __future__ import annotations

import numpy as np

from datamarket_gym.core.arrays import distinct_pairs
from datamarket_gym.core.screen import counted
from datamarket_gym.payout.chained import chained
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.results import Results
from datamarket_gym.payout.warned_earlier import (
    bought_from_others,
    bought_rows,
    lost_labels,
    received_from_others,
)
from datamarket_gym.payout.warned_inputs import input_warnings
from datamarket_gym.payout.warned_scores import uneven_scores, unscored_units
from datamarket_gym.payout.warnings import MOST_ITEMS, StandingWarning, in_order
from datamarket_gym.pipeline.pipeline import REMEDY

MANY = 5
"""So many payees in one tree of tied units are many; in a smaller market of at least three, all of them."""
COMMON = 20
"""A linkage value of more identities than this is told as common, not as a claim."""
CLEARLY = 10
"""Pay counts as clear from a tenth of an equal share on, as in `judge.metrics.clearly_paid`."""


def warnings_of(results: Results) -> list[StandingWarning]:
    """All warnings of a run, in the order in which they are shown."""
    looked = (
        _leak,
        bought_from_others,
        bought_rows,
        received_from_others,
        lost_labels,
        unscored_units,
        uneven_scores,
        _joined,
        chained,
        _loses_half,
        _collapse,
        _balances,
        _claims,
        _common_keys,
    )
    found = [warning for look in looked if (warning := look(results)) is not None]
    read = input_warnings(results.inputs, results.spec, results.names)
    return in_order([*read, *found])


def _leak(results: Results) -> StandingWarning | None:
    leaks = results.leaks
    if not len(leaks):
        return None
    names = counted(len(set(leaks.identity.tolist())), "identity", "identities")
    return StandingWarning.of(
        "leak",
        f"{counted(len(leaks), 'unit')} of {names} equal validation rows, or nearly",
        f"They are set aside: they earn nothing and change nobody else's pay. {REMEDY}.",
        [
            f"“{visible(unit)}” of “{visible(who)}” is row {row} ({by}, {likeness:.3f})"
            for unit, who, row, by, likeness in leaks.listed()[:MOST_ITEMS]
        ],
        len(leaks),
    )


def _joined(results: Results) -> StandingWarning | None:
    """Trees of tied units that hold units of many payees."""
    inputs, label, group = results.inputs, results.payments.clustering.label, results.payees.group
    limit = min(MANY, max(3, len(np.unique(group))))
    holder = distinct_pairs(label, group[inputs.owner])[0]
    payees = np.bincount(holder, minlength=results.payments.clustering.n_clusters)
    number, sizes = results.payments.scores.number, np.bincount(label)
    many = np.flatnonzero(payees >= limit)
    if not len(many):
        return None
    many = many[np.lexsort((number[many], -sizes[many], -payees[many]))]
    items = [
        f"tree {number[c]}: {sizes[c]:,} units of {payees[c]:,} payees, owned by {_owner(results, int(c))}"
        for c in many[:MOST_ITEMS]
    ]
    return StandingWarning.of(
        "joined_identities",
        f"{counted(len(many), 'tree of tied units joins', 'trees of tied units join')} {limit} payees or more",
        f"Copies are seldom shared by so many. Units that differ may have been taken for one another, or somebody "
        f"placed units early so as to own what others submit later: of each tree its earliest unit alone is paid. "
        f"Open them in the report (What matched what); untie honest units with --overrides. The largest joins "
        f"{counted(int(payees[many[0]]), 'payee')}.",
        items,
        len(many),
    )


def _owner(results: Results, cluster: int) -> str:
    shares, names = results.payments.shares, results.inputs.identities
    owners = np.unique(shares.identity[(shares.cluster == cluster) & (shares.share > 0)])
    more = f" and {len(owners) - 1} more" if len(owners) > 1 else ""
    return f"“{visible(names[owners[0]])}”{more}"


def _loses_half(results: Results) -> StandingWarning | None:
    """Payees who would be paid more than twice as much had no evidence been used."""
    n, group = len(results.inputs.identities), results.payees.group
    paid, without = np.zeros(n, dtype=object), np.zeros(n, dtype=object)
    np.add.at(paid, group, np.array(results.division.paid[:n], dtype=object))
    np.add.at(without, group, np.array(results.without_evidence[:n], dtype=object))
    everybody = np.unique(group)
    lost = [
        int(g)
        for g in everybody
        if 2 * paid[g] < without[g] and CLEARLY * len(everybody) * without[g] > results.spec.minor
    ]
    if not lost:
        return None
    lost.sort(key=lambda g: (paid[g] - without[g], g))
    first = {int(g): i for i, g in reversed(list(enumerate(group)))}
    text, currency = results.spec.money.text, results.spec.currency
    items = [
        f"“{visible(results.inputs.identities[first[g]])}”: {currency} {text(paid[g])} instead of {text(without[g])}"
        for g in lost
    ]
    return StandingWarning.of(
        "loses_half",
        f"{counted(len(lost), 'payee loses', 'payees lose')} more than half of their pay to evidence",
        "Compared with the same run without any evidence. A cheat whose copies were caught is among them, and so is "
        "somebody whose own work was taken for a copy. For each: datamarket explain RUN/ --payee NAME shows what "
        "matched what; untie honest units with --overrides.",
        items,
    )


def _collapse(results: Results) -> StandingWarning | None:
    found = results.collapse
    if found is None:
        return None
    return StandingWarning.of(
        "collapse",
        f"One tree holds {found.largest:,} of {found.units:,} different units",
        f"{found.words}.",
        count=found.largest,
    )


def _balances(results: Results) -> StandingWarning | None:
    """Balances of a size that would decide the runs to come: scores below zero almost cancel those above."""
    balance, names = results.division.balance, results.names
    owed = sum(each for each in balance if each > 0)
    if 2 * owed <= results.spec.minor:
        return None
    text, currency = results.spec.money.text, results.spec.currency
    below = sorted((each, name) for each, name in zip(balance, names, strict=True) if each < 0)
    title, items = (
        f"{currency} {text(owed)} would be carried to the next run",
        [f"“{visible(name)}”: {currency} {text(each)}" for each, name in below],
    )
    if not results.spec.worth.signed:
        return StandingWarning.of(
            "large_balances",
            title,
            "No score of this run is below zero: they were brought in from the book. While they are that large, a "
            "run pays by them, and next to nothing for what is new in it. Raise the amount, or end them (datamarket "
            "ledger fund, datamarket ledger write-off) and pay again.",
            items,
        )
    return StandingWarning.of(
        "large_balances",
        title,
        "Scores below zero almost cancel those above, so everybody is entitled to much more than there is. A run "
        "that takes these balances up pays by them, and next to nothing for what is new in it. Look at "
        "the units of those below zero: they may be mislabelled so as to do this. Pay again without them, or with "
        "--negative zero.",
        items,
    )


def _claims(results: Results) -> StandingWarning | None:
    few = [claim for claim in results.payees.claims if len(claim.identities) <= COMMON]
    if not few:
        return None
    return StandingWarning.of(
        "claims",
        f"{counted(len(few), 'claim')} that identities are one payee, not confirmed by all",
        "Submitters fill these columns in, so a claim ties nobody and costs nobody anything. Ask those whom it "
        "concerns; where they are one payee, say so with --edges or --overrides and pay again.",
        [claim.words(results.inputs.identities) for claim in few],
    )


def _common_keys(results: Results) -> StandingWarning | None:
    many = [claim for claim in results.payees.claims if len(claim.identities) > COMMON]
    if not many:
        return None
    return StandingWarning.of(
        "common_keys",
        f"{counted(len(many), 'linkage value is', 'linkage values are')} shared by more than {COMMON} identities",
        "It ties none of them. It may be a public computer or a broker, or one person under many names: find out "
        "what the value is; where they are one payee, say so with --edges or --overrides and pay again.",
        [
            f"{claim.reason} = “{visible(claim.value)}”: {len(claim.identities):,} identities"
            for claim in sorted(many, key=lambda claim: -len(claim.identities))
        ],
    )
