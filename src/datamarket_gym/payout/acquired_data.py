"""What a run keeps for later periods (``RUN/records/bought.npz``): the units that it has bought, and whose they are.

All units that played are in it, and whose each is: the earliest of its tree owns the tree, so that a copy of a copy is
tied to the right owner later. The unit that stands for its tree is marked (``stands``): these are what a later period
finds there already.

Units that were set aside as validation rows are in it, too, each by itself, under whoever submitted it: they stand for
nothing, but a changed copy of one would be worth more than any other unit, and must be known.

Not bought, and so not in it: units that could not be used, that a check found to be false, that an earlier run had
bought; and trees that nobody is paid for, because whoever owns them failed a check or was too small to be checked
(these may be handed in again). A unit that is worth nothing is bought all the same.

Numbers are kept in the shortest kind that holds them without loss. Names lie end to end as UTF-8, so that one long name
does not make all of them as long.

How near its units come to the validation rows is kept, too (``answers``): a later period with the same validation rows
need not compare these with all units again.

Which earlier runs a run is priced given: ``pay --prior JUNE/ --prior MAY/``.

Each must be approved, as its ledger has it, and as it was left. They are taken from the oldest to the newest, in
whatever order they are named. A run that was itself priced given others is named with these: else what was stolen
from them would be paid for now.

Units of a run that earlier runs have bought: what each was bought as, in which run, and from whom.

The units that earlier runs have bought, put together: what new ones are compared with, and valued given.

Numbers stay in the files until they are looked at; names, which may be of any length, stay outside of the table.

Overrides of what was bought before: a unit of an earlier run is named ``RUN:UNIT``, as prior.parquet has it.

A split that names a unit and the earlier one that it was taken for says that it is another. A split that names the unit
alone unties it from units of its own run and from no earlier one: a decision about one period, which stands for all
later ones, must not let the same unit be sold again. A join with an earlier unit says that it is that one.

From a run's results to the file of what it has bought.

What a period adds, at the price of what was bought before: a hint for how much money it should divide.

Earlier runs divided so much for U(P), counted from U of no units, both on this run's validation rows; the new units add
v(all). At the same price they are worth amount x v(all) / U(P). Where every period divides the same amount whatever it
adds, units are dearer later, and whoever waits with them is paid more.

What is said on screens of the earlier runs that a run is priced given.
"""

from __future__ import annotations

import math
import struct
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from datamarket_gym.data.acquired import AcquiredData
from datamarket_gym.data.inputs import Text, is_labelled, unlabelled
from datamarket_gym.data.submission import Submission
from datamarket_gym.display import counted, listed
from datamarket_gym.errors import DataMarketError
from datamarket_gym.evidence.graph import AcquiredMatches
from datamarket_gym.evidence.threshold import highest_for_later
from datamarket_gym.execution.arrays import (
    Codes,
    Features,
    LowPrecisionRows,
    Values,
    distinct_pairs,
    in_blocks,
)
from datamarket_gym.execution.files import sha256
from datamarket_gym.execution.runs import write_record
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.entries import APPROVED, RunRecord, describe_state
from datamarket_gym.payout.ledger.integrity import ledger_of, run_of
from datamarket_gym.payout.manifest import BOUGHT, NAME, read_manifest, require_as_written
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import run_called, visible
from datamarket_gym.payout.operator_evidence import Override

if TYPE_CHECKING:
    from datamarket_gym.payout.results import Results


_LOCAL_HEAD, _NAME_AT = (
    30,
    26,
)  # of a member of a zip file: its fixed part, and where lengths of names stand
_KINDS = (np.float16, np.float32)


@dataclass(frozen=True, eq=False)
class KeptNames:
    """Names end to end, and where each ends."""

    text: NDArray[np.uint8]
    ends: Codes

    @classmethod
    def of(cls, names: Iterable[str]) -> KeptNames:
        """Names in their order."""
        parts = [name.encode() for name in names]
        return cls(
            np.frombuffer(b"".join(parts), dtype=np.uint8),
            np.cumsum([len(part) for part in parts], dtype=np.int64),
        )

    def __iter__(self) -> Iterator[str]:
        text, start = self.text.tobytes(), 0
        for end in self.ends.tolist():
            yield text[start:end].decode()
            start = end

    def __len__(self) -> int:
        return len(self.ends)


