"""What one cell of an experiment computes: a task and a seed in, tidy rows out.

Kinds of cells are the modules of `datamarket_gym.experiments.kinds`, found there by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from datamarket_gym.errors import UnknownNameError
from datamarket_gym.experiments.spec import ExperimentSpec, TaskEntry, UtilityEntry
from datamarket_gym.market.attacks import Attack
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.mechanism.external import OwnMechanism
from datamarket_gym.mechanism.pipeline import Mechanism
from datamarket_gym.registry import Document, fault, written
from datamarket_gym.utilities.base import LEARNERS, UtilityFunction
from datamarket_gym.utilities.oracle import UtilityOracle

Row = dict[str, Any]
CellFunction = Callable[[ExperimentSpec, TaskEntry, int, dict[str, Any]], list[Row]]

Before = Callable[[ExperimentSpec, Path], None]

_kinds: dict[str, CellFunction] = {}
_options: dict[str, type[Document]] = {}
_before: dict[str, Before] = {}


def kind(
    name: str, options: type[Document] = Document, before: Before | None = None
) -> Callable[[CellFunction], CellFunction]:
    """Decorator: the function computes the cells of experiments of this kind.

    ``options`` says which keys a file's ``[options]`` may and must have. ``before`` is called with the
    run's folder before the first cell: for what must be on record by then.
    """

    def add(function: CellFunction) -> CellFunction:
        _kinds[name], _options[name] = function, options
        if before is not None:
            _before[name] = before
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


def options_of(name: str) -> type[Document]:
    """What a kind takes as options."""
    if name not in kinds():
        raise UnknownNameError("experiment kind", name, kinds())
    return _options[name]


def prepare(spec: ExperimentSpec, out: Path) -> None:
    """What the experiment's kind does before its first cell."""
    _checked(spec)
    if spec.kind in _before:
        _before[spec.kind](spec, out)


def compute(spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]) -> list[Row]:
    """The rows of one cell; ``engine`` holds learner settings that do not change results."""
    if task.learners:
        paid = [utility for utility in spec.utilities if utility.learner in task.learners]
        spec = spec.model_copy(update={"utilities": paid})
    return _checked(spec)(spec, task, seed, engine)


def _checked(spec: ExperimentSpec) -> CellFunction:
    """The function of the experiment's kind, which has the options that it needs and no others."""
    try:
        options_of(spec.kind).model_validate(spec.options)
    except ValidationError as error:
        raise fault(error, f"{spec.name} (kind {spec.kind}): options.") from error
    return kinds()[spec.kind]


def market_of(task: TaskEntry, seed: int) -> ProviderMarket:
    """The market of one draw of an experiment's task."""
    return ProviderMarket.from_task(task.task, seed, times=task.times)


def utility_for(utility: UtilityEntry, engine: dict[str, Any]) -> UtilityFunction:
    """The learner with the run's device and threads, where it has such settings."""
    learner = LEARNERS.create(utility.learner)
    fields = getattr(learner, "__dataclass_fields__", {})
    return replace(learner, **{k: v for k, v in engine.items() if k in fields})  # type: ignore[type-var]


def oracles_of(
    spec: ExperimentSpec, task: TaskEntry, market: ProviderMarket, engine: dict[str, Any]
) -> Iterator[tuple[Row, UtilityOracle]]:
    """The labels and the oracle of each utility; those that differ in U(empty) alone share fits."""
    known: dict[str, UtilityOracle] = {}
    for utility in spec.utilities:
        if utility.learner in known:
            oracle = known[utility.learner].counted_from(utility.empty)
        else:
            learner = utility_for(utility, engine)
            oracle = market.utility_oracle(utility.build(), learner, engine.get("memo"))
        known[utility.learner] = oracle
        labels = {"task": task.label, "learner": utility.learner, "empty": utility.empty}
        yield {**labels, **task.axes}, oracle


def attacks_of(spec: ExperimentSpec) -> list[tuple[str, Attack]]:
    """Attacks under the names tables print, written out where several share one."""
    attacks: list[Attack] = [ATTACKS.create(text) for text in spec.attacks]
    names = [spec.called.get(t, a.label) for t, a in zip(spec.attacks, attacks, strict=True)]
    count = Counter(names)
    return [(n if count[n] == 1 else written(a), a) for n, a in zip(names, attacks, strict=True)]


def labels_of(mechanism: Mechanism | OwnMechanism) -> Row:
    """What tables tell mechanisms apart by; one that is not of our pipeline has a name alone."""
    if not isinstance(mechanism, Mechanism):
        return {"mechanism": mechanism.name}
    return {
        "mechanism": mechanism.name,
        "granularity": mechanism.granularity,
        "representative": str(mechanism.representative),
    }


def selected(only: str | None, attack: str, mechanism: str) -> bool:
    """Whether ``--only`` (comma-separated patterns of attacks or mechanisms) keeps this pair."""
    if only is None:
        return True
    patterns = only.split(",")
    return any(fnmatch(attack, p) or fnmatch(mechanism, p) for p in patterns)
