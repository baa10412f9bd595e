"""verify where every hash fits: someone rewrote a file, its manifest and the ledger's word for it."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forged_ledger import redrafted, rewritten
from payout_files import copied, run

from datamarket_gym.execution.files import read_json, sha256, write_json
from datamarket_gym.payout.ledger.entries import LedgerError
from datamarket_gym.payout.ledger.runs import ledger_of, run_of
from datamarket_gym.payout.verify import verify

SAME = "payments.csv, payments.parquet, units.csv, ledger"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run(tmp_path_factory.mktemp("fitted"))


@pytest.fixture
def copy(folder, tmp_path):
    return copied(folder, tmp_path / "copy")


def failed(folder):
    return [check.what for check in verify(folder) if not check.good]


def lines_of(folder):
    return [[x.identity, x.paid, x.entitled, x.balance] for x in run_of(folder).lines]


def made_to_fit(folder, lines=None, **changes):
    """Write the manifest and the ledger anew, so that hashes are those of the files as they are."""
    manifest = json.loads((folder / "manifest.json").read_text())
    for name, said in manifest["outputs"].items():
        said |= {"sha256": sha256(folder / name), "bytes": (folder / name).stat().st_size}
    (folder / "manifest.json").write_text(json.dumps({**manifest, **changes}))
    redrafted(folder, manifest=sha256(folder / "manifest.json"), lines=lines or lines_of(folder))


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


@pytest.mark.parametrize("column", ["paid", "balance"])
def test_all_columns_are_compared(copy, column):
    one, two, *rest = lines_of(copy)
    for line, more in (
        (one, 1),
        (two, -1),
    ):  # sums stay as they are; what one is entitled to is the sum of both
        line[{"paid": 1, "balance": 3}[column]] += more
        line[2] += more
    made_to_fit(copy, [one, two, *rest])
    assert failed(copy) == [SAME]


@pytest.mark.parametrize("column", [1, 2, 3])
def test_lines_that_do_not_add_up_are_an_error_whoever_reads_the_ledger(copy, column):
    """Also where two of them make up for each other: one is entitled to what one is paid and what is carried."""
    one, two, *rest = lines_of(copy)
    one[column] += 1
    two[column] -= 1
    made_to_fit(copy, [one, two, *rest])
    assert failed(copy) == ["ledger"]
    with pytest.raises(LedgerError, match="do not add up"):
        ledger_of(copy).accounts()


def test_payments_that_are_not_the_amount_are_found(copy):
    manifest = json.loads((copy / "manifest.json").read_text())
    made_to_fit(copy, amount=manifest["amount"] + 1)
    assert failed(copy) == ["manifest.json", "manifest and ledger"]


def test_a_balance_that_came_from_nowhere_is_found(copy):
    one, *rest = lines_of(copy)
    redrafted(copy, lines=[[one[0], one[1], one[2] + 1, one[3] + 1], *rest])
    assert failed(copy) == ["ledger"]
    with pytest.raises(LedgerError, match="do not add up"):
        run_of(copy)


def test_a_balance_that_was_brought_in_and_is_gone_is_found(copy):
    made_to_fit(copy, opening_balances={"seller 1": 700})
    assert failed(copy) == ["manifest.json", "manifest and ledger"]
    redrafted(copy, opening={"seller 1": 700})
    assert "ledger" in failed(copy)


def test_a_ledger_without_the_run_is_found(copy):
    rewritten(copy, lambda entries: entries[:1])
    assert failed(copy) == ["run and ledger"]


def test_a_ledger_that_is_gone_is_said_to_be(copy):
    ledger_of(copy).path.unlink()
    (said,) = [check for check in verify(copy) if not check.good]
    assert said.what == "ledger"
    assert "is gone; if it was moved: datamarket ledger attach" in said.detail


def test_a_head_that_the_ledger_no_longer_holds_is_found(copy):
    said = read_json(copy / "ledger.json")
    write_json(copy / "ledger.json", {**said, "tip": "1" * 64})
    assert failed(copy) == ["ledger.json"]


def test_warnings_that_the_ledger_has_otherwise_are_found(copy):
    def change(entries):
        entries[1]["content"]["warnings"] = [
            {"name": "leak", "title": "t", "words": "w", "count": 1, "items": []}
        ]
        return entries

    rewritten(copy, change)
    assert "warnings.json, ledger" in failed(copy)


def test_a_ledger_of_another_run_is_found(copy):
    def change(entries):
        entries[1]["run"] = "0" * 64
        return entries

    rewritten(copy, change)
    assert failed(copy) == ["run and ledger"]
