"""The page about guarantees runs."""

import re
from pathlib import Path

import pytest

from datamarket_gym.analysis.theorems import deterrence_gap

PAGE = Path(__file__).parents[3] / "docs" / "guarantees.md"


def test_the_examples_run():
    page = PAGE.read_text(encoding="utf-8")
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(block, names)
    assert "provider_0 played" in names["certificate"].words
    assert names["filed"].claim == "deterred"
    assert names["filed"].residual == names["filed"].gap * names["filed"].payment
    checks = names["Checks"](3, 0.8)
    said = re.search(
        r"For \(3, \.8\): (\S+) at w = 0, (\S+) at w = \.02, (\S+) at w = \.1, (\S+) at w = 1", page
    )
    found = [deterrence_gap(checks, largest_unit=w) for w in (0.0, 0.02, 0.1, 1.0)]
    assert [float(number) for number in said.groups()] == pytest.approx(found, abs=5e-4)
    assert names["paid"].threshold.theta is not None
    report, target = names["report"], names["target"]
    assert report.families("stopped") == ["sybil_split_k"]
    assert report.families("deterred") == ["copycat"]
    assert len(target.tried) == 20  # the second search had nothing new to pay


def test_the_smaller_tools_say_what_the_page_says():
    page = PAGE.with_name("theory-tools.md").read_text(encoding="utf-8")
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(block, names)
    shapley, banzhaf = names["shapley"], names["banzhaf"]
    assert names["split_gain"](shapley, k=3, n=2).multiplicative == pytest.approx(1.5)
    assert len(names["profitable_splits"](banzhaf, k_max=6)) == 0
    k, net = names["best_split"](shapley, n=2, identity_cost=0.06)
    assert k == names["stopping_k"](n=2, identity_cost=0.06)
    assert net > 0
    assert names["found"].loss <= names["found"].bound == 2 * names["found"].distance
    checks = names["Checks"](3, names["power"])
    assert names["checks_needed"](names["power"], gain=0.02) == 3
    assert names["checks_needed"](names["power"], kappa=1.3, gain=0.02) == 5
    assert names["deterrence_gap"](checks) < 0.01 < names["deterrence_gap"](checks, largest_unit=0.1)
    cost = names["expected_false_alarm_cost"](checks, rate=0.01, payments=[400.0, 250.0])
    assert cost == pytest.approx(650.0 * names["false_alarm_probability"](checks, rate=0.01))
