"""Previously acquired units: what a run keeps for later periods, and what a run is priced given (``pay --prior``).

A run keeps (``RUN/records/bought.npz``) all units that played, and who owns each: the earliest of its tree owns the
tree, so that a copy of a copy is matched with the right owner later. The unit that stands for its tree is marked
(``stands``). Units that were set aside as validation rows are kept by themselves and stand for nothing: a changed copy
of one must be known. Not kept are units that could not be used, that a check found to be false or that an earlier run
had acquired, and trees that nobody is paid for.

Earlier runs must be approved, as their ledger has it, and are taken from the oldest to the newest. A run that was
itself priced given others is named with these: else what was copied from them would be paid for now. Overrides name
a unit of an earlier run ``RUN:UNIT``: a split that names both a unit and the earlier one says that it is another, a
join that it is that one. A split that names the new unit alone matches it with earlier ones all the same.
"""

from __future__ import annotations

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
from datamarket_gym.execution.runs import read_record, write_record
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.entries import APPROVED, RunRecord, describe_state
from datamarket_gym.payout.ledger.runs import ledger_of, run_of
from datamarket_gym.payout.manifest import BOUGHT, NAME, read_manifest, require_as_written
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import run_called, visible
from datamarket_gym.payout.operator_evidence import Override

if TYPE_CHECKING:
    from datamarket_gym.payout.results import Results

ROLE = "prior"
_SHORT = 16  # characters of a run's id
_FEW = 5  # runs that are named
_NO_LABELS = "none"


class AcquiredDataError(DataMarketError):
    """A folder that cannot be taken as previously acquired data, or an override of what was acquired."""


@dataclass(frozen=True, eq=False)
class KeptNames:
    """Names end to end as UTF-8, and where each ends: one long name does not make all of them as long."""

    text: NDArray[np.uint8]
    ends: Codes

    @classmethod
    def of(cls, names: Iterable[str]) -> KeptNames:
        """Keep names in their order."""
        parts = [name.encode() for name in names]
        text = np.frombuffer(b"".join(parts), dtype=np.uint8)
        return cls(text, np.cumsum([len(part) for part in parts], dtype=np.int64))

    def __iter__(self) -> Iterator[str]:
        text, start = self.text.tobytes(), 0
        for end in self.ends.tolist():
            yield text[start:end].decode()
            start = end

    def __len__(self) -> int:
        return len(self.ends)


@dataclass(frozen=True)
class UnitKind:
    """What units must have in common to be compared: the length of their vectors, labels, columns, the encoder.

    ``labels`` are ``text``, ``numbers`` or ``none``. Where some units have none, nobody's labels count.
    """

    features: int
    embedding: int | None
    labels: str
    columns: tuple[str, ...]
    encoder: str


@dataclass(frozen=True, eq=False)
class RunUnits:
    """The units that a run keeps; ``submitter`` and ``owner`` number ``people``."""

    features: Features
    embedding: Features | None
    labels: NDArray[Any]  # the different ones
    label: Codes  # which of them
    unit: KeptNames
    people: KeptNames
    submitter: Codes
    owner: Codes
    root: Codes  # the row of the unit that stands for the tree
    stands: Codes  # rows
    time: Values | None
    columns: KeptNames  # that the features came from, where they are several
    encoder: str  # that made the features of texts or images; blank where they were submitted
    asked: KeptNames  # digests of what later periods may ask of the units (`AcquiredData.highest`)
    answers: Values  # one after the other
    answered: Codes  # where each ends

    @property
    def kind(self) -> UnitKind:
        """What the units are."""
        return UnitKind(
            self.features.shape[1],
            None if self.embedding is None else self.embedding.shape[1],
            kind_of_labels(self.labels),
            tuple(self.columns),
            str(self.encoder),
        )


def shortest(matrix: Features) -> Features:
    """Return the numbers in the shortest kind that holds all of them without loss."""
    for kind in (np.float16, np.float32):
        with np.errstate(over="ignore"):
            if all(
                block.dtype.itemsize <= np.dtype(kind).itemsize
                or np.array_equal(block, block.astype(kind))
                for _, block in in_blocks(matrix)
            ):
                return np.asarray(matrix, dtype=kind)
    return np.asarray(matrix)


def kind_of_labels(label: NDArray[Any]) -> str:
    """Say whether labels are words or numbers, or there are none."""
    if not is_labelled(label):
        return _NO_LABELS
    return "text" if label.dtype.kind in "US" else "numbers"


