"""Dividing an amount in whole minor units (cents) so that nothing is lost, and how sure each payment is.

Scores lie on a grid on which sums are exact (`payments.apportion`), so an identity's weight w is a
whole number. With Q the sum of what is positive, payee by payee, an identity of payee g is due

    x_i = A  W_g+ / Q  w_i+ / P_g,      W_g = sum of w in g,   P_g = sum of w+ in g,

as an exact fraction; it is paid floor(x_i) or one cent more by largest remainder. Equal remainders go by content
key; identities equal in that too are ordered at random by all content. So the payments sum to A and none is
off by a whole cent.

Policies for scores below zero, which accuracy has and coverage has not: ``zero`` counts a cluster's
negative score as nothing before it is divided. ``carry`` keeps signed weights: everyone is *entitled* to
e_i = A w_i / sum of w, is paid x_i, and the balance e_i - x_i is carried to the next run. Neither depends on
how many names a total is split over: under ``zero`` the payments, under ``carry`` payments plus balances.

Intervals say how much another set of validation rows would have changed a payment. Delete-a-group jackknife over G
groups of validation rows: with p_(g) the payment computed without group g, se^2 = (G-1)/G sum_g (p_(g) - mean)^2, and
the interval is p +- t_{G-1} se. Sampling error of the scores, where there is any, is added in quadrature. Where scores
are of the nearest rows alone (`knn_truncated`), the interval is wider on both sides by what that can have moved a
payment at most (`moved_at_most`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.content_keys import keyed_generator, unit_keys
from datamarket_gym.display import Described
from datamarket_gym.errors import DataMarketError, ParameterError, close_names
from datamarket_gym.execution.arrays import Codes, Features, Values
from datamarket_gym.mechanism.allocation import Shares, by_content, largest_remainder
from datamarket_gym.mechanism.quotient_game import Scores
from datamarket_gym.payout.names import visible

_CODES = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF",
    2: "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY COP CRC "
    "CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD "
    "KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO "
    "NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL "
    "THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VED VES WST XCD XCG YER ZAR ZMW ZWG",
    3: "BHD IQD JOD KWD LYD OMR TND",
}
_DIGITS = {code: digits for digits, codes in _CODES.items() for code in codes.split()}
"""Digits after the point of the currencies of ISO 4217 that are in use; funds and metals are left out."""
_PLAIN = re.compile(r"[0-9]{1,40}(\.[0-9]{0,40})?", re.ASCII)  # no 1e3, 1_000 or ١٠
_MOST = 10**15  # minor units; beyond it an amount is surely a mistake


@dataclass(frozen=True)
class Currency(Described):
    """Name a currency by its ISO 4217 code.

    Parameters
    ----------
    code
        The code.
    """

    code: str

    def __post_init__(self) -> None:
        code = self.code
        if code not in _DIGITS:
            typed = sorted(code.upper())
            close = [each for each in _DIGITS if sorted(each) == typed] or close_names(code, _DIGITS)
            hint = f"; did you mean {' or '.join(close)}?" if close else ""
            remedy = "give a code of ISO 4217, three capital letters such as EUR"
            raise ParameterError("currency", code, remedy + hint)

    @property
    def digits(self) -> int:
        """Digits after the point."""
        return _DIGITS[self.code]

    def minor(self, amount: str, at_least: int = 1) -> int:
        """Return an amount in minor units, exactly; refuse too many digits, too much and less than ``at_least``."""
        if not isinstance(amount, str):  # True would be 1, and 0.1 is no tenth
            raise ParameterError("amount", amount, f'write it as text, such as "{self.text(1000000)}"')
        text = amount.strip()
        wrong = ""
        if not _PLAIN.fullmatch(text.removeprefix("-") if at_least < 0 else text):
            number = {1: "a positive number", 0: "a positive number, or zero,"}.get(at_least, "a number")
            wrong = f"write it as {number} such as {self.text(1000000)}"
        elif abs(value := Decimal(text) * 10**self.digits) > _MOST:
            wrong = f"give at most {self.text(_MOST)}; more is surely a mistake"
        elif value != value.to_integral_value():
            wrong = f"{self.code} has {self.digits} digits after the point; round it"
        elif value < at_least:
            wrong = "give an amount above zero"
        if wrong:
            raise ParameterError("amount", amount, wrong)
        return int(value)

    def change(self, amount: str) -> int:
        """Return an amount that may be below zero in minor units."""
        return self.minor(amount, -_MOST)

    def units(self, amount: int | str) -> int:
        """Return minor units from a text, or as they are given: a whole number, and neither True nor 1.0."""
        if type(amount) is int:
            return amount
        return self.change(amount)  # type: ignore[arg-type]  # which refuses all but text

    def signed(self, text: str) -> int:
        """Read minor units from an amount as `text` writes it."""
        return int(Decimal(text) * 10**self.digits)

    def text(self, minor: int) -> str:
        """Write minor units as an amount, without the code."""
        sign, whole = ("-" if minor < 0 else ""), f"{abs(minor):0{self.digits + 1}d}"
        return sign + (f"{whole[: -self.digits]}.{whole[-self.digits :]}" if self.digits else whole)

    def shown(self, minor: int) -> str:
        """Write minor units as people read them: thousands set apart, and a true minus sign."""
        return thousands(self.text(minor)).replace("-", "\N{MINUS SIGN}")


def thousands(amount: str) -> str:
    """Set the thousands of an amount apart."""
    sign = "-" if amount.startswith("-") else ""
    whole, point, rest = amount.removeprefix("-").partition(".")
    return f"{sign}{int(whole):,}{point}{rest}"


@dataclass(frozen=True)
class Division:
    """Hold minor units per identity: paid now, entitled to, and the balance carried (zero under ``zero``)."""

    paid: list[int]
    entitled: list[int]
    balance: list[int]
    exact: list[Fraction]  # what would be paid if cents could be split


_NOISE = 10**9
"""Weights whose sum is a smaller part of their sizes than this have cancelled: what is left is rounding."""


def divide(
    amount: int,
    weight: Sequence[int],
    payee: Sequence[int],
    keys: Sequence[bytes],
    names: Sequence[str],
    opening: Sequence[int] | None = None,
    unpaid: Sequence[bool] | None = None,
    nothing: str = "the data are worth nothing",
) -> Division:
    """Divide an amount in minor units by whole weights, one per identity; see the module.

    Weights are netted within a ``payee``. Equal remainders are ordered by ``keys`` and ``names``. ``opening`` balances
    join the entitlements. What the ``unpaid`` are entitled to is their balance, and the others are paid the amount.
    ``nothing`` says what it means of the data if the weights do not add up to anything.
    """
    total = sum(weight)
    if total * _NOISE <= sum(map(abs, weight)):  # also scores that cancel, but for rounding
        raise DataMarketError(
            "the scores do not add up to anything above zero, so there is nothing to divide by: on these "
            f"validation rows {nothing}; {_furthest_below(weight, names)}check labels and validation rows"
        )
    opening, unpaid = opening or [0] * len(weight), unpaid or [False] * len(weight)
    due = [Fraction(amount * w, total) + o for w, o in zip(weight, opening, strict=True)]
    now = [Fraction(0) if u else d for d, u in zip(due, unpaid, strict=True)]
    net, positive = _sum_by_payee(now, payee), _sum_by_payee([max(d, Fraction(0)) for d in now], payee)
    pool = sum((max(n, Fraction(0)) for n in net.values()), Fraction(0))
    if pool <= 0:
        raise DataMarketError(
            "old balances outweigh this run's amount, so no payee can be paid; raise the amount"
        )
    exact = [
        amount * net[g] / pool * max(d, Fraction(0)) / positive[g] if net[g] > 0 else Fraction(0)
        for d, g in zip(now, payee, strict=True)
    ]
    order = by_content(keys, names)
    paid = largest_remainder(amount, exact, order)
    entitled = largest_remainder(amount + sum(opening), due, order)
    return Division(paid, entitled, [e - p for e, p in zip(entitled, paid, strict=True)], exact)


def _furthest_below(weight: Sequence[int], names: Sequence[str]) -> str:
    """Name the identities with the lowest scores, where others are above zero: units may be mislabelled."""
    below = sorted((w, name) for w, name in zip(weight, names, strict=True) if w < 0)[:3]
    if not below or max(weight) <= 0:
        return ""
    shown = ", ".join(repr(visible(name)) for _, name in below)
    return f"furthest below zero: {shown}; look at their units first and pay without those that are wrong, or "


def _sum_by_payee(values: Sequence[Fraction], payee: Sequence[int]) -> dict[int, Fraction]:
    sums: dict[int, Fraction] = {}
    for value, group in zip(values, payee, strict=True):
        sums[group] = sums.get(group, Fraction(0)) + value
    return sums


LEVEL = 0.95
GROUPS = 20


def validation_groups(features: Features, label: NDArray[Any], seed: int) -> Codes:
    """Return a group number per validation row, dealt by content so that the order of rows does not matter."""
    order = np.argsort(unit_keys(features, label), kind="stable")
    count = min(GROUPS, len(order))
    dealt = keyed_generator(seed, "validation groups").permutation(len(order)) % count
    group = np.empty(len(order), dtype=np.int64)
    group[order] = dealt
    return group


@dataclass(frozen=True)
class PayRule:
    """Turn scores into (unrounded) minor units per identity, as `divide` does exactly."""

    shares: Shares
    payee: Codes
    n_identities: int
    amount: int
    floor: bool
    opening: Values
    unpaid: NDArray[np.bool_] | None = None  # who is paid nothing now
    forfeited: NDArray[np.bool_] | None = None  # whose units earn for the others

    def weights(self, scores: Values) -> Values:
        """Sum scores times shares per identity."""
        scores = np.maximum(scores, 0.0) if self.floor else scores
        return self._sum_shares(scores[self.shares.cluster])

    def _sum_shares(self, weights: Values | float) -> Values:
        total: Values = np.zeros(self.n_identities)
        np.add.at(total, self.shares.identity, weights * self.shares.share)
        return total if self.forfeited is None else np.where(self.forfeited, 0.0, total)

    def due(self, earned: Values, opening: Values | float) -> Values:
        """Return what each identity is due by what it earned and its balance, nothing where it is not paid now."""
        absent = np.zeros(len(self.payee) - self.n_identities)
        due: Values = np.concatenate([earned, absent]) + opening
        return due if self.unpaid is None else np.where(self.unpaid, 0.0, due)

    def paid(self, scores: Values) -> Values:
        """Return what each identity would be paid."""
        weight = self.weights(scores)
        if weight.sum() <= 0:
            return np.zeros(len(self.payee))
        due = self.due(self.amount * weight / weight.sum(), self.opening)
        net = np.maximum(np.bincount(self.payee, weights=due), 0.0)
        positive = np.maximum(due, 0.0)
        sums = np.bincount(self.payee, weights=positive)[self.payee]
        share = np.divide(positive, sums, out=np.zeros_like(positive), where=sums > 0)
        paid: Values = self.amount * net[self.payee] / max(net.sum(), 1e-300) * share
        return paid


def standard_errors(rule: PayRule, scores: Scores) -> Values:
    """Return the standard error of each identity's payment, in minor units; refuse truncated permutations."""
    if scores.bias and not scores.proven:
        raise ParameterError(
            "estimator",
            scores.method,
            "truncated scores are biased by an amount that nothing bounds, so there is no interval; "
            "score without truncation",
        )
    groups = len(scores.by_group)
    variance = np.zeros(len(rule.payee))
    if groups > 1:
        weighted = scores.by_group * scores.group_size[:, None]
        rest = weighted.sum(axis=0) - weighted
        rest /= (scores.group_size.sum() - scores.group_size)[:, None]
        without = np.stack([rule.paid(each) for each in rest])
        variance += (groups - 1) / groups * ((without - without.mean(axis=0)) ** 2).sum(axis=0)
    if scores.standard_errors.any():
        scale = rule.amount / max(float(rule.weights(scores.values).sum()), 1e-300)
        per_share = (rule.shares.share * scores.standard_errors[rule.shares.cluster] * scale) ** 2
        variance[: rule.n_identities] += np.bincount(
            rule.shares.identity, weights=per_share, minlength=rule.n_identities
        )
    return np.sqrt(variance)


