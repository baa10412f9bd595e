"""A command reads its ledger many times and goes through it once; a change between two readings is seen."""

import sqlite3

import pytest
from ledger_files import file_ledger
from payout_files import run

from datamarket_gym.payout.ledger import entries as entry
from datamarket_gym.payout.ledger import store
from datamarket_gym.payout.ledger.entries import LedgerError
from datamarket_gym.payout.ledger.runs import ledger_of
from datamarket_gym.payout.verify import verify


@pytest.fixture
def linked(monkeypatch):
    """How often an entry was held against the one before."""
    store._chain.cache_clear()
    store._accounts.cache_clear()
    counted = []

    def link(previous, body):
        counted.append(body)
        return true_link(previous, body)

    true_link = entry.hash_entry
    monkeypatch.setattr(entry, "hash_entry", link)
    return counted


def test_verify_goes_through_the_chain_once(tmp_path, linked):
    folder = run(tmp_path)
    store._chain.cache_clear()
    linked.clear()
    assert all(check.good for check in verify(folder))
    assert len(linked) == ledger_of(folder).accounts().number


def test_a_page_goes_through_the_chain_once(tmp_path, linked):
    ledger = file_ledger(tmp_path)
    before = ledger.accounts().number
    store._chain.cache_clear()
    linked.clear()
    with ledger.transaction() as transaction:
        transaction.add("hold", payee="alice", content={"why": "account unclear"})
    assert len(linked) == before + 1  # and the one that is new


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE ledger_entries SET body = replace(body, 'alice', 'alicf') WHERE number = 5",
        "UPDATE ledger_entries SET hash = replace(hash, substr(hash, 1, 1), 'x') WHERE number = 2",
        "DELETE FROM ledger_entries WHERE number = 4",
        "UPDATE ledger_tip SET number = number - 1",
    ],
)
def test_a_change_after_a_first_reading_is_found_by_the_next(tmp_path, change):
    ledger = file_ledger(tmp_path)
    ledger.accounts()
    with sqlite3.connect(ledger.path) as connection:
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        assert connection.execute(change).rowcount == 1
    connection.close()
    for reading in (ledger.read, ledger.accounts, ledger.transaction().__enter__):
        with pytest.raises(LedgerError):
            reading()


def test_a_page_that_fails_leaves_what_was_read_as_it_was(tmp_path):
    ledger = file_ledger(tmp_path)
    before = ledger.accounts()
    number, owed, states = (
        before.number,
        dict(before.payable),
        {r: x.state for r, x in before.runs.items()},
    )
    with ledger.transaction() as transaction:
        with pytest.raises(LedgerError, match="'bob' is not held"):
            transaction.add("release", payee="bob", content={"why": "account known"})
        transaction.add("fee", payee="alice", currency="EUR", amount=100, content={"why": "transfer"})
        transaction.add("hold", payee="bob", content={"why": "account unclear"})
        transaction.new.clear()  # so nothing is entered
    after = ledger.accounts()
    assert (after.number, dict(after.payable), after.holds) == (number, owed, {})
    assert {r: x.state for r, x in after.runs.items()} == states


def test_what_a_page_adds_is_seen_by_the_next_reading(tmp_path):
    ledger = file_ledger(tmp_path)
    owed = ledger.accounts().payable["alice", "EUR"]
    with ledger.transaction() as transaction:
        transaction.add("fee", payee="alice", currency="EUR", amount=100, content={"why": "transfer"})
    assert ledger.accounts().payable["alice", "EUR"] == owed - 100
    assert ledger.accounts().number == len(ledger.read())
