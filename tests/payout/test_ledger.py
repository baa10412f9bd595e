"""The ledger: one approval, no way back, nothing rewritten, balances carried once."""

import multiprocessing
import sqlite3

import numpy as np
import pytest
from payout_files import cents, run, run_by_accuracy, spec, units, validation, warned, write

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.files import claimed, sha256
from datamarket_gym.payout import ledger
from datamarket_gym.payout.run import pay


@pytest.fixture
def folder(tmp_path):
    return run(tmp_path)


def approve(folder, previous=None):
    return ledger.approve(folder, sha256(folder / "manifest.json"), "tester", previous, warned(folder))


def events(folder):
    return [event for _, event, _, _ in ledger.read_history(folder)]


def test_draft_approved_paid(folder):
    assert ledger.read_record(folder).state == "draft"
    with pytest.raises(DataMarketError, match="approve it before"):
        ledger.mark_paid(folder, "transfer 1")
    assert approve(folder)
    assert not approve(folder)
    assert ledger.mark_paid(folder, "transfer 1")
    assert not ledger.mark_paid(folder, "transfer 2")
    assert not approve(folder)
    assert ledger.read_record(folder).state == "paid"
    assert events(folder) == ["draft", "despite", "approved", "paid"]


def _race(folder, barrier, results):
    barrier.wait()
    results.put(approve(folder))


def test_two_processes_approving_at_once_leave_one_approval(folder):
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(4), context.Queue()
    racers = [context.Process(target=_race, args=(folder, barrier, results)) for _ in range(4)]
    for racer in racers:
        racer.start()
    done = [results.get(timeout=60) for _ in racers]
    for racer in racers:
        racer.join()
    assert sorted(done) == [False, False, False, True]
    assert events(folder) == ["draft", "despite", "approved"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE payments SET paid = paid + 1",
        "DELETE FROM payments",
        "INSERT INTO payments SELECT run, 'new', 1, 1, 0 FROM runs",
        "UPDATE runs SET state = 'draft'",
        "UPDATE runs SET amount = 1",
        "DELETE FROM runs",
        "UPDATE history SET by = 'nobody'",
        "DELETE FROM history",
        "INSERT INTO overrides SELECT run, 9, '{}' FROM runs",
    ],
)
def test_an_approved_run_cannot_be_changed(folder, statement):
    approve(folder)
    connection = sqlite3.connect(folder / ledger.NAME)
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(statement)
    connection.close()


def test_paying_again_changes_nothing(tmp_path):
    folder = run(tmp_path)
    approve(folder)
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert run(tmp_path) == folder
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before


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
    first = run_by_accuracy(tmp_path / "first", bad_apple())
    assert cents(first)["seller 2"] == 0
    debt = cents(first, "balance")["seller 2"]
    assert debt < 0
    assert sum(cents(first, "balance").values()) == 0
    with pytest.raises(DataMarketError, match="no approved run"):
        run(tmp_path / "early", carry_from=first)
    approve(first)
    second = run(tmp_path / "second", units(seed=4), validation(seed=5), carry_from=first)
    plain = run(tmp_path / "plain", units(seed=4), validation(seed=5))
    assert (
        abs(cents(second, "entitled")["seller 2"] - (cents(plain, "entitled")["seller 2"] + debt)) <= 1
    )
    assert cents(second)["seller 2"] < cents(plain)["seller 2"]
    third = run(tmp_path / "third", units(seed=6), validation(seed=7), carry_from=first)
    assert approve(second, first)
    with pytest.raises(DataMarketError, match="taken up by another run"):
        approve(third, first)
    assert ledger.read_record(third).state == "draft"


def test_someone_who_left_keeps_the_balance(tmp_path):
    first = run_by_accuracy(tmp_path / "first", bad_apple())
    approve(first)
    columns = units(seed=4)
    columns["identity"] = [name.replace("seller 2", "newcomer") for name in columns["identity"]]
    second = run(tmp_path / "second", columns, carry_from=first)
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
