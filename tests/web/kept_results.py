"""The results that the documentation shows, read once for all tests."""

from functools import cache
from pathlib import Path

from datamarket_gym.lab.results import read_all

DOCS = Path(__file__).parents[2] / "docs" / "results"


@cache
def kept_results():
    """Every experiment by name."""
    return {one.spec.name: one for one in read_all(DOCS)}
