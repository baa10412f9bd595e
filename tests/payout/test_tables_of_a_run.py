"""The tables of a run, row by row, against what was submitted."""

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from payout_files import payments, rows, run, spec, units, validation, write

from datamarket_gym.payout.inputs import read_inputs
from datamarket_gym.payout.verify import verify
from datamarket_gym.utilities.oracle import UtilityOracle

SIGNED = 'reason = "checked"\nby = "R. Okafor"\ndate = 2026-05-31\n'
QUOTED = "'quoted"


def submitted():
    """Seller 1 and seller 3 are one payee, seller 0 copies itself, a name begins with an apostrophe."""
    columns = units()
    for column in ("features", "label"):
        columns[column][8] = columns[column][4]
    same = {"seller 1": "seller 3", "seller 3": "seller 1"}
    columns["same"] = [same.get(name) for name in columns["identity"]]
    columns["identity"] = [name.replace("attacker", QUOTED) for name in columns["identity"]]
    return rows(columns, np.random.default_rng(2).permutation(len(columns["id"])))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run(tmp_path_factory.mktemp("tables"), submitted(), linkage={"confirm": "same"})


def listed(folder, name):
    return pq.read_table(folder / name).to_pylist()


def test_the_highest_payment_comes_first_and_equal_ones_go_by_name(folder, tmp_path):
    order = [(-float(r["payment"]), r["identity"]) for r in listed(folder, "payments.parquet")]
    assert order == sorted(order)
    columns = units(copies=0)
    columns["identity"] = ["zoe" if i < 30 else f"name {i % 7}" for i in range(60)]
    columns["features"][30:] = columns["features"][:30]  # copies that came later are worth nothing
    columns["label"][30:] = columns["label"][:30]
    equal = listed(run(tmp_path, columns), "payments.parquet")
    assert [r["identity"] for r in equal] == ["zoe", *(f"name {i}" for i in range(7))]


def test_units_and_clusters_of_an_identity_are_counted(folder):
    clusters = listed(folder, "clusters.parquet")
    for name, row in payments(folder).items():
        mine = [r for r in clusters if r["identity"] == name]
        assert row["units"] == len(mine) == submitted()["identity"].count(name)
        assert row["clusters"] == len({r["cluster"] for r in mine})


def test_an_identitys_score_is_its_share_of_its_clusters_scores(folder):
    clusters = listed(folder, "clusters.parquet")
    for name, row in payments(folder).items():
        mine = [r["share"] * r["score"] for r in clusters if r["identity"] == name]
        assert row["score"] == pytest.approx(sum(mine), abs=1e-12)


def test_clusters_list_every_unit_with_its_owner_first_come_first(folder):
    columns, found = submitted(), listed(folder, "clusters.parquet")
    place = {name: i for i, name in enumerate(columns["id"])}
    assert sorted(place) == sorted(r["unit"] for r in found)
    keys = [(r["cluster"], columns["time"][place[r["unit"]]]) for r in found]
    assert keys == sorted(keys)
    sizes = {}
    for row in found:
        assert row["identity"] == columns["identity"][place[row["unit"]]]
        sizes[row["cluster"]] = sizes.get(row["cluster"], 0) + 1
    first = set()
    for row in found:
        assert row["units_in_cluster"] == sizes[row["cluster"]]
        assert row["represents"] == (row["cluster"] not in first)  # the earliest stands for all
        assert row["share"] == float(row["represents"])
        first.add(row["cluster"])
    assert max(sizes.values()) == 2


def test_a_scores_error_is_that_of_a_mean_over_groups_of_validation_rows(tmp_path):
    """With 20 validation rows every group is one row, so groups can be scored one payout run each."""
    held, by_accuracy = validation(20), spec(learner="knn")
    whole = run(tmp_path / "whole", submitted(), held, learner="knn")
    places = write(tmp_path / "in", submitted(), held)
    inputs = read_inputs(places, spec())
    scores = []
    for row in range(20):
        utility = UtilityOracle(
            held["features"][row : row + 1], held["label"][row : row + 1], by_accuracy.utility
        )
        utility.classes = np.arange(3)
        found = spec().mechanism("exact_hash").pay(inputs.submission, utility)
        scores.append(found.scores.values[found.clustering.label])
    error = dict(zip(inputs.ids, np.std(scores, axis=0, ddof=1) / np.sqrt(20), strict=True))
    for row in listed(whole, "clusters.parquet"):
        assert row["score_error"] == pytest.approx(error[row["unit"]], abs=1e-12)


def test_what_to_train_on_is_what_stands_for_the_clusters(folder):
    columns = submitted()
    place = {name: i for i, name in enumerate(columns["id"])}
    standing = {r["unit"]: r["cluster"] for r in listed(folder, "clusters.parquet") if r["represents"]}
    found = listed(folder, "canonical.parquet")
    assert [r["cluster"] for r in found] == sorted(standing.values())
    for row in found:
        at = place[row["unit"]]
        assert row["cluster"] == standing[row["unit"]]
        assert row["features"] == columns["features"][at].tolist()  # to the last bit
        assert row["label"] == columns["label"][at]


def test_features_that_fit_are_written_short(tmp_path):
    columns = units()
    columns["features"] = columns["features"].astype(np.float32).astype(np.float64)
    found = pq.read_table(run(tmp_path, columns) / "canonical.parquet")
    assert found.schema.field("features").type.value_type == pa.float32()
    place = {name: i for i, name in enumerate(columns["id"])}
    for row in found.to_pylist():
        assert row["features"] == columns["features"][place[row["unit"]]].tolist()


def test_ties_name_their_ends_and_owners(folder):
    columns = submitted()
    owner = dict(zip(columns["id"], columns["identity"], strict=True))
    ties = listed(folder, "evidence.parquet")
    assert [t["kind"] for t in ties] == ["unit"] * 4 + ["identity"]  # three stolen, one one's own
    for tie in ties:
        if tie["kind"] == "unit":
            assert (tie["identity_left"], tie["identity_right"]) == (
                owner[tie["left"]],
                owner[tie["right"]],
            )
        else:
            assert (tie["left"], tie["right"], tie["cluster"]) == ("seller 1", "seller 3", None)
            assert (tie["identity_left"], tie["identity_right"]) == ("seller 1", "seller 3")


def test_the_csv_says_what_the_parquet_file_says(folder):
    with (folder / "payments.csv").open(encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    for one, other in zip(written, listed(folder, "payments.parquet"), strict=True):
        name = other.pop("identity")
        assert one.pop("identity") == ("''quoted" if name == QUOTED else name)
        assert one == {column: str(value) for column, value in other.items()}
    assert all(check.good for check in verify(folder))


def test_who_is_paid_together_with_whom(folder):
    assert {n: r["paid_together_with"] for n, r in payments(folder).items()} == {
        "seller 0": "", "seller 1": "", "seller 2": "", "seller 3": "seller 1", QUOTED: "",
    }  # fmt: skip


def test_a_run_with_overrides_can_be_recomputed_after_its_inputs_moved(tmp_path):
    signed = tmp_path / "overrides.toml"
    signed.write_text(f'[[join]]\nunits = ["u0", "u1"]\n{SIGNED}', encoding="utf-8")
    found = run(tmp_path, overrides=signed)
    moved = tmp_path / "elsewhere"
    (tmp_path / "in").rename(moved)
    checks = verify(
        found, True, submissions=moved / "units.parquet", validation=moved / "validation.parquet"
    )
    assert [check.what for check in checks if not check.good] == []