@dataclass(frozen=True, eq=False)
class RunUnits:
    """Units of a run in rows.

    ``people`` are the names that ``submitter`` and ``owner`` count. ``root`` is the row of the unit that stands for the
    tree.
    """

    features: Features
    embedding: Features | None
    labels: NDArray[Any]  # the different ones
    label: Codes  # which of them
    unit: KeptNames
    people: KeptNames
    submitter: Codes
    owner: Codes
    root: Codes
    stands: Codes  # rows
    time: Values | None
    columns: KeptNames  # that the features came from, where they are several
    encoder: str  # that made the features of texts or images; blank where they were submitted
    asked: KeptNames  # digests of what later periods may ask of the units (`PriorArt.highest`)
    answers: Values  # one after the other
    answered: Codes  # where each ends


def shortest(matrix: Features) -> Features:
    """The same numbers in the shortest kind that holds all of them without loss."""
    for kind in _KINDS:
        with np.errstate(over="ignore"):
            if all(
                block.dtype.itemsize <= np.dtype(kind).itemsize
                or np.array_equal(block, block.astype(kind))
                for _, block in in_blocks(matrix)
            ):
                return np.asarray(matrix, dtype=kind)
    return np.asarray(matrix)


class AcquiredFile:
    """A file of bought units that is read member by member: what is large goes where it is wanted, without a copy."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a member, by its head alone; None where the file has none of this name."""
        with self._opened() as file:
            if f"{name}.npy" not in file.namelist():
                return None
            with file.open(f"{name}.npy") as member:
                return _head(member)[0]

    def array(self, name: str) -> NDArray[Any]:
        """A small member."""
        with self._opened() as file, file.open(f"{name}.npy") as member:
            return np.lib.format.read_array(member, allow_pickle=False)

    def names(self, name: str) -> KeptNames:
        """Names that lie end to end."""
        return KeptNames(self.array(f"{name}.text"), self.array(f"{name}.ends"))

    def highest(self) -> dict[str, Values]:
        """What is known of the units, by a digest of what was asked; nothing, of a run of an older version."""
        if self.shape("answers") is None:
            return {}
        parts = np.split(self.array("answers"), self.array("answered"))[:-1]
        return dict(zip(self.names("asked"), parts, strict=True))

    def matrix(self, name: str) -> NDArray[Any]:
        """A matrix where it lies in the file: what is read of it is read then."""
        with self._opened() as file:
            info = file.getinfo(f"{name}.npy")
            if info.compress_type != zipfile.ZIP_STORED:
                return self.array(name)
            with file.open(info) as member:
                shape, kind = _head(member)
                head = member.tell()
        with self.path.open("rb") as raw:
            raw.seek(info.header_offset + _NAME_AT)
            name_length, extra_length = struct.unpack("<HH", raw.read(4))
        start = info.header_offset + _LOCAL_HEAD + name_length + extra_length + head
        if start + kind.itemsize * math.prod(shape) > self.path.stat().st_size:
            raise self._damaged(f"{name!r} ends early")
        return (
            np.memmap(self.path, kind, "r", start, shape) if math.prod(shape) else np.empty(shape, kind)
        )

    def _opened(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.path)
        except (OSError, zipfile.BadZipFile) as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, why: str) -> DataMarketError:
        return DataMarketError(
            f"{str(self.path)!r} cannot be read as the units that a run has bought ({why}); restore it from a copy"
        )


