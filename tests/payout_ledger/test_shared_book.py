"""Several people share a book, and not the folders of its runs: what one may not read is passed over."""

import os
import tempfile
import traceback
from pathlib import Path

import pytest
from clerk import Clerk

from datamarket_gym.payout.ledger import transactions as money
from datamarket_gym.payout.ledger.store import FILE, within_reach
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
    clerk = Clerk(everybodys / "book.sqlite", everybodys / "runs")
    clerk.draft("june", "EUR", 1000, {"ann": (600, 0), "ed": (400, 0)}, {})
    private = everybodys / "private"
    with clerk.book.page() as page:
        entry = next(e for e in page.accounts.entries if e.kind == "draft")
        content = {**entry.content, "places": {"run": str(private)}}
        page.add("draft", run="f" * 64, currency="EUR", amount=1000, content=content)
    private.mkdir()
    for name in ("manifest.json", FILE):
        (private / name).write_text("{}")
    private.chmod(0o700)
    for path in everybodys.glob("book*"):
        path.chmod(0o666)
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        try:
            assert not within_reach(private / FILE)
            money.hold(clerk.book, "ann", "account unclear")
            assert all(check.good for check in verify_ledger(clerk.book))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert clerk.book.accounts().holds == {"ann": "account unclear"}
