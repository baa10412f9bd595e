"""Plug points: how components are registered, described, written as text and built from it.

A component is a frozen dataclass under a stable name. It is written in three equivalent ways::

    cosine@0.99                     the name, and the value of its first parameter
    noisy_oracle_latent(p_fs=0.1, p_fm=0.2)
    {"name": "cosine", "theta": 0.99}

It says beside each parameter what it may be, and in a few words what it means::

    share: Annotated[float, Range(0, 1), "share of the units that are copied; 0 copies none"] = 0.5
    victim: Annotated[int | str, Range(1), OneOf("all"), "which provider"] = 1

The text is the parameter's title and, after a semicolon, further help. Construction refuses anything else
(`Component`); forms, help texts and documentation read the same annotations.

Each package declares its kinds of plug points as `Kind` objects, which know the type of what they build; `create`
reaches all of them by name. Other packages register theirs by the same decorator, in a module that they name under
the entry-point group ``datamarket_gym.plugins``, or in a file that ``--load`` names.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib
import inspect
import math
import re
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import entry_points
from importlib.util import find_spec, resolve_name
from pathlib import Path
from types import CodeType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from datamarket_gym.display import Described, Shown
from datamarket_gym.errors import (
    DataMarketError,
    ParameterError,
    PluginWarning,
    UnknownNameError,
    require_choice,
    require_count,
    require_in,
    require_known,
)

__all__ = [
    "HOMES",
    "MISSING",
    "Component",
    "Description",
    "Document",
    "Kind",
    "OneOf",
    "Parameter",
    "Range",
    "broken_plugins",
    "components",
    "create",
    "describe",
    "lookup",
    "name_of",
    "parameters_of",
    "register",
    "written",
]

MISSING: Any = dataclasses.MISSING


@dataclass(frozen=True)
class Range:
    """The numbers from ``low`` to ``high``, without ``low`` itself where it is open."""

    low: float
    high: float = math.inf
    open_low: bool = False


class OneOf(tuple[str, ...]):
    """The words that a parameter may be; beside a `Range`, those that stand in the place of a number."""

    __slots__ = ()

    def __new__(cls, *words: str) -> OneOf:
        return super().__new__(cls, words)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a component: what it may be, and what forms call it."""

    name: str
    type: type
    default: Any = MISSING
    title: str = ""
    help: str = ""
    range: Range | None = None
    choices: tuple[str, ...] = ()
    written: bool = True

    def validate(self, value: Any) -> None:
        if self.range is None:
            if self.choices:
                require_choice(self.name, value, self.choices)
        elif not (isinstance(value, str) and value in self.choices):
            try:
                self._validate_number(value, self.range)
            except ParameterError as error:
                remedy = ", or ".join([error.remedy, *self.choices])
                raise ParameterError(self.name, value, remedy) from None

    def _validate_number(self, value: Any, range: Range) -> None:
        if isinstance(value, bool):
            raise ParameterError(self.name, value, "choose a number")
        if self.type is int:
            require_count(self.name, value, at_least=int(range.low))
        if self.type is not int or range.high < math.inf:
            require_in(self.name, value, range.low, range.high, open_low=range.open_low)


class Component(Described):
    """Something that can be registered, whose parameters are checked by their annotations when it is made.

    Without a title it is called by its registered name; without a summary, the first sentence of its docstring is it.
    """

    title: ClassVar[str] = ""
    """What tables, figures and forms call it: a short noun phrase."""
    summary: ClassVar[str] = ""
    """What it does, in a sentence."""

    def __post_init__(self) -> None:
        cls: Any = type(self)
        for parameter in parameters_of(cls):
            if parameter.range is not None or parameter.choices:
                parameter.validate(getattr(self, parameter.name))

    def __str__(self) -> str:
        """Return the written form, which `create` reads back; of what is registered nowhere, its ``repr``."""
        try:
            return written(self)
        except DataMarketError:
            return repr(self)


