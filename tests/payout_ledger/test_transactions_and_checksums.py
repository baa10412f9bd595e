"""A page is written whole or not at all, and only where the checksum knows the tip of the ledger."""

import sqlite3
from contextlib import closing

import pytest

from datamarket_gym.payout.ledger.entries import LedgerError
from datamarket_gym.payout.ledger.store import LedgerChecksum, Tip, open_ledger
from datamarket_gym.payout.ledger.transactions import cancel

JUNE = "a" * 64
DRAFT = {
    "manifest": "m", "places": {}, "checks": 0, "period": "", "submissions": "s", "kept": 0, "overrides": [],
    "standing": [], "warnings": [], "opening": {}, "lines": [["alice", 100, 100, 0]],
}  # fmt: skip


@pytest.fixture
def ledger(tmp_path):
    """One draft, which pays alice 100."""
    ledger = open_ledger(tmp_path / "ledger.sqlite", new=True)
    with ledger.transaction() as transaction:
        transaction.add("draft", run=JUNE, currency="EUR", amount=100, content=DRAFT)
    return ledger


def approve(transaction):
    transaction.add("approval", run=JUNE, content={"manifest": "m"}, by="anna")
    transaction.add("approved", run=JUNE, currency="EUR", amount=100)


def test_an_approval_without_its_payments_is_not_written(ledger):
    before = ledger.read()
    with (
        pytest.raises(LedgerError, match="not all of its payments"),
        ledger.transaction() as transaction,
    ):
        approve(transaction)
    assert ledger.read() == before


def test_a_batch_that_was_sent_or_cancelled_is_not_cancelled(ledger):
    line = {"payee": "alice", "currency": "EUR", "amount": 100}
    with ledger.transaction() as transaction:
        approve(transaction)
        transaction.add("payment", run=JUNE, **line)
        transaction.add("batch", run=JUNE, currency="EUR", content={"batch": "1", "runs": [JUNE]})
        transaction.add("ordered", content={"batch": "1"}, **line)
    cancel(ledger, "1", "refused")
    before = ledger.read()
    with pytest.raises(LedgerError, match="the batch 1 was cancelled before; nothing is recorded"):
        cancel(ledger, "1", "refused")
    assert ledger.read() == before


def test_nothing_is_written_to_a_file_that_something_else_changed(ledger):
    """Or the next page would checksum the change."""
    with closing(sqlite3.connect(ledger.path)) as connection:
        connection.execute("PRAGMA user_version = 7")
    before = ledger.read()
    with pytest.raises(LedgerError, match="is not as it was left"), ledger.transaction() as transaction:
        transaction.add("hold", payee="alice", content={"why": "account"})
    assert ledger.read() == before


def test_nothing_is_written_where_a_killed_writer_announced_other_heads(ledger):
    before = ledger.read()
    LedgerChecksum(ledger.path).announce(Tip(1, "1" * 64), Tip(2, "2" * 64))
    with (
        pytest.raises(LedgerError, match="its checksum says otherwise"),
        ledger.transaction() as transaction,
    ):
        transaction.add("hold", payee="alice", content={"why": "account"})
    assert ledger.read() == before


def test_a_seal_is_closed_with_a_head_that_was_announced_and_no_other(tmp_path):
    ledger, checksum = tmp_path / "ledger.sqlite", LedgerChecksum(tmp_path / "ledger.sqlite")
    ledger.write_bytes(b"as it is")
    before, after, forged = (Tip(n, digit * 64) for n, digit in ((1, "1"), (2, "2"), (2, "3")))
    checksum.announce(before, after)
    with pytest.raises(LedgerError, match="its checksum says otherwise"):
        checksum.close(forged)
    assert checksum.pending
    for tip in (before, after):
        checksum.announce(before, after)
        checksum.close(tip)
        assert not checksum.pending
        checksum.require()
