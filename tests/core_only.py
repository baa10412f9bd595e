"""Runs Python code as if only what requirements-core.lock pins were installed.

Usage: python core_only.py CODE
"""

import re
import sys
from importlib.machinery import PathFinder
from importlib.metadata import packages_distributions
from pathlib import Path

LOCK = Path(__file__).parents[1] / "requirements-core.lock"


def normalized(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def absent():
    """Top-level modules of distributions that the core does not bring."""
    pins = re.findall(r"^([\w.-]+)==", LOCK.read_text(encoding="utf-8"), flags=re.MULTILINE)
    core = {"datamarket-gym", *map(normalized, pins)}
    return {
        module
        for module, brought_by in packages_distributions().items()
        if core.isdisjoint(map(normalized, brought_by))
    }


class CoreFinder(PathFinder):
    """Finds no module that is absent."""

    names = absent()

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        top = fullname.partition(".")[0]
        return None if top in cls.names else super().find_spec(fullname, path, target)


if __name__ == "__main__":
    sys.meta_path[:] = [CoreFinder if finder is PathFinder else finder for finder in sys.meta_path]
    exec(compile(sys.argv[1], "core_only", "exec"), {"__name__": "__main__"})
