"""The results of a run, from the pipeline's payments to cents, and the files that are written from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from datamarket_gym import __version__
from datamarket_gym.data.content_keys import combined_keys
from datamarket_gym.display import listed
from datamarket_gym.evidence.graph import CollapsedMarket, Edges, find_collapse, seniority_ranks
from datamarket_gym.evidence.leak_check import Leaks
from datamarket_gym.evidence.threshold import Threshold
from datamarket_gym.execution.arrays import Codes, Values, distinct_pairs
from datamarket_gym.execution.files import replacing, sha256, write_json, write_text
from datamarket_gym.execution.parallel import compute
from datamarket_gym.mechanism.allocation import Payments, floored, grid_of
from datamarket_gym.mechanism.payment_tables import unit_amounts
from datamarket_gym.mechanism.pipeline import Mechanism
from datamarket_gym.mechanism.representatives import canonical_training_set
from datamarket_gym.payout.acquired_data import MatchedAcquiredUnit, fits, known_table, priced_given
from datamarket_gym.payout.checks.plan import SettledDraft
from datamarket_gym.payout.input_files import FILE as QUARANTINE
from datamarket_gym.payout.input_files import quarantine_csv
from datamarket_gym.payout.inputs import Inputs
from datamarket_gym.payout.manifest import FORMAT, KNOWN, NAME, Contents, outputs_of
from datamarket_gym.payout.money import (
    LEVEL,
    Division,
    PayRule,
    divide,
    half_width,
    moved_at_most,
    standard_errors,
)
from datamarket_gym.payout.names import csv_text, visible
from datamarket_gym.payout.overrides import Override, Payees
from datamarket_gym.payout.report.pages import Row
from datamarket_gym.payout.settings import PayoutSpec, Worth, worth_of
from datamarket_gym.utilities.oracle import UtilityOracle

_NOTHING_NEW = "what is new adds nothing to what the earlier runs have acquired"


@dataclass(frozen=True, eq=False)
class Results:
    """Hold all that follows from the inputs of a run.

    ``payments`` are the pipeline's records, before any policy. ``names`` are the identities of this run, then
    those that only bring a balance from an earlier one.
    """

    spec: PayoutSpec
    inputs: Inputs
    utility: UtilityOracle
    threshold: Threshold
    mechanism: Mechanism
    overrides: list[Override]
    payments: Payments
    payees: Payees
    names: list[str]
    division: Division
    payer: PayRule
    without_evidence: list[int]
    leaks: Leaks  # under the names of units and identities; ``inputs`` and ``payments`` are without them
    known: list[MatchedAcquiredUnit]  # acquired by earlier runs; likewise
    asked: dict[str, Values] = field(default_factory=dict)  # as `measure_threshold` keeps it

    @property
    def worth(self) -> Worth:
        """Return the words for what is paid for, which mention labels only where they count."""
        return worth_of(self.spec.utility_function, labelled=self.inputs.labelled)

    @cached_property
    def divided(self) -> Payments:
        """Return the payments by which the amount is divided: where asked, scores below zero count as nothing."""
        return floored(self.payments) if self.spec.negative == "zero" else self.payments

    @cached_property
    def rank(self) -> Codes:
        """Return the seniority of each unit."""
        return seniority_ranks(self.inputs.submission, self.payments.clustering.tie_breaker)

    @property
    def collapse(self) -> CollapsedMarket | None:
        """Return what similarity evidence made of the market, if it matched much of it as one unit."""
        return find_collapse(
            self.mechanism.evidence, self.inputs.submission, self.payments.clustering, checked=True
        )

    @property
    def named_mechanism(self) -> Mechanism:
        """Return the mechanism with the announced beacon or none.

        No file of the run holds a digest of validation rows: they may be used again, and the next run's random
        tie-breaking could be known beforehand.
        """
        return self.mechanism.model_copy(update={"beacon": self.spec.beacon or ""})

    @cached_property
    def score(self) -> Values:
        """Sum the score of each identity, before any policy."""
        shares, score = self.payments.shares, np.zeros(len(self.payments.identities))
        np.add.at(score, shares.identity, self.payments.scores.values[shares.cluster] * shares.share)
        return score

    @cached_property
    def error(self) -> Values:
        """Return the standard error of each payment, in minor units."""
        return standard_errors(self.payer, self.payments.scores)

    @cached_property
    def interval(self) -> tuple[list[int], list[int]]:
        """Return both ends of the payments' intervals, rounded outwards to minor units; none is below zero."""
        exact = np.array([float(e) for e in self.division.exact])
        width = half_width(len(self.payments.scores.by_group)) * self.error
        moved = moved_at_most(self.payer, self.payments.scores)
        high = exact + width
        if moved.any():  # by bounds, which may be beyond all that there is
            high = np.minimum(high + moved, self.spec.minor)
        low = np.maximum(np.floor(exact - width - moved), 0)
        return [int(v) for v in low], [int(v) for v in np.ceil(high)]


