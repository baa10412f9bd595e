"""The code of modules that are not of this package: what a plug point of somebody else's is made of."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any


def is_ours(module: str) -> bool:
    """Whether a module is of this package."""
    return module.split(".")[0] == __name__.split(".")[0]


def files_of(home: str) -> dict[str, str]:
    """The text of a module's file and of those in its folder that it uses, by module; none of a notebook."""
    first = _file(sys.modules.get(home))
    if first is None:
        return {}
    todo = [home] if first.suffix == ".py" else []  # what is compiled names no files
    seen = {home: first.read_text(encoding="utf-8", errors="replace")}
    while todo:
        at = todo.pop()
        for name in _imported(seen[at], sys.modules[at].__package__):
            path = _file(sys.modules.get(name))
            if name in seen or is_ours(name) or path is None:
                continue
            if path.is_relative_to(first.parent) and not _is_library(path, first):
                seen[name] = path.read_text(encoding="utf-8", errors="replace")
                todo.append(name)
    return seen


def _imported(text: str, package: str | None) -> Iterator[str]:
    """The modules that a file names in its imports, and what might be modules in them."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = resolve_name("." * node.level + base, package or "")
            yield base
            yield from (f"{base}.{each.name}" for each in node.names)


def _file(module: ModuleType | None) -> Path | None:
    path = getattr(module, "__file__", None)
    return Path(path).resolve() if path and Path(path).is_file() else None


def _is_library(path: Path, first: Path) -> bool:
    """Whether a file below a script's folder is somebody else's: an environment may lie there."""
    inside = path.relative_to(first.parent).parts
    return path.suffix != ".py" or any(part in ("site-packages", "dist-packages") for part in inside)


def typed(made: Any) -> str:
    """What a class or function of a notebook does, of which there is no file: its code and its constants."""
    if isinstance(made, CodeType):
        inside = [typed(const) for const in made.co_consts]
        return repr((made.co_code.hex(), made.co_names, made.co_varnames, inside))
    if isinstance(made, type):
        return repr([(name, typed(part)) for name, part in sorted(vars(made).items())])
    made = getattr(made, "__func__", getattr(made, "fget", made))
    if hasattr(made, "__code__"):
        return repr((typed(made.__code__), repr(made.__defaults__), repr(made.__kwdefaults__)))
    return repr(made) if isinstance(made, str | int | float | complex | bytes | tuple) else ""
