"""Did the manipulation merge several of the provider's honest clusters? Then Theorem 3 is silent.

A manipulated cluster carries an honest cluster if a unit of it (the same id) lies there; where no unit
of an honest cluster was submitted again, the units that derive from it (the same source) carry it.
"""

from __future__ import annotations

import numpy as np

from datamarket_gym.guarantees.paid import Paid
from datamarket_gym.typing import Codes


def merged_clusters(honest: Paid, attacked: Paid, paying: Codes) -> Codes:
    """The manipulated clusters that carry more than one of the honest clusters ``paying``."""
    before, after = honest.profile, attacked.profile
    label, now = honest.payments.clusters.label, attacked.payments.clusters.label
    _, rows, again = np.intersect1d(before.submission.id, after.submission.id, return_indices=True)
    left, right = label[rows], now[again]
    lost = np.setdiff1d(paying, left)
    if len(lost):
        left, right = _add_descendants(honest, attacked, lost, left, right)
    of_provider = np.isin(left, paying)
    pairs = np.unique(np.stack([right[of_provider], left[of_provider]]), axis=1)
    clusters, counts = np.unique(pairs[0], return_counts=True)
    merged: Codes = clusters[counts > 1]
    return merged


def _add_descendants(
    honest: Paid, attacked: Paid, lost: Codes, left: Codes, right: Codes
) -> tuple[Codes, Codes]:
    before = honest.profile.truth.aligned(honest.profile.submission).source
    after = attacked.profile.truth.aligned(attacked.profile.submission).source
    names, code = np.unique(np.concatenate([before, after]), return_inverse=True)
    old, new = np.split(code, [len(before)])
    label = honest.payments.clusters.label
    of_lost = np.flatnonzero(np.isin(label, lost))
    home = np.full(len(names), -1)
    home[old[of_lost]] = label[of_lost]  # a source lies in one cluster, or in several of one content
    derived = np.flatnonzero(home[new] >= 0)
    return (
        np.concatenate([left, home[new[derived]]]),
        np.concatenate([right, attacked.payments.clusters.label[derived]]),
    )
