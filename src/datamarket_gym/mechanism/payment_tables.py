"""Tables of payments: by identity, by unit, by cluster, and the explanation of one identity's payment."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.content_keys import combined_keys
from datamarket_gym.data.submission import Submission
from datamarket_gym.display import counted
from datamarket_gym.errors import DataMarketError, require_instance, require_known
from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.mechanism.allocation import (
    CENTS,
    Payments,
    Pot,
    apportion,
    by_content,
    floored,
    grid_of,
    largest_remainder,
    shares_of,
)
from datamarket_gym.result_table import ResultTable


def identity_cents(payments: Payments, pot: Pot) -> NDArray[np.int64]:
    """Divide a pot in proportion to value by largest remainders, negative scores of clusters counted as zero.

    Values are whole numbers of steps of their grid, so shares are exact fractions.
    """
    used, names = floored(payments), payments.identities
    step = grid_of(used.scores.values)
    weight = np.zeros(len(names), dtype=np.int64)
    np.add.at(weight, used.shares.identity, np.round(used.amount / step).astype(np.int64))
    total = int(weight.sum())
    if not total:
        raise DataMarketError(
            "the units are worth nothing on these validation rows, so there is nothing to divide the amount by; check "
            "labels and validation rows"
        )
    submitted = _submitted(payments)
    code = np.searchsorted(names, submitted.identity)
    order = np.lexsort((submitted.keys, code))
    ends = np.cumsum(np.bincount(code, minlength=len(names)))
    keys = combined_keys(submitted.keys[order], ends).tolist()
    due = [Fraction(pot.cents * w, total) for w in weight.tolist()]
    return np.array(largest_remainder(pot.cents, due, by_content(keys, names.tolist())))


def identity_table(payments: Payments) -> ResultTable:
    """Return one row per identity, in alphabetical order."""
    amount, pot = payments.paid, payments.pot
    submitted = _submitted(payments)
    columns: dict[str, Any] = {
        "identity": payments.identities,
        "units": np.bincount(np.searchsorted(payments.identities, submitted.identity)),
        **({} if pot is None else {"value": payments.totals}),
        "amount": amount,
        "share": shares_of(amount),
    }
    if not payments.scores.exact:
        # Of a pot, the money for a value of one: negative scores of clusters do not count in what it is divided by.
        scale = 1.0 if pot is None else amount.sum() / np.maximum(payments.scores.values, 0.0).sum()
        columns["standard_error"] = payments.standard_errors * scale
    return ResultTable(payments.title, columns, money=_money(payments))


@dataclass(frozen=True, eq=False)
class UnitAmounts:
    """``amount[i]`` for unit ``row[i]`` of those that play to identity ``identity[i]``; unpaid copies are left out."""

    row: Codes
    identity: Codes
    amount: Values


def unit_amounts(payments: Payments) -> UnitAmounts:
    """Divide the amounts of payments among units.

    What an identity gets of a cluster goes to its units that stand for the cluster, by their claims; where none of its
    units does, to all of its units in the cluster alike.
    """
    submission = payments.clustering.units
    n = len(payments.identities)
    identity = np.searchsorted(payments.identities, submission.identities)[submission.identity_codes]
    pair = payments.clustering.label * n + identity
    canonical = payments.canonical
    claim = np.bincount(canonical.claim_unit, weights=canonical.claim_share, minlength=len(submission))
    pairs, place = np.unique(pair, return_inverse=True)
    unclaimed = np.bincount(place, weights=claim) <= 0.0
    claim = np.where(unclaimed[place], 1.0, claim)
    whole = np.bincount(place, weights=claim)
    at = np.searchsorted(pairs, payments.shares.cluster * n + payments.shares.identity)
    paid = np.zeros(len(pairs))
    np.add.at(paid, at, payments.amount)
    row = np.flatnonzero(np.isin(np.arange(len(pairs)), at)[place] & (claim > 0.0))
    return UnitAmounts(row, identity[row], paid[place[row]] * claim[row] / whole[place[row]])


def unit_table(payments: Payments) -> ResultTable:
    """Return one row per submitted unit, in the order of submission; amounts of an identity's units sum to its own."""
    whole, label = _submitted(payments), payments.clustering.label
    n, leaks, acquired = len(whole), payments.leaks, payments.acquired.unit
    playing = np.setdiff1d(np.arange(n), np.concatenate([leaks.unit, acquired]))
    cluster, amount = np.full(n, -1, dtype=np.int64), np.zeros(n)
    cluster[playing] = label
    units = unit_amounts(payments)
    amount[playing[units.row]] = units.amount
    if payments.pot is not None:
        amount = _unit_cents(payments, whole, amount)
    reason = np.full(n, "", dtype=object)
    first = playing[_representatives(payments)]
    for row in np.setdiff1d(np.arange(len(label)), payments.canonical.claim_unit).tolist():
        unit = first[label[row]]
        reason[playing[row]] = f"matches unit {whole.id[unit]} of {whole.identity[unit]}"
    for unit, row in zip(leaks.unit.tolist(), leaks.row.tolist(), strict=True):
        reason[unit] = f"equals validation row {row}, or nearly"
    reason[acquired] = "matches a unit acquired before"
    reason[(reason == "") & (amount <= 0)] = "adds no value"
    columns = {"unit": whole.id, "identity": whole.identity, "cluster": cluster, "amount": amount}
    columns["reason"] = reason.astype(np.str_)
    return ResultTable(payments.title, columns, money=_money(payments))


