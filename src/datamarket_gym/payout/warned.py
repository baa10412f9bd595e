"""What a run is warned of: one function that collects all warnings of its results."""

from __future__ import annotations

import numpy as np

from datamarket_gym.core.arrays import Features, Values, distinct_pairs
from datamarket_gym.core.narrow import in_blocks
from datamarket_gym.core.screen import counted, listed
from datamarket_gym.learners.base import LEARNERS
from datamarket_gym.learners.coverage import Coverage
from datamarket_gym.payout.chained import chained
from datamarket_gym.payout.clock import time_warnings
from datamarket_gym.payout.names import look_alikes, says_nothing, spelled, visible
from datamarket_gym.payout.quarantine import BadRow
from datamarket_gym.payout.results import Results
from datamarket_gym.payout.warned_earlier import (
    bought_from_others,
    bought_rows,
    lost_labels,
    received_from_others,
)
from datamarket_gym.payout.warned_scores import uneven_scores, unscored_units
from datamarket_gym.payout.warnings import MOST_ITEMS, StandingWarning, in_order
from datamarket_gym.pipeline.set_aside import REMEDY

MANY = 5
"""So many payees in one tree of tied units are many; in a smaller market of at least three, all of them."""
COMMON = 20
"""A linkage value of more identities than this is told as common, not as a claim."""
CLEARLY = 10
"""Pay counts as clear from a tenth of an equal share on, as in `judge.metrics.clearly_paid`."""

ODD, FEW = 1.25, 0.01
"""Lengths of units are odd beyond this factor of those of all validation rows, and told where this share of units is,
beyond the 2 in rows + 1 that lie outside by chance."""


def warnings_of(results: Results) -> list[StandingWarning]:
    """All warnings of a run, in the order in which they are shown."""
    looked = (
        _leak,
        bought_from_others,
        bought_rows,
        received_from_others,
        lost_labels,
        _unseen,
        _ignored,
        unscored_units,
        uneven_scores,
        _joined,
        chained,
        _loses_half,
        _collapse,
        _balances,
        _lengths,
        _claims,
        _common_keys,
        _look_alikes,
        _odd,
        _quarantined,
        _skipped,
    )
    found = [warning for look in looked if (warning := look(results)) is not None]
    return in_order([*time_warnings(results.inputs, results.spec), *found])


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


def _unseen(results: Results) -> StandingWarning | None:
    """Validation labels that nobody submitted, where that is no error (`require_learnable`)."""
    inputs = results.inputs
    learner = LEARNERS.create(results.spec.learner)
    if not (isinstance(learner, Coverage) and learner.labels):
        return None
    labels, rows = np.unique(inputs.validation_label, return_counts=True)
    bought = inputs.submission.label[:0] if inputs.prior is None else inputs.prior.art.label
    missing = np.flatnonzero(~(np.isin(labels, inputs.submission.label) | np.isin(labels, bought)))
    if not len(missing):
        return None
    missing = missing[np.lexsort((missing, -rows[missing]))]
    return StandingWarning.of(
        "unseen_labels",
        f"{counted(len(missing), 'validation label was', 'validation labels were')} submitted by nobody "
        f"({counted(int(rows[missing].sum()), 'row')} of {len(inputs.validation_label):,})",
        "Nobody can cover these rows, so nobody is paid for them, and the whole amount is divided by the others. Where "
        "submitters write the labels otherwise, correct them and pay again; where such units are wanted, ask for "
        "them; else drop the rows.",
        [f"“{visible(str(labels[i]))}”: {counted(int(rows[i]), 'row')}" for i in missing],
    )


def _ignored(results: Results) -> StandingWarning | None:
    """Labels that are there and do not count, since others have none."""
    ignored = results.inputs.ignored_labels
    if not ignored:
        return None
    return StandingWarning.of(
        "labels_ignored",
        "Labels do not count in this run",
        "A label can be compared with nothing but a label. Where units, validation rows or what was bought before have "
        "none, those of the others are left out, and every unit may cover every row. If labels are wanted, fill them "
        "in, or name the column that holds them (--label), in both tables, and pay again; if not, nothing is wrong.",
        ignored,
    )


def _joined(results: Results) -> StandingWarning | None:
    """Trees of tied units that hold units of many payees."""
    inputs, label, group = results.inputs, results.payments.clusters.label, results.payees.group
    limit = min(MANY, max(3, len(np.unique(group))))
    holder = distinct_pairs(label, group[inputs.owner])[0]
    payees = np.bincount(holder, minlength=results.payments.clusters.n_clusters)
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
        "somebody whose own work was taken for a copy. For each: datamarket explain RUN/ --identity NAME shows what "
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
            "book fund, datamarket book write-off) and pay again.",
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