# Which earlier runs a run is priced given.


@dataclass(frozen=True)
class AcquiredRun:
    """An earlier run, as its manifest has it; ``given`` are the runs that it was itself priced given."""

    folder: Path
    run: str
    sha256: str  # of what it has acquired
    period: str
    given: tuple[str, ...]
    amount: int  # in minor units
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
        """The file of what it has acquired."""
        return self.folder / BOUGHT

    @classmethod
    def read(cls, folder: Path, whole: bool = True) -> AcquiredRun:
        """Read the run of a folder; with ``whole`` refuse one whose acquired units are not as it left them."""
        if not folder.is_dir():
            raise AcquiredDataError(
                f"the earlier run in {str(folder)!r} is not there; if it was moved, say where it is now: --prior FOLDER"
            )
        manifest = read_manifest(folder)
        if whole:
            require_as_written(folder, manifest["outputs"], BOUGHT)
        return cls(
            folder,
            manifest["run"],
            manifest["outputs"].get(BOUGHT, {}).get("sha256", ""),
            manifest["spec"].get("period") or "",
            tuple(each["run"] for each in manifest.get(ROLE, ())),
            manifest["amount"],
            manifest["currency"],
        )


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
                f"the run in {str(folder)!r} is {describe_state(record.state)}, so that nothing of it is bought{later}"
                ": name approved runs alone"
            )
        if sha256(folder / NAME) != record.manifest:
            raise AcquiredDataError(
                f"{str(folder / NAME)!r} is not the one that was approved; run: datamarket verify {folder}"
            )
        entry = next(entry for entry in record.history if entry.kind == "approved")
        return cls(AcquiredRun.read(folder, whole=False), record, ledger.where, entry.number, entry.at)


def accepted(folders: Sequence[Path], out: Path) -> tuple[Path, ...]:
    """Return the folders of earlier runs, the oldest first; refuse one that cannot be taken as acquired."""
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
        for place, run in enumerate(each.prior.given, 1):
            if run not in by_run:
                raise AcquiredDataError(
                    f"{each.prior.called}, in {str(each.prior.folder)!r}, was priced given run {run[:_SHORT]}, which "
                    "is not named: what was copied from that one would be paid for now. Add --prior "
                    f"{each.record.places.get(f'{ROLE} {place}', 'its folder')}"
                )
    one_ledger = len({each.ledger for each in found}) == 1
    order = sorted(found, key=lambda each: (each.number,) if one_ledger else (each.at, each.prior.run))
    return tuple(each.prior.folder for each in order)


def as_said(folders: Sequence[Path], prior: Sequence[dict[str, Any]]) -> tuple[Path, ...]:
    """Return the folders of the runs that a manifest names as prior, in its order; they may have been moved."""
    by_run = {read_manifest(folder)["run"]: folder for folder in folders}
    missing = [each for each in prior if each["run"] not in by_run]
    if missing or len(by_run) > len(prior):
        strange = set(by_run) - {each["run"] for each in prior}
        wrong = (
            f"{missing[0]['period'] or 'a run'} ({missing[0]['run'][:_SHORT]}) is not among the folders"
            if missing
            else f"{str(by_run[min(strange)])!r} is none of them"
        )
        raise AcquiredDataError(
            f"the run was priced given {len(prior)} earlier runs, and {wrong}; name each with --prior"
        )
    return tuple(by_run[each["run"]] for each in prior)


# The units of earlier runs.


@dataclass(frozen=True)
class OldUnit:
    """A unit that was acquired: in which of the earlier runs (its place among them), as what, and from whom."""

    run: int
    unit: str
    owner: str


