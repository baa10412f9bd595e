"""From files to units: what a run reads, checked at the door, with the hash of every file it came from.

Inside the run identities and units go by numbers; their names, which submitters choose, come back only
when results are written. A name of any length or script therefore costs nothing and decides nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.columns import Column, Faults
from datamarket_gym.data.content_keys import unit_keys
from datamarket_gym.data.inputs import is_labelled, unlabelled, without_labels
from datamarket_gym.data.readers.arrays import ArrayFile
from datamarket_gym.data.readers.tables import Table, file_and_member, rows_read
from datamarket_gym.data.submission import Submission, Text, require_two_tables
from datamarket_gym.display import listed
from datamarket_gym.errors import ParameterError, SubmissionError
from datamarket_gym.evidence.graph import AcquiredMatches
from datamarket_gym.evidence.leakage import Leaks, ValidationContent
from datamarket_gym.execution.arrays import LARGEST, Codes, Features, beyond, taken
from datamarket_gym.market.encoders import ContentError, stored
from datamarket_gym.market.encoders.base import StoredEncoder
from datamarket_gym.payout.acquired_data import (
    AcquiredUnits,
    MatchedAcquiredUnits,
    UnitKind,
    kind_of_labels,
)
from datamarket_gym.payout.input_files import (
    BadRow,
    Scored,
    Skipped,
    add_bad_rows,
    file_hash,
    image_bytes,
    image_tree,
    images_hash,
    names_hash,
    note_columns,
    note_images,
    read_scored,
    split_rows,
    unnamed,
)
from datamarket_gym.payout.intake import IntakeLog, ReceivedTimes, content_kind, require_received
from datamarket_gym.payout.ledger.entries import ContentKind
from datamarket_gym.payout.ledger.runs import INTAKE
from datamarket_gym.payout.money import (
    validation_groups,
)
from datamarket_gym.payout.names import require_writable, unwritable
from datamarket_gym.payout.operator_evidence import Override
from datamarket_gym.payout.settings import Columns, PayoutSpec
from datamarket_gym.registry import name_of, source_elsewhere
from datamarket_gym.utilities.base import LEARNERS, UtilityFunction
from datamarket_gym.utilities.labels import require_labels
from datamarket_gym.utilities.oracle import ReferenceRows, UtilityOracle

FileHashes = dict[str, dict[str, str | int]]
"""Name, length and hash of each file that a run reads, by its role."""
Optional = list[str | None]
_FEW = 3  # earlier runs that are named
_NO_FEATURES = (
    "the {} have no features; name a column (--features), a file (--features-file), a text column (--text), or an "
    "image column and its folder (--image, --images)"
)
DEFAULTS = {"text": "minilm", "image": "resnet18"}


@dataclass(frozen=True, eq=False)
class Inputs:
    """A submission under numbers, its names, the validation rows, and columns used for linkage.

    ``identities[c]`` is the name of identity number c, ``ids[i]`` of unit i; sources are numbers, too.
    ``validation_embedding`` is what similarity evidence would compare of the validation rows; None where only the
    submission has embeddings.
    """

    submission: Submission
    ids: list[str]
    identities: list[str]
    validation_features: Features
    validation_label: NDArray[Any]
    validation_embedding: Features | None
    links: dict[str, Optional]
    has_time: bool
    derived: int  # units that name another as their source, here or not
    files: FileHashes
    skipped: dict[str, Skipped]  # files in folders that were not read and why, by whose folder it is
    validation_text: list[str] | None = None
    reference: ReferenceRows | None = (
        None  # what thresholds are measured on, where it is not the validation rows
    )
    aside: frozenset[str] = frozenset()  # names of units that were set aside, or were found to be false
    removed: dict[str, int] = field(default_factory=dict)  # found to be false, by identity
    bad: tuple[BadRow, ...] = ()  # rows that were set aside at the door, since they cannot be used
    columns: tuple[str, ...] = ()  # that the features came from
    encoder: str = ""  # that made them of texts or images; blank where they were submitted
    prior: AcquiredUnits | None = (
        None  # what earlier runs have bought, where the run is priced given that
    )
    received: ReceivedTimes | None = None  # where times are from the operator's intake log
    scored: Scored | None = None  # where scores of another tool are paid for
    ignored_labels: tuple[str, ...] = ()  # labels that are there and do not count, in words

    @property
    def labelled(self) -> bool:
        """Whether labels count: all have them, the units, the validation rows and what was bought before."""
        return self.submission.labelled

    @cached_property
    def owner(self) -> Codes:
        """The number of each unit's identity; worked out once, as tables ask for it unit by unit."""
        return self.submission.identity.astype(np.int64)

    @property
    def everyone(self) -> Text:
        """The numbers of all identities, as submissions write them; of units that were set aside too."""
        return numbered(len(self.identities))

    @property
    def absent(self) -> frozenset[str]:
        """Names of units that were submitted and do not play, for whatever reason."""
        return self.aside | {row.unit for row in self.bad}

    @property
    def learner(self) -> UtilityFunction | None:
        """What units are scored by, where it takes more than its written form to make it."""
        return None if self.scored is None else self.scored.learner

    @property
    def held(self) -> ValidationContent:
        """The validation rows, as far as units are compared with them."""
        return ValidationContent(
            self.validation_features, self.validation_embedding, self.validation_text
        )

    def validation_order(self, spec: PayoutSpec) -> Codes:
        """Return the rows of the validation file in the order in which the utility has them."""
        features, label = self.validation_features, self.validation_label
        group = validation_groups(features, label, spec.seed)
        return np.lexsort((unit_keys(features, label), group))

    def utility_oracle(self, spec: PayoutSpec) -> UtilityOracle:
        """Build the utility on the validation rows, in order of their groups and content; given what was bought."""
        order, embedding = self.validation_order(spec), self.validation_embedding
        utility = UtilityOracle(
            self.validation_features[order],
            self.validation_label[order],
            spec.utility,
            learner=self.learner,
            embedding=None if embedding is None else embedding[order],
            reference=self.reference,
        )
        return utility if self.prior is None else utility.given(self.prior.art)

    def named(self, leaks: Leaks) -> Leaks:
        """Leaked units, which later periods must know, under the names of units and identities."""
        owner = self.owner
        return replace(
            leaks,
            units=self.submission.take(leaks.unit) if len(leaks) else None,
            id=np.array([self.ids[u] for u in leaks.unit], dtype=object),
            identity=np.array([self.identities[owner[u]] for u in leaks.unit], dtype=object),
        )

    def without_units(self, names: Collection[str]) -> Inputs:
        """The inputs without units that checks found to be false; their identities stay."""
        gone = np.array([name in names for name in self.ids])
        if gone.all():
            raise SubmissionError("no unit is left to pay for: all were found to be false")
        counts = Counter(self.identities[owner] for owner in self.owner[gone])
        return replace(self.playing(np.flatnonzero(~gone)), removed=dict(counts))

    @property
    def kind(self) -> UnitKind:
        """What units of earlier runs must have in common with these."""
        units = self.submission
        embedding = None if units.embedding is None else units.embedding.shape[1]
        columns = self.columns if len(self.columns) > 1 else ()
        return UnitKind(
            units.features.shape[1], embedding, kind_of_labels(units.label), columns, self.encoder
        )

    def given(self, prior: AcquiredUnits, spec: PayoutSpec) -> Inputs:
        """The inputs of a run that is priced given what was bought; without labels, where some of that has none.

        Refused where what is paid for needs them.
        """
        if not self.labelled or prior.art.units.labelled:
            return replace(self, prior=prior)
        bought = f"what was bought before ({listed(prior.unlabelled, _FEW)})"
        require_labels(f"the units of {bought}", prior.art.label, LEARNERS.create(spec.learner))
        return replace(
            self,
            submission=without_labels(self.submission),
            validation_label=unlabelled(len(self.validation_label)),
            reference=self.reference and without_labels(self.reference),
            prior=prior,
            ignored_labels=(f"the submissions and the validation rows have labels, {bought} has none",),
        )

    def units_named(self, overrides: Iterable[Override]) -> list[str]:
        """The units of the run, and those of earlier runs that overrides name."""
        named = {name for each in overrides for name in each.units}
        prior = self.prior
        old = [] if prior is None else [name for name in sorted(named) if prior.row_of(name) is not None]
        return [*self.ids, *old]

    def named_known(self, known: AcquiredMatches) -> MatchedAcquiredUnits:
        """Units that earlier runs have bought, by their names."""
        if self.prior is None or not len(known):
            return MatchedAcquiredUnits.none()
        return self.prior.named(
            known,
            [self.ids[i] for i in known.unit],
            [self.identities[c] for c in self.owner[known.unit]],
        )

    def playing(self, rest: Codes) -> Inputs:
        """Return the inputs with these units alone; the others are set aside, their identities stay."""
        if len(rest) == len(self.ids):
            return self
        kept = [self.ids[i] for i in rest]
        return replace(
            self,
            submission=self.submission.take(rest),
            ids=kept,
            links={name: [column[i] for i in rest] for name, column in self.links.items()},
            aside=self.aside | (frozenset(self.ids) - frozenset(kept)),
            received=None if self.received is None else self.received.take(rest),
        )


