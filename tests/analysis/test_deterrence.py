"""Spot checks: the bound, on random payees and simulated draws; what it needs; the certificate that names it all."""

import json

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import binom

from datamarket_gym.analysis.theorems import (
    Checks,
    Externality,
    checks_needed,
    deterrence,
    deterrence_gap,
    expected_false_alarm_cost,
    false_alarm_probability,
)
from datamarket_gym.analysis.theorems.deterrence import Deterrence, Earned
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.utilities.oracle import Utility

CHECKS = st.builds(Checks, st.integers(0, 6), st.floats(0.001, 1.0))
SEEDS = st.integers(0, 2**32 - 1)
NO_SPILL = Externality(known="assumed", amount=0.0)


class Payee:
    """Units with random amounts, some of them false, and some of them, with ``losses``, below zero."""

    def __init__(self, seed, losses):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 30))
        self.amount = rng.exponential(size=n) * rng.choice([0.01, 1.0, 10.0], size=n)
        if losses:
            self.amount[rng.random(n) < rng.random() / 2] *= -rng.random()
        self.false = rng.random(n) < rng.random()
        self.rng = rng
        self.gains = np.maximum(self.amount, 0.0)
        self.total, self.positive = self.amount.sum(), self.gains.sum()
        self.genuine = self.amount[~self.false].sum()

    @property
    def drawn_false(self):
        return self.gains[self.false].sum() / self.positive

    def paid_in_simulation(self, checks, times):
        """What is paid in so many simulated payout runs: draws in proportion to what units earn, then looks."""
        drawn = self.rng.choice(
            len(self.amount), size=(times, checks.per_payee), p=self.gains / self.positive
        )
        found = self.false[drawn] & (self.rng.random(drawn.shape) < checks.power)
        return np.where(found.any(axis=1), 0.0, max(self.total, 0.0))


# ---- the bound


@given(seed=SEEDS, checks=CHECKS, losses=st.booleans(), honest=st.floats(0.0, 30.0))
@settings(max_examples=200, deadline=None)
def test_no_payee_gains_more_than_the_bound(seed, checks, losses, honest):
    """Whatever the amounts, whatever is false, whatever it would have earned honestly."""
    payee = Payee(seed, losses)
    assume(payee.total > 1e-6)
    externality = max(0.0, max(payee.genuine, 0.0) - honest)
    pay = payee.total * checks.passes(payee.drawn_false)
    gap = deterrence_gap(checks, payee.positive / payee.total)
    assert pay - honest <= payee.total * gap + externality + 1e-9 * payee.positive
    not_genuine = payee.total - min(max(payee.genuine, 0.0), payee.total)
    assert (
        pay - honest <= not_genuine * gap + externality + 1e-9 * payee.positive
    )  # of false money the gap is left
    simulated = payee.paid_in_simulation(checks, 2000)
    assert abs(simulated.mean() - pay) <= 6 * payee.total * np.sqrt(0.25 / 2000) + 1e-9
    bound = honest + payee.total * gap + externality
    assert simulated.mean() <= bound + 6 * payee.total * np.sqrt(0.25 / 2000) + 1e-9


@given(seed=SEEDS)
@settings(deadline=None)
def test_one_perfect_check_leaves_exactly_nothing_whatever_the_share_of_false_units(seed):
    """q = kappa = m = 1: expected pay is what the genuine units earn, at every y."""
    payee, checks = Payee(seed, losses=False), Checks(1, 1.0)
    assert deterrence_gap(checks) == 0.0
    pay = payee.total * checks.passes(payee.drawn_false)
    assert pay == pytest.approx(payee.genuine, abs=1e-12 * payee.total)


@given(seed=SEEDS, checks=CHECKS, names=st.integers(1, 12))
@settings(deadline=None)
def test_the_bound_adds_up_over_names(seed, checks, names):
    """Several names gain no more than the sum of their bounds, and without losses that sum is the bound of one."""
    payee = Payee(seed, losses=seed % 2 == 0)
    name = payee.rng.integers(names, size=len(payee.amount))
    pay = bound = genuine = 0.0
    for j in range(names):
        mine = name == j
        total, positive = payee.amount[mine].sum(), payee.gains[mine].sum()
        if total <= 1e-9 * positive:  # paid nothing; what it saves is externality, below
            continue
        pay += total * checks.passes(payee.gains[mine & payee.false].sum() / positive)
        bound += total * deterrence_gap(checks, positive / total)
        genuine += max(payee.amount[mine & ~payee.false].sum(), 0.0)
    honest = max(payee.genuine, 0.0)
    externality = max(0.0, genuine - honest)
    assert pay - honest <= bound + externality + 1e-9 * payee.positive
    if (payee.amount >= 0).all():
        assert externality <= 1e-9 * payee.positive
        assert bound == pytest.approx(payee.total * deterrence_gap(checks))


