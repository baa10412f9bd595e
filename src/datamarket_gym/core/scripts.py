"""Python files of one's own, loaded for the plug points that they register."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from datamarket_gym.core.errors import DataMarketError


def load(files: Iterable[Path]) -> None:
    """Import files by their names, as a script beside them would; worker processes find them the same way."""
    for file in files:
        _load(file)


def _load(file: Path) -> None:
    if not file.is_file() or file.suffix != ".py":
        raise DataMarketError(f"there is no Python file {str(file)!r}; name one that ends in .py")
    name = file.stem
    if not name.isidentifier():
        raise DataMarketError(
            f"{file.name!r} cannot be imported by its name; use letters, digits and _, as in my_market.py"
        )
    there = find_spec(name)
    if name in sys.modules or (there is not None and there.origin != str(file.resolve())):
        raise DataMarketError(f"{file.name!r} has the name of a module that is there already; rename it")
    # Last, so that nothing beside the file can stand in for a library.
    sys.path.append(str(file.resolve().parent))
    try:
        importlib.import_module(name)
    except Exception as error:
        raise DataMarketError(
            f"{str(file)!r} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
