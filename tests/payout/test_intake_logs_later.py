"""What becomes of runs whose intake log goes on: it grows, is changed, is lost."""

import json
import shutil
import sqlite3

import pytest
from checks_files import answered, drawn
from logged_files import ACCEPTED, bad, call, grown, log, paid_by_log
from payout_files import (
    approve,
    cents,
    outputs,
)

from datamarket_gym.errors import RunError
from datamarket_gym.payout import run as run_module
from datamarket_gym.payout.checks.settle import settle
from datamarket_gym.payout.ledger.runs import ledger_of, ledger_warnings, run_of
from datamarket_gym.payout.manifest import read_manifest
from datamarket_gym.payout.verify import verify, verify_ledger


@pytest.fixture
def folder(tmp_path):
    log(tmp_path / "log.sqlite")
    return tmp_path


def test_a_log_that_has_grown_changes_nothing_of_a_run(folder):
    found = paid_by_log(folder)
    before = outputs(found)
    grown(folder / "log.sqlite")
    assert not bad(found, recompute=True)
    again = paid_by_log(folder)  # the same folder: the run that it holds
    assert outputs(again) == before
    assert approve(found) == "approved"
    assert call("ledger", "approve", found).exit_code == 0
    later = paid_by_log(folder, out="later")  # a new one, by the longer log
    assert read_manifest(later)["intake"]["number"] == 7
    assert read_manifest(later)["run"] != read_manifest(found)["run"]
    assert cents(later) == cents(found)


def test_ledger_approve_works_after_the_log_has_grown(folder):
    found = paid_by_log(folder)
    grown(folder / "log.sqlite")
    done = call("ledger", "approve", found, "--by", "anna", *ACCEPTED)
    assert (done.exit_code, done.output.strip()) == (0, "approved"), done.output


def test_a_killed_run_goes_on_with_the_log_as_it_was(folder, monkeypatch):
    whole = outputs(paid_by_log(folder, out="whole"))

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "write_report", killed)
        with pytest.raises(KeyboardInterrupt):
            paid_by_log(folder)
    grown(folder / "log.sqlite")
    assert outputs(paid_by_log(folder)) == whole


def forge(where, statement, *values):
    """Change a log behind its back: triggers dropped, the checksum made anew."""
    with sqlite3.connect(where) as database:
        triggers = database.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
        for name, _ in triggers:
            database.execute(f'DROP TRIGGER "{name}"')
        assert database.execute(statement, values).rowcount > 0
        for _, made in triggers:
            database.execute(made)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_entries SET body = replace(body, 'attacker', 'chief') WHERE number = 6",
        "DELETE FROM ledger_entries WHERE number = 6",
        "UPDATE ledger_digests SET digests = zeroblob(length(digests)) WHERE number = 3",
        "DELETE FROM ledger_digests WHERE number = 3",
    ],
    ids=["entry changed", "entry lost", "digests changed", "digests lost"],
)
def test_a_log_that_was_changed_after_the_run_is_found_and_named(folder, statement):
    found = paid_by_log(folder)
    assert not bad(found)
    forge(folder / "log.sqlite", statement)
    wrong = [check for check in bad(found) if check.what == "intake log"]
    assert len(wrong) == 1
    assert str(folder / "log.sqlite") in wrong[0].detail
    assert call("verify", found).exit_code == 1
    refused = call("ledger", "approve", found, *ACCEPTED)
    assert refused.exit_code == 1
    assert "intake log" in refused.output
    assert run_of(found).state == "draft"
    assert [c.what for c in verify_ledger(ledger_of(found)) if not c.good] == [
        f"run {run_of(found).run[:16]}"
    ]


def test_another_log_and_an_older_copy_are_refused(folder):
    shutil.copytree(folder, folder.parent / f"{folder.name}-old")
    old = folder.parent / f"{folder.name}-old" / "log.sqlite"
    grown(folder / "log.sqlite")
    found = paid_by_log(folder)
    (wrong,) = bad(found, intake=str(old))
    assert "does not hold entry 7 as it was when the run was worked out" in wrong.detail
    log(folder / "other.sqlite")
    (wrong,) = bad(found, intake=str(folder / "other.sqlite"))
    assert "is not the intake log of the run" in wrong.detail
    (folder / "log.sqlite").unlink()
    (wrong,) = bad(found)
    assert str(folder / "log.sqlite") in wrong.detail


def test_one_file_may_be_log_and_ledger(folder):
    shutil.copy(folder / "log.sqlite", folder / "ledger.sqlite")
    shutil.copy(folder / "log.sqlite.checksum", folder / "ledger.sqlite.checksum")
    found = paid_by_log(folder, where=folder / "ledger.sqlite")
    assert ledger_of(found).accounts().received
    assert not bad(found, recompute=True)
    assert ledger_warnings(ledger_of(found).accounts(), run_of(found)) == []
    assert approve(found) == "approved"
    assert not bad(found, recompute=True)


def test_a_settlement_goes_by_the_log_of_its_draft(folder):
    draft = paid_by_log(folder, checks=3)
    found = drawn(draft)
    grown(folder / "log.sqlite")
    answered(draft, false={found.draws[0].payee})
    after = settle(draft, folder / "settled", by="settler").run
    assert after == folder / "settled"
    assert read_manifest(after)["intake"] == read_manifest(draft)["intake"]
    assert not bad(after, recompute=True)


def test_a_damaged_head_in_a_manifest_is_told(folder):
    found = paid_by_log(folder)
    manifest = json.loads((found / "manifest.json").read_text())
    (found / "manifest.json").write_text(json.dumps(manifest | {"intake": {"log": 1}}))
    with pytest.raises(RunError, match=r"manifest.json: intake"):
        verify(found)
