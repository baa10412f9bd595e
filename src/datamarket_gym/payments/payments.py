"""Payments: what each identity gets, part by part, so that every total can be explained."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from datamarket_gym.core.arrays import Values
from datamarket_gym.core.registry import create
from datamarket_gym.evidence.graph import Clusters
from datamarket_gym.games.semivalue import Estimate
from datamarket_gym.payments.apportion import exact_amounts
from datamarket_gym.payments.shares import Allocation, Provenance, Shares
from datamarket_gym.quotient.canonical import CanonicalUnits
from datamarket_gym.units.submission import Text


@dataclass(frozen=True, eq=False)
class Payments:
    """Amounts per identity, and the parts, shares and scores they are made of.

    ``scores`` holds one score per *cluster*; ``amount[i]`` belongs to ``shares.cluster[i]`` and
    ``shares.identity[i]``. Sums of amounts are exact (see `exact_amounts`): a total does not depend
    on how many identities it was collected under.
    """

    identities: Text
    scores: Estimate
    shares: Shares
    amount: Values
    clusters: Clusters
    canonical: CanonicalUnits
    grand_value: float
    seconds: float
    raw_total: float | None = None  # what the scores summed to before they were normalised

    @cached_property
    def totals(self) -> Values:
        """Amount per identity, in the order of `identities`."""
        totals = np.zeros(len(self.identities))
        np.add.at(totals, self.shares.identity, self.amount)
        return totals

    @cached_property
    def standard_errors(self) -> Values:
        """Standard error per identity, clusters taken as independent estimates."""
        n = len(self.identities)
        pairs, where = np.unique(self.shares.cluster * n + self.shares.identity, return_inverse=True)
        share = np.bincount(where, weights=self.shares.share)
        variance = (share * self.scores.standard_errors[pairs // n]) ** 2
        return np.sqrt(np.bincount(pairs % n, weights=variance, minlength=n))

    def as_dict(self) -> dict[str, float]:
        """Amount by identity."""
        return dict(zip(self.identities.tolist(), self.totals.tolist(), strict=True))

    def total(self, names: list[str]) -> float:
        """What several identities get together."""
        return float(self.totals[np.isin(self.identities, names)].sum())


@dataclass(frozen=True)
class Allocator:
    """The paper's ``Allocator.allocate(cluster_values, provenance_policy) -> payments``."""

    rule: str = "equal_submitted"

    def allocate(self, cluster_values: Values, provenance: Provenance) -> tuple[Shares, Values]:
        """Each cluster's score divided by the rule: the shares and, beside them, the amounts."""
        rule: Allocation = create("allocation", self.rule)
        shares = rule.shares(provenance)
        return shares, exact_amounts(cluster_values, shares.cluster, shares.share)