def _unit_cents(payments: Payments, whole: Submission, amount: Values) -> Values:
    """Divide each identity's money among its units by what they are worth, to the cent."""
    name = np.searchsorted(payments.identities, whole.identity)
    positive = np.maximum(amount, 0.0)
    total = np.bincount(name, weights=positive, minlength=len(payments.identities))
    units = np.bincount(name, minlength=len(payments.identities))
    # An identity may be paid for clusters in which none of its units is worth anything by itself.
    share = np.where(
        total[name] > 0, positive / np.where(total > 0, total, 1.0)[name], 1.0 / units[name]
    )
    order = np.argsort(whole.keys, kind="stable")
    amount[order] = apportion(payments.cents, name[order], share[order]) / CENTS
    return amount


def cluster_table(payments: Payments) -> ResultTable:
    """Return one row per cluster: those of several units first, then those worth most."""
    clusters, scores = payments.clustering, payments.scores
    submission = payments.clustering.units
    label, count = clusters.label, clusters.n_clusters
    pairs = np.unique(label * len(submission.identities) + submission.identity_codes)
    edges, reasons = clusters.edges, np.full(count, "", dtype=object)
    for reason in np.unique(edges.reason).tolist():
        for cluster in np.unique(label[edges.left[edges.reason == reason]]).tolist():
            reasons[cluster] = f"{reasons[cluster]}, {reason}" if reasons[cluster] else reason
    representative = _representatives(payments)
    columns: dict[str, Any] = {
        "cluster": np.arange(count),
        "units": np.bincount(label, minlength=count),
        "identities": np.bincount(pairs // len(submission.identities), minlength=count),
        "representative": submission.id[representative],
        "owner": submission.identity[representative],
        "value": scores.values,
        "standard_error": scores.standard_errors,
        "matched_by": reasons.astype(np.str_),
    }
    order = np.lexsort((-scores.values, columns["units"] == 1))
    return ResultTable(payments.title, columns).take(order)


_REASONS = (
    ("match units of others or earlier ones", "matches unit"), ("equal validation rows", "equals"),
    ("were acquired before", "matches a unit"), ("add no value", "adds no"),
)  # fmt: skip


def explanation(payments: Payments, identity: str) -> ResultTable:
    """Return the units of one identity, best paid first, under a sentence that sums them up."""
    require_instance("identity", identity, str, "the name of an identity")
    require_known("identity", [identity], payments.identities.tolist())
    units = unit_table(payments)
    units = units.take(np.flatnonzero(units["identity"] == identity))
    units = units.take(np.argsort(-units["amount"], kind="stable"))
    amount, total = payments.as_dict()[identity], float(payments.paid.sum())
    paid = int((units["amount"] > 0).sum())
    shown = f"{amount:,.4g}" if payments.pot is None else f"{amount:,.2f} of {payments.pot.shown}"
    share = f" ({amount / total:.1%})" if total else ""
    title = f"{identity} is paid {shown}{share}: {paid:,} of {counted(len(units), 'unit')} are paid"
    for reason, start in _REASONS:
        if count := int(np.char.startswith(units["reason"], start).sum()):
            title += f"; {count:,} {reason}"
    columns = {name: units[name] for name in ("unit", "amount", "cluster", "reason")}
    return ResultTable(title, columns, money=units.money)


def _money(payments: Payments) -> tuple[str, ...]:
    return () if payments.pot is None else ("amount", "standard_error")


def _submitted(payments: Payments) -> Submission:
    return payments.submitted or payments.clustering.units


def _representatives(payments: Payments) -> Codes:
    """Return for each cluster the row of a unit that stands for it: the first that has a claim on it."""
    canonical = payments.canonical
    cluster = canonical.cluster[canonical.claim_row]
    first = np.unique(cluster, return_index=True)[1]
    return np.asarray(canonical.claim_unit[first])