@lru_cache(maxsize=512)
def parameters_of(component: Any) -> tuple[Parameter, ...]:
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
        words = [word for mark in marks if isinstance(mark, OneOf) for word in mark]
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
    """Return annotations with their marks; where one cannot be read, as in a function's body, those that can."""
    try:
        return get_type_hints(owner, include_extras=True)
    except Exception:  # whatever an annotation of a plugin raises
        hints: dict[str, Any] = {}
        for cls in reversed(getattr(owner, "__mro__", (owner,))):
            names = vars(sys.modules[cls.__module__])
            for name, hint in vars(cls).get("__annotations__", {}).items():
                try:
                    hints[name] = eval(hint, dict(names)) if isinstance(hint, str) else hint
                except Exception:
                    hints[name] = Any
        return hints


def _type_of(hint: Any) -> type:
    """Return the type whose control a form has: of a union the number, of literals their own."""
    if get_origin(hint) is Literal:
        hint = type(get_args(hint)[0])
    several = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    several = tuple(get_args(each)[0] if get_origin(each) is Annotated else each for each in several)
    return next((each for each in (bool, float, int, str) if each in several), object)


def sentences_about(text: str, name: str) -> str:
    """Find the sentences of a docstring that speak of a parameter, in plain text."""
    parts = re.split(r"(?<=[.;])\s+", " ".join(text.split()))
    return plain_text(" ".join(p for p in parts if f"``{name}``" in p or f"``{name}=" in p))


def plain_text(text: str) -> str:
    return re.sub(r"`+([^`]*)`+", r"\1", " ".join(text.split()))


Spec = str | Mapping[str, Any]
FIRST = "@"
"""Stands for the first parameter, whatever its name."""


def parsed(kind: str, spec: Spec) -> tuple[str, dict[str, Any]]:
    if isinstance(spec, Mapping):
        parameters = dict(spec)
        if "name" not in parameters:
            raise ParameterError(kind, dict(spec), "the mapping needs a 'name'")
        return str(parameters.pop("name")), parameters
    match = re.fullmatch(r"\s*([\w.-]+)\s*(?:@\s*(.+?)|\((.*)\))?\s*", spec, flags=re.DOTALL)
    if match is None:
        raise ParameterError(kind, spec, "write name, name@value or name(parameter=value, ...)")
    name, single, several = match.groups()
    if single is not None:
        return name, {FIRST: _literal(single)}
    parameters = {}
    for item in _items(several or ""):
        key, equals, value = item.partition("=")
        if not equals:
            raise ParameterError(kind, spec, f"write {item!r} as parameter=value")
        if key.strip() in parameters:
            raise ParameterError(kind, spec, f"give {key.strip()!r} once")
        parameters[key.strip()] = _literal(value.strip())
    return name, parameters


def _items(text: str) -> list[str]:
    """Split text at commas that stand outside quotes and brackets."""
    parts, depth, quote, start = [], 0, "", 0
    escaped = False
    for at, sign in enumerate(text):
        if quote:
            if not escaped and sign == quote:
                quote = ""
            escaped = sign == "\\" and not escaped
        elif sign in "'\"":
            quote = sign
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        elif sign == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]


def _literal(text: str) -> Any:
    if text in ("nan", "inf", "-inf"):
        return float(text)
    if text in ("true", "false"):  # as TOML and JSON have them: the word 'false' would count as true
        return text == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def text_of(value: Any) -> str:
    """Write a value as `parsed` reads it back; refuse what no text gives back (a function, a NaN inside a list)."""
    value = plain(value)
    if isinstance(value, str):
        bare = value and _items(f"{value}, x") == [value, "x"] and _literal(value) == value
        return value if bare and not set(value) & set("'\"\\\n") else repr(value)
    text = repr(value) if isinstance(value, float) else _inner(value)
    again = _literal(text)
    if type(again) is not type(value) or (again != value and value == value):
        raise DataMarketError(
            f"{value!r} has no written form; use numbers, texts, and lists or mappings of them"
        )
    return text


