"""Records on disk: a frozen dataclass of arrays, texts and numbers as one ``.npz`` file, and back.

A field that is a record itself is written field by field as ``name.field``; None is left out, and
so is a field marked as not recorded. The same record gives the same bytes, and a file is there whole or
not at all.
"""

from __future__ import annotations

import dataclasses
import typing
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.files import replacing
from datamarket_gym.core.runs import Format

R = TypeVar("R")


def write_record(path: Path, record: Any) -> None:
    """Write a record; the folder is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part:
        _write(part, record)


def record_format(kind: type[R]) -> Format[R]:
    """How the steps of a run keep records of a class."""
    return Format(".npz", _write, lambda path: read_record(path, kind))


def _write(path: Path, record: Any) -> None:
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **dict(_flat(record, "")))


def read_record(path: Path, kind: type[R]) -> R:
    """The record of a class that `write_record` wrote."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return _built(kind, {name: file[name] for name in file.files}, "")
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise DataMarketError(
            f"{str(path)!r} cannot be read as a record of {kind.__name__} ({error}); it was damaged, or "
            "written by another version: make it anew"
        ) from error


def _flat(record: Any, prefix: str) -> Iterator[tuple[str, NDArray[Any]]]:
    for field in _recorded(record):
        value = getattr(record, field.name)
        if dataclasses.is_dataclass(value):
            yield from _flat(value, f"{prefix}{field.name}.")
        elif value is not None:
            yield prefix + field.name, np.asarray(value)


def _recorded(kind: Any) -> list[dataclasses.Field[Any]]:
    """The fields that go to disk; others are marked, and have a default."""
    return [field for field in dataclasses.fields(kind) if field.metadata.get("recorded", True)]


def _built(kind: type[R], arrays: Mapping[str, NDArray[Any]], prefix: str) -> R:
    hints = typing.get_type_hints(kind)
    values: dict[str, Any] = {}
    for field in _recorded(kind):
        name, hint = prefix + field.name, hints[field.name]
        if dataclasses.is_dataclass(hint):
            values[field.name] = _built(typing.cast(Any, hint), arrays, f"{name}.")
        elif name in arrays:
            values[field.name] = arrays[name] if arrays[name].ndim else arrays[name].item()
        elif type(None) in typing.get_args(hint):
            values[field.name] = None
        elif field.default is not dataclasses.MISSING:
            values[field.name] = field.default  # a field that the version which wrote it did not have
        else:
            raise KeyError(f"it has no {name}")
    return kind(**values)