def test_what_is_parked_below_zero_is_spill():
    """Bad units under a name of their own are not paid for: the others earn more than all did together."""
    amount, name = np.array([3.0, 2.0, -4.0]), np.array(["a", "a", "b"])
    one, two = (
        deterrence(Earned(who, amount), Checks(), externality=NO_SPILL)
        for who in (name[[0, 0, 0]], name)
    )
    assert one.payment == pytest.approx(1.0)
    assert one.kappa == pytest.approx(5.0)
    assert (two.payment, two.payees, two.kappa) == (
        5.0,
        1,
        1.0,
    )  # 4 more than honest pay, with nothing false


@given(checks=CHECKS, kappa=st.floats(1.0, 50.0))
@settings(deadline=None)
def test_the_gap_is_the_largest_over_a_fine_grid(checks, kappa):
    y = np.linspace(0.0, 1.0, 2001)
    on_grid = ((1.0 - checks.power * y / kappa) ** checks.per_payee - (1.0 - y)).max()
    assert deterrence_gap(checks, kappa) == pytest.approx(on_grid, abs=1e-12)


@given(
    power=st.floats(0.01, 1.0),
    kappa=st.floats(1.0, 20.0),
    gain=st.floats(1e-9, 1.0),
    largest_unit=st.sampled_from([0.0, 0.0, 1e-3, 0.02]),
)
@settings(deadline=None)
def test_so_many_checks_are_needed_and_no_fewer(power, kappa, gain, largest_unit):
    try:
        m = checks_needed(power, kappa, gain, largest_unit=largest_unit)
    except ParameterError:
        assume(largest_unit > 0.0)
        assert deterrence_gap(Checks(2**29, power), kappa, largest_unit=largest_unit) > gain
        return
    assert deterrence_gap(Checks(m, power), kappa, largest_unit=largest_unit) <= gain
    assert m == 0 or deterrence_gap(Checks(m - 1, power), kappa, largest_unit=largest_unit) > gain


def test_a_gain_of_nothing_needs_perfect_checks():
    assert checks_needed(1.0) == checks_needed(1.0, largest_unit=0.3) == 1
    assert checks_needed(0.8, gain=1.0) == 0
    assert checks_needed(0.8, gain=0.02) == 3
    with pytest.raises(ParameterError, match=r"3 leave 0\.008"):
        checks_needed(0.8)
    with pytest.raises(ParameterError, match=r"3 leave 0\.12"):
        checks_needed(1.0, kappa=2.0)
    with pytest.raises(ParameterError, match="power"):
        checks_needed(0.0, gain=0.1)
    with pytest.raises(ParameterError, match="kappa"):
        checks_needed(0.8, kappa=0.5, gain=0.1)


def test_draws_over_the_whole_pot_would_miss_many_small_names():
    """A thousand false names with a tenth of a pot: thirty draws from the pot leave them nearly all of it."""
    names, pot, stolen, q = 1000, 100.0, 10.0, 0.8
    each = stolen / names
    from_the_pot = names * each * (1.0 - q * each / pot) ** 30
    of_each = names * each * Checks(3, q).passes(1.0)
    assert from_the_pot > 0.99 * stolen
    assert of_each == pytest.approx(stolen * 0.2**3)
    assert from_the_pot > 0.9 * stolen > stolen * deterrence_gap(Checks(3, q))


# ---- what the theorem needs: each of these fails without it


def passes_if_examined_once(share, false, checks):
    """Exactly: each false unit is found out or not, and the payee passes if no draw falls on one that is."""
    masses, likely = np.zeros(1), np.ones(1)
    for mass in share[false]:
        masses = np.concatenate([masses, masses + mass])
        likely = np.concatenate([likely * (1 - checks.power), likely * checks.power])
    return float(likely @ np.clip(1.0 - masses, 0.0, 1.0) ** checks.per_payee)


