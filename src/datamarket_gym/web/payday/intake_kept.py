"""Uploads that a run is made of, kept beside it under their own names: uploads go when the explorer ends, and whoever
verifies or approves the run works it out again from its files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.files import sha256
from datamarket_gym.units.readers.files import file_and_member
from datamarket_gym.web.payday.intake_order import ChosenFile, PaydayOrder

_LONGEST = 120  # characters of a name


def inputs_folder(run: Path) -> Path:
    """Where the uploads of a run are kept: beside its folder."""
    return run.with_name(f"{run.name}-inputs")


def kept(order: PaydayOrder, run: Path) -> PaydayOrder:
    """The order with its uploads beside the run; refused where files of another run are there under these names."""
    taken: set[str] = set()
    files = []
    for each in order.files:
        if each.uploaded:
            name = _free(_plain(each), each.role, taken)
            taken.add(name)
            each = each.model_copy(update={"path": _put(each.path, inputs_folder(run) / name)})
        files.append(each)
    return order.model_copy(update={"files": tuple(files)})


def _put(upload: Path, to: Path) -> Path:
    """Put a file there, whole or not at all; one that is there already must be the same."""
    file, member = file_and_member(str(upload))
    if to.exists():
        if sha256(to) != sha256(file):
            raise DataMarketError(
                f"{to.parent.name!r} holds another {to.name!r} already, of which a run was made; choose another name "
                "for this run"
            )
    else:
        to.parent.mkdir(parents=True, exist_ok=True)
        part = to.with_name(f".{to.name}.part")
        shutil.copyfile(file, part)
        os.replace(part, to)
    return Path(f"{to}#{member}") if member else to


def _plain(file: ChosenFile) -> str:
    """The name that a file was uploaded under, as far as every file system has such names; the ending is kept."""
    path, _ = file_and_member(str(file.path))
    stem = Path(file.name.split("#")[0]).stem
    safe = "".join(each if each.isalnum() or each in " ._-" else "_" for each in stem).strip(" .")
    return f"{safe[:_LONGEST] or 'table'}{path.suffix}"


def _free(name: str, role: str, taken: set[str]) -> str:
    return f"{role} {name}" if name in taken else name
