"""Reading a table (or folder) of submitted units and one of validation rows, column by column.

Raw content (a text column, or images in a folder) is embedded by a frozen encoder. Every file that is read
is kept with its name, length and hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Features
from datamarket_gym.core.errors import DataMarketError, ParameterError, SubmissionError
from datamarket_gym.payout.spec import PayoutSpec
from datamarket_gym.units.arrays import ArrayFile, file_and_member
from datamarket_gym.units.columns import Column
from datamarket_gym.units.excel import sheet_of
from datamarket_gym.units.formats import ending
from datamarket_gym.units.tables import Table
from datamarket_gym.world.data.corpus import IMAGES
from datamarket_gym.world.encoders import ContentError, stored


def file_hash(path: Path) -> dict[str, str | int]:
    """Name, length and sha256 of a file, and which sheet of it is meant; a text file with a NUL byte is refused."""
    digest, size = hashlib.sha256(), 0
    whole, sheet = file_and_member(str(path))
    try:
        with whole.open("rb") as file:
            while block := file.read(1 << 20):
                if path.suffix in (".csv", ".jsonl") and b"\0" in block:
                    at = size + block.index(b"\0")
                    raise SubmissionError(
                        f"{str(path)!r} has a NUL byte at position {at}; it is no text file"
                    )
                digest.update(block)
                size += len(block)
    except OSError as error:
        raise SubmissionError(f"{str(path)!r} cannot be read: {error}") from error
    found: dict[str, str | int] = {"name": path.name, "bytes": size, "sha256": digest.hexdigest()}
    return found | ({"sheet": sheet_of(whole, sheet)} if ending(whole) == ".xlsx" else {})


DEFAULTS = {"text": "minilm", "image": "resnet18"}


def embed(items: Sequence[Any], kind: str, encoder: str | None, ids: Sequence[str]) -> Features:
    """One vector per item; an item that cannot be embedded is named by its unit."""
    chosen = stored(encoder or DEFAULTS[kind])
    if chosen.kind != kind:
        raise ParameterError(
            "encoder", encoder, f"it reads {chosen.kind}s, the submission holds {kind}s"
        )
    try:
        return chosen.encode(items)
    except ContentError as error:
        raise SubmissionError(f"unit {ids[error.row]!r}: {error.why}") from error


def image_bytes(folder: Path, names: Sequence[str]) -> list[bytes]:
    """The files of an image column; a name that leads out of the folder is refused."""
    root = folder.resolve()
    if not root.is_dir():
        raise SubmissionError(f"there is no folder {str(folder)!r}; check the path")
    found = []
    for row, name in enumerate(names):
        path = (root / name).resolve()
        if not path.is_relative_to(root):
            raise SubmissionError(f"row {row}: the image {name!r} is outside the folder {str(folder)!r}")
        if not path.is_file():
            raise SubmissionError(f"row {row}: there is no image {name!r} in {str(folder)!r}")
        found.append(path.read_bytes())
    return found


def image_tree(folder: Path, levels: int) -> tuple[list[tuple[str, ...]], list[str]]:
    """Images as (relative path, folder names): ``identity/label/file`` or ``label/file``; and what was skipped.

    Skipped is all that is no image by its ending, lies elsewhere, or is a link to a folder or to nothing.
    """
    found, skipped = [], []
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.suffix.lower() in IMAGES and path.is_file() and len(parts) == levels + 1:
            found.append(("/".join(parts), *parts[:levels]))
        elif path.is_symlink() or not path.is_dir():
            skipped.append("/".join(parts))
    if not found:
        shape = "identity/label/file" if levels == 2 else "label/file"
        raise DataMarketError(f"{str(folder)!r} holds no images laid out as {shape}")
    return found, skipped


Optional = list[str | None]
FileHashes = dict[str, dict[str, str | int]]


@dataclass
class Rows:
    """The columns of the submissions."""

    ids: list[str]
    identity: list[str]
    label: NDArray[Any]
    features: Features
    embedding: Features | None
    time: NDArray[Any] | None
    links: dict[str, Optional]
    source: Optional | None
    columns: tuple[str, ...] = ()  # that the features came from
    text: list[str] | None = None
    skipped: Sequence[str] = ()  # files of the folder that were not read


@dataclass
class Held:
    """The columns of the validation rows, or of the reference rows."""

    features: Features
    label: NDArray[Any]
    embedding: Features | None
    columns: tuple[str, ...] = ()  # that the features came from
    text: list[str] | None = None
    skipped: Sequence[str] = ()  # files of the folder that were not read


def read_submitted(path: Path, spec: PayoutSpec, files: FileHashes) -> Rows:
    """The submitted units; the hash of each file read is added to ``files``."""
    if path.is_dir():
        tree, skipped = image_tree(path, 2)
        ids, owners, labels = (list(part) for part in zip(*tree, strict=True))
        seen = _images(path, ids, ids, spec, files, "submissions", skipped)
        return Rows(ids, owners, np.array(labels), seen, None, None, {}, None, skipped=skipped)
    table, columns = Table.open(path), spec.columns
    files["submissions"] = file_hash(path)
    names = {"identity": columns.identity, "label": columns.label}
    for role in ("id", "time", "text", "image", "trusted_source"):
        given = getattr(columns, role)
        if given is not None:
            names[role] = given
        elif role in ("id", "time") and role in table.names:
            names[role] = role
    for role, name in names.items():
        table.require(role, name)
    linked = [table.require("linkage", name) for name in link_columns(spec)]
    files_of = {"features": spec.files.features, "embedding": spec.files.embedding}
    matrices = _matrices(table, spec, [role for role, file in files_of.items() if file is None])
    text = [names[r] for r in ("id", "identity", "text", "image", "trusted_source") if r in names]
    other = [names[role] for role in ("label", "time") if role in names]
    single, dense = table.read([*text, *linked], other, matrices)
    identity = single[columns.identity].strings()
    count = len(identity)
    ids = single[names["id"]].strings() if "id" in names else [f"row {i}" for i in range(count)]
    features = dense.get("features")
    if features is None:
        features = _features(
            spec, single, ids, files, "submissions", spec.files.features, spec.files.images
        )
    embedding = dense.get("embedding")
    if spec.files.embedding is not None:
        embedding = _apart(spec.files.embedding, count, files, "embedding")
    return Rows(
        ids,
        identity,
        single[columns.label].values(),
        features,
        embedding,
        single[names["time"]].times() if "time" in names else None,
        {name: single[name].optional() for name in linked},
        single[names["trusted_source"]].optional() if "trusted_source" in names else None,
        tuple(matrices.get("features", ())),
        single[names["text"]].strings() if "text" in names else None,
    )


def read_held(path: Path, spec: PayoutSpec, files: FileHashes, whose: str = "validation") -> Held:
    """The validation rows, or the reference rows, likewise."""
    if path.is_dir():
        tree, skipped = image_tree(path, 1)
        names, labels = (list(part) for part in zip(*tree, strict=True))
        seen = _images(path, names, names, spec, files, whose, skipped)
        return Held(seen, np.array(labels), None, skipped=skipped)
    table, columns = Table.open(path), spec.columns
    files[whose] = file_hash(path)
    features_file = getattr(spec.files, f"{whose}_features")
    table.require("label", columns.label)
    content = [c for c in (columns.text, columns.image) if c is not None]
    for name in content:
        table.require("content", name)
    matrices = {} if features_file else _matrices(table, spec, ("features",))
    if embedded := table.matrix_columns(spec.columns.embedding or "embedding"):
        matrices["embedding"] = embedded
    single, dense = table.read(content, [columns.label], matrices)
    label = single[columns.label].values()
    features = dense.get("features")
    if features is None:
        rows = [f"{whose} row {i}" for i in range(len(label))]
        folder = getattr(spec.files, f"{whose}_images") or spec.files.images
        features = _features(spec, single, rows, files, whose, features_file, folder)
    columns_read = tuple(matrices.get("features", ()))
    text = None if columns.text is None else single[columns.text].strings()
    return Held(features, label, dense.get("embedding"), columns_read, text)


def link_columns(spec: PayoutSpec) -> list[str]:
    """The columns that linkage needs, beside the roles a unit has anyway."""
    parts = [part for key in spec.linkage.keys for part in key.split("+")]
    plain = [part.strip() for part in parts if not part.strip().startswith("time:")]
    confirm = [] if spec.linkage.confirm is None else [spec.linkage.confirm]
    return list(dict.fromkeys([*plain, *spec.linkage.fuzzy, *confirm]))


def _matrices(table: Table, spec: PayoutSpec, roles: Sequence[str]) -> dict[str, list[str]]:
    out = {}
    for role in roles:
        given = getattr(spec.columns, role)
        content = role == "features" and (spec.columns.text or spec.columns.image)
        if given is not None:
            out[role] = table.require_matrix(role, given)
        elif not content and (found := table.matrix_columns(role)):
            out[role] = found
    return out


def _features(
    spec: PayoutSpec,
    single: dict[str, Column],
    ids: list[str],
    files: FileHashes,
    which: str,
    apart: str | None,
    folder: str | None,
) -> Features:
    columns = spec.columns
    if apart is not None:
        return _apart(apart, len(ids), files, f"{which} features")
    if columns.text is not None:
        return embed(single[columns.text].strings(), "text", spec.encoder, ids)
    if columns.image is not None and folder is not None:
        names = single[columns.image].strings()
        return _images(Path(folder), names, ids, spec, files, f"{which} images")
    raise SubmissionError(
        f"the {which} have no features; name a column (--features), a file (--features-file), "
        "a text column (--text), or an image column and its folder (--image, --images)"
    )


def _images(
    folder: Path,
    names: list[str],
    ids: list[str],
    spec: PayoutSpec,
    files: FileHashes,
    role: str,
    skipped: Sequence[str] = (),
) -> Features:
    """The images as vectors; the folder's hash covers their bytes and names, and the names of what was skipped."""
    content = image_bytes(folder, names)
    lines = sorted(f"{hashlib.sha256(c).hexdigest()} {n}" for c, n in zip(content, names, strict=True))
    lines += [f"skipped {name}" for name in skipped]
    digest = hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape"))
    files[role] = {"name": folder.name, "bytes": sum(map(len, content)), "sha256": digest.hexdigest()}
    return embed(content, "image", spec.encoder, ids)


def _apart(written: str, rows: int, files: FileHashes, role: str) -> Features:
    path, member = file_and_member(written)
    found = ArrayFile.open(path).matrix(member, rows)
    files[role] = file_hash(path)
    return found