@given(seed=SEEDS, checks=CHECKS, losses=st.booleans())
@settings(max_examples=150, deadline=None)
def test_a_unit_that_is_drawn_twice_and_examined_once(seed, checks, losses):
    """A look that is not repeated tells no more the second time; the gap for that bounds what is then gained."""
    payee = Payee(seed, losses)
    assume(payee.total > 1e-6)
    assume(payee.false.sum() <= 12)
    share, kappa = payee.gains / payee.positive, payee.positive / payee.total
    passes = passes_if_examined_once(share, payee.false, checks)
    gap = deterrence_gap(checks, kappa, largest_unit=float(share.max()))
    own = min(max(payee.genuine, 0.0), payee.total)
    assert payee.total * passes <= own + payee.total * gap + 1e-9 * payee.positive
    assert gap >= deterrence_gap(checks, kappa) - 1e-12  # one look is no better than several
    drawn = payee.rng.choice(len(share), size=(2000, checks.per_payee), p=share)
    found_out = payee.rng.random((2000, len(share))) < checks.power  # one look a unit
    caught = payee.false[drawn] & np.take_along_axis(found_out, drawn, axis=1)
    assert abs((~caught.any(axis=1)).mean() - passes) <= 6 * np.sqrt(0.25 / 2000)


@given(checks=CHECKS, kappa=st.floats(1.0, 4.0), w=st.floats(0.02, 1.0))
@settings(deadline=None)
def test_the_gap_of_single_looks_is_reached_by_as_few_false_units_as_there_can_be(checks, kappa, w):
    """On a grid of y: false units of the largest size, and one of what is left."""
    grid = []
    for mass in np.linspace(0.0, 1.0 / kappa, 200):
        n = int(mass / w)
        found = np.arange(n + 1)
        likely = binom.pmf(found, n, checks.power)
        rest = mass - n * w
        passes = [
            likely @ np.clip(1.0 - found * w - hit * rest, 0.0, 1.0) ** checks.per_payee
            for hit in (0, 1)
        ]
        grid.append((1 - checks.power) * passes[0] + checks.power * passes[1] - (1.0 - kappa * mass))
    assert deterrence_gap(checks, kappa, largest_unit=w) >= max(grid) - 1e-9
    assert deterrence_gap(checks, kappa, largest_unit=w) <= max(grid) + kappa / 199 + 1e-9


def test_one_false_unit_examined_once_passes_as_often_as_one_look_does():
    """Three looks at one fake are no three looks where the second only reads the first's note."""
    checks = Checks(3, 0.8)
    assert deterrence_gap(checks) == pytest.approx(0.008)
    assert deterrence_gap(checks, largest_unit=1.0) == pytest.approx(0.2)
    assert deterrence_gap(checks, largest_unit=0.5) == pytest.approx(0.04 + 2 * 0.16 * 0.5**3)
    assert deterrence_gap(checks, largest_unit=0.02) == pytest.approx(
        1244.8 / 50**3
    )  # E[L^3], L of 50 at 0.2
    assert deterrence_gap(checks, largest_unit=1e-12) == pytest.approx(0.008, rel=1e-4)
    assert checks_needed(0.8, gain=0.02, largest_unit=0.05) == 3
    assert checks_needed(0.8, gain=0.02, largest_unit=0.2) == 4
    with pytest.raises(ParameterError, match=r"any number more than 0\.04"):
        checks_needed(0.8, gain=0.02, largest_unit=0.5)


def shares(units, rows):
    """The "is anybody here?" games of coverage: each row's worth is shared by the units there."""
    paid = dict.fromkeys(units, 0.0)
    for near, worth in rows:
        here = [unit for unit in near if unit in units]
        for unit in here:
            paid[unit] += worth / len(here)
    return paid


def test_genuine_units_of_who_failed_must_go_on_playing():
    """Insurance: with them out, the attacker's other name earns what they did, and failing costs nothing."""
    rows = [(("own", "spare"), 1.0), (("fake",), 10.0)]  # the spare is as good as the own one
    perfect = Checks(1, 1.0)
    honest = sum(shares({"own", "spare"}, rows).values())
    draft = shares({"own", "spare", "fake"}, rows)
    risky = draft["own"] + draft["fake"]  # one name; the spare is under another
    passes = perfect.passes(draft["fake"] / risky)
    stay, leave = shares({"own", "spare"}, rows)["spare"], shares({"spare"}, rows)["spare"]
    assert passes * sum(draft.values()) + (1 - passes) * stay == pytest.approx(honest)
    assert passes * sum(draft.values()) + (1 - passes) * leave > 1.4 * honest


