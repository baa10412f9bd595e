"""The commands, as a submitter and an operator use them."""

import json
import re
import stat
from contextlib import chdir

import pytest
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.payout.book.store import open_book
from datamarket_gym.payout.intake.proofs import read_proof

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
    entry = open_book(here / "log.sqlite").read()[1]
    assert (receipt["entry"], receipt["at"], receipt["identity"]) == (2, entry.at, "alice")
    assert (receipt["units"], receipt["root"], receipt["hash"]) == (3, entry.content["root"], entry.hash)
    again = intake(here, "intake", "add", "log.sqlite", "alice.csv", "--payee", "alice", *text)
    assert "was entered before" in again
    assert "takes batches" in intake(here, "intake", "init", "log.sqlite")
    assert len(open_book(here / "log.sqlite").read()) == 2

    mine = ("intake", "check", "alice.csv.entry-2.receipt.json")
    assert "which anybody can write" in intake(here, *mine, code=1)
    held = intake(here, *mine, "--ledger", "log.sqlite", "--unit-in", "alice.csv", "--unit", "u2", *text)
    assert "holds the entry, to the letter" in held
    assert "all 3 of them; 'u2' is number 2" in held
    other = intake(here, *mine, "--ledger", "log.sqlite", "--unit-in", "bob.csv", *text, code=1)
    assert "are not those of the entry" in other

    intake(here, "ledger", "checkpoint", "log.sqlite", "--checkpoints", "anchors.txt")
    prove = ("intake", "prove", "log.sqlite", "alice.csv", "--payee", "alice", *text)
    assert "shows no other unit" in intake(
        here, *prove, "--unit", "u2", "--out", "proof.json", "--checkpoints", "anchors.txt"
    )
    (here / "elsewhere").mkdir()
    for name in ("proof.json", "anchors.txt", "alice.csv"):
        (here / name).rename(here / "elsewhere" / name)
    shown = intake(here / "elsewhere", "intake", "check", "proof.json", "--checkpoints", "anchors.txt")
    assert "is number 2 of 3" in shown
    assert "entry 2 is as it was anchored" in shown
    inside = (
        "intake",
        "check",
        "proof.json",
        "--checkpoints",
        "anchors.txt",
        "--unit-in",
        "alice.csv",
        *text,
    )
    assert "it is 'u2' of 'alice.csv'" in intake(here / "elsewhere", *inside)
    assert "it is not that of 'u1'" in intake(here / "elsewhere", *inside, "--unit", "u1", code=1)
    forged = json.loads((here / "elsewhere" / "proof.json").read_text())
    forged["place"] = 0
    (here / "forged.json").write_text(json.dumps(forged))
    assert "not in the batch" in intake(here, "intake", "check", "forged.json", code=1)
    assert "there is no file" in intake(here, "intake", "check", "none.json", code=2)


def test_a_sealed_batch(here):
    intake(here, "intake", "init", "log.sqlite")
    sealing = ("intake", "seal", "bob.csv", "--payee", "bob", "--text", "text")
    names = ("--out", "sealed.json", "--secret", "secret.json")
    assert "keep secret.json" in intake(here, *sealing, *names)
    assert stat.S_IMODE((here / "secret.json").stat().st_mode) == 0o600
    sealed, secret = ((here / name).read_text() for name in ("sealed.json", "secret.json"))
    assert json.loads(secret)["key"] not in sealed
    assert "perhaps of a batch that is not revealed yet" in intake(here, *sealing, *names, code=2)
    assert (here / "secret.json").read_text() == secret

    commit = ("intake", "commit", "log.sqlite")
    assert "sealed for 'bob'" in intake(here, *commit, "sealed.json", "--payee", "eve", code=2)
    assert "stays at home" in intake(here, *commit, "secret.json", "--payee", "bob", code=2)
    intake(here, *commit, "sealed.json", "--payee", "bob")
    assert json.loads(secret)["key"] not in (here / "log.sqlite").read_bytes().decode("latin-1")
    intake(here, "intake", "add", "log.sqlite", "alice.csv", "--payee", "alice", "--text", "text")
    shown = intake(here, "intake", "show", "log.sqlite")
    assert "sealed, not revealed" in shown
    check = ("intake", "check", "sealed.json.entry-2.receipt.json", "--ledger", "log.sqlite")
    assert "not revealed yet" in intake(here, *check)
    own = (*check, "--unit-in", "bob.csv", "--text", "text")
    assert "name the secret" in intake(here, *own, code=1)
    assert "all 2 of them" in intake(here, *own, "--secret", "secret.json")

    reveal = ("intake", "reveal", "log.sqlite")
    wrong = intake(here, *reveal, "alice.csv", "--secret", "secret.json", "--text", "text", code=2)
    assert "no sealed batch of these units" in wrong
    said = intake(here, *reveal, "bob.csv", "--secret", "secret.json", "--text", "text")
    assert "counts from the time of entry 2" in said
    assert "was entered before" in intake(
        here, *reveal, "bob.csv", "--secret", "secret.json", "--text", "text"
    )
    assert "revealed in entry 4" in intake(here, *check)
    assert "sealed, opened by 4" in intake(here, "intake", "show", "log.sqlite")
    unit = ("--unit", "v2", "--payee", "bob", "--text", "text")
    intake(here, "intake", "prove", "log.sqlite", "bob.csv", *unit, "--out", "p.json")
    assert read_proof(here / "p.json").receipt.entry.number == 2
    assert "ok batches 2 batches, 5 units" in intake(here, "verify", "log.sqlite")


