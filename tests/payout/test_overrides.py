"""Overrides and supplied ties: signed off, listed, and doing what they say."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from payout_files import cents, payments, run, run_by_accuracy, units, validation

from datamarket_gym.errors import DataMarketError
from datamarket_gym.evidence.graph import Edges, components
from datamarket_gym.payout.ledger.runs import run_of
from datamarket_gym.payout.overrides import overridden, read_overrides

SIGNED = 'reason = "checked"\nby = "R. Okafor"\ndate = 2026-05-31\n'


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_a_split_unties_and_the_report_lists_it(tmp_path):
    plain = run(tmp_path / "plain")
    units_ = [row["right"] for row in pq.read_table(plain / "evidence.parquet").to_pylist()]
    file = written(tmp_path / "o.toml", f"[[split]]\nunits = {units_!r}\n{SIGNED}".replace("'", '"'))
    split = run(tmp_path / "split", overrides=file)
    assert cents(split)["attacker"] == cents(plain, "without_evidence")["attacker"]
    assert len(pq.read_table(split / "evidence.parquet")) == 0
    page = (split / "report.html").read_text(encoding="utf-8")
    assert "R. Okafor" in page
    assert "split units" in page
    assert run_of(split).places["overrides"].endswith("o.toml")


def test_a_join_ties(tmp_path):
    file = written(tmp_path / "o.toml", f'[[join]]\nunits = ["u0", "u1", "u2"]\n{SIGNED}')
    rows = pq.read_table(run(tmp_path, overrides=file) / "clusters.parquet").to_pylist()
    assert len({row["cluster"] for row in rows if row["unit"] in ("u0", "u1", "u2")}) == 1


def test_others_stay_tied_when_the_hub_of_their_star_leaves():
    star = Edges.of(np.array([0, 0, 0]), np.array([1, 2, 3]), "exact_hash")
    file = _parsed('[[split]]\nunits = ["a"]\n' + SIGNED)
    left = overridden(star, file, ["a", "b", "c", "d"], "units")
    assert components(np.arange(4), left).tolist() == [0, 1, 1, 1]


def _parsed(text):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        return read_overrides(written(Path(folder) / "o.toml", text))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('[[split]]\nunits = ["u0"]\nby = "x"\ndate = 2026-05-31\n', "reason"),
        (f'[[join]]\nunits = ["u0"]\n{SIGNED}', "two different names"),
        (f"[[split]]\n{SIGNED}", "either units or identities"),
        (f'[[merge]]\nunits = ["u0"]\n{SIGNED}', "merge"),
        (f'[[split]]\nunits = ["nobody"]\n{SIGNED}', "'nobody', which is not among the units"),
        ("[[split]\n", "TOML"),
    ],
)
def test_bad_overrides_are_refused(text, match, tmp_path):
    with pytest.raises(DataMarketError, match=match):
        run(tmp_path, overrides=written(tmp_path / "o.toml", text))


def confirmed():
    columns = units()
    same = {"seller 1": "seller 3", "seller 3": "seller 1"}
    columns["same"] = [same.get(name) for name in columns["identity"]]
    return columns


def test_a_bad_name_nets_with_its_owner_and_not_without(tmp_path):
    columns = confirmed()
    wrong = np.array([name == "seller 3" for name in columns["identity"]])
    columns["label"] = np.where(wrong, (columns["label"] + 1) % 3, columns["label"])
    apart = run_by_accuracy(tmp_path / "apart", columns)
    together = run_by_accuracy(tmp_path / "together", columns, linkage={"confirm": "same"})
    assert cents(apart)["seller 1"] > cents(together)["seller 1"]
    assert cents(apart, "entitled") == cents(together, "entitled")
    assert payments(together)["seller 3"]["paid_together_with"] == "seller 1"
    assert run_of(together).joined == [["seller 1", "seller 3"]]  # for the bank
    file = written(tmp_path / "o.toml", f'[[split]]\nidentities = ["seller 3"]\n{SIGNED}')
    split = run_by_accuracy(tmp_path / "split", columns, overrides=file, linkage={"confirm": "same"})
    assert cents(split) == cents(apart)


def test_supplied_edges_tie_identities_or_units(tmp_path):
    pairs = tmp_path / "pairs.parquet"
    pq.write_table(
        pa.table(
            {
                "id_l": ["seller 0", "seller 1"],
                "id_r": ["seller 1", "seller 2"],
                "probability": [0.99, 0.5],
            }
        ),
        pairs,
    )
    people = run(tmp_path / "people", linkage={"edges": str(pairs)})
    assert payments(people)["seller 1"]["paid_together_with"] == "seller 0"
    assert payments(people)["seller 2"]["paid_together_with"] == ""  # 0.5 is below the bar
    with pytest.raises(DataMarketError, match="'seller 0', which is no unit"):
        run(tmp_path / "wrong", linkage={"edges": str(pairs), "between": "units"})
    pq.write_table(pa.table({"id_l": ["u0"], "id_r": ["u1"], "probability": [0.97]}), pairs)
    found = run(tmp_path / "units", linkage={"edges": str(pairs), "between": "units"})
    tie = next(r for r in pq.read_table(found / "evidence.parquet").to_pylist() if r["score"] == 0.97)
    assert (tie["left"], tie["right"], tie["reason"]) == ("u0", "u1", "supplied by pairs.parquet")
    pq.write_table(pa.table({"id_l": ["u0"], "id_r": ["u1"], "probability": [1.7]}), pairs)
    with pytest.raises(DataMarketError, match="row 0"):
        run(tmp_path / "bad", linkage={"edges": str(pairs)})


def test_a_split_unit_keeps_its_copies(tmp_path):
    """A unit that was taken for a copy is untied from what it seemed to copy; its own copies stay."""
    rng = np.random.default_rng(4)
    columns = units(copies=0)
    victim = columns["features"][40:44]
    later = [victim + rng.normal(0, 1e-6, victim.shape), victim]
    columns = {
        "id": [*columns["id"], *(f"copy {i}" for i in range(8))],
        "identity": [*columns["identity"], *["attacker"] * 8],
        "label": np.concatenate([columns["label"], np.tile(columns["label"][40:44], 2)]),
        "time": np.arange(68.0),
        "features": np.vstack([columns["features"], *later]),
    }
    columns["features"][10:14] = victim + rng.normal(
        0, 1e-3, victim.shape
    )  # which the victim seems to copy
    held = validation(n=120)
    plain = run(tmp_path / "plain", columns, held, theta="0.999")
    named = [f"u{i}" for i in range(40, 44)]
    file = written(tmp_path / "o.toml", f"[[split]]\nunits = {json.dumps(named)}\n{SIGNED}")
    split = run(tmp_path / "split", columns, held, overrides=file, theta="0.999")
    roots = {}
    for row in pq.read_table(split / "clusters.parquet").to_pylist():
        roots.setdefault(row["cluster"], []).append(row["unit"])
    tied = sorted(sorted(group) for group in roots.values() if len(group) > 1)
    assert tied == [[f"copy {i}", f"copy {i + 4}", f"u{40 + i}"] for i in range(4)]
    assert cents(plain)["attacker"] == cents(split)["attacker"] == 0


def test_a_split_of_the_earliest_says_what_to_name_instead(tmp_path):
    columns = units()
    row = pq.read_table(run(tmp_path / "plain", columns) / "evidence.parquet").to_pylist()[0]
    first, second = sorted((row["left"], row["right"]), key=lambda name: columns["id"].index(name))
    file = written(tmp_path / "o.toml", f'[[split]]\nunits = ["{first}"]\n{SIGNED}')
    with pytest.raises(
        DataMarketError, match=f"{first!r}, which descends from no other .* such as {second!r}"
    ):
        run(tmp_path / "split", columns, overrides=file)
