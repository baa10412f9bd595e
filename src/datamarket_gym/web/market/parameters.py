"""What a component's parameters may be, as it says itself: it is given nonsense, and its refusal names the choices.

So no list of choices, and no range, is written twice, and components of plugins are described like our own. Ranges
that a component leaves open are cut off here: what a page asks for must end.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from datamarket_gym.core.errors import DataMarketError, ParameterError, UnknownNameError
from datamarket_gym.core.forms import FIRST, Spec, parsed
from datamarket_gym.core.registry import HOMES, components, create, lookup, written
from datamarket_gym.web.market.parameter_words import parameter_called

Value = bool | int | float | str

_NONSENSE = "\0"
_FAR = 10**9
_ONE_OF = re.compile(r"choose one of (.+)$")
_WITHIN = re.compile(r"choose a value in [\[(](-?[\d.e+]+), (-?[\d.e+]+|inf)\]")
_AT_LEAST = re.compile(r"choose a whole number of at least (-?\d+)")
_FINE = 0.01  # the step of numbers that are not whole
_LARGE = 1000.0  # times the default: a limit beyond is none that a slider could have
_OF_THE_MACHINE = {"device", "jobs", "games", "progress", "checkpoint", "key"}
"""Parameters that name files, secrets or processors of this machine, or change the speed alone: not for a page."""
_SIZES = {"n_providers", "per_provider"}
"""Parameters of tasks that the page asks for by themselves."""
_GIVEN: dict[tuple[str, str], Value] = {("lineage", "theta"): "auto"}
_GIVEN_BY_NAME: dict[str, Value] = {"theta": 0.9, "estimator": "DecisionTreeClassifier"}
"""What stands in a control whose component has no default."""
_LONGEST = 200  # characters of a text
_PLAIN = re.compile(
    r"[\w ;+|-]*"
)  # no dots and brackets: no text names a module, or what it is called with


@dataclass(frozen=True)
class Parameter:
    """A parameter of a component: its kind, its default, and its range or its choices.

    ``words`` may stand in the place of a number. A ``choice`` is one of ``choices``; where ``of`` names a kind of
    components, their written forms will do too.
    """

    name: str
    kind: str
    default: Value
    label: str
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[Value, ...] = ()
    words: tuple[str, ...] = ()
    of: str = ""

    @property
    def step(self) -> float | None:
        """Between two places of a slider."""
        if self.low is None or self.kind == "int":
            return None if self.low is None else 1
        return (
            min(_FINE, float(self.default)) if self.default and self.default not in self.words else _FINE
        )

    def as_json(self) -> dict[str, Any]:
        """What the page is told."""
        found: dict[str, Any] = {
            "name": self.name,
            "kind": self.kind,
            "default": self.default,
            "label": self.label,
            "help": self.help,
        }
        if self.low is not None:
            found |= {"min": self.low, "max": self.high, "step": self.step}
        if self.kind == "choice":
            found["choices"] = [{"value": value, "label": _label(value)} for value in self.choices]
        if self.words:
            found["words"] = [{"value": word, "label": word} for word in self.words]
        return found

    def checked(self, what: str, value: Any) -> Value:
        """The value, or an error that says what it may be."""
        named = f"{self.name} of {what}"
        match self.kind:
            case "bool":
                if not isinstance(value, bool):
                    raise ParameterError(named, value, "choose true or false")
            case "choice" if value not in self.choices:
                if not self.of or not isinstance(value, str):
                    raise ParameterError(named, value, f"choose one of {_listed(self.choices)}")
                return checked(self.of, value)
            case "int" | "float" if value not in self.words:
                return self._number(named, value)
            case "text":
                if not isinstance(value, str) or len(value) > _LONGEST or not _PLAIN.fullmatch(value):
                    raise ParameterError(named, value, "write letters, digits and any of _ ; + | -")
        return value

    def _number(self, named: str, value: Any) -> int | float:
        assert self.low is not None
        assert self.high is not None
        whole = self.kind == "int"
        right = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not right or not self.low <= value <= self.high:
            words = "".join(f", or {word}" for word in self.words)
            kind = "a whole number" if whole else "a number"
            raise ParameterError(
                named, value, f"choose {kind} from {self.low:g} to {self.high:g}{words}"
            )
        return value if whole else float(value)


def _label(value: Value) -> str:
    return str(value) or "as the task has it"


def _listed(values: tuple[Value, ...]) -> str:
    return ", ".join(map(str, values))


def checked(kind: str, spec: Spec) -> str:
    """The written form of a component, all of whose parameters a page may ask for and are within their range."""
    name, given = parsed(kind, spec)
    return _checked(lookup(kind, name), kind, name, _Given(repr(given), given))


@dataclass(frozen=True)
class _Given:
    """Parameters, told apart by how they are written: 1, 1.0 and true are not the same."""

    text: str
    values: dict[str, Any] = dataclasses.field(compare=False)


@lru_cache(maxsize=512)
def _checked(component: Any, kind: str, name: str, said: _Given) -> str:
    """The same, once for as long as nothing else is registered under the name."""
    given = said.values
    known = {parameter.name: parameter for parameter in parameters_of(kind, name)}
    what = f"{kind} {name}"
    if FIRST in given:
        first = _first(component)
        if first not in known:
            raise ParameterError(what, given[FIRST], "write its parameters by their names")
        given = {first: given[FIRST]}
    for each in given:
        if each not in known:
            raise UnknownNameError(f"parameter of {what}", each, known)
    required = {p.name: p.default for p in known.values() if _required(component, p.name)}
    values = {each: known[each].checked(what, value) for each, value in (required | given).items()}
    return written(create(kind, {"name": name, **values}))


def _first(component: Any) -> str:
    fields = dataclasses.fields(component) if dataclasses.is_dataclass(component) else ()
    return next((f.name for f in fields), "")


def _required(component: Any, name: str) -> bool:
    return any(f.name == name and _missing(f) for f in dataclasses.fields(component))


def _missing(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


@lru_cache(maxsize=256)
def parameters_of(kind: str, name: str) -> tuple[Parameter, ...]:
    """The parameters of a registered component that a page may offer."""
    component = lookup(kind, name)
    if not dataclasses.is_dataclass(component):
        return ()
    return tuple(_described(kind, name, component))


def hidden(component: Any) -> list[str]:
    """The parameters of a component that no text gives: what they hold must be handed over in Python."""
    return [
        f.name for f in dataclasses.fields(component) if not f.repr and f.name not in _OF_THE_MACHINE
    ]


def _described(kind: str, name: str, component: Any) -> Iterator[Parameter]:
    fields = [f for f in dataclasses.fields(component) if f.init and f.repr]
    base = {f.name: _default(name, f) for f in fields if _missing(f)}
    for field in fields:
        if field.name in _OF_THE_MACHINE or (kind == "task" and field.name in _SIZES):
            continue

        def refusal(value: Value, field: Any = field) -> str | None:
            return _refusal(component, {**base, field.name: value})

        label, words = parameter_called(kind, name, field.name) or (
            field.name.replace("_", " "),
            sentences(component.__doc__ or "", field.name),
        )
        yield _parameter(name, field, label[:1].upper() + label[1:], words, refusal)


def _default(name: str, field: dataclasses.Field[Any]) -> Value:
    default: Any = field.default
    if not _missing(field):
        return cast(Value, default)
    return _GIVEN.get((name, field.name), _GIVEN_BY_NAME.get(field.name, 1.0))


def _refusal(component: Callable[..., Any], values: Mapping[str, Any]) -> str | None:
    """Why a component cannot be made of these; None where it can."""
    try:
        component(**values)
    except DataMarketError as error:
        return str(error)
    return None


def _parameter(
    name: str,
    field: dataclasses.Field[Any],
    label: str,
    words: str,
    refusal: Callable[[Value], str | None],
) -> Parameter:
    default: Value = _default(name, field)
    annotation = field.type.__name__ if isinstance(field.type, type) else str(field.type)
    if annotation == "bool":
        return Parameter(field.name, "bool", default, label, words)
    if "int" in annotation or "float" in annotation:
        kind = "float" if "float" in annotation else "int"
        low, high = _range(kind, default, refusal)
        said = refusal(_NONSENSE) if "str" in annotation else None
        instead = tuple(w for w in re.findall(r"[a-z]+", said or "") if refusal(w) is None)
        return Parameter(field.name, kind, default, label, words, low, high, words=instead)
    if annotation != "str":
        return Parameter(field.name, "text", default, label, words)
    of = {"of": "task"}.get(field.name, field.name if field.name in HOMES else "")
    if of:
        choices = tuple(dict.fromkeys([default, *_makeable(of, refusal)]))
        return Parameter(field.name, "choice", default, label, words, choices=choices, of=of)
    found = _ONE_OF.search(refusal(_NONSENSE) or "")
    if found:
        return Parameter(
            field.name, "choice", default, label, words, choices=tuple(found[1].split(", "))
        )
    return Parameter(field.name, "text", default, label, words)


def _makeable(kind: str, refusal: Callable[[Value], str | None]) -> list[str]:
    """The components of a kind that their names alone say in full."""
    return [name for name in components(kind) if refusal(name) is None]


def _range(kind: str, default: Value, refusal: Callable[[Value], str | None]) -> tuple[float, float]:
    """The lowest and the highest value: the component's own, or where it has none a few times the default."""
    usual = float(default) if not isinstance(default, str) else 1.0
    low, high = (min(usual, 1.0), math.inf) if kind == "int" else (0.0, math.inf)
    for value in (math.nan,) if kind == "float" else (-_FAR, _FAR):
        said = refusal(value) or ""
        if least := _AT_LEAST.search(said):
            low = float(least[1])
        if within := _WITHIN.search(said):
            low, high = float(within[1]), float(within[2])
    if kind == "float" and refusal(low) is not None:  # an open end
        low += _FINE
    if high > _LARGE * max(1.0, abs(usual)):
        high = max(10.0, 5 * usual) if kind == "int" else max(3.0, 5 * usual)
    return (int(low), int(high)) if kind == "int" else (low, high)


def sentences(text: str, name: str) -> str:
    """The sentences of a docstring that speak of a parameter, in plain text."""
    parts = re.split(r"(?<=[.;])\s+", " ".join(text.split()))
    return plain(" ".join(part for part in parts if f"``{name}``" in part or f"``{name}=" in part))


def plain(text: str) -> str:
    """Words of a docstring without its marks."""
    return re.sub(r"`+([^`]*)`+", r"\1", " ".join(text.split()))