def test_a_new_draft_must_be_drawn_anew():
    """Decoys: fakes that crowd another name's fakes out of the draft are caught, and leave the pay to those behind."""
    decoys = [f"decoy {i}" for i in range(99)]
    rows = [(("own",), 1.0), (("fake", *decoys), 10.0)]
    perfect, honest = Checks(1, 1.0), 1.0
    draft = shares({"own", "fake", *decoys}, rows)
    passed = perfect.passes(draft["fake"] / (draft["own"] + draft["fake"]))
    after = shares({"own", "fake"}, rows)  # the decoys' name holds nothing genuine: it failed for sure
    total = after["own"] + after["fake"]
    assert passed * total > 9 * honest
    assert passed * perfect.passes(after["fake"] / total) * total <= honest


@given(seed=st.integers(0, 10**6))
@settings(deadline=None)
def test_of_a_fixed_pot_genuine_units_are_never_paid_more_than_honest_pay(seed):
    """Whoever fails in which draft and whatever is found of it, where what was forfeited is kept."""
    rng = np.random.default_rng(seed)
    names = [*("other" for _ in range(3)), *(f"attacker {i}" for i in range(4))]
    of = {f"unit {i}": str(rng.choice(names)) for i in range(12)}
    fake = {unit for unit, name in of.items() if name != "other" and rng.random() < 0.6}
    mine = {unit for unit, name in of.items() if name != "other"} - fake
    rows = [
        (tuple(rng.choice(list(of), int(rng.integers(1, 7)), replace=False)), rng.exponential())
        for _ in range(9)
    ]

    def paid_for(units, failed, pot):
        amounts = {u: a for u, a in shares(units, rows).items() if of[u] not in failed}
        total = sum(amounts.values())
        return {u: pot * a / total for u, a in amounts.items()} if total else {}

    genuine = set(of) - fake
    honest = paid_for(genuine, set(), 1.0)
    assume(honest)
    most = sum(honest[unit] for unit in mine)
    there, failed, pot = set(of), set(), 1.0
    while True:
        draft = paid_for(there, failed, pot)
        assert sum(draft.get(unit, 0.0) for unit in mine) <= most + 1e-12
        caught = {of[u] for u in there & fake if of[u] not in failed and rng.random() < 0.3}
        if not caught:
            break
        pot -= sum(amount for unit, amount in draft.items() if of[unit] in caught)  # kept
        failed |= caught
        there -= {u for u in there & fake if of[u] in caught and rng.random() < 0.7}


# ---- false alarms


def test_what_false_alarms_cost():
    checks, payments, rate = Checks(3, 0.8), np.array([100.0, 50.0, -20.0]), 0.02
    assert false_alarm_probability(checks, rate) == pytest.approx(1 - 0.98**3)
    cost = expected_false_alarm_cost(checks, rate, payments)
    rng = np.random.default_rng(3)
    alarms = (rng.random((200_000, 3, 3)) < rate).any(axis=2)
    simulated = (alarms * np.maximum(payments, 0.0)).sum(axis=1)
    assert cost == pytest.approx(simulated.mean(), abs=5 * simulated.std() / np.sqrt(200_000))
    assert expected_false_alarm_cost(checks, 0.0, payments) == 0.0
    with pytest.raises(ParameterError, match="rate"):
        expected_false_alarm_cost(checks, 1.5, payments)


# ---- the certificate


def paid(learner="coverage", seed=0):
    market = ProviderMarket.from_task(Synthetic(n_providers=4, per_provider=15, validation=60), seed)
    utility = Utility.paying(learner)
    return get_mechanism("recommended").pay(
        market.honest.submission, market.utility_oracle(utility)
    ), utility


def test_a_run_by_coverage_is_certified_as_deterred():
    payments, utility = paid()
    externality = Externality.by(get_mechanism("recommended"), utility)
    found = deterrence(payments, Checks(3, 0.8), externality=externality, examined="anew")
    assert found.claim == "deterred"
    assert found.kappa == pytest.approx(1.0)
    assert found.payment == pytest.approx(payments.totals.max())
    assert found.paid == pytest.approx(payments.totals.sum())
    assert found.gap == pytest.approx(0.008)
    assert found.residual == pytest.approx(found.payment * 0.008)
    assert (found.payees, found.carried_forward) == (4, 0)
    assert "Manipulation is deterred" in found.words
    assert "expected money" in found.words
    assert "is assumed" in found.words
    assert Deterrence.model_validate_json(found.model_dump_json()) == found


