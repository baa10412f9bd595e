"""What an experiment's file does not say about a mechanism is as the mechanism's name says it."""

from __future__ import annotations

import pytest

from component_samples import PRESETS
from datamarket_gym.experiments.cells import compute
from datamarket_gym.experiments.spec import ExperimentSpec, MechanismEntry, parse_spec
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.registry import lookup


def in_full(preset: str) -> str:
    """The preset with evidence, where it leaves that open."""
    return f"{preset}/exact_hash" if lookup("mechanism", preset)().get("evidence") == "" else preset


@pytest.mark.parametrize("preset", PRESETS)
def test_an_entry_with_only_a_name_is_the_registered_mechanism(preset: str) -> None:
    text = f'name = "mine"\ntitle = "Mine"\n[[mechanisms]]\nname = "{in_full(preset)}"\n'
    [(found, axes)] = parse_spec(text, "mine.toml").mechanisms[0].expand()
    assert found == get_mechanism(in_full(preset))
    assert axes == {}


@pytest.mark.parametrize("preset", PRESETS)
def test_only_what_the_file_says_differs(preset: str) -> None:
    entry = MechanismEntry(name=in_full(preset), granularity=["batch"])
    [(found, _)] = entry.expand()
    assert found == get_mechanism(in_full(preset), granularity="batch")


def test_changes_may_name_any_field() -> None:
    entry = MechanismEntry(name="shapley", changes={"granularity": "unit", "representative": "capped"})
    [(found, _)] = entry.expand()
    assert (found.granularity, str(found.representative)) == ("unit", "capped")


def test_recommended_named_alone_is_armed() -> None:
    small = "synthetic(n_providers=4, per_provider=15, validation=60)"
    spec = ExperimentSpec(
        name="mine",
        title="Mine",
        seeds=1,
        tasks=[{"task": small}],
        utilities=[{"learner": "knn", "empty": "chance"}],
        attacks=["sybil_split_k@3", "exact_dup_2x_sybils", "copycat"],
        mechanisms=[{"name": "recommended"}],
    )
    rows = compute(spec, spec.tasks[0], 0, {})
    assert {row["granularity"] for row in rows} == {"unit"}
    assert [row["gain"] for row in rows] == pytest.approx([1.0, 1.0, 1.0])
