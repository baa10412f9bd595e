"""The parameters of components as the page asks for them: within bounds, because its questions must end."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from datamarket_gym.core.errors import DataMarketError, ParameterError, UnknownNameError, require_choice
from datamarket_gym.core.forms import FIRST, Spec, parsed
from datamarket_gym.core.parameters import MISSING, Parameter, Range, parameters_of
from datamarket_gym.core.registry import HOMES, components, create, lookup, written

Value = bool | int | float | str

_STEP = 0.01  # of numbers that are not whole
_LARGE = 1000.0  # times the default: a limit beyond is none that a slider could have
_OF_THE_MACHINE = {"device", "jobs", "games", "progress", "checkpoint", "key"}
"""Parameters that name files, secrets or processors of this machine, or change the speed alone: not for a page."""
_SIZES = {"n_providers", "per_provider"}
"""Parameters of tasks that the page asks for by themselves."""
_DEFAULTS: dict[str, Value] = {"theta": 0.9, "estimator": "DecisionTreeClassifier"}
"""What stands in a control whose component has no default."""
_LONGEST = 200  # characters of a text
_TEXT = re.compile(r"[\w ;+|-]*")  # without dots and brackets no text names a module, or calls one


@dataclass(frozen=True)
class Control:
    """A parameter with a default, and a range that ends; ``of`` is the kind of components that it may name."""

    parameter: Parameter
    kind: str  # bool, int, float, choice or text
    default: Value
    choices: tuple[Value, ...] = ()
    of: str = ""

    def as_json(self) -> dict[str, Any]:
        """Describe the control to the page."""
        parameter = self.parameter
        label = parameter.title[:1].upper() + parameter.title[1:]
        found: dict[str, Any] = {
            "name": parameter.name, "kind": self.kind, "default": self.default, "label": label, "help": parameter.help,
        }  # fmt: skip
        if parameter.range is not None:
            step = (
                min(_STEP, self.default) if isinstance(self.default, float) and self.default else _STEP
            )
            found |= {"min": parameter.range.low, "max": parameter.range.high}
            found["step"] = 1 if self.kind == "int" else step
            if parameter.choices:
                found["words"] = [{"value": word, "label": word} for word in parameter.choices]
        if self.kind == "choice":
            found["choices"] = [
                {"value": value, "label": str(value) or "as the task has it"} for value in self.choices
            ]
        return found

    def validate(self, what: str, value: Any) -> Value:
        """Return the value; refuse what the page may not ask for."""
        named = f"{self.parameter.name} of {what}"
        if self.kind == "bool" and not isinstance(value, bool):
            raise ParameterError(named, value, "choose true or false")
        if self.kind == "choice" and value not in self.choices:
            if self.of and isinstance(value, str):
                return validate_spec(self.of, value)
            require_choice(named, value, map(str, self.choices))
        if self.kind == "text" and not (
            isinstance(value, str) and len(value) <= _LONGEST and _TEXT.fullmatch(value)
        ):
            raise ParameterError(named, value, "write letters, digits and any of _ ; + | -")
        if self.parameter.range is not None:
            dataclasses.replace(self.parameter, name=named).validate(value)
            if self.kind == "float" and not isinstance(value, str):
                return float(value)
        return value


def validate_spec(kind: str, spec: Spec) -> str:
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
    """The controls of a registered component."""
    component: Any = lookup(kind, name)
    is_written: bool = dataclasses.is_dataclass(component)
    return _controls(kind, component) if is_written else ()


@lru_cache(maxsize=256)
def _controls(kind: str, component: Any) -> tuple[Control, ...]:
    return tuple(
        _control(component, parameter)
        for parameter in parameters_of(component)
        if parameter.written
        and parameter.name not in _OF_THE_MACHINE
        and not (kind == "task" and parameter.name in _SIZES)
    )


def hidden_parameters(component: Any) -> list[str]:
    """The parameters of a component that no text gives: what they hold must be handed over in Python."""
    return [
        each.name
        for each in parameters_of(component)
        if not each.written and each.name not in _OF_THE_MACHINE
    ]


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
        makeable = _makeable(component, parameter.name, of)
        return Control(parameter, "choice", default, tuple(dict.fromkeys([default, *makeable])), of)
    if parameter.choices:
        return Control(parameter, "choice", default, parameter.choices)
    return Control(parameter, "text", default)


def _makeable(component: Any, parameter: str, kind: str) -> Iterator[str]:
    """The components of a kind that their names alone say in full."""
    for name in components(kind):
        try:
            component(**{parameter: name})
        except DataMarketError:
            continue
        yield name


def _bounded(parameter: Parameter, default: Value) -> Parameter:
    """The parameter with a range that ends: its own, or where it has none a few times the default."""
    usual = 1.0 if isinstance(default, str) else float(default)
    whole = parameter.type is int
    own = parameter.range or Range(min(usual, 1.0) if whole else 0.0)
    low = own.low + _STEP if own.open_low else own.low
    high = own.high
    if high > _LARGE * max(1.0, abs(usual)):
        high = max(10.0, 5 * usual) if whole else max(3.0, 5 * usual)
    low, high = (int(low), int(high)) if whole else (low, high)
    return dataclasses.replace(parameter, range=Range(low, high))