def _lengths(results: Results) -> StandingWarning | None:
    """Units shorter or longer than any validation row is, where distance counts: no encoder made both."""
    inputs = results.inputs
    if not results.spec.worth.by_distance:
        return None
    ours, held = (_long(each) for each in (inputs.submission.features, inputs.validation_features))
    low, high = held.min(), held.max()
    odd = np.flatnonzero((ours < low / ODD) | (ours > high * ODD))
    if len(odd) <= (FEW + 2 / (len(held) + 1)) * len(ours):
        return None
    whose, count = np.unique(inputs.owner[odd], return_counts=True)
    order = np.lexsort((whose, -count))
    return StandingWarning.of(
        "odd_lengths",
        f"{counted(len(odd), 'unit')} of {counted(len(whose), 'identity', 'identities')} are shorter or longer than "
        f"all validation rows ({low:.3g} to {high:.3g})",
        "Nearest neighbours go by distance, so whoever shortens their vectors comes nearer to every validation row "
        "and is paid for it; evidence goes by direction and sees nothing. Embed what was submitted yourself (--text, "
        "--images), or bring these units to the length of the others, and pay again.",
        [
            f"“{visible(inputs.identities[whose[i]])}”: {counted(int(count[i]), 'unit')}, in the median "
            f"{np.median(ours[odd][inputs.owner[odd] == whose[i]]):.3g} long"
            for i in order
        ],
        len(odd),
    )


def _long(rows: Features) -> Values:
    """The length of each row."""
    found = [np.linalg.norm(block.astype(np.float64), axis=1) for _, block in in_blocks(rows)]
    return np.concatenate(found)


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


def _look_alikes(results: Results) -> StandingWarning | None:
    groups = sorted(look_alikes(results.names), key=len, reverse=True)
    if not groups:
        return None
    return StandingWarning.of(
        "look_alikes",
        f"{counted(len(groups), 'group')} of different identities whose names look alike",
        "They are different accounts and are paid apart. Check that each is who they seem to be before money goes out; "
        "join those that are one person with --overrides.",
        [_alike(group) for group in groups],
    )


def _alike(group: list[str]) -> str:
    return listed(map(spelled, group), 3)


def _odd(results: Results) -> StandingWarning | None:
    odd = [name for name in results.names if says_nothing(name)]
    if not odd:
        return None
    return StandingWarning.of(
        "odd_identities",
        f"{counted(len(odd), 'identity', 'identities')} called nan, none, null or the like",
        "Such names come from missing cells: units of several people may stand under one, and nobody can be paid "
        "as nobody. Correct the identities in the table and pay again.",
        [f"“{visible(name)}”" for name in odd],
    )


def _quarantined(results: Results) -> StandingWarning | None:
    bad = results.inputs.bad
    if not bad:
        return None
    names = len({row.identity for row in bad} - {""})
    return StandingWarning.of(
        "quarantined",
        f"{counted(len(bad), 'row')} of the submissions {'was' if len(bad) == 1 else 'were'} set aside "
        f"({counted(names, 'identity', 'identities')})",
        "They cannot be used, and nobody is paid for them; quarantine.csv lists all, with the row of the file (counted "
        "from 0, without the header). Have them mended and pay again, or tell whoever submitted them.",
        [f"row {row.row}, {_whose(row)}: {visible(row.wrong, 200)}" for row in bad[:MOST_ITEMS]],
        len(bad),
    )


def _whose(row: BadRow) -> str:
    named = row.unit not in ("", f"row {row.row}")
    unit = f"“{visible(row.unit)}” " if named else ""
    return f"{unit}of “{visible(row.identity)}”" if row.identity else f"{unit}of nobody"


def _skipped(results: Results) -> StandingWarning | None:
    items = [
        f"{role}: {name}: {why}"
        for role, files in sorted(results.inputs.skipped.items())
        for name, why in files
    ]
    if not items:
        return None
    return StandingWarning.of(
        "skipped_files",
        f"{counted(len(items), 'file')} in the folders {'was' if len(items) == 1 else 'were'} not read",
        "Their endings are none of an image that is read, they do not lie where images must (identity/label/image, for "
        "validation and reference rows label/image; without the folder of the label where no image lies in one), or no "
        "row of the table names them. Whoever submitted them is not paid for them: convert, move or name them and pay "
        "again, or make sure that they are no submissions.",
        items,
    )
