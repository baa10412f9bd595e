"""One batch for several runs: saying that one of them was paid does not say so of the others."""

import pytest
from clerk import Clerk

from datamarket_gym.payout.bank.export import ExportRequest, export_payments
from datamarket_gym.payout.ledger.entries import LedgerError


@pytest.fixture
def clerk(tmp_path):
    found = Clerk(tmp_path / "ledger.sqlite", tmp_path / "runs")
    for month, paid in (("june", 600), ("july", 400)):
        found.draft(month, "EUR", paid, {"ann": (paid, 0)}, {})
        found.approve(month, "R. Okafor")
    return found


def test_a_run_is_not_marked_as_paid_by_a_batch_of_several(clerk):
    batch = clerk.order("EUR")
    with pytest.raises(LedgerError, match=f"{batch.id} holds the payments of 2 runs"):
        clerk.paid("july", "transfer 1")
    assert sum(clerk.ledger.accounts().sent.values()) == 0
    clerk.confirm(batch.id, "transfer 1")
    assert {run.reference for run in clerk.ledger.accounts().runs.values()} == {"transfer 1"}


def test_what_waits_run_by_run_is_sent_by_the_ledger(clerk, tmp_path):
    clerk.rule_least("EUR", 1000)
    asked = ExportRequest(out=tmp_path / "x.csv", form="csv")
    for month in ("june", "july"):
        with pytest.raises(LedgerError, match="adds up in an export of the whole ledger"):
            export_payments(clerk.ledger, asked, clerk.run_id(month))
    assert clerk.order("EUR").lines == {"ann": 1000}
