"""Cents by hand: who gets the odd one, what a debt does, and how amounts are written."""

from fractions import Fraction
from itertools import permutations

import pytest

from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.mechanism.allocation import largest_remainder
from datamarket_gym.payout.money import _DIGITS, Currency, divide


def parts(*numbers):
    return [Fraction(number) for number in numbers]


def paid(amount, weight, payee=None, opening=None, keys=None, names=None):
    n = len(weight)
    return divide(
        amount,
        weight,
        payee or range(n),
        keys or [bytes([i]) for i in range(n)],
        names or [f"name {i}" for i in range(n)],
        opening,
    )


def test_odd_cents_go_to_the_largest_remainders():
    exact = parts("1.2", "1.7", "3.6", "0.5")
    for order in permutations(range(4)):  # where remainders differ, the order decides nothing
        assert largest_remainder(7, exact, order) == [1, 2, 4, 0]
    assert largest_remainder(5, exact, range(4)) == [1, 1, 3, 0]
    assert largest_remainder(6, exact, range(4)) == [1, 2, 3, 0]


def test_equal_remainders_go_by_the_order_given():
    exact = parts("0.5", "1.5", "2.5", "3.5")
    assert largest_remainder(8, exact, [3, 1, 0, 2]) == [0, 2, 2, 4]
    assert largest_remainder(8, exact, [2, 0, 1, 3]) == [1, 1, 3, 3]
    mixed = parts("0.4", "0.4", "0.8", "0.4")  # a larger remainder comes before any tie
    assert largest_remainder(2, mixed, [3, 1, 0, 2]) == [0, 0, 1, 1]


def test_a_remainder_below_zero_is_counted_from_the_floor():
    assert largest_remainder(0, parts("-1.25", "0.5", "0.75"), range(3)) == [-1, 0, 1]


def test_what_is_paid_by_weight():
    found = paid(100, [5, 3, 2])
    assert (found.paid, found.entitled, found.balance) == ([50, 30, 20], [50, 30, 20], [0, 0, 0])
    assert paid(10, [1, 1, 1]).paid == [4, 3, 3]
    assert paid(11, [1, 1, 1]).paid == [4, 4, 3]
    assert paid(10, [10, 6, 4]).paid == [5, 3, 2]  # weights count as shares


def test_the_odd_cent_follows_content_and_not_the_place_in_the_list():
    assert paid(10, [1, 1, 1], keys=[b"c", b"b", b"a"]).paid == [3, 3, 4]
    assert paid(10, [1, 1, 1], keys=[b"b", b"a", b"c"]).paid == [3, 4, 3]


def test_lots_are_drawn_anew_in_every_market():
    def lot(stranger, names):
        return paid(1, [1, 1, 0], keys=[b"k", b"k", bytes([stranger])], names=[*names, "z"]).paid

    lots = [tuple(lot(i, ["x", "y"])) for i in range(30)]
    assert set(lots) == {(1, 0, 0), (0, 1, 0)}  # it takes all content to know whom a lot favours
    for i, (first, second, _) in enumerate(lots):  # and the order of rows does not matter
        assert lot(i, ["y", "x"]) == [second, first, 0]
        keys = [bytes([i]), b"k", b"k"]
        assert paid(1, [0, 1, 1], keys=keys, names=["z", "x", "y"]).paid == [0, first, second]


def test_a_debt_is_borne_by_those_above_zero_in_proportion():
    found = paid(100, [60, -20, 60])
    assert found.entitled == [60, -20, 60]
    assert found.paid == [50, 0, 50]
    assert found.balance == [10, -20, 10]


def test_a_payee_is_paid_the_net_and_its_names_by_what_each_earned():
    # payee 0: 60 + 20 - 20 = 60 net, of which three quarters went to the first name
    found = paid(120, [60, 20, -20, 60], payee=[0, 0, 0, 1])
    assert found.paid == [45, 15, 0, 60]
    assert found.balance == [15, 5, -20, 0]


def test_a_payee_whose_names_net_to_a_loss_is_paid_nothing():
    found = paid(100, [30, -50, 120], payee=[0, 0, 1])
    assert found.paid == [0, 0, 100]
    assert found.balance == [30, -50, 20]


def test_a_payee_that_nets_to_nothing_is_paid_nothing():
    assert paid(100, [50, -50, 100], payee=[0, 0, 1]).paid == [0, 0, 100]


def test_old_balances_join_what_one_is_entitled_to():
    found = paid(100, [1, 1], opening=[30, -30])
    assert (found.paid, found.entitled, found.balance) == ([80, 20], [80, 20], [0, 0])
    found = paid(100, [1, 1], opening=[-70, 20])  # more was brought in as debt than as credit
    assert found.entitled == [-20, 70]
    assert found.paid == [0, 100]
    assert found.balance == [-20, -30]


def test_there_must_be_something_to_divide_by():
    for weight in ([0, 0], [1, -1], [1, -2]):
        with pytest.raises(DataMarketError, match="nothing to divide by"):
            paid(100, weight)
    for opening in ([-50, -50], [-60, -70]):
        with pytest.raises(DataMarketError, match="raise the amount"):
            paid(100, [1, 1], opening=opening)


@pytest.mark.parametrize(
    ("code", "minor", "text"),
    [
        ("EUR", 5, "0.05"), ("EUR", -5, "-0.05"), ("EUR", 123456, "1234.56"), ("EUR", 0, "0.00"),
        ("EUR", -100, "-1.00"), ("JPY", 5, "5"), ("JPY", -1200, "-1200"), ("KWD", 7, "0.007"), ("KWD", 1000, "1.000"),
        ("ISK", 70, "70"), ("TND", 70, "0.070"), ("CHF", 70, "0.70"),
    ],
)  # fmt: skip
def test_amounts_as_they_are_written(code, minor, text):
    assert Currency(code).text(minor) == text
    assert Currency(code).signed(text) == minor


def test_the_largest_and_the_smallest_amount():
    assert Currency("EUR").minor("0.01") == 1
    assert Currency("EUR").minor("10000000000000.00") == 10**15
    refused = {
        "10000000000000.01": r"at most 10000000000000\.00",
        "0.00": "above zero",
        "0.001": "EUR has 2 digits",
        "-0.01": "a positive number",
    }
    for amount, said in refused.items():
        with pytest.raises(ParameterError, match=said):
            Currency("EUR").minor(amount)
    with pytest.raises(ParameterError, match="JPY has 0 digits"):
        Currency("JPY").minor("1.5")


@pytest.mark.parametrize("code", ["EUr", "E1R", "ÄÖÜ", "EU ", ""])
def test_a_code_is_three_capital_letters(code):
    with pytest.raises(ParameterError, match="three capital letters"):
        Currency(code)


def test_a_mistyped_currency_is_refused_with_what_may_be_meant():
    with pytest.raises(ParameterError, match="did you mean EUR"):
        Currency("ERU")


def test_currencies_are_those_of_iso_4217():
    pycountry = pytest.importorskip("pycountry")
    known = {each.alpha_3 for each in pycountry.currencies}
    funds = {"BOV", "CHE", "CHW", "CLF", "COU", "MXV", "USN", "UYI", "UYW"}  # and units of account
    assert {code for code in known if code[0] != "X"} - funds == {c for c in _DIGITS if c[0] != "X"}
    assert set(_DIGITS) <= known
    digits = {"EUR": 2, "JPY": 0, "ISK": 0, "KWD": 3, "TND": 3, "UGX": 0, "MGA": 2}
    assert {code: _DIGITS[code] for code in digits} == digits