def _head(member: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and kind of an array, by the head of its member."""
    version = np.lib.format.read_magic(member)
    read = (
        np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    )
    shape, fortran, kind = read(member)
    if fortran and len(shape) > 1:
        raise ValueError("it is laid out by columns")
    return shape, kind


ROLE = "prior"
_SHORT = 16  # characters of a run's id


class AcquiredDataError(DataMarketError):
    """A folder that cannot be taken as prior art."""


@dataclass(frozen=True)
class AcquiredRun:
    """An earlier run: its id, the hash of what it has bought, what it was for, which runs it was priced given, and the
    amount that it divided, in minor units."""

    folder: Path
    run: str
    sha256: str
    period: str
    given: tuple[str, ...]
    amount: int
    currency: str

    @property
    def short(self) -> str:
        """The run as overrides name it."""
        return self.run[:_SHORT]

    @property
    def called(self) -> str:
        """The run as people know it."""
        return run_called(self.period, self.run)

    @property
    def plain(self) -> dict[str, str]:
        """What the manifest of a later run says of it."""
        return {"run": self.run, "bought": self.sha256, "period": self.period}

    @property
    def bought(self) -> Path:
        """The file of what it has bought."""
        return self.folder / BOUGHT

    @classmethod
    def read(cls, folder: Path) -> AcquiredRun:
        """The run of a folder, whose bought units are as it left them."""
        found = cls.said(folder)
        require_as_written(folder, read_manifest(folder)["outputs"], BOUGHT)
        return found

    @classmethod
    def said(cls, folder: Path) -> AcquiredRun:
        """The run of a folder, as its manifest has it."""
        if not folder.is_dir():
            raise AcquiredDataError(
                f"the earlier run in {str(folder)!r} is not there; if it was moved, say where it is now: --prior FOLDER"
            )
        manifest = read_manifest(folder)
        said = manifest["outputs"].get(BOUGHT)
        if said is None:
            raise AcquiredDataError(
                f"the run in {str(folder)!r} was made by an older version, which did not keep what it has bought; pay "
                "it again, into another folder and a ledger of its own (--ledger), approve it there, and "
                "name that folder"
            )
        given = tuple(each["run"] for each in manifest.get(ROLE, ()))
        period, amount = manifest["spec"].get("period") or "", manifest["amount"]
        return cls(folder, manifest["run"], said["sha256"], period, given, amount, manifest["currency"])


def accepted(folders: Sequence[Path], out: Path) -> tuple[Path, ...]:
    """The folders of earlier runs, the oldest first; refused where one cannot be taken as bought.

    Whether what they have bought is as they left it is looked at where it is read (`PriorRun.read`).
    """
    found = [_Approved.of(folder) for folder in folders]
    by_run: dict[str, _Approved] = {}
    for each in found:
        if each.prior.folder.resolve() == out.resolve():
            raise AcquiredDataError(
                f"{str(out)!r} is the folder of this run itself; leave that --prior out"
            )
        twin = by_run.setdefault(each.prior.run, each)
        if twin is not each:
            raise AcquiredDataError(
                f"{str(twin.prior.folder)!r} and {str(each.prior.folder)!r} are the same run, {each.prior.short}; "
                "name it once"
            )
    for each in found:
        each.require_given(by_run)
    one_ledger = len({each.ledger for each in found}) == 1
    order = sorted(found, key=lambda each: (each.number,) if one_ledger else (each.at, each.prior.run))
    return tuple(each.prior.folder for each in order)


def as_said(folders: Sequence[Path], said: Sequence[dict[str, Any]]) -> tuple[Path, ...]:
    """The folders of the runs that a manifest names as prior, in its order; they may have been moved."""
    by_run = {read_manifest(folder)["run"]: folder for folder in folders}
    missing = [each for each in said if each["run"] not in by_run]
    if missing or len(by_run) > len(said):
        strange = set(by_run) - {each["run"] for each in said}
        wrong = (
            f"{missing[0]['period'] or 'a run'} ({missing[0]['run'][:_SHORT]}) is not among the folders"
            if missing
            else f"{str(by_run[min(strange)])!r} is none of them"
        )
        raise AcquiredDataError(
            f"the run was priced given {len(said)} earlier runs, and {wrong}; name each with --prior"
        )
    return tuple(by_run[each["run"]] for each in said)


@dataclass(frozen=True)
class _Approved:
    """An earlier run, and when its ledger says that it was approved."""

    prior: AcquiredRun
    record: RunRecord
    ledger: str
    number: int
    at: str

    @classmethod
    def of(cls, folder: Path) -> _Approved:
        if not folder.is_dir():
            raise AcquiredDataError(
                f"--prior {str(folder)!r} is no folder of a payout run; check the path"
            )
        ledger = ledger_of(folder)
        record = run_of(folder, ledger.accounts())
        if record.state not in APPROVED:
            later = f"; {record.superseded[1]!r} has taken its place" if record.superseded else ""
            raise AcquiredDataError(
                f"the run in {str(folder)!r} is {describe_state(record.state)}, so that nothing of it is "
                f"bought{later}: name "
                "approved runs alone"
            )
        if sha256(folder / NAME) != record.manifest:
            raise AcquiredDataError(
                f"{str(folder / NAME)!r} is not the one that was approved; run: datamarket verify {folder}"
            )
        entry = next(entry for entry in record.history if entry.kind == "approved")
        return cls(AcquiredRun.said(folder), record, ledger.where, entry.number, entry.at)

    def require_given(self, named_runs: dict[str, _Approved]) -> None:
        """Refuse to leave out what the run was itself priced given."""
        for place, run in enumerate(self.prior.given, 1):
            if run not in named_runs:
                where = self.record.places.get(f"{ROLE} {place}", "its folder")
                raise AcquiredDataError(
                    f"{self.prior.called}, in {str(self.prior.folder)!r}, was priced given run {run[:_SHORT]}, which "
                    f"is not named: what was stolen from that one would be paid for now. Add --prior {where}"
                )


@dataclass(frozen=True)
class OldUnit:
    """A unit that was bought: in which of the earlier runs (its place among them), as what, and from whom."""

    run: int
    unit: str
    owner: str


@dataclass(frozen=True, eq=False)
class MatchedAcquiredUnits:
    """The units by name, whose they were submitted as, and what they were bought as.

    ``tied_to`` is the earlier unit that each was taken for, as overrides name it (`RUN:UNIT`): it may be a copy of what
    was bought.
    """

    unit: list[str]
    identity: list[str]
    old: list[OldUnit]
    tied_to: list[str]
    score: Values
    reason: Text

    def __len__(self) -> int:
        return len(self.unit)

    @staticmethod
    def none() -> MatchedAcquiredUnits:
        """Nothing was bought before."""
        return MatchedAcquiredUnits([], [], [], [], np.empty(0), np.empty(0, dtype=np.str_))


def known_table(known: MatchedAcquiredUnits, runs: Sequence[AcquiredRun]) -> pa.Table:
    """One row per unit that was bought before, in the order of the submissions."""
    text = pa.string()
    of = [runs[each.run] for each in known.old]
    return pa.table(
        {
            "unit": pa.array(known.unit, text),
            "identity": pa.array(known.identity, text),
            "run": pa.array([each.run for each in of], text),
            "period": pa.array([each.period for each in of], text),
            "old_unit": pa.array([each.unit for each in known.old], text),
            "old_owner": pa.array([each.owner for each in known.old], text),
            "score": known.score,
            "reason": pa.array(known.reason.tolist(), text),
            "tied_to": pa.array(known.tied_to, text),
        }
    )


@dataclass(frozen=True)
class UnitKind:
    """What units must have in common to be compared: the length of their vectors, labels, columns, the encoder.

    ``labels`` are ``text``, ``numbers`` or ``none``. Where some units have none, nobody's labels count, and those of
    the others may be what they are.
    """

    features: int
    embedding: int | None
    labels: str
    columns: tuple[str, ...]
    encoder: str


@dataclass(frozen=True, eq=False)
class AcquiredUnits:
    """Earlier runs, the oldest first, and their units in one table; without labels where some units have none."""

    runs: tuple[AcquiredRun, ...]
    art: AcquiredData
    start: Codes  # the first row of each run
    unit: list[str]
    owner: list[str]
    root: Codes  # the row of what each was bought as
    unlabelled: Sequence[str] = ()  # what the runs are called whose units have no labels

    @classmethod
    def read(cls, runs: Sequence[AcquiredRun], kind: UnitKind) -> AcquiredUnits:
        """What some runs have bought, for new units of a kind; others are refused by name."""
        files = [AcquiredFile(each.bought) for each in runs]
        kinds = [kind_of(file) for file in files]
        without = [e.called for e, theirs in zip(runs, kinds, strict=True) if theirs.labels == _NONE]
        for each, theirs in zip(runs, kinds, strict=True):
            _require_kind(each, theirs, kind)
        labelled = kind.labels != _NONE and not without
        sizes = [len(file.array("owner")) for file in files]
        start = np.cumsum([0, *sizes[:-1]])
        n = sum(sizes)
        features = LowPrecisionRows(
            [file.matrix("features") for file in files], finite=True
        )  # when it was bought
        embedding = (
            None
            if kind.embedding is None
            else LowPrecisionRows([file.matrix("embedding") for file in files], finite=True)
        )
        label, root, stands = [], [], []
        unit: list[str] = []
        owner: list[str] = []
        for file, at in zip(files, start.tolist(), strict=True):
            label.append(file.array("labels")[file.array("label")])
            unit += file.names("unit")
            people = list(file.names("people"))
            owner += [people[i] for i in file.array("owner").tolist()]
            root.append(file.array("root") + at)
            stands.append(file.array("stands") + at)
        numbers = np.char.add("p", np.char.zfill(np.arange(n).astype(np.str_), 9))
        # Whose each is stands in `owner`: neither evidence nor scores ask for it.
        everybody = np.full(n, "p")
        units = Submission(
            numbers,
            everybody,
            cast(Features, features),
            np.concatenate(label) if labelled else unlabelled(n),
            cast(Features | None, embedding),
        )
        art = AcquiredData(units, np.concatenate(stands), _highest([file.highest() for file in files]))
        return cls(tuple(runs), art, start, unit, owner, np.concatenate(root), without)

    def __len__(self) -> int:
        return len(self.unit)

    def run_at(self, row: int) -> int:
        """Which of the runs a row is of."""
        return int(np.searchsorted(self.start, row, side="right")) - 1

    def bought_as(self, row: int) -> OldUnit:
        """What a unit was bought as: the one that stands for its tree, in the run that bought it."""
        root = int(self.root[row])
        return OldUnit(self.run_at(root), self.unit[root], self.owner[row])

    def name(self, row: int) -> str:
        """A unit as overrides name it: ``RUN:UNIT``."""
        return f"{self.runs[self.run_at(row)].short}:{self.unit[row]}"

    def row_of(self, name: str) -> int | None:
        """The row of a unit that is named so; None where no earlier run has it."""
        run, colon, unit = name.partition(":")
        place = self._places.get(run)
        return None if not colon or place is None else self._rows[place].get(unit)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {each.short: i for i, each in enumerate(self.runs)}

    @cached_property
    def _rows(self) -> list[dict[str, int]]:
        ends = [*self.start[1:].tolist(), len(self)]
        return [
            {self.unit[row]: row for row in range(at, end)}
            for at, end in zip(self.start.tolist(), ends, strict=True)
        ]

    def named(
        self, known: AcquiredMatches, units: list[str], identities: list[str]
    ) -> MatchedAcquiredUnits:
        """Units of a submission that were bought before, by their names and those of whoever submitted them."""
        return MatchedAcquiredUnits(
            units,
            identities,
            [self.bought_as(row) for row in known.old.tolist()],
            [self.name(row) for row in known.old.tolist()],
            known.score,
            known.reason,
        )


def _highest(runs: Sequence[dict[str, Values]]) -> dict[str, Values]:
    """What was asked of all runs: of their units together it is the highest that any of them answers."""
    asked = set(runs[0]).intersection(*runs[1:])
    return {name: np.max([known[name] for known in runs], axis=0) for name in sorted(asked)}


def kind_of(file: AcquiredFile) -> UnitKind:
    """What the units of a file are, by the heads of its members."""
    features, embedding = file.shape("features"), file.shape("embedding")
    assert features is not None
    return UnitKind(
        features[1],
        None if embedding is None else embedding[1],
        kind_of_labels(file.array("labels")),
        tuple(file.names("columns")),
        str(file.array("encoder").item()),
    )


_NONE = "none"


def kind_of_labels(label: NDArray[Any]) -> str:
    """Whether labels are words or numbers, or there are none."""
    if not is_labelled(label):
        return _NONE
    return "text" if label.dtype.kind in "US" else "numbers"


def _require_kind(prior: AcquiredRun, theirs: UnitKind, ours: UnitKind) -> None:
    """Refuse units that cannot be compared with the new ones, by what differs."""
    said = f"{prior.called}, in {str(prior.folder)!r}"
    if theirs.encoder != ours.encoder:
        raise AcquiredDataError(
            f"the features of {said} were made by {_encoder(theirs)}, those of this run by {_encoder(ours)}; units are "
            "compared with what was bought only if one encoder made both"
        )
    for what, old, new in (
        ("features", theirs.features, ours.features),
        ("embedding", theirs.embedding, ours.embedding),
    ):
        if old != new:
            raise AcquiredDataError(
                f"units of {said} have {_width(what, old)}, those of this run {_width(what, new)}; embed both alike"
            )
    if _NONE not in (theirs.labels, ours.labels) and theirs.labels != ours.labels:
        raise AcquiredDataError(
            f"labels of {said} are {theirs.labels}, those of this run {ours.labels}; write them alike"
        )
    if theirs.columns and ours.columns and theirs.columns != ours.columns:
        first = zip(theirs.columns, ours.columns, strict=True)
        before, now = next((a, b) for a, b in first if a != b)
        raise AcquiredDataError(
            f"the features of {said} are {before!r} where those of this run are {now!r}; give both the same "
            "columns, in the same order"
        )


def _encoder(kind: UnitKind) -> str:
    return kind.encoder or "whoever submitted them"


def _width(what: str, width: int | None) -> str:
    return f"no {what}" if width is None else f"{what} of {width} numbers"


def overridden_known(
    known: AcquiredMatches, overrides: Sequence[Override], prior: AcquiredUnits, ids: Sequence[str]
) -> tuple[AcquiredMatches, list[Override]]:
    """What was bought before, after the overrides that name earlier units; and what they say of new units alone."""
    place = {name: i for i, name in enumerate(ids)} if overrides else {}
    rest = []
    for each in overrides:
        earlier = {name: row for name in each.units if (row := prior.row_of(name)) is not None}
        if twice := next((name for name in earlier if name in place), None):
            raise AcquiredDataError(
                f"an override names {visible(twice)!r}, which is a unit of this run and one of an earlier run, too: "
                "whoever submits a unit writes its id. Give that unit of this run another id, and pay again"
            )
        if not earlier:
            rest.append(each)
            continue
        known, done = _applied(known, each, earlier, place)
        if left := [name for name in each.units if name not in done]:
            rest.append(each.model_copy(update={"units": left}))
    for each in rest:
        if each.action == "split" and each.dispute is None:
            _require_free(known, each, prior, place, ids)
    return known, rest


def _applied(
    known: AcquiredMatches, override: Override, earlier: Mapping[str, int], place: Mapping[str, int]
) -> tuple[AcquiredMatches, set[str]]:
    """AcquiredMatches units after an override that names earlier ones, and the names that it is done with."""
    rows = np.array(list(earlier.values()), dtype=np.int64)
    named = {place[name]: name for name in override.units if name in place}
    ours = np.array(list(named), dtype=np.int64)
    if override.action == "join":
        if not len(ours):
            raise AcquiredDataError(
                f"an override joins {visible(next(iter(earlier)))!r}, which was bought before, with no unit of this "
                "run; name one"
            )
        others = known.where(~np.isin(known.unit, ours))
        joined = AcquiredMatches(
            np.concatenate([others.unit, ours]),
            np.concatenate([others.old, np.full(len(ours), rows[0])]),
            np.concatenate([others.score, np.ones(len(ours))]),
            np.concatenate([others.reason, np.full(len(ours), "override")]),
        )
        return joined.where(np.argsort(joined.unit)), {*earlier, *named.values()}
    freed = np.isin(known.unit, ours) & np.isin(known.old, rows)
    if not freed.any() and override.dispute is None:
        raise AcquiredDataError(
            f"an override splits from {visible(next(iter(earlier)))!r}, which was bought before, and none of the units "
            "that it names was taken for that one; prior.parquet says which was taken for what (tied_to)"
        )
    return known.where(~freed), {*earlier, *(named[unit] for unit in known.unit[freed].tolist())}


def _require_free(
    known: AcquiredMatches,
    split: Override,
    prior: AcquiredUnits,
    place: Mapping[str, int],
    ids: Sequence[str],
) -> None:
    """Refuse a split of a unit that was bought before, which would change nothing."""
    ours = np.array([place[name] for name in split.units if name in place], dtype=np.int64)
    for i in np.flatnonzero(np.isin(known.unit, ours)).tolist():
        unit, tied = visible(ids[known.unit[i]]), visible(prior.name(int(known.old[i])))
        raise AcquiredDataError(
            f"an override splits {unit!r}, which was taken for a unit that was bought before; if it is another, name "
            f"both: units = [{unit!r}, {tied!r}]"
        )


def write_acquired(results: Results, unpaid: Collection[str], folder: Path) -> None:
    """Keep what a run has bought, for later periods; the ``unpaid`` have sold nothing."""
    write_record(folder / BOUGHT, acquired_units(results, unpaid))


def acquired_units(results: Results, unpaid: Collection[str]) -> RunUnits:
    """The units of a run that somebody is paid for, then those that were set aside as validation rows."""
    inputs, submission, label = (
        results.inputs,
        results.inputs.submission,
        results.payments.clustering.label,
    )
    sold, whose, names = _owners(results, unpaid)
    rows = np.flatnonzero(sold[label])
    place = np.full(len(label), -1)
    place[rows] = np.arange(len(rows))
    stands = place[np.sort(results.payments.canonical.unit)]
    ids = [inputs.ids[i] for i in rows]
    submitters, owners = inputs.owner[rows], whose[label[rows]]
    root = place[_roots(results)[label[rows]]]
    leaks, kept = results.leaks, _taken(submission, rows)
    if leaks.units is not None:
        kept = Submission.concat([kept, leaks.units])
        ids += leaks.id.tolist()
        code = {name: i for i, name in enumerate(names)}
        theirs = np.array([code[name] for name in leaks.identity.tolist()], dtype=np.int64)
        submitters, owners = np.concatenate([submitters, theirs]), np.concatenate([owners, theirs])
        root = np.concatenate([root, np.arange(len(rows), len(kept))])
    people, number = _people(names, np.union1d(submitters, owners))
    labels, which = np.unique(kept.label, return_inverse=True)
    stands = stands[stands >= 0]
    checked = results.spec.leak_check != "off"  # then those that are validation rows were set aside
    highest = highest_for_later(
        kept,
        stands,
        results.utility
        if inputs.prior is None
        else replace(inputs, prior=None).utility_oracle(results.spec),
        len(rows) if checked else 0,
        results.asked if checked and len(rows) == len(submission) else None,
    )
    return RunUnits(
        features=shortest(kept.features),
        embedding=None if kept.embedding is None else shortest(kept.embedding),
        labels=labels,
        label=which.astype(np.int64),
        unit=KeptNames.of(ids),
        people=KeptNames.of(people),
        submitter=number[submitters],
        owner=number[owners],
        root=root,
        stands=stands,
        time=kept.time,
        columns=KeptNames.of(inputs.columns if len(inputs.columns) > 1 else ()),
        encoder=inputs.encoder,
        asked=KeptNames.of(highest),
        answers=np.concatenate([np.empty(0), *highest.values()]),
        answered=np.cumsum([len(found) for found in highest.values()], dtype=np.int64),
    )


def _owners(results: Results, unpaid: Collection[str]) -> tuple[np.ndarray, Codes, list[str]]:
    """Of each cluster whether somebody is paid for it and who owns it, by the place in a list of names.

    Several names own it together only where they sent the same at the same time.
    """
    inputs, canonical = results.inputs, results.payments.canonical
    names, n = list(inputs.identities), canonical.n_clusters
    cluster, owner = distinct_pairs(
        canonical.cluster[canonical.claim_row], inputs.owner[canonical.claim_unit]
    )
    is_paid = np.array([name not in unpaid for name in names])
    sold = np.bincount(cluster, weights=is_paid[owner], minlength=n) > 0
    whose, count = np.zeros(n, dtype=np.int64), np.bincount(cluster, minlength=n)
    whose[cluster] = owner
    together: dict[str, int] = {}
    shared = np.flatnonzero(count[cluster] > 1)
    for part in np.split(shared, np.flatnonzero(np.diff(cluster[shared])) + 1) if len(shared) else []:
        name = " and ".join(sorted(names[code] for code in owner[part].tolist()))
        whose[cluster[part[0]]] = together.setdefault(name, len(inputs.identities) + len(together))
    return sold, whose, [*names, *together]


def _people(names: list[str], used: Codes) -> tuple[list[str], Codes]:
    """The names that are used, sorted, and for each of all names its place among them."""
    people = sorted({names[code] for code in used.tolist()})
    place = {name: i for i, name in enumerate(people)}
    number = np.full(len(names), -1)
    number[used] = [place[names[code]] for code in used.tolist()]
    return people, number


def _roots(results: Results) -> Codes:
    """The unit that stands for each cluster."""
    canonical = results.payments.canonical
    root = np.full(canonical.n_clusters, -1)
    root[canonical.cluster] = canonical.unit
    return root


def _taken(submission: Submission, rows: Codes) -> Submission:
    """Some units; without a copy where that is all of them."""
    return submission if len(rows) == len(submission) else submission.take(rows)


def priced_given(results: Results) -> dict[str, Any]:
    """What was there is worth, what is new adds, and in minor units what that is at the earlier price, or None.

    There is none where earlier runs divided another currency, or where either is worth nothing.
    """
    prior, spec = results.inputs.prior, results.spec
    if prior is None:
        return {}
    utility = results.utility
    there = utility.empty_value - utility.nothing_value
    adds = results.payments.scores.grand_value
    same = {run.currency for run in prior.runs} == {spec.currency}
    price = None
    if same and there > 0 and adds > 0:
        price = round(sum(run.amount for run in prior.runs) * adds / there)
    return {"there": there, "adds": adds, "at_earlier_price": price}


def price_messages(given: dict[str, Any], amount: int, currency: str) -> str:
    """The same in a sentence; blank where there is no earlier price."""
    price = given.get("at_earlier_price")
    if price is None:
        return ""
    money = Currency(currency)
    then, now = (f"{currency} {money.shown(each)}" for each in (price, amount))
    return (
        f"What is new adds {given['adds'] / given['there']:.1%} to the worth of what was bought; at the price of then "
        f"that is {then}, and this run divides {now}. Where every period divides the same, whoever waits is paid more."
    )


_FEW = 5


def acquired_messages(manifest: dict[str, Any], accounts: Accounts) -> str:
    """What a run is priced given; where it names nothing, what its ledger has bought and it does not look at."""
    given = manifest.get(ROLE, ())
    if given:
        names = listed((run_called(each["period"], each["run"]) for each in given), _FEW)
        known = counted(manifest["known"], "unit was", "units were")
        said = (
            f"Priced given what was bought before ({names}): {known} bought then and earn nothing now."
        )
        price = price_messages(manifest["given"], manifest["amount"], manifest["currency"])
        return f"{said} {price}".strip()
    bought = [
        run for run in accounts.runs.values() if run.state in APPROVED and run.run != manifest["run"]
    ]
    if not bought:
        return ""
    names = listed((run_called(run.period, run.run) for run in bought), _FEW)
    return (
        f"Not priced given what the ledger has bought before ({names}): whoever submits that again is paid again. "
        "See: pay --help, --prior."
    )
