"""Odd words on the command line: each is one line that names what is wrong, and nothing is entered or replaced."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys

import pytest
from payout_files import spec, write
from typer.testing import CliRunner

from datamarket_gym.cli.app import app, main
from datamarket_gym.errors import DataMarketError, RunError, UnknownNameError, close_names
from datamarket_gym.execution.files import replacing, waiting_for, write_text
from datamarket_gym.payout.ledger.entries import LedgerError
from datamarket_gym.payout.ledger.store import open_ledger
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.run import pay

SHORT = "from datamarket_gym.cli import main; main()"


def typed(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def command(*words, **variables):
    """A command in a process of its own: its code and all that it says."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SHORT, *map(str, words)],
        capture_output=True, text=True, check=False, env={**os.environ, **variables},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def market(tmp_path_factory):
    folder = tmp_path_factory.mktemp("odd")
    pay(write(folder / "in"), spec(), folder / "june")
    return folder


@pytest.fixture
def ledger(market, tmp_path):
    for name in ("ledger.sqlite", "ledger.sqlite.checksum"):
        shutil.copy(market / name, tmp_path / name)
    return tmp_path / "ledger.sqlite"


def entries(ledger):
    return len(open_ledger(ledger).read())


def test_a_device_is_never_replaced_by_a_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(RunError, match="is a device"):
        write_text(pipe, "text")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    link = tmp_path / "stdout"
    link.symlink_to("/proc/self/fd/1")
    with pytest.raises(RunError, match="is a device"):
        write_text(link, "text")
    assert link.is_symlink()
    there = tmp_path / "there"
    there.write_text("old")
    usual = tmp_path / "usual"
    usual.symlink_to(there)
    write_text(usual, "new")
    assert (usual.read_text(), there.read_text()) == ("new", "old")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("statements", "LEDGER", "--payee", "seller 1", "--out", "LEDGER/x.csv"), "check the path"),
        (("ledger", "checkpoint", "LEDGER", "--checkpoints", "LEDGER/x.txt"), "check the path"),
        (("statements", "RUN", "--out", "LEDGER/pages"), "check the path"),
        (
            ("ledger", "show", "postgresql://me@127.0.0.1:port/x"),
            "the address of the ledger cannot be read",
        ),
    ],
)
def test_places_that_cannot_be_are_one_line(words, said, ledger, market, monkeypatch, capsys):
    names = {"LEDGER": str(ledger), "RUN": str(market / "june")}
    given = (
        word.replace("LEDGER", names["LEDGER"]) if word != "RUN" else names["RUN"] for word in words
    )
    monkeypatch.setattr(sys, "argv", ["datamarket", *given])
    with pytest.raises(SystemExit) as left:
        main()
    text = "".join(capsys.readouterr())
    assert left.value.code == 2
    assert text.startswith("datamarket: ")
    assert said in text
    assert text.count("\n") == 1