def plain(value: Any) -> Any:
    """Return NumPy's numbers as Python's, in lists and mappings too."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (tuple, list):
        return type(value)(plain(v) for v in value)
    if type(value) is dict:
        return {plain(k): plain(v) for k, v in value.items()}
    return value


def _inner(value: Any) -> str:
    """Write a value's repr, with infinities, which are no literals, as 1e999, which is read back as one."""
    if type(value) in (tuple, list):
        inner = ", ".join(map(_inner, value)) + ("," if type(value) is tuple and len(value) == 1 else "")
        return f"[{inner}]" if type(value) is list else f"({inner})"
    if type(value) is dict:
        return "{" + ", ".join(f"{_inner(k)}: {_inner(v)}" for k, v in value.items()) + "}"
    return repr(value).replace("inf", "1e999") if isinstance(value, float) else repr(value)


def is_ours(module: str) -> bool:
    return module.split(".")[0] == __name__.split(".")[0]


def files_of(home: str) -> dict[str, str]:
    """Read a module's file and those in its folder that it imports, by module; nothing of a notebook."""
    first = _file(home)
    seen: dict[str, str] = {}
    todo = [home] if first else []
    while todo:
        name = todo.pop()
        path = _file(name)
        if first is None or path is None or name in seen:
            continue
        inside = path.is_relative_to(first.parent) and path.suffix == ".py" and not is_ours(name)
        if name == home or (inside and not {"site-packages", "dist-packages"} & set(path.parts)):
            seen[name] = path.read_text(encoding="utf-8", errors="replace")
            if path.suffix == ".py":  # what is compiled names no files
                todo += _imported(seen[name], sys.modules[name].__package__)
    return seen


def _imported(text: str, package: str | None) -> Iterator[str]:
    """Name the modules that a file imports, and what might be modules in them."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package or "")
            yield from (base, *(f"{base}.{each.name}" for each in node.names))


def _file(module: str) -> Path | None:
    path = getattr(sys.modules.get(module), "__file__", None)
    return Path(path).resolve() if path and Path(path).is_file() else None


def typed(made: Any) -> str:
    """Describe a class or function of a notebook, of which there is no file, by its code and its constants."""
    if isinstance(made, CodeType):
        inside = [typed(const) for const in made.co_consts]
        return repr((made.co_code.hex(), made.co_names, made.co_varnames, inside))
    if isinstance(made, type):
        return repr([(name, typed(part)) for name, part in sorted(vars(made).items())])
    made = getattr(made, "__func__", getattr(made, "fget", made))
    if hasattr(made, "__code__"):
        return repr((typed(made.__code__), repr(made.__defaults__), repr(made.__kwdefaults__)))
    return repr(made) if isinstance(made, str | int | float | complex | bytes | tuple) else ""


T = TypeVar("T")

HOMES = {
    "encoder": "datamarket_gym.market.encoders",
    "partition": "datamarket_gym.market.tasks",
    "task": "datamarket_gym.market.tasks",
    "game": "datamarket_gym.games",
    "attack": "datamarket_gym.market.attacks",
    "evidence": "datamarket_gym.evidence",
    "representative": "datamarket_gym.mechanism",
    "learner": "datamarket_gym.utilities",
    "similarity": "datamarket_gym.utilities",
    "semivalue": "datamarket_gym.games",
    "estimator": "datamarket_gym.games",
    "allocation": "datamarket_gym.mechanism",
    "mechanism": "datamarket_gym.benchmark.baselines",
    "experiment": "datamarket_gym.experiments",
}
"""Each kind of plug point and the package whose import declares it and registers the built-in ones."""

_PLUGINS = "datamarket_gym.plugins"

_components: dict[str, dict[str, Any]] = {kind: {} for kind in HOMES}
_kinds: dict[str, Kind[Any]] = {}
_by: dict[tuple[str, str], str] = {}  # the module that registered a component
_broken: dict[str, str] = {}  # why a plugin could not be loaded


def _require_kind(kind: str) -> None:
    require_known("plug point", [kind], HOMES)


class Kind(Generic[T]):
    """One kind of plug point, declared once beside the class ``of`` that its components derive from.

    ``build`` makes a component from a text, or a mapping's name and parameters, in place of its class; ``write`` gives
    the text back.
    """

    def __init__(
        self,
        name: str,
        of: type,
        build: Callable[[str, dict[str, Any]], T] | None = None,
        write: Callable[[T], str] | None = None,
    ) -> None:
        _require_kind(name)
        self.name, self.of, self.write, self._build = name, of, write, build
        _kinds[name] = self

    def create(self, spec: Spec | T) -> T:
        """Build a component from its written form (text or mapping); an instance passes through."""
        if isinstance(spec, str | Mapping):
            if self._build is None:
                return self.construct(spec)
            return self._build(*((spec, {}) if isinstance(spec, str) else parsed(self.name, spec)))
        if isinstance(spec, type):
            raise ParameterError(self.name, spec.__name__, f"pass an instance, as {spec.__name__}(...)")
        if not isinstance(spec, self.of):
            raise ParameterError(
                self.name, type(spec).__name__, "pass its written form, a mapping or an instance"
            )
        return spec

    def construct(self, spec: Spec, changes: Mapping[str, Any] | None = None) -> T:
        """Construct the class that a written form names, with some parameters changed."""
        name, given = parsed(self.name, spec)
        cls: Callable[..., T] = lookup(self.name, name)
        what = f"{self.name} {name}"
        takes = _taken_by(cls)
        if FIRST in given:
            if not takes:
                raise ParameterError(what, given[FIRST], "it takes no parameter")
            given = {next(iter(takes)): given[FIRST]}
        given |= changes or {}
        for parameter in given:
            if parameter not in takes:
                raise UnknownNameError(f"parameter of {what}", parameter, takes)
        missing = [p.name for p in takes.values() if p.name not in given and p.default is p.empty]
        if missing:
            raise ParameterError(what, spec, f"give a value for {', '.join(missing)}")
        try:
            return cls(**given)
        except TypeError as error:
            raise ParameterError(what, spec, f"check its parameters ({error})") from error


@lru_cache(maxsize=256)
def _taken_by(cls: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a constructor, cached: experiments ask for the same ones at each payment."""
    return inspect.signature(cls).parameters


