"""The expectation over all outcomes of checks, held to a recursion over drafts; and the parts of a name's pay."""

import itertools
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest

from datamarket_gym import ProviderMarket, Utility, create, get_mechanism
from datamarket_gym.analysis.spot_checks import CheckedAttack, NamePay, _Market
from datamarket_gym.analysis.theorems import Checks
from datamarket_gym.errors import LeakedRowsWarning
from datamarket_gym.mechanism.payment_tables import unit_amounts

NAMES = ("a", "b", "c")


def market(rng):
    """What three names earn in a draft; some of them less than nothing, some nothing that is false."""
    names = {}
    for name in NAMES:
        own, false = rng.normal(0.3, 0.4, size=4), rng.normal(0.3, 0.4, size=3) * rng.integers(0, 2)
        units = np.concatenate([own, false])
        gains = np.maximum(units, 0.0)
        names[name] = NamePay(
            units.sum(), gains.sum(), np.maximum(false, 0.0).sum(), own.sum(), gains.max()
        )
    return _Market(names, 2.0 + rng.random() + sum(pays.due for pays in names.values()))


def attack(seed, honest_pay=0.5):
    """An attack of which every draft is known beforehand, so that nothing is paid."""
    rng = np.random.default_rng(seed)
    made = object.__new__(CheckedAttack)
    made.provider, made.honest_pay, made._names = "somebody", honest_pay, list(NAMES)
    sets = (frozenset(s) for n in range(4) for s in itertools.combinations(NAMES, n))
    made._markets = {failed: market(rng) for failed in sets}
    return made


def played(made, checks):
    """Payment, share, drafted, what of that is for genuine units, and kappa: draft by draft, from the first on."""
    sums, kappa = np.zeros(4), [1.0]

    def draft(failed, chance):
        found = made._markets[failed]
        left = {name: found.names[name] for name in NAMES if name not in failed}
        passes = {n: (1 - checks.power * p.drawn_false) ** checks.per_payee for n, p in left.items()}
        for name, pays in left.items():
            others = math.prod(passes[other] for other in left if other != name)
            sums[2:] += chance * others * np.array([pays.due, pays.own])
            kappa.append(pays.positive / pays.total if pays.total > 0 else 1.0)
        for fails in itertools.product((False, True), repeat=len(left)):
            caught = frozenset(name for name, bad in zip(left, fails, strict=True) if bad)
            likely = chance * math.prod(1 - passes[n] if n in caught else passes[n] for n in left)
            if caught:
                if likely:
                    draft(failed | caught, likely)
            else:
                due = sum(max(pays.total, 0.0) for pays in left.values())
                sums[:2] += likely * np.array([due, due / found.pot])

    draft(frozenset(), 1.0)
    return (*sums, max(kappa))


def share_where_the_rest_stays(made, checks):
    """One round: who fails is paid nothing, and what was not found of it stays where it is."""
    found = made._markets[frozenset()]
    passes = {n: (1 - checks.power * p.drawn_false) ** checks.per_payee for n, p in found.names.items()}
    share = 0.0
    for fails in itertools.product((False, True), repeat=len(NAMES)):
        caught = [name for name, bad in zip(NAMES, fails, strict=True) if bad]
        likely = math.prod(1 - passes[n] if n in caught else passes[n] for n in NAMES)
        lost = sum(max(found.names[n].total, 0.0) for n in caught)
        due = sum(max(found.names[n].total, 0.0) for n in NAMES) - lost
        share += likely * due / (found.pot - lost)
    return share


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("checks", [Checks(0), Checks(1, 0.5), Checks(2, 0.9), Checks(3, 1.0)])
def test_the_expectation_is_that_of_all_paths(seed, checks):
    made = attack(seed)
    pay, share, drafted, earned, kappa = played(made, checks)
    share = max(share, share_where_the_rest_stays(made, checks))
    found = made.expected(checks)
    assert (found.pay, found.share, found.drafted) == pytest.approx((pay, share, drafted), abs=1e-12)
    assert found.kappa == pytest.approx(kappa)  # names that are paid nothing have none
    assert found.externality == pytest.approx(max(0.0, earned - 0.5), abs=1e-12)
    first = made._markets[frozenset()].names.values()
    due = sum(pays.due for pays in first)
    if due > 0:
        assert found.false_share == pytest.approx(1 - sum(pays.own for pays in first) / due)


def test_who_is_worth_less_than_nothing_when_honest_is_paid_nothing_then():
    """The externality counts from honest pay, and that is no debt."""
    owes, even = attack(3, honest_pay=-0.4), attack(3, honest_pay=0.0)
    assert owes.expected(Checks()).externality == even.expected(Checks()).externality > 0


