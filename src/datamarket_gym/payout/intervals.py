"""Confidence intervals of payments: how much another set of validation rows would have changed them.

Delete-a-group jackknife over G groups of validation rows: with p_(g) the payment computed without
group g, se^2 = (G-1)/G sum_g (p_(g) - mean)^2, and the interval is p +- t_{G-1} se. Sampling error of
the scores, where there is any, is added in quadrature. Where scores are of the nearest rows alone (`knn_truncated`),
the interval is wider on both sides by what that can have moved a payment at most (`moved_at_most`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.content_keys import keyed_generator, unit_keys
from datamarket_gym.errors import ParameterError
from datamarket_gym.execution.arrays import Codes, Features, Values
from datamarket_gym.mechanism.allocation import Shares
from datamarket_gym.mechanism.quotient_game import Scores

LEVEL = 0.95
GROUPS = 20


def validation_groups(features: Features, label: NDArray[Any], seed: int) -> Codes:
    """A group number per validation row, dealt by content so that the order of rows does not matter."""
    order = np.argsort(unit_keys(features, label), kind="stable")
    count = min(GROUPS, len(order))
    dealt = keyed_generator(seed, "validation groups").permutation(len(order)) % count
    group = np.empty(len(order), dtype=np.int64)
    group[order] = dealt
    return group


@dataclass(frozen=True)
class PayRule:
    """How scores turn into (unrounded) minor units per identity; see `payout.money`."""

    shares: Shares
    payee: Codes
    n_identities: int
    amount: int
    floor: bool
    opening: Values
    held: NDArray[np.bool_] | None = None  # who is paid nothing now
    forfeited: NDArray[np.bool_] | None = None  # whose units earn for the others

    def weights(self, scores: Values) -> Values:
        """The sum of scores times shares per identity."""
        used = np.maximum(scores, 0.0) if self.floor else scores
        part: Values = used[self.shares.cluster] * self.shares.share
        total: Values = np.zeros(self.n_identities)
        np.add.at(total, self.shares.identity, part)
        return total if self.forfeited is None else np.where(self.forfeited, 0.0, total)

    def paid(self, scores: Values) -> Values:
        """What each identity would be paid."""
        weight = self.weights(scores)
        if weight.sum() <= 0:
            return np.zeros(len(self.payee))
        absent = len(self.payee) - self.n_identities
        due = np.concatenate([self.amount * weight / weight.sum(), np.zeros(absent)]) + self.opening
        if self.held is not None:
            due = np.where(self.held, 0.0, due)
        netted = np.maximum(np.bincount(self.payee, weights=due), 0.0)
        gains = np.maximum(due, 0.0)
        held = np.bincount(self.payee, weights=gains)
        share = np.divide(gains, held[self.payee], out=np.zeros_like(gains), where=held[self.payee] > 0)
        paid: Values = self.amount * netted[self.payee] / max(netted.sum(), 1e-300) * share
        return paid


def standard_errors(payer: PayRule, scores: Scores) -> Values:
    """Standard error of each identity's payment, in minor units; truncated orders of joining have none."""
    if scores.bias and not scores.proven:
        raise ParameterError(
            "estimator",
            scores.method,
            "truncated scores are biased by an amount that nothing bounds, so there is no interval; "
            "score without truncation",
        )
    groups = len(scores.by_group)
    variance = np.zeros(len(payer.payee))
    if groups > 1:
        size, total = scores.group_size, scores.group_size.sum()
        sums = (scores.by_group * size[:, None]).sum(axis=0)
        without = np.stack(
            [
                payer.paid((sums - scores.by_group[g] * size[g]) / (total - size[g]))
                for g in range(groups)
            ]
        )
        variance += (groups - 1) / groups * ((without - without.mean(axis=0)) ** 2).sum(axis=0)
    if scores.standard_errors.any():
        scale = payer.amount / max(float(payer.weights(scores.values).sum()), 1e-300)
        per_part = (payer.shares.share * scores.standard_errors[payer.shares.cluster] * scale) ** 2
        variance[: payer.n_identities] += np.bincount(
            payer.shares.identity, weights=per_part, minlength=payer.n_identities
        )
    return np.sqrt(variance)


def moved_at_most(payer: PayRule, scores: Scores) -> Values:
    """How far each payment can be from that of exact scores, in minor units, if no score is off by more than its bias.

    With b that bound, a weight is off by at most b times the shares that it sums; what is divided by a sum T that is
    off by at most t < T, x / T, by (dx + |x| / T t) / (T - t). A payment is a share of what its payee is due, in what
    all payees are due; no payment is off by more than the whole amount.
    """
    count, n = len(payer.payee), payer.n_identities
    if not scores.bias:
        return np.zeros(count)
    weight, opening = payer.weights(scores.values), payer.opening
    held = np.bincount(payer.shares.identity, weights=payer.shares.share, minlength=n).astype(np.float64)
    off = scores.bias * (held if payer.forfeited is None else np.where(payer.forfeited, 0.0, held))
    absent = np.zeros(count - n)
    due = np.r_[payer.amount * weight / weight.sum(), absent] + opening
    due_off = np.r_[payer.amount * _ratio_off(weight, off, weight.sum(), off.sum()), absent]
    if payer.held is not None:
        due, due_off = np.where(payer.held, 0.0, due), np.where(payer.held, 0.0, due_off)
    whose = payer.payee
    own_off = np.bincount(whose, weights=due_off).astype(np.float64)
    net = np.maximum(np.bincount(whose, weights=due), 0.0)
    part_off = _ratio_off(net, own_off, net.sum(), own_off.sum())
    gains = np.maximum(due, 0.0)
    own = np.bincount(whose, weights=gains)
    share_off = np.minimum(_ratio_off(gains, due_off, own[whose], own_off[whose]), 1.0)
    alone = np.bincount(whose) == 1  # whose share of its own payment is all of it
    share_off[alone[whose]] = 0.0
    part = net / max(float(net.sum()), 1e-300)
    return np.minimum(payer.amount * (part_off[whose] + part[whose] * share_off), payer.amount)


def _ratio_off(x: Values, x_off: Values, total: Any, total_off: Any) -> Values:
    """How far x / total can be off; infinite where the total can be nothing."""
    room = np.broadcast_to(total - total_off, x.shape)
    sure = room > 0
    moved = x_off + np.abs(x) / np.where(sure, total, 1.0) * np.where(sure, total_off, 0.0)
    found: Values = np.divide(moved, room, out=np.full(x.shape, np.inf), where=sure)
    return found


def half_width(groups: int) -> float:
    """Standard errors on each side of a payment."""
    from scipy.special import ndtri, stdtrit

    quantile = (1 + LEVEL) / 2
    return float(stdtrit(groups - 1, quantile) if groups > 1 else ndtri(quantile))
