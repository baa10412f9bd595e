"""How components are written: ``name``, ``name@value``, ``name(parameter=value, ...)`` or a mapping with a name."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from datamarket_gym.core.errors import DataMarketError, ParameterError

Spec = str | Mapping[str, Any]
FIRST = "@"
"""Stands for the first parameter, whatever its name."""


def parsed(kind: str, spec: Spec) -> tuple[str, dict[str, Any]]:
    """The name and the parameters that a written form gives."""
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
    """The text between commas that stand outside quotes and brackets."""
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
    """A value as `parsed` reads it back: bare words stay bare, whatever would be misread is quoted.

    What no text gives back (a function, a NaN inside a list) is refused.
    """
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
    """NumPy's numbers as Python's, in lists and mappings too."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (tuple, list):
        return type(value)(plain(v) for v in value)
    if type(value) is dict:
        return {plain(k): plain(v) for k, v in value.items()}
    return value


def _inner(value: Any) -> str:
    """A value's repr, with infinities, which are no literals, as 1e999, which is read back as one."""
    if type(value) in (tuple, list):
        inner = ", ".join(map(_inner, value)) + ("," if type(value) is tuple and len(value) == 1 else "")
        return f"[{inner}]" if type(value) is list else f"({inner})"
    if type(value) is dict:
        return "{" + ", ".join(f"{_inner(k)}: {_inner(v)}" for k, v in value.items()) + "}"
    return repr(value).replace("inf", "1e999") if isinstance(value, float) else repr(value)
