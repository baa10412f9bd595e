"""What a hostile operator, a hostile payee and a careless clerk tried, and what came of it."""

import json
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from checks_files import answered, drawn
from checks_files import paid as checked_payday
from payout_files import run as paid
from payout_files import units, validation

from datamarket_gym.cli.checks import plan_and_show, settle_and_show
from datamarket_gym.cli.commands.ledger import paid as ledger_paid
from datamarket_gym.core.errors import DataMarketError, ParameterError
from datamarket_gym.payout import ledger
from datamarket_gym.payout.checks.draw import draw_checks, draw_key, read_checks
from datamarket_gym.payout.checks.plan import Wishes, make_plan
from datamarket_gym.payout.checks.settle import settle
from datamarket_gym.payout.names import csv_safe, from_csv
from datamarket_gym.payout.verify import verify


def test_labels_may_be_texts(tmp_path):
    """The red team makes up a label that nobody asks for; numpy cannot tell the last of several texts."""
    names = np.array(["ant", "bee", "cat"])
    submitted, rows = units(), validation()
    submitted["label"], rows["label"] = names[submitted["label"]], names[rows["label"]]
    folder = paid(tmp_path, submitted, rows, audit=True)
    assert (folder / "audit.json").is_file()


def bad(folder):
    return [check.what for check in verify(folder) if not check.good]


def told(folder, *statements):
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


@pytest.fixture(scope="module")
def payday(tmp_path_factory):
    """A run whose checks were drawn, and the same with all of them passed."""
    base = tmp_path_factory.mktemp("sabotage")
    first = checked_payday(base)
    drawn(first)
    passed = shutil.copytree(first, base / "passed")
    answered(passed)
    settle(passed)
    return {"drawn": first, "checked": passed}


@pytest.fixture
def at(payday, tmp_path):
    return lambda stage: shutil.copytree(payday[stage], tmp_path / stage)


def test_a_run_is_not_checked_because_somebody_writes_that_it_is(at):
    folder = at("drawn")
    with pytest.raises(sqlite3.IntegrityError):
        told(folder, "UPDATE runs SET state = 'checked'")
    with pytest.raises(sqlite3.IntegrityError):
        told(folder, "UPDATE runs SET state = 'superseded'")


@pytest.mark.parametrize(
    ("stage", "rule", "statement"),
    [
        ("drawn", "runs_move", "UPDATE runs SET state = 'checked'"),
        ("drawn", "runs_move", "UPDATE runs SET state = 'approved'"),
        ("drawn", "drawn_once", "UPDATE checking SET asked = 0"),
        ("drawn", "drawn_once", "UPDATE checking SET plan = replace(plan, '0.8', '0.9')"),
        ("checked", "drawn_once", "UPDATE checking SET beacon = NULL"),
        ("checked", "history_kept", "UPDATE history SET detail = 'beacon x' WHERE event = 'drawn'"),
        ("checked", "history_kept", "UPDATE history SET detail = 'plan x' WHERE event = 'planned'"),
        ("checked", "history_kept", "UPDATE history SET detail = 'x' WHERE event = 'draft'"),
        ("checked", "history_stays", "DELETE FROM history WHERE event = 'planned'"),
        ("checked", "history_stays", "DELETE FROM history WHERE event = 'checked'"),
        ("drawn", "history_stays", "DELETE FROM history WHERE event = 'drawn'"),
    ],
)
def test_tables_are_held_against_the_history(at, stage, rule, statement):
    """A rule is taken out, something changed, and the rule put back: what is left is a contradiction."""
    folder = at(stage)
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as connection:
        find = "SELECT sql FROM sqlite_master WHERE name = ?"
        (put_back,) = connection.execute(find, (rule,)).fetchone()
    assert bad(folder) == []
    told(folder, f"DROP TRIGGER {rule}", statement, put_back)
    assert "ledger and its history" in bad(folder)


def test_a_rule_that_was_taken_out_is_missed(at):
    folder = at("drawn")
    told(folder, "DROP TRIGGER drawn_once")
    assert bad(folder) == ["ledger and its history"]


