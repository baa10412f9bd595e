"""The README's code runs as printed, and its demo block is what the demo prints."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

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


def test_the_demo_block_is_what_the_demo_prints():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        from readme_demo import block, demo_text, fenced
    finally:
        sys.path.remove(str(ROOT / "tools"))
    assert block(README) == fenced(demo_text()), "run: python tools/readme_demo.py"
