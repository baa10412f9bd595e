"""From files to units: what a run reads, checked at the door, with the hash of every file it came from.

Inside the run identities and units go by numbers; their names, which submitters choose, come back only
when results are written. A name of any length or script therefore costs nothing and decides nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.columns import Column, Faults
from datamarket_gym.data.content_keys import unit_keys
from datamarket_gym.data.inputs import NO_LABEL, is_labelled, unlabelled, without_labels
from datamarket_gym.data.readers.arrays import ArrayFile
from datamarket_gym.data.readers.tables import Table, file_and_member, rows_read
from datamarket_gym.data.submission import Submission, Text, require_two_tables
from datamarket_gym.display import listed
from datamarket_gym.errors import ParameterError, SubmissionError
from datamarket_gym.evidence.graph import AcquiredMatches
from datamarket_gym.evidence.leak_check import Leaks, ValidationContent
from datamarket_gym.execution.arrays import LARGEST, Codes, Features, beyond, taken
from datamarket_gym.execution.parallel import compute
from datamarket_gym.market.encoders import ContentError, stored
from datamarket_gym.market.encoders.base import StoredEncoder
from datamarket_gym.payout.acquired_data import (
    AcquiredUnits,
    MatchedAcquiredUnit,
    UnitKind,
    kind_of_labels,
)
from datamarket_gym.payout.input_files import (
    BadRow,
    RowNames,
    Scored,
    Skipped,
    bad_rows_error,
    file_hash,
    image_bytes,
    image_tree,
    images_hash,
    names_hash,
    note_images,
    read_scored,
    scores_file,
    split_rows,
    unnamed_images,
)
from datamarket_gym.payout.intake import IntakeLog, ReceivedTimes, content_kind, require_received
from datamarket_gym.payout.ledger.entries import ContentKind
from datamarket_gym.payout.ledger.runs import INTAKE
from datamarket_gym.payout.money import validation_groups
from datamarket_gym.payout.names import first_words, require_writable, unwritable
from datamarket_gym.payout.overrides import Override
from datamarket_gym.payout.settings import Columns, Files, LinkageRule, PayoutSpec
from datamarket_gym.payout.stored_inputs import Places
from datamarket_gym.registry import name_of, source_elsewhere
from datamarket_gym.utilities.base import UtilityFunction
from datamarket_gym.utilities.labels import require_labels
from datamarket_gym.utilities.oracle import ReferenceRows, Utility, UtilityOracle

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
    """Hold a submission under numbers, its names, the validation rows, and columns used for linkage.

    ``identities[c]`` is the name of identity number c, ``ids[i]`` of unit i; sources are numbers, too.
    ``validation_embedding`` is what similarity evidence compares; None where only the submission has embeddings.
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
    reference: ReferenceRows | None = None  # that thresholds are measured on instead
    aside: frozenset[str] = frozenset()  # names of units that were set aside, or found to be false
    removed: dict[str, int] = field(default_factory=dict)  # found to be false, by identity
    bad: tuple[BadRow, ...] = ()  # rows that cannot be used, and were set aside
    columns: tuple[str, ...] = ()  # that the features came from
    encoder: str = ""  # that made them of texts or images; blank where they were submitted
    acquired: AcquiredUnits | None = None  # of earlier runs, where units are compared with these
    received: ReceivedTimes | None = None  # where times are from the operator's intake log
    scored: Scored | None = None  # where scores of another tool are paid for
    ignored_labels: tuple[str, ...] = ()  # labels that are there and do not count, in words
    excerpts: dict[str, str] = field(default_factory=dict)  # of all units: first words, or image file

    @property
    def labelled(self) -> bool:
        """True if labels count: units, validation rows and previously acquired units have them."""
        return self.submission.labelled

    @cached_property
    def owner(self) -> Codes:
        """Return the number of each unit's identity."""
        return self.submission.identity.astype(np.int64)

    @property
    def everyone(self) -> Text:
        """Return the numbers of all identities, as submissions write them."""
        return numbered(len(self.identities))

    @property
    def absent(self) -> frozenset[str]:
        """Return the names of units that were submitted and do not play."""
        return self.aside | {row.unit for row in self.bad}

    @property
    def learner(self) -> UtilityFunction | None:
        """Return the utility, where its written form is not enough to make it."""
        return None if self.scored is None else self.scored.learner

    @property
    def validation_content(self) -> ValidationContent:
        """Return the validation rows, as far as units are compared with them."""
        return ValidationContent(
            self.validation_features, self.validation_embedding, self.validation_text
        )

    def validation_order(self, spec: PayoutSpec) -> Codes:
        """Return the rows of the validation file in the order in which the utility has them."""
        rows = self.validation_features, self.validation_label
        return np.lexsort((unit_keys(*rows), validation_groups(*rows, spec.seed)))

    def utility_oracle(self, spec: PayoutSpec) -> UtilityOracle:
        """Build the utility on the validation rows, with previously acquired units."""
        oracle = self.oracle_on(self.validation_order(spec), spec)
        if self.acquired is None:
            return oracle
        return oracle.given(self.acquired.art, discount=spec.acquired_discount)

    def oracle_on(self, order: Codes, spec: PayoutSpec, utility: Utility | None = None) -> UtilityOracle:
        """Build the utility (or another than the run's) on these validation rows, as if nothing was acquired before."""
        embedding, text = self.validation_embedding, self.validation_text
        return UtilityOracle(
            self.validation_features[order],
            self.validation_label[order],
            utility or spec.utility,
            learner=self.learner or spec.utility_function,
            embedding=None if embedding is None else embedding[order],
            text=text and [text[row] for row in order.tolist()],
            reference=self.reference,
        )

    def named(self, leaks: Leaks) -> Leaks:
        """Name leaked units and their identities; later runs must know the units."""
        owner = self.owner
        return replace(
            leaks,
            units=self.submission.take(leaks.unit) if len(leaks) else None,
            id=np.array([self.ids[u] for u in leaks.unit], dtype=object),
            identity=np.array([self.identities[owner[u]] for u in leaks.unit], dtype=object),
        )

    def without_units(self, names: Collection[str]) -> Inputs:
        """Return the inputs without units that checks found to be false; their identities stay."""
        false = np.array([name in names for name in self.ids])
        if false.all():
            raise SubmissionError("no unit is left to pay for: all were found to be false")
        counts = Counter(self.identities[owner] for owner in self.owner[false])
        return replace(self.playing(np.flatnonzero(~false)), removed=dict(counts))

    @property
    def kind(self) -> UnitKind:
        """Return what units of earlier runs must have in common with these."""
        units = self.submission
        embedding = None if units.embedding is None else units.embedding.shape[1]
        columns = self.columns if len(self.columns) > 1 else ()
        return UnitKind(
            units.features.shape[1], embedding, kind_of_labels(units.label), columns, self.encoder
        )

    def given(self, acquired: AcquiredUnits, spec: PayoutSpec) -> Inputs:
        """Return the inputs with acquired units; without labels, or refused, if some have none."""
        if not self.labelled or acquired.art.units.labelled:
            return replace(self, acquired=acquired)
        earlier = f"what was acquired before ({listed(acquired.unlabelled, _FEW)})"
        require_labels(f"the units of {earlier}", acquired.art.label, spec.utility_function)
        return replace(
            self,
            submission=without_labels(self.submission),
            validation_label=unlabelled(len(self.validation_label)),
            reference=self.reference and without_labels(self.reference),
            acquired=acquired,
            ignored_labels=(f"the submissions and the validation rows have labels, {earlier} has none",),
        )

    def units_named(self, overrides: Iterable[Override]) -> list[str]:
        """List the units of the run, and those of earlier runs that overrides name."""
        names = sorted({name for override in overrides for name in override.units})
        acquired = self.acquired
        return [
            *self.ids,
            *(n for n in names if acquired is not None and acquired.row_of(n) is not None),
        ]

    def named_known(self, known: AcquiredMatches) -> list[MatchedAcquiredUnit]:
        """Name units that match previously acquired ones."""
        if self.acquired is None:
            return []
        owners = [self.identities[c] for c in self.owner[known.unit]]
        return self.acquired.named(known, [self.ids[i] for i in known.unit], owners)

    def playing(self, rest: Codes) -> Inputs:
        """Return the inputs with these units alone; the others are set aside, their identities stay."""
        if len(rest) == len(self.ids):
            return self
        ids = [self.ids[i] for i in rest]
        return replace(
            self,
            submission=self.submission.take(rest),
            ids=ids,
            links={name: [column[i] for i in rest] for name, column in self.links.items()},
            aside=self.aside | (frozenset(self.ids) - frozenset(ids)),
            received=None if self.received is None else self.received.take(rest),
        )


