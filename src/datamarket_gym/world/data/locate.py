"""Finding data: the folder one names, a folder beside the project, the user's cache, the public hub.

Nothing of it comes with the package. A file is looked for in ``DATAMARKET_DATA`` (or ``--data``),
then in ``../shared/data``, then in the user's cache; what is nowhere is downloaded into the cache.
"""

from __future__ import annotations

import os
from pathlib import Path

from datamarket_gym.core.errors import DataMarketError

BESIDE = Path("../shared/data")


def cache_folder() -> Path:
    """The user's cache: ``DATAMARKET_CACHE``, or else the platform's cache folder."""
    if named := os.environ.get("DATAMARKET_CACHE"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "datamarket-gym"


def folders() -> list[Path]:
    """Where data is looked for, in order."""
    named = os.environ.get("DATAMARKET_DATA")
    if named and not Path(named).is_dir():
        raise DataMarketError(
            f"DATAMARKET_DATA (or --data) names {named!r}, which is not a folder; check the path"
        )
    return [*([Path(named)] if named else []), BESIDE, cache_folder()]


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


def use_folder(named: Path | None) -> None:
    """Look in this folder first, in this process and in those it starts."""
    if named is not None:
        os.environ["DATAMARKET_DATA"] = str(named)
