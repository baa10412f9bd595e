"""The life of a run without labels, as one types it: from receipts to the payment, and the month after."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from acquired_files import fresh, stacked
from logged_files import EVERYBODY, of
from payout_files import bare, cents, outputs, rows, table, units, validation, warned
from test_checks_cli import outcomes, typed
from test_unlabelled_tables import told
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.errors import SubmissionError

MINE, HELD = bare(units(60)), bare(validation(120))
SIGNED = 'reason = "licensed twice"\nby = "R. Okafor"\ndate = 2026-05-31\n'


def save(path, columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table(columns), path)
    return path


def paid(out, submitted, held, *more, period="June 2026"):
    """What was printed; the checks of a payout run are asked for, the red team is not."""
    return typed(
        "pay", submitted, "--validation", held, "--utility", "coverage@0.5", "--amount", "1000.00", "--out", out,
        "--no-audit", "--theta", "none", "--period", period, *more,
    )  # fmt: skip


def approve(folder):
    accepted = [word for name in warned(folder) for word in ("--accept", name)]
    return typed("ledger", "approve", folder, "--by", "R. Okafor", *accepted)


@pytest.fixture(scope="module")
def june(tmp_path_factory):
    """June: everybody hands in, is paid by the log, is checked, and the run is approved."""
    market = tmp_path_factory.mktemp("life")
    log, submitted = market / "ledger.sqlite", save(market / "june.parquet", MINE)
    held = save(market / "held.parquet", HELD)
    typed("intake", "init", log)
    for who in EVERYBODY:
        batch = save(market / "batches" / f"{who}.parquet", of(MINE, who))
        typed("intake", "add", log, batch, "--payee", who)
    said = paid(market / "june", submitted, held, "--intake", log, "--ledger", log)
    assert "of its label" not in said
    assert "labels_ignored" not in warned(market / "june")
    return market


@pytest.fixture(scope="module")
def approved(june):
    run = june / "june"
    typed("check", "sample", run, "--price", "2.50", "--announce", "block 900000")
    typed("check", "sample", run, "--beacon", "0000abc")
    typed("check", "record", run, outcomes(run))
    assert "checked" in typed("check", "settle", run)
    assert "approved" in approve(run)
    return june


def test_receipts_hold_of_units_without_labels(june):
    batch = june / "batches" / "seller 1.parquet"
    (receipt,) = batch.parent.glob("seller 1.parquet.entry-*.receipt.json")
    log = june / "ledger.sqlite"
    typed("intake", "check", receipt, "--ledger", log, "--unit-in", batch, "--unit", "u1")
    labelled = save(june / "labelled.parquet", of(units(60), "seller 1"))
    wrong = typed("intake", "check", receipt, "--ledger", log, "--unit-in", labelled, code=1)
    assert "FAILED" in wrong  # with a label it is another unit


def test_the_run_is_explained_stated_and_exported(approved):
    run = approved / "june"
    typed("verify", run, "--recompute")
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["labelled"] is False
    said = typed("explain", run, "--payee", "attacker")
    assert "attacker" in said
    assert "label" not in said
    typed("statements", run, "--contact", "payouts@example.org")
    pages = [page.read_text(encoding="utf-8") for page in (run / "statements").glob("*.html")]
    assert len(pages) == len(EVERYBODY)
    typed("export", run, "--format", "csv", "--out", approved / "june.csv")
    owed = [line.split(",")[3] for line in (approved / "june.csv").read_text().splitlines()[1:]]
    assert round(100 * sum(map(float, owed))) == 100_000
    typed("statements", approved / "ledger.sqlite", "--payee", "seller 1")
    assert "FAILED" not in typed("verify", approved / "ledger.sqlite")


def test_a_split_that_is_signed_off_and_units_that_come_late(june):
    copied = [row["right"] for row in pq.read_table(june / "june" / "evidence.parquet").to_pylist()]
    (june / "o.toml").write_text(f"[[split]]\nunits = {json.dumps(copied)}\n{SIGNED}")
    how = ("--ledger", june / "splits.sqlite", "--id", "id", "--time", "time", "--checks", "0")
    submitted, held = june / "june.parquet", june / "held.parquet"
    paid(june / "split", submitted, held, *how, "--overrides", june / "o.toml")
    assert cents(june / "split")["attacker"] == cents(june / "june", "without_evidence")["attacker"]
    late = save(june / "late.parquet", stacked(MINE, bare(fresh(6))))
    plain = (late, held, "--ledger", june / "late.sqlite", "--checks", "0", "--theta", "0.99")
    paid(june / "late", *plain)
    paid(june / "reused", late, held, "--ledger", june / "reused.sqlite", "--checks", "0", "--theta", "0.99",
         "--reuse", june / "late")  # fmt: skip
    assert outputs(june / "late") == outputs(june / "reused")


def again(n=4):
    """What seller 0 sold in June, handed in by an attacker beside what is new."""
    old = rows(MINE, np.flatnonzero(np.array(MINE["identity"]) == "seller 0")[:n])
    old |= {"id": [f"again {i}" for i in range(n)], "identity": ["attacker"] * n}
    return stacked(bare(fresh()), old | {"time": 9000.0 + np.arange(n)})


def july(market, name, submitted, held, *more):
    mine, theirs = (
        save(market / name / f"{what}.parquet", columns)
        for what, columns in {"units": submitted, "held": held}.items()
    )
    said = paid(
        market / name / "run", mine, theirs, "--ledger", market / f"{name}.sqlite", "--checks", "0", "--acquired",
        market / "june", *more, period="July 2026",
    )  # fmt: skip
    return said, market / name / "run"


def test_the_month_after_knows_what_was_acquired(approved):
    said, run = july(approved, "july", again(), HELD)
    assert "4 units were acquired then and earn nothing now" in said
    assert cents(run)["attacker"] == 0
    assert "labels_ignored" not in warned(run)
    assert "FAILED" not in typed("verify", run, "--recompute")


def test_a_month_with_labels_after_one_without_pays_as_if_it_had_none(approved):
    _, plain = july(approved, "august", again(), HELD)
    mine = again()
    _, run = july(
        approved, "labelled", mine | {"label": ["x"] * len(mine["id"])}, HELD | {"label": ["x"] * 120}
    )
    assert cents(run) == cents(plain)
    assert told(run, "labels_ignored") == [
        "the submissions and the validation rows have labels, what was acquired before (June 2026) has none"
    ]
    assert "FAILED" not in typed("verify", run, "--recompute")


def test_what_was_acquired_without_labels_teaches_no_learner_that_needs_them(approved):
    mine, held = (
        save(approved / "k" / "u.parquet", fresh()),
        save(approved / "k" / "v.parquet", validation()),
    )
    done = CliRunner().invoke(
        app,
        [
            "pay", str(mine), "--validation", str(held), "--utility", "knn", "--amount", "1", "--out",
            str(approved / "k" / "run"), "--acquired", str(approved / "june"),
        ],
    )  # fmt: skip
    assert isinstance(done.exception, SubmissionError)
    assert "what was acquired before (June 2026) have no labels, and knn needs them" in str(
        done.exception
    )


def test_a_month_without_labels_after_one_with_them(tmp_path):
    """What was acquired with labels is there all the same: labels are left out, and a copy earns nothing."""
    ledger = tmp_path / "ledger.sqlite"
    mine, held = save(tmp_path / "u.parquet", units()), save(tmp_path / "v.parquet", validation(120))
    paid(tmp_path / "june", mine, held, "--ledger", ledger, "--checks", "0")
    approve(tmp_path / "june")
    _, run = july(tmp_path, "july", again(), HELD)
    assert cents(run)["attacker"] == 0
    assert json.loads((run / "manifest.json").read_text())["labelled"] is False
