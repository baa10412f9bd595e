"""verify where every hash fits: someone rewrote a file, its manifest and the ledger's word for it."""

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from payout_files import run

from datamarket_gym.core.files import sha256
from datamarket_gym.payout import ledger
from datamarket_gym.payout.verify import verify

SAME = "payments.csv, payments.parquet, ledger"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run(tmp_path_factory.mktemp("fitted"))


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


def failed(folder):
    return [check.what for check in verify(folder) if not check.good]


def made_to_fit(folder, entries=None, **changes):
    """Write the manifest and the ledger anew, so that hashes are those of the files as they are."""
    manifest = json.loads((folder / "manifest.json").read_text())
    for name, said in manifest["outputs"].items():
        said |= {"sha256": sha256(folder / name), "bytes": (folder / name).stat().st_size}
    (folder / "manifest.json").write_text(json.dumps({**manifest, **changes}))
    record, found = ledger.read_record(folder), ledger.read_entries(folder)
    warnings = ledger.read_entered_warnings(folder)
    (folder / ledger.NAME).unlink()
    entered = replace(record, manifest=sha256(folder / "manifest.json"))
    ledger.draft(folder, entered, entries or found, [], warnings)


def swapped(text):
    """The CSV with the first two payments given to each other's identities."""
    head, one, two, *rest = text.splitlines(keepends=True)
    (name, *first), (other, *second) = one.split(","), two.split(",")
    return "".join([head, ",".join([name, *second]), ",".join([other, *first]), *rest])


def test_what_is_made_to_fit_and_is_true_is_good(copy):
    made_to_fit(copy)
    assert failed(copy) == []


def test_a_csv_that_pays_others_is_found(copy):
    path = copy / "payments.csv"
    path.write_text(swapped(path.read_text()))
    made_to_fit(copy)
    assert failed(copy) == [SAME]


def test_a_parquet_file_that_pays_others_is_found(copy):
    table = pq.read_table(copy / "payments.parquet")
    names = table["identity"].to_pylist()
    moved = table.set_column(0, "identity", pa.array([names[1], names[0], *names[2:]]))
    pq.write_table(moved, copy / "payments.parquet")
    made_to_fit(copy)
    assert failed(copy) == [SAME]


@pytest.mark.parametrize("column", ["entitled", "balance"])
def test_all_three_columns_are_compared(copy, column):
    one, two, *rest = ledger.read_entries(copy)
    more = replace(one, **{column: getattr(one, column) + 1})
    less = replace(two, **{column: getattr(two, column) - 1})
    made_to_fit(copy, [more, less, *rest])  # sums stay as they are
    assert failed(copy) == [SAME]


def test_payments_that_are_not_the_amount_are_found(copy):
    manifest = json.loads((copy / "manifest.json").read_text())
    made_to_fit(copy, amount=manifest["amount"] + 1)
    assert failed(copy) == ["sum of payments"]


def test_a_balance_that_came_from_nowhere_is_found(copy):
    with closing(sqlite3.connect(copy / ledger.NAME)) as connection:
        connection.execute("UPDATE payments SET balance = balance + 1 WHERE identity = 'seller 1'")
        connection.commit()
    assert failed(copy) == ["sum of balances", SAME]


def test_a_balance_that_was_brought_in_and_is_gone_is_found(copy):
    made_to_fit(copy, opening_balances={"seller 1": 700})
    assert failed(copy) == ["sum of balances"]


def test_a_ledger_of_another_run_is_found(copy):
    record, entries = ledger.read_record(copy), ledger.read_entries(copy)
    (copy / ledger.NAME).unlink()
    assert failed(copy) == ["ledger"]
    ledger.draft(copy, replace(record, run="0" * 64), entries, [], [])
    assert failed(copy) == ["manifest and ledger"]