@dataclass(kw_only=True)
class Rows:
    """Hold columns of submissions, validation rows or reference rows; only units have names."""

    features: Features
    label: NDArray[Any]
    embedding: Features | None = None
    columns: tuple[str, ...] = ()  # that the features came from
    text: list[str] | None = None
    blank: bool = False  # where a column of labels is there in which nothing stands
    ids: list[str] = field(default_factory=list)
    identity: list[str] = field(default_factory=list)
    time: NDArray[Any] | None = None
    links: dict[str, Optional] = field(default_factory=dict)
    source: Optional | None = None
    metadata: Optional | None = None
    bad: tuple[BadRow, ...] = ()  # rows that were set aside
    encoder: str = ""  # that made the features of texts or images, weights and all
    received: ReceivedTimes | None = None  # where times are from the intake log
    excerpts: dict[str, str] = field(default_factory=dict)


class Tables(NamedTuple):
    """Hold the tables of a run with the labels that count, and a line for each table whose labels do not."""

    rows: Rows
    validation: Rows
    reference: Rows | None
    ignored: tuple[str, ...]


def read_inputs(places: Places, spec: PayoutSpec) -> Inputs:
    """Read and check everything, with the hashes of all files that the run depends on.

    With an intake log times are from it alone, and what was taken from it belongs to the run.
    """
    log = None if places.intake is None else IntakeLog.open(places.intake, places.upto)
    edges = places.edges or spec.linkage.edges
    scores = scores_file(spec, places.scores)
    reader = InputReader(spec, log)
    tables = reader.read(places.submissions, places.validation, places.reference)
    rows, files = tables.rows, reader.files
    more = {"edges": edges, "overrides": places.overrides, "scores": scores}
    files |= {role: file_hash(Path(path)) for role, path in more.items() if path is not None}
    unnamed = [
        (f"{folder.name}/{name}", why)
        for folder, names in sorted(reader.images.items())
        for name, why in unnamed_images(folder, names)
    ]
    digests: dict[str, str] = {}  # of what lies in no single file
    if unnamed:
        reader.skipped["images"] = unnamed
        digests["images"] = names_hash([], unnamed)
    if rows.bad:  # whether an image can be read is not told by the table's hash
        digests["quarantine"] = names_hash([f"{row.row} {row.wrong}" for row in rows.bad], [])
    if rows.received is not None:
        digests[INTAKE] = rows.received.sha256
    files |= {role: {"name": "", "bytes": 0, "sha256": digest} for role, digest in digests.items()}
    if (source := source_elsewhere("learner", name_of(spec.utility_function))) is not None:
        files["utility"] = {"name": source[0], "bytes": 0, "sha256": source[1]}  # code of one's own
    scored = None
    if scores is not None:
        scored = read_scored(scores, places, spec, rows, tables.validation)
    return replace(_assemble(tables, files, reader.skipped), scored=scored)


