"""The README's code runs as printed, and its generated blocks are up to date."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from datamarket_gym.lab.results import read_all
from datamarket_gym.units import write_submission
from datamarket_gym.world.market import ProviderMarket
from datamarket_gym.world.tasks import Synthetic

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL))
def test_python_examples_run(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    market = ProviderMarket.from_task(Synthetic(n_providers=3, per_provider=10), seed=0)
    write_submission(market.honest.submission, tmp_path / "units.parquet")
    dataset = market.dataset
    np.savez("validation.npz", features=dataset.validation_features, label=dataset.validation_label)
    *body, last = code.strip().splitlines()
    scope = {}
    exec("\n".join([*body, f"result = {last}"]), scope)
    assert scope["result"]


def test_contributing_example_runs():
    from datamarket_gym.core import registry

    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    try:
        exec(
            compile(code.replace("from __future__", "# "), "CONTRIBUTING.md", "exec"),
            {"__name__": "example"},
        )
        assert "half_hearted" in registry.components("attack")
    finally:
        registry._components["attack"].pop("half_hearted", None)


def _tool():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import readme
    finally:
        sys.path.remove(str(ROOT / "tools"))
    return readme


@pytest.mark.parametrize("name", ["demo", "worst"])
def test_generated_blocks_are_up_to_date(name):
    tool = _tool()
    assert tool.block(README, name) == tool.BLOCKS[name](), "run: python tools/readme.py"


def test_the_worst_case_stands_before_the_demo_and_is_the_search_s():
    """The README leads with the largest gain known, as the best-response experiment found it."""
    assert README.index("<!-- worst -->") < README.index("<!-- demo -->")
    kept = {one.spec.name: one for one in read_all(ROOT / "docs" / "results")}
    found = [
        row["value"]
        for row in kept["best-response"].rows
        if row["metric"] == "net_gain" and row["mechanism"] == "recommended"
    ]
    assert f"| {max(found):.2f} ±" in _tool().block(README, "worst")


def test_the_attack_found_is_the_one_that_s10_plays():
    kept = {one.spec.name: one for one in read_all(ROOT / "docs" / "results")}
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
