"""Payout runs whose times are from the operator's intake log: what counts, what is refused, and what is found later."""

import csv
import json
import shutil
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow.parquet as pq
import pytest
from logged_files import ACCEPTED, EVERYBODY, bad, call, log, paid_by_log
from payout_files import (
    cents,
    outputs,
    payments,
    run,
    spec,
    table,
    units,
    validation,
    warned,
    write,
)

from datamarket_gym.errors import ParameterError, RunError, SubmissionError
from datamarket_gym.payout.explain import explain
from datamarket_gym.payout.intake import enter_batch, enter_export, read_batch, unit_digests
from datamarket_gym.payout.ledger.entries import LedgerError
from datamarket_gym.payout.ledger.runs import ledger_of, ledger_warnings, run_of
from datamarket_gym.payout.ledger.store import open_ledger
from datamarket_gym.payout.manifest import read_manifest
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.stored_inputs import Places
from datamarket_gym.payout.verify import verify

FORGED = {**units(), "time": np.concatenate([np.arange(60.0) + 5000, np.arange(6.0)])}
"""The attacker's copies bear the earliest times."""


@pytest.fixture
def folder(tmp_path):
    log(tmp_path / "log.sqlite")
    return tmp_path


def test_a_forged_column_of_times_is_not_looked_at(folder):
    honest = cents(run(folder / "honest"))
    cheated = cents(run(folder / "cheated", FORGED))
    assert (
        cheated["attacker"] > 1.5 * honest["attacker"]
    )  # whoever writes the column decides who was first
    by_log = paid_by_log(folder, FORGED)
    assert cents(by_log) == honest
    plain = {name: column for name, column in FORGED.items() if name != "time"}
    assert cents(paid_by_log(folder, plain, out="untimed")) == honest


def test_the_order_is_that_of_the_log(tmp_path):
    log(tmp_path / "log.sqlite", order=("attacker", *EVERYBODY[:4]))
    found = paid_by_log(tmp_path)
    assert (
        payments(found)["attacker"]["payment"]
        > payments(run(tmp_path / "column"))["attacker"]["payment"]
    )
    ties = explain(found, "attacker").matches
    assert [tie.earlier for tie in ties] == ["unit"] * len(ties) != []


def test_a_column_named_beside_the_log_is_refused(folder):
    with pytest.raises(ParameterError, match="times are from the intake log alone"):
        paid_by_log(folder, columns={"time": "time"})
    assert not (folder / "run").exists()


def test_the_report_and_the_manifest_say_where_times_are_from(folder):
    found = paid_by_log(folder)
    last = open_ledger(folder / "log.sqlite").accounts()
    assert read_manifest(found)["intake"] == {"log": last.id, "number": 6, "tip": last.tip}
    page = (found / "report.html").read_text()
    said = "Times are from the operator&#39;s intake log: a unit came when the operator received it"
    assert said in page
    assert page.index(said) < page.index('id="payments"')
    assert f"up to entry 6, tip {last.tip[:16]}" in page
    assert "Unless that is you alone" not in page
    other = (run(folder / "column") / "report.html").read_text()
    said = "Times are from the column “time” of the submissions: its author decides who was first"
    assert said in other
    assert other.index(said) < other.index('id="payments"')
    assert "pay --intake LEDGER" in other
    assert warned(folder / "column" / "run") == ["loses_half"]  # it is told, and no warning


def test_explain_says_when_a_unit_was_received_and_in_which_entry(folder):
    found = paid_by_log(folder)
    answer = explain(found, "attacker")
    (batch,) = answer.received
    entry = open_ledger(folder / "log.sqlite").accounts().entries[5]
    at = datetime.fromisoformat(entry.at)
    assert (batch.entry, batch.units) == (6, 6)
    assert batch.at == f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d} UTC"
    for tie in answer.matches:
        assert tie.received.entry == 6
        assert tie.other_received.entry == int(tie.of[-1]) + 2
    shown = " ".join(call("explain", found, "--payee", "attacker").output.split())
    assert f"6 units received {batch.at}, entry 6" in shown
    assert explain(run(folder / "column"), "attacker").received == []


