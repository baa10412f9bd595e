"""Everything that travels to a worker process arrives there and works."""

import pickle

import numpy as np
import pytest

from component_samples import GAMES, PRESETS, WRITTEN, made
from datamarket_gym.execution.parallel import Processes, Serial, in_order
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic
from datamarket_gym.mechanism import as_mechanism, get_mechanism
from datamarket_gym.registry import components, create, written
from datamarket_gym.testing import CHECKERS
from datamarket_gym.utilities.oracle import Utility

KNN = Utility("knn@3", "chance")
BOTH = (Serial(), Processes(2))


@pytest.fixture(scope="module")
def market():
    return ProviderMarket.from_task(Synthetic(n_providers=3, per_provider=8, validation=30), 1)


def as_written(shared, component):
    return written(component), component


def test_every_registered_plug_point_arrives_as_it_was():
    kinds = sorted(set(CHECKERS) - {"game", "mechanism", "experiment"})
    sent = [create(kind, WRITTEN.get((kind, name), name)) for kind in kinds for name in components(kind)]
    assert len(sent) > 60
    back = list(in_order(Processes(2), as_written, None, [(component,) for component in sent]))
    assert [text for text, _ in back] == [written(component) for component in sent]
    assert [component for _, component in back] == sent


def all_values(shared, game):
    numbers = np.arange(2**game.n_players)
    return game.values((numbers[:, None] >> np.arange(game.n_players) & 1).astype(bool))


def test_games_are_played_by_workers():
    assert set(GAMES) == set(components("game"))
    here, there = (
        list(in_order(where, all_values, None, [(g,) for g in GAMES.values()])) for where in BOTH
    )
    assert all(np.array_equal(a, b) for a, b in zip(here, there, strict=True))


def paid_by(shared, chosen):
    market, oracle = shared
    honest = market.honest
    return chosen.pay(honest.submission, oracle, honest.truth).as_dict()


def test_every_mechanism_pays_a_market_in_a_worker(market):
    names = [*PRESETS, "program"]
    tasks = [(as_mechanism(create("mechanism", made("mechanism", name))),) for name in names]
    shared = (market, market.utility_oracle(KNN))
    here, there = (list(in_order(where, paid_by, shared, tasks)) for where in BOTH)
    assert here == there


def attacked(market, attack):
    profile = attack.apply(0, market.state)
    return profile.submission.identity.tolist(), profile.submission.features.tolist()


def test_attacks_are_carried_out_in_a_worker(market):
    tasks = [(create("attack", name),) for name in ("copycat", "sybil_split_k@2", "junk_padding")]
    here, there = (list(in_order(where, attacked, market, tasks)) for where in BOTH)
    assert here == there


def fits(oracle, market, name):
    paid = get_mechanism(name).pay(market.honest.submission, oracle, market.honest.truth)
    return paid.as_dict(), len(oracle.cache)


@pytest.mark.parametrize(
    "learner", ["logistic", "ridge", "knn(k=3, vote=majority)", "sklearn@GaussianNB"]
)
def test_the_oracle_takes_what_it_remembers_along(market, learner):
    oracle = market.utility_oracle(Utility(learner))
    fresh = market.utility_oracle(Utility(learner))
    expected, remembered = fits(oracle, market, "shapley")
    assert remembered == 7
    for known in (oracle, fresh):
        for paid, there in in_order(Processes(2), fits, known, [(market, "shapley")] * 2):
            assert paid == expected
            assert there == 7
    assert pickle.loads(pickle.dumps(oracle))._salt == oracle._salt
    assert len(fresh.cache) == 0  # what a worker learns in memory stays there


def test_an_oracle_with_a_memo_on_disk_shares_its_file_with_workers(market, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    learner = Utility("knn(k=3, vote=majority)")
    oracle = market.utility_oracle(learner, cache="cache.sqlite")
    chance = oracle.counted_from("chance")
    expected, _ = fits(market.utility_oracle(learner), market, "shapley")
    (got,) = in_order(Processes(2), fits, oracle, [(market, "shapley")])
    assert got == (expected, 7)
    assert len(market.utility_oracle(learner, cache="cache.sqlite").cache) == 7  # computed by the worker
    copies = pickle.loads(pickle.dumps((oracle, chance)))
    assert copies[0].cache is copies[1].cache  # one cache for both, as before
    assert len(copies[0].cache) == 7
    assert fits(copies[0], market, "shapley")[0] == expected
    monkeypatch.chdir("/")
    assert len(pickle.loads(pickle.dumps(oracle)).cache) == 7  # wherever the other process works
