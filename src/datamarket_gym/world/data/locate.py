"""Finding data: the folder one names, a folder beside the project, the user's cache, the public hub.

Nothing of it comes with the package. A file is looked for in ``DATAMARKET_DATA`` (or ``--data``),
then in ``../shared/data``, then in the user's cache; what is nowhere is downloaded into the cache.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from datamarket_gym.core.errors import DataMarketError

BESIDE = Path("../shared/data")

_named: ContextVar[Path | None] = ContextVar("the data folder that --data names", default=None)


def cache_folder() -> Path:
    """The user's cache: ``DATAMARKET_CACHE``, or else the platform's cache folder."""
    if named := os.environ.get("DATAMARKET_CACHE"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "datamarket-gym"


@contextmanager
def looking_in(folder: Path | None) -> Iterator[None]:
    """Within the block, look in this folder first; None changes nothing.

    What sends work to other processes sends `named_folder` along.
    """
    token = _named.set(folder or _named.get())
    try:
        yield
    finally:
        _named.reset(token)


def named_folder() -> Path | None:
    """The folder to look in first, if one is named."""
    variable = os.environ.get("DATAMARKET_DATA")
    return _named.get() or (Path(variable) if variable else None)


def folders() -> list[Path]:
    """Where data is looked for, in order."""
    named = named_folder()
    if named is not None and not named.is_dir():
        raise DataMarketError(
            f"DATAMARKET_DATA (or --data) names {str(named)!r}, which is not a folder; check the path"
        )
    return [*([named] if named is not None else []), BESIDE, cache_folder()]


def find(name: str) -> Path | None:
    """The first folder's file of that name, or None; absolute, so that it can name what was read."""
    found = next((folder / name for folder in folders() if (folder / name).is_file()), None)
    return None if found is None else found.resolve()


def data_file(name: str) -> Path:
    """A file, downloaded into the cache if it is in none of the folders."""
    found = find(name)
    if found is not None:
        return found
    from datamarket_gym.world.data.hub import SOURCES, obtain

    if name not in SOURCES:
        looked = ", ".join(str(folder) for folder in folders())
        raise DataMarketError(
            f"there is no {name!r} in {looked}; put it there or name its folder by --data"
        )
    return obtain(name, cache_folder())
