"""The files of a run, written from its results: the same results give the same bytes. Matches are
clusters of several units, with their members and the ties that made them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datamarket_gym.display import listed
from datamarket_gym.evidence.graph import Edges, seniority_ranks
from datamarket_gym.execution.arrays import Codes, distinct_pairs, in_blocks
from datamarket_gym.execution.files import replacing, write_text
from datamarket_gym.execution.parallel import compute
from datamarket_gym.mechanism.payment_tables import unit_amounts
from datamarket_gym.mechanism.payments import floored
from datamarket_gym.mechanism.representatives import canonical_training_set
from datamarket_gym.payout.acquired_units import known_table
from datamarket_gym.payout.intake import ReceivedTimes
from datamarket_gym.payout.manifest import KNOWN
from datamarket_gym.payout.names import csv_text, visible
from datamarket_gym.payout.quarantine import FILE as QUARANTINE
from datamarket_gym.payout.quarantine import quarantine_csv
from datamarket_gym.payout.report.html import Row
from datamarket_gym.payout.results import Results
from datamarket_gym.payout.statements.record import drawn_clusters

_CLUSTERS, _UNITS, _TIES = 200, 40, 40


def clusters_to_show(results: Results) -> tuple[list[Row], int]:
    """The clusters of several units that matter most, and how many are left out.

    First those of several identities, and among them the largest: there money moved.
    """
    label, owner = results.payments.clustering.label, results.inputs.owner
    sizes = np.bincount(label)
    holders = np.bincount(distinct_pairs(label, owner)[0], minlength=len(sizes))
    several = np.flatnonzero(sizes > 1)
    order = np.lexsort((results.payments.scores.number[several], -sizes[several], holders[several] < 2))
    chosen = several[order][:_CLUSTERS]
    return describe(results, chosen), len(several) - len(chosen)


def describe(results: Results, chosen: Codes) -> list[Row]:
    """Clusters with their units (the one that stands for them first) and ties."""
    clusters, canonical = results.payments.clustering, results.payments.canonical
    label, edges = clusters.label, clusters.edges
    errors = score_errors(results)
    share = np.zeros(len(label))
    np.add.at(share, canonical.claim_unit, canonical.claim_share)
    represents = np.zeros(len(label), dtype=bool)
    represents[canonical.unit] = True
    rank = seniority_ranks(results.inputs.submission, clusters.tie_breaker)
    members = _grouped(label, chosen)
    ties = _grouped(label[edges.left], chosen)
    return [
        _row(results, int(c), members[int(c)], ties[int(c)], share, represents, rank, float(errors[c]))
        for c in chosen
    ]


def _grouped(codes: Codes, chosen: Codes) -> dict[int, Codes]:
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], chosen)
    ends = np.searchsorted(codes[order], chosen, side="right")
    return {int(c): order[a:b] for c, a, b in zip(chosen, starts, ends, strict=True)}


def _row(
    results: Results,
    cluster: int,
    units: Codes,
    ties: Codes,
    share: np.ndarray,
    represents: np.ndarray,
    rank: Codes,
    error: float,
) -> Row:
    inputs, edges = results.inputs, results.payments.clustering.edges
    units = units[np.lexsort((rank[units], ~represents[units]))]
    names = [inputs.identities[inputs.owner[u]] for u in units]
    strongest = ties[np.argsort(-edges.score[ties], kind="stable")]
    return {
        "number": int(results.payments.scores.number[cluster]),
        "identities": len(set(names)),
        "owners": _listed([n for u, n in zip(units, names, strict=True) if share[u] > 0]),
        "others": _listed([n for u, n in zip(units, names, strict=True) if not share[u]]),
        "worth": _worth(results, cluster),
        "reasons": ", ".join(sorted({str(r) for r in edges.reason[ties]})),
        "score": f"{results.payments.scores.values[cluster]:.2e}",
        "error": f"{error:.1e}",
        "find": " ".join(
            [
                *(visible(n) for n in dict.fromkeys(names)),
                *(visible(inputs.ids[u]) for u in units[:_UNITS]),
            ]
        ),
        "units": [
            {
                "unit": visible(inputs.ids[u]),
                "identity": visible(name),
                "represents": bool(represents[u]),
                "share": f"{share[u]:.0%}",
            }
            for u, name in list(zip(units, names, strict=True))[:_UNITS]
        ],
        "more_units": max(0, len(units) - _UNITS),
        "ties": [
            {
                "left": visible(inputs.ids[edges.left[t]]),
                "right": visible(inputs.ids[edges.right[t]]),
                "reason": str(edges.reason[t]),
                "score": f"{edges.score[t]:.4f}",
            }
            for t in strongest[:_TIES]
        ],
        "more_ties": max(0, len(ties) - _TIES),
    }


def _listed(names: list[str]) -> str:
    return listed(map(visible, dict.fromkeys(names)), 3)


def _worth(results: Results, cluster: int) -> str:
    """What the cluster's score comes to, before anything is carried."""
    used = results.payments.scores.values
    if results.spec.negative == "zero":
        used = np.maximum(used, 0.0)
    money = results.spec.money
    return f"{results.spec.currency} {money.text(round(results.spec.minor * float(used[cluster] / used.sum())))}"


