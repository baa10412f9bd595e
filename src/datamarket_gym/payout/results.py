"""From the pipeline's payments to cents, and all that a run's outputs and report are written from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from datamarket_gym.data.content_keys import combined_keys
from datamarket_gym.evidence.graph import CollapsedMarket, find_collapse
from datamarket_gym.evidence.leakage import Leaks
from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.mechanism.allocation import Payments, floored, grid_of
from datamarket_gym.mechanism.pipeline import Mechanism
from datamarket_gym.payout.acquired_units import MatchedAcquiredUnits
from datamarket_gym.payout.inputs import Inputs
from datamarket_gym.payout.money import (
    Division,
    PayRule,
    divide,
)
from datamarket_gym.payout.operator_evidence import Payees
from datamarket_gym.payout.overrides import Override
from datamarket_gym.payout.settings import (
    PayoutSpec,
    ResolvedCoverage,
    Worth,
    resolve_coverage,
    worth_of,
)
from datamarket_gym.payout.threshold import DrawnThreshold
from datamarket_gym.utilities.oracle import UtilityOracle

_NOTHING_NEW = "what is new adds nothing to what the earlier runs have bought"


@dataclass(frozen=True, eq=False)
class Results:
    """Everything about a run that follows from its inputs.

    ``payments`` are the pipeline's records, before any policy. ``names`` are the identities of this run,
    then those that only bring a balance from an earlier one.
    """

    spec: PayoutSpec
    inputs: Inputs
    utility: UtilityOracle
    threshold: DrawnThreshold
    mechanism: Mechanism
    overrides: list[Override]
    payments: Payments
    payees: Payees
    names: list[str]
    division: Division
    score: Values  # per identity, before any policy
    error: Values  # standard error of the payment, minor units
    width: float
    moved: Values  # minor units by which the bias of scores can have moved the payment
    without_evidence: list[int]
    leaks: Leaks  # under the names of units and identities; ``inputs`` and ``payments`` are without them
    known: MatchedAcquiredUnits  # bought by earlier runs; likewise
    asked: dict[str, Values] = field(
        default_factory=dict
    )  # of ``inputs``, as `measure_threshold` keeps it

    @property
    def worth(self) -> Worth:
        """What is paid for, in words: of labels there is talk only where they count."""
        return worth_of(self.spec.learner, labelled=self.inputs.labelled)

    @property
    def collapse(self) -> CollapsedMarket | None:
        """What similarity evidence made of the market, where it took much of it for one unit."""
        return find_collapse(
            self.mechanism.evidence, self.inputs.submission, self.payments.clustering, checked=True
        )

    @property
    def settled(self) -> ResolvedCoverage | None:
        """What coverage settled on, where it is what is paid for."""
        return resolve_coverage(self.spec.learner, self.utility.features)

    @property
    def named_mechanism(self) -> Mechanism:
        """The mechanism with the beacon that was announced, or none: a digest of validation rows that may be used
        again must not be read in any file of the run, or the next run's lots could be known beforehand."""
        return self.mechanism.model_copy(update={"beacon": self.spec.beacon or ""})

    @property
    def low(self) -> list[int]:
        """Lower ends of the payments' intervals, rounded down to minor units, and not below zero."""
        exact = np.array([float(e) for e in self.division.exact])
        return [max(0, int(v)) for v in np.floor(exact - self.width * self.error - self.moved)]

    @property
    def high(self) -> list[int]:
        """Upper ends, rounded up."""
        exact = np.array([float(e) for e in self.division.exact])
        high = exact + self.width * self.error
        if self.moved.any():  # by bounds, which may be beyond all that there is
            high = np.minimum(high + self.moved, self.spec.minor)
        return [int(v) for v in np.ceil(high)]


@dataclass(frozen=True, eq=False)
class Cents:
    """Payments in minor units: for whom, how much, and how that depends on the scores."""

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
    """What the pipeline pays, divided in minor units exactly; ``group`` is each identity's payee.

    What the units of the ``unpaid`` earn is divided among the others.
    """
    n, floor = len(inputs.identities), spec.negative == "zero"
    used = floored(payments) if floor else payments
    shares = used.shares
    whole = np.zeros(n, dtype=np.int64)
    step = grid_of(used.scores.values)
    np.add.at(whole, shares.identity, np.round(shares.amount / step).astype(np.int64))
    names = everyone(inputs, opening)
    lost = np.array([name in unpaid for name in inputs.identities])
    whole[lost] = 0
    held = [name in unpaid for name in names]
    payee = np.concatenate([group, np.arange(len(names) - n) + n])
    balances = [opening.get(name, 0) for name in names]
    worth = worth_of(spec.learner, labelled=inputs.labelled)
    nothing = worth.nothing if inputs.prior is None else _NOTHING_NEW
    division = divide(
        spec.minor,
        [*whole.tolist(), *[0] * (len(names) - n)],
        payee.tolist(),
        [*identity_keys(inputs), *[b""] * (len(names) - n)],
        names,
        balances,
        held,
        nothing
        + (f", as far as truncated scores say ({used.scores.method})" if used.scores.bias else ""),
    )
    payer = PayRule(
        shares, payee, n, spec.minor, floor, np.array(balances, dtype=np.float64), np.array(held), lost
    )
    return Cents(names, division, payer)


def has_balances(spec: PayoutSpec, balances: Sequence[int]) -> bool:
    """Whether balances are worth a column: where scores below zero are carried, or else if there are any."""
    return spec.negative == "carry" if spec.worth.signed else any(balances)


def raw_scores(payments: Payments) -> Values:
    """The score of each identity, before any policy."""
    shares = payments.shares
    score = np.zeros(len(payments.identities))
    np.add.at(score, shares.identity, payments.scores.values[shares.cluster] * shares.share)
    return score


def everyone(inputs: Inputs, opening: dict[str, int]) -> list[str]:
    """Identities of the run, then those with an old balance alone."""
    known = set(inputs.identities)
    return [*inputs.identities, *sorted(name for name, b in opening.items() if b and name not in known)]


def identity_keys(inputs: Inputs) -> list[bytes]:
    """The content key of each identity: what it submitted, whatever it is called."""
    keys = inputs.submission.keys
    order = np.lexsort((keys, inputs.owner))
    ends = np.cumsum(np.bincount(inputs.owner, minlength=len(inputs.identities)))
    return combined_keys(keys[order], ends).tolist()