@dataclass
class _RawRows:
    """Hold columns of a table by role, before they are taken as names, labels and times; and its matrices."""

    spec: PayoutSpec
    whose: str  # submissions, validation or reference
    table: Table
    names: dict[str, str]
    linked: list[str]
    single: dict[str, Column]
    dense: dict[str, Features]
    columns: tuple[str, ...]  # that the features come from
    count: int
    blank: bool  # where a column of labels is there in which nothing stands

    def __contains__(self, role: str) -> bool:
        return role in self.names

    def __getitem__(self, role: str) -> Column:
        return self.single[self.names[role]]

    @property
    def folder(self) -> Path | None:
        """Return the folder of the images."""
        files = self.spec.files
        folder = getattr(files, f"{self.whose}_images", None) or files.images
        return None if folder is None else Path(folder)

    def optional(self, role: str) -> Optional | None:
        return self[role].optional() if role in self else None

    def keep(self, rows: Codes) -> None:
        """Keep these rows alone."""
        self.single = {name: column.of(rows) for name, column in self.single.items()}
        self.dense = {role: taken(matrix, rows) for role, matrix in self.dense.items()}

    def excerpts(self) -> dict[str, str]:
        """Return the first words of each unit's text, or the file of its image, by the name of the unit."""
        cells = zip(self.ids(), self.optional("text") or self.optional("image") or (), strict=False)
        return {name: first_words(cell) for name, cell in cells if name and cell}

    def labels(self, count: int, *, numbers: bool = False) -> NDArray[Any]:
        """Return the labels as written, or as the numbers that they stand for; empty ones if there are none."""
        if "label" not in self:
            return unlabelled(count)
        return self["label"].numbers() if numbers else self["label"].values()

    def logged_content(self) -> tuple[ContentKind, list[str] | list[bytes] | Features]:
        """Return what the intake log has of units: their texts, the files of their images, or their features."""
        kind = content_kind(self.spec.columns)
        if kind == "text":
            return kind, self["text"].strings()
        if kind == "image" and self.folder is not None:
            return kind, image_bytes(self.folder, self["image"].named())
        if kind == "features" and "features" in self.dense:
            return kind, self.dense["features"]
        raise SubmissionError(_NO_FEATURES.format("submissions"))

    def ids(self) -> Sequence[str | None]:
        """Return the names of all units; their rows where the table names none."""
        return self.optional("id") or [f"row {i}" for i in range(self.count)]

    def row_names(self) -> RowNames:
        """Return what the rows are called."""
        return RowNames(self.table, self.ids(), self.optional("identity") or [None] * self.count)

    def note_faults(self, faults: Faults) -> None:
        """Note the rows that cannot be used: no name, label, time or content, unwritable names, shared ids, ..."""
        for role in self.names:
            if role in ("trusted_source", "metadata"):
                continue
            column = self[role]
            if role == "time":
                for row, wrong in column.bad_times().items():
                    faults.note([row], f"{column.name}: {wrong}")
                continue
            faults.note(np.flatnonzero(column.missing()), f"{column.name} is missing")
            names = column.optional() if role in ("id", "identity") else []
            count = Counter(names)
            for row, name in enumerate(names):
                if name is not None and (bad := unwritable(name)):
                    faults.note([row], f"{column.name} holds {bad}")
                if name is not None and role == "id" and count[name] > 1:
                    faults.note([row], f"the id is that of {count[name]} rows")
        if "label" in self and _predicts_numbers(self.spec):
            for row, wrong in self["label"].bad_numbers().items():
                faults.note([row], f"{self.names['label']}: {wrong}")
        for role, matrix in self.dense.items():
            faults.note_numbers(role, matrix)
        if "features" not in self.dense and "image" in self and self.folder is not None:
            encoder = content_encoder(self.spec, "image").encoder
            note_images(faults, self.folder, self["image"].optional(), encoder)


