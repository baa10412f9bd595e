"""An older copy of a ledger, a second one, a payments.csv that was edited: nothing is entered by them."""

import shutil

import payout_files as files
import pytest

from datamarket_gym.errors import DataMarketError
from datamarket_gym.payout.ledger import transactions as batches
from datamarket_gym.payout.ledger import transactions as money
from datamarket_gym.payout.ledger.entries import LedgerError
from datamarket_gym.payout.ledger.runs import ledger_of, mark_paid
from datamarket_gym.payout.ledger.store import FILE, open_ledger
from datamarket_gym.payout.verify import verify_ledger


@pytest.fixture
def june(tmp_path):
    folder = files.run(tmp_path / "market")
    files.approve(folder)
    return folder


def kept(ledger, place):
    """A copy of a ledger and its checksum."""
    place.mkdir()
    for name in (ledger.name, f"{ledger.name}.checksum"):
        shutil.copy(ledger.with_name(name), place / name)
    return place


def test_a_ledger_from_an_older_copy_sends_nothing_again(june, tmp_path):
    ledger = ledger_of(june)
    copy = kept(ledger.path, tmp_path / "copy")
    batch = batches.order(ledger)  # of the whole ledger, so that no command names the run
    batches.confirm(ledger, batch.id, "transfer 1")
    shutil.copytree(copy, ledger.path.parent, dirs_exist_ok=True)
    older = open_ledger(ledger.path)
    assert sum(older.accounts().payable.values()) == 100_000
    with pytest.raises(LedgerError, match="older copy"):
        batches.order(older)
    assert [check.what for check in verify_ledger(older) if not check.good] == [
        f"run {next(iter(older.accounts().runs))[:16]}"
    ]


def test_a_copied_market_pays_nothing_that_the_first_has_sent(june, tmp_path):
    second = files.copied(june, tmp_path / "second")
    batches.order(ledger_of(june))
    with pytest.raises(LedgerError, match="a second one"):
        batches.order(ledger_of(second))


def test_a_market_that_was_moved_goes_on(june, tmp_path):
    shutil.move(june.parent, tmp_path / "moved")
    moved = ledger_of(tmp_path / "moved" / june.name)
    assert sum(batches.order(moved).lines.values()) == 100_000


def test_a_folder_that_holds_another_run_now_stops_nobody(june, tmp_path):
    ledger = ledger_of(june)
    shutil.rmtree(june)
    other = files.run(tmp_path / "elsewhere", files.units(seed=3))
    shutil.copytree(other, june)
    money.hold(ledger, "attacker", "account unclear")
    assert (june / FILE).read_bytes() == (other / FILE).read_bytes()


def test_a_run_is_not_marked_as_paid_by_a_list_that_was_edited(june):
    path = june / "payments.csv"
    said = path.read_text(encoding="utf-8")
    path.write_text(said.replace("attacker", "other"), encoding="utf-8")
    with pytest.raises(DataMarketError, match="not as the run left it"):
        mark_paid(june, "transfer 1")
    path.write_text(said, encoding="utf-8")
    assert mark_paid(june, "transfer 1")