@dataclass(kw_only=True)
class Rows:
    """The columns of the validation rows, or of the reference rows."""

    features: Features
    label: NDArray[Any]
    embedding: Features | None = None
    columns: tuple[str, ...] = ()  # that the features came from
    text: list[str] | None = None
    skipped: Skipped = field(default_factory=list)  # files of the folder that were not read
    images: dict[str, list[str]] = field(default_factory=dict)  # folders, and the images named in each
    blank: bool = False  # where a column of labels is there in which nothing stands


@dataclass(kw_only=True)
class SubmittedRows(Rows):
    """The columns of the submissions."""

    ids: list[str]
    identity: list[str]
    time: NDArray[Any] | None = None
    links: dict[str, Optional] = field(default_factory=dict)
    source: Optional | None = None
    metadata: Optional | None = None
    bad: tuple[BadRow, ...] = ()  # rows that were set aside
    encoder: str = ""  # that made the features of texts or images, weights and all
    received: ReceivedTimes | None = None  # where times are from the intake log


class Tables(NamedTuple):
    """The tables of a run with the labels that count, and a line for each table whose labels do not."""

    rows: SubmittedRows
    held: Rows
    sample: Rows | None
    ignored: tuple[str, ...]


def read_inputs(
    submissions: Path,
    validation: Path,
    spec: PayoutSpec,
    more: dict[str, Path] | None = None,
    reference: Path | None = None,
    log: IntakeLog | None = None,
    scores: Path | None = None,
) -> Inputs:
    """Read and check everything; ``more`` names further files whose hashes belong to the run.

    With a ``log`` times are from it alone, and what was taken from it belongs to the run. ``scores`` is the file of
    another tool's scores, where these are paid for.
    """
    files: FileHashes = {}
    tables = read_tables(submissions, validation, reference, spec, files, log)
    rows, held, sample, _ = tables
    files |= {role: file_hash(path) for role, path in (more or {}).items()}
    named = {"submissions": rows, "validation": held} | ({} if sample is None else {"reference": sample})
    skipped = {role: each.skipped for role, each in named.items()}
    if strangers := _unnamed([each.images for each in named.values()]):
        skipped["images"] = strangers
        files["images"] = {"name": "", "bytes": 0, "sha256": names_hash([], strangers)}
    if rows.bad:  # whether an image can be read is not told by the table's hash
        lines = [f"{row.row} {row.wrong}" for row in rows.bad]
        files["quarantine"] = {"name": "", "bytes": 0, "sha256": names_hash(lines, [])}
    if rows.received is not None:
        files[INTAKE] = {"name": "", "bytes": 0, "sha256": rows.received.sha256}
    if (source := source_elsewhere("learner", name_of(LEARNERS.create(spec.learner)))) is not None:
        files["utility"] = {"name": source[0], "bytes": 0, "sha256": source[1]}  # code of one's own
    scored = None if scores is None else read_scored(scores, submissions, validation, spec, rows, held)
    return replace(_assemble(tables, files, skipped), scored=scored)


