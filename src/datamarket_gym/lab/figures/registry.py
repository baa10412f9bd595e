"""Which experiment has which figure: every module of this package adds its own with `drawer`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from datamarket_gym.lab.cells import Row

Drawer = Callable[[Sequence[Row]], Any]
"""Takes an experiment's summary rows and returns a matplotlib figure."""

_drawers: dict[str, Drawer] = {}


def drawer(*names: str) -> Callable[[Drawer], Drawer]:
    """Decorator: the function draws the figure of these experiments."""

    def add(function: Drawer) -> Drawer:
        for name in names:
            _drawers[name] = function
        return function

    return add


@cache
def drawers() -> dict[str, Drawer]:
    """All figures by the experiment's name; importing them does not import matplotlib."""
    from importlib import import_module
    from pkgutil import iter_modules

    from datamarket_gym.lab import figures as home

    for module in iter_modules(home.__path__, f"{home.__name__}."):
        import_module(module.name)
    return _drawers
