"""Cents: nothing lost, nobody off by one, ties by content."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.mechanism.payment_tables import largest_remainder
from datamarket_gym.payout.money import Currency, divide, thousands

weights = st.lists(st.integers(-(2**48), 2**48), min_size=1, max_size=12)


def keys(n):
    return [f"{i:064x}".encode() for i in range(n)]


def names(n):
    return [f"name {i}" for i in range(n)]


@settings(max_examples=200, deadline=None)
@given(weights, st.integers(1, 10**9), st.data())
def test_sums_are_exact_and_nobody_is_off_by_a_cent(weight, amount, data):
    if sum(weight) * 10**9 <= sum(map(abs, weight)):  # or all but cancel
        with pytest.raises(DataMarketError, match="nothing to divide by"):
            divide(amount, weight, range(len(weight)), keys(len(weight)), names(len(weight)))
        return
    payee = [data.draw(st.integers(0, len(weight) - 1)) for _ in weight]
    found = divide(amount, weight, payee, keys(len(weight)), names(len(weight)))
    assert sum(found.paid) == amount == sum(found.entitled)
    assert sum(found.balance) == 0
    assert all(p >= 0 and abs(p - e) < 1 for p, e in zip(found.paid, found.exact, strict=True))
    due = [Fraction(amount * w, sum(weight)) for w in weight]
    assert all(abs(e - d) < 1 for e, d in zip(found.entitled, due, strict=True))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 2**40), min_size=2, max_size=10), st.integers(1, 10**6), st.randoms())
def test_order_and_names_decide_nothing(weight, amount, random):
    if not sum(weight):
        return
    n = len(weight)
    first = divide(amount, weight, range(n), keys(n), names(n)).paid
    order = random.sample(range(n), n)
    moved = divide(
        amount,
        [weight[i] for i in order],
        range(n),
        [keys(n)[i] for i in order],
        [f"other {i}" for i in order],
    ).paid
    assert [moved[order.index(i)] for i in range(n)] == first


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 2**40), min_size=2, max_size=8), st.integers(1, 10**6), st.integers(0, 2**40)
)
def test_splitting_moves_no_more_than_the_rounding(weight, amount, part):
    if not sum(weight):
        return
    part = min(part, weight[0])
    n = len(weight)
    whole = divide(amount, weight, range(n), keys(n), names(n))
    split = divide(
        amount, [weight[0] - part, *weight[1:], part], range(n + 1), keys(n + 1), names(n + 1)
    )
    assert split.exact[0] + split.exact[-1] == whole.exact[0]
    assert split.exact[1:-1] == whole.exact[1:]
    assert abs(split.paid[0] + split.paid[-1] - whole.paid[0]) < 3  # one cent for each of three names


def test_ties_go_by_content_then_by_lot():
    third = [Fraction(1, 3)] * 3
    assert largest_remainder(1, third, [2, 0, 1]) == [0, 0, 1]
    found = divide(1, [1, 1, 1], range(3), [b"b", b"a", b"c"], ["x", "y", "z"])
    assert found.paid == [0, 1, 0]
    lots = {tuple(divide(1, [1, 1], range(2), [b"k", b"k"], [f"x{i}", f"y{i}"]).paid) for i in range(20)}
    assert lots == {(0, 1), (1, 0)}  # neither the first nor the alphabet always wins


def test_linked_identities_are_netted():
    apart = divide(100, [60, -20, 60], [0, 1, 2], keys(3), names(3))
    together = divide(100, [60, -20, 60], [0, 0, 2], keys(3), names(3))
    assert apart.paid == [50, 0, 50]
    assert apart.balance == [10, -20, 10]
    assert together.paid == [40, 0, 60]
    assert together.entitled == apart.entitled


def test_opening_balances_are_settled():
    first = divide(100, [60, -20, 60], [0, 1, 2], keys(3), names(3))
    second = divide(1000, [1, 1, 1], range(3), keys(3), names(3), first.balance)
    assert second.entitled == [e + b for e, b in zip([334, 333, 333], first.balance, strict=True)]
    assert second.paid == second.entitled
    assert second.balance == [0, 0, 0]


@pytest.mark.parametrize(
    ("code", "amount", "minor"),
    [("EUR", "10000.00", 1_000_000), ("JPY", "500", 500), ("KWD", "1.234", 1234)],
)
def test_currencies(code, amount, minor):
    money = Currency(code)
    assert money.minor(amount) == minor
    assert money.signed(money.text(-minor)) == -minor


@pytest.mark.parametrize("amount", ["0", "-5", "1.005", "nan", "inf", "ten", "", "1e30"])
def test_impossible_amounts_are_refused(amount):
    with pytest.raises(ParameterError, match="amount"):
        Currency("EUR").minor(amount)


@pytest.mark.parametrize("code", ["eur", "EU", "EURO", "€€€"])
def test_impossible_currencies_are_refused(code):
    with pytest.raises(ParameterError, match="currency"):
        Currency(code)


def test_changes_may_be_below_zero_and_limits_zero():
    euro = Currency("EUR")
    assert (euro.change("-0.05"), euro.change("12.5"), euro.minor("0.0", at_least=0)) == (-5, 1250, 0)
    for refused in ("--5", "0.001", "-0.001", "1e20", "nan"):
        with pytest.raises(ParameterError, match="amount"):
            euro.change(refused)
    with pytest.raises(ParameterError, match="or zero"):
        euro.minor("-1", at_least=0)


@pytest.mark.parametrize("code", ["EUR", "JPY", "KWD"])
@given(minor=st.integers(-(10**15), 10**15))
def test_amounts_for_people_say_what_amounts_say(code, minor):
    text = Currency(code).text(minor)
    assert thousands(text).replace(",", "") == text
