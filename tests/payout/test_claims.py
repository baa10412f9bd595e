"""A claim of who is who is listed, and costs nobody anything until all whom it concerns confirm it."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from payout_files import DIMENSIONS, cents, payments, units
from payout_files import run_by_accuracy as run
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.payout.warnings import read_warnings

VICTIM = "seller 1"


def attacked(names=1, mislabelled=60):
    """The market with so many mislabelled units of an attacker, dealt to so many names."""
    columns, rng = units(copies=0), np.random.default_rng(5)
    label = rng.integers(0, 3, mislabelled)
    features = 2.0 * np.eye(3, DIMENSIONS)[label] + rng.normal(0, 0.6, (mislabelled, DIMENSIONS))
    n = len(columns["id"])
    return {
        "id": [*columns["id"], *(f"bad {i}" for i in range(mislabelled))],
        "identity": [*columns["identity"], *(f"attacker {i % names}" for i in range(mislabelled))],
        "label": np.concatenate([columns["label"], (label + 1) % 3]),
        "time": np.arange(n + mislabelled, dtype=np.float64),
        "features": np.vstack([columns["features"], features]),
    }


def keyed(columns, key):
    """The columns with a payout key each: what ``key`` gives an identity, or else its own."""
    return {**columns, "iban": [key.get(name, f"IBAN of {name}") for name in columns["identity"]]}


def identity_rows(folder, kind):
    found = pq.read_table(folder / "evidence.parquet").to_pylist()
    return [(r["left"], r["right"], r["reason"]) for r in found if r["kind"] == kind]


def test_a_borrowed_key_costs_its_owner_nothing(tmp_path):
    """60 mislabelled units that claim the victim's key: what the victim is paid is what it is without it."""
    without = run(tmp_path / "without", attacked())
    borrowed = keyed(attacked(), {"attacker 0": f"IBAN of {VICTIM}"})
    found = run(tmp_path / "borrowed", borrowed, linkage={"keys": ["iban"]})
    assert cents(found)[VICTIM] > 0
    assert payments(found) == payments(without)
    assert identity_rows(found, "identity") == []
    assert identity_rows(found, "claim") == [("attacker 0", VICTIM, "same iban")]
    page = (found / "report.html").read_text(encoding="utf-8")
    assert "A claim without effect (same iban = “iban of seller 1”)" in page


def test_one_side_cannot_confirm_for_both(tmp_path):
    without = run(tmp_path / "without", attacked())
    columns = keyed(attacked(), {"attacker 0": f"IBAN of {VICTIM}"})
    columns["same"] = [VICTIM if name == "attacker 0" else None for name in columns["identity"]]
    found = run(tmp_path / "named", columns, linkage={"keys": ["iban"], "confirm": "same"})
    assert payments(found) == payments(without)
    assert identity_rows(found, "claim") == [
        ("attacker 0", VICTIM, "same iban"),
        ("attacker 0", VICTIM, "the first alone says so"),
    ]


@pytest.mark.parametrize("sharing", [2, 20, 21, 22])
def test_names_gain_nothing_by_being_many_who_share_a_key(sharing, tmp_path):
    """22 names of which none, two or all share a key are paid the same; every key that is shared is listed."""
    columns = attacked(names=22)
    without = run(tmp_path / "without", columns)
    shared = keyed(columns, {f"attacker {i}": "DE02" for i in range(sharing)})
    found = run(tmp_path / "shared", shared, linkage={"keys": ["iban"]})
    assert payments(found) == payments(without)
    assert len(identity_rows(found, "claim")) == sharing - 1
    [told] = [w for w in read_warnings(found) if "de02" in " ".join(w.items)]
    assert (told.name, told.count) == ("claims" if sharing <= 20 else "common_keys", 1)


def test_the_operators_own_table_stands_alone_and_settles_the_claim(tmp_path):
    columns = keyed(attacked(), {"attacker 0": f"IBAN of {VICTIM}"})
    table = tmp_path / "accounts.parquet"
    pq.write_table(pa.table({"id_l": ["attacker 0"], "id_r": [VICTIM], "probability": [1.0]}), table)
    found = run(tmp_path / "run", columns, linkage={"keys": ["iban"], "edges": str(table)})
    assert identity_rows(found, "identity") == [("attacker 0", VICTIM, "supplied by accounts.parquet")]
    assert identity_rows(found, "claim") == []
    assert cents(found)[VICTIM] == 0  # netted with what is below zero: the operator says it is one payee


def test_likeness_is_a_claim_too(tmp_path):
    pytest.importorskip("splink")
    columns = attacked(names=8)
    person = {
        name: (f"{name} {i} weber", f"street {i * 7919}")
        for i, name in enumerate(sorted(set(columns["identity"])))
    }
    person["attacker 0"] = person[VICTIM]
    for place, name in enumerate(("name", "address")):
        columns[name] = [person[identity][place] for identity in columns["identity"]]
    without = run(tmp_path / "without", columns)
    found = run(tmp_path / "like", columns, linkage={"fuzzy": ["name", "address"], "probability": 0.5})
    assert payments(found) == payments(without)
    assert ("attacker 0", VICTIM, "splink") in identity_rows(found, "claim")


def test_explain_tells_of_claims(tmp_path):
    columns = keyed(attacked(), {"attacker 0": f"IBAN of {VICTIM}"})
    found = run(tmp_path, columns, linkage={"keys": ["iban"]})
    done = CliRunner().invoke(app, ["explain", str(found), "--payee", VICTIM])
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "Claimed, and without effect on any pay (same iban): attacker 0, seller 1." in said
    done = CliRunner().invoke(app, ["explain", str(found), "--payee", VICTIM, "--json"])
    assert json.loads(done.output)["claims"] == [
        {"reason": "same iban", "value": "iban of seller 1", "identities": ["attacker 0", VICTIM]}
    ]