def moved_at_most(rule: PayRule, scores: Scores) -> Values:
    """Bound how far each payment is from that of exact scores, in minor units, by the bias of scores.

    With b that bound, a weight is off by at most b times the shares that it sums; what is divided by a sum T that is
    off by at most t < T, x / T, by (dx + |x| / T t) / (T - t). A payment is a share of what its payee is due, in what
    all payees are due; no payment is off by more than the whole amount.
    """
    if not scores.bias:
        return np.zeros(len(rule.payee))
    weight, off = rule.weights(scores.values), rule._sum_shares(scores.bias)
    due = rule.due(rule.amount * weight / weight.sum(), rule.opening)
    due_off = rule.due(rule.amount * _ratio_off(weight, off, weight.sum(), off.sum()), 0.0)
    payee = rule.payee
    own_off = np.bincount(payee, weights=due_off).astype(np.float64)
    net = np.maximum(np.bincount(payee, weights=due), 0.0)
    part_off = _ratio_off(net, own_off, net.sum(), own_off.sum())
    positive = np.maximum(due, 0.0)
    own = np.bincount(payee, weights=positive)
    share_off = np.minimum(_ratio_off(positive, due_off, own[payee], own_off[payee]), 1.0)
    is_single = np.bincount(payee) == 1  # whose share of its own payment is all of it
    share_off[is_single[payee]] = 0.0
    part = net / max(float(net.sum()), 1e-300)
    return np.minimum(rule.amount * (part_off[payee] + part[payee] * share_off), rule.amount)


def _ratio_off(x: Values, x_off: Values, total: Any, total_off: Any) -> Values:
    """Bound how far x / total can be off; infinite where the total can be nothing."""
    room = np.broadcast_to(total - total_off, x.shape)
    sure = room > 0
    moved = x_off + np.abs(x) / np.where(sure, total, 1.0) * np.where(sure, total_off, 0.0)
    bound: Values = np.divide(moved, room, out=np.full(x.shape, np.inf), where=sure)
    return bound


def half_width(groups: int) -> float:
    """Return the number of standard errors on each side of a payment."""
    from scipy.special import ndtri, stdtrit

    quantile = (1 + LEVEL) / 2
    return float(stdtrit(groups - 1, quantile) if groups > 1 else ndtri(quantile))
