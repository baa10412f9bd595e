"""Expected pay under checks: against a simulation, and two attacks on the settling itself."""

import math

import numpy as np
import pytest

from datamarket_gym.analysis.spot_checks import CheckedAttack, expected
from datamarket_gym.analysis.theorems.deterrence import Checks
from datamarket_gym.data.ground_truth import GroundTruth, SubmittedProfile, genuine
from datamarket_gym.data.submission import Submission
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic
from datamarket_gym.mechanism.payment_tables import unit_amounts
from datamarket_gym.mechanism.pipeline import get_mechanism
from datamarket_gym.utilities.oracle import Utility

MARKET = ProviderMarket.from_task(Synthetic(n_providers=4, per_provider=15), seed=2)
ORACLE = MARKET.utility_oracle(Utility.paying())
LINEAGE = get_mechanism("recommended/lineage@0.95")
HONEST_PAID = LINEAGE.pay(MARKET.honest.submission, ORACLE)
HONEST = HONEST_PAID.total(["provider_0"])


def checked(profile):
    return CheckedAttack(LINEAGE, profile, MARKET.honest, ORACLE, "provider_0", HONEST)


def test_honest_units_lose_nothing_to_any_checks():
    for checks in (Checks(0), Checks(1, 1.0), Checks(50, 1.0)):
        found = checked(MARKET.honest).expected(checks)
        assert found.pay == HONEST
        assert (found.externality, found.false_share, found.kappa) == (0.0, 0.0, 1.0)
        assert found.share == pytest.approx(HONEST / HONEST_PAID.totals.sum())


def test_curation_is_genuine_and_never_pays():
    profile = ATTACKS.create("strategic_curation@0.75").apply(0, MARKET.state)
    found = checked(profile).expected(Checks(3, 0.8))
    assert found.false_share == 0.0
    assert found.pay < HONEST


def test_one_name_is_paid_if_it_passes():
    profile = ATTACKS.create(
        "composite(split=1, copy=0.0, steal=1.0, steal_sigma=1.0, victims=3)"
    ).apply(0, MARKET.state)
    paid = LINEAGE.pay(profile.submission, ORACLE)
    total = paid.total(["provider_0"])
    amounts, true = unit_amounts(paid), genuine(profile, MARKET.honest)
    mine = paid.identities[amounts.identity] == "provider_0"
    y = amounts.amount[mine & ~true[amounts.row]].sum() / total
    assert 0.1 < y < 0.95
    assert total > HONEST
    for m, q in ((0, 1.0), (1, 1.0), (3, 0.8)):
        found = expected(LINEAGE, profile, MARKET.honest, ORACLE, "provider_0", Checks(m, q), paid)
        assert found.pay == pytest.approx(total * (1 - q * y) ** m)
        assert found.false_share == pytest.approx(y)


def _own(rows, identity, suffix="", features=None, later=0.0):
    honest = MARKET.honest.submission
    changed = {"identity": np.full(len(rows), identity)}
    if suffix:
        changed["id"] = np.array([f"{u}{suffix}" for u in honest.id[rows]])
        changed["time"] = honest.times[rows] + later
    if features is not None:
        changed["features"] = features
    return honest.take(rows, changed)


def _profile(parts):
    honest = MARKET.honest.submission
    others = honest.take(np.flatnonzero(honest.identity != "provider_0"))
    submission = Submission.concat([others, *parts])
    names = {
        str(n): "provider_0" if str(n).startswith("provider_0") else str(n)
        for n in submission.identities
    }
    owner = np.array([names[str(n)] for n in submission.identity])
    return SubmittedProfile(
        submission, GroundTruth(submission.id, owner, submission.id, names), "provider_0", "by hand"
    )


def _fakes(count, sigma, seed=0):
    honest = MARKET.honest.submission
    rows = np.flatnonzero(honest.identity != "provider_0")[:count]
    rng = np.random.default_rng(seed)
    return rows, honest.features[rows] + rng.normal(scale=sigma, size=(count, honest.features.shape[1]))


def test_own_copies_under_another_name_do_not_inherit_what_a_failed_name_earned():
    """Insurance: genuine units with some fakes, and later copies of the genuine ones in case the first name fails."""
    own = np.flatnonzero(MARKET.honest.submission.identity == "provider_0")
    rows, features = _fakes(12, 1.0)
    fakes = _own(rows, "provider_0", "~fake", features, later=2.0)
    profile = _profile([_own(own, "provider_0"), fakes, _own(own, "provider_0~1", "~copy", later=3.0)])
    found = checked(profile)
    assert 0.1 < found.expected(Checks(0)).false_share < 0.5
    assert found.expected(Checks(0)).pay > 1.1 * HONEST
    alone = checked(_profile([_own(own, "provider_0"), fakes])).expected(Checks(3, 0.8)).pay
    assert found.expected(Checks(3, 0.8)).pay == pytest.approx(alone)
    assert found.expected(Checks(3, 0.8)).pay < HONEST


def test_fakes_that_a_sacrificed_name_kept_small_are_drawn_again():
    """Many copies of a fake under a second name thin it out; once they are found the fake earns in full."""
    own = np.flatnonzero(MARKET.honest.submission.identity == "provider_0")
    rows, features = _fakes(10, 1.0)
    parts = [_own(own, "provider_0"), _own(rows, "provider_0", "~fake", features, later=2.0)]
    rng = np.random.default_rng(5)
    for copy in range(12):
        near = features + rng.normal(scale=0.5, size=features.shape)
        parts.append(_own(rows, "provider_0~1", f"~thin{copy}", near, later=3.0 + copy))
    found = checked(_profile(parts))
    assert found.expected(Checks(3, 0.8)).pay <= HONEST * 1.02


def test_outcomes_are_those_of_a_simulation():
    """Draw, catch, take out, pay and draw again, many times."""
    profile = ATTACKS.create(
        "composite(split=2, copy=0.0, steal=0.6, steal_sigma=1.0, victims=3, names=1)"
    ).apply(0, MARKET.state)
    checks, rng = Checks(2, 0.6), np.random.default_rng(0)
    names = profile.identities_of("provider_0")
    false = ~genuine(profile, MARKET.honest)
    markets = {}

    def market(failed):
        if failed not in markets:
            submission = profile.submission
            out = false & np.isin(submission.identity, sorted(failed))
            left = submission.take(np.flatnonzero(~out))
            paid = LINEAGE.pay(left, ORACLE)
            amounts = unit_amounts(paid)
            fake = ~genuine(SubmittedProfile(left, profile.truth), MARKET.honest)[amounts.row]
            markets[failed] = paid, paid.identities[amounts.identity], amounts.amount, fake
        return markets[failed]

    def play():
        failed = frozenset()
        while True:
            paid, owner, amount, fake = market(failed)
            caught = set()
            for name in set(names) - failed:
                mine = np.flatnonzero(owner == name)
                chance = np.maximum(amount[mine], 0.0)
                drawn = rng.choice(mine, size=checks.per_payee, p=chance / chance.sum())
                if (fake[drawn] & (rng.random(checks.per_payee) < checks.power)).any():
                    caught.add(name)
            if not caught:
                return paid.total([n for n in names if n not in failed])
            failed |= caught
            if len(failed) == len(names):
                return 0.0

    found = np.array([play() for _ in range(4000)])
    error = found.std() / math.sqrt(len(found))
    assert abs(found.mean() - checked(profile).expected(checks).pay) < 4 * error
