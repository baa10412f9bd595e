"""Results that the page asks for, read once and remembered while their files stay as they are."""

from __future__ import annotations

import math
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import UnknownNameError
from datamarket_gym.core.runs import MANIFEST
from datamarket_gym.core.specs import Document
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.folders import TABLE, TIMINGS, Holding, as_built_in, held, is_finished, opened
from datamarket_gym.lab.results import Compact
from datamarket_gym.lab.spec import ExperimentSpec, builtin_specs

_KEPT = 2  # experiments in memory, in each process: the largest take some tens of megabytes


class WantedResults(Document):
    """The results of an experiment in a folder, and when its files were written: other files, another question."""

    folder: Path
    name: str
    written: str

    def read(self) -> Compact:
        """The results."""
        return _read(self.folder, self.name, self.written)

    def rows_of(self, metric: str) -> list[Row]:
        """The rows of a metric; one that is not there is an error that names those that are."""
        rows = self.read().rows
        found = [row for row in rows if row["metric"] == metric]
        if not found:
            raise UnknownNameError("metric of these results", metric, {row["metric"] for row in rows})
        return found

    def beside(self, name: str) -> list[Row]:
        """The rows of another experiment in the same folder; none where it is not there."""
        if all(one.name != name for one in _held(self.folder)):
            return []
        return wanted(self.folder, name).read().rows

    @property
    def has_own_pictures(self) -> bool:
        """Whether the experiment was run as it is built in, so that what it shows is known."""
        return as_built_in(self.read(), built_in())


def wanted(folder: Path, name: str) -> WantedResults:
    """What a page asks for, by the name that the folder has for it."""
    return WantedResults(folder=folder, name=name, written=_stamp(_holding(folder, name)))


def listed(folder: Path) -> list[dict[str, Any]]:
    """The experiments of a folder by name and title, without reading their rows."""
    return [{"name": one.name, **_title(one)} for one in _held(folder)]


@cache
def built_in() -> dict[str, ExperimentSpec]:
    """The experiments that come with the package."""
    return builtin_specs()


def number(value: Any) -> float | None:
    """A number that JSON has; what is none, or not finite, is None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _title(one: Holding) -> dict[str, Any]:
    known = built_in().get(one.name)
    if known is not None:
        return {"title": known.title, "finished": one.form == "compact" or is_finished(one.path)}
    return {"title": "", "finished": one.form == "compact" or is_finished(one.path)}


def _holding(folder: Path, name: str) -> Holding:
    found = _held(folder)
    for one in found:
        if one.name == name:
            return one
    raise UnknownNameError("experiment in this folder", name, [one.name for one in found])


def _held(folder: Path) -> list[Holding]:
    """What a folder holds itself: links that lead out of it are not followed."""
    here = folder.resolve()
    return [one for one in held(folder) if all(p.resolve().is_relative_to(here) for p in _files(one))]


def _files(one: Holding) -> list[Path]:
    names = () if one.form == "compact" else (TABLE, MANIFEST, TIMINGS)
    return [one.path, *(one.path / name for name in names)]


def _stamp(one: Holding) -> str:
    paths = [one.path] if one.form == "compact" else [one.path / TABLE, one.path / MANIFEST]
    found = [path.stat() for path in paths if path.exists()]
    return " ".join(f"{each.st_mtime_ns}:{each.st_size}" for each in found)


@lru_cache(maxsize=_KEPT)
def _read(folder: Path, name: str, written: str) -> Compact:
    return opened(_holding(folder, name), built_in())