@dataclass(frozen=True)
class InputReader:
    """Read the tables of a run; keep the hash of each file, and what of folders was not read.

    With a ``log`` times are those at which it has the units, and nothing that the table says of them.
    """

    spec: PayoutSpec
    log: IntakeLog | None = None
    files: FileHashes = field(default_factory=dict)
    skipped: dict[str, Skipped] = field(default_factory=dict)  # by the role of the folder
    images: dict[Path, set[str]] = field(default_factory=dict)  # named in tables, by folder

    def read(self, submissions: Path, validation: Path, reference: Path | None) -> Tables:
        """Read the units, the validation rows and, if there are any, the reference rows."""
        require_two_tables(submissions, validation)
        if reference is not None:
            require_two_tables(submissions, reference, "reference")
        require_label_columns({"submissions": submissions, "validation rows": validation}, self.spec)
        # Tables are read as they come; but how a folder of images is read is up to the validation rows.
        rows = None if submissions.is_dir() else self.rows(submissions, "submissions")
        validation_rows = self.rows(validation)
        labels = is_labelled(validation_rows.label)
        rows = rows or self.rows(submissions, "submissions", labels=labels)
        sample = None if reference is None else self.rows(reference, "reference")
        return _count_labels(rows, validation_rows, sample)

    def rows(self, path: Path, whose: str = "validation", *, labels: bool = True) -> Rows:
        """Read a table, or a folder of images; validation and reference rows are never set aside.

        Where rows cannot be used and are not set aside, the table is gone through again for a list of all of them.
        """
        if whose == "submissions" and self.spec.quarantine:
            return self._checked_rows(path, whose, labels, Faults())
        try:
            return self._checked_rows(path, whose, labels, None)
        except SubmissionError as error:
            faults = Faults()
            with suppress(SubmissionError):  # what is wrong is not in single rows
                raw = self._raw_rows(path, whose, labels, faults)
                raw.note_faults(faults)
            if not 0 < len(faults.rows) < raw.count:
                raise
            submitted = whose == "submissions"
            raise bad_rows_error(faults, raw.row_names(), error, submitted=submitted) from error

    def _raw_rows(self, path: Path, whose: str, labels: bool, faults: Faults | None) -> _RawRows:
        """Read the columns that are wanted; note rows of matrices that do not fit, or refuse the first."""
        spec, submitted = self.spec, whose == "submissions"
        if submitted and self.log is not None and spec.columns.time is not None:
            raise ParameterError(
                "time",
                spec.columns.time,
                "times are from the intake log alone, whatever a column says; leave --time out, or --intake",
            )
        if path.is_dir():
            table, spec = self._image_table(path, whose, labels)
        else:
            table = Table.open(path)
            self.files[whose] = file_hash(path)
        columns, files = spec.columns, spec.files
        names = table_roles(table, columns, whose, dated=self.log is None)
        for role, name in names.items():
            table.require(role, name)
        linked = [table.require("linkage", name) for name in link_columns(spec)] if submitted else []
        arrays = {"features": files.features, "embedding": files.embedding}
        if not submitted:
            arrays = {"features": getattr(files, f"{whose}_features"), "embedding": None}
        wanted = [role for role, file in arrays.items() if file is None]
        if not submitted and not table.matrix_columns(columns.embedding or "embedding"):
            wanted.remove("embedding")
        matrices = matrix_roles(table, columns, wanted)
        other = [names[role] for role in ("label", "time") if role in names]
        text = [*(name for role, name in names.items() if role not in ("label", "time")), *linked]
        other += table.counting(text, other, matrices)
        single, dense = table.read(text, other, matrices, faults, low_precision=submitted)
        count = rows_read(single, dense)
        if blank := "label" in names and single[names["label"]].is_blank(columns.label):
            empty = f"the rows of {table.where} (column {names['label']!r} is empty in every row)"
            require_labels(empty, unlabelled(1), spec.utility_function)
            del names["label"]
        for role, file in arrays.items():
            if file is not None:
                array_path, member = file_and_member(file)
                self.files[role if role == "embedding" else f"{whose} {role}"] = file_hash(array_path)
                dense[role] = ArrayFile.open(array_path).matrix(
                    member, count, finite=faults is None, low_precision=submitted
                )
        own = tuple(matrices.get("features", ()))
        return _RawRows(spec, whose, table, names, linked, single, dense, own, count, blank)

    def _checked_rows(self, path: Path, whose: str, labels: bool, faults: Faults | None) -> Rows:
        """Read and check all columns, and only then embed texts or images, which may take long."""
        submitted = whose == "submissions"
        raw = self._raw_rows(path, whose, labels, faults)
        excerpts = raw.excerpts() if submitted else {}
        rows, bad, received = np.arange(raw.count), tuple[BadRow, ...](), None
        if faults is not None:
            raw.note_faults(faults)
            names = raw.row_names()
            rows, bad = split_rows(faults, names)
            raw.keep(rows)
        ids = raw["id"].named() if "id" in raw else [f"row {i}" for i in rows.tolist()]
        identity = raw["identity"].named() if submitted else []
        label = raw.labels(len(ids), numbers=_predicts_numbers(raw.spec))
        if submitted and self.log is not None:
            kind, content = raw.logged_content()
            received, unlogged = self.log.received(kind, identity, raw.labels(len(ids)), content)
            if faults is None:
                require_received(unlogged, ids, identity, self.log)
            else:
                for i, why in unlogged.items():
                    faults.note([rows[i]], why)
                logged, bad = split_rows(faults, names)
                places = np.searchsorted(rows, logged)
                raw.keep(places)
                ids, identity = [ids[i] for i in places], [identity[i] for i in places]
                received, label = received.take(places), label[places]
        if submitted:
            _require_names(ids, identity)
        time = raw["time"].times() if "time" in raw else getattr(received, "time", None)
        text = raw["text"].strings() if "text" in raw else None
        for role, matrix in raw.dense.items():
            if submitted:
                _require_size(matrix, repr(role), "remove the unit", ids)
            else:
                _require_size(matrix, f"{str(path)!r}: {role!r}", "drop the row")
        encoder = ""
        if "features" not in raw.dense:
            content_ids = ids if submitted else range(raw.count)
            raw.dense["features"] = self._embedded_content(raw, content_ids)
            encoder = content_encoder(raw.spec, "image" if text is None else "text").encoder.identity
        return Rows(
            ids=ids,
            identity=identity,
            label=label,
            features=raw.dense["features"],
            embedding=raw.dense.get("embedding"),
            time=time,
            links={name: raw.single[name].optional() for name in raw.linked},
            source=raw.optional("trusted_source"),
            metadata=raw.optional("metadata"),
            columns=raw.columns,
            text=text,
            bad=bad,
            encoder=encoder,
            received=received,
            blank=raw.blank,
            excerpts=excerpts,
        )

    def _image_table(self, path: Path, whose: str, labels: bool) -> tuple[Table, PayoutSpec]:
        """Return the images of a folder as a table, and the settings by which it is read."""
        tree = image_tree(path, identities=whose == "submissions", labels=labels)
        # Where labels do not count, some images may have none.
        label = tree.label if labels else np.where(tree.label == NO_LABEL, "none", tree.label)
        cells = {"id": tree.names, "label": label}
        table = Table.of(cells | ({"identity": tree.identity} if tree.identity else {}))
        table.source.where = repr(str(path))
        self.skipped[whose] = tree.skipped
        columns = Columns(id="id", image="id", label="label" if tree.labelled else "")
        own = {"columns": columns, "files": Files(images=str(path)), "linkage": LinkageRule()}
        return table, self.spec.model_copy(update=own)

    def _embedded_content(self, raw: _RawRows, ids: Sequence[object]) -> Features:
        """Embed texts or images; the hash of a folder covers the bytes and names of images, and what was skipped."""
        spec, whose, folder = raw.spec, raw.whose, raw.folder
        what = "unit" if whose == "submissions" else f"{whose} row"
        if "text" in raw:
            return embed(raw["text"].strings(), content_encoder(spec, "text"), ids, what)
        if "image" not in raw or folder is None:
            raise SubmissionError(_NO_FEATURES.format(whose))
        names = raw["image"].named()
        content = image_bytes(folder, names, "row" if what == "unit" else what)
        if whose in self.skipped:  # a folder of images, which no table names
            role, ids, what = whose, names, "image"
        else:
            role = f"{whose} images"
            self.images.setdefault(folder.resolve(), set()).update(names)
        self.files[role] = images_hash(folder, names, content, self.skipped.get(whose, []))
        return embed(content, content_encoder(spec, "image"), ids, what)