class Cents(NamedTuple):
    """Hold payments in minor units, the identities, and how payments depend on the scores."""

    names: list[str]
    division: Division
    payer: PayRule


def in_cents(
    payments: Payments,
    inputs: Inputs,
    spec: PayoutSpec,
    group: Codes,
    opening: dict[str, int],
    unpaid: frozenset[str],
) -> Cents:
    """Divide what the pipeline pays in minor units exactly; ``group`` is each identity's payee.

    What the units of the ``unpaid`` earn is divided among the others.
    """
    n, floor = len(inputs.identities), spec.negative == "zero"
    used = floored(payments) if floor else payments
    shares = used.shares
    whole = np.zeros(n, dtype=np.int64)
    step = grid_of(used.scores.values)
    np.add.at(whole, shares.identity, np.round(shares.amount / step).astype(np.int64))
    old = sorted(name for name, balance in opening.items() if balance)
    names = list(dict.fromkeys([*inputs.identities, *old]))
    forfeited = np.array([name in unpaid for name in inputs.identities])
    whole[forfeited] = 0
    is_unpaid = [name in unpaid for name in names]
    payee = np.concatenate([group, np.arange(n, len(names))])
    balances = [opening.get(name, 0) for name in names]
    worth = worth_of(spec.utility_function, labelled=inputs.labelled)
    discounted = spec.acquired_discount and inputs.acquired is not None
    nothing = _NOTHING_NEW if discounted else worth.nothing
    division = divide(
        spec.minor,
        [*whole.tolist(), *[0] * (len(names) - n)],
        payee.tolist(),
        [*identity_keys(inputs), *[b""] * (len(names) - n)],
        names,
        balances,
        is_unpaid,
        nothing
        + (f", as far as truncated scores say ({used.scores.method})" if used.scores.bias else ""),
    )
    opening_balances = np.array(balances, dtype=np.float64)
    payer = PayRule(
        shares, payee, n, spec.minor, floor, opening_balances, np.array(is_unpaid), forfeited
    )
    return Cents(names, division, payer)


def has_balances(spec: PayoutSpec, balances: Sequence[int]) -> bool:
    """Tell if balances are shown: if scores below zero are carried forward, or if there are any."""
    return spec.negative == "carry" if spec.worth.signed else any(balances)


def identity_keys(inputs: Inputs) -> list[bytes]:
    """Return the content key of each identity, which does not depend on its name."""
    keys = inputs.submission.keys
    order = np.lexsort((keys, inputs.owner))
    ends = np.cumsum(np.bincount(inputs.owner, minlength=len(inputs.identities)))
    return combined_keys(keys[order], ends).tolist()


_CLUSTERS, _UNITS, _MATCHES = 200, 40, 40


def drawn_clusters(results: Results) -> Codes:
    """Return the clusters whose owner was drawn at random, as another's unit in it has the same time."""
    submission, clusters = results.inputs.submission, results.payments.clustering
    rank, label = results.rank, clusters.label
    owner, times = results.inputs.owner, submission.times
    by_rank = np.lexsort((rank, label))
    first = by_rank[np.searchsorted(label[by_rank], label)]  # of the cluster that each unit is in
    drawn = (times == times[first]) & (rank > rank[first]) & (owner != owner[first])
    return np.unique(label[drawn])


