"""What comes with the tables of a run: images in folders, scores of another tool, bad rows, and hashes of files.

No submission is left out silently. A file that is not read is listed with what to do about it, and so is an image that
no row of the table names. Bad rows stop a run with a list of all of them: rows without an identity, label, time or
content, with numbers that are missing, not finite or not as many as those of most rows, with an image that cannot be
read, with an id of several rows, or which the intake log does not have. With quarantine, those of the submissions are
set aside and listed instead. Validation and reference rows are never set aside; nor are rows of a file of which more
than half is bad.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.columns import Faults
from datamarket_gym.data.inputs import NO_LABEL, is_labelled
from datamarket_gym.data.readers.excel import sheet_of
from datamarket_gym.data.readers.tables import Table, ending, file_and_member
from datamarket_gym.display import listed
from datamarket_gym.errors import DataMarketError, ParameterError, SubmissionError
from datamarket_gym.execution.arrays import Codes
from datamarket_gym.execution.files import sha256
from datamarket_gym.market.datasets import IMAGES
from datamarket_gym.market.encoders import ContentError
from datamarket_gym.market.encoders.base import Encoder
from datamarket_gym.payout.names import csv_text, read_csv, visible
from datamarket_gym.payout.settings import PayoutSpec
from datamarket_gym.utilities.base import UtilityFunction
from datamarket_gym.utilities.imported_scores import ImportedScores, Names, ScoreTable, read_scores

if TYPE_CHECKING:
    from datamarket_gym.payout.inputs import Rows
    from datamarket_gym.payout.stored_inputs import Places


FILE = "quarantine.csv"
COLUMNS = ("line", "row", "unit", "identity", "wrong")
_LISTED = 20  # bad rows that an error lists
_KINDS = 5  # kinds of faults that it counts


@dataclass(frozen=True)
class BadRow:
    """Hold a row that cannot be used: its number in the table (from 0, without the header), and its names.

    ``line`` is the line of the file on which it begins, from 1; None where the file has no lines.
    """

    row: int
    unit: str
    identity: str
    wrong: str
    line: int | None = None

    @property
    def place(self) -> str:
        """Say where the row is."""
        return f"row {self.row}" if self.line is None else f"line {self.line}"

    @property
    def words(self) -> str:
        """Say where it is, whose it is, and what is wrong with it."""
        unit = f"“{visible(self.unit)}” " if self.unit not in ("", f"row {self.row}") else ""
        owner = f"of “{visible(self.identity)}”" if self.identity else ""
        return f"{self.place}, {unit}{owner}".rstrip(", ") + f": {visible(self.wrong, 200)}"


@dataclass(frozen=True)
class RowNames:
    """Hold what all rows of a table are called, by which bad ones are listed."""

    table: Table
    ids: Sequence[str | None]
    identities: Sequence[str | None]

    def bad(self, faults: Faults) -> tuple[BadRow, ...]:
        """List the bad rows."""
        lines = self.table.lines(faults.rows)
        return tuple(
            BadRow(
                row,
                self.ids[row] or "",
                self.identities[row] or "",
                "; ".join(dict.fromkeys(wrong)),
                lines.get(row),
            )
            for row, wrong in sorted(faults.rows.items())
        )


def split_rows(faults: Faults, names: RowNames) -> tuple[Codes, tuple[BadRow, ...]]:
    """Return the rows to go on with, and those that are set aside; refuse where more than half are bad."""
    bad, ids = names.bad(faults), names.ids
    if 2 * len(bad) > len(ids):
        raise SubmissionError(
            f"{len(bad):,} of {len(ids):,} rows of {names.table.where} are bad, more than half, so none is set aside; "
            f"look at the file and at the columns that are named. The first is {bad[0].place}: "
            f"{visible(bad[0].wrong, 200)}"
        )
    return faults.good(len(ids)), bad


def bad_rows_error(
    faults: Faults, names: RowNames, first: SubmissionError, *, submitted: bool
) -> SubmissionError:
    """Make the error for a table of which some rows cannot be used: all of them, or what is wrong with the one."""
    bad, aside = names.bad(faults), " with --quarantine" if submitted else ""
    if len(bad) == 1:
        line = "" if bad[0].line is None else f" ({bad[0].place} of the file)"
        return SubmissionError(f"{first}{line}" + (f", or leave it out{aside}" if submitted else ""))
    kinds = Counter(row.wrong for row in bad).most_common()
    by_kind = listed((f"{visible(wrong, 80)} (in {n:,})" for wrong, n in kinds), _KINDS, "; ")
    summary = f": {by_kind}" if len(kinds) < len(bad) else ""
    remedy = f"mend them, or leave them out{aside}"
    head = (
        f"{names.table.where}: {len(bad):,} of {len(names.ids):,} rows cannot be used{summary}; {remedy}"
    )
    more = [f"... and {len(bad) - _LISTED:,} more"] if len(bad) > _LISTED else []
    return SubmissionError("\n  ".join([head, *(row.words for row in bad[:_LISTED]), *more]))


def quarantine_csv(rows: Sequence[BadRow]) -> str:
    """Write bad rows as the list in the run's folder."""
    return csv_text(COLUMNS, [(r.line or "", r.row, r.unit, r.identity, r.wrong) for r in rows])