def _require_names(ids: Sequence[str], identity: Sequence[str]) -> None:
    """Refuse names that files cannot hold, and an id of several units."""
    require_writable("id", ids)
    require_writable("identity", identity)
    if len(place := {name: i for i, name in enumerate(ids)}) < len(ids):
        row, name = next((i, name) for i, name in enumerate(ids) if place[name] != i)
        raise SubmissionError(
            f"unit id {name!r} appears in rows {row} and {ids.index(name, row + 1)}; ids must be unique"
        )


def _require_size(matrix: Features, where: str, remedy: str, ids: Sequence[str] | None = None) -> None:
    """Refuse numbers so large that distances to them overflow, by the row of the first or its unit."""
    if (at := beyond(matrix, LARGEST)) is not None:
        row, entry = at
        unit = f" of unit {ids[row]!r}" if ids is not None else ""
        raise SubmissionError(
            f"{where}{unit}, row {row}, entry {entry} is {float(matrix[row, entry]):g}; {remedy} or fill in a "
            f"number of at most {LARGEST:g} in size"
        )


def table_roles(table: Table, columns: Columns, whose: str, *, dated: bool = True) -> dict[str, str]:
    """Return the columns with one value per row, by role; those that are named may not be there.

    A column ``time`` holds times only where ``dated``, that is where times are not from elsewhere.
    """
    names = {"identity": columns.identity} if whose == "submissions" else {}
    if (label := table.label_column(columns.label)) is not None:
        names["label"] = label
    roles = ["text", "image"]
    if whose == "submissions":
        roles = ["id", "time", *roles, "trusted_source", "metadata"]
    for role in roles:
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
        elif not content and (names := table.matrix_columns(role)):
            out[role] = names
    return out


