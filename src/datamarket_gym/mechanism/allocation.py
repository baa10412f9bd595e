"""Stage 4, allocate: which identity gets which share of a cluster's score, and the payments that makes.

Amounts lie on a grid on which sums are exact; whole amounts are divided by largest remainders.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.ground_truth import GroundTruth
from datamarket_gym.data.submission import Submission, Text
from datamarket_gym.display import Described, Screen, Shown, counted
from datamarket_gym.errors import InputTypeError, OracleRequiredError, ParameterError
from datamarket_gym.evidence.graph import AcquiredMatches, Clusters
from datamarket_gym.evidence.leak_check import Leaks
from datamarket_gym.evidence.threshold import Threshold
from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.mechanism.quotient_game import ClusterValues, Scores
from datamarket_gym.mechanism.representatives import CanonicalUnits, place_within
from datamarket_gym.plots import plot_intervals
from datamarket_gym.registry import Component, Kind, OneOf, register
from datamarket_gym.result_table import ResultTable, Tabular

if TYPE_CHECKING:
    import pyarrow as pa

_BITS = 48  # of the 53 a float has; the rest is headroom for the products below
_LEAST = 2.0**-1074  # the step between the smallest floats: scores near zero lie on it already


def apportion(whole: NDArray[np.int64], group: Codes, share: Values) -> NDArray[np.int64]:
    """Divide ``whole[g]`` by the shares of group g into whole parts that sum to it, by largest remainders.

    Equal remainders are served in the order of the shares.
    """
    exact = share * whole[group]
    parts = np.floor(exact).astype(np.int64)
    left = whole - np.bincount(group, weights=parts, minlength=len(whole)).astype(np.int64)
    order = np.lexsort((np.arange(len(group)), parts - exact, group))
    parts[order[place_within(group[order]) < left[group[order]]]] += 1
    return parts


def largest_remainder(amount: int, exact: Sequence[Fraction], order: Sequence[int]) -> list[int]:
    """Divide an amount into whole parts that sum to it, each the floor of its exact part or one more."""
    parts = [math.floor(part) for part in exact]
    by_remainder = sorted(order, key=lambda i: parts[i] - exact[i])  # equal ones keep the order
    for i in by_remainder[: amount - sum(parts)]:
        parts[i] += 1
    return parts


def by_content(keys: Sequence[bytes], names: Sequence[str]) -> list[int]:
    """Order those with equal remainders by content key, then by a random draw keyed by all content."""
    everything = hashlib.sha256(b"".join(sorted(keys))).digest()
    draw = [hashlib.sha256(everything + name.encode()).digest() for name in names]
    return sorted(range(len(keys)), key=lambda i: (keys[i], draw[i]))


def exact_amounts(scores: Values, group: Codes, share: Values) -> Values:
    """Divide each group's score by the shares, on a grid on which every sum is exact.

    With T a power of two above sum |score|, multiples of T / 2^48 add without rounding in any order: a cluster's parts
    add up to its score, and a provider's total does not depend on the number of names it was collected under. A score
    moves by at most T / 2^49.
    """
    grid = grid_of(scores)
    whole = np.round(scores / grid).astype(np.int64)
    return apportion(whole, group, share).astype(np.float64) * grid


def grid_of(scores: Values) -> float:
    """Compute the step T / 2^48 of the grid on which these scores are divided."""
    # Sorted, so that the grid is the same whatever the order of clusters.
    total = float(np.sort(np.abs(scores)).sum())
    return max(float(2.0 ** (float(np.frexp(total)[1]) - _BITS)), _LEAST)


@dataclass(frozen=True, eq=False)
class Shares(Shown):
    """Share ``share[i]`` of cluster ``cluster[i]`` for identity number ``identity[i]``.

    Every cluster's shares are positive and sum to one. Rules that count units give one entry per unit, in order of
    content, so that rounding falls on units and not on names.

    Parameters
    ----------
    cluster, identity, share
        Of each entry.
    """

    cluster: Codes
    identity: Codes
    share: Values


@dataclass(frozen=True, eq=False)
class Amounts(Shares):
    """Shares in order of content (of clusters, then of units), and what each comes to (`exact_amounts`)."""

    amount: Values


@dataclass(frozen=True, eq=False)
class Provenance(Shown):
    """Hold what an allocation rule may see.

    Parameters
    ----------
    submission, clusters, canonical
        The units, their clusters, and the rows that stand for them.
    truth
        The ground truth, for rules that declare it.
    """

    submission: Submission
    clusters: Clusters
    canonical: CanonicalUnits
    truth: GroundTruth | None = None


class Allocation(Component, ABC):
    """Plug point ``allocation``: a frozen dataclass with the rule that divides a cluster's score."""

    needs_oracle: ClassVar[bool] = False

    @abstractmethod
    def shares(self, provenance: Provenance) -> Shares:
        """Return the shares of all clusters."""