_NAME = re.compile(r"[\w.-]+")


def register(kind: str, name: str, *, by: str | None = None) -> Callable[[T], T]:
    """Register a class or a function under a name, as a decorator.

    Parameters
    ----------
    kind, name
        The kind of plug point, such as ``attack``, and a name that is neither built in nor of another module.
    by
        The module that registers, where it is not the one that calls.

    Returns
    -------
    Callable
        The decorator, which returns what it decorates.
    """
    _require_kind(kind)
    if _NAME.fullmatch(name) is None:
        raise ParameterError(f"name of the {kind}", name, "use letters, digits and any of _ . -")

    # The module that registers, not the one of the class.
    who = str(sys._getframe(1).f_globals.get("__name__", "")) if by is None else by

    def add(component: T) -> T:
        if not is_ours(who):
            # The built-in names first: else one that is not loaded yet could be taken.
            importlib.import_module(HOMES[kind])
        registered = _components[kind].get(name)
        if registered is not None and not _again(registered, _by[kind, name], component, who):
            raise DataMarketError(
                f"{kind} {name!r} is registered twice, by {_by[kind, name]} and by {who}; choose another name"
            )
        _components[kind][name], _by[kind, name] = component, who
        return component

    return add


def _again(registered: Any, known_by: str, component: Any, by: str) -> bool:
    """Tell if a component is another version of a registered one; what is typed at a prompt may change its name."""
    if is_ours(by) or known_by != by:
        return False
    typed = by == "__main__" and not hasattr(sys.modules["__main__"], "__file__")
    return typed or _made(registered).__qualname__ == _made(component).__qualname__


