"""From what people type to a ledger: its file, a folder of runs that holds it, the folder of a run in it."""

import pytest
from ledger_files import HandBook, file_ledger
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.errors import UnknownNameError
from datamarket_gym.payout.ledger import transactions as money
from datamarket_gym.payout.ledger.runs import ledger_at, run_folder


def test_a_folder_that_holds_a_ledger_is_the_ledger(tmp_path):
    ledger = file_ledger(tmp_path)
    assert run_folder(str(tmp_path)) is None
    assert ledger_at(str(tmp_path)).accounts().tip == ledger.accounts().tip


@pytest.mark.parametrize(
    "words", [["verify"], ["dispute", "list"], ["ledger", "show"], ["statements", "--payee", "alice"]]
)
def test_every_command_takes_a_folder_of_runs_for_its_ledger(tmp_path, words):
    file_ledger(tmp_path)
    named, inside = (
        CliRunner().invoke(app, [*words, str(where)]) for where in (tmp_path / "ledger.sqlite", tmp_path)
    )
    assert named.exit_code == inside.exit_code == 0
    assert inside.output.replace(str(tmp_path), "") == named.output.replace(str(tmp_path), "")


def test_a_folder_without_ledger_or_run_is_none(tmp_path):
    said = CliRunner().invoke(app, ["ledger", "show", str(tmp_path)])
    assert said.exit_code != 0


def test_a_name_nobody_knows_is_refused_with_a_few_that_are_known():
    known = HandBook()
    known.draft("r" * 64, "EUR", {f"payee {n:05d}": (100, 0) for n in range(2000)})
    with pytest.raises(UnknownNameError, match="and 1,950 more") as refused:
        money.require_payee(known.accounts, "zzz")
    assert len(str(refused.value)) < 1000
    with pytest.raises(UnknownNameError, match="did you mean payee 01999"):
        money.require_payee(known.accounts, "payee 019999")
