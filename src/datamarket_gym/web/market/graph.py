"""The evidence graph for the page: the attacked market's units, what ties them and why."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Features, Values
from datamarket_gym.evidence.forest import spanning
from datamarket_gym.evidence.graph import Edges
from datamarket_gym.pipeline.payments import Payments
from datamarket_gym.units.truth import SubmittedProfile, genuine

MOST = 3000
"""Ties that are shown one by one."""


def graph_of(profile: SubmittedProfile, payments: Payments, honest: SubmittedProfile) -> dict[str, Any]:
    """Units in columns, ties between their places, and where each lies in the plane."""
    submission, truth = profile.submission, profile.truth.aligned(profile.submission)
    n, playing = len(submission), payments.leaks.others(len(submission))
    providers = list(dict.fromkeys(sorted(truth.controller.values())))
    cluster: list[int | None] = [None] * n
    for row, number in zip(playing.tolist(), payments.clustering.label.tolist(), strict=True):
        cluster[row] = number
    canonical = np.zeros(n, dtype=bool)
    canonical[playing[payments.canonical.claim_unit]] = True
    place = {str(unit): row for row, unit in enumerate(submission.id)}
    source = [
        None if str(of) == str(unit) else str(of)
        for of, unit in zip(truth.source, submission.id, strict=True)
    ]
    ties = payments.clustering.edges
    shown, note = _shown(ties)
    reasons, reason = np.unique(shown.reason, return_inverse=True)
    at = _plane(submission.features)
    return {
        "identities": submission.identities.tolist(),
        "providers": providers,
        "units": {
            "id": submission.id.tolist(),
            "identity": submission.identity_codes.tolist(),
            "owner": [providers.index(str(owner)) for owner in truth.owner],
            "cluster": cluster,
            "canonical": canonical.tolist(),
            "source": source,
            "copy_of": [None if of is None else place.get(of) for of in source],
            "genuine": genuine(profile, honest).tolist(),
            "x": at[:, 0].tolist(),
            "y": at[:, 1].tolist(),
        },
        "edges": {
            "left": playing[shown.left].tolist(),
            "right": playing[shown.right].tolist(),
            "reason": reason.tolist(),
            "score": [round(float(score), 6) for score in shown.score],
        },
        "reasons": [
            {"name": str(name), "edges": int((ties.reason == name).sum())} for name in reasons.tolist()
        ],
        "edges_in_all": len(ties),
        "clusters": payments.clustering.n_clusters,
        "note": note,
    }


def _shown(ties: Edges) -> tuple[Edges, str]:
    """All ties, or where they are many those that hold each cluster together; and words that say so."""
    if len(ties) <= MOST:
        return ties, ""
    first = _once(ties)
    held = ties.where(first)
    kept = held.where(spanning(held.left, held.right, held.score))
    return (
        kept,
        f"{len(ties):,} ties; shown are the {len(kept):,} strongest that hold the clusters together",
    )


def _once(ties: Edges) -> NDArray[np.int64]:
    """Of each pair of units the place of its strongest tie."""
    order = np.lexsort((-ties.score, ties.right, ties.left))
    left, right = ties.left[order], ties.right[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (left[1:] != left[:-1]) | (right[1:] != right[:-1])
    return order[new]


def _plane(features: Features) -> Values:
    """The units along the two directions in which their features differ most, within [-1, 1]."""
    rows = np.asarray(features, dtype=np.float64)
    rows = rows - rows.mean(axis=0)
    spread, directions = np.linalg.eigh(rows.T @ rows)
    chosen = directions[:, np.argsort(-spread)[:2]]
    # A direction has no sign of its own: its largest part is taken to be positive.
    chosen = chosen * np.sign(chosen[np.abs(chosen).argmax(axis=0), np.arange(chosen.shape[1])])
    at = np.zeros((len(rows), 2))
    at[:, : chosen.shape[1]] = rows @ chosen
    most = np.abs(at).max()
    return np.round(at / most, 4) if most > 0 else at