def link_columns(spec: PayoutSpec) -> list[str]:
    """List the columns that linkage needs, beside the roles a unit has anyway."""
    parts = [part.strip() for key in spec.linkage.keys for part in key.split("+")]
    plain = [part for part in parts if not part.startswith("time:")]
    confirm = [] if spec.linkage.confirm is None else [spec.linkage.confirm]
    return list(dict.fromkeys([*plain, *spec.linkage.fuzzy, *confirm]))


def _predicts_numbers(spec: PayoutSpec) -> bool:
    return spec.utility_function.target == "number"


def require_label_columns(tables: Mapping[str, Path], spec: PayoutSpec) -> None:
    """Refuse tables and folders without labels, where what is paid for needs them, by their headers alone.

    That is before any text or image is embedded, which may take long.
    """
    learner = spec.utility_function
    if learner.target == "none":
        return
    for whose, path in tables.items():
        missing = ""
        if path.is_dir():
            tree = image_tree(path, identities=whose == "submissions")
            if not tree.labelled:
                missing = f"holds no folders of labels ({tree.labelled_shape})"
        elif Table.open(path).label_column(spec.columns.label) is None:
            unwanted = spec.columns.label == ""
            missing = "is read without labels, as asked" if unwanted else "has no column 'label'"
        if missing:
            require_labels(f"the {whose} ({str(path)!r} {missing})", unlabelled(1), learner)


