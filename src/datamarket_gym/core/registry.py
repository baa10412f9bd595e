"""Plug points register themselves here; the CLI, the docs and the conformance tests look here.

A component is a frozen dataclass under a stable name. It is written in three equivalent ways::

    cosine@0.99                     the name, and the value of its first parameter
    noisy_oracle_latent(p_fs=0.1, p_fm=0.2)
    {"name": "cosine", "theta": 0.99}

Third parties register theirs by putting the same decorator on a class in a module that their
package names under the entry-point group ``datamarket_gym.plugins``.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, TypeVar

from datamarket_gym.core.errors import DataMarketError, ParameterError, UnknownNameError

T = TypeVar("T")

HOMES = {
    "encoder": "datamarket_gym.world.encoders",
    "partition": "datamarket_gym.world.tasks",
    "task": "datamarket_gym.world.tasks",
    "game": "datamarket_gym.games",
    "attack": "datamarket_gym.world.attacks",
    "evidence": "datamarket_gym.evidence",
    "representative": "datamarket_gym.quotient",
    "learner": "datamarket_gym.learners",
    "semivalue": "datamarket_gym.semivalues",
    "estimator": "datamarket_gym.semivalues",
    "allocation": "datamarket_gym.payments",
    "mechanism": "datamarket_gym.payments",
    "experiment": "datamarket_gym.lab",
}
"""Each kind of plug point and the package whose import registers the built-in ones."""

_components: dict[str, dict[str, Any]] = {kind: {} for kind in HOMES}


def register(kind: str, name: str) -> Callable[[T], T]:
    """Class (or function) decorator: makes it known as ``name`` among the plug points of ``kind``."""
    if kind not in HOMES:
        raise UnknownNameError("plug point", kind, HOMES)

    def add(component: T) -> T:
        if name in _components[kind]:
            raise DataMarketError(f"{kind} {name!r} is registered twice; choose another name")
        _components[kind][name] = component
        return component

    return add


@cache
def _load(kind: str) -> None:
    importlib.import_module(HOMES[kind])
    _load_plugins()


@cache
def _load_plugins() -> None:
    for entry in entry_points(group="datamarket_gym.plugins"):
        entry.load()


def components(kind: str) -> dict[str, Any]:
    """All registered components of a kind by name, sorted."""
    if kind not in HOMES:
        raise UnknownNameError("plug point", kind, HOMES)
    _load(kind)
    return dict(sorted(_components[kind].items()))


def lookup(kind: str, name: str) -> Any:
    """The component registered under a name."""
    known = components(kind)
    if name not in known:
        raise UnknownNameError(kind, name, known)
    return known[name]


def summary(component: Any) -> str:
    """A component's title, or else the first line of its docstring."""
    text: str = getattr(component, "title", None) or component.__doc__ or ""
    return text.strip().split("\n")[0]


def create(kind: str, spec: Any) -> Any:
    """Build a component from its written form (text or mapping); an instance passes through."""
    if not isinstance(spec, str | Mapping):
        return spec
    name, parameters = _parse(kind, spec)
    cls = lookup(kind, name)
    fields = [f for f in dataclasses.fields(cls) if f.init]
    if "@" in parameters:
        if not fields:
            raise ParameterError(f"{kind} {name}", parameters["@"], "it takes no parameter")
        parameters[fields[0].name] = parameters.pop("@")
    for parameter in parameters:
        if parameter not in {f.name for f in fields}:
            raise UnknownNameError(f"parameter of {kind} {name}", parameter, (f.name for f in fields))
    missing = [
        f.name
        for f in fields
        if f.name not in parameters
        and f.default is dataclasses.MISSING
        and f.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ParameterError(f"{kind} {name}", spec, f"give a value for {', '.join(missing)}")
    try:
        return cls(**parameters)
    except TypeError as error:
        raise ParameterError(f"{kind} {name}", spec, f"check its parameters ({error})") from error


def written(component: Any) -> str:
    """The short written form of a component; `create` reads it back."""
    name = name_of(component)
    changed = {
        f.name: getattr(component, f.name)
        for f in dataclasses.fields(component)
        if f.init and (f.default is dataclasses.MISSING or getattr(component, f.name) != f.default)
    }
    if not changed:
        return name
    first = next(f.name for f in dataclasses.fields(component) if f.init)
    if list(changed) == [first]:
        return f"{name}@{changed[first]}"
    return f"{name}({', '.join(f'{key}={value}' for key, value in changed.items())})"


def name_of(component: Any) -> str:
    """The name under which a component's class is registered."""
    for known in _components.values():
        for name, cls in known.items():
            if cls is type(component):
                return name
    raise DataMarketError(
        f"{type(component).__name__} is not registered; decorate it with @register(kind, name)"
    )


def _parse(kind: str, spec: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    if isinstance(spec, Mapping):
        parameters = dict(spec)
        if "name" not in parameters:
            raise ParameterError(kind, dict(spec), "the mapping needs a 'name'")
        return str(parameters.pop("name")), parameters
    match = re.fullmatch(r"\s*([\w.-]+)\s*(?:@\s*(.+?)|\((.*)\))?\s*", spec)
    if match is None:
        raise ParameterError(kind, spec, "write name, name@value or name(parameter=value, ...)")
    name, single, several = match.groups()
    if single is not None:
        return name, {"@": _literal(single)}
    parameters = {}
    for item in filter(None, (part.strip() for part in (several or "").split(","))):
        key, equals, value = item.partition("=")
        if not equals:
            raise ParameterError(kind, spec, f"write {item!r} as parameter=value")
        parameters[key.strip()] = _literal(value.strip())
    return name, parameters


def _literal(text: str) -> Any:
    if text in ("nan", "inf", "-inf"):
        return float(text)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