def clusters_to_show(results: Results) -> tuple[list[Row], int]:
    """Describe the clusters of several units that matter most; return also how many are left out.

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
    """Describe clusters with their units (the one that stands for them first) and matches."""
    inputs, clusters = results.inputs, results.payments.clustering
    label, edges, scores = clusters.label, clusters.edges, results.payments.scores
    errors, rank = score_errors(results), results.rank
    share, represents = _claims(results)
    members, edges_of = _grouped(label, chosen), _grouped(label[edges.left], chosen)
    worth = results.divided.scores.values
    worth = results.spec.minor * (worth / worth.sum())  # before anything is carried forward
    rows = []
    for c in chosen.tolist():
        units = members[c][np.lexsort((rank[members[c]], ~represents[members[c]]))]
        strongest = edges_of[c][np.argsort(-edges.score[edges_of[c]], kind="stable")]
        names = {u: inputs.identities[inputs.owner[u]] for u in units.tolist()}
        shown = list(names)[:_UNITS]
        rows.append({
            "number": int(scores.number[c]),
            "identities": len(set(names.values())),
            "owners": _listed([name for u, name in names.items() if share[u] > 0]),
            "others": _listed([name for u, name in names.items() if not share[u]]),
            "worth": f"{results.spec.currency} {results.spec.money.text(round(float(worth[c])))}",
            "reasons": ", ".join(sorted(set(edges.reason[strongest].tolist()))),
            "score": f"{scores.values[c]:.2e}",
            "error": f"{errors[c]:.1e}",
            "find": " ".join(map(visible, [*dict.fromkeys(names.values()), *(inputs.ids[u] for u in shown)])),
            "units": [
                {
                    "unit": visible(inputs.ids[u]),
                    "identity": visible(names[u]),
                    "represents": bool(represents[u]),
                    "share": f"{share[u]:.0%}",
                }
                for u in shown
            ],
            "more_units": max(0, len(units) - _UNITS),
            "matches": [
                {
                    "left": visible(inputs.ids[edges.left[t]]),
                    "right": visible(inputs.ids[edges.right[t]]),
                    "reason": str(edges.reason[t]),
                    "score": f"{edges.score[t]:.4f}",
                }
                for t in strongest[:_MATCHES]
            ],
            "more_matches": max(0, len(strongest) - _MATCHES),
        })  # fmt: skip
    return rows


def _claims(results: Results) -> tuple[Values, NDArray[np.bool_]]:
    """Return the share that each unit has of its cluster, and which units represent theirs."""
    canonical, units = results.payments.canonical, np.arange(len(results.inputs.ids))
    share = np.zeros(len(units))
    np.add.at(share, canonical.claim_unit, canonical.claim_share)
    return share, np.isin(units, canonical.unit)


def _grouped(codes: Codes, chosen: Codes) -> dict[int, Codes]:
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], chosen)
    ends = np.searchsorted(codes[order], chosen, side="right")
    return {int(c): order[a:b] for c, a, b in zip(chosen, starts, ends, strict=True)}


def _listed(names: list[str]) -> str:
    return listed(map(visible, dict.fromkeys(names)), 3)


_ROWS = 8192


def write_tables(results: Results, folder: Path) -> None:
    """Write all tables of a run."""
    _write(folder / "evidence.parquet", evidence_table(results))
    _write(folder / "clusters.parquet", cluster_table(results))
    _write_canonical(results, folder / "canonical.parquet")
    _write(folder / "leaks.parquet", leak_table(results))
    if results.inputs.acquired is not None:
        _write(folder / KNOWN, known_table(results.known))
    payments = payment_table(results)
    _write(folder / "payments.parquet", payments)
    rows = [list(row.values()) for row in payments.to_pylist()]
    write_text(folder / "payments.csv", csv_text(payments.column_names, rows, _AMOUNTS))
    write_text(folder / QUARANTINE, quarantine_csv(results.inputs.bad))


_AMOUNTS = ("payment", "low", "high", "entitled", "balance", "without_evidence")


def payment_table(results: Results) -> pa.Table:
    """Tabulate one row per identity, the highest payment first, equal ones by name."""
    text, division, names = results.spec.money.text, results.division, results.names
    inputs, (low, high), n = results.inputs, results.interval, len(results.names)
    leaked = Counter(results.leaks.identity.tolist())
    set_aside = leaked + Counter(inputs.removed) + Counter(row.identity for row in inputs.bad)
    set_aside += Counter(row.identity for row in results.known)
    played = np.bincount(inputs.owner, minlength=n).tolist()
    holder = distinct_pairs(inputs.owner, results.payments.clustering.label)[0]
    n_scored = len(inputs.identities)  # the others only bring a balance
    payee = [*results.payees.group.tolist(), *range(n_scored, n)]
    first = {group: i for i, group in reversed(list(enumerate(payee)))}
    order = sorted(range(n), key=lambda i: (-division.paid[i], names[i]))
    amounts = {
        "low": low,
        "high": high,
        "entitled": division.entitled,
        "balance": division.balance,
        "without_evidence": results.without_evidence,
    }
    columns: dict[str, list[Any]] = {
        "identity": names,
        "payment": list(map(text, division.paid)),
        "currency": [results.spec.currency] * n,
        **{name: list(map(text, minor)) for name, minor in amounts.items()},
        "score": [*results.score.tolist(), *[0.0] * (n - n_scored)],
        "score_error": (results.error * results.score.sum() / results.spec.minor).tolist(),
        "units": [count + set_aside[name] for count, name in zip(played, names, strict=True)],
        "leaked": [leaked[name] for name in names],
        "clusters": np.bincount(holder, minlength=n).tolist(),
        "paid_together_with": ["" if first[g] == i else names[first[g]] for i, g in enumerate(payee)],
    }
    return pa.table({name: [column[i] for i in order] for name, column in columns.items()})


def leak_table(results: Results) -> pa.Table:
    """Tabulate leaked units: their owner, the validation row that each matches, by what, and the similarity."""
    leaks = results.leaks
    text = {"unit": leaks.id, "identity": leaks.identity, "by": leaks.by}
    columns = {name: pa.array(cells.tolist(), pa.string()) for name, cells in text.items()}
    columns |= {"validation_row": leaks.row, "likeness": leaks.likeness}
    names = ["unit", "identity", "validation_row", "by", "likeness"]
    return pa.table({name: columns[name] for name in names})


def leaked_units(results: Results) -> list[Row]:
    """List leaked units as the page shows them."""
    return [
        {
            "unit": visible(unit),
            "identity": visible(owner),
            "row": row,
            "by": by,
            "likeness": f"{like:.3f}",
        }
        for unit, owner, row, by, like in results.leaks.listed()
    ]


_EVIDENCE = pa.schema([
    *((name, pa.string()) for name in ("kind", "left", "right", "reason")), ("score", pa.float64()),
    ("identity_left", pa.string()), ("identity_right", pa.string()), ("cluster", pa.int64()), ("claim", pa.int64()),
    ("value", pa.string()),
])  # fmt: skip


def evidence_table(results: Results) -> pa.Table:
    """Tabulate matches between units after overrides, those between identities, and claims without effect.

    A claim is as many rows as it has identities besides the first: ``claim`` is its number, ``value`` what is shared.
    """
    inputs, clusters, payees = results.inputs, results.payments.clustering, results.payees
    owner = [inputs.identities[c] for c in inputs.owner]

    def part(kind: str, edges: Edges, names: list[str], owner: list[str], **more: list[Any]) -> pa.Table:
        left, right, none = edges.left.tolist(), edges.right.tolist(), [None] * len(edges)
        columns = {
            "kind": [kind] * len(edges), "left": [names[i] for i in left], "right": [names[i] for i in right],
            "reason": edges.reason.tolist(), "score": edges.score, "identity_left": [owner[i] for i in left],
            "identity_right": [owner[i] for i in right], "cluster": none, "claim": none, "value": none,
        }  # fmt: skip
        return pa.table(columns | more, _EVIDENCE)

    number = results.payments.scores.number[clusters.label[clusters.edges.left]].tolist()
    claims = [(i, claim.value) for i, claim in enumerate(payees.claims) for _ in claim.identities[1:]]
    claim, value = [i for i, _ in claims], [shared for _, shared in claims]
    names = inputs.identities
    return pa.concat_tables([
        part("unit", clusters.edges, inputs.ids, owner, cluster=number),
        part("identity", payees.edges, names, names),
        part("claim", payees.claimed, names, names, claim=claim, value=value),
    ])  # fmt: skip


def cluster_table(results: Results) -> pa.Table:
    """Tabulate units: cluster, whether it stands for it, its share of the cluster's score, and what it earns.

    Spot checks are drawn from this table alone. ``row`` is the place of a unit among those in the game, ``came`` in the
    order of seniority, ``moment`` in that of times (equal where times are); ``drawn`` tells that random tie-breaking
    decided who owns the cluster. ``received`` is the time in the intake log, in seconds since 1970, of ``entry``.
    """
    inputs, (share, represents) = results.inputs, _claims(results)
    label = results.payments.clustering.label
    public = results.payments.scores.number[label]
    moment = np.unique(inputs.submission.times, return_inverse=True)[1]
    order = np.lexsort((results.rank, public))
    size = np.bincount(label)[label]
    by_unit, received = unit_amounts(results.divided), inputs.received
    columns = {
        "units_in_cluster": size,
        "represents": represents,
        "share": share,
        "score": results.payments.scores.values[label],
        "score_error": score_errors(results)[label],
        "amount": np.bincount(by_unit.row, weights=by_unit.amount, minlength=len(inputs.ids)),
        "row": np.arange(len(label)),
        "came": results.rank,
        "moment": moment,
        "drawn": np.isin(label, drawn_clusters(results)),
        **({} if received is None else received.columns()),
    }
    names = {
        "cluster": public[order],
        "unit": [inputs.ids[i] for i in order],
        "identity": [inputs.identities[inputs.owner[i]] for i in order],
    }
    return pa.table(names | {name: column[order] for name, column in columns.items()})


def score_errors(results: Results) -> np.ndarray:
    """Return the standard error of each cluster's score over groups of validation rows, and of sampling."""
    scores, groups = results.payments.scores, len(results.payments.scores.by_group)
    variance = scores.standard_errors**2
    if groups > 1:
        variance = variance + scores.by_group.var(axis=0, ddof=1) / groups
    return np.asarray(np.sqrt(variance))


