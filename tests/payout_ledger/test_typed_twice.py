"""Commands that are typed a second time, because the first seemed to fail or was forgotten, move no money twice."""

import errno

import pytest
from clerk import Clerk

from datamarket_gym.payout.ledger import store
from datamarket_gym.payout.ledger import transactions as money
from datamarket_gym.payout.ledger.entries import LedgerError
from datamarket_gym.payout.ledger.store import LedgerChecksum


@pytest.fixture
def clerk(tmp_path):
    """Two runs that were paid, in folders that the ledger finds."""
    found = Clerk(tmp_path / "ledger.sqlite", tmp_path / "runs")
    for month in ("june", "july"):
        found.draft(month, "EUR", 1000, {"ann": (600, 0), "ed": (400, 0)}, {})
        found.approve(month, "R. Okafor")
        found.paid(month, f"transfer of {month}")
    return found


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def kinds(clerk):
    return [entry.kind for entry in clerk.ledger.read()]


def test_what_came_back_comes_back_once(clerk):
    first = money.bounced(clerk.ledger, "ann", "account closed")
    with pytest.raises(LedgerError, match=r"has come back before; name an earlier entry with --of"):
        money.bounced(clerk.ledger, "ann", "account closed")
    assert clerk.ledger.accounts().payable["ann", "EUR"] == 600
    june = next(e.number for e in clerk.ledger.read() if e.kind == "sent" and e.payee == "ann")
    assert june != first.content["of"]
    money.bounced(clerk.ledger, "ann", "that one, too", june)
    assert clerk.ledger.accounts().payable["ann", "EUR"] == 1200


def test_a_disk_that_is_full_after_the_commit_does_not_ask_for_a_second_try(clerk, monkeypatch):
    of = kinds(clerk).index("payment") + 1
    monkeypatch.setattr(LedgerChecksum, "close", full)
    announce = store.write_json
    monkeypatch.setattr(
        store,
        "write_json",
        lambda path, data, **more: (full if path.name == store.FILE else announce)(path, data, **more),
    )
    monkeypatch.setattr(store, "receipts_of", lambda accounts: [(clerk.run_folder("june"), said(clerk))])
    with pytest.warns(UserWarning, match=r"is entered; .* Do not do it again"):
        assert money.correct(clerk.ledger, "ann", 5, of, "counted wrongly").kind == "correction"
    monkeypatch.undo()
    assert kinds(clerk).count("correction") == 1
    assert clerk.ledger.accounts().payable["ann", "EUR"] == 5
    money.hold(clerk.ledger, "ann", "account unclear")  # closes the checksum
    assert all(check.good for check in clerk.ledger.examined())


def said(clerk):
    return store.read_receipt(clerk.run_folder("june"))
