"""examples/three_months.py plays three payouts; what is tried takes nothing in the end; everything verifies."""

import csv

import pytest

from datamarket_gym.payout import open_ledger
from example_scenes import play
from repository import require_data

SMALL = 30  # articles of a seller


@pytest.fixture(scope="module")
def data():
    require_data("agnews.csv.gz", "agnews_minilm.npz")


@pytest.fixture(scope="module")
def market(tmp_path_factory):
    return tmp_path_factory.mktemp("three") / "market"


@pytest.fixture(scope="module")
def scenes(data, market):
    return play("three_months.py", market, "--articles", str(SMALL))


def taken(table):
    """(units, EUR without, EUR with) of each attack, in order."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    return [
        (int(row[1]), float(row[3].replace(",", "")), float(row[5].replace(",", ""))) for row in rows
    ]


def test_what_is_tried_pays_without_receipts_and_acquired_art_and_takes_next_to_nothing_with_them(
    scenes,
):
    exact, reworded, half, own, dated, late = taken(scenes["taken"])
    assert [each[0] for each in (exact, reworded, half, own, dated, late)] == [15, 15, 15, 6, 60, 15]
    for _, without, _ in (exact, reworded, own, late):
        assert without > 100
    assert half[1] > 0
    assert dated[1] > 2000
    assert exact[2] == own[2] == 0  # word for word is known, whosever it is
    for _, without, stopped in (reworded, half, dated, late):
        assert stopped <= 0.05 * without


def test_the_ledger_holds_three_months_a_correction_and_two_disputes(scenes, market):
    accounts = open_ledger(market / "ledger.sqlite").accounts()
    assert [(run.period, run.state) for run in accounts.runs.values()] == [
        ("June 2026", "paid"), ("July 2026", "approved"), ("August 2026", "approved"),
    ]  # fmt: skip
    corrections = {e.payee: e.amount for e in accounts.entries if e.kind == "correction"}
    assert corrections["dora"] == -corrections["chen"] > 0
    outcomes = [e.content["outcome"] for e in accounts.entries if e.kind == "resolved"]
    assert outcomes == ["upheld", "rejected"]
    with (market / "friday.csv").open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) >= 5
    assert "Correction of entry" in scenes["friday"]
    assert (market / "dora.html").exists()


def test_everything_verifies_in_the_end(scenes):
    lines = [line for line in scenes["verify"].splitlines()[1:] if not line.startswith(" ")]
    assert len(lines) >= 9
    assert all(line.startswith("ok ") for line in lines)