def read_quarantine(path: Path) -> list[BadRow]:
    """Read the list of a finished run."""
    return [
        BadRow(
            int(r["row"]), r["unit"], r["identity"], r["wrong"], int(r["line"]) if r["line"] else None
        )
        for r in read_csv(path)
    ]


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
    """Hold the images of a folder by their relative paths, with identity and label, which are folders.

    ``identity`` is empty for validation rows. ``labelled_shape`` is the layout with labels.
    """

    names: list[str]
    identity: list[str]
    label: NDArray[np.str_]
    skipped: Skipped  # what was not read
    labelled_shape: str

    @property
    def labelled(self) -> bool:
        """Tell if there are folders of labels."""
        return is_labelled(self.label)


def image_tree(folder: Path, *, identities: bool, labels: bool = True) -> ImageTree:
    """List the images of a folder laid out as ``identity/label/image``, or ``label/image`` without identities.

    If none is in a folder of a label, and some are one folder higher, there are no labels. Images at any other depth
    are skipped, and listed; if most would be, for want of a label, it is an error: one image added in a folder would
    leave out those of all other payees. For the same reason, if ``labels`` do not count, because validation rows have
    none, images of both layouts are read, those without a folder under the empty label.
    """
    owners = ("identity",) if identities else ()
    labelled, plain = "/".join((*owners, "label", "image")), "/".join((*owners, "image"))
    files = [(path, path.relative_to(folder).parts) for path in sorted(_files(folder))]
    depths = Counter(len(parts) for path, parts in files if not _why_not(path, 0, labelled))
    low, high = len(owners) + 2, len(owners) + 1  # parts of names with a label, and without
    if labels and 0 < depths[low] < depths[high]:
        raise DataMarketError(
            f"{str(folder)!r} holds {depths[low]:,} images as {labelled} and {depths[high]:,} as {plain}, which would "
            "not be read; lay all out in one way, or, where units have no labels, the validation rows without folders"
        )
    levels = {low} if low in depths else {high} & set(depths) or {low}
    if not labels:
        levels |= {high} & set(depths)
    shape = " or ".join(name for name, parts in ((labelled, low), (plain, high)) if parts in levels)
    images, skipped = [], []
    for path, parts in files:
        too_deep = min((len(parts) - level for level in levels), key=abs)
        if why := _why_not(path, too_deep, shape):
            skipped.append(("/".join(parts), why))
        else:
            images.append(parts)
    if not images:
        not_read = listed((f"{name} ({why})" for name, why in skipped), _FEW, "; ")
        raise DataMarketError(
            f"{str(folder)!r} holds no images laid out as {labelled}, nor, without labels, as {plain}"
            + (f"; not read: {not_read}" if not_read else ", nor any other file; check the path")
        )
    return ImageTree(
        ["/".join(parts) for parts in images],
        [parts[0] for parts in images if identities],
        np.array([parts[-2] if len(parts) == low else NO_LABEL for parts in images]),
        skipped,
        labelled,
    )


def unnamed_images(folder: Path, named: Collection[str]) -> Skipped:
    """List the images of a folder that no row of a table names."""
    root = _root(folder)
    in_table = {(root / name).resolve() for name in named}
    why = "no row names it; name it in the table, or take it away"
    return [
        ("/".join(path.relative_to(root).parts), why)
        for path in sorted(_files(root))
        if path.suffix.lower() in (*IMAGES, *UNREAD) and path.resolve() not in in_table
    ]