@dataclass(frozen=True, eq=False)
class MatchedAcquiredUnits:
    """Units of a submission that were acquired before, whose they were submitted as, and what they were acquired as.

    ``tied_to`` is the earlier unit that each was matched with, as overrides name it (`RUN:UNIT`): it may be a copy of
    what was acquired.
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
        """Nothing was acquired before."""
        return MatchedAcquiredUnits([], [], [], [], np.empty(0), np.empty(0, dtype=np.str_))


def known_table(known: MatchedAcquiredUnits, runs: Sequence[AcquiredRun]) -> pa.Table:
    """Tabulate the units that were acquired before, in the order of the submissions."""
    of = [runs[each.run] for each in known.old]
    columns = {
        "unit": known.unit,
        "identity": known.identity,
        "run": [each.run for each in of],
        "period": [each.period for each in of],
        "old_unit": [each.unit for each in known.old],
        "old_owner": [each.owner for each in known.old],
        "score": known.score,
        "reason": known.reason.tolist(),
        "tied_to": known.tied_to,
    }
    schema = pa.schema([
        (name, pa.float64() if name == "score" else pa.string()) for name in columns
    ])  # fmt: skip
    return pa.table(columns, schema)


@dataclass(frozen=True, eq=False)
class AcquiredUnits:
    """Earlier runs, the oldest first, and their units in one table; without labels where some units have none."""

    runs: tuple[AcquiredRun, ...]
    art: AcquiredData
    start: Codes  # the first row of each run
    unit: list[str]
    owner: list[str]
    root: Codes  # the row of what each was acquired as
    unlabelled: Sequence[str] = ()  # what the runs are called whose units have no labels

    @classmethod
    def read(cls, runs: Sequence[AcquiredRun], kind: UnitKind) -> AcquiredUnits:
        """Read what some runs have acquired, for new units of a kind; refuse others by name."""
        records = [read_record(each.bought, RunUnits) for each in runs]
        for run, record in zip(runs, records, strict=True):
            _require_kind(run, record.kind, kind)
        without = [
            run.called
            for run, record in zip(runs, records, strict=True)
            if record.kind.labels == _NO_LABELS
        ]
        sizes = [len(record.owner) for record in records]
        start, n = np.cumsum([0, *sizes[:-1]]), sum(sizes)
        embeddings = [record.embedding for record in records if record.embedding is not None]
        labelled = kind.labels != _NO_LABELS and not without
        units = Submission(
            np.char.add("p", np.char.zfill(np.arange(n).astype(np.str_), 9)),
            np.full(n, "p"),  # whose each is stands in `owner`: neither evidence nor scores ask for it
            cast(Features, LowPrecisionRows([record.features for record in records], finite=True)),
            np.concatenate([record.labels[record.label] for record in records])
            if labelled
            else unlabelled(n),
            cast(Features, LowPrecisionRows(embeddings, finite=True)) if embeddings else None,
        )
        people = [list(record.people) for record in records]
        return cls(
            tuple(runs),
            AcquiredData(
                units, np.concatenate([r.stands + at for r, at in zip(records, start, strict=True)]), _highest(records)
            ),
            start,
            [name for record in records for name in record.unit],
            [names[i] for names, r in zip(people, records, strict=True) for i in r.owner.tolist()],
            np.concatenate([r.root + at for r, at in zip(records, start, strict=True)]),
            without,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.unit)

    def run_at(self, row: int) -> int:
        """Return which of the runs a row is of."""
        return int(np.searchsorted(self.start, row, side="right")) - 1

    def bought_as(self, row: int) -> OldUnit:
        """Return what a unit was acquired as: the one that stands for its tree, in the run that acquired it."""
        root = int(self.root[row])
        return OldUnit(self.run_at(root), self.unit[root], self.owner[row])

    def name(self, row: int) -> str:
        """Name a unit as overrides do: ``RUN:UNIT``."""
        return f"{self.runs[self.run_at(row)].short}:{self.unit[row]}"

    def row_of(self, name: str) -> int | None:
        """Return the row of a unit that is named so; None where no earlier run has it."""
        run, _, unit = name.partition(":")
        return self._rows.get((run, unit))

    @cached_property
    def _rows(self) -> dict[tuple[str, str], int]:
        return {(self.runs[self.run_at(row)].short, unit): row for row, unit in enumerate(self.unit)}

    def named(
        self, known: AcquiredMatches, units: list[str], identities: list[str]
    ) -> MatchedAcquiredUnits:
        """Name units of a submission that were acquired before, and whoever submitted them."""
        rows = known.old.tolist()
        old, tied_to = [self.bought_as(row) for row in rows], [self.name(row) for row in rows]
        return MatchedAcquiredUnits(units, identities, old, tied_to, known.score, known.reason)


def _highest(records: Sequence[RunUnits]) -> dict[str, Values]:
    """What was asked of all runs: of their units together it is the highest that any of them answers."""
    runs = [
        dict(zip(record.asked, np.split(record.answers, record.answered)[:-1], strict=True)) for record in records
    ]  # fmt: skip
    asked = set(runs[0]).intersection(*runs[1:])
    return {name: np.max([known[name] for known in runs], axis=0) for name in sorted(asked)}


def _require_kind(prior: AcquiredRun, theirs: UnitKind, ours: UnitKind) -> None:
    """Refuse units that cannot be compared with the new ones, by what differs."""
    run, wrong = f"{prior.called}, in {str(prior.folder)!r}", ""
    if theirs.encoder != ours.encoder:
        made = [kind.encoder or "whoever submitted them" for kind in (theirs, ours)]
        wrong = (
            f"the features of {run} were made by {made[0]}, those of this run by {made[1]}; units are compared with "
            "what was bought only if one encoder made both"
        )
    elif theirs.features != ours.features:
        wrong = (
            f"units of {run} have features of {theirs.features} numbers, those of this run features of {ours.features} "
            "numbers; embed both alike"
        )
    elif theirs.embedding != ours.embedding:
        widths = [
            "no embedding" if width is None else f"embedding of {width} numbers"
            for width in (theirs.embedding, ours.embedding)
        ]
        wrong = f"units of {run} have {widths[0]}, those of this run {widths[1]}; embed both alike"
    elif _NO_LABELS not in (theirs.labels, ours.labels) and theirs.labels != ours.labels:
        wrong = f"labels of {run} are {theirs.labels}, those of this run {ours.labels}; write them alike"
    elif theirs.columns and ours.columns and theirs.columns != ours.columns:
        pairs = zip(theirs.columns, ours.columns, strict=True)
        before, now = next((a, b) for a, b in pairs if a != b)
        wrong = (
            f"the features of {run} are {before!r} where those of this run are {now!r}; give both the same columns, in "
            "the same order"
        )
    if wrong:
        raise AcquiredDataError(wrong)


def overridden_known(
    known: AcquiredMatches, overrides: Sequence[Override], prior: AcquiredUnits, ids: Sequence[str]
) -> tuple[AcquiredMatches, list[Override]]:
    """Apply the overrides that name earlier units; return the matches, and what overrides say of new units alone."""
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
            _require_free(known, [place[name] for name in each.units if name in place], prior, ids)
    return known, rest


def _applied(
    known: AcquiredMatches, override: Override, earlier: Mapping[str, int], place: Mapping[str, int]
) -> tuple[AcquiredMatches, set[str]]:
    """The matches after an override that names earlier units, and the names that it is done with."""
    rows = np.array(list(earlier.values()), dtype=np.int64)
    named = {place[name]: name for name in override.units if name in place}
    ours = np.array(list(named), dtype=np.int64)
    first = visible(next(iter(earlier)))
    if override.action == "join":
        if not len(ours):
            raise AcquiredDataError(
                f"an override joins {first!r}, which was bought before, with no unit of this run; name one"
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
            f"an override splits from {first!r}, which was bought before, and none of the units that it names was "
            "taken for that one; prior.parquet says which was taken for what (tied_to)"
        )
    return known.where(~freed), {*earlier, *(named[unit] for unit in known.unit[freed].tolist())}


def _require_free(
    known: AcquiredMatches, ours: list[int], prior: AcquiredUnits, ids: Sequence[str]
) -> None:
    """Refuse a split of a unit that was acquired before, which would change nothing."""
    for i in np.flatnonzero(np.isin(known.unit, ours)).tolist():
        unit, earlier = visible(ids[known.unit[i]]), visible(prior.name(int(known.old[i])))
        raise AcquiredDataError(
            f"an override splits {unit!r}, which was taken for a unit that was bought before; if it is another, name "
            f"both: units = [{unit!r}, {earlier!r}]"
        )


# What a run keeps for later ones.


def write_acquired(results: Results, unpaid: Collection[str], folder: Path) -> None:
    """Write what a run has acquired; the ``unpaid`` have sold nothing."""
    write_record(folder / BOUGHT, acquired_units(results, unpaid))


def acquired_units(results: Results, unpaid: Collection[str]) -> RunUnits:
    """Collect the units of a run that somebody is paid for, then those that were set aside as validation rows."""
    inputs, submission, canonical = results.inputs, results.inputs.submission, results.payments.canonical
    label, leaks = results.payments.clustering.label, results.leaks
    sold, whose, names = _owners(results, unpaid)
    rows = np.flatnonzero(sold[label])
    place = np.full(len(label), -1)
    place[rows] = np.arange(len(rows))
    stands = place[np.sort(canonical.unit)]
    stands = stands[stands >= 0]
    stands_for = np.full(canonical.n_clusters, -1)
    stands_for[canonical.cluster] = canonical.unit
    ids = [inputs.ids[i] for i in rows]
    submitters, owners, root = inputs.owner[rows], whose[label[rows]], place[stands_for[label[rows]]]
    kept = submission if len(rows) == len(submission) else submission.take(rows)
    if leaks.units is not None:
        kept = Submission.concat([kept, leaks.units])
        ids += leaks.id.tolist()
        code = {name: i for i, name in enumerate(names)}
        theirs = np.array([code[name] for name in leaks.identity.tolist()], dtype=np.int64)
        submitters, owners = np.concatenate([submitters, theirs]), np.concatenate([owners, theirs])
        root = np.concatenate([root, np.arange(len(rows), len(kept))])
    people = sorted({names[i] for i in np.union1d(submitters, owners).tolist()})
    number = {name: i for i, name in enumerate(people)}
    number_of = np.array([number.get(name, -1) for name in names])
    labels, which = np.unique(kept.label, return_inverse=True)
    checked = results.spec.leak_check != "off"  # then those that are validation rows were set aside
    utility = results.utility
    if inputs.prior is not None:
        utility = replace(inputs, prior=None).utility_oracle(results.spec)
    asked = results.asked if checked and len(rows) == len(submission) else None
    highest = highest_for_later(kept, stands, utility, len(rows) if checked else 0, asked)
    return RunUnits(
        features=shortest(kept.features),
        embedding=None if kept.embedding is None else shortest(kept.embedding),
        labels=labels,
        label=which.astype(np.int64),
        unit=KeptNames.of(ids),
        people=KeptNames.of(people),
        submitter=number_of[submitters],
        owner=number_of[owners],
        root=root,
        stands=stands,
        time=kept.time,
        columns=KeptNames.of(inputs.columns if len(inputs.columns) > 1 else ()),
        encoder=inputs.encoder,
        asked=KeptNames.of(highest),
        answers=np.concatenate([np.empty(0), *highest.values()]),
        answered=np.cumsum([len(found) for found in highest.values()], dtype=np.int64),
    )


def _owners(results: Results, unpaid: Collection[str]) -> tuple[NDArray[np.bool_], Codes, list[str]]:
    """Of each cluster whether somebody is paid for it and who owns it, by the place in a list of names.

    Several names own it together only where they submitted the same at the same time.
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