_ROWS = 8192


def write_tables(results: Results, folder: Path) -> None:
    """All tables of a run."""
    _write(folder / "evidence.parquet", evidence_table(results))
    _write(folder / "clusters.parquet", cluster_table(results))
    _write_canonical(results, folder / "canonical.parquet")
    _write(folder / "leaks.parquet", leak_table(results))
    if results.inputs.prior is not None:
        _write(folder / KNOWN, known_table(results.known, results.inputs.prior.runs))
    payments = payment_table(results)
    _write(folder / "payments.parquet", payments)
    rows = [list(row.values()) for row in payments.to_pylist()]
    write_text(folder / "payments.csv", csv_text(payments.column_names, rows, _AMOUNTS))
    write_text(folder / QUARANTINE, quarantine_csv(results.inputs.bad))


_AMOUNTS = ("payment", "low", "high", "entitled", "balance", "without_evidence")


def payment_table(results: Results) -> pa.Table:
    """One row per identity, the highest payment first, equal ones by name."""
    text, division = results.spec.money.text, results.division
    n = len(results.inputs.identities)
    absent = len(results.names) - n
    leaked = Counter(results.leaks.identity.tolist())
    played = [*np.bincount(results.inputs.owner, minlength=n).tolist(), *[0] * absent]
    removed, bad = results.inputs.removed, Counter(row.identity for row in results.inputs.bad)
    known = Counter(results.known.identity)
    units = [
        count + leaked[name] + removed.get(name, 0) + bad[name] + known[name]
        for count, name in zip(played, results.names, strict=True)
    ]
    holder = distinct_pairs(results.inputs.owner, results.payments.clustering.label)[0]
    clusters = [*np.bincount(holder, minlength=n).tolist(), *[0] * absent]
    payee = [*results.payees.group.tolist(), *range(n, n + absent)]
    first = {group: i for i, group in reversed(list(enumerate(payee)))}
    order = sorted(range(len(results.names)), key=lambda i: (-division.paid[i], results.names[i]))
    columns: dict[str, list[Any]] = {
        "identity": results.names,
        "payment": [text(v) for v in division.paid],
        "currency": [results.spec.currency] * len(results.names),
        "low": [text(v) for v in results.low],
        "high": [text(v) for v in results.high],
        "entitled": [text(v) for v in division.entitled],
        "balance": [text(v) for v in division.balance],
        "without_evidence": [text(v) for v in results.without_evidence],
        "score": [*results.score.tolist(), *[0.0] * absent],
        "score_error": (results.error * results.score.sum() / results.spec.minor).tolist(),
        "units": units,
        "leaked": [leaked[name] for name in results.names],
        "clusters": clusters,
        "paid_together_with": [
            "" if first[g] == i else results.names[first[g]] for i, g in enumerate(payee)
        ],
    }
    return pa.table({name: [column[i] for i in order] for name, column in columns.items()})


def leak_table(results: Results) -> pa.Table:
    """Every unit that was set aside: whose it is, which validation row it is, by what, and how alike they are."""
    leaks = results.leaks
    return pa.table(
        {
            "unit": pa.array(leaks.id.tolist(), pa.string()),
            "identity": pa.array(leaks.identity.tolist(), pa.string()),
            "validation_row": leaks.row,
            "by": pa.array(leaks.by.tolist(), pa.string()),
            "likeness": leaks.likeness,
        }
    )


def leaked_units(results: Results, identity: str | None = None) -> list[Row]:
    """Units that were set aside, of one identity or of all, as pages and screens show them."""
    return [
        {
            "unit": visible(unit), "identity": visible(who), "row": row, "by": by,
            "likeness": f"{likeness:.3f}",
        }
        for unit, who, row, by, likeness in results.leaks.listed()
        if identity is None or who == identity
    ]  # fmt: skip


def evidence_table(results: Results) -> pa.Table:
    """Every tie between units after overrides, every one between identities, and claims that tied nobody.

    A claim is as many rows as it has identities besides the first: ``claim`` is its number, ``value`` what is shared.
    """
    inputs, clusters, payees = results.inputs, results.payments.clustering, results.payees
    links = Edges.concat([payees.edges, payees.claimed])
    kinds = ["identity"] * len(payees.edges) + ["claim"] * len(payees.claimed)
    claims = [(i, claim.value) for i, claim in enumerate(payees.claims) for _ in claim.identities[1:]]
    edges, number = clusters.edges, results.payments.scores.number
    none = [None] * (len(edges) + len(payees.edges))
    owner = [inputs.identities[c] for c in inputs.owner]
    ids = inputs.ids
    return pa.table(
        {
            "kind": _strings(["unit"] * len(edges) + kinds),
            "left": _strings(_names(edges.left, ids) + _names(links.left, inputs.identities)),
            "right": _strings(_names(edges.right, ids) + _names(links.right, inputs.identities)),
            "reason": _strings([str(r) for r in (*edges.reason, *links.reason)]),
            "score": np.concatenate([edges.score, links.score]),
            "identity_left": _strings(_names(edges.left, owner) + _names(links.left, inputs.identities)),
            "identity_right": _strings(
                _names(edges.right, owner) + _names(links.right, inputs.identities)
            ),
            "cluster": pa.array(
                [*number[clusters.label[edges.left]].tolist(), *[None] * len(links)],
                pa.int64(),
            ),
            "claim": pa.array([*none, *(number for number, _ in claims)], pa.int64()),
            "value": pa.array([*none, *(value for _, value in claims)], pa.string()),
        }
    )


