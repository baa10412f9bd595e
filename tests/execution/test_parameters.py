"""Components describe themselves, and their parameters are checked by what their annotations say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest

from datamarket_gym.errors import ParameterError
from datamarket_gym.registry import (
    MISSING,
    Component,
    OneOf,
    Range,
    components,
    describe,
    parameters_of,
    register,
)


@dataclass(frozen=True)
class Example(Component):
    """Do something to units. With ``share`` it does it to some of them."""

    how: Literal["fast", "slow"]
    share: Annotated[float, Range(0, 1, open_low=True)] = 0.5
    copies: Annotated[int, Range(1), "how many copies; at least one"] = 2
    level: Annotated[int, Range(1, 3)] = 1
    victim: Annotated[int | str, Range(1), OneOf("all")] = 1
    anything: str = ""


def test_parameters_are_read_off_the_class():
    how, share, copies, level, victim, anything = parameters_of(Example)
    assert (how.type, how.default, how.choices) == (str, MISSING, ("fast", "slow"))
    assert (share.type, share.range) == (float, Range(0, 1, open_low=True))
    assert share.title == "share"
    assert share.help == "With share it does it to some of them."
    assert (copies.type, copies.title, copies.help) == (int, "how many copies", "at least one")
    assert (level.range, victim.type, victim.choices) == (Range(1, 3), int, ("all",))
    assert (anything.range, anything.choices) == (None, ())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"how": "fastest"}, "how = 'fastest': choose one of fast, slow"),
        ({"share": 0.0}, r"share = 0.0: choose a value in \(0, 1\]"),
        ({"share": float("nan")}, r"share = nan: choose a value in \(0, 1\]"),
        ({"share": "half"}, r"share = 'half': choose a value in \(0, 1\]"),
        ({"copies": 0}, "copies = 0: choose a whole number of at least 1"),
        ({"copies": 1.5}, "copies = 1.5: choose a whole number of at least 1"),
        ({"copies": True}, "copies = True: choose a number"),
        ({"level": 4}, r"level = 4: choose a value in \[1, 3\]"),
        ({"victim": "some"}, "victim = 'some': choose a whole number of at least 1, or all"),
    ],
)
def test_what_an_annotation_does_not_allow_is_refused(values, message):
    with pytest.raises(ParameterError, match=message):
        Example(**{"how": "fast", **values})


def test_what_annotations_allow_passes():
    assert Example("slow", 1, 3, 3, "all", "words").victim == "all"


def test_a_component_that_says_nothing_is_called_by_its_name(monkeypatch):
    monkeypatch.setattr("datamarket_gym.registry._components", {"attack": {}})
    register("attack", "do_something", by="here")(Example)
    plain = describe("attack", "do_something(how=fast)")
    assert plain.title == "do something"
    assert plain.summary == "Do something to units."
    assert [each.name for each in plain.parameters][:2] == ["how", "share"]

    class Named(Example):
        title, summary = "example", "Does more."

    register("attack", "named", by="here")(Named)
    assert (describe("attack", "named").title, describe("attack", "named").summary) == (
        "example", "Does more.",
    )  # fmt: skip


@pytest.mark.parametrize(
    "kind",
    [
        "attack", "evidence", "representative", "learner", "similarity", "semivalue", "estimator", "allocation",
        "mechanism", "task", "partition", "encoder", "game",
    ],
)  # fmt: skip
def test_titles_of_a_kind_differ_and_every_component_has_a_summary(kind):
    described = {name: describe(kind, name) for name in components(kind)}
    titles = [each.title for each in described.values()]
    assert len(set(titles)) == len(titles)
    for name, each in described.items():
        assert 0 < len(each.title) <= 48, name
        assert each.summary.endswith("."), (name, each.summary)
        assert "``" not in each.summary, (name, each.summary)
