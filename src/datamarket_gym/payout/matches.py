"""What matched what: clusters of several units, with their members and the ties that made them."""

from __future__ import annotations

import numpy as np

from datamarket_gym.core.arrays import Codes
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.outputs import score_errors
from datamarket_gym.payout.report.html import Row
from datamarket_gym.payout.results import Results

_CLUSTERS, _UNITS, _TIES = 200, 40, 40


def clusters_to_show(results: Results) -> tuple[list[Row], int]:
    """The clusters of several units that matter most, and how many are left out.

    First those of several identities, and among them the largest: there money moved.
    """
    label, owner = results.payments.clusters.label, results.inputs.owner
    sizes = np.bincount(label)
    pairs = np.unique(np.stack([label, owner]), axis=1)
    holders = np.bincount(pairs[0], minlength=len(sizes))
    several = np.flatnonzero(sizes > 1)
    order = np.lexsort((results.payments.scores.number[several], -sizes[several], holders[several] < 2))
    chosen = several[order][:_CLUSTERS]
    return describe(results, chosen), len(several) - len(chosen)


def describe(results: Results, chosen: Codes) -> list[Row]:
    """Clusters with their units (the one that stands for them first) and ties."""
    clusters, canonical = results.payments.clusters, results.payments.canonical
    label, edges = clusters.label, clusters.edges
    errors = score_errors(results)
    share = np.zeros(len(label))
    np.add.at(share, canonical.claim_unit, canonical.claim_share)
    represents = np.zeros(len(label), dtype=bool)
    represents[canonical.unit] = True
    members = _grouped(label, chosen)
    ties = _grouped(label[edges.left], chosen)
    return [
        _row(results, int(c), members[int(c)], ties[int(c)], share, represents, float(errors[c]))
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
    error: float,
) -> Row:
    inputs, edges = results.inputs, results.payments.clusters.edges
    by_seniority = np.lexsort(
        (inputs.submission.keys[units], inputs.submission.times[units], ~represents[units])
    )
    units = units[by_seniority]
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
    distinct = list(dict.fromkeys(names))
    more = f" and {len(distinct) - 3} more" if len(distinct) > 3 else ""
    return ", ".join(visible(name, 32) for name in distinct[:3]) + more


def _worth(results: Results, cluster: int) -> str:
    """What the cluster's score comes to, before anything is carried."""
    used = results.payments.scores.values
    if results.spec.negative == "zero":
        used = np.maximum(used, 0.0)
    money = results.spec.money
    return f"{results.spec.currency} {money.text(round(results.spec.minor * float(used[cluster] / used.sum())))}"
