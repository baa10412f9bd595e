"""Payments: what each identity gets, part by part, so that every total can be explained."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.ground_truth import GroundTruth
from datamarket_gym.data.submission import Submission, Text
from datamarket_gym.display import Described, Screen, Shown, counted
from datamarket_gym.evidence.graph import AcquiredMatches, Clusters
from datamarket_gym.evidence.leakage import Leaks
from datamarket_gym.evidence.threshold import Threshold
from datamarket_gym.execution.arrays import Values
from datamarket_gym.mechanism.allocation import Allocation, Amounts, allocate, exact_amounts
from datamarket_gym.mechanism.payment_tables import (
    Pot,
    cluster_table,
    explanation,
    identity_amounts,
    identity_cents,
    identity_table,
    unit_table,
)
from datamarket_gym.mechanism.quotient_game import ClusterValues, Scores
from datamarket_gym.mechanism.representatives import CanonicalUnits
from datamarket_gym.plots import plot_intervals
from datamarket_gym.result_table import ResultTable, Tabular

if TYPE_CHECKING:
    import pyarrow as pa


class PaidTotals(Shown, Tabular):
    """What each identity was paid, by whatever mechanism: all that gains are measured on."""

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
        """The coalitions that the mechanism asked for; NaN where it does not say."""
        return float("nan")

    def as_dict(self) -> dict[str, float]:
        """Amount by identity."""
        return dict(zip(self.identities.tolist(), self.totals.tolist(), strict=True))

    def total(self, names: list[str]) -> float:
        """What several identities get together."""
        return float(self.totals[np.isin(self.identities, names)].sum())

    def columns(self) -> dict[str, Values]:
        """What is known of each identity besides its name; ``share`` is of all that was paid."""
        paid = self.totals.sum()
        share = self.totals / paid if paid else np.full(len(self.totals), np.nan)
        return {"amount": self.totals, "share": share}

    def to_arrow(self) -> pa.Table:
        """One row per identity: its name, its amount and its share of all that was paid."""
        import pyarrow as pa

        return pa.table({"identity": pa.array(self.identities), **self.columns()})

    def screen(self) -> Screen:
        """The identities that were paid most."""
        columns = self.columns()
        order = np.argsort(-self.totals, kind="stable").tolist()
        rows = (
            (self.identities[i], *(f"{column[i]:{_FORMATS[name]}}" for name, column in columns.items()))
            for i in order
        )
        heads = ("identity", *(name.replace("_", " ") for name in columns))
        return Screen.of(self.title, heads, rows, len(order))

    @property
    def title(self) -> str:
        """Who was paid what in one line."""
        names = counted(len(self.identities), "identity", "identities")
        return f"Payments of {self.totals.sum():.4g} to {names}"


_FORMATS = {"amount": ".4f", "share": ".1%", "standard_error": ".4f"}


@dataclass(frozen=True, eq=False, repr=False)
class Payments(PaidTotals):
    """The records of the four stages on one submission, and the amounts per identity they come to.

    Units that are validation rows were excluded before the stages (`leaks`, by their places in the
    whole submission), and so were those that were acquired in earlier periods (`acquired`, likewise):
    clusters and all that follows are of the units that play, ``clusters.submission``.
    ``identities`` are all that submitted; who has no unit that plays gets 0.
    """

    identities: Text
    clustering: Clusters
    canonical: CanonicalUnits
    scores: Scores
    shares: Amounts
    seconds: float = 0.0
    threshold: Threshold | None = None  # how it was resolved, where the mechanism left it open
    leaks: Leaks = field(default_factory=Leaks.none)
    acquired: AcquiredMatches = field(default_factory=AcquiredMatches.none)
    submitted: Submission | None = None  # all that was submitted, what was excluded included
    pot: Pot | None = None  # money to divide by value, where there is any

    @classmethod
    def of(
        cls, clusters: Clusters, canonical: CanonicalUnits, scores: Scores, amounts: Amounts
    ) -> Payments:
        """Gather the records of the stages; every identity with a unit in the clusters is paid."""
        assert clusters.submission is not None  # else nothing is allocated
        return cls(clusters.submission.identities, clusters, canonical, scores, amounts)

    def extended_to(self, identities: Text) -> Payments:
        """Return the payments among more identities (sorted), of whom those without a unit that plays get nothing."""
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
        """The coalitions that scoring asked for."""
        return self.scores.evaluations

    @property
    def raw_total(self) -> float | None:
        """What the scores summed to before they were normalised; None where they were not."""
        return self.scores.raw_total

    @cached_property
    def totals(self) -> Values:
        """Amount per identity, in the order of `identities`."""
        totals = np.zeros(len(self.identities))
        np.add.at(totals, self.shares.identity, self.amount)
        return totals

    @cached_property
    def cents(self) -> NDArray[np.int64]:
        """What each identity is paid of the pot, in cents; all zero where there is none."""
        if self.pot is None:
            return np.zeros(len(self.identities), dtype=np.int64)
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

    def columns(self) -> dict[str, Values]:
        """Amount, share of all that was paid, and standard error where scores were sampled."""
        found = super().columns()
        return found if self.scores.exact else {**found, "standard_error": self.standard_errors}

    def as_dict(self) -> dict[str, float]:
        """Amount by identity: money where `pay` divided some, else value."""
        return dict(zip(self.identities.tolist(), identity_amounts(self).tolist(), strict=True))

    def by_identity(self) -> ResultTable:
        """Return what each identity is paid.

        Returns
        -------
        ResultTable
            Columns ``identity``, ``units``, ``amount``, ``share``; ``value`` where money is divided, and
            ``standard_error`` where values were sampled.
        """
        return identity_table(self)

    def by_unit(self) -> ResultTable:
        """Return what each submitted unit is paid; the units of an identity sum to its amount.

        Returns
        -------
        ResultTable
            Columns ``unit`` (its id), ``identity``, ``cluster`` (-1 where it was excluded), ``amount``, and ``reason``
            where it is paid nothing: what it matches, for example.
        """
        return unit_table(self)

    def clusters(self) -> ResultTable:
        """Return the clusters: those of several matched units first, then those worth most.

        Returns
        -------
        ResultTable
            Columns ``cluster``, ``units``, ``identities``, ``representative`` (the id of a unit that stands for it),
            ``owner``, ``value``, ``standard_error`` and ``matched_by``.
        """
        return cluster_table(self)

    def explain(self, identity: str) -> ResultTable:
        """Return the units of one identity, best paid first, under a sentence that sums them up.

        Parameters
        ----------
        identity : str
            The name under which the units were submitted.

        Returns
        -------
        ResultTable
            Columns ``unit``, ``amount``, ``cluster`` and ``reason``.

        Raises
        ------
        UnknownNameError
            If nobody of that name submitted anything.
        """
        return explanation(self, identity)

    def plot(self) -> Any:
        """Plot what each identity is paid, the most first, with 95 % intervals where values were sampled.

        Returns
        -------
        matplotlib.figure.Figure or plotly.graph_objects.Figure
            Of matplotlib where it is installed, else of plotly.

        Raises
        ------
        ImportError
            If neither is installed.
        """
        table = self.by_identity()
        errors = table["standard_error"] if "standard_error" in table.columns else None
        unit = "value" if self.pot is None else "amount"
        return plot_intervals(
            table["identity"].tolist(),
            table["amount"],
            errors,
            title="Payment of each identity",
            xlabel=unit,
        )

    def screen(self) -> Screen:
        """The identities that were paid most; money, where some was divided."""
        if self.pot is None:
            return super().screen()
        table = self.by_identity()
        order = np.argsort(-table["amount"], kind="stable")
        rows = zip(
            table["identity"][order],
            (f"{amount:,.2f}" for amount in table["amount"][order]),
            (f"{share:.1%}" for share in table["share"][order]),
            strict=True,
        )
        return Screen.of(self.title, ("identity", "amount", "share"), rows, len(order))

    @property
    def title(self) -> str:
        """Who was paid what in one line, and over how many clusters."""
        units = counted(len(self.clustering.label), "unit")
        clusters = counted(self.clustering.n_clusters, "cluster")
        value = f"v(all) = {self.grand_value:.4g}"
        excluded = f"; {counted(len(self.leaks), 'unit')} excluded as leaked" if len(self.leaks) else ""
        if len(self.acquired):
            excluded += f"; {counted(len(self.acquired), 'unit')} acquired before"
        paid = super().title
        if self.pot is not None:
            paid = f"Payments of {self.pot.shown} to {paid.partition(' to ')[2]}"
        return f"{paid}; {value}; {units} in {clusters}, scored by {self.scores.method}{excluded}"


@dataclass(frozen=True)
class Allocator(Described):
    """The paper's ``Allocator.allocate(cluster_values, provenance_policy) -> payments``.

    ``oracle`` is the ground truth, for policies that ask it (latent_share); no other is shown it.
    """

    oracle: GroundTruth | None = None

    def allocate(
        self, cluster_values: ClusterValues, provenance_policy: str | Allocation = "equal_submitted"
    ) -> Payments:
        """Divide each cluster's score among the identities in it, by an allocation rule."""
        values = cluster_values
        amounts = allocate(
            values.clusters, values.canonical, values.scores, provenance_policy, self.oracle
        )
        return Payments.of(values.clusters, values.canonical, values.scores, amounts)


def floored(payments: Payments, *, rescale: bool = False) -> Payments:
    """The payments if nobody owes anything: negative cluster scores are raised to zero before they are divided.

    What is then paid out exceeds the value created by what was cut off; ``rescale`` takes that back from
    everyone in proportion, so that payments add up to the scores again.
    """
    raw = payments.scores.values
    values = np.maximum(raw, 0.0)
    if rescale and values.sum() > 0:
        values = values * (raw.sum() / values.sum())
    shares = payments.shares
    amount = exact_amounts(values, shares.cluster, shares.share)
    return replace(
        payments,
        scores=replace(payments.scores, values=values),
        shares=replace(shares, amount=amount),
    )


def hidden_harm(payments: Payments) -> float:
    """The part of v(all) that the rule keeps out of sight: minus the sum of negative scores."""
    return float(-np.minimum(payments.scores.values, 0.0).sum() / payments.grand_value)
