"""pay, explain, verify and ledger as one types them."""

import json

import pytest
from payout_files import units, warned, write
from typer.testing import CliRunner

from datamarket_gym.cli.app import app


def typed(*words):
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "160"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("cli")
    columns = units()
    columns["identity"] = [name.replace("attacker", "[bold]attacker[/]") for name in columns["identity"]]
    places = write(place / "in", columns)
    done = typed(
        "pay", places.submissions, "--validation", places.validation, "--amount", "1000.00", "--currency", "CHF",
        "--out", place / "run", "--theta", "none", "--no-audit", "--checks", "0",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "CHF 1,000.00 among 5 payees" in done.output
    assert "[bold]attacker[/]" in done.output
    return place / "run"


def test_explain(folder):
    done = typed("explain", folder, "--payee", "[bold]attacker[/]")
    assert done.exit_code == 0, done.output
    assert "exact_hash" in done.output
    assert "Without any evidence in the market it would have been paid CHF" in " ".join(
        done.output.split()
    )
    done = typed("explain", folder, "--payee", "[bold]attacker[/]", "--what-if")
    assert done.exit_code == 0, done.output
    assert "Without the evidence in its clusters it would have been paid CHF" in " ".join(
        done.output.split()
    )
    plain = json.loads(typed("explain", folder, "--payee", "seller 1", "--json").output)
    assert plain["identity"] == "seller 1"
    assert plain["low"] <= plain["paid"] <= plain["high"]


def test_verify_and_ledger(folder):
    assert typed("verify", folder).exit_code == 0
    accepted = [word for name in warned(folder) for word in ("--accept", name)]
    assert "approved" in typed("ledger", "approve", folder, "--by", "tester", *accepted).output
    assert "nothing changed" in typed("ledger", "approve", folder).output
    assert "marked as paid" in typed("ledger", "paid", folder, "--reference", "transfer 7").output
    assert "nothing changed" in typed("ledger", "paid", folder, "--reference", "transfer 7").output
    second = typed("ledger", "paid", folder, "--reference", "transfer 8")
    assert second.exit_code == 1
    assert "with the reference 'transfer 7'" in str(second.exception)
    shown = typed("ledger", "show", folder).output
    assert "transfer 8" not in shown
    assert "paid, CHF 1,000.00" in shown
    assert "transfer 7" in shown
    table = folder / "payments.csv"
    table.write_text(table.read_text() + "\n")
    done = typed("verify", folder)
    assert done.exit_code == 1
    assert "changed since it was written" in done.output


def test_a_changed_draft_is_not_approved(tmp_path):
    places = write(tmp_path / "in")
    words = (
        "pay",
        places.submissions,
        "--validation",
        places.validation,
        "--amount",
        "5",
        "--out",
        tmp_path / "run",
    )
    assert typed(*words, "--theta", "none", "--no-audit", "--checks", "0").exit_code == 0
    (tmp_path / "run" / "clusters.parquet").write_bytes(b"")
    accepted = [word for name in warned(tmp_path / "run") for word in ("--accept", name)]
    done = typed("ledger", "approve", tmp_path / "run", *accepted)
    assert done.exit_code == 1
    assert "clusters.parquet" in done.output
    assert "draft, EUR 5.00" in typed("ledger", "show", tmp_path / "run").output
