"""What the page of markets asks: a market, an attack, a utility, a mechanism and checks, within bounds.

A page's questions must end: parameters of components are asked for by controls whose ranges end.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field

from datamarket_gym.analysis.theorems.deterrence import Checks
from datamarket_gym.errors import DataMarketError, ParameterError, UnknownNameError, require_choice
from datamarket_gym.evidence.graph import LAYERS
from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.market.tasks.base import TASKS, Task
from datamarket_gym.market.tasks.real_data import DomainTask
from datamarket_gym.market.tasks.synthetic import WithoutLabels
from datamarket_gym.mechanism.pipeline import Mechanism, get_mechanism
from datamarket_gym.registry import (
    FIRST,
    HOMES,
    MISSING,
    Document,
    Parameter,
    Range,
    components,
    create,
    lookup,
    parameters_of,
    parsed,
    written,
)
from datamarket_gym.registry import Spec as RegistrySpec
from datamarket_gym.utilities.base import LEARNERS
from datamarket_gym.utilities.oracle import Utility

Value = bool | int | float | str

PROVIDERS, UNITS, SAMPLES, CHECKS = 12, 200, 1024, 50
"""The most that the page asks for."""
SEEDS = 1_000_000
EVIDENCE = "cosine@0.99"
"""The evidence of presets that leave it open."""
LEARNER = "recommended"
"""The utility that the page begins with, by its name, so that the list of utilities shows it as chosen."""
PARTS = (
    "evidence", "granularity", "representative", "semivalue", "estimator", "samples", "allocation", "normalize",
    "leak_check",
)  # fmt: skip
"""The parts of a mechanism that the page shows; the seed is the market's."""
_COMPONENTS = ("evidence", "representative", "semivalue", "estimator", "allocation")
_STEP = 0.01  # of numbers that are not whole
_LARGE = 1000.0  # times the default: a limit beyond is none that a slider could have
_OF_THE_MACHINE = {"device", "jobs", "games", "progress", "checkpoint", "key"}
"""Parameters that name files, secrets or processors of this machine, or change the speed alone: not for a page."""
_SIZES = {"n_providers", "per_provider"}
"""Parameters of tasks that the page asks for by themselves."""
_DEFAULTS: dict[str, Value] = {"theta": 0.9, "estimator": "DecisionTreeClassifier"}
"""The values of controls whose components have no default."""
_LONGEST = 200  # characters of a text
_TEXT = re.compile(r"[\w ;+|-]*")  # without dots and brackets no text names a module, or calls one


@dataclass(frozen=True)
class Control:
    """Hold a parameter with a default, and a range that ends; ``of`` is the kind of components that it may name."""

    parameter: Parameter
    kind: str  # bool, int, float, choice or text
    default: Value
    choices: tuple[Value, ...] = ()
    of: str = ""

    def as_json(self) -> dict[str, Any]:
        """Describe the control to the page."""
        parameter = self.parameter
        label = parameter.title[:1].upper() + parameter.title[1:]
        about: dict[str, Any] = {
            "name": parameter.name, "kind": self.kind, "default": self.default, "label": label, "help": parameter.help,
        }  # fmt: skip
        if parameter.range is not None:
            step = 1 if self.kind == "int" else _STEP
            if isinstance(self.default, float) and self.default:
                step = min(step, self.default)
            about |= {"min": parameter.range.low, "max": parameter.range.high, "step": step}
            if parameter.choices:
                about["words"] = [{"value": word, "label": word} for word in parameter.choices]
        if self.kind == "choice":
            about["choices"] = [
                {"value": value, "label": str(value) or "as the task has it"} for value in self.choices
            ]
        return about

    def validate(self, what: str, value: Any) -> Value:
        """Return the value; refuse what the page may not ask for."""
        named = f"{self.parameter.name} of {what}"
        if self.kind == "bool" and not isinstance(value, bool):
            raise ParameterError(named, value, "choose true or false")
        if self.kind == "choice" and value not in self.choices:
            if self.of and isinstance(value, str):
                return validate_spec(self.of, value)
            require_choice(named, value, map(str, self.choices))
        is_text = isinstance(value, str) and len(value) <= _LONGEST and _TEXT.fullmatch(value)
        if self.kind == "text" and not is_text:
            raise ParameterError(named, value, "write letters, digits and any of _ ; + | -")
        if self.parameter.range is not None:
            dataclasses.replace(self.parameter, name=named).validate(value)
            if self.kind == "float" and not isinstance(value, str):
                return float(value)
        return value


