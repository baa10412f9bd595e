"""Images in folders: which are read, and which files are not, each with what to do about it.

Nobody who handed something in is passed over in silence: a photograph in a format that is not read, or one that lies in
the wrong folder, is listed, and so is an image that no row of the table names.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.columns import Faults
from datamarket_gym.data.inputs import NO_LABEL, is_labelled
from datamarket_gym.display import listed
from datamarket_gym.errors import DataMarketError, SubmissionError
from datamarket_gym.market.datasets import IMAGES
from datamarket_gym.market.encoders import ContentError
from datamarket_gym.market.encoders.base import Encoder

UNREAD = (
    ".heic", ".heif", ".hif", ".avif", ".jxl", ".jp2", ".j2k", ".jfif", ".jpe", ".svg", ".psd", ".pdf", ".raw", ".dng",
    ".cr2", ".cr3", ".crw", ".nef", ".nrw", ".arw", ".sr2", ".orf", ".rw2", ".raf", ".pef", ".srw", ".x3f", ".tga",
    ".ico", ".mov", ".mp4",
)  # fmt: skip
"""Endings of what may be a picture and is not read."""
_FEW = 5
Skipped = list[tuple[str, str]]
"""Names of files that were not read, each with why, and what to do."""


def image_bytes(folder: Path, names: Sequence[str], whose: str = "row") -> list[bytes]:
    """Read the files of an image column; refuse a name that leads out of the folder."""
    root = _root(folder)
    places = [_place(root, name) for name in names]
    for row, (_, wrong) in enumerate(places):
        if wrong:
            raise SubmissionError(
                f"{whose} {row}: the image {names[row]!r} {wrong} the folder {str(folder)!r}"
            )
    return [path.read_bytes() for path, _ in places]


def note_images(faults: Faults, folder: Path, names: Sequence[str | None], encoder: Encoder) -> None:
    """Note the rows whose image is not there, or cannot be read."""
    root = _root(folder)
    for row, name in enumerate(names):
        if name is None:
            continue
        path, wrong = _place(root, name)
        if wrong:
            faults.note([row], f"the image {name!r} {wrong} the folder")
            continue
        try:
            encoder.prepare(path.read_bytes(), row)
        except ContentError as error:
            faults.note([row], f"the image {name!r}: {error.why}")


@dataclass(frozen=True, eq=False)
class ImageTree:
    """The images of a folder by their relative paths, whose they are and what: folders are identities, then labels.

    ``identity`` is empty where the folder is nobody's (validation rows). ``labelled_shape`` is the layout with labels.
    """

    names: list[str]
    identity: list[str]
    label: NDArray[np.str_]
    skipped: Skipped  # what was not read
    labelled_shape: str

    @property
    def labelled(self) -> bool:
        """True where there are folders of labels."""
        return is_labelled(self.label)


def image_tree(folder: Path, *, identities: bool, labels: bool = True) -> ImageTree:
    """List the images of a folder laid out as ``identity/label/image``, or ``label/image`` where it is nobody's.

    Where no image lies in a folder of a label, and some lie one folder higher, there are no labels: ``identity/image``,
    or images in the folder itself. Images at any other depth are skipped, and listed; where that would be most of them,
    for want of a label, it is an error: who adds one image in a folder would have everybody else's left out. Where
    ``labels`` do not count, because the operator's rows have none, images of either layout are read, those without a
    folder under the empty label: or whoever uses the other layout would have everybody else's skipped.
    """
    owners = ("identity",) if identities else ()
    labelled, plain = "/".join((*owners, "label", "image")), "/".join((*owners, "image"))
    files = [(path, path.relative_to(folder).parts) for path in sorted(_files(folder))]
    depths = Counter(len(parts) for path, parts in files if not _why_not(path, 0, labelled))
    low, high = len(owners) + 2, len(owners) + 1  # parts of names with a label, and without
    if labels and 0 < depths[low] < depths[high]:
        raise DataMarketError(
            f"{str(folder)!r} holds {depths[low]:,} images as {labelled} and {depths[high]:,} as {plain}, which would "
            "not be read; lay all out alike, or, where units have no labels, the validation rows without folders"
        )
    levels = {low} if low in depths else {high} & set(depths) or {low}
    if not labels:
        levels |= {high} & set(depths)
    shape = " or ".join(name for name, parts in ((labelled, low), (plain, high)) if parts in levels)
    found, skipped = [], []
    for path, parts in files:
        beyond = [len(parts) - each for each in levels]
        why = _why_not(path, 0 if 0 in beyond else beyond[0], shape)
        if why:
            skipped.append(("/".join(parts), why))
        else:
            found.append(parts)
    if not found:
        told = listed((f"{name} ({why})" for name, why in skipped), _FEW, "; ")
        raise DataMarketError(
            f"{str(folder)!r} holds no images laid out as {labelled}, nor, without labels, as {plain}"
            + (f"; not read: {told}" if told else ", nor any other file; check the path")
        )
    return ImageTree(
        ["/".join(parts) for parts in found],
        [parts[0] for parts in found if identities],
        np.array([parts[-2] if len(parts) == low else NO_LABEL for parts in found]),
        skipped,
        labelled,
    )


def unnamed(folder: Path, named: Collection[str]) -> Skipped:
    """List the images of a folder that no row of a table names."""
    root = _root(folder)
    known = {(root / name).resolve() for name in named}
    return [
        (
            "/".join(path.relative_to(root).parts),
            "no row names it; name it in the table, or take it away",
        )
        for path in sorted(_files(root))
        if path.suffix.lower() in (*IMAGES, *UNREAD) and path.resolve() not in known
    ]


def _why_not(path: Path, too_deep: int, shape: str) -> str:
    """Say why a file is not read, and what to do; empty where it is."""
    ending = path.suffix.lower()
    if path.is_symlink() and not path.is_file():
        return (
            "a link to a folder; put the folder itself there" if path.is_dir() else "a link to nothing"
        )
    if not path.is_file():
        return "no plain file"
    if path.name.startswith("."):
        return "hidden: a program's own, or rename it"
    place = "" if not too_deep else f"{'too deep' if too_deep > 0 else 'too high'}: move it to {shape}"
    if ending in IMAGES:
        return f"lies {place}" if place else ""
    if ending in UNREAD:
        return f"{ending} is not read: save it as .jpg or .png" + (
            f", and it lies {place}" if place else ""
        )
    return "no image by its ending"


def _files(folder: Path) -> Iterator[Path]:
    """List all that is in a folder and below it but folders; links to folders are not followed."""

    def fails(error: OSError) -> None:
        raise SubmissionError(f"{error.filename!r} cannot be looked into: {error.strerror}") from error

    for where, folders, files in os.walk(folder, onerror=fails):
        for name in (*files, *(each for each in folders if (Path(where) / each).is_symlink())):
            yield Path(where) / name


def _root(folder: Path) -> Path:
    root = folder.resolve()
    if not root.is_dir():
        raise SubmissionError(f"there is no folder {str(folder)!r}; check the path")
    return root


def _place(root: Path, name: str) -> tuple[Path, str]:
    """Find the file of a name, and what is wrong with it."""
    try:
        path = (root / name).resolve()
        if not path.is_relative_to(root):
            return path, "is outside"
        return path, "" if path.is_file() else "is not in"
    except (OSError, ValueError):  # a name that no file can have
        return root, "is not in"


def images_hash(
    folder: Path, names: Sequence[str], content: Sequence[bytes], skipped: Skipped
) -> dict[str, str | int]:
    """Hash the images of a folder: their bytes and names, and the names of what was skipped."""
    lines = sorted(f"{hashlib.sha256(c).hexdigest()} {n}" for c, n in zip(content, names, strict=True))
    return {
        "name": folder.name,
        "bytes": sum(map(len, content)),
        "sha256": names_hash(lines, skipped),
    }


def names_hash(lines: Sequence[str], skipped: Skipped) -> str:
    """Hash lines, and the names of files that were not read."""
    skips = (f"skipped {name}: {why}" for name, why in skipped)
    return hashlib.sha256("\n".join([*lines, *skips]).encode("utf-8", "surrogateescape")).hexdigest()
