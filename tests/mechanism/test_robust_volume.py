import numpy as np
import pytest

from datamarket_gym.data.content_keys import unit_keys
from datamarket_gym.errors import ParameterError
from datamarket_gym.games.exact import coalitions_numbered
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.mechanism.allocation import floored, hidden_harm
from datamarket_gym.mechanism.robust_volume import VolumeGame
from datamarket_gym.registry import create
from datamarket_gym.utilities.oracle import Utility


def robust_volume(rows, omega, total):
    """From the definition, one set of rows at a time."""
    cubes = {}
    for row in rows:
        cubes.setdefault(tuple(np.floor(row / omega)), []).append(row)
    means = np.array([np.mean(members, axis=0) for members in cubes.values()])
    a = 1 / (10 * total)
    bonus = np.prod([sum(a**p for p in range(len(members) + 1)) for members in cubes.values()])
    return np.sqrt(max(np.linalg.det(means.T @ means), 0.0)) * bonus if len(means) >= 2 else 0.0


def game_of(features, player, omega):
    return VolumeGame(features, unit_keys(features, np.zeros(len(player), int)), player, omega)


@pytest.mark.parametrize("omega", [0.1, 0.7])
def test_volumes_are_those_of_the_definition(omega):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(12, 2))
    features[9:] = features[:3]  # copies across players share cubes
    player = np.repeat(np.arange(4), 3)
    game = game_of(features, player, omega)
    coalitions = coalitions_numbered(1, 16, 4)
    found = game.values(coalitions)
    wanted = [robust_volume(features[c[player]], omega, 12) for c in coalitions]
    assert found == pytest.approx(np.array(wanted) / wanted[-1])


def test_fewer_rows_than_features_span_nothing():
    features = np.eye(3)
    game = game_of(features, np.arange(3), 0.1)
    assert game.values(coalitions_numbered(0, 8, 3)).tolist() == [0.0] * 7 + [1.0]
    flat = game_of(np.ones((4, 3)), np.arange(4), 0.1)
    assert flat.values(coalitions_numbered(0, 16, 4)).tolist() == [0.0] * 16


def test_copies_under_one_name_hardly_pay_and_labels_do_not_matter(market):
    oracle = market.utility_oracle(Utility("knn@3"))
    m = get_mechanism("robust_volume")
    state, provider = market.state, "provider_0"
    honest = m.pay(market.honest.submission, oracle)
    share = honest.as_dict()[provider] / honest.grand_value
    rows = np.flatnonzero(market.honest.submission.identity == provider)
    everything = np.r_[np.arange(len(market.honest.submission)), rows]
    ids = np.array([f"u{i}" for i in range(len(everything))])
    copied = m.pay(market.honest.submission.take(everything, {"id": ids}), oracle)
    assert copied.as_dict()[provider] / copied.grand_value == pytest.approx(share, rel=0.02)
    noisy = create("attack", "label_noise@1.0").apply(0, state)
    wrong = m.pay(noisy.submission, oracle)
    assert wrong.as_dict()[provider] / wrong.grand_value == pytest.approx(share)
    with pytest.raises(ParameterError, match="omega"):
        create("allocation", "robust_volume@0")


def test_a_floor_leaves_no_debt_and_can_balance_the_books(market):
    oracle = market.utility_oracle(Utility("knn", "chance"))
    profile = create("attack", "label_noise@1.0").apply(0, market.state)
    paid = get_mechanism("shapley", granularity="unit").pay(profile.submission, oracle)
    assert (paid.scores.values < 0).any()
    for rescale in (False, True):
        ruled = floored(paid, rescale=rescale)
        assert (ruled.totals >= 0).all()
        total = ruled.totals.sum() / paid.grand_value
        owed = 0.0 if rescale else hidden_harm(paid)
        assert total == pytest.approx(1.0 + owed)
    assert hidden_harm(paid) > 0
    clean = get_mechanism("uniform").pay(market.honest.submission, oracle)
    assert floored(clean).totals.tolist() == clean.totals.tolist()