def validate_spec(kind: str, spec: RegistrySpec) -> str:
    """Write a component whose parameters a page may ask for; refuse others, and values out of range."""
    name, values = parsed(kind, spec)
    component, what = lookup(kind, name), f"{kind} {name}"
    controls = {control.parameter.name: control for control in controls_of(kind, name)}
    if FIRST in values:
        first = next((parameter.name for parameter in parameters_of(component)), "")
        if first not in controls:
            raise ParameterError(what, values[FIRST], "write its parameters by their names")
        values = {first: values[FIRST]}
    for each in values:
        if each not in controls:
            raise UnknownNameError(f"parameter of {what}", each, controls)
    required = {key: c.default for key, c in controls.items() if c.parameter.default is MISSING}
    values = {key: controls[key].validate(what, value) for key, value in (required | values).items()}
    return written(create(kind, {"name": name, **values}))


def controls_of(kind: str, name: str) -> tuple[Control, ...]:
    """Return the controls of a registered component; one that cannot be written has none."""
    component: Any = lookup(kind, name)
    is_writable: bool = dataclasses.is_dataclass(component)
    return _controls(kind, component) if is_writable else ()


@lru_cache(maxsize=256)
def _controls(kind: str, component: Any) -> tuple[Control, ...]:
    hidden = _OF_THE_MACHINE | (_SIZES if kind == "task" else set())
    shown = (each for each in parameters_of(component) if each.written and each.name not in hidden)
    return tuple(_control(component, parameter) for parameter in shown)


def hidden_parameters(component: Any) -> list[str]:
    """Return the parameters of a component that no text gives: their values must be handed over in Python."""
    parameters = parameters_of(component)
    return [p.name for p in parameters if not p.written and p.name not in _OF_THE_MACHINE]


def _control(component: Any, parameter: Parameter) -> Control:
    default = parameter.default
    if default is MISSING:
        default = parameter.choices[0] if parameter.choices else _DEFAULTS.get(parameter.name, 1.0)
    if parameter.type is bool:
        return Control(parameter, "bool", default)
    if parameter.type in (int, float):
        return Control(_bounded(parameter, default), parameter.type.__name__, default)
    of = {"of": "task"}.get(parameter.name, parameter.name if parameter.name in HOMES else "")
    if of and parameter.type is str:
        possible = dict.fromkeys([default, *_possible(component, parameter.name, of)])
        return Control(parameter, "choice", default, tuple(possible), of)
    if parameter.choices:
        return Control(parameter, "choice", default, parameter.choices)
    return Control(parameter, "text", default)


def _possible(component: Any, parameter: str, kind: str) -> Iterator[str]:
    """Yield the components of a kind that a parameter may have by their names alone."""
    for name in components(kind):
        try:
            component(**{parameter: name})
        except DataMarketError:
            continue
        yield name


def _bounded(parameter: Parameter, default: Value) -> Parameter:
    """Return the parameter with a range that ends: its own, or where it has none a few times the default."""
    usual = 1.0 if isinstance(default, str) else float(default)
    whole = parameter.type is int
    own = parameter.range or Range(min(usual, 1.0) if whole else 0.0)
    low, high = own.low + _STEP if own.open_low else own.low, own.high
    if high > _LARGE * max(1.0, abs(usual)):
        high = max(10.0 if whole else 3.0, 5 * usual)
    low, high = (int(low), int(high)) if whole else (low, high)
    return dataclasses.replace(parameter, range=Range(low, high))


@dataclass(frozen=True)
class DrawnMarket:
    """Say which market is drawn: all that decides who owns what."""

    task: str
    seed: int
    times: str


@dataclass(frozen=True)
class PricedMarket:
    """Say which utility a market is paid by; the progress decides nothing."""

    draw: DrawnMarket
    learner: str
    empty: str
    progress: Progress = field(default=SILENT, compare=False, repr=False)


@dataclass(frozen=True)
class AttackChoice:
    """Say what a provider does, and what share of the others' units it knows."""

    spec: str
    attacker: int
    knowledge: float


Word = Annotated[str, Field(max_length=500)]
Spec = Word | dict[Word, bool | int | float | Word]