def test_a_draw_under_another_beacon_contradicts_the_history(at):
    folder = at("drawn")
    told(folder, "DROP TRIGGER drawn_once", "UPDATE checking SET beacon = 'a better one'")
    draw_checks(folder, "a better one")
    assert bad(folder) == ["ledger and its history"]


@pytest.mark.parametrize("name", ["checks.csv", "checks/plan.json", "certificate.json"])
def test_files_that_are_no_text_are_found(at, name):
    folder = at("checked")
    (folder / name).write_bytes(b"\xff\xfe")
    assert name in bad(folder)


def test_no_ledger_is_made_where_there_is_no_run(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(DataMarketError, match="holds no payout run"):
            read_checks(folder)
        with pytest.raises(DataMarketError, match="holds no payout run"):
            ledger.mark_paid(folder, "transfer 1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["a;=1+1", "a;'=1", "a;''+1;=2", "\uff1d1+1", "'a;@x", ";=x", "a; b", "a;'b", "=a;-b", "'"]
)
def test_no_cell_of_a_csv_begins_a_formula_whatever_separates_cells(name):
    safe = csv_safe(name)
    assert from_csv(safe) == name
    assert not any(cell.startswith(tuple("=+-@\t\uff1d\uff0b\uff0d\uff20")) for cell in safe.split(";"))


def test_a_beacon_gives_one_draw_however_it_is_written():
    """Who may choose between 0A1B, 0a1b and ' 0a1b' may choose between draws."""
    keys = {draw_key("m", "p", text) for text in ("0A1B c", "0a1b c", " 0a1bc ", "\uff10a1b C")}
    assert len(keys) == 1
    assert draw_key("m", "p", "0a1b d") not in keys


def test_no_beacon_of_any_earlier_draft_is_used_again(tmp_path):
    folder = checked_payday(tmp_path)
    for place, payee in enumerate(("seller 1", "seller 2")):
        drawn(folder, f"block {place}", checks=3 + 9 * place)
        answered(folder, false=(payee,))
        settle(folder, new := tmp_path / f"new {place}")
        folder = new
    make_plan(folder, Wishes(announce="block 2"))
    for known in ("block 0", "block 1", "Block 0 "):
        with pytest.raises(ParameterError, match="announce another"):
            draw_checks(folder, known)
    draw_checks(folder, "block 2")


def test_when_everybody_fails_it_is_said_what_can_be_done(at, tmp_path):
    folder = at("drawn")
    answered(folder, false={draw.payee for draw in read_checks(folder).draws})
    with pytest.raises(DataMarketError, match=r"stays a draft.*--correct"):
        settle(folder, tmp_path / "new")


def test_the_command_says_what_to_publish_and_what_the_certificate_claims(tmp_path, capsys):
    folder = checked_payday(tmp_path)
    plan_and_show(folder, Wishes(announce="block 1"), None)
    said = capsys.readouterr().out
    entered = [detail for _, event, _, detail in ledger.read_history(folder) if event == "planned"]
    assert f"plan {entered[0].split()[-1]}" in said
    assert f"manifest {ledger.read_record(folder).manifest}" in said
    draw_checks(folder, "0a1b")
    answered(folder)
    settle_and_show(folder, None, False, False, None)
    claim = json.loads((folder / "certificate.json").read_text())["claim"]
    said = " ".join(capsys.readouterr().out.split())
    assert ("The claim is none" in said) == (claim == "none")
    assert "This speaks of expected money" in said


def test_a_run_that_was_approved_by_hand_is_not_marked_as_paid(at):
    folder = at("drawn")
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as connection:
        find = "SELECT sql FROM sqlite_master WHERE name = 'runs_move'"
        (put_back,) = connection.execute(find).fetchone()
    told(folder, "DROP TRIGGER runs_move", "UPDATE runs SET state = 'approved'", put_back)
    with pytest.raises(DataMarketError, match="changed by hand: the run is approved"):
        ledger_paid(folder, "transfer 1")
    assert ledger.read_record(folder).state == "approved"