def test_a_lost_receipt_is_written_again(here):
    intake(here, "intake", "init", "log.sqlite")
    intake(here, "intake", "add", "log.sqlite", "alice.csv", "--payee", "alice", "--text", "text")
    first = here / "alice.csv.entry-2.receipt.json"
    intake(here, "intake", "receipt", "log.sqlite", "--entry", "2", "--out", "again.json")
    assert (here / "again.json").read_text() == first.read_text()
    first.unlink()  # as after a kill between the entry and the receipt: the same command again
    intake(here, "intake", "add", "log.sqlite", "alice.csv", "--payee", "alice", "--text", "text")
    assert (here / "again.json").read_text() == first.read_text()
    assert len(open_book(here / "log.sqlite").read()) == 2
    said = intake(here, "intake", "receipt", "log.sqlite", "--entry", "1", "--out", "no.json", code=2)
    assert "entry 1 is no batch" in said


def test_what_is_asked_wrongly_is_told(here):
    intake(here, "intake", "init", "log.sqlite")
    add = ("intake", "add", "log.sqlite", "alice.csv")
    assert "whose units it holds" in intake(here, *add, "--text", "text", code=2)
    assert "no column 'features'" in intake(here, *add, "--payee", "alice", code=2)
    assert "there is no book" in intake(here, "intake", "add", "none.sqlite", "alice.csv", code=2)
    assert len(open_book(here / "log.sqlite").read()) == 1
    intake(here, *add, "--text", "text", "--payee", "alice", "--receipt", "r.json")
    said = intake(here, "intake", "check", "r.json", "--unit", "u1", code=2)
    assert "name it with --unit-in" in said


def test_a_log_of_ones_own_does_not_make_a_receipt_check(here):
    """Whoever writes a log of their own has receipts that agree with themselves, and pass no check by that."""
    for log, batch, who in (("log.sqlite", "alice.csv", "alice"), ("mine.sqlite", "bob.csv", "bob")):
        intake(here, "intake", "init", log)
        intake(here, "intake", "add", log, batch, "--payee", who, "--text", "text")
    made_up = "bob.csv.entry-2.receipt.json"
    batch = ("bob.csv", "--payee", "bob", "--text", "text")
    prove = ("intake", "prove", "mine.sqlite", *batch, "--unit", "v1")
    intake(here, *prove, "--out", "proof.json")
    intake(here, "ledger", "checkpoint", "log.sqlite", "--checkpoints", "anchors.txt")
    for shown in (made_up, "proof.json"):
        check = ("intake", "check", shown)
        assert "FAILED log not asked" in intake(here, *check, code=1)
        assert "FAILED log not asked" in intake(
            here, *check, "--unit-in", "bob.csv", "--text", "text", code=1
        )
        assert "another one" in intake(here, *check, "--ledger", "log.sqlite", code=1)
        assert "not as it was anchored" in intake(here, *check, "--checkpoints", "anchors.txt", code=1)


def test_who_has_no_log_yet_is_told_how_to_begin_one(here):
    add = ("intake", "add", "log.sqlite", "alice.csv", "--payee", "alice", "--text", "text")
    assert "intake init" in intake(here, *add, code=2)


def test_no_flag_of_the_intake_speaks_of_one_that_it_has_not(here):
    for name in ("add", "seal", "reveal", "prove", "check"):
        assert "--encoder" not in intake(here, "intake", name, "--help")
