"""What tests need of the repository beside the package: the modules of tools/, and data that may not be there."""

import importlib
import sys
from functools import cache
from pathlib import Path

import pytest

from datamarket_gym.experiments.results import read_all
from datamarket_gym.market.datasets import find

ROOT = Path(__file__).parents[1]


def tool_named(name):
    """A module of tools/, by its name."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(ROOT / "tools"))


@cache
def published():
    """The results in docs/results by experiment, read once a process: not to be changed."""
    return {one.spec.name: one for one in read_all(ROOT / "docs" / "results")}


def require_data(*files):
    """Skip what needs data files that are in none of the data folders."""
    missing = [name for name in files if find(name) is None]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} in the data folders (DATAMARKET_DATA)")