def _write_canonical(results: Results, path: Path) -> None:
    """Write what to train on, in content order, a few thousand rows at a time; with labels where they count."""
    inputs, canonical = results.inputs, results.payments.canonical
    features, label, weight = canonical_training_set(canonical)
    number = results.payments.scores.number[canonical.cluster]
    order = np.lexsort((canonical.keys, number))
    dtype = np.float32 if fits(features, np.float32) else np.float64
    progress = compute().progress

    def batch(rows: Codes) -> pa.Table:
        flat = pa.array(features[rows].astype(dtype, copy=False).ravel(), from_pandas=False)
        labels = {"label": pa.array(label[rows])} if inputs.labelled else {}
        return pa.table({
            "unit": pa.array([inputs.ids[i] for i in canonical.unit[rows]], pa.string()),
            "cluster": number[rows],
            **labels,
            "weight": weight[rows],
            "features": pa.FixedSizeListArray.from_arrays(flat, features.shape[1]),
        })  # fmt: skip

    with replacing(path) as part, pq.ParquetWriter(part, batch(order[:0]).schema) as out:
        for at in range(0, len(order), _ROWS):
            out.write_table(batch(order[at : at + _ROWS]))
            progress.count(min(at + _ROWS, len(order)), len(order))


def _write(path: Path, table: pa.Table) -> None:
    with replacing(path) as part:
        pq.write_table(table, part)


