"""units.csv: every submitted unit, what it earns to the cent, and why it earns nothing."""

import csv
from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest
from acquired_files import again, fresh, july, june, stacked
from payout_files import cents, copied, run, run_by_accuracy, table, units, validation

from datamarket_gym.execution.files import read_json, sha256, write_json
from datamarket_gym.payout.checks.plan import FalseUnit, SettledDraft
from datamarket_gym.payout.names import first_words
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.settings import checked_spec
from datamarket_gym.payout.stored_inputs import Places
from datamarket_gym.payout.unit_payments import read_units, shared_words
from datamarket_gym.payout.verify import verify


def by_payee(folder):
    sums = Counter()
    for row in read_units(folder / "units.csv"):
        sums[row.payee] += row.amount
    return dict(sums)


def market(seed):
    """A market of random shape: payees of any size, copies, twins of one time that share a cluster."""
    rng = np.random.default_rng(seed)
    columns = units(int(rng.integers(12, 60)), int(rng.integers(2, 7)), seed, int(rng.integers(2, 9)))
    columns["time"] = np.floor(columns["time"] / rng.integers(1, 9))
    return columns


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("how", [run, run_by_accuracy])
def test_units_sum_to_the_payments_and_earn_in_proportion_to_what_is_allocated(tmp_path, how, seed):
    amount = ["0.07", "1000.00", "99999.99", "3"][seed]
    negative = "carry" if seed % 2 else "zero"
    columns = market(seed)
    folder = how(tmp_path, columns, validation(40, seed), amount=amount, negative=negative)
    rows = read_units(folder / "units.csv")
    assert by_payee(folder) == cents(folder)
    assert sorted(row.unit for row in rows if row.unit) == sorted(columns["id"])
    allocated = {r["unit"]: r["amount"] for r in pq.read_table(folder / "clusters.parquet").to_pylist()}
    scale = 100 * float(amount) / sum(allocated.values())
    for row in rows:
        if row.unit:
            assert abs(row.amount - scale * allocated.get(row.unit, 0.0)) < 1 + 1e-6
            assert bool(row.reason) == (row.amount == 0)
    assert all(check.good for check in verify(folder))
    carried = [row for row in rows if not row.unit]
    assert sum(row.amount for row in carried) == 0  # what one is owed beyond its payment, another owes


def test_the_cents_that_rounding_leaves_go_to_the_largest_remainders(tmp_path):
    folder = run(tmp_path, units(), amount="1.00")
    allocated = {r["unit"]: r["amount"] for r in pq.read_table(folder / "clusters.parquet").to_pylist()}
    scale = 100 / sum(allocated.values())
    for payee in cents(folder):
        mine = [row for row in read_units(folder / "units.csv") if row.payee == payee]
        exact = {row.unit: scale * allocated[row.unit] for row in mine}
        up = [exact[row.unit] % 1 for row in mine if row.amount > exact[row.unit]]
        down = [exact[row.unit] % 1 for row in mine if row.amount < exact[row.unit]]
        assert not up or not down or min(up) >= max(down) - 1e-9
        if payee != "attacker":
            assert {row.reason for row in mine} <= {"", "below a cent"}


WORDS = [
    a + b + c
    for a in "bdfgkmt"
    for b in ("an", "el", "ir", "os", "ub")
    for c in ("o", "ey", "ham", "ing")
]


def texts(n, seed, most=None):
    rng = np.random.default_rng(seed)
    made = [" ".join(rng.choice(WORDS, 40)) for _ in range(n)]
    return {"label": rng.integers(0, 2, n).astype(str), "text": made, **(most or {})}


@pytest.fixture(scope="module")
def of_texts(tmp_path_factory):
    """A run of texts: one sends another's article with two words changed, a validation row and a bad row."""
    held = texts(120, 1)
    columns = texts(40, 2)
    columns["id"] = [f"a{i}" for i in range(40)]
    columns["identity"] = [f"writer {i % 4}" for i in range(40)]
    columns["time"] = np.arange(40.0)
    first = columns["text"][0].split()
    columns["text"][39] = " ".join(["Breaking:", *first[:18], "instead", *first[19:]])
    columns["label"][39] = columns["label"][0]
    columns["text"][30], columns["label"][30] = held["text"][5], held["label"][5]
    columns["text"][7] = "=2+5 \u202eevil words " + columns["text"][7]
    columns["identity"][20] = None
    folder = tmp_path_factory.mktemp("texts")
    for name, made in (("units", columns), ("validation", held)):
        pq.write_table(table(made), folder / f"{name}.parquet")
    spec = checked_spec({
        "amount": "500.00", "columns": {"text": "text"}, "encoder": "ngrams@64", "quarantine": True,
        "audit": False, "checks": 0, "learner": "coverage", "theta": "auto",
    })  # fmt: skip
    pay(Places(folder / "units.parquet", folder / "validation.parquet"), spec, folder / "run")
    return folder / "run", columns


