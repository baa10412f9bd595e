"""The two conditions of exact false-name-proofness (Theorem 2), checked on a concrete run.

Quotient-stable: (a) the clusters are unchanged up to relabelling and (b) so is each representative as
a multiset of training units. Checked as: there is a bijection of clusters under which representatives
have equal content, and every unit that is in both profiles lies in corresponding clusters. The
quotient games are then the same game.
Neutral: in *every* cluster the provider's identities together have the share that the provider had before.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from datamarket_gym.analysis.theorems.paid_profile import Paid, common_units
from datamarket_gym.display import Shown
from datamarket_gym.execution.arrays import Codes, Keys
from datamarket_gym.mechanism.quotient_game import cluster_keys

SHARE_TOLERANCE = 1e-12
"""Shares are ratios of small whole numbers: equal ones differ by rounding only."""


@dataclass(frozen=True, eq=False)
class Stability(Shown):
    """``pairing[k]`` is the honest cluster of manipulated cluster k; None and a reason where unstable."""

    pairing: Codes | None
    reason: str = ""

    @property
    def stable(self) -> bool:
        return self.pairing is not None


def quotient_stability(honest: Paid, attacked: Paid) -> Stability:
    """Check that the manipulation leaves clusters and representatives unchanged, and if not, say why not."""
    before = cluster_keys(honest.payments.canonical)
    after = cluster_keys(attacked.payments.canonical)
    gone = Counter(before.tolist()) - Counter(after.tolist())
    new = Counter(after.tolist()) - Counter(before.tolist())
    if gone or new:
        return Stability(
            None,
            f"{new.total()} of {attacked.n_clusters} manipulated clusters have a representative that no honest "
            f"cluster has, and {gone.total()} of {honest.n_clusters} honest representatives are gone",
        )
    then, now = common_units(honest, attacked)
    pairing = _pair_by_content(before, after, then, now)
    if moved := int((pairing[now] != then).sum()):
        why = f"{moved} units that are in both profiles lie in clusters that do not correspond"
        return Stability(None, why)
    return Stability(pairing)


def _pair_by_content(before: Keys, after: Keys, then: Codes, now: Codes) -> Codes:
    """Pair manipulated and honest clusters of equal content; among equals, those that share most units."""
    from scipy.optimize import linear_sum_assignment

    old, new = np.argsort(before, kind="stable"), np.argsort(after, kind="stable")
    pairing = np.empty(len(after), dtype=np.int64)
    pairing[new] = old
    starts = np.flatnonzero(np.r_[True, before[old][1:] != before[old][:-1]])
    sizes = np.diff(np.r_[starts, len(old)])
    for start, size in zip(starts[sizes > 1], sizes[sizes > 1], strict=True):
        twins_old, twins_new = old[start : start + size], new[start : start + size]
        here = np.isin(then, twins_old) & np.isin(now, twins_new)
        shared = np.zeros((size, size))
        rank_old, rank_new = (np.argsort(twins) for twins in (twins_old, twins_new))
        at_old = rank_old[np.searchsorted(twins_old, then[here], sorter=rank_old)]
        at_new = rank_new[np.searchsorted(twins_new, now[here], sorter=rank_new)]
        np.add.at(shared, (at_new, at_old), 1.0)
        rows, columns = linear_sum_assignment(shared, maximize=True)
        pairing[twins_new[rows]] = twins_old[columns]
    return pairing