def test_the_terms_that_are_filed_are_those_of_the_expectation():
    found = attack(5).expected(Checks(2, 0.7))
    filed = found.deterrence()
    assert (filed.per_payee, filed.power, filed.examined) == (
        2,
        0.7,
        "anew",
    )  # every draw is a look here
    assert (filed.payment, filed.kappa, filed.externality.amount) == (
        found.drafted,
        found.kappa,
        found.externality,
    )
    assert filed.externality.known == "measured"
    assert found.pay <= 0.5 + filed.residual + 1e-12


def test_a_name_that_loses_money_is_paid_nothing_and_earns_nothing_for_its_genuine_units():
    loses = NamePay(total=-0.2, positive=0.5, false=0.1, genuine=0.3, largest=0.3)
    assert (loses.due, loses.own) == (0.0, 0.0)
    assert loses.kappa == math.inf


def test_false_units_below_zero_do_not_make_genuine_ones_earn_more_than_is_paid():
    pays = NamePay(total=0.4, positive=1.0, false=0.2, genuine=0.8, largest=0.5)
    assert pays.own == 0.4
    assert NamePay(0.4, 1.0, 0.9, -0.5, 0.5).own == 0.0  # and losses of genuine ones are no debt


def test_draws_go_by_the_positive_amounts():
    pays = NamePay(total=0.5, positive=1.0, false=0.25, genuine=0.3, largest=0.4)
    assert (pays.drawn_false, pays.kappa, pays.largest_unit) == (0.25, 2.0, 0.4)
    assert NamePay(0.0, 0.0, 0.0, 0.0, 0.0).drawn_false == 0.0


def test_the_pot_is_what_those_are_owed_who_have_not_failed():
    """Names below zero owe nothing to it, and who failed has no part in it, though its genuine units play."""
    market = ProviderMarket.from_task("synthetic(n_providers=4, per_provider=12)", seed=2)
    oracle, m = market.utility_oracle(Utility.paying("knn")), get_mechanism("recommended")
    profile = create("attack", "label_poisoning").apply(0, market.state)
    names = profile.identities_of("provider_0")
    made = CheckedAttack(m, profile, market.honest, oracle, "provider_0", 0.1)
    paid = m.pay(profile.submission, oracle, profile.truth)
    assert paid.totals.min() < 0
    assert made._after(frozenset()).pot == pytest.approx(np.maximum(paid.totals, 0.0).sum())
    others = create("attack", "junk_padding(ratio=0.2)").apply(1, market.state)
    made = CheckedAttack(m, others, market.honest, oracle, "provider_1", 0.1)
    failed = frozenset(others.identities_of("provider_1"))
    left = m.pay(
        market.honest.submission, oracle, market.honest.truth
    )  # its junk is out, the rest plays on
    amounts = {name: max(amount, 0.0) for name, amount in left.as_dict().items()}
    assert made._after(failed).pot == pytest.approx(sum(amounts.values()) - amounts["provider_1"])
    assert names == ["provider_0"]
    assert amounts["provider_1"] > 0


def test_units_that_were_set_aside_do_not_move_whose_is_whose():
    """Leaked rows are out of the game: what plays is shorter than what was submitted, and rows are told by it."""
    market = ProviderMarket.from_task("synthetic(n_providers=4, per_provider=12)", seed=2)
    oracle, m = market.utility_oracle(Utility.paying()), get_mechanism("recommended")
    profile = create("attack", "leak_stuffing").apply(0, market.state)
    first = np.arange(len(profile.submission))[::-1]  # the leaked rows before all others
    profile = replace(profile, submission=profile.submission.take(first))
    with pytest.warns(LeakedRowsWarning):
        paid = m.pay(profile.submission, oracle, profile.truth)
    assert len(paid.leaks)
    amounts, ids = unit_amounts(paid), paid.clustering.submission.id
    mine = [paid.identities[i] == "provider_0" for i in amounts.identity]
    own = np.isin(ids[amounts.row], market.honest.submission.id)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeakedRowsWarning)
        made = CheckedAttack(m, profile, market.honest, oracle, "provider_0", 0.1, paid)
    pays = made._after(frozenset()).names["provider_0"]
    assert pays.genuine == pytest.approx(amounts.amount[mine & own].sum())
    assert pays.false == pytest.approx(amounts.amount[mine & ~own].sum())
    assert pays.largest == amounts.amount[mine].max()
