"""What a run keeps for later periods: its units, and whose they are."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from acquired_files import stacked
from payout_files import copied, events, run, units, validation

from datamarket_gym.data.acquired import AcquiredData
from datamarket_gym.data.submission import Submission
from datamarket_gym.evidence.graph import AcquiredMatches
from datamarket_gym.execution.runs import read_record
from datamarket_gym.payout.acquired_data import (
    AcquiredRun,
    AcquiredUnits,
    PackedNames,
    RunUnits,
    acquired_messages,
    acquired_units,
    overridden_known,
    shortest,
)
from datamarket_gym.payout.manifest import OWNED
from datamarket_gym.payout.overrides import Override
from datamarket_gym.payout.stored_inputs import places_of
from datamarket_gym.payout.verify import verify
from datamarket_gym.payout.what_if import finished_results


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run(tmp_path_factory.mktemp("owned"))


@pytest.fixture(scope="module")
def kept(folder):
    return read_record(folder / OWNED, RunUnits)


def test_it_holds_all_units_and_whose_they_are(folder, kept):
    submitted = units()
    names, people = list(kept.unit), list(kept.people)
    assert names == submitted["id"]
    assert [people[i] for i in kept.submitter] == submitted["identity"]
    assert (kept.labels[kept.label] == submitted["label"]).all()
    assert (kept.features == submitted["features"]).all()
    assert kept.time.tolist() == submitted["time"].tolist()
    assert kept.embedding is None
    stands = set(kept.stands.tolist())
    content = {row.tobytes(): i for i, row in reversed(list(enumerate(submitted["features"])))}
    copies = [i for i, row in enumerate(submitted["features"]) if content[row.tobytes()] != i]
    assert len(copies) == 3  # of six, three are exact
    for i, row in enumerate(submitted["features"]):
        first = content[row.tobytes()]
        assert kept.root[i] == first
        assert (i in stands) == (i == first)
        assert people[kept.owner[i]] == submitted["identity"][first]


def test_leaked_units_are_kept_to_be_known_and_stand_for_nothing(tmp_path):
    held = validation()
    leaked = {
        "id": ["leaked"], "identity": ["seller 0"], "label": held["label"][:1], "time": np.array([0.5]),
        "features": held["features"][:1],
    }  # fmt: skip
    made = run(tmp_path, stacked(units(), leaked), held)
    assert json.loads((made / "manifest.json").read_text())["leaked"] == 1
    kept = read_record(made / OWNED, RunUnits)
    place = list(kept.unit).index("leaked")
    assert place not in kept.stands
    assert kept.root[place] == place
    assert list(kept.people)[kept.owner[place]] == "seller 0"


def test_what_nobody_is_paid_for_is_not_acquired(folder):
    """Who failed a check, or was too small for one, has sold nothing; its copies of others' units are theirs."""
    _, results = finished_results(folder, places_of(folder))
    kept = acquired_units(results, {"seller 0"})
    whole = acquired_units(results, ())
    owners, names = list(kept.people), list(kept.unit)
    assert "seller 0" not in {owners[i] for i in kept.owner}
    people = list(whole.people)
    theirs = {n for n, o in zip(whole.unit, whole.owner, strict=True) if people[o] == "seller 0"}
    assert theirs
    assert set(names) == set(whole.unit) - theirs
    assert (kept.root >= 0).all()
    assert [names[r] for r in kept.root] == [
        list(whole.unit)[whole.root[list(whole.unit).index(name)]] for name in names
    ]
    assert (kept.stands == np.unique(kept.root)).all()


def test_what_two_sold_together_is_acquired_while_one_of_them_is_paid(tmp_path):
    """Equal units of equal time belong to both; that one of them failed a check takes nothing from the other."""
    submitted = units(copies=0)
    twins = {name: column[:1] for name, column in submitted.items()}
    twins |= {"id": ["twin"], "identity": ["twin seller"]}
    made = run(tmp_path, stacked(submitted, twins))
    _, results = finished_results(made, places_of(made))
    assert {"u0", "twin"} <= set(acquired_units(results, {"twin seller"}).unit)
    assert not {"u0", "twin"} & set(acquired_units(results, {"twin seller", "seller 0"}).unit)


