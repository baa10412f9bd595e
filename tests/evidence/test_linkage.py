"""Linkage: keys, windows, claims that both confirm, splink."""

import numpy as np
import pytest

from datamarket_gym.data import Submission
from datamarket_gym.errors import ParameterError, SubmissionError
from datamarket_gym.evidence import EvidenceGraph
from datamarket_gym.evidence.layers.linkage import Linkage, confirmations, read_pairs, splink_pairs


def submission(**metadata):
    n = 6
    return Submission(
        id=[f"u{i}" for i in range(n)], identity=["a", "a", "b", "b", "c", "c"], features=np.eye(n), label=[0, 1] * 3,
        time=[0.0, 10.0, 20.0, 4000.0, 5000.0, 90000.0],
        metadata={k: np.array(v, dtype=object) for k, v in metadata.items()},
    )  # fmt: skip


def test_units_that_share_a_key_are_tied():
    units = submission(payout=["X", None, " x ", "", "y", "y"])
    label = EvidenceGraph.build(units, "linkage@payout").label
    assert label[0] == label[2]
    assert label[4] == label[5]
    assert len(set(label)) == 4
    identities = EvidenceGraph.build(units, "linkage@payout", granularity="identity").label
    assert len(set(identities)) == 2


def test_keys_join_columns_and_times():
    units = submission(device=["d"] * 6, licence_no=["1", "2", "1", "1", "2", "2"])
    both = EvidenceGraph.build(units, "linkage(keys=device+licence_no)").label
    assert both.tolist() == [0, 1, 0, 0, 1, 1]
    hourly = EvidenceGraph.build(units, "linkage(keys=device+time:3600)").label
    assert hourly.tolist() == [0, 0, 0, 1, 1, 2]
    either = EvidenceGraph.build(units, "linkage(keys=licence_no; device+time:3600)").label
    assert len(set(either)) == 1


def test_names_do_not_untie_themselves_by_being_many():
    n = 60
    units = Submission(
        id=[f"u{i}" for i in range(n)], identity=[f"name {i // 2}" for i in range(n)], features=np.eye(n),
        label=[0, 1] * 30, metadata={"iban": np.array(["DE02"] * n, dtype=object)},
    )  # fmt: skip
    assert EvidenceGraph.build(units, "linkage@iban", granularity="identity").n_clusters == 1


def test_with_confirm_a_key_ties_those_who_name_each_other():
    """c writes down the key of a and b and names both; they name each other and not c."""
    units = submission(payout=["x"] * 6, same=["b", None, "a; z", None, "a;b", None])
    naive = EvidenceGraph.build(units, "linkage@payout", granularity="identity").label
    assert naive.tolist() == [0] * 6
    layer = "linkage(keys=payout, confirm=same)"
    confirmed = EvidenceGraph.build(units, layer, granularity="identity").label
    assert confirmed.tolist() == [0, 0, 0, 0, 1, 1]
    apart = submission(payout=["x", "x", "y", "y", "z", "z"], same=["b", None, "a", None, None, None])
    assert EvidenceGraph.build(apart, layer, granularity="identity").n_clusters == 3  # no key in common


def test_confirmations_are_mutual_and_names_may_hold_the_separator():
    names = ["a", "x; y", "b", "c"]
    said = ["x; y", "a", None, "a;b; nobody;c"]
    both, alone = confirmations(names, np.arange(4), said)
    assert list(zip(both.left.tolist(), both.right.tolist(), strict=True)) == [(0, 1)]
    assert alone == [(3, 0), (3, 2)]


@pytest.mark.parametrize("attacker", ["b; c", " b"])
def test_a_name_like_somebodys_list_is_not_confirmed_by_it(attacker):
    """a, b and c name one another; an attacker called what a's cell says is a claim, as is what is unclear now."""
    names = ["a", "b", "c", attacker]
    said = [attacker, "a;c", "a;b", "a"]
    both, alone = confirmations(names, np.arange(4), said)
    tied = set(zip(both.left.tolist(), both.right.tolist(), strict=True))
    assert tied == {(1, 2)}
    assert {(0, 3), (3, 0)} <= set(alone)


@pytest.mark.parametrize("keys", ["", "device+", "device+time:soon", "device+time:-1"])
def test_bad_keys_are_refused(keys):
    with pytest.raises(ParameterError):
        EvidenceGraph.build(submission(device=["d"] * 6), Linkage(keys))


def test_a_missing_column_is_named():
    with pytest.raises(SubmissionError, match="'iban'"):
        EvidenceGraph.build(submission(), "linkage@iban")


def test_splink_finds_planted_twins():
    pytest.importorskip("splink")
    rng = np.random.default_rng(0)
    names = [
        f"{a} {b}"
        for a in ("anna", "ben", "carla", "david", "emma", "felix")
        for b in ("weber", "koch", "meyer", "schulz")
    ]
    people = [
        (names[i % 24] + str(i), f"DE{rng.integers(10**9):010d}", f"dev-{rng.integers(10**6):06d}")
        for i in range(120)
    ]
    twins = [(f"x{n[1:]}", account, device) for n, account, device in people[:20]]
    rows = people + twins
    ids = [f"p{i}" for i in range(120)] + [f"twin{i}" for i in range(20)]
    columns = {name: [row[k] for row in rows] for k, name in enumerate(("name", "account", "device"))}
    found = {(a, b) for a, b, _ in splink_pairs(ids, columns, 0.95)}
    planted = {(f"p{i}", f"twin{i}") for i in range(20)}
    assert len(found & planted) >= 18
    assert len(found - planted) <= 2
    assert splink_pairs(ids, columns, 0.95) == splink_pairs(ids, columns, 0.95)


def test_splink_with_nothing_in_common_finds_nobody():
    pytest.importorskip("splink")
    ids = [f"p{i}" for i in range(20)]
    assert splink_pairs(ids, {"a": [f"a{i}" for i in ids], "b": [f"b{i}" for i in ids]}, 0.9) == []
    with pytest.raises(ParameterError, match="give two"):
        splink_pairs(ids, {"a": ids}, 0.9)


def test_pairs_of_a_table(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("id_l;id_r;probability\n007;7;0.5\nx;y;1\n")
    assert read_pairs(path) == [("007", "7", 0.5), ("x", "y", 1.0)]
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"unique_id_l": 3, "unique_id_r": 4, "match_probability": 0}\n')
    assert read_pairs(path) == [("3", "4", 0.0)]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("id_l,probability\na,1\n", "an edge table needs id_l, id_r, probability"),
        (
            "id_l,id_r,probability\na,b,1\na,b,1.5\n",
            "'probability', row 1 is 1.5; give a probability between 0 and 1",
        ),
        ("id_l,id_r,probability\na,b,-0.1\n", "'probability', row 0 is -0.1"),
        ("id_l,id_r,probability\na,b,\n", "'probability' is empty in row 0"),
        ("id_l,id_r,probability\na,b,high\n", "'probability', row 0 is 'high', which is no number"),
        ("id_l,id_r,probability\na,,1\n", "'id_r' is empty in row 0"),
    ],
)
def test_pairs_that_are_none(tmp_path, data, says):
    path = tmp_path / "pairs.csv"
    path.write_text(data)
    with pytest.raises(SubmissionError, match=says):
        read_pairs(path)
