"""Several people share a ledger, and not the folders of its runs: what one may not read is passed over."""

import os
import tempfile
import traceback
from pathlib import Path

import pytest
from clerk import Clerk

from datamarket_gym.payout.ledger import transactions as money
from datamarket_gym.payout.ledger.store import FILE, is_readable
from datamarket_gym.payout.verify import verify_ledger


@pytest.fixture
def everybodys():
    """A folder that everybody may use; those of pytest are of one user alone."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.mark.skipif(
    not hasattr(os, "fork") or os.getuid() != 0, reason="only root can become somebody else"
)
def test_a_folder_that_may_not_be_read_stops_nobody(everybodys):
    clerk = Clerk(everybodys / "ledger.sqlite", everybodys / "runs")
    clerk.draft("june", "EUR", 1000, {"ann": (600, 0), "ed": (400, 0)}, {})
    private = everybodys / "private"
    with clerk.ledger.transaction() as transaction:
        entry = next(e for e in transaction.accounts.entries if e.kind == "draft")
        content = {**entry.content, "places": {"run": str(private)}}
        transaction.add("draft", run="f" * 64, currency="EUR", amount=1000, content=content)
    private.mkdir()
    for name in ("manifest.json", FILE):
        (private / name).write_text("{}")
    private.chmod(0o700)
    for path in everybodys.glob("ledger*"):
        path.chmod(0o666)
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        try:
            assert not is_readable(private / FILE)
            money.hold(clerk.ledger, "ann", "account unclear")
            assert all(check.good for check in verify_ledger(clerk.ledger))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert clerk.ledger.accounts().holds == {"ann": "account unclear"}
