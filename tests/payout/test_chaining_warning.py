"""Groups that a list of ties holds together: named in the report, and before an approval."""

import numpy as np
import pytest
from payout_files import run, units, warned

from datamarket_gym.payout.report.record import _chains
from datamarket_gym.payout.stored_inputs import places_of
from datamarket_gym.payout.warnings import read_warnings
from datamarket_gym.payout.what_if import finished_results


def two_trees(each=30):
    """A market, and copies of two of its units, so many of each."""
    columns = units(copies=0)
    n = len(columns["id"])
    from_ = np.repeat([0, 1], each)
    return {
        "id": [*columns["id"], *(f"copy {k}" for k in range(2 * each))],
        "identity": [*columns["identity"], *(f"copier {k % 3}" for k in range(2 * each))],
        "label": np.concatenate([columns["label"], columns["label"][from_]]),
        "time": np.arange(n + 2 * each, dtype=np.float64),
        "features": np.vstack([columns["features"], columns["features"][from_]]),
    }


def paid(tmp_path, pairs, **changes):
    listed = tmp_path / "pairs.csv"
    listed.write_text("id_l,id_r,probability\n" + "".join(f"{a},{b},0.97\n" for a, b in pairs))
    linkage = {"edges": str(listed), "between": "units"}
    return run(tmp_path / "paid", two_trees(**changes), linkage=linkage)


def test_one_pair_of_a_list_that_joins_two_trees_is_named(tmp_path):
    folder = paid(tmp_path, [("copy 3", "copy 40"), ("u5", "u6")])
    assert "chained" in warned(folder)
    (warning,) = (w for w in read_warnings(folder) if w.name == "chained")
    assert warning.title == "1 group is held together by a few matches"
    assert "parts of 31 and 31 units: held together by one match" in warning.items[0]
    assert "“copy 3” of “copier 0” and “copy 40” of “copier 1”, 0.970" in warning.items[0]
    (row,) = _chains(finished_results(folder, places_of(folder))[1])
    assert (row["parts"], row["matches"], row["thin"]) == ((31, 31), 1, True)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Large groups that few matches hold together" in page


def test_pairs_that_all_end_at_one_unit_are_one_cause(tmp_path):
    folder = paid(tmp_path, [("copy 3", f"copy {k}") for k in range(30, 45)])
    (row,) = _chains(finished_results(folder, places_of(folder))[1])
    assert (row["matches"], row["through"]) == (15, ["“copy 3” of “copier 0”"])
    assert "chained" in warned(folder)


def test_many_pairs_between_two_trees_are_told_without_a_warning(tmp_path):
    folder = paid(tmp_path, [(f"copy {k}", f"copy {30 + k}") for k in range(12)])
    (row,) = _chains(finished_results(folder, places_of(folder))[1])
    assert (row["matches"], row["apart"], row["thin"]) == (12, True, False)
    assert "chained" not in warned(folder)


@pytest.mark.parametrize(("pairs", "each"), [([("u5", "u6")], 30), ([("copy 1", "copy 8")], 7)])
def test_lineage_alone_and_small_groups_are_not_named(tmp_path, pairs, each):
    folder = paid(tmp_path, pairs, each=each)
    assert _chains(finished_results(folder, places_of(folder))[1]) == []
    assert "chained" not in warned(folder)
    assert "Large groups that few matches" not in (folder / "report.html").read_text(encoding="utf-8")
