"""The leakage decomposition of Theorem 3: allocation leakage A, escaped mass L, semivalue drift D.

H are the honest clusters that pay the provider (share a_h > 0). An admissible matching is a bijection
mu from selected attacker-containing manipulated clusters M onto H; the other manipulated clusters that
pay the attacker escaped, E. With s_k the attacker's share of manipulated cluster k,

    A = sum over M of |s_k - a_mu(k)| |phi_k'|,   L = sum over E of |phi_k'|,
    D = sum over M of |phi_k' - phi_mu(k)|.

The theorem holds for every such bijection, so the one that makes A + L + D smallest is taken: an
assignment problem. A cluster in which the attacker has units but no share pays it nothing and has no
term in the payment difference; that is what makes L vanish under quotient stability, as the paper says.

If the manipulation merged several of the provider's honest clusters, Theorem 3 is silent. A
manipulated cluster carries an honest cluster if a unit of it (the same id) lies there; where no unit
of an honest cluster was submitted again, the units that derive from it (the same source) carry it.

Externality: by how much a manipulation raises what genuine units earn, and how that is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from datamarket_gym.analysis.theorems.paid_profile import Paid, common_units
from datamarket_gym.display import Shown
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.mechanism.pipeline import Mechanism
from datamarket_gym.registry import Document
from datamarket_gym.utilities.base import LEARNERS
from datamarket_gym.utilities.count import Count
from datamarket_gym.utilities.coverage import Coverage, CoverageTruncated
from datamarket_gym.utilities.oracle import Utility


class NoMatchingError(DataMarketError):
    """There is no admissible matching, so Theorem 3 says nothing; the message says why."""


@dataclass(frozen=True, eq=False)
class Comparison(Shown):
    """Compare one provider's clusters, honest (K) and manipulated (K').

    Parameters
    ----------
    honest_scores, honest_share
        Scores of the honest clusters, and the provider's share a_h of each.
    scores, share
        Scores of the manipulated clusters, and the provider's share s_k of each.
    containing
        Which manipulated clusters contain a unit of the attacker's identities.
    """

    honest_scores: Values
    honest_share: Values
    scores: Values
    share: Values
    containing: NDArray[np.bool_]

    @property
    def paying(self) -> Codes:
        return np.flatnonzero(self.honest_share > 0)

    @property
    def candidates(self) -> Codes:
        """Return manipulated clusters that may be matched: the attacker has a unit or a share in them."""
        return np.flatnonzero(self.containing | (self.share > 0))


@dataclass(frozen=True, eq=False)
class Leakage(Shown):
    """A, L and D under a matching ``matched[j]`` -> ``partner[j]``, and what they are made of."""

    matched: Codes  # M, manipulated clusters
    partner: Codes  # H, honest clusters
    escaped: Codes  # E, manipulated clusters
    allocation: float  # A
    escape: float  # L
    drift: float  # D
    share_gap: float  # sum over M of |s_k - a_mu(k)|: how A moves with errors of the scores

    @property
    def total(self) -> float:
        return self.allocation + self.escape + self.drift

    def error_of_terms(self, eta: float) -> float:
        """Bound how far A + L + D of scores that are off by up to eta can be below that of the true ones."""
        return (self.share_gap + len(self.escaped) + 2 * len(self.matched)) * eta


def best_matching(sides: Comparison) -> tuple[Codes, Codes]:
    """Find the admissible matching with the smallest A + L + D, or raise NoMatchingError."""
    from scipy.optimize import linear_sum_assignment

    paying, candidates = sides.paying, sides.candidates
    if len(candidates) < len(paying):
        raise NoMatchingError(
            f"{len(paying)} honest clusters pay the provider but only {len(candidates)} manipulated "
            "clusters contain it, so they cannot be matched one to one: its clusters were merged or "
            "withdrawn, which Theorem 3 leaves out"
        )
    if not len(paying):
        return paying, paying
    new, old = sides.scores[candidates], sides.honest_scores[paying]
    leak = np.abs(sides.share[candidates, None] - sides.honest_share[paying]) * np.abs(new)[:, None]
    saved = np.where(sides.share[candidates] > 0, np.abs(new), 0.0)  # it does not escape
    cost = leak + np.abs(new[:, None] - old) - saved[:, None]
    rows, columns = linear_sum_assignment(cost)
    return candidates[rows], paying[columns]


def decompose(sides: Comparison, matching: tuple[Codes, Codes] | None = None) -> Leakage:
    """Decompose the leakage of a manipulation into A, L and D under a matching of clusters.

    Parameters
    ----------
    sides
        The provider's clusters, honest and manipulated.
    matching
        Manipulated clusters and their honest partners; the matching with the smallest sum if left out.

    Returns
    -------
    Leakage
        The three terms.
    """
    matched, partner = best_matching(sides) if matching is None else _checked(sides, matching)
    escaped = np.setdiff1d(np.flatnonzero(sides.share > 0), matched)
    new, old = sides.scores[matched], sides.honest_scores[partner]
    gap = np.abs(sides.share[matched] - sides.honest_share[partner])
    return Leakage(
        matched,
        partner,
        escaped,
        allocation=float((gap * np.abs(new)).sum()),
        escape=float(np.abs(sides.scores[escaped]).sum()),
        drift=float(np.abs(new - old).sum()),
        share_gap=float(gap.sum()),
    )


def _checked(sides: Comparison, matching: tuple[Codes, Codes]) -> tuple[Codes, Codes]:
    matched, partner = (np.asarray(part, dtype=np.int64) for part in matching)
    if len(np.unique(matched)) < len(matched):
        raise NoMatchingError("a manipulated cluster is matched twice; a matching is a bijection")
    if not np.array_equal(np.sort(partner), sides.paying):
        raise NoMatchingError(
            "the matching is not onto the honest clusters that pay the provider, each used exactly once"
        )
    if not np.isin(matched, sides.candidates).all():
        raise NoMatchingError("a manipulated cluster is matched in which the attacker has no unit")
    return matched, partner


def merged_clusters(honest: Paid, attacked: Paid, paying: Codes) -> Codes:
    left, right = common_units(honest, attacked)
    lost = np.setdiff1d(paying, left)
    if len(lost):
        left, right = _add_descendants(honest, attacked, lost, left, right)
    of_provider = np.isin(left, paying)
    pairs = np.unique(np.stack([right[of_provider], left[of_provider]]), axis=1)
    clusters, counts = np.unique(pairs[0], return_counts=True)
    return clusters[counts > 1]


def _add_descendants(
    honest: Paid, attacked: Paid, lost: Codes, left: Codes, right: Codes
) -> tuple[Codes, Codes]:
    before = honest.profile.truth.aligned(honest.profile.submission).source
    after = attacked.profile.truth.aligned(attacked.profile.submission).source
    names, code = np.unique(np.concatenate([before, after]), return_inverse=True)
    old, new = np.split(code, [len(before)])
    label = honest.payments.clustering.label
    of_lost = np.flatnonzero(np.isin(label, lost))
    home = np.full(len(names), -1)
    home[old[of_lost]] = label[of_lost]  # a source lies in one cluster, or in several of one content
    derived = np.flatnonzero(home[new] >= 0)
    return (
        np.concatenate([left, home[new[derived]]]),
        np.concatenate([right, attacked.payments.clustering.label[derived]]),
    )


class Externality(Document):
    """Bound by how much a manipulation raises what a payee's genuine units earn.

    Parameters
    ----------
    known, amount
        ``proved`` (0, by the theorems of coverage, or where units are counted), ``measured`` (of one manipulation),
        ``assumed``, or ``unknown``; and the bound, in money, None where it is unknown.
    """

    known: Literal["proved", "measured", "assumed", "unknown"] = "unknown"
    amount: float | None = None

    @classmethod
    def by(cls, mechanism: Mechanism, utility: Utility) -> Externality:
        """State what the theorems prove: 0 where units play for Shapley values of coverage and the first owns.

        And where distinct units are counted: no unit makes another one count for more.
        """
        learner, m = LEARNERS.create(utility.learner), mechanism
        covered = isinstance(learner, Coverage | Count) and not isinstance(learner, CoverageTruncated)
        exact = str(m.estimator) in ("auto", "exact")  # auto: coverage has a closed form
        plays = (m.granularity, str(m.representative), str(m.semivalue), str(m.allocation))
        if covered and exact and plays == ("unit", "capped", "shapley", "count_canonical"):
            return cls(known="proved", amount=0.0)
        return cls()

    @model_validator(mode="after")
    def _is_what_it_says(self) -> Externality:
        if (self.amount is None) != (self.known == "unknown"):
            raise ValueError("an externality has an amount where it is known, and none where it is not")
        if self.amount is not None and not 0.0 <= self.amount < math.inf:
            raise ValueError(f"an externality of {self.amount:g}: it is an amount of at least 0")
        if self.known == "proved" and self.amount != 0.0:
            raise ValueError(
                f"an externality of {self.amount:g} is claimed as proved: what is proved is 0"
            )
        return self