def _unnamed(images: Sequence[dict[str, list[str]]]) -> Skipped:
    """List the images that lie in the folders of image columns and are named by none of the tables."""
    named: dict[Path, set[str]] = {}
    for folders in images:
        for folder, names in folders.items():
            named.setdefault(Path(folder).resolve(), set()).update(names)
    return [
        (f"{folder.name}/{name}", why)
        for folder, names in sorted(named.items())
        for name, why in unnamed(folder, names)
    ]


def read_tables(
    submissions: Path,
    validation: Path,
    reference: Path | None,
    spec: PayoutSpec,
    files: FileHashes,
    log: IntakeLog | None = None,
) -> Tables:
    """Read the units, the validation rows and, if there are any, the reference rows, with the labels that count.

    The hash of each file is added to ``files``. With a ``log`` times are from it alone.
    """
    require_two_tables(submissions, validation)
    if reference is not None:
        require_two_tables(submissions, reference, "reference")
    require_label_columns({"submissions": submissions, "validation rows": validation}, spec)
    # Tables are read as they come; but how a folder of images is read is up to the validation rows.
    hashes: FileHashes = {}
    held = read_validation_table(validation, spec, hashes) if submissions.is_dir() else None
    rows = read_submitted(submissions, spec, files, held, log)
    held = held or read_validation_table(validation, spec, hashes)
    files |= hashes
    sample = None if reference is None else read_validation_table(reference, spec, files, "reference")
    return _count_labels(rows, held, sample)


