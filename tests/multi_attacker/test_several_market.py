"""A market of several attackers: equal to the single path, in any order, with names, ids and times that make sense."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym import Submission, Utility, create, get_mechanism
from datamarket_gym.analysis.redteam import market_state
from datamarket_gym.data.ground_truth import genuine
from datamarket_gym.errors import DataMarketError
from datamarket_gym.market.attacks import MultiAttackerGame, attacked_by
from datamarket_gym.market.attacks.base import apply_knowing
from datamarket_gym.market.attacks.multi_attacker import as_owners

ATTACKS = (
    "honest", "sybil_split_k(k=3)", "exact_dup_2x_sybils(fraction=1.0, sybils=2)", "copycat(sigma=0.2)",
    "backdate(victim=all)", "own_source(victim=all)", "junk_padding(ratio=1.0, identities=2)", "label_noise",
    "strategic_curation(keep=0.5)", "composite(split=2, names=2, first=True, victims=3)", "leak_stuffing",
    "synthetic_laundering(ratio=1.0)", "grind_ties(victim=all)", "bridge",
)  # fmt: skip


def same(one, other):
    """The same units, row by row, with the same truth."""
    a, b = one.submission, other.submission
    for name in ("id", "identity", "features", "label", "source", "batch", "time"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name
    assert a.metadata.keys() == b.metadata.keys()
    assert all(np.array_equal(a.metadata[k], b.metadata[k]) for k in a.metadata)
    for name in ("id", "owner", "source"):
        assert np.array_equal(getattr(one.truth, name), getattr(other.truth, name)), name
    assert dict(one.truth.controller) == dict(other.truth.controller)
    assert (one.attacker, one.attack) == (other.attacker, other.attack)


@pytest.mark.parametrize("attack", ATTACKS)
def test_one_attacker_is_the_single_attacker_to_the_bit(market, attack):
    for provider in (0, 2):
        alone = create("attack", attack).apply(provider, market.state)
        same(attacked_by([MultiAttackerGame(provider, attack)], market.state), alone)


def test_one_attacker_who_knows_little_submits_the_same_units_and_is_paid_the_same(market):
    attack = create("attack", "composite(victims=3)")
    alone = apply_knowing(attack, 1, market.state, 0.5)
    found = attacked_by([MultiAttackerGame("provider_1", attack, 0.5)], market.state)
    order = np.argsort(alone.submission.id)[np.argsort(np.argsort(found.submission.id))]
    assert np.array_equal(alone.submission.take(order).features, found.submission.features)
    pays = [
        get_mechanism("recommended")
        .pay(p.submission, market.utility_oracle(Utility.paying()), p.truth)
        .as_dict()
        for p in (alone, found)
    ]
    assert pays[0] == pays[1]


@settings(max_examples=12, deadline=None)
@given(st.lists(st.sampled_from(ATTACKS), min_size=2, max_size=4), st.randoms())
def test_the_order_in_which_attackers_are_listed_decides_nothing(market, attacks, random):
    attackers = [MultiAttackerGame(i, attack) for i, attack in enumerate(attacks)]
    first = attacked_by(attackers, market.state)
    random.shuffle(attackers)
    same(attacked_by(attackers, market.state), first)
    assert len(set(first.submission.id)) == len(first.submission)
    names = first.submission.identities
    assert set(first.truth.controller) == set(names.tolist())
    for i, attack in enumerate(attacks):  # of every attacker there is what it submits alone
        alone = create("attack", attack).apply(i, market.state)
        mine = [
            p.submission.take(np.isin(p.submission.identity, p.identities_of(f"provider_{i}")))
            for p in (alone, first)
        ]
        assert np.array_equal(mine[0].features, mine[1].features)
        assert np.array_equal(mine[0].time, mine[1].time)


def test_two_attackers_who_copy_one_unit_have_ids_of_their_own_and_come_after_it(market):
    attack = "composite(split=1, copy=0.0, steal=1.0, steal_sigma=0.1, victims=9)"
    found = attacked_by([MultiAttackerGame(0, attack), MultiAttackerGame(1, attack)], market.state)
    truth = found.truth.aligned(found.submission)
    stolen = np.isin(truth.owner, ["provider_2", "provider_3"])
    copies = stolen & np.isin(found.submission.identity, ["provider_0", "provider_1"])
    alone = create("attack", attack).apply(0, market.state)
    shared = set(found.submission.id[copies].tolist()) & set(alone.submission.id.tolist())
    assert not shared  # both would have used them
    assert all(i.endswith(("~provider_0", "~provider_1")) for i in found.submission.id[copies].tolist())
    came = dict(zip(market.honest.submission.id, market.honest.submission.time, strict=True))
    assert (found.submission.time[copies] > [came[s] for s in truth.source[copies]]).all()
    # noise is each one's own: no copy of the one is a copy of the other's
    assert len(np.unique(found.submission.keys[copies])) == copies.sum()


def test_claims_of_origin_follow_the_new_ids(market):
    found = attacked_by([MultiAttackerGame(i, "own_source(victim=all)") for i in (0, 1)], market.state)
    made = ~np.isin(found.submission.id, market.honest.submission.id)
    assert made.any()
    assert np.array_equal(found.submission.source[made], found.submission.id[made])


def test_a_coalition_acts_as_one_owner_of_the_union(market):
    pair = MultiAttackerGame(("provider_2", 0), "sybil_split_k(k=3)")
    found = attacked_by([pair], market.state)
    assert found.attacker == "provider_0"
    assert found.identities_of("provider_0") == ["provider_0", "provider_0~1", "provider_0~2"]
    assert "provider_2" not in found.submission.identities
    held = {"provider_0", "provider_2"}
    mine = np.isin(found.submission.identity, found.identities_of("provider_0"))
    truth = found.truth.aligned(found.submission)
    assert set(truth.owner[mine]) == held  # whose they were is still known
    assert sorted(found.submission.id) == sorted(market.honest.submission.id)
    assert genuine(found, as_owners(market.honest, [("provider_0", "provider_2")])).all()
    assert not genuine(found, market.honest)[mine].all()  # to who does not know of the coalition


def test_a_coalition_does_not_steal_from_itself(market):
    pair = MultiAttackerGame((0, 1), "copycat(fraction=1.0, sigma=0.0)")
    truth = attacked_by([pair], market.state).truth
    copies = ~np.isin(truth.id, market.honest.submission.id)
    assert set(truth.owner[copies]) == {"provider_2"}  # the next after the pair


def test_nobody_attackers(market):
    same(attacked_by([], market.state), replace(market.honest, attack="honest"))


def test_what_cannot_be_is_refused(market):
    with pytest.raises(DataMarketError, match="provider_1 is listed in two attackers"):
        attacked_by([MultiAttackerGame((0, 1), "honest"), MultiAttackerGame(1, "honest")], market.state)
    with pytest.raises(DataMarketError, match="every member of a coalition once"):
        attacked_by([MultiAttackerGame((1, "provider_1"), "honest")], market.state)
    with pytest.raises(DataMarketError, match="at least one provider"):
        attacked_by([MultiAttackerGame((), "honest")], market.state)
    with pytest.raises(DataMarketError, match="no provider 7"):
        attacked_by([MultiAttackerGame(7, "honest")], market.state)
    with pytest.raises(DataMarketError, match="knowledge"):
        MultiAttackerGame(0, "honest", 1.5)


def named(*names):
    """A market in which each of these names has six units."""
    rng = np.random.default_rng(0)
    n = 6 * len(names)
    submission = Submission(
        id=[f"u{i}" for i in range(n)], identity=np.repeat(names, 6), features=rng.normal(size=(n, 3)),
        label=np.arange(n) % 2, time=np.arange(n, dtype=float),
    )  # fmt: skip
    return market_state(submission, rng.normal(size=(20, 3)), np.arange(20) % 2)


def test_pseudonyms_never_fall_on_another_providers_name():
    state = named("a", "a~1", "b")
    alone = create("attack", "sybil_split_k(k=2)").apply("a", state)
    assert alone.identities_of("a") == ["a", "a~~1"]
    assert alone.identities_of("a~1") == ["a~1"]
    found = attacked_by(
        [MultiAttackerGame("a", "sybil_split_k(k=2)"), MultiAttackerGame("a~1", "sybil_split_k(k=2)")],
        state,
    )
    assert sorted(found.submission.identities) == ["a", "a~1", "a~1~1", "a~~1", "b"]
    odd = named("a", "a~", "b")  # whose pseudonyms would be the same
    with pytest.raises(DataMarketError, match="name of two attackers"):
        attacked_by(
            [
                MultiAttackerGame("a", "sybil_split_k(k=2)"),
                MultiAttackerGame("a~", "sybil_split_k(k=2)"),
            ],
            odd,
        )
