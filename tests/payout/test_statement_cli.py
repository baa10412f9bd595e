"""From pay to the statement as one types it: three months, two currencies, a dispute with every effect it can have."""

import csv
import io
import json
import re

import numpy as np
import pytest
from payout_files import cents, units, validation, warned, write
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.payout.ledger.runs import ledger_of, run_of
from datamarket_gym.payout.ledger.transactions import order


def typed(*words, code=0):
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        if code != 2:
            raise done.exception
        return str(done.exception)
    assert done.exit_code == code, done.output
    return done.output


def paid(place, month, seed, currency="EUR", out=None):
    """Pay for a month's units, whose names are its own; what the command printed."""
    columns = units(seed=seed)
    columns["id"] = [f"{month}-{name}" for name in columns["id"]]
    places = write(place / "in" / month, columns, validation(seed=seed + 100))
    return typed(
        "pay", places.submissions, "--validation", places.validation, "--amount", "1000", "--currency", currency,
        "--out", place / (out or month), "--theta", "none", "--no-audit", "--checks", "0", "--period", f"{month} 2026",
    )  # fmt: skip


def approved(run, *more, code=0):
    accepted = [word for name in [*warned(run), *more] for word in ("--accept", name)]
    return typed("ledger", "approve", run, "--by", "R. Okafor", *accepted, code=code)


@pytest.fixture(scope="module")
def market(tmp_path_factory):
    """June is disputed as a draft, paid again, approved and sent; then disputed again and corrected."""
    place = tmp_path_factory.mktemp("market")
    paid(place, "june", 0)
    copy = "june-u60"  # the attacker's first copy
    typed(
        "dispute",
        "open",
        place / "june",
        "--payee",
        "attacker",
        "--about",
        f"{copy} is mine",
        "--unit",
        copy,
    )
    assert "1 dispute is open" in approved(place / "june", code=2)
    told = typed(
        "dispute", "resolve", place / "june", "--number", 1, "--outcome", "upheld", "--why", "she has the original",
        "--separate", copy, "--by", "R. Okafor",
    )  # fmt: skip
    assert f"split units {copy}, in every run to come" in told
    assert "1 decision is newer than this run" in approved(place / "june", code=2)
    paid(place, "june", 0, out="june-2")
    approved(place / "june-2")
    typed("ledger", "paid", place / "june-2", "--reference", "transfer 7")
    typed(
        "dispute",
        "open",
        place / "june-2",
        "--payee",
        "seller 1",
        "--about",
        "one is missing",
        "--against",
        "seller 2",
    )
    typed(
        "dispute", "resolve", place / "ledger.sqlite", "--number", 2, "--outcome", "upheld", "--why", "it was lost",
        "--correction", "1.23", "--from", "seller 2",
    )  # fmt: skip
    told = " ".join(paid(place, "july", 1).split())
    assert f"dispute 1: the split of units leaves out {copy}, not in this run" in told
    approved(place / "july")
    paid(place, "july", 2, "JPY", "july-yen")
    approved(place / "july-yen")
    paid(place, "august", 3)
    return place


def rows_of(market, payee, *more):
    told = typed("statements", market / "ledger.sqlite", "--payee", payee, "--format", "csv", *more)
    return list(csv.DictReader(io.StringIO(told)))


def minor(row, column):
    return round(float(row[column]) * (1 if row["currency"] == "JPY" else 100))


def test_what_was_decided_stands_in_the_next_run(market):
    manifest = json.loads((market / "june-2" / "manifest.json").read_text())
    (override,) = manifest["overrides"]
    assert override["reason"] == "dispute 1 of attacker, upheld: she has the original"
    assert override["units"] == ["june-u60"]
    assert manifest["standing_overrides"] == manifest["overrides"]
    before, after = (cents(market / name)["attacker"] for name in ("june", "june-2"))
    assert after > before
    assert "dispute 1 of attacker, upheld" in (market / "june-2" / "report.html").read_text()
    assert json.loads((market / "july" / "manifest.json").read_text())["overrides"] == []


def test_everything_verifies(market):
    typed("verify", market / "ledger.sqlite")
    typed("verify", market / "june-2", "--recompute")