def read_submitted(
    path: Path,
    spec: PayoutSpec,
    files: FileHashes,
    held: Rows | None = None,
    log: IntakeLog | None = None,
) -> SubmittedRows:
    """Read the submitted units; the hash of each file read is added to ``files``.

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
    other = [names[role] for role in ("label", "time") if role in names]
    text = [name for role, name in names.items() if role not in ("label", "time")]
    faults = Faults() if spec.quarantine else None
    single, dense = table.read([*text, *linked], other, matrices, faults, low_precision=True)
    count = len(single[columns.identity].data)
    if blank := "label" in names and _has_no_labels(single[names["label"]], spec):
        del names["label"]
    for role, file in files_of.items():
        if file is not None:
            apart = f"{'submissions ' * (role == 'features')}{role}"
            dense[role] = _apart(file, count, files, apart, finite=faults is None)

    def keep(rows: Codes) -> None:
        nonlocal single, dense
        single = {name: column.of(rows) for name, column in single.items()}
        dense = {role: taken(matrix, rows) for role, matrix in dense.items()}

    rows, bad = np.arange(count), tuple[BadRow, ...]()
    if faults is not None:
        rows, bad = _quarantined(faults, spec, names, single, dense, repr(str(path)))
        keep(rows)
    ids = single[names["id"]].named() if "id" in names else [f"row {i}" for i in rows.tolist()]
    received = None
    if log is not None:
        what, content = _content(spec, single, dense)
        owners, label = single[columns.identity].named(), _labels(single, names, len(ids))
        logged, bad, received = _dated(log, what, owners, label, content, ids, rows, bad, spec, path)
        keep(logged)
        ids = [ids[i] for i in logged]
    images: dict[str, list[str]] = {}
    label = _labels(single, names, len(ids), numbers=_predicts_numbers(spec))
    features, encoder = dense.get("features"), ""
    if features is None:
        features = _features(spec, single, ids, files, "submissions", spec.files.images, images)
        encoder = content_encoder(spec, "text" if columns.text else "image").encoder.identity

    def optional(role: str) -> Optional | None:
        return single[names[role]].optional() if role in names else None

    return SubmittedRows(
        ids=ids,
        identity=single[columns.identity].named(),
        label=label,
        features=features,
        embedding=dense.get("embedding"),
        time=single[names["time"]].times() if "time" in names else getattr(received, "time", None),
        links={name: single[name].optional() for name in linked},
        source=optional("trusted_source"),
        metadata=optional("metadata"),
        columns=tuple(matrices.get("features", ())),
        text=single[names["text"]].strings() if "text" in names else None,
        images=images,
        bad=bad,
        encoder=encoder,
        received=received,
        blank=blank,
    )


def _labels(
    single: dict[str, Column], names: dict[str, str], count: int, *, numbers: bool = False
) -> NDArray[Any]:
    """Return the labels, as they are written or as the numbers that they stand for; empty ones where there are none."""
    if "label" not in names:
        return unlabelled(count)
    column = single[names["label"]]
    return column.numbers() if numbers else column.values()


def _content(
    spec: PayoutSpec, single: dict[str, Column], dense: dict[str, Features]
) -> tuple[ContentKind, list[str] | list[bytes] | Features]:
    """Return what the intake log has of units: their texts, the files of their images, or their features."""
    what, columns = content_kind(spec.columns), spec.columns
    if what == "text":
        return what, single[str(columns.text)].strings()
    if what == "image" and spec.files.images is not None:
        return what, image_bytes(Path(spec.files.images), single[str(columns.image)].named())
    if what == "features" and "features" in dense:
        return what, dense["features"]
    raise SubmissionError(_NO_FEATURES.format("submissions"))


def _dated(
    log: IntakeLog,
    what: ContentKind,
    owners: list[str],
    label: NDArray[Any],
    content: list[str] | list[bytes] | Features,
    ids: list[str],
    rows: Codes,
    bad: tuple[BadRow, ...],
    spec: PayoutSpec,
    path: Path,
) -> tuple[Codes, tuple[BadRow, ...], ReceivedTimes]:
    """Return the places of the units that the intake log has, all rows that are set aside, and the times."""
    received, unlogged = log.received(what, owners, label, content)
    if not spec.quarantine:
        require_received(unlogged, ids, owners, log)
    logged, bad = add_bad_rows(bad, unlogged, rows, ids, owners, repr(str(path)))
    return logged, bad, received.take(logged)


def _submitted_images(
    path: Path, spec: PayoutSpec, files: FileHashes, labels: bool, log: IntakeLog | None
) -> SubmittedRows:
    """Read the units of a folder laid out as identity/label/image, or identity/image."""
    tree = image_tree(path, identities=True, labels=labels)
    ids, owners, label = tree.names, tree.identity, tree.label
    rows, bad, received = np.arange(len(ids)), tuple[BadRow, ...](), None
    encoder = content_encoder(spec, "image").encoder
    if spec.quarantine:
        faults = Faults()
        note_images(faults, path, ids, encoder)
        rows, bad = split_rows(faults, ids, owners, repr(str(path)))
        ids, owners, label = [ids[i] for i in rows], [owners[i] for i in rows], label[rows]
    if log is not None:
        content = image_bytes(path, ids)
        logged, bad, received = _dated(log, "image", owners, label, content, ids, rows, bad, spec, path)
        ids, owners, label = [ids[i] for i in logged], [owners[i] for i in logged], label[logged]
    return SubmittedRows(
        ids=ids,
        identity=owners,
        label=label,
        features=_images(path, ids, ids, spec, files, "submissions", tree.skipped),
        time=getattr(received, "time", None),
        skipped=tree.skipped,
        bad=bad,
        received=received,
        encoder=encoder.identity,
    )


def _quarantined(
    faults: Faults,
    spec: PayoutSpec,
    names: dict[str, str],
    single: dict[str, Column],
    dense: dict[str, Features],
    what: str,
) -> tuple[Codes, tuple[BadRow, ...]]:
    """Return the rows that can be used, and the others with what is wrong."""
    required = {r: single[n] for r, n in names.items() if r not in ("trusted_source", "metadata")}
    note_columns(faults, required)
    if "label" in names and _predicts_numbers(spec):
        for row, wrong in single[names["label"]].bad_numbers().items():
            faults.note([row], f"{names['label']}: {wrong}")
    for role, matrix in dense.items():
        faults.note_numbers(role, matrix)
    if "features" not in dense and spec.columns.image is not None and spec.files.images is not None:
        named = single[spec.columns.image].optional()
        note_images(faults, Path(spec.files.images), named, content_encoder(spec, "image").encoder)
    identity = single[spec.columns.identity].optional()
    ids = single[names["id"]].optional() if "id" in names else [f"row {i}" for i in range(len(identity))]
    return split_rows(faults, ids, identity, what)


def read_validation_table(
    path: Path, spec: PayoutSpec, files: FileHashes, whose: str = "validation"
) -> Rows:
    """Read the validation rows, or the reference rows; none of them is ever set aside."""
    if path.is_dir():
        tree = image_tree(path, identities=False)
        features = _images(path, tree.names, tree.names, spec, files, whose, tree.skipped)
        return Rows(features=features, label=tree.label, skipped=tree.skipped)
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
    if blank := bool(names) and _has_no_labels(single[names["label"]], spec):
        names = {}
    label = _labels(single, names, count, numbers=_predicts_numbers(spec))
    images: dict[str, list[str]] = {}
    if features_file:
        dense["features"] = np.asarray(_apart(features_file, count, files, f"{whose} features"))
    elif "features" not in dense:
        folder = getattr(spec.files, f"{whose}_images") or spec.files.images
        dense["features"] = _features(spec, single, range(count), files, whose, folder, images)
    for role, matrix in dense.items():
        _require_size(matrix, f"{str(path)!r}: {role!r}", "drop the row")
    return Rows(
        features=dense["features"],
        label=label,
        embedding=dense.get("embedding"),
        columns=tuple(matrices.get("features", ())),
        text=None if columns.text is None else single[columns.text].strings(),
        images=images,
        blank=blank,
    )


def _require_size(
    matrix: Features | None, where: str, remedy: str, ids: Sequence[str] | None = None
) -> None:
    """Refuse numbers so large that distances to them overflow, by the row of the first or its unit."""
    if matrix is not None and (at := beyond(matrix, LARGEST)) is not None:
        row, entry = at
        unit = f" of unit {ids[row]!r}" if ids is not None else ""
        raise SubmissionError(
            f"{where}{unit}, row {row}, entry {entry} is {float(matrix[row, entry]):g}; {remedy} or fill in a "
            f"number of at most {LARGEST:g} in size"
        )


def _features(
    spec: PayoutSpec,
    single: dict[str, Column],
    ids: Sequence[object],
    files: FileHashes,
    which: str,
    folder: str | None,
    images: dict[str, list[str]],
) -> Features:
    """Embed content; add to ``images`` which files of which folder were named."""
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
    """Embed images; the folder's hash covers their bytes and names, and the names of what was skipped."""
    content = image_bytes(folder, names, "row" if what in ("unit", "image") else what)
    files[role] = images_hash(folder, names, content, skipped or [])
    return embed(content, content_encoder(spec, "image"), ids, what)


