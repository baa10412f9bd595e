"""What each submitted unit earns: the amounts of a payment, down from clusters and names to units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from datamarket_gym.core.arrays import Codes, Values
from datamarket_gym.core.errors import SubmissionError

if TYPE_CHECKING:
    from datamarket_gym.pipeline.payments import Payments


@dataclass(frozen=True, eq=False)
class UnitAmounts:
    """``amount[i]`` for the unit ``row[i]`` of the submission that played, to identity number ``identity[i]``.

    Units that earn nothing because others stand for them are left out.
    """

    row: Codes
    identity: Codes
    amount: Values


def unit_amounts(payments: Payments) -> UnitAmounts:
    """The amounts by unit: what a name gets of a cluster goes to its units that stand for the cluster, by their claims.

    Where none of its units does, to all of its units in the cluster alike. A name's amounts sum to its total, up to
    rounding.
    """
    submission = payments.clustering.submission
    if submission is None:
        raise SubmissionError("these payments do not say which submission they are of; pay it again")
    n = len(payments.identities)
    identity = np.searchsorted(payments.identities, submission.identities)[submission.identity_codes]
    pair = payments.clustering.label * n + identity
    canonical = payments.canonical
    claim = np.bincount(canonical.claim_unit, weights=canonical.claim_share, minlength=len(submission))
    pairs, place = np.unique(pair, return_inverse=True)
    unclaimed = np.bincount(place, weights=claim) <= 0.0
    claim = np.where(unclaimed[place], 1.0, claim)
    whole = np.bincount(place, weights=claim)
    shares = payments.shares
    at = np.searchsorted(pairs, shares.cluster * n + shares.identity)
    paid = np.zeros(len(pairs))
    np.add.at(paid, at, payments.amount)
    told = np.isin(np.arange(len(pairs)), at)[place] & (claim > 0.0)
    row = np.flatnonzero(told)
    return UnitAmounts(row, identity[row], paid[place[row]] * claim[row] / whole[place[row]])
