"""verify finds every change, and recomputing agrees to the cent; explain and the report say why."""

import base64
import hashlib
import json
import re
import shutil
from importlib import import_module

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forged_ledger import redrafted, without_rules
from payout_files import cents, copied, run, spec, units, write

from comparing import require_same_payments
from datamarket_gym.errors import DataMarketError, UnknownNameError
from datamarket_gym.payout.explain import explain
from datamarket_gym.payout.ledger.runs import run_of
from datamarket_gym.payout.manifest import OUTPUTS
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.verify import is_near, verify
from datamarket_gym.payout.what_if import without_its_evidence


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run(tmp_path_factory.mktemp("verified"))


@pytest.fixture
def copy(folder, tmp_path):
    return copied(folder, tmp_path / "copy")


def failed(folder, **options):
    return [check.what for check in verify(folder, **options) if not check.good]


def test_a_fresh_run_is_good_and_recomputes(folder):
    checks = verify(folder, recompute=True)
    assert [c.what for c in checks if not c.good] == []
    compared = [c.what for c in checks if "recomputed" in c.what]
    names = (
        "payments.parquet",
        "clusters.parquet",
        "records/owned_units.npz",
        "warnings.json",
        "manifest.json",
    )
    assert compared == [f"{name}, recomputed" for name in names]


@pytest.mark.parametrize(("moved", "wrong"), [(1e-13, []), (1e-6, ["payments.parquet, recomputed"])])
def test_recomputing_compares_numbers_and_not_bytes(copy, moved, wrong):
    """Another order of sums on another machine moves last digits alone."""
    table = pq.read_table(copy / "payments.parquet")
    at, score = table.column_names.index("score"), table["score"].to_numpy()
    pq.write_table(table.set_column(at, "score", pa.array(score + moved)), copy / "payments.parquet")
    assert [name for name in failed(copy, recompute=True) if "recomputed" in name] == wrong


@pytest.mark.parametrize(
    ("name", "column"), [("clusters.parquet", "amount"), ("clusters.parquet", "share")]
)
def test_recomputing_finds_other_tables_than_payments(copy, name, column):
    table = pq.read_table(copy / name)
    at, values = table.column_names.index(column), table[column].to_numpy().copy()
    values[0] += 1e-3
    pq.write_table(table.set_column(at, column, pa.array(values)), copy / name)
    assert f"{name}, recomputed" in failed(copy, recompute=True)


def test_recomputing_finds_another_owner_of_what_was_acquired(copy):
    path = copy / "records/owned_units.npz"
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    arrays["owner"] = np.roll(arrays["owner"], 1)
    np.savez(path, **arrays)
    assert "records/owned_units.npz, recomputed" in failed(copy, recompute=True)


@pytest.mark.parametrize("name", OUTPUTS)
def test_one_changed_byte_in_any_output_is_found(copy, name):
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(bytes(content))
    assert name in failed(copy)


def test_missing_files_are_found(copy):
    (copy / "evidence.parquet").unlink()
    assert failed(copy) == ["evidence.parquet"]
    (copy / "manifest.json").unlink()
    with pytest.raises(DataMarketError, match="no finished payout run"):
        verify(copy)