def test_files_may_be_renamed_and_formats_may_change(folder):
    """The same units as CSV and as Parquet are the same in the log."""
    columns = units()
    found = paid_by_log(folder, columns)
    names = [f"f_{i}" for i in range(columns["features"].shape[1])]
    for name, source in (("a", columns), ("b", validation())):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            out = csv.writer(file)
            plain = [key for key in source if key != "features"]
            out.writerow([*plain, *names])
            for i, vector in enumerate(source["features"].tolist()):
                out.writerow([*(source[key][i] for key in plain), *(repr(x) for x in vector)])
    as_csv = Places(folder / "a.csv", folder / "b.csv", intake=str(folder / "log.sqlite"))
    pay(as_csv, spec(columns={"features": "f"}), folder / "csv")
    assert cents(folder / "csv") == cents(found)
    moved = folder / "elsewhere"
    moved.mkdir()
    shutil.move(folder / "in" / "units.parquet", moved / "renamed.parquet")
    shutil.move(folder / "log.sqlite", moved / "renamed.sqlite")
    shutil.move(folder / "log.sqlite.checksum", moved / "renamed.sqlite.checksum")
    assert bad(
        found, recompute=True, submissions=moved / "renamed.parquet"
    )  # the log is gone from its place
    assert not bad(
        found,
        recompute=True,
        submissions=moved / "renamed.parquet",
        intake=str(moved / "renamed.sqlite"),
    )


def test_units_that_are_not_in_the_log_are_refused_by_name(tmp_path):
    log(tmp_path / "log.sqlite", order=EVERYBODY[:4])
    with pytest.raises(
        SubmissionError, match=r"6 units of 66 cannot be dated.*'u60' of 'attacker'"
    ) as error:
        paid_by_log(tmp_path)
    assert "and 1 more" in str(error.value)
    assert "--quarantine" in str(error.value)
    assert not (tmp_path / "run").exists()
    found = paid_by_log(tmp_path, quarantine=True)
    listed = list(csv.DictReader((found / "quarantine.csv").open()))
    assert [row["unit"] for row in listed] == [f"u{i}" for i in range(60, 66)]
    assert {row["wrong"] for row in listed[:1]} != {""}
    assert all("not in the intake log under this identity" in row["wrong"] for row in listed)
    assert cents(found)["attacker"] == 0
    assert not bad(found, recompute=True)
    before = outputs(found)
    log(tmp_path / "log.sqlite", order=("attacker",))  # it comes too late for this run
    assert not bad(found, recompute=True)
    assert outputs(found) == before
    (tmp_path / "few").mkdir()
    log(tmp_path / "few" / "log.sqlite", order=("seller 0",))
    with pytest.raises(SubmissionError, match="more than half"):
        paid_by_log(tmp_path, where=tmp_path / "few" / "log.sqlite", out="few/run", quarantine=True)


def test_a_unit_under_another_identity_is_refused_and_whose_it_is_is_told(folder):
    columns = units()
    columns["identity"] = [
        "seller 1" if u == "u0" else who
        for u, who in zip(columns["id"], columns["identity"], strict=True)
    ]
    with pytest.raises(SubmissionError, match=r"'u0' of 'seller 1' .*entry 2 has it from 'seller 0'"):
        paid_by_log(folder, columns)


def test_changed_content_or_another_label_is_refused(folder):
    for change in ("features", "label"):
        columns = units()
        columns[change] = columns[change].copy()
        columns[change][3] += 1
        with pytest.raises(SubmissionError, match=r"1 unit of 66 cannot be dated.*'u3' of 'seller 3'"):
            paid_by_log(folder, columns)


def test_a_log_of_texts_does_not_date_features(tmp_path):
    digests = unit_digests("text", np.zeros(3), ["a", "b", "c"])
    enter_batch(open_ledger(tmp_path / "log.sqlite", new=True), "seller 0", digests, "text")
    with pytest.raises(
        SubmissionError, match="it holds text of 'seller 0', and this run reads features"
    ):
        paid_by_log(tmp_path)


