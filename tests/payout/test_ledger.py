"""A run in the ledger: one approval, no way back, nothing rewritten, balances carried once."""

import sqlite3

import numpy as np
import pytest
from forged_ledger import told
from payout_files import (
    approve,
    cents,
    copied,
    events,
    run,
    run_by_accuracy,
    spec,
    units,
    validation,
    write,
)

from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.files import claimed, write_json
from datamarket_gym.payout.ledger.entries import LedgerError
from datamarket_gym.payout.ledger.runs import ledger_of, mark_paid, run_of
from datamarket_gym.payout.run import pay


@pytest.fixture(scope="module")
def drafted(tmp_path_factory):
    return run(tmp_path_factory.mktemp("drafted"))


@pytest.fixture
def folder(drafted, tmp_path):
    return copied(drafted, tmp_path / "market")


@pytest.fixture(scope="module")
def approved(drafted, tmp_path_factory):
    """A run that no test changes."""
    folder = copied(drafted, tmp_path_factory.mktemp("approved") / "market")
    approve(folder)
    return folder


def everything(place):
    return {p: p.read_bytes() for p in place.rglob("*") if p.is_file()}


def test_draft_approved_paid(folder):
    assert run_of(folder).state == "draft"
    with pytest.raises(DataMarketError, match="approve it before"):
        mark_paid(folder, "transfer 1")
    assert approve(folder) == "approved"
    assert approve(folder) == "approved"
    assert mark_paid(folder, "transfer 1")
    assert not mark_paid(folder, "transfer 1")
    assert approve(folder) == "paid"
    assert run_of(folder).state == "paid"
    assert events(folder) == ["draft", "accepted", "approval", "approved", "paid"]


def test_a_second_reference_is_an_error_that_shows_the_first(folder):
    approve(folder)
    with pytest.raises(DataMarketError, match="reference is empty"):
        mark_paid(folder, " ")
    assert events(folder)[-1] == "approved"
    mark_paid(folder, "transfer 1")
    before = everything(folder.parent)
    with pytest.raises(
        LedgerError, match="with the reference 'transfer 1'; a second payment is not recorded"
    ):
        mark_paid(folder, "transfer 2")
    assert everything(folder.parent) == before


@pytest.mark.parametrize(
    "statement",
    [
        """UPDATE ledger_entries SET body = replace(body, '"amount":', '"amount":1')""",
        "UPDATE ledger_entries SET hash = hash",
        "UPDATE ledger_entries SET number = number + 1",
        "DELETE FROM ledger_entries",
        "DELETE FROM ledger_entries WHERE number = (SELECT max(number) FROM ledger_entries)",
        "INSERT INTO ledger_entries SELECT 2 + max(number), body, hash FROM ledger_entries",
        "INSERT OR REPLACE INTO ledger_entries SELECT number, body, 'x' FROM ledger_entries WHERE number = 2",
        "UPDATE ledger_tip SET hash = 'x'",
        "UPDATE ledger_tip SET number = 1",
        "DELETE FROM ledger_tip",
        "INSERT INTO ledger_tip VALUES (2, 2, 'x')",
    ],
)
def test_an_approved_run_cannot_be_changed(approved, statement):
    before = everything(approved.parent)
    with pytest.raises(sqlite3.IntegrityError):
        told(approved, statement)
    assert everything(approved.parent) == before


def test_paying_again_changes_nothing(tmp_path):
    folder = run(tmp_path)
    approve(folder)
    before = everything(tmp_path)
    assert run(tmp_path) == folder
    after = everything(tmp_path)
    assert {
        path for path in after if path.parent != tmp_path / "in" and after[path] != before[path]
    } == set()
    assert after.keys() == before.keys()


def test_a_folder_with_another_run_is_refused(tmp_path):
    folder = run(tmp_path)
    with pytest.raises(DataMarketError, match="holds another run"):
        run(tmp_path, amount="1000.01")
    with pytest.raises(DataMarketError, match="holds another run"):
        run(tmp_path, units(seed=9))
    assert sum(cents(folder).values()) == 100_000
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    with pytest.raises(DataMarketError, match="not empty"):
        pay(write(tmp_path / "in"), spec(), tmp_path / "other")


