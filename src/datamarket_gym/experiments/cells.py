"""What one cell of an experiment computes: a task and a seed in, tidy rows out.

Kinds of cells are the modules of `datamarket_gym.experiments.kinds`, found there by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatch
from functools import cache
from typing import Any

from datamarket_gym.errors import UnknownNameError
from datamarket_gym.experiments.spec import ExperimentSpec, TaskEntry, UtilityEntry
from datamarket_gym.learners.base import Learner
from datamarket_gym.registry import create

Row = dict[str, Any]
CellFunction = Callable[[ExperimentSpec, TaskEntry, int, dict[str, Any]], list[Row]]

_kinds: dict[str, CellFunction] = {}


def kind(name: str) -> Callable[[CellFunction], CellFunction]:
    """Decorator: the function computes the cells of experiments of this kind."""

    def add(function: CellFunction) -> CellFunction:
        _kinds[name] = function
        return function

    return add


@cache
def kinds() -> dict[str, CellFunction]:
    """All kinds of cells by name."""
    from importlib import import_module
    from pkgutil import iter_modules

    from datamarket_gym.experiments import kinds as home

    for module in iter_modules(home.__path__, f"{home.__name__}."):
        import_module(module.name)
    return _kinds


def compute(spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]) -> list[Row]:
    """The rows of one cell; ``engine`` holds learner settings that do not change results."""
    if spec.kind not in kinds():
        raise UnknownNameError("experiment kind", spec.kind, kinds())
    return kinds()[spec.kind](spec, task, seed, engine)


def learner_for(utility: UtilityEntry, engine: dict[str, Any]) -> Learner:
    """The learner with the run's device and threads, where it has such settings."""
    learner: Learner = create("learner", utility.learner)
    fields = getattr(learner, "__dataclass_fields__", {})
    return replace(learner, **{k: v for k, v in engine.items() if k in fields})  # type: ignore[type-var]


def selected(only: str | None, attack: str, mechanism: str) -> bool:
    """Whether ``--only`` (comma-separated patterns of attacks or mechanisms) keeps this pair."""
    if only is None:
        return True
    patterns = only.split(",")
    return any(fnmatch(attack, p) or fnmatch(mechanism, p) for p in patterns)