# What is new, at the price of what was acquired before.


def priced_given(results: Results) -> dict[str, Any]:
    """Compute what acquired units are worth, what new ones add, and that at the earlier price in minor units.

    Earlier runs divided so much for U(P), counted from U of no units; the new units add v(all). At the same price they
    are worth amount x v(all) / U(P). There is no price (None) where earlier runs divided another currency, or where
    either is worth nothing.
    """
    prior, utility = results.inputs.prior, results.utility
    if prior is None:
        return {}
    there, adds = utility.empty_value - utility.nothing_value, results.payments.scores.grand_value
    price = None
    if {run.currency for run in prior.runs} == {results.spec.currency} and there > 0 and adds > 0:
        price = round(sum(run.amount for run in prior.runs) * adds / there)
    return {"there": there, "adds": adds, "at_earlier_price": price}


def price_messages(given: dict[str, Any], amount: int, currency: str) -> str:
    """Say what new units add at the earlier price; blank where there is none."""
    price = given.get("at_earlier_price")
    if price is None:
        return ""
    then, now = (f"{currency} {Currency(currency).shown(each)}" for each in (price, amount))
    return (
        f"What is new adds {given['adds'] / given['there']:.1%} to the worth of what was bought; at the price of then "
        f"that is {then}, and this run divides {now}. Where every period divides the same, whoever waits is paid more."
    )


def acquired_messages(manifest: dict[str, Any], accounts: Accounts) -> str:
    """Say what a run is priced given; where it names nothing, which acquisitions of its ledger it does not look at."""
    if given := manifest.get(ROLE, ()):
        names = listed((run_called(each["period"], each["run"]) for each in given), _FEW)
        known = counted(manifest["known"], "unit was", "units were")
        price = price_messages(manifest["given"], manifest["amount"], manifest["currency"])
        known = f"{known} bought then and earn nothing now."
        return f"Priced given what was bought before ({names}): {known} {price}".strip()
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