def bad_apple():
    """One seller's labels are wrong, so that its score is below zero."""
    columns = units()
    wrong = np.array([name == "seller 2" for name in columns["identity"]])
    columns["label"] = np.where(wrong, (columns["label"] + 1) % 3, columns["label"])
    return columns


def test_debts_are_carried_and_settled_once(tmp_path):
    ledger = tmp_path / "ledger.sqlite"
    first = run_by_accuracy(tmp_path / "first", bad_apple(), ledger=ledger)
    assert cents(first)["seller 2"] == 0
    debt = cents(first, "balance")["seller 2"]
    assert debt < 0
    assert sum(cents(first, "balance").values()) == 0
    early = run(tmp_path / "early", units(seed=4), validation(seed=5), ledger=ledger)
    plain = run(tmp_path / "plain", units(seed=4), validation(seed=5))
    assert cents(early) == cents(plain)  # what a draft would carry is nobody's yet
    approve(first)
    assert ledger_of(first).accounts().balances("EUR")["seller 2"] == debt
    with pytest.raises(LedgerError, match="balances that the run takes up have changed since"):
        approve(early)
    second = run(tmp_path / "second", units(seed=4), validation(seed=5), ledger=ledger)
    assert (
        abs(cents(second, "entitled")["seller 2"] - (cents(plain, "entitled")["seller 2"] + debt)) <= 1
    )
    assert cents(second)["seller 2"] < cents(plain)["seller 2"]
    third = run(tmp_path / "third", units(seed=6), validation(seed=7), ledger=ledger)
    assert approve(second) == "approved"
    with pytest.raises(LedgerError, match="balances that the run takes up have changed since"):
        approve(third)
    assert run_of(third).state == "draft"
    assert events(third) == ["draft"]
    left = {name: value for name, value in cents(second, "balance").items() if value}
    assert ledger_of(first).accounts().balances("EUR") == left


def test_someone_who_left_keeps_the_balance(tmp_path):
    ledger = tmp_path / "ledger.sqlite"
    first = run_by_accuracy(tmp_path / "first", bad_apple(), ledger=ledger)
    approve(first)
    columns = units(seed=4)
    columns["identity"] = [name.replace("seller 2", "newcomer") for name in columns["identity"]]
    second = run(tmp_path / "second", columns, ledger=ledger)
    assert cents(second)["seller 2"] == 0
    assert cents(second, "balance")["seller 2"] == cents(first, "balance")["seller 2"]
    assert sum(cents(second).values()) == 100_000


def test_two_runs_do_not_work_in_one_folder_at_once(tmp_path):
    folder = run(tmp_path)
    with (
        claimed(folder),
        pytest.raises(DataMarketError, match="another run is at work"),
    ):
        run(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataMarketError, match="cannot be made a folder"):
        pay(write(tmp_path / "in"), spec(), tmp_path / "file")


@pytest.mark.parametrize("how", ["emptied", "gone"])
def test_no_ledger_is_begun_where_one_was_lost(folder, tmp_path, how):
    approve(folder)
    ledger = ledger_of(folder).path
    ledger.unlink()
    if how == "emptied":
        ledger.touch()
    with pytest.raises(LedgerError, match="gone or was emptied, and its checksum is still there"):
        run(tmp_path / "next", units(seed=4), ledger=ledger)
    assert not (tmp_path / "next" / "run").exists()


def test_a_ledger_that_was_only_begun_is_begun_again(tmp_path):
    """Killed after SQLite made the file, or after the first entry was announced: nothing was in it yet."""
    for place, checksum in (("one", None), ("two", {"number": 0, "hash": "0" * 64})):
        ledger = tmp_path / place / "ledger.sqlite"
        ledger.parent.mkdir()
        ledger.touch()
        if checksum is not None:
            first = {"number": 1, "hash": "f" * 64}
            write_json(ledger.with_name("ledger.sqlite.checksum"), {"before": checksum, "after": first})
        assert events(run(tmp_path / place)) == ["draft"]
        assert all(good for _, good, _ in ledger_of(tmp_path / place / "run").examined())