ALLOCATIONS: Kind[Allocation] = Kind("allocation", Allocation)


def allocate(
    clusters: Clusters,
    canonical: CanonicalUnits,
    scores: Scores,
    allocation: str | Allocation = "equal_submitted",
    truth: GroundTruth | None = None,
) -> Amounts:
    """Divide every cluster's score among identities by an allocation.

    Parameters
    ----------
    clusters, canonical, scores
        The records of the stages before: clusters, the rows that stand for them, and their scores.
    allocation
        The rule, or its written form.
    truth
        The ground truth, shown only to a rule that declares it.

    Returns
    -------
    Amounts
    """
    rule = ALLOCATIONS.create(allocation)
    if rule.needs_oracle and truth is None:
        raise OracleRequiredError(
            f"allocation {str(rule)!r} asks an oracle, but there is no ground truth here; "
            "use count_canonical, or pass oracle=profile.truth"
        )
    shown = truth if rule.needs_oracle else None
    shares = rule.shares(Provenance(clusters.units, clusters, canonical, shown))
    amount = exact_amounts(scores.values, shares.cluster, shares.share)
    # In order of content: sums of floats then have the same bits in whatever order rows came.
    order = np.argsort(scores.number[shares.cluster], kind="stable")
    return Amounts(shares.cluster[order], shares.identity[order], shares.share[order], amount[order])


