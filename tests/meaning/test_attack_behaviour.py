"""What attackers know and do: the leak, curation, poisoning, laundering."""

import numpy as np
import pytest

from datamarket_gym.market.attacks.base import Own
from datamarket_gym.market.attacks.generated import leaked_rewards
from datamarket_gym.market.market import MarketState, ProviderMarket
from datamarket_gym.market.tasks.base import Dataset
from datamarket_gym.registry import create

# Fifteen units of the attacker on a line: five that harm (label 1 where the leak says 0), five that no
# leaked row is near, five that help. The victim's own unit is at the far end.
PLACES = np.r_[np.linspace(0, 1, 5), np.linspace(500, 501, 5), np.linspace(1000, 1001, 5), 5000.0]
LABELS = np.r_[np.ones(5), np.zeros(5), np.ones(5), 0].astype(int)
HARMFUL, IDLE, HELPFUL = np.arange(5), np.arange(5, 10), np.arange(10, 15)


@pytest.fixture(scope="module")
def line():
    """A market on that line, with leaked rows of label 0 among the harmful and 1 among the helpful."""
    features = PLACES[:, None]
    data = Dataset("line", features, LABELS, features, LABELS)
    market = ProviderMarket(data, [np.arange(15), np.array([15])])
    leaked = np.array([[0.5], [0.6], [1000.5]])
    return MarketState(market.honest, leaked, np.array([0, 0, 1]), seed=0)


def submitted(attack, state, provider=0):
    """Positions of the attacker's units and their labels, as submitted."""
    profile = create("attack", attack).apply(provider, state)
    mine = np.isin(profile.submission.identity, profile.identities_of(profile.attacker))
    return profile.submission.features[mine, 0], profile.submission.label[mine]


def pairs(features, label):
    """Rows with their labels."""
    return [(*row, of) for row, of in zip(features.tolist(), label.tolist(), strict=True)]


def test_a_quarter_of_the_validation_rows_leaks(market):
    for n in (60, 41, 2):
        data = market.dataset
        smaller = Dataset(
            "d", data.features, data.label, data.validation_features[:n], data.validation_label[:n]
        )
        state = ProviderMarket(smaller, market.provider_partition).state
        assert len(state.leaked_label) == max(1, round(n / 4))
        known = pairs(data.validation_features[:n], data.validation_label[:n])
        seen = pairs(state.leaked_features, state.leaked_label)
        assert len(set(seen)) == len(seen)
        assert set(seen) <= set(known)


def test_rewards_count_right_labels_less_wrong_ones_among_the_five_nearest(line):
    own = Own("provider_0", line.honest.submission, line.honest.truth.owner, np.arange(15), line)
    rewards = leaked_rewards(own, own.rows)
    assert rewards.tolist() == [-2] * 5 + [0] * 5 + [1] * 5


def test_curation_leaves_out_what_harms_before_what_does_nothing(line):
    kept, _ = submitted("strategic_curation(keep=0.6667)", line)
    assert sorted(kept) == sorted(PLACES[np.r_[IDLE, HELPFUL]])
    kept, _ = submitted("strategic_curation(keep=0.3333)", line)
    assert sorted(kept) == sorted(PLACES[HELPFUL])


def test_what_curation_adds_is_a_share_of_the_rest_best_first(line):
    kept, _ = submitted("strategic_curation(keep=0.3333, rest=0.5)", line)
    assert sorted(kept) == sorted(PLACES[np.r_[IDLE, HELPFUL]])


def test_composite_keeps_the_best(line):
    kept, _ = submitted("composite(split=1, keep=0.3333, copy=0.0, steal=0.0)", line)
    assert sorted(kept) == sorted(PLACES[HELPFUL])
    spread, _ = submitted("composite(split=2, keep=0.6667, copy=0.0, steal=0.0)", line)
    assert sorted(spread) == sorted(PLACES[np.r_[IDLE, HELPFUL]])


def test_composite_steals_the_best_where_it_picks_by_reward(line):
    """The other provider is the attacker: it takes the five of fifteen units that the leak rewards."""
    theft = "composite(split=1, copy=0.0, steal=0.3333, steal_sigma=0.0, pick=rewards)"
    places, _ = submitted(theft, line, provider=1)
    assert sorted(places) == sorted([*PLACES[HELPFUL], PLACES[15]])


def three_classes(n=12):
    """One provider with labels 0, 1, 2 in turn, another with one unit of each."""
    label = np.r_[np.arange(n) % 3, 0, 1, 2] * 10  # classes 0, 10, 20
    features = np.arange(float(len(label)))[:, None]
    data = Dataset("three", features, label, features, label)
    return ProviderMarket(data, [np.arange(n), np.arange(n, n + 3)])


def test_poisoned_labels_all_move_to_the_next_class():
    market = three_classes()
    places, label = submitted("label_poisoning@1.0", market.state)
    before = dict(
        zip(market.honest.submission.features[:, 0], market.honest.submission.label, strict=True)
    )
    following = {0: 10, 10: 20, 20: 0}
    assert [following[before[p]] for p in places] == label.tolist()
    places, label = submitted("label_poisoning@0.25", market.state)
    moved = [(before[p], new) for p, new in zip(places, label, strict=True) if before[p] != new]
    assert len(moved) == 3
    assert all(following[old] == new for old, new in moved)


def test_noisy_labels_never_keep_their_class():
    market = three_classes(30)
    before = dict(
        zip(market.honest.submission.features[:, 0], market.honest.submission.label, strict=True)
    )
    places, label = submitted("label_noise@1.0", market.state)
    shifts = {((new - before[p]) // 10) % 3 for p, new in zip(places, label, strict=True)}
    assert shifts == {1, 2}


def test_mixed_units_lie_between_two_units_of_one_class():
    """Class 0 lies in 10 to 20, class 1 in 1010 to 1020: mixtures lie inside, and are none of the originals."""
    place = np.r_[10.0, 20.0, 1010.0, 1020.0, 0.0, 5000.0]
    label = np.array([0, 0, 1, 1, 0, 1])
    data = Dataset("mix", place[:, None], label, place[:, None], label)
    state = ProviderMarket(data, [np.arange(4), np.array([4, 5])]).state
    profile = create("attack", "synthetic_laundering(ratio=10.0, how=mix)").apply(0, state)
    made = ~np.isin(profile.submission.id, state.honest.submission.id)
    new, classes = profile.submission.features[made, 0], profile.submission.label[made]
    assert len(new) == 40
    assert ((new - 1000 * classes >= 10 - 1e-9) & (new - 1000 * classes <= 20 + 1e-9)).all()
    between = ~np.isclose(new[:, None], place[:4]).any(axis=1)
    assert 5 < between.sum() < 35  # half of the partners are the other unit


def test_junk_is_drawn_around_the_attackers_own_units():
    market = three_classes(60)
    profile = create("attack", "junk_padding@20.0").apply(0, market.state)
    made = ~np.isin(profile.submission.id, market.honest.submission.id)
    junk = profile.submission.features[made, 0]
    assert junk.mean() == pytest.approx(29.5, abs=2)
    assert junk.std() == pytest.approx(np.arange(60).std(), rel=0.1)
    assert set(profile.submission.label[made]) == {0, 10, 20}
