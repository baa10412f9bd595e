"""No operation loses or doubles money: random histories, held against a plain model after every step."""

import random
from collections import Counter

import pytest
from histories import History

from datamarket_gym.payout.ledger.store import open_ledger

EVERYTHING = {
    "draft", "draft again", "approve", "paid", "order", "confirm", "cancel", "bounce", "fee", "correct", "fund",
    "write_off", "hold", "release", "people", "least", "supersede",
}  # fmt: skip


def lived(where, folder, seed, steps):
    history = History(where, folder, random.Random(seed))
    history.steps(steps)
    assert [finding for finding in open_ledger(where).examined() if not finding[1]] == []
    return history


def test_every_cent_is_somewhere_after_every_step(tmp_path):
    """And between them the histories do, and are refused, everything that there is."""
    done, refused = Counter(), Counter()
    for seed in range(4):
        history = lived(str(tmp_path / f"{seed}.sqlite"), tmp_path / f"{seed}", seed, 120)
        done.update(history.done)
        refused.update(history.refused)
    assert set(done) == EVERYTHING
    assert set(refused) == EVERYTHING


def test_every_cent_is_somewhere_on_postgresql(postgres_ledger, tmp_path):
    lived(postgres_ledger, tmp_path, 5, 100)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_every_cent_is_somewhere_in_long_histories(where, tmp_path, seed):
    lived(where, tmp_path / "runs", seed, 250)
