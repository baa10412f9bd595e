"""What is kept of checks cannot be changed: by the ledger's own rules, and because verify works it out again."""

import shutil
import sqlite3

import pytest
from checks_files import answered, drawn, paid
from forged_ledger import rewritten, told
from payout_files import copied

from datamarket_gym.errors import DataMarketError
from datamarket_gym.payout.checks.draw import draw_checks, read_checks
from datamarket_gym.payout.checks.settle import settle
from datamarket_gym.payout.ledger.runs import run_of
from datamarket_gym.payout.verify import verify


@pytest.fixture(scope="module")
def payout_runs(tmp_path_factory):
    """A run at each stage: paid, drawn, answered, checked; and one whose place another took."""
    base = tmp_path_factory.mktemp("tampered")
    found = {"paid": paid(base / "paid")}
    found["drawn"] = copied(found["paid"], base / "drawn")
    drawn(found["drawn"])
    found["answered"] = copied(found["drawn"], base / "answered")
    answered(found["answered"])
    found["checked"] = copied(found["answered"], base / "checked")
    settle(found["checked"])
    failed = copied(found["drawn"], base / "failed")
    answered(failed, false=("seller 1",))
    settle(failed, failed.parent / "new")
    found["superseded"], found["new"] = failed, failed.parent / "new"
    return found


@pytest.fixture
def at(payout_runs, tmp_path):
    return lambda stage: copied(payout_runs[stage], tmp_path / stage)


def bad(folder):
    return [check.what for check in verify(folder) if not check.good]


def changed(folder, kind, **content):
    """Write the ledger anew with another content of entries of a kind; chain, head and checksum fit."""

    def change(entries):
        for entry in entries:
            if entry["kind"] == kind:
                entry["content"] |= content
        return entries

    rewritten(folder, change)


@pytest.mark.parametrize("stage", ["paid", "drawn", "checked", "superseded"])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_entries SET body = replace(body, 'seller 1', 'seller 2')",
        "DELETE FROM ledger_entries WHERE number > 2",
        "UPDATE ledger_tip SET number = 2",
        "INSERT INTO ledger_entries SELECT 9 + number, body, hash FROM ledger_entries",
    ],
)
def test_the_ledger_itself_refuses(at, stage, statement):
    folder = at(stage)
    before = run_of(folder)
    if stage == "paid" and statement.startswith("DELETE"):
        statement = "DELETE FROM ledger_entries"
    with pytest.raises(sqlite3.IntegrityError):
        told(folder, statement)
    assert run_of(folder) == before


@pytest.mark.parametrize("stage", ["drawn", "answered", "checked", "superseded", "new"])
def test_untouched_runs_are_good(payout_runs, stage):
    assert bad(payout_runs[stage]) == []


@pytest.mark.parametrize(
    ("stage", "name"),
    [
        ("drawn", "checks.csv"),
        ("answered", "checks/outcomes.json"),
        ("checked", "checks.csv"),
        ("checked", "checks/outcomes.json"),
        ("checked", "certificate.json"),
        ("superseded", "checks/outcomes.json"),
        ("new", "checks/before.parquet"),
    ],
)
@pytest.mark.parametrize("how", ["changed", "missing"])
def test_a_file_that_was_changed_or_lost_is_found(at, stage, name, how):
    folder = at(stage)
    path = folder / name
    if how == "missing":
        path.unlink()
    else:
        content = path.read_bytes()
        path.write_bytes(
            content.replace(b"genuine", b"false", 1) if b"genuine" in content else content + b"\n"
        )
    assert name in bad(folder)


def test_a_draw_that_was_made_to_fit_is_found(at):
    """Somebody who writes the whole ledger anew, with the beacon, or the plan, that suits them."""
    folder = at("drawn")
    changed(folder, "drawn", beacon="mine")
    assert "checks.csv" in bad(folder)
    other = at("answered")
    changed(other, "planned", plan=run_of(other).plan.replace("0.8", "0.9"))
    assert "checks.csv" in bad(other)


def test_files_that_were_changed_are_not_drawn_or_settled_from(at):
    folder = at("answered")
    (folder / "checks.csv").write_text("number,unit\n1,mine\n")
    with pytest.raises(DataMarketError, match="was changed after the draw"):
        read_checks(folder)
    with pytest.raises(DataMarketError, match=r"checks\.csv"):
        settle(folder)
    draw_checks(folder, "block 1")  # the same beacon writes it again
    assert settle(folder).checked


def test_a_run_that_says_it_took_the_place_of_another_is_held_against_it(at, tmp_path):
    folder = at("superseded")
    place = tmp_path / "place"
    changed(folder, "superseded", place=str(place))
    assert bad(folder) == []  # it may have been moved
    shutil.copytree(at("paid"), place)
    assert bad(folder) == ["the run that took its place"]