def registered_elsewhere() -> dict[tuple[str, str], Any]:
    """Return components by kind and name that are not of this package: a script's, a notebook's, a plugin's."""
    return {
        (kind, name): component
        for kind, registered in _components.items()
        for name, component in registered.items()
        if not is_ours(_by[kind, name])
    }


def source_elsewhere(kind: str, name: str) -> tuple[str, str] | None:
    """Return the module that registered a component and a hash of its code; None for those of this package."""
    lookup(kind, name)
    if is_ours(by := _by[kind, name]):
        return None
    made = _components[kind][name]
    return by, sources_elsewhere()[_home(kind, name, made)]


def sources_elsewhere() -> dict[str, str]:
    """Hash by module the code of those components, the files beside them that they import, and objects."""
    parts: dict[str, set[str]] = {}
    for (kind, name), component in registered_elsewhere().items():
        made, home = _made(component), _home(kind, name, component)
        code = parts.setdefault(home, set())
        code.update(files_of(home).values() or [typed(made)])
        if made is not component:
            code.add(re.sub(r" at 0x[0-9a-fA-F]+", "", f"{kind} {name} {component!r}"))
    return {h: hashlib.sha256("\0".join(sorted(code)).encode()).hexdigest() for h, code in parts.items()}


def scripts_elsewhere() -> set[str]:
    """Return the modules of those components, and those beside them that they import, unless installed as plugins."""
    installed = {entry.module.split(".")[0] for entry in entry_points(group=_PLUGINS)}
    homes = {_home(*key, component) for key, component in registered_elsewhere().items()}
    return {name for home in homes for name in files_of(home) if name.split(".")[0] not in installed}


def _made(component: Any) -> Any:
    """Return the class or function of a component, which may be an object."""
    return component if hasattr(component, "__qualname__") else type(component)


def _home(kind: str, name: str, component: Any) -> str:
    """Return the module in which a foreign component is written."""
    module: str = _made(component).__module__
    return _by[kind, name] if is_ours(module) else module


def adopt(registered: Mapping[tuple[str, str], Any]) -> None:
    """Make known here, in a worker, what another process has registered; what is built in stays."""
    for (kind, name), component in registered.items():
        if name not in _components[kind] or not is_ours(_by[kind, name]):
            by = str(component.__module__)
            _components[kind][name], _by[kind, name] = component, "__main__" if is_ours(by) else by


@cache
def _load(kind: str) -> None:
    importlib.import_module(HOMES[kind])
    _load_plugins()


@cache
def _load_plugins() -> None:
    for entry in entry_points(group=_PLUGINS):
        try:
            entry.load()
        except (Exception, SystemExit) as error:  # whatever a foreign module does, ours go on
            why = (
                f"the plugin {entry.name!r} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}; "
                "mend it or uninstall its package"
            )
            _broken[entry.name] = why
            warnings.warn(PluginWarning(why), stacklevel=2)


def broken_plugins() -> dict[str, str]:
    _load_plugins()
    return dict(_broken)


def components(kind: str) -> dict[str, Any]:
    _require_kind(kind)
    _load(kind)
    return dict(sorted(_components[kind].items()))


def lookup(kind: str, name: str) -> Any:
    registered = components(kind)
    if name not in registered:
        raise UnknownNameError(kind, name, registered, *_broken.values())
    return registered[name]


@dataclasses.dataclass(frozen=True)
class Description:
    title: str
    summary: str
    parameters: tuple[Parameter, ...]


def describe(kind: str, spec: Spec) -> Description:
    """Describe the registered component that a written form begins with."""
    text = str(spec.get("name", "")) if isinstance(spec, Mapping) else spec
    name = re.split(r"[^\w.-]", text.strip(), maxsplit=1)[0]
    component = lookup(kind, name)
    if hasattr(component, "__qualname__"):  # a class or a function; what it inherits describes another
        own, text = vars(component), component.__doc__ or ""
        parameters = parameters_of(component)
    else:
        own, text = {key: getattr(component, key, "") for key in ("title", "summary")}, ""
        parameters = ()
    return Description(
        own.get("title") or name.replace("_", " "),
        own.get("summary")
        or plain_text(re.split(r"(?<=\.)\s+(?=[A-Z`])", text.strip().split("\n\n")[0])[0]),
        parameters,
    )


