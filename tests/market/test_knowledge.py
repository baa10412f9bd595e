"""Attackers who see a share of the others' units."""

import numpy as np
import pytest

from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.market.attacks.base import ATTACKS, apply_knowing
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic

MARKET = ProviderMarket.from_task(Synthetic(n_providers=4, per_provider=10), seed=1)
THEFT = ATTACKS.create("composite(split=1, copy=0.0, steal=1.0, steal_sigma=0.5, victims=3)")


def _stolen(profile):
    mine = profile.submission.identity == "provider_0"
    owner = profile.truth.aligned(profile.submission).owner
    return int((mine & (owner != "provider_0")).sum())


def test_all_known_is_the_attack_itself():
    knowing = apply_knowing(THEFT, 0, MARKET.state, 1.0)
    plain = THEFT.apply(0, MARKET.state)
    assert (knowing.submission.keys == plain.submission.keys).all()


def test_half_known_steals_half_and_leaves_everybody_in_the_market():
    profile = apply_knowing(THEFT, 0, MARKET.state, 0.5)
    assert _stolen(profile) == 15
    honest = MARKET.honest.submission
    assert set(honest.id.tolist()) <= set(profile.submission.id.tolist())
    others = profile.submission.identity != "provider_0"
    assert sorted(profile.submission.id[others]) == sorted(honest.id[honest.identity != "provider_0"])
    profile.truth.aligned(profile.submission)


def test_who_knows_nothing_of_others_cannot_steal():
    assert _stolen(apply_knowing(THEFT, 0, MARKET.state, 0.0)) == 0
    with pytest.raises(DataMarketError, match="alone"):
        apply_knowing(ATTACKS.create("turn"), 0, MARKET.state, 0.0)
    own = apply_knowing(ATTACKS.create("junk_padding"), "provider_0", MARKET.state, 0.0)
    assert len(np.unique(own.submission.identity)) == 4


@pytest.mark.parametrize("wrong", [-0.1, 1.5, float("nan")])
def test_knowledge_is_a_share(wrong):
    with pytest.raises(ParameterError, match="knowledge"):
        apply_knowing(THEFT, 0, MARKET.state, wrong)
