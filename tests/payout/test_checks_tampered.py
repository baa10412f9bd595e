"""What is kept of checks cannot be changed: by the ledger's own rules, and because verify works it out again."""

import json
import shutil
import sqlite3
from contextlib import closing

import pytest
from checks_files import answered, drawn, paid

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.payout import ledger
from datamarket_gym.payout.checks import entries
from datamarket_gym.payout.checks.draw import draw_checks, read_checks
from datamarket_gym.payout.checks.plan import Wishes, make_plan
from datamarket_gym.payout.checks.settle import settle
from datamarket_gym.payout.verify import verify


@pytest.fixture(scope="module")
def paydays(tmp_path_factory):
    """A run at each stage: paid, drawn, answered, checked; and one whose place another took."""
    base = tmp_path_factory.mktemp("tampered")
    found = {"paid": paid(base)}
    found["drawn"] = shutil.copytree(found["paid"], base / "drawn")
    drawn(found["drawn"], plant=3)
    found["answered"] = shutil.copytree(found["drawn"], base / "answered")
    answered(found["answered"])
    found["checked"] = shutil.copytree(found["answered"], base / "checked")
    settle(found["checked"])
    failed = shutil.copytree(found["drawn"], base / "failed")
    answered(failed, false=("seller 1",))
    settle(failed, base / "new")
    found["superseded"], found["new"] = failed, base / "new"
    return found


@pytest.fixture
def at(paydays, tmp_path):
    return lambda stage: shutil.copytree(paydays[stage], tmp_path / stage)


def bad(folder):
    return [check.what for check in verify(folder) if not check.good]


def told(folder, statement):
    with closing(sqlite3.connect(folder / ledger.NAME)) as connection:
        connection.execute(statement)
        connection.commit()


@pytest.mark.parametrize(
    ("stage", "statement"),
    [
        ("paid", "UPDATE runs SET state = 'approved'"),
        ("paid", "UPDATE runs SET state = 'paid'"),
        ("paid", "UPDATE checking SET asked = 0"),
        ("paid", "DELETE FROM checking"),
        ("paid", "UPDATE checking SET beacon = 'mine'"),  # there is no plan
        ("drawn", "UPDATE checking SET beacon = 'mine'"),
        ("drawn", "UPDATE checking SET plan = '{}'"),
        ("drawn", "DELETE FROM checking"),
        ("drawn", "UPDATE runs SET state = 'approved'"),
        ("checked", "UPDATE runs SET state = 'draft'"),
        ("checked", "UPDATE runs SET state = 'superseded'"),
        ("checked", "UPDATE payments SET paid = paid + 1"),
        ("superseded", "UPDATE runs SET state = 'checked'"),
        ("superseded", "UPDATE runs SET state = 'approved'"),
        ("superseded", "UPDATE superseded SET by_run = 'mine'"),
        ("superseded", "DELETE FROM superseded"),
        ("superseded", "UPDATE history SET detail = 'mine' WHERE event = 'drawn'"),
    ],
)
def test_the_ledger_itself_refuses(at, stage, statement):
    folder = at(stage)
    before = ledger.read_record(folder), entries.read_draw(folder)
    with pytest.raises(sqlite3.IntegrityError):
        told(folder, statement)
    assert (ledger.read_record(folder), entries.read_draw(folder)) == before


@pytest.mark.parametrize("stage", ["drawn", "answered", "checked", "superseded", "new"])
def test_untouched_runs_are_good(paydays, stage):
    assert bad(paydays[stage]) == []


@pytest.mark.parametrize(
    ("stage", "name"),
    [
        ("drawn", "checks.csv"),
        ("drawn", "checks/plan.json"),
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


def test_a_sealed_list_that_was_changed_is_found(at):
    folder = at("drawn")
    path = folder / "checks" / "planted.json"
    data = json.loads(path.read_text())
    data["fakes"] = data["fakes"][:-1]
    path.write_text(json.dumps(data))
    assert bad(folder) == ["checks.csv"]
    with pytest.raises(DataMarketError, match="sealed"):
        draw_checks(folder, "block 1")


def test_a_draw_that_was_made_to_fit_is_found(at):
    """Somebody without the ledger's rules, who puts the beacon in that suits them, and the files that follow."""
    folder = at("drawn")
    with closing(sqlite3.connect(folder / ledger.NAME)) as connection:
        connection.executescript("DROP TRIGGER drawn_once; UPDATE checking SET beacon = 'mine'")
    assert "checks.csv" in bad(folder)
    other = at("answered")
    with closing(sqlite3.connect(other / ledger.NAME)) as connection:
        connection.executescript(
            "DROP TRIGGER drawn_once; UPDATE checking SET plan = replace(plan, '0.8', '0.9')"
        )
    assert {"checks/plan.json", "checks.csv"} <= set(bad(other))


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
    with closing(sqlite3.connect(folder / ledger.NAME)) as connection:
        find = "SELECT sql FROM sqlite_master WHERE name = 'superseded_once'"
        (rule,) = connection.execute(find).fetchone()
        connection.executescript(
            f"DROP TRIGGER superseded_once; UPDATE superseded SET place = '{place}'; {rule}"
        )
    assert bad(folder) == []  # it may have been moved
    shutil.copytree(at("paid"), place)
    assert bad(folder) == ["the run that took its place"]


def test_a_ledger_from_before_there_were_checks_goes_on_as_it_was(tmp_path):
    folder = paid(tmp_path, checks=0)
    with closing(sqlite3.connect(folder / ledger.NAME)) as connection:
        connection.executescript("DROP TRIGGER runs_move; DROP TABLE checking; DROP TABLE superseded")
    assert ledger.read_record(folder).checks == 0
    assert bad(folder) == []
    with pytest.raises(DataMarketError, match="knew of no checks"):
        make_plan(folder, Wishes())
    record = ledger.read_record(folder)
    assert ledger.approve(
        folder, record.manifest, "tester", None, [w.name for w in ledger.read_entered_warnings(folder)]
    )
    assert ledger.mark_paid(folder, "transfer 1")