def create(kind: str, spec: Any) -> Any:
    """Create a component from its written form.

    Parameters
    ----------
    kind, spec
        The kind of plug point, such as ``attack``, and a written form, a mapping, or an instance, which passes through.

    Returns
    -------
    Any
        The component.
    """
    _require_kind(kind)
    _load(kind)
    return _kinds[kind].create(spec)


def written(component: object) -> str:
    """Return the short written form of a component; `create` reads it back."""
    for kind in _kinds.values():
        if kind.write is not None and isinstance(component, kind.of):
            return kind.write(component)
    return written_fields(component)


def written_fields(component: object) -> str:
    """Return the name of a component's class and those shown parameters that are not as by default."""
    name, registered = _found(component)
    if registered is component:
        return name
    if not dataclasses.is_dataclass(component):
        raise DataMarketError(f"{name} is no frozen dataclass, so it has no written form")
    fields = [f for f in dataclasses.fields(component) if f.init and f.repr]
    values = {f.name: getattr(component, f.name) for f in fields}
    changed = {f.name: values[f.name] for f in fields if values[f.name] != f.default}
    if not changed:
        return name
    if list(changed) == [fields[0].name]:
        single = f"{name}@{text_of(changed[fields[0].name])}"
        if parsed("", single)[1].keys() == {FIRST}:
            return single
    return f"{name}({', '.join(f'{key}={text_of(value)}' for key, value in changed.items())})"


def name_of(component: object) -> str:
    return _found(component)[0]


def display_name(component: object) -> str:
    """Return the name a component is registered under; of one that is not, its own ``name`` or that of its class."""
    try:
        return name_of(component)
    except DataMarketError:
        return str(getattr(component, "name", type(component).__name__))


def _found(component: object) -> tuple[str, Any]:
    for registered_here in _components.values():
        for name, registered in registered_here.items():
            if registered is component or registered is type(component):
                return name, registered
    raise DataMarketError(
        f"{type(component).__name__} is not registered; decorate it with @register(kind, name)"
    )


def load(files: Iterable[Path]) -> None:
    """Import files by their names, as a script beside them would; worker processes find them the same way."""
    for file in files:
        if not file.is_file() or file.suffix != ".py":
            raise DataMarketError(f"there is no Python file {str(file)!r}; name one that ends in .py")
        name = file.stem
        if not name.isidentifier():
            raise DataMarketError(
                f"{file.name!r} cannot be imported by its name; use letters, digits and _, as in my_market.py"
            )
        there = find_spec(name)
        if name in sys.modules or (there is not None and there.origin != str(file.resolve())):
            raise DataMarketError(
                f"{file.name!r} has the name of a module that is there already; rename it"
            )
        # Last, so that nothing beside the file can stand in for a library.
        sys.path.append(str(file.resolve().parent))
        try:
            importlib.import_module(name)
        except Exception as error:
            raise DataMarketError(
                f"{str(file)!r} cannot be loaded: {type(error).__name__}: {error}"
            ) from error


class Document(Shown, BaseModel):
    """A frozen model that refuses unknown keys by name."""

    model_config = ConfigDict(frozen=True, extra="forbid")


D = TypeVar("D", bound=BaseModel)


def from_toml(model: type[D], text: str, origin: str) -> D:
    try:
        return model(**tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise DataMarketError(f"{origin} is not valid TOML: {error}") from error
    except ValidationError as error:
        raise fault(error, f"{origin}: ") from error


def fault(error: ValidationError, before: str = "") -> DataMarketError:
    """Return the first thing that pydantic found wrong, as an error of ours; one of ours passes through."""
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, DataMarketError):
        return cause
    where = ".".join(str(part) for part in first["loc"])
    return ParameterError(f"{before}{where}", first["input"], first["msg"])
