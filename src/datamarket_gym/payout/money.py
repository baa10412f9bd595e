"""Dividing an amount in whole minor units (cents) so that nothing is lost, and nobody is off by one.

Scores lie on a grid on which sums are exact (`payments.apportion`), so an identity's weight w is a
whole number. With Q the sum of what is positive, payee by payee, an identity of payee g is due

    x_i = A  W_g+ / Q  w_i+ / P_g,      W_g = sum of w in g,   P_g = sum of w+ in g,

as an exact fraction; it is paid floor(x_i) or one cent more by largest remainder. Ties go by content
key; identities alike in that too draw lots keyed by all content. So the payments sum to A and none is
off by a whole cent.

Policies for scores below zero, which accuracy has and coverage has not: ``zero`` counts a cluster's
negative score as nothing before it is divided. ``carry`` keeps signed weights: everyone is *entitled* to
e_i = A w_i / sum of w, is paid x_i, and the balance e_i - x_i is carried to the next run. Both are blind to
how many names a total is split over: under ``zero`` the payments, under ``carry`` payments plus balances.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from datamarket_gym.display import Described
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.mechanism.payment_tables import by_content, largest_remainder
from datamarket_gym.payout.names import visible

_DIGITS = {"BHD": 3, "IQD": 3, "JOD": 3, "KWD": 3, "LYD": 3, "OMR": 3, "TND": 3} | dict.fromkeys(
    ("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF", "XPF"),
    0,
)  # fmt: skip
_NAMED = 3  # in an error
_PLAIN = re.compile(
    r"[0-9]{1,40}(\.[0-9]{0,40})?", re.ASCII
)  # no 1e3, 1_000 or ١٠: amounts as people read them
_MOST = 10**15  # minor units; beyond it an amount is surely a mistake


@dataclass(frozen=True)
class Currency(Described):
    """An ISO 4217 code and the number of digits of its minor unit."""

    code: str

    def __post_init__(self) -> None:
        if len(self.code) != 3 or not (
            self.code.isascii() and self.code.isalpha() and self.code.isupper()
        ):
            raise ParameterError(
                "currency", self.code, "give a code of three capital letters such as EUR"
            )

    @property
    def digits(self) -> int:
        """Digits after the point."""
        return _DIGITS.get(self.code, 2)

    def minor(self, amount: str, at_least: int = 1) -> int:
        """An amount in minor units, exactly; too many digits, too much and less than ``at_least`` is refused."""
        text, which = amount.strip(), {1: "a positive number", 0: "a positive number, or zero,"}
        if not _PLAIN.fullmatch(text.removeprefix("-") if at_least < 0 else text):
            raise ParameterError(
                "amount",
                amount,
                f"write it as {which.get(at_least, 'a number')} such as {self.text(1000000)}",
            )
        value = Decimal(text) * 10**self.digits
        if abs(value) > _MOST:
            raise ParameterError(
                "amount", amount, f"give at most {self.text(_MOST)}; more is surely a mistake"
            )
        if value != value.to_integral_value():
            raise ParameterError(
                "amount", amount, f"{self.code} has {self.digits} digits after the point; round it"
            )
        if value < at_least:
            raise ParameterError("amount", amount, "give an amount above zero")
        return int(value)

    def change(self, amount: str) -> int:
        """The same of an amount that may be below zero."""
        return self.minor(amount, -_MOST)

    def signed(self, text: str) -> int:
        """Minor units of an amount as `text` writes it."""
        return int(Decimal(text) * 10**self.digits)

    def text(self, minor: int) -> str:
        """Minor units as an amount, without the code."""
        sign, whole = ("-" if minor < 0 else ""), f"{abs(minor):0{self.digits + 1}d}"
        return sign + (f"{whole[: -self.digits]}.{whole[-self.digits :]}" if self.digits else whole)

    def shown(self, minor: int) -> str:
        """Minor units as people read them: thousands set apart, and a minus sign that is one."""
        return thousands(self.text(minor)).replace("-", "\N{MINUS SIGN}")


def thousands(amount: str) -> str:
    """An amount as `Currency.text` writes it, for people: thousands set apart."""
    sign = "-" if amount.startswith("-") else ""
    whole, point, rest = amount.removeprefix("-").partition(".")
    return f"{sign}{int(whole):,}{point}{rest}"


@dataclass(frozen=True)
class Division:
    """Minor units per identity: paid now, entitled to, and the balance carried (zero under ``zero``)."""

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
    held: Sequence[bool] | None = None,
    nothing: str = "the data are worth nothing",
) -> Division:
    """Divide an amount by whole weights; see the module. ``opening`` balances join the entitlements.

    ``payee[i]`` is the number of the payee that identity i belongs to: weights are netted within it. Who is
    ``held`` is paid nothing now: all it is entitled to is its balance, and the others are paid the amount. ``nothing``
    says what it means of the data if the weights do not add up to anything.
    """
    total = sum(weight)
    if total * _NOISE <= sum(map(abs, weight)):  # also scores that cancel, but for rounding
        raise DataMarketError(
            "the scores do not add up to anything above zero, so there is nothing to divide by: on these "
            f"validation rows {nothing}; {_to_look_at(weight, names)}check labels and "
            "validation rows"
        )
    due = [Fraction(amount * w, total) for w in weight]
    due = [e + o for e, o in zip(due, opening or [0] * len(due), strict=True)]
    now = [Fraction(0) if h else e for e, h in zip(due, held or [False] * len(due), strict=True)]
    netted, gains = _by_payee(now, payee), _by_payee([max(e, Fraction(0)) for e in now], payee)
    pool = sum((max(n, Fraction(0)) for n in netted.values()), Fraction(0))
    if pool <= 0:
        raise DataMarketError(
            "old balances outweigh this run's amount, so nobody can be paid; raise the amount"
        )
    exact = [
        amount * max(netted[g], Fraction(0)) / pool * max(e, Fraction(0)) / gains[g]
        if netted[g] > 0
        else Fraction(0)
        for e, g in zip(now, payee, strict=True)
    ]
    order = by_content(keys, names)
    paid = largest_remainder(amount, exact, order)
    entitled = largest_remainder(amount + sum(opening or []), due, order)
    balance = [e - p for e, p in zip(entitled, paid, strict=True)]
    return Division(paid, entitled, balance, exact)


def _to_look_at(weight: Sequence[int], names: Sequence[str]) -> str:
    """Who takes most away, where others bring something: a few mislabelled units must not stop a payday unseen."""
    harm = sorted((w, name) for w, name in zip(weight, names, strict=True) if w < 0)[:_NAMED]
    if not harm or max(weight) <= 0:
        return ""
    told = ", ".join(repr(visible(name)) for _, name in harm)
    return f"furthest below zero: {told}; look at their units first and pay without those that are wrong, or "


def _by_payee(values: Sequence[Fraction], payee: Sequence[int]) -> dict[int, Fraction]:
    out: dict[int, Fraction] = {}
    for value, group in zip(values, payee, strict=True):
        out[group] = out.get(group, Fraction(0)) + value
    return out