def _apart(written: str, rows: int, files: FileHashes, role: str, *, finite: bool = True) -> Features:
    path, member = file_and_member(written)
    files[role] = file_hash(path)
    return ArrayFile.open(path).matrix(member, rows, finite=finite, low_precision=True)


def submitted_roles(table: Table, columns: Columns, *, dated: bool = True) -> dict[str, str]:
    """Return the columns of the submissions with one value per unit, by role; those that are named may not be there.

    A column ``time`` holds times only where ``dated``, that is where times are not from elsewhere.
    """
    names = {"identity": columns.identity}
    if labels := table.label_column(columns.label):
        names["label"] = labels
    for role in ("id", "time", "text", "image", "trusted_source", "metadata"):
        by_itself = role == "id" or (role == "time" and dated)
        if (name := getattr(columns, role)) is not None:
            names[role] = name
        elif by_itself and role in table.names:
            names[role] = role
    return names


def matrix_roles(table: Table, columns: Columns, roles: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns that features and embeddings are made of, by role; none of features that content makes."""
    out = {}
    for role in roles:
        content = role == "features" and (columns.text or columns.image)
        if (name := getattr(columns, role)) is not None:
            out[role] = table.require_matrix(role, name)
        elif not content and (found := table.matrix_columns(role)):
            out[role] = found
    return out


def link_columns(spec: PayoutSpec) -> list[str]:
    """List the columns that linkage needs, beside the roles a unit has anyway."""
    parts = [part.strip() for key in spec.linkage.keys for part in key.split("+")]
    plain = [part for part in parts if not part.startswith("time:")]
    confirm = [] if spec.linkage.confirm is None else [spec.linkage.confirm]
    return list(dict.fromkeys([*plain, *spec.linkage.fuzzy, *confirm]))


def _predicts_numbers(spec: PayoutSpec) -> bool:
    return LEARNERS.create(spec.learner).target == "number"


def require_label_columns(tables: Mapping[str, Path], spec: PayoutSpec) -> None:
    """Refuse tables and folders without labels, where what is paid for needs them, by their headers alone.

    That is before any text or image is embedded, which may take long.
    """
    learner = LEARNERS.create(spec.learner)
    if learner.target == "none":
        return
    for whose, path in tables.items():
        missing = ""
        if path.is_dir():
            tree = image_tree(path, identities=whose == "submissions")
            if not tree.labelled:
                missing = f"holds no folders of labels ({tree.labelled_shape})"
        elif Table.open(path).label_column(spec.columns.label) is None:
            asked = spec.columns.label == ""
            missing = "is read without labels, as asked" if asked else "has no column 'label'"
        if missing:
            require_labels(f"the {whose} ({str(path)!r} {missing})", unlabelled(1), learner)


def _count_labels(rows: SubmittedRows, held: Rows, sample: Rows | None = None) -> Tables:
    """Return the tables as they are if units and validation rows have labels; else without any."""
    sides: dict[str, Rows] = {"the submissions": rows, "the validation rows": held}
    having = [name for name, table in sides.items() if is_labelled(table.label)]
    if len(having) == len(sides):
        return Tables(rows, held, sample, ())
    ignored = [
        f"{name} have labels, {other} have none" for name in having for other in sides if other != name
    ]
    ignored += [
        f"column “label” of {name} is empty in every row" for name, table in sides.items() if table.blank
    ]
    return Tables(
        without_labels(rows), without_labels(held), sample and without_labels(sample), tuple(ignored)
    )


def _has_no_labels(column: Column, spec: PayoutSpec) -> bool:
    """Tell if nothing stands in a column of labels; refused where what is paid for needs them."""
    if not column.is_blank(spec.columns.label):
        return False
    whose = f"the rows of {column.where} (column {column.name!r} is empty in every row)"
    require_labels(whose, unlabelled(1), LEARNERS.create(spec.learner))
    return True


def embed(items: Sequence[Any], chosen: StoredEncoder, ids: Sequence[object], what: str) -> Features:
    """Make one vector per item; an item that cannot be embedded is named by its unit, or by its row."""
    try:
        return chosen.encode(items)
    except ContentError as error:
        raise SubmissionError(f"{what} {ids[error.row]!r}: {error.why}") from error


def content_encoder(spec: PayoutSpec, kind: str) -> StoredEncoder:
    """Make the encoder of a run for texts or images; refuse one that reads the other."""
    chosen = stored(spec.encoder or DEFAULTS[kind])
    if chosen.kind != kind:
        raise ParameterError(
            "encoder", spec.encoder, f"it reads {chosen.kind}s, the submission holds {kind}s"
        )
    return chosen


def _assemble(tables: Tables, files: FileHashes, skipped: dict[str, Skipped]) -> Inputs:
    rows, held, sample, ignored = tables
    require_writable("id", rows.ids)
    require_writable("identity", rows.identity)
    _require_alike(rows, held, "validation")
    if sample is not None:
        _require_alike(rows, sample, "reference")
    for what, matrix in (("features", rows.features), ("embedding", rows.embedding)):
        _require_size(matrix, repr(what), "remove the unit", rows.ids)
    _require_once(rows.ids)
    # An identity of bad rows alone is listed, and paid nothing.
    named = {row.identity for row in rows.bad if row.identity and not unwritable(row.identity)}
    identities = sorted(named.union(rows.identity))
    number = {name: i for i, name in enumerate(identities)}
    numbers = numbered(max(len(rows.ids), len(identities)))
    place = {name: i for i, name in enumerate(rows.ids)}
    source = rows.source or rows.ids  # its own where it names none, or one that is not here
    sources = [place.get(name or "", i) for i, name in enumerate(source)]
    submission = Submission(
        id=numbers[: len(rows.ids)],
        source=None if rows.source is None else numbers[sources],
        identity=numbers[[number[name] for name in rows.identity]],
        features=rows.features,
        label=rows.label,
        embedding=rows.embedding,
        time=rows.time,
        metadata={
            role: np.array(cells, dtype=object)
            for role, cells in (("text", rows.text), ("metadata", rows.metadata))
            if cells is not None
        },
    )
    reference = None
    if sample is not None:
        reference = ReferenceRows(sample.features, sample.label, sample.embedding, sample.text)
    return Inputs(
        submission=submission,
        ids=rows.ids,
        identities=identities,
        validation_features=held.features,
        validation_label=held.label,
        validation_embedding=held.features if rows.embedding is None else held.embedding,
        links=rows.links,
        has_time=rows.time is not None,
        derived=sum(name not in (None, unit) for unit, name in zip(rows.ids, source, strict=True)),
        files=files,
        skipped=skipped,
        validation_text=held.text,
        reference=reference,
        bad=rows.bad,
        columns=rows.columns,
        encoder=rows.encoder,
        received=rows.received,
        ignored_labels=ignored,
    )


def numbered(count: int) -> Text:
    """Write the numbers from 0 on as ids of submissions: nine digits each."""
    digits = np.arange(count)[:, None] // 10 ** np.arange(8, -1, -1) % 10 + ord("0")
    return digits.astype(np.uint32).view("U9").reshape(-1)


def _require_once(ids: list[str]) -> None:
    """Refuse two units of one name, by both rows."""
    if len(set(ids)) == len(ids):
        return
    seen: dict[str, int] = {}
    for row, name in enumerate(ids):
        if seen.setdefault(name, row) != row:
            raise SubmissionError(
                f"unit id {name!r} appears in rows {seen[name]} and {row}; ids must be unique"
            )


def _require_alike(rows: Rows, held: Rows, whose: str) -> None:
    """Refuse rows whose numbers are not those of the submissions."""
    for what in ("features", "embedding"):
        theirs, ours = getattr(rows, what), getattr(held, what)
        if theirs is not None and ours is not None and theirs.shape[1] != ours.shape[1]:
            raise SubmissionError(
                f"{what!r} has {theirs.shape[1]} numbers per unit in the submissions and {ours.shape[1]} in the "
                f"{whose} rows; give both the same"
            )
    if min(len(rows.columns), len(held.columns)) > 1 and rows.columns != held.columns:
        pairs = zip(rows.columns, held.columns, strict=True)
        theirs, ours = next((a, b) for a, b in pairs if a != b)
        raise SubmissionError(
            f"the features of the submissions are {theirs!r} where those of the {whose} rows are {ours!r}; give both "
            "tables the same columns"
        )