def _count_labels(rows: Rows, validation: Rows, reference: Rows | None = None) -> Tables:
    """Return the tables as they are if units and validation rows have labels; else without any."""
    sides = {"the submissions": rows, "the validation rows": validation}
    labelled = [name for name, table in sides.items() if is_labelled(table.label)]
    if len(labelled) == len(sides):
        return Tables(rows, validation, reference, ())
    ignored = [
        f"{name} have labels, {other} have none" for name in labelled for other in sides if other != name
    ]
    ignored += [
        f"column “label” of {name} is empty in every row" for name, table in sides.items() if table.blank
    ]
    sample = reference and without_labels(reference)
    return Tables(without_labels(rows), without_labels(validation), sample, tuple(ignored))


def embed(items: Sequence[Any], chosen: StoredEncoder, ids: Sequence[object], what: str) -> Features:
    """Make one vector per item; name the unit or row of one that cannot be embedded."""
    progress = compute().progress
    progress.stage(
        f"embedding {chosen.kind}s of {what}s by {chosen.encoder.identity}", f"{chosen.kind}s"
    )
    try:
        for row, item in enumerate(items if chosen.kind == "text" else ()):
            chosen.encoder.prepare(item, row)  # before any work, which may take long
        return chosen.encode(items, progress.count)
    except ContentError as error:
        raise SubmissionError(f"{what} {ids[error.row]!r}: {error.why}") from error


