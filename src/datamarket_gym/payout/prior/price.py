"""What a period adds, at the price of what was bought before: a hint for how much money it should divide.

Earlier runs divided so much for U(P), counted from U of no units, both on this run's validation rows; the new units add
v(all). At the same price they are worth amount x v(all) / U(P). Where every period divides the same amount whatever it
adds, units are dearer later, and whoever waits with them is paid more.
"""

from __future__ import annotations

from typing import Any

from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.results import Results


def priced_given(results: Results) -> dict[str, Any]:
    """What was there is worth, what is new adds, and in minor units what that is at the earlier price, or None.

    There is none where earlier runs divided another currency, or where either is worth nothing.
    """
    prior, spec = results.inputs.prior, results.spec
    if prior is None:
        return {}
    utility = results.utility
    there = utility.empty_value - utility.nothing_value
    adds = results.payments.scores.grand_value
    same = {run.currency for run in prior.runs} == {spec.currency}
    price = None
    if same and there > 0 and adds > 0:
        price = round(sum(run.amount for run in prior.runs) * adds / there)
    return {"there": there, "adds": adds, "at_earlier_price": price}


def price_words(given: dict[str, Any], amount: int, currency: str) -> str:
    """The same in a sentence; blank where there is no earlier price."""
    price = given.get("at_earlier_price")
    if price is None:
        return ""
    money = Currency(currency)
    then, now = (f"{currency} {money.shown(each)}" for each in (price, amount))
    return (
        f"What is new adds {given['adds'] / given['there']:.1%} to the worth of what was bought; at the price of then "
        f"that is {then}, and this run divides {now}. Where every period divides the same, whoever waits is paid more."
    )
