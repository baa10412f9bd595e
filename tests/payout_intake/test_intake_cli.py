"""The commands, as a submitter and an operator use them."""

import json
import re
from contextlib import chdir

import pytest
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.errors import DataMarketError
from datamarket_gym.payout.ledger.store import open_ledger

ALICE = 'id,text,label\nu1,"red fox, running",a\nu2,blue bird,b\nu3,green fish,a\n'
BOB = "id,text,label\nv1,white hare,a\nv2,blue bird,b\n"


@pytest.fixture
def here(tmp_path):
    (tmp_path / "alice.csv").write_text(ALICE)
    (tmp_path / "bob.csv").write_text(BOB)
    return tmp_path


def intake(here, *args, code=0):
    """What a command prints, in one line; a user's mistake (code 2) is what it says."""
    with chdir(here):
        done = CliRunner().invoke(app, args, env={"COLUMNS": "160"})
    if isinstance(done.exception, DataMarketError):
        assert code == 2, done.exception
        return str(done.exception)
    assert done.exit_code == code, done.output
    return " ".join(done.output.split())


def test_a_submitter_and_an_operator(here):
    text = ("--text", "text")
    assert "takes batches" in intake(here, "intake", "init", "log.sqlite")
    said = intake(here, "intake", "add", "log.sqlite", "alice.csv", "--payee", "alice", *text)
    assert "receipt: alice.csv.entry-2.receipt.json" in said
    assert re.search(r"2 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} alice 3 [0-9a-f]{16}", said)
    receipt = json.loads((here / "alice.csv.entry-2.receipt.json").read_text())
    entry = open_ledger(here / "log.sqlite").read()[1]
    assert (receipt["entry"], receipt["at"], receipt["identity"]) == (2, entry.at, "alice")
    assert (receipt["units"], receipt["sha256"], receipt["hash"]) == (
        3, entry.content["sha256"], entry.hash,
    )  # fmt: skip
    again = intake(here, "intake", "add", "log.sqlite", "alice.csv", "--payee", "alice", *text)
    assert "was entered before" in again
    assert "takes batches" in intake(here, "intake", "init", "log.sqlite")
    assert len(open_ledger(here / "log.sqlite").read()) == 2

    mine = ("intake", "check", "alice.csv.entry-2.receipt.json")
    assert "which anybody can write" in intake(here, *mine, code=1)
    held = intake(here, *mine, "--ledger", "log.sqlite", "--unit-in", "alice.csv", "--unit", "u2", *text)
    assert "holds the entry, to the letter" in held
    assert "all 3 of them; 'u2' is number 2" in held
    other = intake(here, *mine, "--ledger", "log.sqlite", "--unit-in", "bob.csv", *text, code=1)
    assert "are not those of the entry" in other

    intake(here, "ledger", "checkpoint", "log.sqlite", "--checkpoints", "checkpoints.txt")
    shown = intake(here, *mine, "--checkpoints", "checkpoints.txt")
    assert "entry 2 is as it was in the checkpoints" in shown
    show = intake(here, "intake", "show", "log.sqlite")
    assert re.search(r"alice text the clock 3 [0-9a-f]{8}", show)
    assert "there is no file" in intake(here, "intake", "check", "none.json", code=2)


def test_a_lost_receipt_is_written_again(here):
    intake(here, "intake", "init", "log.sqlite")
    intake(here, "intake", "add", "log.sqlite", "alice.csv", "--payee", "alice", "--text", "text")
    first = here / "alice.csv.entry-2.receipt.json"
    intake(here, "intake", "receipt", "log.sqlite", "--entry", "2", "--out", "again.json")
    assert (here / "again.json").read_text() == first.read_text()
    first.unlink()  # as after a kill between the entry and the receipt: the same command again
    intake(here, "intake", "add", "log.sqlite", "alice.csv", "--payee", "alice", "--text", "text")
    assert (here / "again.json").read_text() == first.read_text()
    assert len(open_ledger(here / "log.sqlite").read()) == 2
    said = intake(here, "intake", "receipt", "log.sqlite", "--entry", "1", "--out", "no.json", code=2)
    assert "entry 1 is no batch" in said


def test_what_is_asked_wrongly_is_told(here):
    intake(here, "intake", "init", "log.sqlite")
    add = ("intake", "add", "log.sqlite", "alice.csv")
    assert "whose units it holds" in intake(here, *add, "--text", "text", code=2)
    assert "no column 'features'" in intake(here, *add, "--payee", "alice", code=2)
    assert "there is no ledger" in intake(here, "intake", "add", "none.sqlite", "alice.csv", code=2)
    assert len(open_ledger(here / "log.sqlite").read()) == 1
    intake(here, *add, "--text", "text", "--payee", "alice", "--receipt", "r.json")
    said = intake(here, "intake", "check", "r.json", "--unit", "u1", code=2)
    assert "name it with --unit-in" in said


def test_a_log_of_ones_own_does_not_make_a_receipt_check(here):
    """Whoever writes a log of their own has receipts that agree with themselves, and pass no check by that."""
    for log, batch, who in (("log.sqlite", "alice.csv", "alice"), ("mine.sqlite", "bob.csv", "bob")):
        intake(here, "intake", "init", log)
        intake(here, "intake", "add", log, batch, "--payee", who, "--text", "text")
    made_up = "bob.csv.entry-2.receipt.json"
    intake(here, "ledger", "checkpoint", "log.sqlite", "--checkpoints", "checkpoints.txt")
    check = ("intake", "check", made_up)
    assert "FAILED log not verified" in intake(here, *check, code=1)
    assert "FAILED log not verified" in intake(
        here, *check, "--unit-in", "bob.csv", "--text", "text", code=1
    )
    assert "another one" in intake(here, *check, "--ledger", "log.sqlite", code=1)
    assert "not as it was in the checkpoints" in intake(
        here, *check, "--checkpoints", "checkpoints.txt", code=1
    )


def test_who_has_no_log_yet_is_told_how_to_begin_one(here):
    add = ("intake", "add", "log.sqlite", "alice.csv", "--payee", "alice", "--text", "text")
    assert "intake init" in intake(here, *add, code=2)


def test_no_flag_of_the_intake_speaks_of_one_that_it_has_not(here):
    for name in ("add", "check"):
        assert "--encoder" not in intake(here, "intake", name, "--help")
