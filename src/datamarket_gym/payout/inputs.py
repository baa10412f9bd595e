"""From files to units: what a run reads, checked at the door, with the hash of every file it came from.

Inside the run identities and units go by numbers; their names, which submitters choose, come back only
when results are written. A name of any length or script therefore costs nothing and decides nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import LARGEST, Codes, Features
from datamarket_gym.core.content import unit_keys
from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.core.registry import name_of, source_elsewhere
from datamarket_gym.core.screen import listed
from datamarket_gym.evidence.leak import HeldRows, Leaks
from datamarket_gym.learners.base import LEARNERS, Learner
from datamarket_gym.learners.oracle import ReferenceRows, UtilityOracle
from datamarket_gym.learners.targets import require_labels
from datamarket_gym.payout.file_hashes import FileHashes, file_hash, names_hash
from datamarket_gym.payout.image_files import Skipped, unnamed
from datamarket_gym.payout.intake.times import ROLE as INTAKE
from datamarket_gym.payout.intake.times import IntakeLog, Received
from datamarket_gym.payout.intervals import validation_groups
from datamarket_gym.payout.labels import LabelledTables
from datamarket_gym.payout.names import require_writable, unwritable
from datamarket_gym.payout.overrides import Override
from datamarket_gym.payout.prior.known import KnownUnits
from datamarket_gym.payout.prior.units import PriorUnits, UnitKind, kind_of_labels
from datamarket_gym.payout.quarantine import BadRow
from datamarket_gym.payout.read_tables import read_tables
from datamarket_gym.payout.scored import Scored, read_scored
from datamarket_gym.payout.spec import PayoutSpec
from datamarket_gym.payout.submitted import Held, Optional, Rows, first_too_large
from datamarket_gym.pipeline.prior import Known
from datamarket_gym.units.labels import unlabelled, without_labels
from datamarket_gym.units.submission import Submission, Text

_FEW = 3  # earlier runs that are named


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
    prior: PriorUnits | None = None  # what earlier runs have bought, where the run is priced given that
    received: Received | None = None  # where times are from the operator's intake log
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
    def learner(self) -> Learner | None:
        """What units are scored by, where it takes more than its written form to make it."""
        return None if self.scored is None else self.scored.learner

    @property
    def held(self) -> HeldRows:
        """The validation rows, as far as units are compared with them."""
        return HeldRows(self.validation_features, self.validation_embedding, self.validation_text)

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

    def given(self, prior: PriorUnits, spec: PayoutSpec) -> Inputs:
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

    def named_known(self, known: Known) -> KnownUnits:
        """Units that earlier runs have bought, by their names."""
        if self.prior is None or not len(known):
            return KnownUnits.none()
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
            received=None if self.received is None else self.received.of(rest),
        )


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
    rows, held, sample = tables.rows, tables.held, tables.sample
    for role, path in (more or {}).items():
        files[role] = file_hash(path)
    skipped = {"submissions": rows.skipped, "validation": held.skipped}
    if sample is not None:
        skipped["reference"] = sample.skipped
    if strangers := _unnamed([each.images for each in (rows, held, sample) if each is not None]):
        skipped["images"] = strangers
        files["images"] = {"name": "", "bytes": 0, "sha256": names_hash([], strangers)}
    if rows.bad:  # whether an image can be read is not told by the table's hash
        told = [f"{row.row} {row.wrong}" for row in rows.bad]
        files["quarantine"] = {"name": "", "bytes": 0, "sha256": names_hash(told, [])}
    if rows.received is not None:
        files[INTAKE] = {"name": "", "bytes": 0, "sha256": rows.received.sha256}
    if (source := source_elsewhere("learner", name_of(LEARNERS.create(spec.learner)))) is not None:
        files["utility"] = {"name": source[0], "bytes": 0, "sha256": source[1]}  # code of one's own
    inputs = _assembled(tables, files, skipped)
    if scores is None:
        return inputs
    return replace(inputs, scored=read_scored(scores, submissions, validation, spec, rows, held))


def _unnamed(images: Sequence[dict[str, list[str]]]) -> Skipped:
    """The images that lie in the folders of image columns and are named by none of the tables."""
    named: dict[Path, set[str]] = {}
    for folders in images:
        for folder, names in folders.items():
            named.setdefault(Path(folder).resolve(), set()).update(names)
    return [
        (f"{folder.name}/{name}", why)
        for folder, names in sorted(named.items())
        for name, why in unnamed(folder, names)
    ]


def validation_order(inputs: Inputs, spec: PayoutSpec) -> Codes:
    """The rows of the validation file in the order in which the utility has them."""
    features, label = inputs.validation_features, inputs.validation_label
    group = validation_groups(features, label, spec.seed)
    return np.lexsort((unit_keys(features, label), group))


def utility_oracle(inputs: Inputs, spec: PayoutSpec) -> UtilityOracle:
    """The utility on the validation rows, which are put in order of their groups and content; given what was bought."""
    features, label = inputs.validation_features, inputs.validation_label
    order = validation_order(inputs, spec)
    embedding = inputs.validation_embedding
    utility = UtilityOracle(
        features[order],
        label[order],
        spec.utility,
        learner=inputs.learner,
        embedding=None if embedding is None else embedding[order],
        reference=inputs.reference,
    )
    return utility if inputs.prior is None else utility.given(inputs.prior.art)


def _assembled(tables: LabelledTables, files: FileHashes, skipped: dict[str, Skipped]) -> Inputs:
    rows, held, sample = tables.rows, tables.held, tables.sample
    require_writable("id", rows.ids)
    require_writable("identity", rows.identity)
    _require_alike(rows, held, "validation")
    if sample is not None:
        _require_alike(rows, sample, "reference")
    for what, matrix in (("features", rows.features), ("embedding", rows.embedding)):
        _require_size(what, matrix, rows.ids)
    _require_once(rows.ids)
    named = {row.identity for row in rows.bad if row.identity and not unwritable(row.identity)}
    identities = sorted(
        named.union(rows.identity)
    )  # who has bad rows alone is told of, and paid nothing
    number = {name: i for i, name in enumerate(identities)}
    numbers = numbered(max(len(rows.ids), len(identities)))
    submission = Submission(
        id=numbers[: len(rows.ids)],
        source=None if rows.source is None else numbers[_sources(rows.ids, rows.source)],
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
    return Inputs(
        submission, rows.ids, identities, held.features, held.label,
        held.features if rows.embedding is None else held.embedding, rows.links,
        rows.time is not None, _derived(rows), files,
        skipped,
        held.text,
        None if sample is None else ReferenceRows(sample.features, sample.label, sample.embedding, sample.text),
        bad=rows.bad,
        columns=rows.columns,
        encoder=rows.encoder,
        received=rows.received,
        ignored_labels=tables.ignored,
    )  # fmt: skip


def numbered(count: int) -> Text:
    """The numbers from 0 on as submissions write them: nine digits each."""
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


def _require_alike(rows: Rows, held: Held, whose: str) -> None:
    """Refuse rows whose numbers are not those of the submissions."""
    for what, theirs, ours in (
        ("features", rows.features, held.features),
        ("embedding", rows.embedding, held.embedding),
    ):
        if theirs is not None and ours is not None and theirs.shape[1] != ours.shape[1]:
            raise SubmissionError(
                f"{what!r} has {theirs.shape[1]} numbers per unit in the submissions and {ours.shape[1]} in the "
                f"{whose} rows; give both the same"
            )
    if min(len(rows.columns), len(held.columns)) > 1 and rows.columns != held.columns:
        theirs_only, ours_only = next(
            (a, b) for a, b in zip(rows.columns, held.columns, strict=True) if a != b
        )
        raise SubmissionError(
            f"the features of the submissions are {theirs_only!r} where those of the {whose} rows are "
            f"{ours_only!r}; give both tables the same columns"
        )


def _require_size(what: str, matrix: Features | None, ids: list[str]) -> None:
    """Refuse numbers so large that distances to them overflow, by the name of the unit."""
    if (found := first_too_large(matrix)) is not None:
        row, entry, value = found
        raise SubmissionError(
            f"{what!r} of unit {ids[row]!r} (row {row}) has {value:g} as entry {entry}; remove the unit or fill in a "
            f"number of at most {LARGEST:g} in size"
        )


def _derived(rows: Rows) -> int:
    named = zip(rows.ids, rows.source or [], strict=rows.source is not None)
    return sum(source not in (None, unit) for unit, source in named)


def _sources(ids: list[str], source: Optional) -> list[int]:
    """The number of the unit that each names as its source; its own where it names none, or one that is not here."""
    place = {name: i for i, name in enumerate(ids)}
    return [i if s is None else place.get(s, i) for i, s in enumerate(source)]