def test_a_unit_is_told_by_its_first_words_and_by_what_it_shares(of_texts):
    folder, columns = of_texts
    rows = {row.unit: row for row in read_units(folder / "units.csv")}
    assert set(rows) == set(columns["id"])
    assert by_payee(folder) | {"": 0} == cents(folder) | {"": 0}
    assert rows["a1"].content == " ".join(columns["text"][1][:61].split(" ")[:-1]) + " …"
    copy = rows["a39"]
    assert (copy.amount, copy.reason, copy.matched_to, copy.matched_by) == (0, "matched", "a0", "words")
    for passage in copy.shared_words.split(" | "):
        assert passage.removesuffix(" …") in columns["text"][0]
        assert passage.removesuffix(" …") in columns["text"][39]
    assert rows["a30"].reason == "equals a validation row"
    assert rows["a20"].reason == "set aside: identity is missing"
    assert "⟨U+202E⟩" in rows["a7"].content
    with (folder / "units.csv").open(encoding="utf-8", newline="") as file:
        [raw] = [row for row in csv.DictReader(file) if row["unit"] == "a7"]
    assert raw["content"].startswith("'=2+5")


def test_of_a_long_text_whole_words_are_shown():
    assert first_words("eighteen " * 20) == " ".join(["eighteen"] * 6) + " …"
    assert first_words("  two\n words ") == "two words"


def test_shared_words_are_passages_of_neighbours_in_both():
    mine = "Israeli rockets kill two in Gaza, medics said on Monday."
    assert shared_words(mine, "(AP) Israeli ROCKETS kill two; said on Monday") == (
        "Israeli rockets kill two | said on Monday."
    )
    assert shared_words(mine, "nothing of it") == ""
    assert shared_words("", "") == ""


def test_units_that_were_acquired_before_name_the_run_and_the_unit(tmp_path):
    earlier = june(tmp_path)
    resold = again(units(), [3, 4, 5], "late comer")
    folder = july(tmp_path, stacked(fresh(), resold), [earlier])
    rows = {row.unit: row for row in read_units(folder / "units.csv")}
    assert by_payee(folder) == cents(folder)
    for i in (3, 4, 5):
        row = rows[f"again {i}"]
        assert (row.amount, row.reason) == (0, "acquired before, in June 2026")
        assert row.matched_to == f"u{i}"


def test_a_failed_check_costs_the_unit_and_its_payee(tmp_path):
    first = run(tmp_path / "draft", units())
    manifest = read_json(first / "manifest.json")
    settles = SettledDraft(
        run=manifest["run"], manifest=sha256(first / "manifest.json"), beacon="b", checks=1, power=0.9,
        outcomes="0" * 64, found=[FalseUnit(unit="u1", identity="seller 1", payee="seller 1")],
        forfeited=["seller 1"], carried=["seller 2"], draws=[], looks=[], examined="anew", before="0" * 64, kept=0,
    )  # fmt: skip
    places = Places(tmp_path / "draft/in/units.parquet", tmp_path / "draft/in/validation.parquet")
    spec = checked_spec(manifest["spec"])
    pay(places, spec, tmp_path / "again", settles=settles)
    rows = read_units(tmp_path / "again" / "units.csv")
    assert {row.unit: row for row in rows}["u1"].reason == "failed a spot check"
    others = {
        row.payee: row.reason
        for row in rows
        if row.payee in ("seller 1", "seller 2") and row.unit != "u1"
    }
    assert others == {
        "seller 1": "its payee failed a spot check", "seller 2": "its payee was not checked"
    }  # fmt: skip
    sums = by_payee(tmp_path / "again")
    assert sums["seller 1"] == sums["seller 2"] == 0
    assert sum(sums.values()) == 100_000


def test_verify_finds_units_that_sum_to_something_else(of_texts, tmp_path):
    folder = copied(of_texts[0], tmp_path / "copy")
    path = folder / "units.csv"
    path.write_text(path.read_text().replace("writer 1", "writer 2", 3))
    assert [check.what for check in verify(folder) if not check.good] == ["units.csv"]
    manifest = read_json(folder / "manifest.json")
    manifest["outputs"]["units.csv"] = {"sha256": sha256(path), "bytes": path.stat().st_size}
    write_json(folder / "manifest.json", manifest)
    assert not all(check.good for check in verify(folder))
