"""Parameters of components: what their annotations allow, checked once for all components.

A component says beside each parameter what it may be, and in a few words what it means::

    share: Annotated[float, Range(0, 1), "share of the units that are copied; 0 copies none"] = 0.5
    victim: Annotated[int | str, Range(1), OneOf("all"), "which provider"] = 1

The text is the parameter's title and, after a semicolon, further help.

Construction refuses anything else (`Component`), and forms, help texts and documentation read it from there.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from datamarket_gym.display import Described
from datamarket_gym.errors import (
    DataMarketError,
    ParameterError,
    require_choice,
    require_count,
    require_in,
)

__all__ = ["Component", "OneOf", "Parameter", "Range", "parameters_of"]

MISSING: Any = dataclasses.MISSING


@dataclass(frozen=True)
class Range:
    """The numbers from ``low`` to ``high``, without ``low`` itself where it is open."""

    low: float
    high: float = math.inf
    open_low: bool = False


@dataclass(frozen=True, init=False)
class OneOf:
    """The words that a parameter may be; beside a `Range`, those that stand in the place of a number."""

    words: tuple[str, ...]

    def __init__(self, *words: str) -> None:
        object.__setattr__(self, "words", words)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a component.

    Parameters
    ----------
    name
        As the constructor has it.
    type
        ``bool``, ``int``, ``float`` or ``str``; ``object`` where it is none of these.
    default
        The value where none is passed; `MISSING` where one must be.
    title
        What forms call it: a short phrase.
    help
        What the title leaves unclear.
    range
        The numbers that it may be; None where any will do.
    choices
        The words that it may be, beside the numbers of the range.
    written
        Whether a written form can hold it.
    """

    name: str
    type: type
    default: Any = MISSING
    title: str = ""
    help: str = ""
    range: Range | None = None
    choices: tuple[str, ...] = ()
    written: bool = True

    def validate(self, value: Any) -> None:
        """Refuse a value that is neither within the range nor one of the choices."""
        numeric = self.range is not None
        if numeric and not (isinstance(value, str) and value in self.choices):
            try:
                self._validate_number(value)
            except ParameterError as error:
                if not self.choices:
                    raise
                remedy = ", or ".join([error.remedy, *self.choices])
                raise ParameterError(self.name, value, remedy) from None
        elif self.choices and not numeric:
            require_choice(self.name, value, self.choices)

    def _validate_number(self, value: Any) -> None:
        assert self.range is not None
        low, high = self.range.low, self.range.high
        if isinstance(value, bool):
            raise ParameterError(self.name, value, "choose a number")
        if self.type is int:
            require_count(self.name, value, at_least=int(low))
        if self.type is not int or high < math.inf:
            require_in(self.name, value, low, high, open_low=self.range.open_low)


class Component(Described):
    """Something that can be registered: it has a title and a summary, and its parameters are checked when it is made.

    A class that says neither is called by the name under which it is registered, and its summary is the first sentence
    of its docstring.
    """

    title: ClassVar[str] = ""
    """What tables, figures and forms call it: a short noun phrase."""
    summary: ClassVar[str] = ""
    """What it does, in a sentence."""

    def __post_init__(self) -> None:
        """Refuse parameters that their annotations do not allow."""
        cls: Any = type(self)
        for parameter in parameters_of(cls):
            if parameter.range is not None or parameter.choices:
                parameter.validate(getattr(self, parameter.name))

    def __str__(self) -> str:
        """Return the written form, which `create` reads back; of what is registered nowhere, its ``repr``."""
        from datamarket_gym.registry import written

        try:
            return written(self)
        except DataMarketError:
            return repr(self)


@lru_cache(maxsize=512)
def parameters_of(component: Any) -> tuple[Parameter, ...]:
    """Read the parameters of a component off its constructor.

    Parameters
    ----------
    component
        A dataclass, or whatever can be called.

    Returns
    -------
    tuple of Parameter
        In the order of the constructor.
    """
    return tuple(_read(component))


def _read(component: Any) -> Iterator[Parameter]:
    if dataclasses.is_dataclass(component):
        shown = {f.name: f.repr for f in dataclasses.fields(component)}
        hints = _hints(component)
    else:
        shown, hints = {}, _hints(getattr(component, "__init__", component))
    try:
        signature: Mapping[str, inspect.Parameter] = inspect.signature(component).parameters
    except (TypeError, ValueError):  # an object, or what C wrote
        return
    for name, each in signature.items():
        hint = hints.get(name, Any)
        marks = getattr(hint, "__metadata__", ())
        plain = get_args(hint)[0] if marks else hint
        words = [word for mark in marks if isinstance(mark, OneOf) for word in mark.words]
        words += get_args(plain) if get_origin(plain) is Literal else ()
        text = next((mark for mark in reversed(marks) if isinstance(mark, str)), "")
        title, _, more = text.partition("; ")
        yield Parameter(
            name,
            _type_of(plain),
            MISSING if each.default is each.empty else each.default,
            title or name.replace("_", " "),
            more if title else sentences_about(component.__doc__ or "", name),
            next((mark for mark in reversed(marks) if isinstance(mark, Range)), None),
            tuple(words),
            shown.get(name, True),
        )


def _hints(owner: Any) -> Mapping[str, Any]:
    """Annotations with their marks; where one cannot be read, as in a function's body, those that can."""
    try:
        return get_type_hints(owner, include_extras=True)
    except Exception:  # whatever an annotation of somebody else's raises
        found: dict[str, Any] = {}
        for cls in reversed(getattr(owner, "__mro__", (owner,))):
            names = vars(sys.modules[cls.__module__])
            for name, hint in vars(cls).get("__annotations__", {}).items():
                try:
                    found[name] = eval(hint, dict(names)) if isinstance(hint, str) else hint
                except Exception:
                    found[name] = {"int": int, "float": float, "str": str, "bool": bool}.get(hint, Any)
        return MappingProxyType(found)


def _type_of(hint: Any) -> type:
    """The type whose control a form has: of a union the number, of literals their own."""
    if get_origin(hint) is Literal:
        hint = type(get_args(hint)[0])
    several = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    several = tuple(get_args(each)[0] if get_origin(each) is Annotated else each for each in several)
    return next((each for each in (bool, float, int, str) if each in several), object)


def sentences_about(text: str, name: str) -> str:
    """Find the sentences of a docstring that speak of a parameter, in plain text."""
    parts = re.split(r"(?<=[.;])\s+", " ".join(text.split()))
    return plain_text(" ".join(p for p in parts if f"``{name}``" in p or f"``{name}=" in p))


def first_sentence(text: str) -> str:
    """Cut a docstring after its first sentence, in plain text."""
    paragraph = text.strip().split("\n\n")[0]
    return plain_text(re.split(r"(?<=\.)\s+(?=[A-Z`])", paragraph)[0])


def plain_text(text: str) -> str:
    """Strip a docstring of its marks and line breaks."""
    return re.sub(r"`+([^`]*)`+", r"\1", " ".join(text.split()))