def test_a_ledger_without_batches_is_refused(tmp_path):
    open_ledger(tmp_path / "log.sqlite", new=True)
    with pytest.raises(LedgerError, match="holds no batch that was received"):
        paid_by_log(tmp_path)
    with pytest.raises(LedgerError, match="there is no intake log at"):
        paid_by_log(tmp_path, where=tmp_path / "no.sqlite")


def words(n, seed):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, n)
    pool = [["red", "rose", "bloom"], ["stock", "bond", "fund"], ["ball", "goal", "team"]]
    return {
        "label": label,
        "text": [" ".join(rng.choice(pool[c], 6)) + f" {i} {seed}" for i, c in enumerate(label)],
    }


def test_texts_are_dated_by_what_was_handed_in(tmp_path):
    how = {"columns": {"text": "text"}, "encoder": "ngrams@64"}
    columns = {
        "id": [f"t{i}" for i in range(40)],
        "identity": [f"seller {i % 4}" for i in range(40)],
        **words(40, 0),
    }
    log(tmp_path / "log.sqlite", columns, EVERYBODY[:4], **how)
    found = paid_by_log(tmp_path, columns, words(30, 1), **how)
    assert explain(found, "seller 3").received[0].entry == 5
    assert not bad(found, recompute=True)
    columns["text"] = [*columns["text"][:-1], columns["text"][-1] + " "]
    with pytest.raises(SubmissionError, match=r"1 unit of 40 cannot be dated.*'t39' of 'seller 3'"):
        paid_by_log(tmp_path, columns, words(30, 1), out="changed", **how)


def test_a_log_in_the_ledger_that_is_not_used_is_a_warning(folder):
    column = folder / "market" / "run"
    pay(write(folder / "in"), spec(), column, ledger=str(folder / "log.sqlite"))
    (warning,) = ledger_warnings(ledger_of(column).accounts(), run_of(column))
    assert warning.name == "unused_log"
    assert "The ledger holds 5 batches with the time of receipt" in warning.title
    refused = call("ledger", "approve", column, *ACCEPTED)
    assert refused.exit_code != 0
    assert "--accept unused_log" in str(refused.exception) + refused.output
    assert call("ledger", "approve", column, *ACCEPTED, "--accept", "unused_log").exit_code == 0
    # Of a log that is begun later nobody is warned.
    early = run(folder / "early")
    log(folder / "early" / "ledger.sqlite")
    assert ledger_warnings(ledger_of(early).accounts(), run_of(early)) == []


def test_the_command_line_takes_a_log(folder):
    places = write(folder / "in")
    asked = (
        "--out",
        folder / "cli",
        "--checks",
        "0",
        "--no-audit",
        "--theta",
        "none",
        "--amount",
        "1000",
        "--utility",
        "coverage",
    )
    tables = (places.submissions, "--validation", places.validation, "--intake", folder / "log.sqlite")
    done = call("pay", *tables, *asked)
    assert done.exit_code == 0, done.output
    assert cents(folder / "cli") == cents(paid_by_log(folder))
    assert run_of(folder / "cli").places["intake"] == str(folder / "log.sqlite")
    asked = ("audit", *tables, "--only", "backdate", "--providers", "1", "--jobs", "1")
    done = call(*asked, "--out", folder / "audit")
    assert done.exit_code == 0, done.output
    report = json.loads((folder / "audit" / "audit.json").read_text())
    assert report["logged"] is True
    assert "Times are from an intake log" in " ".join(done.output.split())
    refused = call(*asked, "--out", folder / "audit2", "--time", "time")
    assert "times are from the intake log alone" in str(refused.exception) + refused.output


def test_places_of_two_runs_with_and_without_a_log_are_two_runs(folder):
    found = paid_by_log(folder)
    with pytest.raises(RunError, match="another"):
        pay(replace(write(folder / "in"), intake=None), spec(), found)