def test_anchors_are_a_file_and_whole(ledger, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # reading one would wait for ever, and some devices never end
    for words in (
        ("ledger", "checkpoint", ledger, "--checkpoints", pipe),
        ("verify", ledger, "--checkpoints", pipe),
    ):
        with pytest.raises(DataMarketError, match="are no file"):
            raise typed(*words).exception
    checkpoints = tmp_path / "new" / "checkpoints.txt"
    assert typed("ledger", "checkpoint", ledger, "--checkpoints", checkpoints).exit_code == 0
    assert typed("ledger", "checkpoint", ledger, "--checkpoints", checkpoints).exit_code == 0
    assert len(checkpoints.read_text().splitlines()) == 1
    typed("ledger", "rules", ledger, "--approvals", "2")
    assert typed("ledger", "checkpoint", ledger, "--checkpoints", checkpoints).exit_code == 0
    assert len(checkpoints.read_text().splitlines()) == 2
    assert typed("verify", ledger, "--checkpoints", checkpoints).exit_code == 0


def test_tables_of_something_else_are_no_ledger(tmp_path):
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE ledger_entries (number, body, hash)")
        connection.execute("CREATE TABLE ledger_tip (one, number, hash)")
        connection.execute("INSERT INTO ledger_entries VALUES ('a', NULL, x'ff')")
    with pytest.raises(LedgerError, match="entry 1 of the ledger is none that this version has written"):
        open_ledger(path).read()


@pytest.mark.parametrize(
    "amount", ["1e3", "1,000.00", "1_000", "\u0661\u0660", "-0", "NaN", "+5", "0x10", ".5", "- 5"]
)
def test_amounts_are_written_as_people_read_them(amount):
    with pytest.raises(DataMarketError, match=r"write it as a positive number such as 10000\.00"):
        Currency("EUR").minor(amount)


def test_what_is_wrong_with_an_amount_is_said():
    for amount, code, said in (
        ("10.005", "EUR", "EUR has 2 digits after the point"),
        ("5.5", "JPY", "JPY has 0 digits after the point"),
        ("99999999999999999999", "EUR", r"at most 10000000000000\.00"),
        ("0.00", "EUR", "above zero"),
    ):
        with pytest.raises(DataMarketError, match=said):
            Currency(code).minor(amount)
    assert Currency("EUR").minor(" 5. ") == 500
    with pytest.raises(DataMarketError, match="three capital letters"):
        Currency("eur")


def test_whoever_does_it_has_a_name(ledger):
    before = entries(ledger)
    for by in ("", "  "):
        done = typed("ledger", "hold", ledger, "--payee", "seller 1", "--why", "x", "--by", by)
        assert "no name is given" in str(done.exception)
    assert entries(ledger) == before


def test_names_come_close_whatever_their_case():
    assert close_names("SELLER 1", ["seller 1", "attacker"]) == ["seller 1"]
    many = [f"payee {i:05d}" for i in range(2_000)]
    said = str(UnknownNameError("payee", "zzz", many))
    assert "payee 00049" in said
    assert "payee 00050" not in said


def test_an_empty_ledger_or_run_is_no_ledger_of_this_folder(ledger, monkeypatch):
    monkeypatch.chdir(ledger.parent)
    assert "named by nothing" in str(typed("ledger", "show", "").exception)
    done = typed("export", ledger, "--run", "", "--format", "csv", "--out", ledger.parent / "x.csv")
    assert "no runs of the ledger have an id that begins with ''" in str(done.exception)


def test_a_statement_does_not_begin_after_the_ledger_ends(ledger):
    done = typed("statements", ledger, "--payee", "seller 1", "--from", "2999-01-01")
    assert "the ledger ends on" in str(done.exception)


def test_any_zero_is_no_least_amount(ledger):
    for zero in ("0", "0.0", "0.00", " 0 "):
        assert typed("ledger", "rules", ledger, "--least", zero).exit_code == 0
    for other in ("", ".", "-0"):
        assert typed("ledger", "rules", ledger, "--least", other).exit_code


def test_a_terminal_without_the_letters_of_a_name_shows_them_escaped(market):
    code, text = command("statements", market / "june", "--payee", "Андрей", PYTHONIOENCODING="ascii")
    assert (code, text.count("\n")) == (2, 1)
    assert text.startswith("datamarket: unknown payee '\\u0410")
    code, text = command("verify", market / "june", PYTHONIOENCODING="ascii")
    assert code == 0, text


def test_a_file_name_of_no_encoding_is_named(market):
    code, text = command("ledger", "show", os.fsdecode(b"no\xffwhere.sqlite"))
    assert (code, text.count("\n")) == (2, 1)
    assert "there is no ledger at 'no" in text


def test_a_ledger_that_is_being_written_to_says_so(ledger, monkeypatch):
    monkeypatch.setattr("datamarket_gym.payout.ledger.store._WAIT", 0.3)
    lock = ledger.with_name(f"{ledger.name}.lock")
    with waiting_for(lock, 1, "ledger"):
        done = typed("ledger", "hold", ledger, "--payee", "seller 1", "--why", "x")
    assert "another process has been writing to the ledger" in str(done.exception)
    with sqlite3.connect(ledger, isolation_level=None) as other:
        monkeypatch.setattr("datamarket_gym.payout.ledger.store._WAIT", 0.1)
        other.execute("BEGIN EXCLUSIVE")
        done = typed("ledger", "hold", ledger, "--payee", "seller 1", "--why", "x")
        other.rollback()
    assert "another program has held it" in str(done.exception)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="users as POSIX has them")
def test_whoever_may_only_read_can_verify(ledger, monkeypatch):
    allowed = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode, **more: mode != os.W_OK and allowed(path, mode, **more)
    )
    before = sorted(path.name for path in ledger.parent.iterdir())
    monkeypatch.setattr("datamarket_gym.payout.ledger.store.waiting_for", None)  # a lock would be a file
    good = [finding for finding in open_ledger(ledger).examined() if not finding[1]]
    assert good == []
    assert sorted(path.name for path in ledger.parent.iterdir()) == before
    ledger.write_bytes(ledger.read_bytes() + b"x")
    assert [finding[1] for finding in open_ledger(ledger).examined()] == [False]


def test_a_file_that_may_not_be_written_is_named_as_it_was_asked_for(tmp_path):
    def refused():
        with replacing(tmp_path / "a.csv") as part:
            raise PermissionError(13, "Permission denied", str(part))

    with pytest.raises(PermissionError) as error:
        refused()
    assert error.value.filename == str(tmp_path / "a.csv")


def test_a_password_in_the_address_is_enough_for_a_payout_run(
    postgres_ledger, market, tmp_path, monkeypatch
):
    monkeypatch.delenv("PGPASSWORD", raising=False)
    units, held = market / "in" / "units.parquet", market / "in" / "validation.parquet"
    done = typed(
        "pay", units, "--validation", held, "--amount", "100", "--out", tmp_path / "run", "--theta", "none",
        "--no-audit", "--checks", "0", "--ledger", postgres_ledger,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "EUR 100.00 among 5 payees" in done.output
    assert "Connection refused; see that the server is running" in str(
        typed("ledger", "show", "postgresql://nobody@127.0.0.1:1/none").exception
    )