@pytest.mark.parametrize("payee", ["seller 0", "seller 1", "seller 2", "seller 3", "attacker"])
def test_the_statement_is_what_the_runs_paid(market, payee):
    rows = rows_of(market, payee)
    runs = {run_of(market / name).run: market / name for name in ("june-2", "july", "july-yen")}
    lines = [row for row in rows if row["row"] == "line"]
    for run, folder in runs.items():
        (payment,) = [row for row in lines if (row["run"], row["kind"]) == (run, "payment")]
        digits = 1 if payment["currency"] == "JPY" else 100
        paid_there = csv.DictReader((folder / "payments.csv").open())
        (said,) = [row["payment"] for row in paid_there if row["identity"] == payee]
        assert minor(payment, "amount") == round(float(said) * digits)
    for currency in ("EUR", "JPY"):
        closing = next(r for r in rows if (r["row"], r["currency"]) == ("closing", currency))
        for place in ("owed", "on_its_way", "sent", "carried"):
            mine = [minor(row, f"{place}_change") for row in lines if row["currency"] == currency]
            assert sum(mine) == minor(closing, place)
    june = cents(market / "june-2")[payee]
    (sent,) = [row for row in lines if row["kind"] == "sent"]
    assert minor(sent, "amount") == june
    assert [row["period"] for row in rows if row["row"] == "draft"] == ["june 2026", "august 2026"]
    assert rows[-1]["what"] == ledger_of(market / "july").read()[-1].hash


def test_a_correction_comes_from_the_other(market):
    gives, takes = (
        [row for row in rows_of(market, payee) if row["kind"] == "correction"]
        for payee in ("seller 2", "seller 1")
    )
    assert [row["amount"] for row in gives + takes] == ["-1.23", "1.23"]
    named = re.match(r"Correction of entry (\d+): dispute 2, upheld: it was lost", takes[0]["what"])
    entry = ledger_of(market / "july").read()[int(named[1]) - 1]
    assert (entry.kind, entry.payee) == ("payment", "seller 1")


def test_text_and_pages(market, tmp_path):
    words = ("statements", market / "ledger.sqlite", "--payee", "seller 1")
    told = typed(*words)
    assert "Account of seller 1" in told
    assert "every movement" in told
    assert "Dispute 2 upheld: it was lost" in told
    assert told.count("another run for this period is approved") == 1
    for name, begins in (
        ("a.html", "<!doctype html>"),
        ("a.csv", "row,payee"),
        ("a.txt", "Account of seller 1"),
    ):
        typed(*words, "--out", tmp_path / name)
        assert (tmp_path / name).read_text().startswith(begins)
    assert "end the name in" in typed(*words, "--out", tmp_path / "a.doc", code=2)
    assert "did you mean" in typed("statements", market / "ledger.sqlite", "--payee", "seler 1", code=2)
    none = typed(*words, "--from", "2020-01-01", "--to", "2020-12-31")
    assert "Payment approved" not in none


def test_a_run_has_pages_and_a_ledger_has_accounts(market):
    ledger, run = market / "ledger.sqlite", market / "june-2"
    assert "name the ledger" in typed("statements", run, "--from", "2026-01-01", code=2)
    assert "say whose account" in typed("statements", ledger, code=2)


def test_the_list(market):
    told = typed("dispute", "list", market / "ledger.sqlite")
    for words in (
        "upheld by R. Okafor",
        "she has the original",
        "correction of EUR 1.23 to seller 1",
        "split units june-u60",
    ):
        assert words in " ".join(told.split())
    assert "no dispute is open" in typed("dispute", "list", market / "june", "--open")
    assert "was upheld by R. Okafor" in typed(
        "dispute",
        "resolve",
        market / "june",
        "--number",
        1,
        "--outcome",
        "rejected",
        "--why",
        "no",
        code=2,
    )
    assert "unknown unit of this run" in typed(
        "dispute",
        "open",
        market / "july",
        "--payee",
        "attacker",
        "--about",
        "x",
        "--unit",
        "june-u60",
        code=2,
    )


def test_what_is_at_the_bank_is_not_held(market):
    order(ledger_of(market / "july"), run=run_of(market / "july").run)
    told = typed("dispute", "open", market / "july", "--payee", "seller 3", "--about", "wait", "--hold")
    assert "held until it is decided: seller 3" in told
    assert "are ordered at the bank already" in told
    told = typed("statements", market / "ledger.sqlite", "--payee", "seller 3")
    assert "Payments are held: dispute 3: wait" in told
    assert "Dispute 3 is open" in told


def test_revoked_it_stands_in_no_other_run(market):
    typed(
        "dispute", "revoke", market / "ledger.sqlite", "--number", 1, "--why", "the original was forged"
    )
    paid(market, "june", 0, out="june-3")
    manifest = json.loads((market / "june-3" / "manifest.json").read_text())
    assert manifest["overrides"] == []
    assert manifest["run"] == json.loads((market / "june" / "manifest.json").read_text())["run"]
    assert np.isclose(cents(market / "june-3")["attacker"], cents(market / "june")["attacker"])
