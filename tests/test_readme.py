"""The README's generated blocks are up to date; its code is run by tests/docs_site."""

import pytest

from datamarket_gym.lab.kinds.checks import ASSUMING
from repository import ROOT, published, tool_named

tool = tool_named("readme")
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["demo", "checks", "ten"])
def test_generated_blocks_are_up_to_date(name):
    assert tool.block(README, name) == tool.BLOCKS[name](), "run: python tools/readme.py"


def test_what_is_stopped_deterred_and_neither_stands_before_the_demo():
    assert README.index("<!-- checks -->") < README.index("<!-- demo -->")


def _row(attack, task, checks, value, knowledge=1.0):
    labels = {"attack": attack, "task": task, "checks": checks, "knowledge": knowledge}
    labels["family"] = ASSUMING if attack == "squat" else "any"
    return {**labels, "learner": "coverage", "power": 0.8, "value": value, "se": None}


def test_an_attack_is_stopped_deterred_or_neither_by_its_worst_variant_domain_and_knowledge():
    nets = {  # by attack and domain: without checks, with them
        ("honest", "imdb"): (1.0, 1.0),
        ("sybil_split_2", "imdb"): (1.0, 1.0),
        ("sybil_split_3", "imdb"): (1.004, 1.0),
        ("turn", "imdb"): (1.0, 1.0),
        ("turn@0.6", "imdb"): (1.5, 0.4),
        ("turn@0.6", "stl10"): (1.9, 1.02),
        ("squat", "imdb"): (1.7, 0.9),
        ("outlier", "imdb"): (0.9, 0.9),
        ("outlier", "stl10"): (1.3, 1.03),
    }
    rows = [
        _row(attack, task, checks, value)
        for (attack, task), both in nets.items()
        for checks, value in zip((0, 3), both, strict=True)
    ]
    rows += [_row("turn@0.6", "imdb", 3, 1.01, knowledge=0.5), _row("outlier", "imdb", 1, 9.0)]
    found = {one.name: one for one in tool.of_learner(rows, "coverage")}
    assert {name: one.verdict for name, one in found.items()} == {
        "split into … names": "Stopped",
        r"squatting before one victim\*": "Deterred",
        "copies of all turned out of reach": "Deterred",
        "units in uncovered regions": "Neither",
    }
    turned = found["copies of all turned out of reach"]
    assert (turned.cell("imdb"), turned.cell("stl10"), turned.cell("agnews")) == (
        "1.50 → 1.01", "1.90 → 1.02", "-",
    )  # fmt: skip
    assert next(iter(found)) == "copies of all turned out of reach"  # the largest first


def test_the_attack_found_is_the_one_that_s10_plays():
    kept = published()
    (found,) = {
        row["best_attack"]
        for row in kept["best-response"].rows
        if row["mechanism"] == "recommended"
        and row["metric"] == "net_gain"
        and not row["cost_identity"]
        and not row["cost_perturbation"]
    }
    called = {name: attack for attack, name in kept["s10"].spec.called.items()}
    assert called["best_response_found"] == found, "put it into s10.toml and run s10 again"


def test_every_utility_that_can_be_named_stands_in_the_table_of_utilities():
    from datamarket_gym.core.registry import components

    table = README.partition("## What data are worth")[2].partition("\n## ")[0]
    mine = {
        name
        for name, made in components("learner").items()
        if made.__module__.startswith("datamarket_gym.")
    }
    assert {name for name in mine - {"sklearn"} if f"`{name}" not in table} == set()
