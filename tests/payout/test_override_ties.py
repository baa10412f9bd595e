"""What splits and joins do to ties, tie by tie."""

import json
from datetime import date

import numpy as np
import pytest

from datamarket_gym.errors import DataMarketError
from datamarket_gym.evidence.graph import Edges, components
from datamarket_gym.payout.overrides import overridden, read_overrides

SIGNED = {"reason": "checked", "by": "R. Okafor", "date": date(2026, 5, 31)}
NAMES = list("abcdef")


def toml(value):
    return json.dumps(value) if isinstance(value, (str, list)) else str(value)


@pytest.fixture
def written(tmp_path):
    def write(*entries):
        """Overrides from entries (action, fields), by way of a file."""
        text = ""
        for action, fields in entries:
            lines = (f"{name} = {toml(value)}" for name, value in {**SIGNED, **fields}.items())
            text += "\n".join([f"[[{action}]]", *lines, ""])
        path = tmp_path / "overrides.toml"
        path.write_text(text, encoding="utf-8")
        return read_overrides(path)

    return write


def ties(*found):
    """Edges from (left, right, score, reason)."""
    left, right, score, reason = zip(*found, strict=True)
    at = [np.array([NAMES.index(n) for n in side], dtype=np.int64) for side in (left, right)]
    return Edges(*at, np.array(score), np.array(reason))


def together(edges, overrides, kind="units"):
    """The groups of more than one that are left, as words."""
    label = components(np.arange(len(NAMES)), overridden(edges, overrides, NAMES, kind))
    groups = [
        "".join(n for n, c in zip(NAMES, label, strict=True) if c == g) for g in sorted(set(label))
    ]
    return [group for group in groups if len(group) > 1]


CHAIN = ties(("a", "b", 0.95, "cosine"), ("b", "c", 0.95, "cosine"), ("d", "e", 1.0, "exact_hash"))


def test_a_split_cuts_ties_on_both_sides_and_leaves_the_rest(written):
    assert together(CHAIN, []) == ["abc", "de"]
    assert together(CHAIN, written(("split", {"units": ["a"]}))) == ["bc", "de"]
    assert together(CHAIN, written(("split", {"units": ["c"]}))) == ["ab", "de"]
    assert together(CHAIN, written(("split", {"units": ["b"]}))) == ["de"]
    assert together(CHAIN, written(("split", {"units": ["a", "e"]}))) == ["bc"]


def test_a_split_parts_the_listed_ones_from_each_other_too(written):
    assert together(CHAIN, written(("split", {"units": ["d", "e"]}))) == ["abc"]


def test_likeness_is_not_passed_on_by_the_one_that_leaves(written):
    """b and c are each like a; that does not make them like each other once a has left."""
    alike = ties(("a", "b", 0.95, "cosine"), ("a", "c", 0.95, "cosine"))
    assert together(alike, written(("split", {"units": ["a"]}))) == []


def test_only_certain_ties_of_one_reason_survive_their_hub(written):
    gone = written(("split", {"units": ["a"]}))
    assert together(ties(("a", "b", 1.0, "hash"), ("a", "c", 1.0, "hash")), gone) == ["bc"]
    assert together(ties(("a", "b", 1.0, "hash"), ("a", "c", 1.0, "source")), gone) == []
    assert together(ties(("a", "b", 1.0, "table"), ("a", "c", 0.97, "table")), gone) == []


def test_what_is_split_can_be_joined_to_another(written):
    moved = written(("join", {"units": ["a", "f"]}), ("split", {"units": ["a"]}))
    assert together(CHAIN, moved) == ["af", "bc", "de"]
    assert [each.action for each in moved] == ["split", "join"]  # listed as they take effect


def test_a_join_ties_all_that_it_lists_and_says_why(written):
    joined = written(("join", {"units": ["c", "f", "d", "f"]}))
    assert together(CHAIN, joined) == ["abcdef"]
    added = overridden(CHAIN, joined, NAMES, "units")
    assert sorted(added.reason.tolist()) == ["cosine", "cosine", "exact_hash", "override", "override"]


def test_units_and_identities_are_kept_apart(written):
    people = written(("join", {"identities": ["a", "f"]}), ("split", {"identities": ["b"]}))
    assert together(CHAIN, people, "units") == ["abc", "de"]
    assert together(CHAIN, people, "identities") == ["af", "de"]


@pytest.mark.parametrize(
    ("action", "fields", "match"),
    [
        ("join", {"units": ["a", "a"]}, "two different names"),
        ("join", {"units": ["a", "b"], "identities": ["a", "b"]}, "either units or identities"),
        ("split", {"units": ["a"], "by": ""}, "by: String should have at least 1"),
        ("split", {"units": ["a"], "reason": ""}, "reason: String should have at least 1"),
        ("split", {"units": ["a"], "until": "tomorrow"}, "until"),
        ("split", {"units": ["a"], "date": "soon"}, "date: Input should be a valid date"),
    ],
)
def test_what_is_not_signed_off_properly_is_refused(written, action, fields, match):
    with pytest.raises(DataMarketError, match=match):
        written((action, fields))


def test_the_second_of_two_is_named_when_it_is_wrong(written):
    with pytest.raises(DataMarketError, match="join 2: entry"):
        written(("join", {"units": ["a", "b"]}), ("join", {"units": ["c"]}))
