"""What the explorer shows: what was named, by ids that can be read, and nothing else."""

import json
import os

import pytest

from datamarket_gym.errors import DataMarketError
from datamarket_gym.explorer.files import NamedPlaces, NotThere, OutsideFolders, Uploads
from datamarket_gym.payout.ledger.store import open_ledger


def payout_run(folder, ledger="../ledger.sqlite"):
    """What makes a folder a run, and no more."""
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    (folder / "payments.parquet").write_bytes(b"")
    (folder / "ledger.json").write_text(json.dumps({"ledger": ledger, "number": 1, "tip": "x"}))
    return folder


@pytest.fixture
def market(tmp_path):
    """A folder of two runs with their ledger, an experiment, and compact results; beside it, a secret."""
    root = tmp_path / "market"
    payout_run(root / "june")
    payout_run(root / "july")
    (root / "s1").mkdir()
    (root / "s1" / "results.parquet").write_bytes(b"")
    (root / "compact").mkdir()
    (root / "compact" / "s2.json").write_text(json.dumps({"name": "s2", "seeds": [0, 1]}))
    open_ledger(root / "ledger.sqlite", new=True)
    (tmp_path / "secret.csv").write_text("x")
    return root


def places(tmp_path, *named):
    return NamedPlaces([str(each) for each in named], Uploads(tmp_path / "up"))


def ids(found):
    return [place.id for place in found]


def test_the_first_page_is_about_what_was_named(market, tmp_path):
    assert places(tmp_path).home() == "market"
    assert places(tmp_path, market).home() == "payout"
    assert places(tmp_path, market / "ledger.sqlite").home() == "payout"
    assert places(tmp_path, market / "s1").home() == "benchmark"
    (tmp_path / "tables").mkdir()
    assert places(tmp_path, tmp_path / "tables").home() == "payout"


def test_a_folder_shows_what_is_in_it(market, tmp_path):
    found = places(tmp_path, market)
    assert ids(found.runs()) == ["market/july", "market/june"]
    assert ids(found.results()) == ["market", "market/compact", "market/s1"]
    assert ids(found.ledgers()) == ["market/ledger.sqlite"]
    assert found.run("market/june") == market / "june"
    assert found.result("market/s1") == market / "s1"
    assert found.ledger("market/ledger.sqlite") == str(market / "ledger.sqlite")
    assert found.markets() == ["market"]


def test_a_run_alone_shows_the_ledger_beside_it_and_no_other_file(market, tmp_path):
    found = places(tmp_path, market / "june")
    assert ids(found.runs()) == ["june"]
    assert ids(found.ledgers()) == ["ledger.sqlite"]
    assert found.markets() == []
    assert found.run("june") == market / "june"
    with pytest.raises(OutsideFolders, match="name its folder on the command line"):
        found.inside(market / "july" / "payments.parquet")


def test_two_folders_of_one_name_are_told_apart(market, tmp_path):
    payout_run(tmp_path / "other" / "june")
    found = places(tmp_path, market / "june", tmp_path / "other" / "june")
    assert ids(found.runs()) == ["june", "june 2"]


def test_a_run_whose_ledger_lies_elsewhere_is_refused_until_that_is_named(market, tmp_path):
    payout_run(market / "odd", ledger="../../secret.csv")
    with pytest.raises(OutsideFolders):
        places(tmp_path, market).run("market/odd")
    with pytest.raises(OutsideFolders):
        places(tmp_path, payout_run(tmp_path / "b" / "far", "postgresql://u@h/db")).run("far")
    assert places(tmp_path, market, tmp_path / "secret.csv").run("market/odd") == market / "odd"


def test_nothing_outside_is_reached(market, tmp_path):
    found = places(tmp_path, market)
    os.symlink(tmp_path / "secret.csv", market / "link.csv")
    os.symlink(tmp_path, market / "up")
    for path in (
        market / "link.csv",
        market / ".." / "secret.csv",
        market / "up" / "secret.csv",
        tmp_path / "secret.csv",
    ):
        with pytest.raises(OutsideFolders):
            found.inside(path)
    assert found.inside(market / "june" / "manifest.json") == market / "june" / "manifest.json"
    assert not any(place.id.startswith("market/up") for place in found.runs() + found.results())
    for name in ("../market/june", "june", "market/../june", "market/june/", ""):
        with pytest.raises(NotThere, match="there are: market/july, market/june"):
            found.run(name)


def test_payouts_are_written_in_a_market_or_apart(market, tmp_path):
    found = places(tmp_path, market)
    assert found.new_run("market", "august") == market / "august"
    assert found.new_run(None, "dry") == tmp_path / "up" / "runs" / "dry"
    for name in ("", "..", "a/b", ".hidden", "a\nb", "/abs"):
        with pytest.raises(DataMarketError, match="is no name of a folder"):
            found.new_run("market", name)
    with pytest.raises(NotThere):
        found.new_run("market/june", "august")
    payout_run(tmp_path / "up" / "runs" / "dry")
    assert "uploads/dry" in ids(found.runs())


def test_what_is_not_there_is_said_at_the_start(tmp_path):
    with pytest.raises(DataMarketError, match="there is no"):
        places(tmp_path, tmp_path / "nowhere")
