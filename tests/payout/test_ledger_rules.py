"""What the ledger refuses, whoever asks: other manifests, drafts as a source, second thoughts."""

import getpass
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from payout_files import cents, payments, run, run_by_accuracy, units, validation, warned

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.files import sha256
from datamarket_gym.payout import ledger
from datamarket_gym.payout.overrides import Override
from datamarket_gym.payout.verify import verify

SIGNED = '[[join]]\nunits = ["u0", "u1"]\nreason = "checked"\nby = "R. Okafor"\ndate = 2026-05-31\n'


def in_debt():
    """One seller's labels are wrong: its score is below zero, and it carries a debt."""
    columns = units()
    wrong = np.array([name == "seller 2" for name in columns["identity"]])
    columns["label"] = np.where(wrong, (columns["label"] + 1) % 3, columns["label"])
    return columns


@pytest.fixture(scope="module")
def paydays(tmp_path_factory):
    """Two drafts; the second does not know the first."""
    place = tmp_path_factory.mktemp("paydays")
    signed = place / "overrides.toml"
    signed.write_text(SIGNED, encoding="utf-8")
    run_by_accuracy(place / "first", in_debt(), overrides=signed)
    run(place / "second", units(seed=4), validation(seed=5))
    return place


@pytest.fixture
def first(paydays, tmp_path):
    return shutil.copytree(paydays / "first" / "run", tmp_path / "first")


@pytest.fixture
def second(paydays, tmp_path):
    return shutil.copytree(paydays / "second" / "run", tmp_path / "second")


def approve(folder, previous=None, by="tester"):
    return ledger.approve(folder, sha256(folder / "manifest.json"), by, previous, warned(folder))


def told(folder, statement, *values):
    """Whatever a stranger with an SQLite shell gets for a statement."""
    with closing(sqlite3.connect(folder / ledger.NAME)) as connection:
        rows = connection.execute(statement, values).fetchall()
        connection.commit()
        return rows


def refused(folder, statement):
    before = (folder / ledger.NAME).read_bytes()
    with pytest.raises(sqlite3.IntegrityError):
        told(folder, statement)
    assert (folder / ledger.NAME).read_bytes() == before


def test_the_same_run_with_another_manifest_is_not_entered(first):
    record = ledger.read_record(first)
    assert ledger.draft(first, record, [], [], []) == "draft"  # the very same: nothing to do
    for other in (replace(record, manifest="0" * 64), replace(record, run="0" * 64)):
        with pytest.raises(DataMarketError, match="holds another run"):
            ledger.draft(first, other, [], [], [])
    assert ledger.read_record(first) == record
    approve(first)
    assert ledger.draft(first, record, [], [], []) == "approved"


def test_a_run_is_entered_once_with_its_payments(first):
    record, entries = ledger.read_record(first), ledger.read_entries(first)
    ledger.draft(first, record, [ledger.Entry("stranger", 1, 1, 0)], [], [])
    assert ledger.read_entries(first) == entries
    assert [e.identity for e in entries] == sorted(e.identity for e in entries)
    for column in ("paid", "entitled", "balance"):
        named = "payment" if column == "paid" else column
        assert {e.identity: getattr(e, column) for e in entries} == cents(first, named)


def test_a_run_that_could_not_be_entered_whole_is_not_entered_at_all(first, tmp_path):
    record, entries = ledger.read_record(first), ledger.read_entries(first)
    with pytest.raises(DataMarketError, match="refuses"):
        ledger.draft(tmp_path, record, [*entries, entries[0]], [], [])
    assert ledger.read_record(tmp_path) is None
    assert ledger.draft(tmp_path, record, entries, [], []) == "draft"
    assert ledger.read_entries(tmp_path) == entries


def test_only_the_manifest_that_was_entered_is_approved(first):
    with pytest.raises(DataMarketError, match="not the one the run was entered with"):
        ledger.approve(first, "0" * 64)
    assert ledger.read_record(first).state == "draft"
    assert len(ledger.read_history(first)) == 1


def test_balances_are_taken_up_from_approved_runs_only(first, second):
    with pytest.raises(DataMarketError, match="still a draft"):
        approve(second, first)
    assert ledger.read_record(second).state == "draft"
    assert told(first, "SELECT * FROM carried") == []
    approve(first)
    ledger.mark_paid(first, "transfer 1")
    assert approve(second, first)  # paid is later than approved
    runs = ledger.read_record(first).run, ledger.read_record(second).run
    assert told(first, "SELECT run, into_run FROM carried") == [runs]


def test_a_folder_without_a_run_has_no_balances_to_take_up(tmp_path):
    with pytest.raises(DataMarketError, match="holds no approved run to carry balances from"):
        run(tmp_path, carry_from=tmp_path / "nothing")


