"""check plan, draw, record and settle as one types them."""

import csv
import json

import pytest
from payout_files import warned, write
from typer.testing import CliRunner

from datamarket_gym.cli.app import app


def typed(*words, code=0):
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "160"})
    if code is not None:
        assert done.exit_code == code, done.output
    return " ".join(done.output.split())


@pytest.fixture
def folder(tmp_path):
    places = write(tmp_path / "in")
    typed(
        "pay", places.submissions, "--validation", places.validation, "--amount", "1000.00", "--out",
        tmp_path / "run", "--theta", "none", "--no-audit",
    )  # fmt: skip
    return tmp_path / "run"


def outcomes(folder, false=()):
    with (folder / "checks.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    path = folder.parent / "outcomes.csv"
    lines = [
        f"{r['number']},{'false' if r['payee'] in false else 'genuine'},{r['look'].split()[0]}"
        for r in rows
    ]
    path.write_text("number,outcome,by\n" + "\n".join(lines) + "\n")
    return path


def test_from_the_draft_to_the_payment(folder):
    done = typed(
        "check",
        "plan",
        folder,
        "--price",
        "2.50",
        "--false-alarms",
        "0.01",
        "--announce",
        "block 900000",
    )
    assert "checks of each payee │ 3" in done
    assert "cost, at most │ EUR 37.50, 3.8% of what is paid" in done
    assert "2.97% of honest payees fail" in done
    assert "the beacon will be “block 900000”" in done
    done = typed("check", "draw", folder, "--beacon", "0000abc")
    count = len((folder / "checks.csv").read_text().splitlines()) - 1
    assert f"{count} checks of 5 payees" in done
    assert "not announced" not in done
    done = typed("check", "record", folder, outcomes(folder))
    assert f"{count} new answers; of {count} checks: {count} genuine, 0 false, 0 unanswered" in done
    assert "checked; the certificate is" in typed("check", "settle", folder)
    assert json.loads((folder / "certificate.json").read_text())["per_payee"] == 3
    accepted = [word for name in warned(folder) for word in ("--accept", name)]
    assert "approved" in typed("ledger", "approve", folder, *accepted)
    shown = typed("ledger", "show", folder)
    for event in ("planned", "drawn", "answers", "checked", "approved"):
        assert event in shown
    assert "FAILED" not in typed("verify", folder)


def test_somebody_fails(folder):
    assert "No beacon is announced" in typed("check", "plan", folder)
    assert "was not announced beforehand" in typed("check", "draw", folder, "--beacon", "0000abc")
    done = typed("check", "record", folder, outcomes(folder, ("seller 1",)))
    assert "--out FOLDER" in done
    new = folder.parent / "new"
    done = typed("check", "settle", folder, "--out", new)
    assert "seller 1 failed and is paid nothing: u" in done
    assert f"datamarket check plan {new}" in done
    typed("check", "plan", new, "--announce", "block 2")
    done = typed("check", "draw", new, "--beacon", "0000def")
    assert "fell on units that were checked in an earlier draft, as often" in done


def test_forfeits_are_kept_when_that_is_said(folder):
    typed("check", "plan", folder)
    typed("check", "draw", folder, "--beacon", "0000abc")
    typed("check", "record", folder, outcomes(folder, ("seller 1",)))
    new = folder.parent / "new"
    done = typed("check", "settle", folder, "--out", new, "--forfeited", "keep")
    assert "What was not forfeited is divided among the others" in done
    kept = json.loads((new / "manifest.json").read_text())["settles"]["kept"]
    assert kept > 0
    assert json.loads((new / "manifest.json").read_text())["amount"] == 100_000 - kept


def test_unanswered_checks_count_as_false_only_when_that_is_said(folder):
    typed("check", "plan", folder)
    typed("check", "draw", folder, "--beacon", "0000abc")
    (folder.parent / "one.csv").write_text("number,outcome,by\n1,genuine,1\n")
    assert "--unanswered false" in typed("check", "record", folder, folder.parent / "one.csv")
    typed("check", "settle", folder, "--out", folder.parent / "new", code=1)
    assert not (folder.parent / "new").exists()
    most = outcomes(folder)
    most.write_text("\n".join(most.read_text().splitlines()[:-1]))
    typed("check", "record", folder, most)
    done = typed("check", "settle", folder, "--unanswered", "false", "--out", folder.parent / "new")
    assert "failed and is paid nothing" in done
    assert "not answered" in done


def test_one_look_at_units_that_were_drawn_twice_is_said_to_be_one(folder):
    done = typed("check", "plan", folder, "--checks", "12")
    assert "of them second ones, expected" in done
    assert "left without any second checks" in done
    done = typed("check", "draw", folder, "--beacon", "0000abc")
    assert "of the list were drawn more than once, and are checked by as many people" in done
    alone = outcomes(folder)
    alone.write_text("\n".join(f"{line.rsplit(',', 1)[0]},R. Okafor" for line in alone.read_text().splitlines()
                               if not line.startswith("number")).join(("number,outcome,by\n", "\n")))  # fmt: skip
    typed("check", "record", folder, alone, code=1)
    assert "second checks not made" in typed("check", "record", folder, alone, "--check-once")
    typed("check", "settle", folder)
    assert json.loads((folder / "certificate.json").read_text())["examined"] == "once"


def test_moved_submissions_can_be_named(folder):
    typed("check", "plan", folder)
    moved = folder.parent / "moved.parquet"
    (folder.parent / "in" / "units.parquet").rename(moved)
    typed("check", "draw", folder, "--beacon", "0000abc", code=1)
    assert "checks of 5 payees" in typed(
        "check", "draw", folder, "--beacon", "0000abc", "--submissions", moved
    )