@register("allocation", "equal_submitted")
@dataclass(frozen=True)
class EqualSubmitted(Allocation):
    """Share a cluster equally among all identities with a unit in it."""

    title = "equal shares"

    def shares(self, provenance: Provenance) -> Shares:
        n = len(provenance.submission.identities)
        pairs = np.unique(provenance.clusters.label * n + provenance.submission.identity_codes)
        return _normalised(pairs // n, pairs % n, np.ones(len(pairs)))


@register("allocation", "count_raw")
@dataclass(frozen=True)
class CountRaw(Allocation):
    """Share a cluster by the units submitted, copies included."""

    title = "by units submitted"

    def shares(self, provenance: Provenance) -> Shares:
        cluster, order = provenance.clusters.label, _units_by_content(provenance)
        identity = provenance.submission.identity_codes[order]
        return _normalised(cluster[order], identity, np.ones(len(order)))


@register("allocation", "count_canonical")
@dataclass(frozen=True)
class CountCanonical(Allocation):
    """Share a cluster by the units that were submitted first: copies earn nothing."""

    title = "by canonical units owned"

    def shares(self, provenance: Provenance) -> Shares:
        canonical, order = provenance.canonical, _claims_by_content(provenance)
        return _normalised(
            canonical.cluster[canonical.claim_row[order]],
            provenance.submission.identity_codes[canonical.claim_unit[order]],
            canonical.claim_share[order],
        )


@register("allocation", "latent_share")
@dataclass(frozen=True)
class LatentShare(Allocation):
    """Share a cluster by the units that each provider truly owns in it.

    ``count="raw"``: all submitted units, copies included, a_{j,k} ~ |{u in C_k: latent(u) = j}| as the paper prints it.
    ``count="canonical"``: canonical units, so that copies bring nothing. A provider's part goes to the identities it
    controls in the cluster, by their units, or to all its identities where it controls none there.
    """

    title = "by true owners (oracle)"

    count: Annotated[str, OneOf("raw", "canonical"), "which units count"] = "raw"
    needs_oracle: ClassVar[bool] = True

    def shares(self, provenance: Provenance) -> Shares:
        """Return counts, redirected from the submitting identity to those of the latent owner."""
        assert provenance.truth is not None  # `allocate` hands it over where it is needed
        submission, canonical = provenance.submission, provenance.canonical
        truth = provenance.truth.aligned(submission)
        controller = truth.controllers(submission)
        if self.count == "raw":
            unit = _units_by_content(provenance)
            cluster, counted = provenance.clusters.label[unit], np.ones(len(unit))
        else:
            order = _claims_by_content(provenance)
            unit, counted = canonical.claim_unit[order], canonical.claim_share[order]
            cluster = canonical.cluster[canonical.claim_row[order]]
        payees = [
            [identity] if controller[identity] == owner else np.flatnonzero(controller == owner)
            for identity, owner in zip(submission.identity_codes[unit], truth.owner[unit], strict=True)
        ]
        parts = np.array([len(p) for p in payees])
        return _normalised(
            np.repeat(cluster, parts),
            np.concatenate(payees).astype(np.int64),
            np.repeat(counted / parts, parts),
        )


def _units_by_content(provenance: Provenance) -> Codes:
    submission = provenance.submission
    return np.lexsort((submission.times, submission.keys, provenance.clusters.label))


def _claims_by_content(provenance: Provenance) -> Codes:
    canonical = provenance.canonical
    times = provenance.submission.times[canonical.claim_unit]
    keys, cluster = canonical.keys[canonical.claim_row], canonical.cluster[canonical.claim_row]
    return np.lexsort((times, keys, cluster))


def _normalised(cluster: Codes, identity: Codes, count: Values) -> Shares:
    total = np.bincount(cluster, weights=count)
    return Shares(cluster, identity, count / total[cluster])


CENTS = 100
_MOST = 10**13  # above this amounts in cents are not exact in floating point


@dataclass(frozen=True)
class Pot:
    """An amount of money in whole cents that is divided by value."""

    cents: int

    @classmethod
    def from_amount(cls, amount: Any) -> Pot:
        """Read an amount, or raise an error that says what is wrong with it."""
        number = int | float | Decimal | np.integer | np.floating
        if isinstance(amount, bool) or not isinstance(amount, number):
            raise InputTypeError("amount", amount, "a number above zero, the money to divide")
        cents = Decimal(str(amount)) * CENTS
        if not cents.is_finite() or not 0 < cents < _MOST:
            raise ParameterError(
                "amount", amount, f"choose a number above zero, below {_MOST // CENTS:,}"
            )
        if cents != cents.to_integral_value():
            raise ParameterError("amount", amount, "give at most two decimals")
        return cls(int(cents))

    @property
    def shown(self) -> str:
        """Amount with two decimals."""
        return f"{self.cents / CENTS:,.2f}"


class PaidTotals(Shown, Tabular):
    """Amounts that a mechanism, ours or another, pays each identity."""

    identities: Text
    seconds: float

    @property
    @abstractmethod
    def totals(self) -> Values:
        """Amount per identity, in the order of `identities`."""

    @property
    @abstractmethod
    def grand_value(self) -> float:
        """v(all): what all that was submitted is worth."""

    @property
    def evaluations(self) -> float:
        """Number of coalitions that the mechanism asked for; NaN where it does not say."""
        return float("nan")

    @property
    def paid(self) -> Values:
        """Amount per identity, in money where some was divided."""
        return self.totals

    def as_dict(self) -> dict[str, float]:
        """Return the amount of each identity."""
        return dict(zip(self.identities.tolist(), self.paid.tolist(), strict=True))

    def total(self, names: list[str]) -> float:
        """Return what several identities get together."""
        return float(self.totals[np.isin(self.identities, names)].sum())

    def by_identity(self) -> ResultTable:
        """Return one row per identity: its name, its amount and its share of all that was paid."""
        share = shares_of(self.totals)
        columns = {"identity": self.identities, "amount": self.totals, "share": share}
        return ResultTable(self.title, columns)

    def _amounts(self) -> ResultTable:
        table = self.by_identity()
        columns = {name: table[name] for name in table if name not in ("units", "value")}
        return ResultTable(table.title, columns, money=table.money)

    def to_arrow(self) -> pa.Table:
        """Return one row per identity: its name, its amount and its share of all that was paid."""
        return self._amounts().to_arrow()

    def screen(self) -> Screen:
        """Show the identities that were paid most."""
        table = self._amounts()
        return table.take(np.argsort(-table["amount"], kind="stable")).screen()

    @property
    def title(self) -> str:
        """Sum up in one line what was paid to how many."""
        names = counted(len(self.identities), "identity", "identities")
        return f"Payments of {self.totals.sum():.4g} to {names}"


def shares_of(amounts: Values) -> Values:
    """Return each part of the sum; NaN where the sum is zero."""
    total = amounts.sum()
    return amounts / total if total else np.full(len(amounts), np.nan)


@dataclass(frozen=True, eq=False, repr=False)
class Payments(PaidTotals):
    """Records of the four stages on one submission, and the amounts per identity they come to.

    Validation rows (`leaks`, by their places in the whole submission) and units acquired in earlier periods
    (`acquired`) were excluded before: all records are of the units that play, and an identity without any gets 0.

    Parameters
    ----------
    identities, clustering, canonical, scores, shares, seconds
        The submitted identities, the records of the four stages, and how long they took.
    threshold
        How the threshold was resolved, where the mechanism left it open.
    leaks, acquired, submitted
        Units excluded as validation rows or as acquired before, and all that was submitted.
    pot
        The money to divide by value, where there is any.
    utility
        What data are paid for, in words.
    """

    identities: Text
    clustering: Clusters
    canonical: CanonicalUnits
    scores: Scores
    shares: Amounts
    seconds: float = 0.0
    threshold: Threshold | None = None
    leaks: Leaks = field(default_factory=Leaks.none)
    acquired: AcquiredMatches = field(default_factory=AcquiredMatches.none)
    submitted: Submission | None = None
    pot: Pot | None = None
    utility: str = ""

    def extended_to(self, identities: Text) -> Payments:
        """Return the payments among more identities (sorted), who get nothing."""
        if len(identities) == len(self.identities):
            return self
        place = np.searchsorted(identities, self.identities)
        shares = replace(self.shares, identity=place[self.shares.identity])
        return replace(self, identities=identities, shares=shares)

    @property
    def amount(self) -> Values:
        """``amount[i]`` of cluster ``shares.cluster[i]`` for identity ``shares.identity[i]``."""
        return self.shares.amount

    @property
    def grand_value(self) -> float:
        """v(all): what all clusters together are worth."""
        return self.scores.grand_value

    @property
    def evaluations(self) -> float:
        """Number of coalitions that scoring asked for."""
        return self.scores.evaluations

    @cached_property
    def totals(self) -> Values:
        """Amount per identity, in the order of `identities`."""
        totals = np.zeros(len(self.identities))
        np.add.at(totals, self.shares.identity, self.amount)
        return totals

    @cached_property
    def cents(self) -> NDArray[np.int64]:
        """Cents of the pot for each identity; all zero where there is no pot."""
        if self.pot is None:
            return np.zeros(len(self.identities), dtype=np.int64)
        from datamarket_gym.mechanism.payment_tables import identity_cents

        return identity_cents(self, self.pot)

    @cached_property
    def standard_errors(self) -> Values:
        """Standard error per identity, clusters taken as independent estimates.

        Infinite where scores were truncated: standard errors say nothing of their bias.
        """
        n = len(self.identities)
        if self.scores.bias:
            return np.full(n, np.inf)
        pairs, where = np.unique(self.shares.cluster * n + self.shares.identity, return_inverse=True)
        share = np.bincount(where, weights=self.shares.share)
        variance = (share * self.scores.standard_errors[pairs // n]) ** 2
        return np.sqrt(np.bincount(pairs % n, weights=variance, minlength=n))

    @property
    def paid(self) -> Values:
        """Amount per identity: of a pot in money, to the cent, else its value."""
        return self.totals if self.pot is None else self.cents / CENTS

    def by_identity(self) -> ResultTable:
        """Return what each identity is paid.

        Columns ``identity``, ``units``, ``amount``, ``share``; ``value`` where money is divided, and ``standard_error``
        where values were sampled.
        """
        from datamarket_gym.mechanism.payment_tables import identity_table

        return identity_table(self)

    def by_unit(self) -> ResultTable:
        """Return what each submitted unit is paid; the units of an identity sum to its amount.

        Columns ``unit`` (its id), ``identity``, ``cluster`` (-1 where it was excluded), ``amount``, and ``reason``
        where it is paid nothing: what it matches, for example.
        """
        from datamarket_gym.mechanism.payment_tables import unit_table

        return unit_table(self)

    def clusters(self) -> ResultTable:
        """Return the clusters: those of several matched units first, then those worth most.

        Columns ``cluster``, ``units``, ``identities``, ``representative`` (the id of a unit that stands for it),
        ``owner``, ``value``, ``standard_error`` and ``matched_by``.
        """
        from datamarket_gym.mechanism.payment_tables import cluster_table

        return cluster_table(self)

    def explain(self, identity: str) -> ResultTable:
        """Return the units of one identity, best paid first, under a sentence that sums them up.

        Columns ``unit``, ``amount``, ``cluster`` and ``reason``; an `UnknownNameError` for an unknown identity.
        """
        from datamarket_gym.mechanism.payment_tables import explanation

        return explanation(self, identity)

    def plot(self) -> Any:
        """Plot what each identity is paid, with 95 % intervals where values were sampled, by matplotlib or plotly."""
        columns = self.by_identity().columns
        names, errors = columns["identity"].tolist(), columns.get("standard_error")
        unit = "value" if self.pot is None else "amount"
        title = "Payment of each identity"
        return plot_intervals(names, columns["amount"], errors, title=title, xlabel=unit)

    @property
    def title(self) -> str:
        """Sum up in one line what was paid to how many, and over how many clusters."""
        units = counted(len(self.clustering.label), "unit")
        clusters = counted(self.clustering.n_clusters, "cluster")
        value = f"v(all) = {self.grand_value:.4g}"
        excluded = f"; {counted(len(self.leaks), 'unit')} excluded as leaked" if len(self.leaks) else ""
        if len(self.acquired):
            excluded += f"; {counted(len(self.acquired), 'unit')} acquired before"
        paid = super().title
        if self.pot is not None:
            paid = f"Payments of {self.pot.shown} to {paid.partition(' to ')[2]}"
        by = f"; {self.utility}" if self.utility else ""
        return f"{paid}; {value}; {units} in {clusters}, scored by {self.scores.method}{excluded}{by}"


@dataclass(frozen=True)
class Allocator(Described):
    """Allocate as the paper's ``Allocator.allocate(cluster_values, provenance_policy) -> payments``.

    Parameters
    ----------
    oracle
        The ground truth, for policies that need it (latent_share); no other is shown it.
    """

    oracle: GroundTruth | None = None

    def allocate(
        self, cluster_values: ClusterValues, provenance_policy: str | Allocation = "equal_submitted"
    ) -> Payments:
        """Divide each cluster's score among the identities in it, by an allocation rule."""
        stages = cluster_values.clusters, cluster_values.canonical, cluster_values.scores
        amounts = allocate(*stages, provenance_policy, self.oracle)
        return Payments(cluster_values.clusters.units.identities, *stages, amounts)


def floored(payments: Payments, *, rescale: bool = False) -> Payments:
    """Raise negative cluster scores to zero before they are divided, so that no identity owes anything.

    What is then paid exceeds the value created; ``rescale`` scales all payments down to it.
    """
    raw, shares = payments.scores.values, payments.shares
    values = np.maximum(raw, 0.0)
    if rescale and values.sum() > 0:
        values = values * (raw.sum() / values.sum())
    scores = replace(payments.scores, values=values)
    amount = exact_amounts(values, shares.cluster, shares.share)
    return replace(payments, scores=scores, shares=replace(shares, amount=amount))


def hidden_harm(payments: Payments) -> float:
    """Return the part of v(all) that `floored` hides: minus the sum of negative scores."""
    return float(-np.minimum(payments.scores.values, 0.0).sum() / payments.grand_value)
