"""Guarantees in a later period: the market is that of the units that were not acquired before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from datamarket_gym import ProviderMarket, Submission, Synthetic, acquired_from, create, get_mechanism
from datamarket_gym.analysis.theorems import certify
from datamarket_gym.analysis.theorems.paid_profile import Paid, require_from_submission
from datamarket_gym.errors import DataMarketError


@pytest.fixture(scope="module")
def later():
    """A market, and its utility given an earlier period of half of each provider's units."""
    market = ProviderMarket.from_task(Synthetic(), seed=3, learner="coverage")
    submission, utility = market.honest.submission, market.utility_oracle()
    m = get_mechanism("recommended")
    half = np.arange(len(submission)) % 2 == 0
    old = submission.take(half, {"id": np.char.add("old ", submission.id[half])})
    return market, m, utility.given(acquired_from(m.pay(old, utility)))


def test_a_later_period_is_certified_as_the_units_that_play(later):
    market, m, utility = later
    honest = Paid.by(m, market.honest, utility)
    assert len(honest.payments.acquired) >= len(market.honest.submission) // 2
    assert len(honest.profile.submission) == len(honest.payments.clustering.label)
    attacked = Paid.by(m, create("attack", "copycat").apply(0, market.state), utility)
    found = certify(honest, attacked, m)
    assert found.gain is not None


def test_clusters_that_do_not_follow_from_units_and_acquired_art_are_refused(later):
    market, m, utility = later
    paid = Paid.by(m, market.honest, utility)
    require_from_submission(paid, m)
    payments = paid.payments
    merged = replace(
        payments.clustering, label=np.where(payments.clustering.label == 1, 0, payments.clustering.label)
    )
    with pytest.raises(DataMarketError, match="not those that"):
        require_from_submission(replace(paid, payments=replace(payments, clustering=merged)), m)


def test_units_that_were_left_out_though_nobody_acquired_them_are_refused(later):
    market, m, utility = later
    paid = Paid.by(m, market.honest, utility)
    fewer = replace(paid, whole=paid.seen.take(np.arange(len(paid.seen) - 1)))
    with pytest.raises(DataMarketError, match="units that play are not those"):
        require_from_submission(fewer, m)


def test_who_submits_acquired_units_alone_is_listed_and_paid_nothing(later):
    market, m, utility = later
    submission = market.honest.submission
    half = np.arange(len(submission)) % 2 == 0
    attacker = submission.take(
        half, {"id": np.char.add("x", submission.id[half]), "identity": np.full(half.sum(), "z")}
    )
    paid = m.pay(Submission.concat([submission.take(~half), attacker]), utility)
    assert paid.as_dict()["z"] == 0.0
