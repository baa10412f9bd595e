"""Declarative experiments: tasks x attacks x mechanisms x seeds, written in TOML."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from datamarket_gym.errors import UnknownNameError
from datamarket_gym.mechanism.own_mechanism import OwnMechanism
from datamarket_gym.mechanism.pipeline import MECHANISMS, Mechanism, as_mechanism
from datamarket_gym.registry import Document, from_toml
from datamarket_gym.utilities.oracle import Utility

Axes = dict[str, float | int | str]


class TaskEntry(Document):
    """A task as written in the registry, what its clock knows, and the axes it stands for in the tables.

    ``learners`` names those of the utilities under which it is paid, so that cells that would be long can be
    computed beside one another; without any it is paid under all.
    """

    task: str
    times: Literal["given", "equal", "none"] = "given"
    learners: list[str] = []
    axes: Axes = {}

    @property
    def label(self) -> str:
        return self.task if self.times == "given" else f"{self.task}, times {self.times}"


class UtilityEntry(Document):
    """A learner and what accuracy is counted from; coverage is counted from nothing."""

    learner: str = "logistic"
    empty: Literal["none", "chance"] = "none"

    def build(self) -> Utility:
        return Utility(self.learner, self.empty)


class MechanismEntry(Document):
    """A mechanism, or a family of them: lists and ``sweep`` values are multiplied out.

    ``{axis}`` in the name or in ``changes`` is replaced by each value of ``sweep.axis``. Tables print
    ``label`` where it is given, so that a family keeps one name. What an entry does not say is as the
    mechanism's name says it.
    """

    name: str
    label: str = ""
    granularity: list[str] | None = Field(default=None, min_length=1)
    representative: list[str] | None = Field(default=None, min_length=1)
    changes: dict[str, Any] = {}
    sweep: dict[str, list[float | int | str]] = {}

    def expand(self) -> Iterator[tuple[Mechanism | OwnMechanism, Axes]]:
        listed = {"granularity": self.granularity, "representative": self.representative}
        lists = {key: values for key, values in listed.items() if values is not None}
        for values in itertools.product(*lists.values(), *self.sweep.values()):
            axes = dict(zip(self.sweep, values[len(lists) :], strict=True))
            changes = {
                key: value.format(**axes) if isinstance(value, str) else value
                for key, value in self.changes.items()
            }
            changes |= zip(lists, values, strict=False)
            name = self.name.format(**axes)
            mechanism = as_mechanism(MECHANISMS.create({"name": name, **changes}), name)
            yield mechanism.called(self.label or mechanism.name), axes


Where = dict[str, float | int | str | list[float | int | str]]


class Layout(Document):
    """One printed table: a metric, what goes down and across, and which rows it shows.

    ``down`` left out is the attack and every axis. Whatever else varies splits the table in several, but for
    the labels in ``merge``: by default mechanisms stand side by side at any granularity. Several metrics are
    the columns of one table; mechanisms then go down. Compact results keep all rows of the metric, or with
    ``keeps = "shown"`` those of the table alone.
    """

    metric: str | list[str] = "gain"
    down: list[str] = []
    across: str = "mechanism"
    merge: list[str] = ["granularity", "representative"]
    where: Where = {}
    keeps: Literal["all", "shown"] = "all"

    @property
    def metrics(self) -> list[str]:
        return [self.metric] if isinstance(self.metric, str) else self.metric


class Figure(Document):
    """One figure: a panel for each metric and each value of the labels in ``facet`` and ``group``.

    ``kind`` is "lines" along the label ``down``, one for each value of ``across``; "dots", a line of them for each
    value of ``down``; "map", a heat map; or the name of a figure of its own in `datamarket_gym.experiments.presets`.
    Labels are separated by blanks. ``words`` says by label and value (a pattern) what the figure calls it: rows are put
    in that order, and those of other values left out, as are honest ones of an ``attacked`` figure. ``style`` goes to
    the panels, ``columns`` of which stand side by side; ``beside`` names an experiment whose rows are shown too.
    """

    title: str
    name: str = ""
    kind: str = "lines"
    metric: str | dict[str, str] = "gain"
    down: str = ""
    across: str = ""
    facet: str = ""
    group: str = ""
    where: Where = {}
    words: dict[str, dict[str, str]] = {}
    attacked: bool = False
    style: dict[str, Any] = {}
    notes: list[str] = []
    columns: int = 3
    beside: str = ""


class Ranges(Document):
    """Lowest and highest gain over the cells of some axes, among the rows of ``where``."""

    over: list[str]
    where: Where = {}


def require_attacks(called: Mapping[str, str], attacks: Sequence[str]) -> None:
    """Raise where a name is given to an attack that is not among those beside it."""
    if unknown := set(called) - set(attacks):
        raise UnknownNameError("attack of this experiment", min(unknown), attacks)


class ExperimentSpec(Document):
    """Specify an experiment: markets, attacks and mechanisms, and how results are shown.

    Parameters
    ----------
    name, title, about, suite
        Its name (and that of its folder), its title, what it shows, and the suite that it belongs to.
    device
        ``cuda`` where a suite leaves it out on a CPU.
    pooled, ranges
        Axes over which means are also taken, and over which the lowest and the highest gain are.
    tables, figures
        How results are shown.
    kind, options
        The function that computes a cell (one task, one seed), and its options.
    seeds, first_seed
        How many seeds, and the first of them.
    tasks, utilities, attacks, mechanisms
        What is combined.
    provider, called, only
        Who attacks, names of attacks in tables, and combinations to which the experiment is limited.
    """

    name: str = Field(pattern=r"^\w[\w.-]*$")  # it names a folder
    title: str
    about: str = ""
    suite: str = ""
    device: Literal["any", "cuda"] = "any"
    pooled: list[str] = []
    ranges: Ranges | None = None
    tables: list[Layout] = []
    figures: list[Figure] = []
    kind: str = "market"
    seeds: int = Field(default=50, ge=1)
    first_seed: int = Field(default=0, ge=0)
    tasks: list[TaskEntry] = [TaskEntry(task="synthetic")]
    utilities: list[UtilityEntry] = [UtilityEntry()]
    provider: int = 0
    attacks: list[str] = []
    called: dict[str, str] = {}
    mechanisms: list[MechanismEntry] = []
    only: str | None = None
    options: dict[str, Any] = {}

    @model_validator(mode="after")
    def _names_are_of_attacks(self) -> Self:
        require_attacks(self.called, self.attacks)
        return self

    @property
    def digest(self) -> str:
        """Hash of all that decides the results of a seed; which seeds are run is not part of it."""
        shown = {"title", "about", "suite", "device", "pooled", "ranges", "tables", "figures"}
        text = json.dumps(self.model_dump(exclude={*shown, "seeds", "first_seed"}), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def seed_range(self) -> range:
        return range(self.first_seed, self.first_seed + self.seeds)


def parse_spec(text: str, origin: str) -> ExperimentSpec:
    """Parse a specification from TOML; errors name the key.

    Parameters
    ----------
    text
        The text.
    origin
        What errors call it.

    Returns
    -------
    ExperimentSpec
        The specification.
    """
    return from_toml(ExperimentSpec, text, origin)


def builtin_specs() -> dict[str, ExperimentSpec]:
    """Return the experiments that come with the package, read once.

    Returns
    -------
    dict[str, ExperimentSpec]
        The specifications by name.
    """
    return dict(_packaged())


@cache
def _packaged() -> dict[str, ExperimentSpec]:
    folder = resources.files("datamarket_gym.experiments") / "specs"
    files = [f for f in folder.iterdir() if f.name.endswith(".toml")]
    specs = [parse_spec(f.read_text(encoding="utf-8"), f.name) for f in files]
    return {spec.name: spec for spec in sorted(specs, key=_natural)}


def _natural(spec: ExperimentSpec) -> list[tuple[int, str]]:
    """Return a key that sorts s2 before s10, and numbered experiments before named ones."""
    named = re.match(r"s\d", spec.name) is None
    parts = re.split(r"(\d+)", spec.name)
    return [(int(named), ""), *((int(p), "") if p.isdigit() else (0, p) for p in parts)]