def write_manifest(
    results: Results,
    run: str,
    opening: dict[str, int],
    in_force: list[Override],
    settles: SettledDraft | None,
    folder: Path,
) -> None:
    """Write the manifest of a finished run; ``opening`` and ``in_force`` are what the ledger brought."""
    spec, division, inputs, scores = (
        results.spec,
        results.division,
        results.inputs,
        results.payments.scores,
    )
    clusters, received = results.payments.clustering, inputs.received
    earlier = [] if inputs.acquired is None else [run.plain for run in inputs.acquired.runs]
    acquired: dict[str, Any] = {}
    if earlier:
        acquired = {"acquired": earlier, "known": len(results.known), "given": priced_given(results)}
    write_json(
        folder / NAME,
        {
            "format": FORMAT,
            "run": run,
            "spec": spec.model_dump(mode="json"),
            "inputs": inputs.files,
            "mechanism": results.named_mechanism.model_dump(mode="json"),
            "utility": asdict(spec.utility) | {"description": results.utility.description},
            "paid_for": {name: getattr(results.worth, name) for name in ("plain", "divided")},
            "labelled": inputs.labelled,
            "interval": {"level": LEVEL, "groups": len(scores.by_group)},
            "evidence": {"used": str(results.mechanism.evidence), "why": results.threshold.why},
            "overrides": [o.model_dump(mode="json") for o in results.overrides],
            "opening_balances": opening,
            "standing_overrides": [o.model_dump(mode="json") for o in in_force],
            "settles": None if settles is None else settles.model_dump(mode="json"),
            **({} if received is None else {"intake": asdict(received.upto)}),
            "versions": {
                "datamarket-gym": __version__,
                **{name: version(name) for name in ("numpy", "scipy", "pyarrow", "jinja2")},
            },
            "seed": spec.seed,
            "amount": spec.minor,
            "currency": spec.currency,
            "paid": sum(division.paid),
            "balances": sum(division.balance),
            "identities": len(results.names),
            "units": len(inputs.ids) + len(inputs.aside),
            **acquired,
            "contents": Contents.of(inputs.submission.features).model_dump(),
            "removed": sum(inputs.removed.values()),
            "leaked": len(results.leaks),
            "quarantined": len(inputs.bad),
            "clusters": clusters.n_clusters,
            "ties": len(clusters.edges),
            "scores": scores.method,
            "outputs": {
                name: {"sha256": sha256(folder / name), "bytes": (folder / name).stat().st_size}
                for name in outputs_of(earlier)
            },
        },
    )
