"""Overrides and supplied ties: signed off, listed, and doing what they say."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from payout_files import cents, payments, run, units

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.evidence.graph import Edges, components
from datamarket_gym.payout import ledger
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
    assert cents(split)["thief"] == cents(plain, "without_evidence")["thief"]
    assert len(pq.read_table(split / "evidence.parquet")) == 0
    page = (split / "report.html").read_text(encoding="utf-8")
    assert "R. Okafor" in page
    assert "split units" in page
    assert ledger.read_record(split).places["overrides"].endswith("o.toml")


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
    apart = run(tmp_path / "apart", columns)
    together = run(tmp_path / "together", columns, linkage={"confirm": "same"})
    assert cents(apart)["seller 1"] > cents(together)["seller 1"]
    assert cents(apart, "entitled") == cents(together, "entitled")
    assert payments(together)["seller 3"]["paid_together_with"] == "seller 1"
    file = written(tmp_path / "o.toml", f'[[split]]\nidentities = ["seller 3"]\n{SIGNED}')
    split = run(tmp_path / "split", columns, overrides=file, linkage={"confirm": "same"})
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