def two_runs():
    """Three units of two earlier runs, of which the second is a copy of the first."""
    ids, everybody = np.array(["p0", "p1", "p2"]), np.full(3, "p")
    art = AcquiredData(Submission(ids, everybody, np.eye(3), np.zeros(3)), np.array([0, 2]))
    runs = [AcquiredRun(Path(name), 16 * name, "", name, (), 0, "EUR") for name in ("a", "b")]
    names, owner = ["fox", "fox again", "owl"], ["ann", "ann", "ben"]
    return AcquiredUnits(tuple(runs), art, np.array([0, 2]), names, owner, np.array([0, 0, 2]))


def test_a_copy_is_known_for_what_its_tree_was_acquired_as():
    """What stands for the tree is named, with its owner and the run that acquired it; `matched_to` names the copy."""
    acquired = two_runs()
    matches = AcquiredMatches(np.array([0, 1]), np.array([1, 2]), np.ones(2), np.array(["words"] * 2))
    rows = acquired.named(matches, ["u", "v"], ["eve", "eve"])
    found = [(row.run[0], row.old_unit, row.old_owner, row.matched_to) for row in rows]
    assert found == [
        ("a", "fox", "ann", f"{16 * 'a'}:fox again"),
        ("b", "owl", "ben", f"{16 * 'b'}:owl"),
    ]


def test_a_join_with_several_earlier_units_is_with_the_first_that_is_named():
    names = [f"{16 * 'b'}:owl", "new", f"{16 * 'a'}:fox"]
    signed = {"reason": "seen", "by": "R. Okafor", "date": "2026-07-31"}
    joined = Override(action="join", units=names, **signed)
    known, rest = overridden_known(AcquiredMatches.none(), [joined], two_runs(), ["other", "new"])
    assert (known.unit.tolist(), known.old.tolist(), rest) == ([1], [2], [])


def test_a_run_does_not_say_of_itself_that_it_was_acquired_before():
    accounts = SimpleNamespace(
        runs={name: SimpleNamespace(state="approved", run=name, period=name) for name in ("June", "May")}
    )
    said = acquired_messages({"run": "June"}, accounts)
    assert "May" in said
    assert "June" not in said
    del accounts.runs["May"]
    assert acquired_messages({"run": "June"}, accounts) == ""


def test_every_byte_of_it_is_verified(folder, tmp_path):
    assert all(check.good for check in verify(folder, recompute=True))
    copy = copied(folder, tmp_path / "copy")
    content = bytearray((copy / OWNED).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / OWNED).write_bytes(content)
    wrong = [check.what for check in verify(copy, recompute=True) if not check.good]
    assert wrong == [OWNED, f"{OWNED}, recomputed"]


def test_a_long_name_makes_no_other_longer(tmp_path):
    columns = units()
    short = (run(tmp_path / "short", columns) / OWNED).stat().st_size
    columns["id"][3] = "x" * 50_000
    made = run(tmp_path / "long", columns)
    assert list(read_record(made / OWNED, RunUnits).unit) == columns["id"]
    assert (made / OWNED).stat().st_size - short < 60_000
    assert events(made) == ["draft"]


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [
        ([0.5, -0.0, 65504.0], np.float16),
        ([1e5, 0.1 + 2**-30, 3.0], np.float64),
        ([1e5, 2**-30], np.float32),
    ],
)
def test_numbers_are_kept_in_the_shortest_kind_without_loss(numbers, kind):
    matrix = np.array([numbers])
    kept = shortest(matrix)
    assert kept.dtype == kind
    assert kept.astype(np.float64).tobytes() == matrix.tobytes()


def test_names_come_back_as_they_were():
    names = ["", "ä", "a\u2028b", "\U0001d4b3" * 3]
    assert list(PackedNames.from_names(names)) == names
    assert list(PackedNames.from_names([])) == []


def test_embeddings_are_kept_beside_features(tmp_path):
    columns = units()
    columns["embedding"] = (
        np.round(columns["features"] @ np.ones((6, 4)), 1).astype(np.float32).astype(float)
    )
    held = validation()
    held["embedding"] = held["features"] @ np.ones((6, 4))
    kept = read_record(run(tmp_path, columns, held) / OWNED, RunUnits)
    assert kept.embedding.dtype == np.float32
    assert (kept.embedding == columns["embedding"]).all()
