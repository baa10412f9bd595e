"""The bound of spot checks on real attacks: expected pay is at most honest pay, the gap and the externality."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.analysis.spot_checks import CheckedAttack, NamePay, expected
from datamarket_gym.analysis.theorems import Checks, Paid, certify, deterrence_gap
from datamarket_gym.analysis.theorems.certificate import Certificate
from datamarket_gym.analysis.theorems.deterrence import Deterrence
from datamarket_gym.data.ground_truth import genuine
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic
from datamarket_gym.mechanism.payment_tables import unit_amounts
from datamarket_gym.mechanism.pipeline import get_mechanism
from datamarket_gym.registry import create
from datamarket_gym.utilities.oracle import Utility

ROUNDING = 1e-9
ATTACKS = (
    "sybil_split_k@3", "near_duplicate_2x_sybils@1.0", "copycat(sigma=1.0)", "label_noise",
    "synthetic_laundering", "junk_padding", "strategic_curation@0.5",
    "composite(split=2, copy=0.5, copy_sigma=1.0, steal=0.8, steal_sigma=1.0, victims=2, names=2)",
    "composite(split=3, copy=0.0, steal=0.3, steal_sigma=1.5, victims=3, names=1, keep=0.8)",
)  # fmt: skip
CHECKS = (Checks(0), Checks(1, 1.0), Checks(1, 0.5), Checks(3, 0.8), Checks(6, 0.4))
UTILITIES = {"coverage": Utility.paying(), "k-NN": Utility.paying("knn@3")}
UNTIED = get_mechanism("recommended/lineage@none")
TIED = get_mechanism("recommended/lineage@0.9")


def market_of(seed):
    return ProviderMarket.from_task(
        Synthetic(n_providers=4, per_provider=10, validation=40, features=8, informative=4), seed
    )


def attacked(market, attack, utility, m, provider=0):
    oracle, name = market.utility_oracle(utility), market.state.providers[provider]
    honest = m.pay(market.honest.submission, oracle).total([name])
    profile = create("attack", attack).apply(provider, market.state)
    return CheckedAttack(m, profile, market.honest, oracle, name, honest), honest


@given(
    seed=st.integers(0, 10**6),
    attack=st.sampled_from(ATTACKS),
    utility=st.sampled_from(sorted(UTILITIES)),
    m=st.sampled_from([UNTIED, TIED]),
    provider=st.integers(0, 3),
)
@settings(max_examples=60, deadline=None)
def test_no_attack_is_expected_to_earn_more_than_the_bound(seed, attack, utility, m, provider):
    """Whatever is paid for, coverage or accuracy: losses, parked units and what ties moved are in the externality."""
    played, honest = attacked(market_of(seed), attack, UTILITIES[utility], m, provider)
    for checks in CHECKS:
        found = played.expected(checks)
        gap = deterrence_gap(checks, found.kappa)
        assert found.pay <= max(honest, 0.0) + found.drafted * gap + found.externality + ROUNDING
        filed = found.deterrence()
        assert found.pay <= max(honest, 0.0) + filed.residual + ROUNDING
        assert Deterrence.model_validate_json(filed.model_dump_json()) == filed


@given(
    seed=st.integers(0, 10**6),
    attack=st.sampled_from(ATTACKS),
    checks=st.sampled_from(CHECKS),
    provider=st.integers(0, 3),
)
@settings(max_examples=40, deadline=None)
def test_coverage_spills_nothing_where_ties_stay(seed, attack, checks, provider):
    """So that the gap is all that is left, and nothing at all where one check finds everything."""
    played, honest = attacked(market_of(seed), attack, UTILITIES["coverage"], UNTIED, provider)
    found = played.expected(checks)
    assert found.externality <= ROUNDING
    assert found.kappa == pytest.approx(1.0)
    assert found.pay <= honest + found.drafted * deterrence_gap(checks) + ROUNDING
    if checks == Checks(1, 1.0):
        assert found.pay <= honest + ROUNDING


def test_accuracy_spills():
    """The control: under k-NN genuine units can be made to earn more, so that checks alone do not bound the gain."""
    externalities = [
        attacked(market_of(seed), "strategic_curation@0.5", UTILITIES["k-NN"], UNTIED)[0]
        .expected(Checks(50, 1.0))
        .externality
        for seed in range(4)
    ]
    assert max(externalities) > 0.001


def test_bad_units_parked_below_zero_are_counted():
    """Under k-NN: a name that holds only units that do harm is paid nothing, and what it saves is externality."""
    for seed in range(20):
        market = market_of(seed)
        oracle = market.utility_oracle(UTILITIES["k-NN"])
        paid = UNTIED.pay(market.honest.submission, oracle)
        amounts, honest = unit_amounts(paid), paid.total(["provider_0"])
        mine = paid.identities[amounts.identity] == "provider_0"
        bad = amounts.row[mine & (amounts.amount < 0.0)]
        if len(bad) and honest > 0.0:
            break
    lost = -float(amounts.amount[mine & (amounts.amount < 0.0)].sum())
    profile = create("attack", "sybil_split_k@2").apply(0, market.state)
    submission = profile.submission
    names = profile.identities_of("provider_0")
    own = np.isin(submission.identity, names)
    parked = np.isin(submission.keys, market.honest.submission.keys[bad])
    identity = np.where(own, np.where(parked, names[1], names[0]), submission.identity)
    profile = type(profile)(
        submission.take(np.arange(len(submission)), {"identity": identity}),
        profile.truth, profile.attacker, "parking",
    )  # fmt: skip
    found = expected(UNTIED, profile, market.honest, oracle, "provider_0", Checks(9, 1.0))
    assert genuine(profile, market.honest).all()
    assert found.pay == pytest.approx(honest + lost)
    assert found.externality == pytest.approx(lost)


def test_simulated_payout_runs_in_which_only_what_was_found_leaves_obey_the_bound():
    """The operator's rule: who fails is paid nothing, found units are out, all others stay; pay and draw again."""
    market, checks, rng = market_of(11), Checks(1, 0.5), np.random.default_rng(4)
    played, honest = attacked(market, ATTACKS[7], UTILITIES["coverage"], UNTIED)
    submission, oracle = played.profile.submission, played.utility
    names, false = played.profile.identities_of("provider_0"), ~genuine(played.profile, market.honest)
    known, most = {}, dict.fromkeys(names, 0.0)

    def units_without(gone):
        if gone not in known:
            rows = np.setdiff1d(np.arange(len(submission)), sorted(gone))
            paid = UNTIED.pay(submission.take(rows), oracle)
            units = unit_amounts(paid)
            known[gone] = paid.identities[units.identity], rows[units.row], units.amount
        return known[gone]

    def payout_run():
        failed, gone = set(), frozenset()
        while True:
            owner, row, amount = units_without(gone)
            paid, found = 0.0, []
            for name in sorted(set(names) - failed):
                mine = np.flatnonzero(owner == name)
                total = amount[mine].sum()
                if total <= 0.0:
                    continue
                paid, most[name] = paid + total, max(most[name], amount[mine][false[row[mine]]].sum())
                drawn = row[rng.choice(mine, size=checks.per_payee, p=amount[mine] / total)]
                seen = drawn[false[drawn] & (rng.random(len(drawn)) < checks.power)].tolist()
                failed |= {name} if seen else set()
                found += seen
            if not found:
                return paid
            gone |= frozenset(found)

    pay = np.array([payout_run() for _ in range(300)])
    leeway = sum(most.values()) * deterrence_gap(checks)  # of what is not genuine the gap is left
    error = pay.std() / np.sqrt(len(pay))
    assert honest + leeway / 4 < pay.mean() <= honest + leeway + 4 * error