def test_nothing_is_claimed_where_nothing_bounds_the_spill():
    payments, utility = paid("knn")
    externality = Externality.by(get_mechanism("recommended"), utility)
    found = deterrence(payments, Checks(12, 1.0), externality=externality)
    assert externality == Externality(known="unknown")
    assert found.claim == "none"
    assert found.residual is None
    assert found.kappa > 1.0
    assert "nothing bounds the externality" in found.words
    measured = deterrence(
        payments, Checks(12, 1.0), externality=Externality(known="measured", amount=0.0)
    )
    assert measured.claim == "deterred"
    for change in (
        {"semivalue": "banzhaf"}, {"estimator": "permutation"}, {"representative": "collapse"},
        {"allocation": "equal_submitted"}, {"granularity": "identity"},
    ):  # fmt: skip
        other = get_mechanism("recommended", **change)
        assert Externality.by(other, Utility("coverage")).known == "unknown"
    assert (
        Externality.by(get_mechanism("quotient_shapley/cosine@0.9"), Utility("coverage")).known
        == "unknown"
    )


def test_too_few_checks_deter_nobody_and_the_words_say_so():
    payments, utility = paid()
    externality = Externality.by(get_mechanism("recommended"), utility)
    assert deterrence(payments, Checks(0, 0.8), externality=externality).residual == pytest.approx(
        payments.totals.max()
    )
    found = deterrence(payments, Checks(2, 0.8), externality=externality, examined="anew")
    assert found.claim == "none"
    assert "over 2.00% of the largest payment" in found.words
    more = deterrence(payments, Checks(2, 0.8), externality=externality, examined="anew", gain=0.05)
    assert more.claim == "deterred"
    once = deterrence(payments, Checks(3, 0.8), externality=externality)  # unless told otherwise
    assert once.examined == "once"
    assert once.claim == "none"
    assert 0.008 < once.gap == deterrence_gap(Checks(3, 0.8), largest_unit=once.largest_unit)


def test_payees_may_be_groups_and_small_balances_are_carried_forward():
    payments, _ = paid()
    names = payments.identities.tolist()
    whole = deterrence(
        payments, Checks(), payees=dict.fromkeys(names[:2], "one person"), externality=NO_SPILL
    )
    assert whole.payees == 3
    assert whole.payment == pytest.approx(max(payments.totals[:2].sum(), *payments.totals[2:]))
    least = float(np.sort(payments.totals)[:2].mean())
    forward = deterrence(payments, Checks(), least=least, externality=NO_SPILL)
    assert (forward.payees, forward.carried_forward) == (3, 1)
    assert "Carried forward, not paid this time: 1 payee" in forward.words
    euros = deterrence(payments, Checks(), scale=1000.0, money="EUR", externality=NO_SPILL)
    assert euros.residual == pytest.approx(1000.0 * payments.totals.max() * euros.gap)
    assert f"gains more than EUR {euros.residual:,.2f} by manipulation" in euros.words
    nobody = deterrence(payments, Checks(), least=1e9, externality=NO_SPILL)
    assert (nobody.payees, nobody.residual, nobody.claim) == (0, 0.0, "deterred")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"gap": 0.0}, "claims a gap of 0"),
        ({"per_payee": 1}, "its terms give 0.2"),
        ({"kappa": 1.5}, "its terms give"),
        ({"kappa": 0.5}, "kappa"),
        ({"power": 1.5}, "power"),
        ({"examined": "once"}, "its terms give"),
        ({"largest_unit": 1.5}, "largest_unit"),
        ({"gain": 0.001}, "does not follow"),
        ({"payment": 1e9}, "cannot be"),
        ({"externality": {"known": "unknown", "amount": None}}, "does not follow"),
        ({"externality": {"known": "unknown", "amount": 0.1}}, "has an amount where it is known"),
        ({"externality": {"known": "proved", "amount": 0.1}}, "what is proved is 0"),
        ({"externality": {"known": "measured", "amount": -0.1}}, "at least 0"),
        ({"externality": {"known": "measured", "amount": 1.0}}, "does not follow"),
        ({"verdict": "fine"}, "verdict"),
    ],
)
def test_a_claim_that_does_not_follow_is_refused_on_reading_back(change, match):
    payments, utility = paid()
    externality = Externality.by(get_mechanism("recommended"), utility)
    found = deterrence(payments, Checks(3, 0.8), externality=externality, examined="anew")
    record = json.loads(found.model_dump_json())
    Deterrence.model_validate(record)
    with pytest.raises(ValidationError, match=match):
        Deterrence.model_validate({**record, **change})


def test_bad_options_are_refused_by_name():
    payments, _ = paid()
    for option in ({"least": -1.0}, {"scale": 0.0}, {"gain": -0.1}):
        with pytest.raises(DataMarketError, match=next(iter(option))):
            deterrence(payments, Checks(), **option)
