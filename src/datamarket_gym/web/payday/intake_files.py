"""Files that a payday can be made of: uploads, and those that lie in folders named on the command line, by ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.units.readers.arrays import ENDINGS as ARRAYS
from datamarket_gym.units.readers.files import ENDINGS as TABLES
from datamarket_gym.units.readers.files import ending
from datamarket_gym.web.payday.intake_order import (
    ROLES,
    AskedPayday,
    ChosenFile,
    PaydayOrder,
    require_settings,
)
from datamarket_gym.web.places import NamedPlaces, NotThere

UPLOAD = "upload:"
_OVERRIDES = (".toml",)


def endings(role: str) -> tuple[str, ...]:
    """What a file of a role may be."""
    if role == "overrides":
        return _OVERRIDES
    if role.endswith("features") or role == "files.embedding":
        return ARRAYS
    return (*TABLES, *ARRAYS) if role == "files.scores" else TABLES


def lying_about(places: NamedPlaces) -> list[dict[str, Any]]:
    """The files in folders that were named, by ids."""
    kinds = {*TABLES, *ARRAYS, *_OVERRIDES}
    return [
        {"id": each.id, "size": each.folder.stat().st_size, "ending": ending(each.folder)}
        for each in places.files(kinds)
    ]


def uploaded(places: NamedPlaces) -> list[dict[str, Any]]:
    """What was uploaded since the explorer began."""
    return [
        {"id": f"{UPLOAD}{each.id}", "name": each.name, "size": each.size, "ending": ending(each.path)}
        for each in places.uploads.all()
    ]


def chosen(places: NamedPlaces, role: str, written: str) -> ChosenFile:
    """The file of an id, for a role; ``id#Sheet`` is a sheet of a spreadsheet, or an array of an ``.npz``."""
    if role not in ROLES:
        raise DataMarketError(f"no file is for {role!r}; there are: {', '.join(ROLES)}")
    named, mark, member = written.partition("#")
    if named.startswith(UPLOAD):
        path = places.uploads.path(named.removeprefix(UPLOAD))
        name = next(each.name for each in places.uploads.all() if each.path == path)
    else:
        path, name = _lying(places, named), named
    about = path.stat()
    return ChosenFile(
        role=role,
        path=Path(f"{path}{mark}{member}"),
        name=f"{name}{mark}{member}",
        stamp=f"{about.st_size} {about.st_mtime_ns}",
        uploaded=named.startswith(UPLOAD),
    )


def ordered(places: NamedPlaces, asked: AskedPayday) -> PaydayOrder:
    """What a page asks for, with all of its files, earlier runs and its intake log found."""
    return PaydayOrder(
        files=tuple(chosen(places, role, written) for role, written in asked.files.items() if written),
        settings=require_settings(asked.settings),
        prior=tuple(places.run(name) for name in asked.prior),
        intake=places.book(asked.intake) if asked.intake else None,
    )


def _lying(places: NamedPlaces, name: str) -> Path:
    for each in places.files({*TABLES, *ARRAYS, *_OVERRIDES}):
        if each.id == name:
            return places.inside(each.folder)
    raise NotThere(
        f"there is no file {name!r} in the folders that were named; choose another, or upload it"
    )