def test_a_manifest_made_to_fit_is_found(copy):
    text = (copy / "payments.csv").read_text().replace("attacker", "Attacker")
    (copy / "payments.csv").write_text(text)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["outputs"]["payments.csv"]["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (copy / "manifest.json").write_text(json.dumps(manifest))
    assert failed(copy) == ["manifest and ledger"]


def test_a_changed_ledger_is_found(copy):
    (line,) = [x for x in run_of(copy).lines if x.identity == "seller 1"]
    body = f"replace(body, '{line.paid}', '{line.paid + 100}')"
    without_rules(copy, f"UPDATE ledger_entries SET body = {body} WHERE number = 2")
    assert failed(copy) == ["ledger"]


def test_a_ledger_that_was_written_anew_to_fit_is_found(copy):
    """Chain, head, checksum and all: the files of the run say otherwise."""
    one, two, *others = ([x.identity, x.paid, x.entitled, x.balance] for x in run_of(copy).lines)
    for line, more in ((one, 100), (two, -100)):
        line[1:3] = [line[1] + more, line[2] + more]
    redrafted(copy, lines=[one, two, *others])
    assert failed(copy) == ["payments.csv, payments.parquet, units.csv, ledger"]


def test_changed_inputs_are_found(tmp_path):
    folder = run(tmp_path)
    run(tmp_path / "other", units(seed=8))
    shutil.copy(tmp_path / "other" / "in" / "units.parquet", tmp_path / "in" / "units.parquet")
    assert failed(folder) == []
    assert failed(folder, recompute=True) == ["recomputed"]
    with pytest.raises(DataMarketError, match="not those of the run"):
        without_its_evidence(folder, "seller 1")


def test_explain_says_what_matched_and_what_if_not(folder):
    found = explain(folder, "attacker")
    assert found.paid == cents(folder)["attacker"]
    assert found.matches_in_all == 3  # the exact copies
    assert all("attacker" not in tie.paid_to for tie in found.matches)
    assert [tie.reasons for tie in found.matches] == [["exact_hash"]] * 3
    assert without_its_evidence(folder, "attacker") > found.paid
    assert found.low <= found.paid <= found.high
    with pytest.raises(UnknownNameError, match="did you mean attacker"):
        explain(folder, "atacker")


def test_taking_away_all_evidence_is_what_the_table_says(folder, tmp_path):
    # every tie of this market touches the attacker, so both counterfactuals are the same
    assert without_its_evidence(folder, "attacker") == explain(folder, "attacker").without_any_evidence


def test_the_report_is_one_file_without_network(folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    outside = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert not re.search(r'(src|action)\s*=|href\s*=\s*(?!"#)|url\(|@import|https?:', outside)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page).group(1)
    assert "default-src 'none'" in policy
    for script in re.findall(r"<script>(.*?)</script>", page, flags=re.S):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    for heading in (
        "Payments",
        "What matched what",
        "similarity threshold",
        "attacker could still gain",
        "Inputs",
    ):
        assert heading in outside


def test_tables_agree_with_each_other(folder):
    clusters = pq.read_table(folder / "clusters.parquet").to_pylist()
    assert len(clusters) == len(units()["id"])
    per_cluster = {}
    for row in clusters:
        per_cluster[row["cluster"]] = per_cluster.get(row["cluster"], 0.0) + row["share"]
    assert all(abs(share - 1) < 1e-9 for share in per_cluster.values())
    standing = {row["unit"] for row in clusters if row["represents"]}
    canonical = pq.read_table(folder / "canonical.parquet")
    assert set(canonical["unit"].to_pylist()) == standing
    assert set(canonical["weight"].to_pylist()) == {1.0}
    by_unit = {row["unit"]: row["cluster"] for row in clusters}
    for row in pq.read_table(folder / "evidence.parquet").to_pylist():
        assert by_unit[row["left"]] == by_unit[row["right"]] == row["cluster"]


@pytest.mark.parametrize("name", ["amounts", "scores", "matches", "represented"])
def test_a_record_edited_between_a_kill_and_the_next_run_is_not_paid_from(tmp_path, monkeypatch, name):
    expected = run(tmp_path / "whole")
    places, folder = write(tmp_path / "in"), tmp_path / "run"

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("datamarket_gym.payout.run.write_tables", killed)
        with pytest.raises(KeyboardInterrupt):
            pay(places, spec(), folder)
    record = folder / "records" / f"{name}.npz"
    with np.load(record) as file:
        arrays = {key: file[key] for key in file.files}
    for key, array in arrays.items():
        if array.dtype == np.float64 and array.size:
            arrays[key] = array * np.linspace(1, 5, array.size).reshape(array.shape)
    with record.open("wb") as out:
        np.savez(out, **arrays)
    pay(places, spec(), folder)
    require_same_payments(folder, expected)


def test_a_damaged_step_of_the_red_team_does_not_end_as_an_audit_that_could_not_be_made(
    tmp_path, monkeypatch
):
    places, folder = write(tmp_path / "in"), tmp_path / "run"
    monkeypatch.setattr("datamarket_gym.payout.audit.ATTACKS", "copycat,junk_padding")  # a few will do

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        module = import_module(
            "datamarket_gym.analysis.redteam.audit"
        )  # the package has a function of this name
        patched.setattr(module, "_explain", killed)
        with pytest.raises(KeyboardInterrupt):
            pay(places, spec(audit=True), folder)
    trial = next((folder / ".state" / "audit" / ".state").glob("trial-*"))
    trial.write_text("{")
    with pytest.raises(DataMarketError, match="is damaged"):
        pay(places, spec(audit=True), folder)
    assert not (folder / "manifest.json").exists()
    trial.unlink()
    pay(places, spec(audit=True), folder)
    assert all(check.good for check in verify(folder, recompute=True))


def test_features_are_compared_however_small_they_are():
    features = np.full((3, 4), 1e-7, dtype=np.float32)
    assert is_near(features, features * np.float32(1 + 1e-7))
    assert not is_near(features, 2 * features)
    assert not is_near(np.zeros((2, 2)), np.full((2, 2), 1e-300))
    assert is_near(np.array([[np.nan, np.inf]]), np.array([[np.nan, np.inf]]))