class MarketRequest(Document):
    """Ask one question; a part of the mechanism that is left out is as the preset has it."""

    task: Spec = "synthetic"
    providers: int = Field(default=4, ge=1, le=PROVIDERS)
    units: int = Field(default=40, ge=1, le=UNITS)
    seed: int = Field(default=0, ge=0, le=SEEDS)
    times: Literal["given", "equal", "none"] = "given"
    attack: Spec = "near_duplicate_2x_sybils"
    attacker: int = Field(default=0, ge=0, lt=PROVIDERS)
    knowledge: float = Field(default=1.0, ge=0.0, le=1.0)
    learner: Spec = LEARNER
    empty: Literal["none", "chance"] | None = None
    mechanism: Word = "recommended"
    evidence: Spec | None = None
    granularity: Literal["unit", "batch", "identity"] | None = None
    representative: Spec | None = None
    semivalue: Spec | None = None
    estimator: Spec | None = None
    samples: int | None = Field(default=None, ge=1, le=SAMPLES)
    allocation: Spec | None = None
    normalize: bool | None = None
    leak_check: Literal["off", "drop", "error"] | None = None
    checks: int = Field(default=Checks().per_payee, ge=0, le=CHECKS)
    power: float = Field(default=Checks().power, gt=0.0, le=1.0)

    def filled(self) -> MarketRequest:
        """Return the question with nothing left out and every component in its written form."""
        learner = validate_spec("learner", self.learner)
        values = {
            "task": self._task(sizes=False),
            "attack": validate_spec("attack", self.attack),
            "learner": learner,
            "empty": self.empty or LEARNERS.create(learner).paid_from,
            **parts_of(self.chosen()),
        }
        Utility(learner, values["empty"])  # refuses what no accuracy is counted from
        return self.model_copy(update=values)

    def chosen(self) -> Mechanism:
        """Return the mechanism: a preset with the parts that were chosen, seeded as experiments seed it."""
        parts = {part: getattr(self, part) for part in PARTS if getattr(self, part) is not None}
        for kind in _COMPONENTS:
            if kind in parts:
                parts[kind] = validate_spec(kind, parts[kind])
        base = preset(self.mechanism, parts.get("evidence"))
        return base.model_copy(update=parts).seeded(self.seed)

    def changed(self) -> list[str]:
        """Return the parts that are not as the preset has them; only of a filled question."""
        base = parts_of(preset(self.mechanism, str(self.evidence)))
        return [part for part in PARTS if getattr(self, part) != base[part]]

    def _task(self, *, sizes: bool) -> str:
        text = validate_spec("task", self.task)
        if not sizes:
            return text
        counts = {"n_providers": self.providers, "per_provider": self.units}
        # Without an attack or evidence that looks at raw content tasks need not load any.
        attack = ATTACKS.create(validate_spec("attack", self.attack))
        content = attack.needs_content or LAYERS.create(self.chosen().evidence).needs_content
        return written(_sized(TASKS.create(text), counts, content))

    def draw(self) -> DrawnMarket:
        """Return which market is drawn; only of a filled question."""
        return DrawnMarket(self._task(sizes=True), self.seed, self.times)

    def priced(self, progress: Progress = SILENT) -> PricedMarket:
        """Return which utility it is paid by; only of a filled question."""
        return PricedMarket(self.draw(), str(self.learner), str(self.empty), progress)

    def attack_choice(self) -> AttackChoice:
        """Return what the attacker does; only of a filled question."""
        return AttackChoice(str(self.attack), self.attacker, self.knowledge)


def parts_of(mechanism: Mechanism) -> dict[str, Any]:
    """Return the parts of a mechanism that the page shows, components in their written form."""
    return mechanism.model_dump(include=set(PARTS), mode="json")


def preset(name: str, evidence: str | None = None) -> Mechanism:
    """Return a registered mechanism; one that leaves its evidence open is given some."""
    return _preset(lookup("mechanism", name), name, evidence)


@lru_cache(maxsize=64)
def _preset(registered: Any, name: str, evidence: str | None) -> Mechanism:
    """Return a mechanism, cached for as long as nothing else is registered under the name."""
    try:
        return get_mechanism(name)
    except ParameterError:
        return get_mechanism(f"{name}/{evidence or EVIDENCE}")


def _sized(task: Task, counts: dict[str, int], content: str) -> Task:
    """Return the task with its providers and units, and raw content where it is needed and the task has it."""
    if isinstance(task, WithoutLabels):
        return WithoutLabels(written(_sized(TASKS.create(task.of), counts, content)))
    fields = {f.name for f in dataclasses.fields(task)}  # type: ignore[arg-type]  # a registered task
    changes: dict[str, int | bool] = {name: n for name, n in counts.items() if name in fields}
    if isinstance(task, DomainTask) and content == task.domain.kind:
        changes["content"] = True
    return dataclasses.replace(task, **changes)  # type: ignore[type-var]
