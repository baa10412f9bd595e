"""What one cell of an experiment computes: a task and a seed in, tidy rows out.

Kinds of cells are functions in the modules of `datamarket_gym.experiments.kinds`, found there by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from datamarket_gym.data.ground_truth import SubmittedProfile
from datamarket_gym.errors import DataMarketError, UnknownNameError, require_known
from datamarket_gym.experiments.spec import Axes, ExperimentSpec, TaskEntry, UtilityEntry
from datamarket_gym.market.attacks import Attack
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.mechanism.own_mechanism import OwnMechanism
from datamarket_gym.mechanism.pipeline import Mechanism
from datamarket_gym.registry import Document, fault, written
from datamarket_gym.utilities.base import LEARNERS, UtilityFunction
from datamarket_gym.utilities.oracle import UtilityOracle

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Cell:
    """One task and one seed of an experiment; ``engine`` holds learner settings that change no result."""

    spec: ExperimentSpec
    task: TaskEntry
    seed: int
    engine: dict[str, Any]

    @cached_property
    def market(self) -> ProviderMarket:
        return market_of(self.task, self.seed)

    @cached_property
    def attacks(self) -> list[tuple[str, Attack]]:
        return attacks_of(self.spec)

    def mechanisms(self) -> Iterator[tuple[Mechanism | OwnMechanism, Axes]]:
        for entry in self.spec.mechanisms:
            for m, axes in entry.expand():
                yield m.seeded(self.seed), axes

    def pipelines(self) -> Iterator[tuple[Mechanism, Axes]]:
        """Yield every mechanism with its axes; raise for one that is not of our pipeline."""
        for m, axes in self.mechanisms():
            if not isinstance(m, Mechanism):
                raise DataMarketError(
                    f"experiments of kind {self.spec.kind!r} change the parts of a mechanism, and {m.name} is one of "
                    "its own; use kind = 'market' or 'best_response'"
                )
            yield m, axes

    def pipeline(self, name: str) -> tuple[Mechanism, Axes]:
        """Return the mechanism of this name, and its axes."""
        mechanisms = {m.name: (m, axes) for m, axes in self.pipelines()}
        require_known("mechanism of this experiment", [name], mechanisms)
        return mechanisms[name]

    def profiles(self) -> list[tuple[str, SubmittedProfile]]:
        """Return the market under every attack."""
        return [
            (name, attack.apply(self.spec.provider, self.market.state)) for name, attack in self.attacks
        ]

    def selects(self, attack: str, mechanism: Mechanism | OwnMechanism) -> bool:
        """Return whether ``--only`` (comma-separated patterns of attacks or mechanisms) keeps this pair."""
        only = self.spec.only
        return only is None or any(
            fnmatch(attack, pattern) or fnmatch(mechanism.name, pattern) for pattern in only.split(",")
        )

    def labels(self, utility: UtilityEntry) -> Row:
        """Return what tables tell tasks and utilities apart by."""
        return {
            "task": self.task.label,
            "learner": utility.learner,
            "empty": utility.empty,
            **self.task.axes,
        }

    def oracle(self, utility: UtilityEntry, market: ProviderMarket | None = None) -> UtilityOracle:
        learner = utility_for(utility, self.engine)
        return (market or self.market).utility_oracle(utility.build(), learner, self.engine.get("cache"))

    def oracles(self) -> Iterator[tuple[Row, UtilityOracle]]:
        """Yield labels and oracle of each utility; those that differ in U(empty) alone share fits."""
        oracles: dict[str, UtilityOracle] = {}
        for utility in self.spec.utilities:
            if utility.learner in oracles:
                oracle = oracles[utility.learner].counted_from(utility.empty)
            else:
                oracle = self.oracle(utility)
            oracles[utility.learner] = oracle
            yield self.labels(utility), oracle

    def of(self, **changes: Any) -> Cell:
        """Return the cell of an experiment that differs in some fields, on the same market."""
        other = replace(self, spec=self.spec.model_copy(update=changes))
        other.__dict__["market"] = self.market
        return other


CellFunction = Callable[[Cell], Iterable[Row]]
Before = Callable[[ExperimentSpec, Path], None]


@dataclass(frozen=True)
class CellKind:
    """A kind of cell: its function, the keys of ``[options]``, and what happens before the first cell."""

    function: CellFunction
    options: type[Document]
    before: Before | None


_kinds: dict[str, CellKind] = {}


def kind(
    name: str, options: type[Document] = Document, before: Before | None = None
) -> Callable[[CellFunction], CellFunction]:
    """Register the decorated function as computing the cells of experiments of this kind.

    ``before`` is called with the run's folder before the first cell: for what must be on record by then.
    """

    def add(function: CellFunction) -> CellFunction:
        _kinds[name] = CellKind(function, options, before)
        return function

    return add


@cache
def kinds() -> dict[str, CellKind]:
    from importlib import import_module
    from pkgutil import iter_modules

    from datamarket_gym.experiments import kinds as package

    for module in iter_modules(package.__path__, f"{package.__name__}."):
        import_module(module.name)
    return _kinds


def compute(spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]) -> list[Row]:
    if task.learners:
        paid = [utility for utility in spec.utilities if utility.learner in task.learners]
        spec = spec.model_copy(update={"utilities": paid})
    rows = kind_of(spec).function(Cell(spec, task, seed, engine))
    return [{"experiment": spec.name, "seed": seed, **row} for row in rows]


def kind_of(spec: ExperimentSpec) -> CellKind:
    """Return the kind of an experiment, whose options are checked."""
    if spec.kind not in kinds():
        raise UnknownNameError("experiment kind", spec.kind, kinds())
    try:
        kinds()[spec.kind].options.model_validate(spec.options)
    except ValidationError as error:
        raise fault(error, f"{spec.name} (kind {spec.kind}): options.") from error
    return kinds()[spec.kind]


def market_of(task: TaskEntry, seed: int) -> ProviderMarket:
    return ProviderMarket.from_task(task.task, seed, times=task.times)


def utility_for(utility: UtilityEntry, engine: dict[str, Any]) -> UtilityFunction:
    """Return the learner with the run's device and threads, where it has such settings."""
    learner = LEARNERS.create(utility.learner)
    fields = getattr(learner, "__dataclass_fields__", {})
    return replace(learner, **{k: v for k, v in engine.items() if k in fields})  # type: ignore[type-var]


def attacks_of(spec: ExperimentSpec) -> list[tuple[str, Attack]]:
    """Return attacks with the names that tables print, written out where several share one."""
    attacks: list[Attack] = [ATTACKS.create(text) for text in spec.attacks]
    names = [spec.called.get(t, a.label) for t, a in zip(spec.attacks, attacks, strict=True)]
    count = Counter(names)
    return [(n if count[n] == 1 else written(a), a) for n, a in zip(names, attacks, strict=True)]


def labels_of(mechanism: Mechanism | OwnMechanism) -> Row:
    """Return what tables tell mechanisms apart by; one that is not of our pipeline has a name alone."""
    if not isinstance(mechanism, Mechanism):
        return {"mechanism": mechanism.name}
    return {
        "mechanism": mechanism.name,
        "granularity": mechanism.granularity,
        "representative": str(mechanism.representative),
    }