def test_a_certificate_says_what_checks_leave():
    market = market_of(3)
    played, _ = attacked(market, "copycat(sigma=1.0)", UTILITIES["coverage"], TIED)
    honest, after = (Paid.by(TIED, p, played.utility) for p in (market.honest, played.profile))
    plain = certify(honest, after, TIED)
    assert plain.deterrence is None
    checked = certify(honest, after, TIED, deterrence=played.expected(Checks(4, 0.9)).deterrence())
    assert checked.deterrence.claim == "deterred"
    assert checked.words.startswith(plain.words)
    assert "Manipulation is deterred" in checked.words
    assert Certificate.model_validate_json(checked.model_dump_json()) == checked


def test_what_of_a_name_is_for_genuine_units():
    assert NamePay(total=2.0, positive=5.0, false=4.0, genuine=-1.0, largest=4.0).own == 0.0
    assert NamePay(total=2.0, positive=5.0, false=0.0, genuine=3.0, largest=5.0).own == 2.0
    below = NamePay(total=-1.0, positive=1.0, false=0.0, genuine=0.5, largest=1.0)
    assert (below.due, below.own) == (0.0, 0.0)


def test_of_a_fixed_pot_a_name_made_to_fail_may_pay():
    """Its false units dilute the others until all of them are found: the pot that it forfeits goes to who is left."""
    market = ProviderMarket.from_task(
        Synthetic(n_providers=4, per_provider=10, validation=40, features=8, informative=4, classes=4), 1
    )
    steal = "composite(split=1, copy=0.0, steal=1.0, steal_sigma=0.5, victims=3, names=1)"
    played, honest = attacked(market, steal, Utility.paying(), UNTIED)
    paid = UNTIED.pay(played.profile.submission, played.utility)
    mine, lost = paid.total(["provider_0"]), paid.total(["provider_0~1"])
    found = played.expected(Checks(3, 1.0))  # the further name holds nothing but false units: it fails
    assert found.pay == pytest.approx(honest)
    stays = mine / (paid.totals.sum() - lost)
    pot = UNTIED.pay(market.honest.submission, played.utility).totals.sum()
    assert stays > 1.05 * honest / pot
    assert found.share == pytest.approx(stays)
