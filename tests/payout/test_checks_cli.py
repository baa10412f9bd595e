"""check sample, record and settle as one types them."""

import csv
import json

import pytest
from payout_files import copied, write
from typer.testing import CliRunner

from datamarket_gym.cli.app import app


def typed(*words, code=0):
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "160"})
    if code is not None:
        assert done.exit_code == code, done.output
    return " ".join((done.output + str(done.exception or "")).split())


def paid(place):
    places = write(place / "in")
    typed(
        "pay", places.submissions, "--validation", places.validation, "--amount", "1000.00", "--out",
        place / "run", "--theta", "none", "--no-audit",
    )  # fmt: skip
    return place / "run"


@pytest.fixture(scope="module")
def draft(tmp_path_factory):
    return paid(tmp_path_factory.mktemp("typed"))


@pytest.fixture
def folder(draft, tmp_path):
    return copied(draft, tmp_path / "copy")


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


def test_from_the_draft_to_the_payment_under_a_public_beacon(folder):
    done = typed("check", "sample", folder, "--price", "2.50", "--announce", "drand")
    assert "checks of each payee │ 3" in done
    assert "cost, at most │ EUR 37.50, 3.8% of what is paid" in done
    assert "the beacon will be “drand round " in done
    assert not (folder / "checks.csv").exists()
    assert "64 digits" in typed("check", "sample", folder, "--beacon", "0000abc", code=1)
    done = typed("check", "sample", folder, "--beacon", "0a" * 32, "--contact", "pool@example.org")
    count = len((folder / "checks.csv").read_text().splitlines()) - 1
    assert f"{count} checks of 5 payees" in done
    assert "own machine" not in done
    assert (folder / "letters.csv").read_text().count("pool@example.org") == 10
    done = typed("check", "record", folder, outcomes(folder))
    assert f"{count} new answers; of {count} checks: {count} genuine, 0 false, 0 unanswered" in done
    done = typed("check", "settle", folder)
    assert "checked; the certificate is" in done
    assert "EUR 1,000.00 together" in done
    assert typed("check", "settle", folder) == done  # again: nothing changes
    certificate = json.loads((folder / "certificate.json").read_text())
    assert (certificate["per_payee"], certificate["announced"]) == (3, True)
    assert "only the operator's word" not in certificate["words"]
    command = done[
        done.index("ledger approve ") :
    ].split()  # as it is printed, warnings to accept and all
    assert "approved" in typed(*command)
    shown = typed("ledger", "show", folder)
    for event in ("planned", "drawn", "answers", "checked", "approved"):
        assert event in shown
    assert "FAILED" not in typed("verify", folder)
    assert "The run is approved" in typed("check", "settle", folder)


def test_one_command_samples_by_a_local_seed_and_settling_goes_on_by_itself(folder):
    done = typed("check", "sample", folder)
    assert "payees have only the operator's word that the sample was not chosen" in done
    before = (folder / "checks.csv").read_bytes()
    typed("check", "sample", folder)  # drawn once
    assert (folder / "checks.csv").read_bytes() == before
    assert "no beacon" not in done
    assert "drawn already" in typed("check", "sample", folder, "--announce", "drand", code=1)
    assert "not drawn again" in typed("check", "sample", folder, "--beacon", "mine", code=1)
    done = typed("check", "record", folder, outcomes(folder, ("seller 1",)))
    assert done.endswith(f"Then: datamarket check settle {folder}")
    done = typed("check", "settle", folder)
    new = folder.parent / "run-2"
    assert "seller 1 failed and is paid nothing: u" in done
    assert "What was not forfeited is divided among the others" in done
    manifest = json.loads((new / "manifest.json").read_text())
    assert manifest["amount"] == 100_000 - manifest["settles"]["kept"] < 100_000
    for _ in range(3):  # draws of units whose part of the pay has fallen may be made anew
        if "checked; the certificate is" in done:
            break
        path = outcomes(new)
        path.write_text("\n".join(line + " later" for line in path.read_text().splitlines()) + "\n")
        path.write_text(path.read_text().replace("by later", "by", 1))
        typed("check", "record", new, path)
        done = typed("check", "settle", new)
    certificate = json.loads((new / "certificate.json").read_text())
    assert certificate["announced"] is False
    assert "only the operator's word" in certificate["words"]
    assert "ledger approve" in typed("check", "settle", new)  # no circle between the two
    assert "FAILED" not in typed("verify", new)


def test_unanswered_checks_count_as_false_only_when_that_is_said(folder):
    typed("check", "sample", folder)
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
    done = typed("check", "sample", folder, "--checks", "12")
    assert "repeats of a unit, expected" in done
    assert "left without repeats" in done
    assert "of the list were drawn more than once, and are checked by as many people" in done
    alone = outcomes(folder)
    alone.write_text("\n".join(f"{line.rsplit(',', 1)[0]},R. Okafor" for line in alone.read_text().splitlines()
                               if not line.startswith("number")).join(("number,outcome,by\n", "\n")))  # fmt: skip
    typed("check", "record", folder, alone, code=1)
    assert "second checks not made" in typed("check", "record", folder, alone, "--check-once")
    typed("check", "settle", folder)
    assert json.loads((folder / "certificate.json").read_text())["examined"] == "once"


def test_moved_submissions_can_be_named(tmp_path):
    folder = paid(tmp_path)
    moved = folder.parent / "moved.parquet"
    (folder.parent / "in" / "units.parquet").rename(moved)
    typed("check", "sample", folder, code=1)
    drawn = (folder / "checks.csv").read_bytes()  # drawn for good before the page could be written
    assert "checks of 5 payees" in typed("check", "sample", folder, "--submissions", moved)
    assert (folder / "checks.csv").read_bytes() == drawn