def encoder_name(spec: PayoutSpec, kind: str) -> str:
    """Return what the encoder of a run for texts or images is called."""
    return spec.encoder or DEFAULTS[kind]


def content_encoder(spec: PayoutSpec, kind: str) -> StoredEncoder:
    """Make the encoder of a run for texts or images; refuse one that reads the other."""
    chosen = stored(encoder_name(spec, kind))
    if chosen.kind != kind:
        raise ParameterError(
            "encoder", spec.encoder, f"it reads {chosen.kind}s, the submission holds {kind}s"
        )
    return chosen


_OF_UNITS = ("ids", "links", "bad", "columns", "encoder", "received", "excerpts")  # taken as they are


def _assemble(tables: Tables, files: FileHashes, skipped: dict[str, Skipped]) -> Inputs:
    rows, validation, sample, ignored = tables
    _require_same_columns(rows, validation, "validation")
    if sample is not None:
        _require_same_columns(rows, sample, "reference")
    # An identity of bad rows alone is listed, and paid nothing.
    named = {row.identity for row in rows.bad if row.identity and not unwritable(row.identity)}
    identities = sorted(named.union(rows.identity))
    number = {name: i for i, name in enumerate(identities)}
    place = {name: i for i, name in enumerate(rows.ids)}
    numbers = numbered(max(len(rows.ids), len(identities)))
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
        **{name: getattr(rows, name) for name in _OF_UNITS},
        submission=submission,
        identities=identities,
        validation_features=validation.features,
        validation_label=validation.label,
        validation_embedding=validation.features if rows.embedding is None else validation.embedding,
        has_time=rows.time is not None,
        derived=sum(name not in (None, unit) for unit, name in zip(rows.ids, source, strict=True)),
        files=files,
        skipped=skipped,
        validation_text=validation.text,
        reference=reference,
        ignored_labels=ignored,
    )


def numbered(count: int) -> Text:
    """Write the numbers from 0 on as ids of submissions: nine digits each."""
    digits = np.arange(count)[:, None] // 10 ** np.arange(8, -1, -1) % 10 + ord("0")
    return digits.astype(np.uint32).view("U9").reshape(-1)


def _require_same_columns(rows: Rows, operator_rows: Rows, whose: str) -> None:
    """Refuse rows whose numbers are not those of the submissions."""
    for what in ("features", "embedding"):
        theirs, ours = getattr(rows, what), getattr(operator_rows, what)
        if theirs is not None and ours is not None and theirs.shape[1] != ours.shape[1]:
            raise SubmissionError(
                f"{what!r} has {theirs.shape[1]} numbers per unit in the submissions and {ours.shape[1]} in the "
                f"{whose} rows; give both the same"
            )
    names, other_names = rows.columns, operator_rows.columns
    if min(len(names), len(other_names)) > 1 and names != other_names:
        theirs, ours = next((a, b) for a, b in zip(names, other_names, strict=True) if a != b)
        raise SubmissionError(
            f"the features of the submissions are {theirs!r} where those of the {whose} rows are {ours!r}; give both "
            "tables the same columns"
        )