def cluster_table(results: Results) -> pa.Table:
    """One row per unit: its cluster, whether it stands for it, its share of the cluster's score, and what it earns.

    ``row`` is its place among the units that played. Spot checks are drawn from this table alone. ``came`` is its place
    in the order of seniority, ``moment`` in that of times alone (equal where times are); ``by_lot`` says that a lot
    decided who of several names owns the cluster. Where times are from the intake log, ``received`` is when the unit
    was received, in seconds since 1970, and ``entry`` the entry that says so.
    """
    inputs, canonical = results.inputs, results.payments.canonical
    share = np.zeros(len(inputs.ids))
    np.add.at(share, canonical.claim_unit, canonical.claim_share)
    chosen = np.zeros(len(inputs.ids), dtype=bool)
    chosen[canonical.unit] = True
    label = results.payments.clustering.label
    public = results.payments.scores.number[label]
    rank = seniority_ranks(inputs.submission, results.payments.clustering.tie_breaker)
    moment = np.unique(inputs.submission.times, return_inverse=True)[1]
    order = np.lexsort((rank, public))
    size = np.bincount(label)[label]
    used = floored(results.payments) if results.spec.negative == "zero" else results.payments
    by_unit = unit_amounts(used)
    earned = np.bincount(by_unit.row, weights=by_unit.amount, minlength=len(inputs.ids))
    return pa.table(
        {
            "cluster": public[order],
            "unit": [inputs.ids[i] for i in order],
            "identity": [inputs.identities[inputs.owner[i]] for i in order],
            "units_in_cluster": size[order],
            "represents": chosen[order],
            "share": share[order],
            "score": results.payments.scores.values[label][order],
            "score_error": score_errors(results)[label][order],
            "amount": earned[order],
            "row": order,
            "came": rank[order],
            "moment": moment[order],
            "by_lot": np.isin(label, drawn_clusters(results))[order],
            **_received(inputs.received, order),
        }
    )


def _received(received: ReceivedTimes | None, order: Codes) -> dict[str, np.ndarray]:
    if received is None:
        return {}
    return {"received": received.time[order], "entry": received.entry[order]}


def score_errors(results: Results) -> np.ndarray:
    """Standard error of each cluster's score over groups of validation rows, and of sampling."""
    scores = results.payments.scores
    variance = scores.standard_errors**2
    groups = len(scores.by_group)
    if groups > 1:
        variance = variance + scores.by_group.var(axis=0, ddof=1) / groups
    return np.asarray(np.sqrt(variance))


def _write_canonical(results: Results, path: Path) -> None:
    """What to train on, in content order, a few thousand rows at a time; with labels where they count."""
    inputs, canonical = results.inputs, results.payments.canonical
    features, label, weight = canonical_training_set(canonical)
    number = results.payments.scores.number[canonical.cluster]
    order = np.lexsort((canonical.keys, number))
    with np.errstate(over="ignore"):
        short = all(
            block.dtype.itemsize <= 4 or np.array_equal(block, block.astype(np.float32))
            for _, block in in_blocks(features)
        )
    kind, number_kind = (pa.float32(), np.float32) if short else (pa.float64(), np.float64)
    schema = pa.schema(
        [
            ("unit", pa.string()),
            ("cluster", pa.int64()),
            *([("label", pa.array(label[:1]).type)] if inputs.labelled else []),
            ("weight", pa.float64()),
            ("features", pa.list_(kind, features.shape[1])),
        ]
    )
    told = compute().progress
    with replacing(path) as part, pq.ParquetWriter(part, schema) as out:
        for at in range(0, len(order), _ROWS):
            some = order[at : at + _ROWS]
            flat = pa.array(features[some].astype(number_kind, copy=False).ravel(), from_pandas=False)
            columns = [
                pa.array([inputs.ids[i] for i in canonical.unit[some]]),
                pa.array(number[some]),
                *([pa.array(label[some])] if inputs.labelled else []),
                pa.array(weight[some]),
                pa.FixedSizeListArray.from_arrays(flat, features.shape[1]),
            ]
            out.write_table(pa.Table.from_arrays(columns, schema=schema))
            told.count(at + len(some), len(order))


def _write(path: Path, table: pa.Table) -> None:
    with replacing(path) as part:
        pq.write_table(table, part)


def _strings(values: list[str]) -> pa.Array:
    """A column of text, also where it has no rows."""
    return pa.array(values, pa.string())


def _names(rows: np.ndarray, names: list[str]) -> list[str]:
    return [names[i] for i in rows]
