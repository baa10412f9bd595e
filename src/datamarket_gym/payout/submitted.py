"""Reading a table (or folder) of submitted units and one of validation rows, column by column.

Raw content (a text column, or images in a folder) is embedded by a frozen encoder. Every file that is read
is kept with its name, length and hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import LARGEST, Features, Values
from datamarket_gym.core.errors import ParameterError, SubmissionError
from datamarket_gym.core.narrow import beyond, taken
from datamarket_gym.payout.book.arrived import What
from datamarket_gym.payout.file_hashes import FileHashes, file_hash, images_hash
from datamarket_gym.payout.image_files import Skipped, image_bytes, image_tree, note_images
from datamarket_gym.payout.intake.content import what_of
from datamarket_gym.payout.intake.times import IntakeLog, Received, require_received
from datamarket_gym.payout.labels import has_none, predicts_numbers
from datamarket_gym.payout.quarantine import BadRow, also_aside, kept_rows, note_columns
from datamarket_gym.payout.roles import link_columns, matrix_roles, submitted_roles
from datamarket_gym.payout.spec import PayoutSpec
from datamarket_gym.units.arrays import ArrayFile, file_and_member
from datamarket_gym.units.columns import Column
from datamarket_gym.units.labels import is_labelled, unlabelled
from datamarket_gym.units.loose import Faults, note_numbers
from datamarket_gym.units.tables import Table, rows_read
from datamarket_gym.world.encoders import ContentError, stored
from datamarket_gym.world.encoders.store import StoredEncoder

_NO_FEATURES = (
    "the {} have no features; name a column (--features), a file (--features-file), a text column (--text), or an "
    "image column and its folder (--image, --images)"
)
DEFAULTS = {"text": "minilm", "image": "resnet18"}


def embed(items: Sequence[Any], chosen: StoredEncoder, ids: Sequence[object], what: str) -> Features:
    """One vector per item; an item that cannot be embedded is named by its unit, or by its row."""
    try:
        return chosen.encode(items)
    except ContentError as error:
        raise SubmissionError(f"{what} {ids[error.row]!r}: {error.why}") from error


def content_encoder(spec: PayoutSpec, kind: str) -> StoredEncoder:
    """The encoder of a run for texts or images; refused where it reads the other."""
    chosen = stored(spec.encoder or DEFAULTS[kind])
    if chosen.kind != kind:
        raise ParameterError(
            "encoder", spec.encoder, f"it reads {chosen.kind}s, the submission holds {kind}s"
        )
    return chosen


Optional = list[str | None]


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
    metadata: Optional | None = None
    skipped: Skipped = field(default_factory=list)  # files of the folder that were not read
    images: dict[str, list[str]] = field(default_factory=dict)  # folders, and the images named in each
    bad: tuple[BadRow, ...] = ()  # rows that were set aside
    encoder: str = ""  # that made the features of texts or images, weights and all
    received: Received | None = None  # where times are from the intake log
    blank: bool = False  # whether a column of labels is there in which nothing stands


@dataclass
class Held:
    """The columns of the validation rows, or of the reference rows."""

    features: Features
    label: NDArray[Any]
    embedding: Features | None
    columns: tuple[str, ...] = ()  # that the features came from
    text: list[str] | None = None
    skipped: Skipped = field(default_factory=list)  # files of the folder that were not read
    images: dict[str, list[str]] = field(default_factory=dict)  # folders, and the images named in each
    blank: bool = False  # as in `Rows`


def read_submitted(
    path: Path,
    spec: PayoutSpec,
    files: FileHashes,
    held: Held | None = None,
    log: IntakeLog | None = None,
) -> Rows:
    """The submitted units; the hash of each file read is added to ``files``.

    Whether labels of a folder of images count is up to ``held``, the validation rows. With a ``log`` times are those
    at which it has the units, and nothing that the table says of them.
    """
    if log is not None and spec.columns.time is not None:
        raise ParameterError(
            "time",
            spec.columns.time,
            "times are from the intake log alone, whatever a column says; leave --time out, or --intake",
        )
    if path.is_dir():
        return _submitted_images(path, spec, files, held is None or is_labelled(held.label), log)
    table, columns = Table.open(path), spec.columns
    files["submissions"] = file_hash(path)
    names = submitted_roles(table, columns, dated=log is None)
    for role, name in names.items():
        table.require(role, name)
    linked = [table.require("linkage", name) for name in link_columns(spec)]
    files_of = {"features": spec.files.features, "embedding": spec.files.embedding}
    matrices = matrix_roles(table, columns, [role for role, file in files_of.items() if file is None])
    text = [
        names[r] for r in ("id", "identity", "text", "image", "trusted_source", "metadata") if r in names
    ]
    other = [names[role] for role in ("label", "time") if role in names]
    faults = Faults() if spec.quarantine else None
    single, dense = table.read([*text, *linked], other, matrices, faults, narrow=True)
    count = len(single[columns.identity].data)
    if blank := "label" in names and has_none(single[names["label"]], spec):
        del names["label"]
    for role, file in files_of.items():
        if file is not None:
            apart = f"{'submissions ' * (role == 'features')}{role}"
            dense[role] = _apart(file, count, files, apart, finite=faults is None)
    rows, bad = np.arange(count), tuple[BadRow, ...]()
    if faults is not None:
        rows, bad = _quarantined(faults, spec, names, single, dense, repr(str(path)))
        single, dense = _of(single, dense, rows)
    ids = single[names["id"]].named() if "id" in names else [f"row {i}" for i in rows.tolist()]
    received = None
    if log is not None:
        what, content = _content(spec, single, dense)
        owners, label = single[columns.identity].named(), _labels(single, names, len(ids))
        received, unlogged = log.received(what, owners, label, content)
        if not spec.quarantine:
            require_received(unlogged, ids, owners, log)
        kept, bad = also_aside(bad, unlogged, rows, ids, owners, repr(str(path)))
        single, dense = _of(single, dense, kept)
        ids, received = [ids[i] for i in kept], received.of(kept)
    images: dict[str, list[str]] = {}
    label = _labels(single, names, len(ids), numbers=predicts_numbers(spec))
    features, encoder = dense.get("features"), ""
    if features is None:
        folder = spec.files.images
        features = _features(spec, single, ids, files, "submissions", folder, images)
        encoder = content_encoder(spec, "text" if columns.text else "image").encoder.identity
    return Rows(
        ids,
        single[columns.identity].named(),
        label,
        features,
        dense.get("embedding"),
        single[names["time"]].times() if "time" in names else _time(received),
        {name: single[name].optional() for name in linked},
        single[names["trusted_source"]].optional() if "trusted_source" in names else None,
        tuple(matrices.get("features", ())),
        single[names["text"]].strings() if "text" in names else None,
        metadata=single[names["metadata"]].optional() if "metadata" in names else None,
        images=images,
        bad=bad,
        encoder=encoder,
        received=received,
        blank=blank,
    )


def _labels(
    single: dict[str, Column], names: dict[str, str], count: int, *, numbers: bool = False
) -> NDArray[Any]:
    """The labels, as they are written or as the numbers that they stand for; empty ones where there are none."""
    if "label" not in names:
        return unlabelled(count)
    column = single[names["label"]]
    return column.numbers() if numbers else column.values()


def _of(
    single: dict[str, Column], dense: dict[str, Features], rows: NDArray[np.int64]
) -> tuple[dict[str, Column], dict[str, Features]]:
    """Some rows of what was read."""
    return (
        {name: column.of(rows) for name, column in single.items()},
        {role: taken(matrix, rows) for role, matrix in dense.items()},
    )


def _time(received: Received | None) -> Values | None:
    return None if received is None else received.time


def _content(
    spec: PayoutSpec, single: dict[str, Column], dense: dict[str, Features]
) -> tuple[What, list[str] | list[bytes] | Features]:
    """What the intake log has of units: their texts, the files of their images, or their features."""
    what, columns = what_of(spec.columns), spec.columns
    if what == "text":
        return what, single[str(columns.text)].strings()
    if what == "image" and spec.files.images is not None:
        return what, image_bytes(Path(spec.files.images), single[str(columns.image)].named())
    if what == "features" and "features" in dense:
        return what, dense["features"]
    raise SubmissionError(_NO_FEATURES.format("submissions"))


def _submitted_images(
    path: Path, spec: PayoutSpec, files: FileHashes, labels: bool, log: IntakeLog | None
) -> Rows:
    """The units of a folder laid out as identity/label/image, or identity/image."""
    tree = image_tree(path, identities=True, labels=labels)
    ids, owners, label = tree.names, tree.identity, tree.label
    rows, bad = np.arange(len(ids)), tuple[BadRow, ...]()
    if spec.quarantine:
        faults = Faults()
        note_images(faults, path, ids, content_encoder(spec, "image").encoder)
        rows, bad = kept_rows(faults, ids, owners, repr(str(path)))
        (ids, owners), label = ([part[i] for i in rows] for part in (ids, owners)), label[rows]
    received = None
    if log is not None:
        received, unlogged = log.received("image", owners, label, image_bytes(path, ids))
        if not spec.quarantine:
            require_received(unlogged, ids, owners, log)
        kept, bad = also_aside(bad, unlogged, rows, ids, owners, repr(str(path)))
        (ids, owners), label = ([part[i] for i in kept] for part in (ids, owners)), label[kept]
        received = received.of(kept)
    seen = _images(path, ids, ids, spec, files, "submissions", tree.skipped)
    encoder = content_encoder(spec, "image").encoder.identity
    return Rows(
        ids, owners, label, seen, None, _time(received), {}, None,
        skipped=tree.skipped, bad=bad, received=received, encoder=encoder,
    )  # fmt: skip


def _quarantined(
    faults: Faults,
    spec: PayoutSpec,
    names: dict[str, str],
    single: dict[str, Column],
    dense: dict[str, Features],
    what: str,
) -> tuple[NDArray[np.int64], tuple[BadRow, ...]]:
    """The rows that can be used, and what is wrong with the others."""
    note_columns(
        faults,
        {
            role: single[name]
            for role, name in names.items()
            if role not in ("trusted_source", "metadata")
        },
    )
    if "label" in names and predicts_numbers(spec):
        for row, wrong in single[names["label"]].no_numbers().items():
            faults.note([row], f"{names['label']}: {wrong}")
    for role, matrix in dense.items():
        note_numbers(faults, role, matrix)
    if "features" not in dense and spec.columns.image is not None and spec.files.images is not None:
        named = single[spec.columns.image].optional()
        note_images(faults, Path(spec.files.images), named, content_encoder(spec, "image").encoder)
    identity = single[spec.columns.identity].optional()
    ids = single[names["id"]].optional() if "id" in names else [f"row {i}" for i in range(len(identity))]
    return kept_rows(faults, ids, identity, what)


def read_held(path: Path, spec: PayoutSpec, files: FileHashes, whose: str = "validation") -> Held:
    """The validation rows, or the reference rows, likewise; none of them is ever set aside."""
    if path.is_dir():
        tree = image_tree(path, identities=False)
        seen = _images(path, tree.names, tree.names, spec, files, whose, tree.skipped)
        return Held(seen, tree.label, None, skipped=tree.skipped)
    table, columns = Table.open(path), spec.columns
    files[whose] = file_hash(path)
    features_file = getattr(spec.files, f"{whose}_features")
    labels = table.label_column(columns.label)
    names = {} if labels is None else {"label": labels}
    content = [c for c in (columns.text, columns.image) if c is not None]
    for name in content:
        table.require("content", name)
    matrices = {} if features_file else matrix_roles(table, columns, ("features",))
    if embedded := table.matrix_columns(spec.columns.embedding or "embedding"):
        matrices["embedding"] = embedded
    other = [*names.values(), *table.counting(content, names, matrices)]
    single, dense = table.read(content, other, matrices)
    count = rows_read(single, dense)
    if blank := bool(names) and has_none(single[names["label"]], spec):
        names = {}
    label = _labels(single, names, count, numbers=predicts_numbers(spec))
    if features_file:
        dense["features"] = np.asarray(_apart(features_file, count, files, f"{whose} features"))
    images: dict[str, list[str]] = {}
    features = dense.get("features")
    if features is None:
        folder = getattr(spec.files, f"{whose}_images") or spec.files.images
        features = _features(spec, single, range(count), files, whose, folder, images)
    for role, matrix in (("features", features), ("embedding", dense.get("embedding"))):
        _require_size(repr(str(path)), role, matrix)
    columns_read = tuple(matrices.get("features", ()))
    text = None if columns.text is None else single[columns.text].strings()
    return Held(features, label, dense.get("embedding"), columns_read, text, images=images, blank=blank)


def _require_size(where: str, role: str, matrix: Features | None) -> None:
    """Refuse numbers so large that distances to them overflow, by the row of their own file."""
    if (found := first_too_large(matrix)) is not None:
        row, entry, value = found
        raise SubmissionError(
            f"{where}: {role!r}, row {row}, entry {entry} is {value:g}; drop the row or fill in a number of at most "
            f"{LARGEST:g} in size"
        )


def first_too_large(matrix: Features | None) -> tuple[int, int, float] | None:
    """Row, entry and value of the first number to which distances overflow; None where there is none."""
    if matrix is None or (found := beyond(matrix, LARGEST)) is None:
        return None
    row, entry = found
    return row, entry, float(matrix[row, entry])


def _features(
    spec: PayoutSpec,
    single: dict[str, Column],
    ids: Sequence[object],
    files: FileHashes,
    which: str,
    folder: str | None,
    images: dict[str, list[str]],
) -> Features:
    """Features of content; ``images`` is told which files of which folder were named."""
    columns = spec.columns
    what = "unit" if which == "submissions" else f"{which} row"
    if columns.text is not None:
        return embed(single[columns.text].strings(), content_encoder(spec, "text"), ids, what)
    if columns.image is not None and folder is not None:
        images[folder] = names = single[columns.image].named()
        return _images(Path(folder), names, ids, spec, files, f"{which} images", what=what)
    raise SubmissionError(_NO_FEATURES.format(which))


def _images(
    folder: Path,
    names: list[str],
    ids: Sequence[object],
    spec: PayoutSpec,
    files: FileHashes,
    role: str,
    skipped: Skipped | None = None,
    what: str = "image",
) -> Features:
    """The images as vectors; the folder's hash covers their bytes and names, and the names of what was skipped."""
    content = image_bytes(folder, names, "row" if what in ("unit", "image") else what)
    files[role] = images_hash(folder, names, content, skipped or [])
    return embed(content, content_encoder(spec, "image"), ids, what)


def _apart(written: str, rows: int, files: FileHashes, role: str, *, finite: bool = True) -> Features:
    path, member = file_and_member(written)
    found = ArrayFile.open(path).matrix(member, rows, finite=finite, narrow=True)
    files[role] = file_hash(path)
    return found