def test_what_is_carried_stays_carried(first, second, paydays, tmp_path):
    approve(first)
    approve(second, first)
    for statement in (
        "UPDATE carried SET into_run = 'mine'",
        "UPDATE carried SET run = 'mine'",
        "DELETE FROM carried",
        "INSERT INTO carried SELECT run, 'mine' FROM runs",
    ):
        refused(first, statement)
    third = shutil.copytree(paydays / "second" / "run", tmp_path / "third")
    with closing(sqlite3.connect(third / ledger.NAME)) as connection:  # another run altogether
        connection.executescript("DROP TRIGGER runs_move; UPDATE runs SET run = 'third'")
    with pytest.raises(DataMarketError, match="taken up by another run already"):
        approve(third, first)
    assert ledger.read_record(third).state == "draft"
    assert told(first, "SELECT into_run FROM carried") == [(ledger.read_record(second).run,)]


def test_an_approval_that_was_cut_off_can_be_repeated(first, second):
    approve(first)
    told(first, "INSERT INTO carried SELECT run, ? FROM runs", ledger.read_record(second).run)
    assert approve(second, first)


@pytest.mark.parametrize(
    "change", ["run = 'x'", "amount = 1", "currency = 'USD'", "manifest = 'x'", "places = '{}'"]
)
def test_nothing_but_the_state_changes_when_a_run_moves_on(first, change):
    refused(first, f"UPDATE runs SET state = 'approved', {change}")
    approve(first)
    refused(first, f"UPDATE runs SET state = 'paid', {change}")


def test_no_state_is_skipped_repeated_or_undone(first):
    refused(first, "UPDATE runs SET state = 'paid'")
    refused(first, "UPDATE runs SET state = 'draft'")
    refused(first, "UPDATE runs SET state = 'lost'")
    approve(first)
    refused(first, "UPDATE runs SET state = 'draft'")
    refused(first, "UPDATE runs SET state = 'approved'")
    ledger.mark_paid(first, "transfer 1")
    refused(first, "UPDATE runs SET state = 'approved'")
    refused(first, "DELETE FROM runs")


@pytest.mark.parametrize("table", ["payments", "overrides"])
@pytest.mark.parametrize("state", ["approved", "paid"])
def test_payments_and_overrides_are_fixed_from_the_approval_on(first, table, state):
    assert told(first, f"SELECT count(*) FROM {table}")[0][0] > 0
    told(first, f"UPDATE {table} SET run = run")  # a draft may still change
    approve(first)
    if state == "paid":
        ledger.mark_paid(first, "transfer 1")
    refused(first, f"UPDATE {table} SET run = run")
    refused(first, f"DELETE FROM {table}")


def test_nobody_is_paid_less_than_nothing(first):
    refused(first, "UPDATE payments SET paid = -1")


def test_overrides_are_kept_as_they_were_signed(first):
    [(position, content)] = told(first, "SELECT position, content FROM overrides")
    kept = Override.model_validate_json(content)
    assert (position, kept.action, kept.units, kept.by) == (0, "join", ["u0", "u1"], "R. Okafor")


def test_history_says_who_did_what_when(first):
    started = datetime.now(UTC)
    approve(first, by="K. Ito")
    ledger.mark_paid(first, "transfer 7")
    (_, _, entered, detail), (at, *approved), (_, *paid) = ledger.read_history(first)
    manifest = sha256(first / "manifest.json")
    assert (entered, detail) == (getpass.getuser(), f"manifest {manifest}")
    assert approved == ["approved", "K. Ito", f"manifest {manifest}"]
    assert paid == ["paid", getpass.getuser(), "transfer 7"]
    assert abs((datetime.fromisoformat(at) - started).total_seconds()) < 60
    refused(first, "UPDATE history SET detail = 'nothing'")
    refused(first, "DELETE FROM history")


def test_a_balance_that_was_brought_in_is_neither_lost_nor_made(first, tmp_path):
    told(first, "UPDATE payments SET balance = balance + 500 WHERE identity = 'seller 1'")
    approve(first)
    before = {e.identity: e.balance for e in ledger.read_entries(first)}
    found = run(tmp_path, units(seed=4), validation(seed=5), carry_from=first)
    assert sum(cents(found).values()) == 100_000
    assert sum(cents(found, "entitled").values()) == 100_000 + 500
    assert sum(cents(found, "balance").values()) == 500
    assert [check.what for check in verify(found, recompute=True) if not check.good] == []
    assert sum(before.values()) == 500
    assert before["seller 2"] < 0


def test_old_balances_are_in_the_intervals_too(first, tmp_path):
    left = "UPDATE payments SET identity = ?, balance = ? WHERE identity = ?"
    told(first, left, "seller 1", -10_000_000, "seller 1")
    told(first, left, "retired", 2_000_000, "seller 2")
    told(first, left, "absent", -1, "seller 3")
    approve(first)
    found = payments(run(tmp_path, units(seed=4), validation(seed=5), carry_from=first))
    owing, retired = found["seller 1"], found["retired"]
    # no validation rows could have settled the debt
    assert (owing["payment"], owing["low"], owing["high"]) == ("0.00", "0.00", "0.00")
    # the credit is most of what everyone is due together, and no validation rows decide about it
    assert float(retired["payment"]) > 900
    assert 900 < float(retired["low"]) < float(retired["payment"]) < float(retired["high"]) < 1000
    assert (retired["units"], retired["clusters"], retired["score"]) == (0, 0, 0.0)
    assert [*found][-2:] == ["absent", "seller 1"]  # paid nothing, in the order of their names