def test_images_are_dated_by_the_bytes_of_their_files(tmp_path):
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for part in ("anna/units/anna", "ben/units/ben", "validation"):
        for label, level in (("dark", 40), ("light", 200)):
            place = tmp_path / part / label
            place.mkdir(parents=True)
            for i in range(6):
                pixels = np.clip(rng.normal(level, 20, (16, 16, 3)), 0, 255).astype(np.uint8)
                image.fromarray(pixels).save(place / f"{i}.png")
    how = spec(encoder="thumbnail@4")
    ledger = open_ledger(tmp_path / "log.sqlite", new=True)
    for who in ("ben", "anna"):
        batch = read_batch(tmp_path / who / "units", how.columns, how.files)
        enter_batch(ledger, batch.owner(who), batch.digests, batch.what)
        shutil.copytree(tmp_path / who / "units", tmp_path / "units", dirs_exist_ok=True)
    (tmp_path / "units" / "anna" / "dark" / "0.png").rename(
        tmp_path / "units" / "anna" / "dark" / "x.png"
    )
    places = Places(tmp_path / "units", tmp_path / "validation", intake=str(tmp_path / "log.sqlite"))
    pay(places, how, tmp_path / "run")
    assert [explain(tmp_path / "run", who).received[0].entry for who in ("ben", "anna")] == [2, 3]
    assert not bad(tmp_path / "run", recompute=True)
    moved = tmp_path / "units" / "anna" / "light" / "y.png"
    (tmp_path / "units" / "anna" / "dark" / "x.png").rename(moved)  # another label is another unit
    with pytest.raises(SubmissionError, match=r"1 unit of 24 cannot be dated.*'anna/light/y.png'"):
        pay(places, how, tmp_path / "other")
    pay(places, how.model_copy(update={"quarantine": True}), tmp_path / "aside")
    assert read_manifest(tmp_path / "aside")["quarantined"] == 1


def test_a_run_by_the_operators_export_says_whose_word_its_times_are(tmp_path):
    """Paid as by the column of times; report, statement and verify say that they are the operator's."""
    submitted, how = units(), spec()
    submitted["time"] = [float(i) for i in range(len(submitted["id"]))]
    path, ledger = tmp_path / "portal.parquet", open_ledger(tmp_path / "log.sqlite", new=True)
    pq.write_table(table(submitted), path)
    export = read_batch(path, how.columns, how.files, timed=True)
    enter_export(ledger, export, "portal.parquet", "R. Okafor")
    plain = {name: column for name, column in submitted.items() if name != "time"}
    found = paid_by_log(tmp_path, plain)
    assert {e.content["source"] for e in ledger.accounts().received} == {"portal.parquet"}
    received = explain(found, "seller 1").received[0]
    assert received.at.startswith("1970-01-01")
    assert received.at.endswith("by the operator's own export")
    assert (
        "those of the operator&#39;s own export, not the clock&#39;s"
        in (found / "report.html").read_text()
    )
    assert not bad(found, recompute=True)
    (check,) = (check for check in verify(found) if check.what == "intake log")
    assert "batches of the operator's export" in check.detail


def test_the_red_team_of_a_run_by_the_log_says_so(folder):
    found = paid_by_log(folder, audit=True)
    assert json.loads((found / "audit.json").read_text())["logged"] is True
    page = " ".join((found / "report.html").read_text().split())
    assert "Times are from an intake log, where copies come after what they copy" in page
    assert "Were times a column that attackers can write: an attacker&#39;s pay times" in page


def test_a_log_in_a_database_is_kept_without_its_password(postgres, postgres_ledger, tmp_path):
    log(postgres_ledger, folder=tmp_path)
    found = paid_by_log(tmp_path, where=postgres_ledger)
    kept = run_of(found).places["intake"]
    assert kept.startswith("postgresql://")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(postgres.password.encode() in path.read_bytes() for path in files)
    assert not bad(found, recompute=True)
