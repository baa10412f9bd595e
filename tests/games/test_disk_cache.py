import multiprocessing
import sqlite3

import numpy as np
import pytest

from datamarket_gym.errors import DataMarketError
from datamarket_gym.games.game import DiskCache
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.utilities.oracle import Utility


def test_fits_are_kept_between_oracles_and_told_apart_by_utility(market, tmp_path):
    path = tmp_path / "cache.sqlite"
    m = get_mechanism("shapley")
    first = market.utility_oracle(Utility("knn(k=3, vote=majority)"), cache=path)
    paid = m.pay(market.honest.submission, first)
    again = market.utility_oracle(Utility("knn(k=3, vote=majority)"), cache=path)
    assert len(again.cache) == len(first.cache) == 15
    assert m.pay(market.honest.submission, again).as_dict() == paid.as_dict()
    assert len(again.cache) == 15  # nothing was computed again
    other = market.utility_oracle(Utility("knn(k=4, vote=majority)"), cache=path)
    assert len(other.cache) == 0
    assert other.digest != again.digest
    assert (
        market.utility_oracle(Utility("logistic(device=auto)")).digest
        == market.utility_oracle(Utility("logistic")).digest
    )


def fill(path, start):
    cache = DiskCache(path, "u")
    for i in range(start, start + 400, 20):
        numbers = np.arange(i, i + 20, dtype=np.uint64)
        cache.store(np.stack([numbers * 2**40, numbers], axis=1), numbers / 7)


def test_processes_share_a_file_without_corruption(tmp_path):
    path = tmp_path / "cache.sqlite"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=fill, args=(path, start)) for start in (0, 200, 400)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    cache = DiskCache(path, "u")
    assert len(cache) == 800  # the ranges overlap
    numbers = np.arange(800, dtype=np.uint64)
    values, known = cache.lookup(np.stack([numbers * 2**40, numbers], axis=1))
    assert known.all()
    assert (values == numbers / 7).all()
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_file_that_is_no_memo_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to be taken for one" * 20)
    with pytest.raises(DataMarketError, match="cannot be used"):
        DiskCache(path, "u")