def _why_not(path: Path, too_deep: int, shape: str) -> str:
    """Say why a file is not read, and what to do; empty where it is."""
    ending = path.suffix.lower()
    if not path.is_file():
        if path.is_symlink():
            folder = "a link to a folder; put the folder itself there"
            return folder if path.is_dir() else "a link to nothing"
        return "no plain file"
    if path.name.startswith("."):
        return "hidden: a program's own, or rename it"
    place = "" if not too_deep else f"{'too deep' if too_deep > 0 else 'too high'}: move it to {shape}"
    if ending in IMAGES:
        return f"lies {place}" if place else ""
    if ending in UNREAD:
        too = f", and it lies {place}" if place else ""
        return f"{ending} is not read: save it as .jpg or .png{too}"
    return "no image by its ending"


def _files(folder: Path) -> Iterator[Path]:
    """List all that is in a folder and below it but folders; links to folders are not followed."""

    def refuse(error: OSError) -> None:
        raise SubmissionError(f"{error.filename!r} cannot be looked into: {error.strerror}") from error

    for where, folders, files in os.walk(folder, onerror=refuse):
        yield from (Path(where) / name for name in files)
        yield from (path for name in folders if (path := Path(where) / name).is_symlink())


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
    return {"name": folder.name, "bytes": sum(map(len, content)), "sha256": names_hash(lines, skipped)}


def names_hash(lines: Sequence[str], skipped: Skipped) -> str:
    """Hash lines, and the names of files that were not read."""
    skips = (f"skipped {name}: {why}" for name, why in skipped)
    return hashlib.sha256("\n".join([*lines, *skips]).encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(frozen=True, eq=False)
class Scored:
    """Hold the scores that a run is paid by, and the units that have none: these earn nothing."""

    table: ScoreTable
    unscored: tuple[str, ...]

    @property
    def learner(self) -> UtilityFunction:
        return ImportedScores(self.table)


def scores_file(spec: PayoutSpec, fetched: Path | None) -> Path | None:
    """Return the file of scores, as fetched or named; refuse one without the utility, and the utility without one."""
    file = fetched if fetched is not None or spec.files.scores is None else Path(spec.files.scores)
    is_needed = isinstance(spec.utility_function, ImportedScores)
    if is_needed and file is None:
        raise ParameterError(
            "utility",
            spec.learner,
            "it is paid by scores that another tool has computed: give their file with --scores (docs/scores.md)",
        )
    if file is not None and not is_needed:
        raise ParameterError(
            "scores",
            str(file),
            f"the run is paid by {spec.learner}: add --utility scores, or leave it out",
        )
    if file is not None and not file_and_member(str(file))[0].is_file():
        raise ParameterError(
            "scores",
            str(file),
            "there is no such file; check the path, or put the file back: a run is computed again from its scores",
        )
    return file


def read_scored(file: Path, places: Places, spec: PayoutSpec, rows: Rows, operator_rows: Rows) -> Scored:
    """Read the scores; rows that were set aside may have some, which do not count.

    ``rows`` and ``operator_rows`` (for validation) have the labels that count.
    """

    def id_column(table: Path) -> str | None:
        name = spec.columns.id or "id"
        return name if name in Table.open(table).names else None

    submissions, validation = places.submissions, places.validation
    bad = {row.row: row.unit for row in rows.bad}
    count = len(rows.ids) + len(bad)
    good = np.array([row for row in range(count) if row not in bad], dtype=np.int64)
    units: Names = count
    if submissions.is_dir() or id_column(submissions) is not None:
        names = np.empty(count, dtype=object)
        names[good] = rows.ids
        taken = set(rows.ids)
        for row, unit in bad.items():  # of several that share a name, it means one
            names[row] = "" if unit in taken else unit
            taken.add(unit)
        units = names.tolist()
    validation_ids: Names = len(operator_rows.features)
    if validation.is_dir():
        validation_ids = list(image_tree(validation, identities=False).names)
    elif (column := id_column(validation)) is not None:
        validation_ids = Table.open(validation).read([column])[0][column].named()
    scores = read_scores(file, units, validation_ids).take(good)
    label = rows.label if is_labelled(rows.label) else None
    table = scores.table(rows.features, label, operator_rows.features)
    return Scored(table, tuple(rows.ids[i] for i in scores.unscored(rows.features, label)))


def file_hash(path: Path) -> dict[str, str | int]:
    """Return name, length and sha256 of a file, and which of its sheets is meant."""
    whole, sheet = file_and_member(str(path))
    try:
        size, digest = whole.stat().st_size, sha256(whole)
    except OSError as error:
        raise SubmissionError(f"{str(path)!r} cannot be read: {error}") from error
    sheets = {"sheet": sheet_of(whole, sheet)} if ending(whole) == ".xlsx" else {}
    return {"name": path.name, "bytes": size, "sha256": digest, **sheets}
