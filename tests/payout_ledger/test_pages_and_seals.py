"""A page is written whole or not at all, and only where the seal knows the head of the book."""

import sqlite3
from contextlib import closing

import pytest

from datamarket_gym.payout.ledger.entries import LedgerError
from datamarket_gym.payout.ledger.store import Head, LedgerChecksum, open_ledger
from datamarket_gym.payout.ledger.transactions import cancel

JUNE = "a" * 64
DRAFT = {
    "manifest": "m", "places": {}, "checks": 0, "period": "", "submissions": "s", "kept": 0, "overrides": [],
    "standing": [], "warnings": [], "opening": {}, "lines": [["alice", 100, 100, 0]],
}  # fmt: skip


@pytest.fixture
def book(tmp_path):
    """One draft, which pays alice 100."""
    book = open_ledger(tmp_path / "book.sqlite", new=True)
    with book.page() as page:
        page.add("draft", run=JUNE, currency="EUR", amount=100, content=DRAFT)
    return book


def approve(page):
    page.add("approval", run=JUNE, content={"manifest": "m"}, by="anna")
    page.add("approved", run=JUNE, currency="EUR", amount=100)


def test_an_approval_without_its_payments_is_not_written(book):
    before = book.read()
    with pytest.raises(LedgerError, match="not all of its payments"), book.page() as page:
        approve(page)
    assert book.read() == before


def test_a_batch_that_was_sent_or_cancelled_is_not_cancelled(book):
    line = {"payee": "alice", "currency": "EUR", "amount": 100}
    with book.page() as page:
        approve(page)
        page.add("payment", run=JUNE, **line)
        page.add("batch", run=JUNE, currency="EUR", content={"batch": "1", "runs": [JUNE]})
        page.add("ordered", content={"batch": "1"}, **line)
    cancel(book, "1", "refused")
    before = book.read()
    with pytest.raises(LedgerError, match="the batch 1 was cancelled before; nothing is recorded"):
        cancel(book, "1", "refused")
    assert book.read() == before


def test_nothing_is_written_to_a_file_that_something_else_changed(book):
    """Or the next page would seal the change."""
    with closing(sqlite3.connect(book.path)) as connection:
        connection.execute("PRAGMA user_version = 7")
    before = book.read()
    with pytest.raises(LedgerError, match="is not as it was left"), book.page() as page:
        page.add("hold", payee="alice", content={"why": "account"})
    assert book.read() == before


def test_nothing_is_written_where_a_killed_writer_announced_other_heads(book):
    before = book.read()
    LedgerChecksum(book.path).announce(Head(1, "1" * 64), Head(2, "2" * 64))
    with pytest.raises(LedgerError, match="its seal says otherwise"), book.page() as page:
        page.add("hold", payee="alice", content={"why": "account"})
    assert book.read() == before


def test_a_seal_is_closed_with_a_head_that_was_announced_and_no_other(tmp_path):
    book, seal = tmp_path / "book.sqlite", LedgerChecksum(tmp_path / "book.sqlite")
    book.write_bytes(b"as it is")
    before, after, forged = (Head(n, digit * 64) for n, digit in ((1, "1"), (2, "2"), (2, "3")))
    seal.announce(before, after)
    with pytest.raises(LedgerError, match="its seal says otherwise"):
        seal.close(forged)
    assert seal.pending
    for head in (before, after):
        seal.announce(before, after)
        seal.close(head)
        assert not seal.pending
        seal.require()
