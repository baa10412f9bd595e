"""Previously acquired units: what a run keeps for later periods, and what it knows of earlier ones.

Units that match what earlier runs have acquired (``pay --acquired``) earn nothing. New ones are paid as new, by
themselves; or, with ``--acquired-discount``, for what they add to what was acquired.

A run keeps (``RUN/records/owned_units.npz``) all units that were scored, and their owners: the earliest unit of a tree
owns it, so that a copy of a copy is matched with the right owner later. The unit that represents its tree is marked
(``stands``). Units that were set aside as validation rows are kept by themselves and represent nothing: a changed copy
of one must be detected. Not kept are units that could not be used, that a check found to be false or that an earlier
run had acquired, and trees without a paid owner.

Earlier runs must be approved, as their ledger has it, and are taken from the oldest to the newest. A run that itself
named others is named with these: else what was copied from them would be paid for now. Overrides name a unit of an
earlier run ``RUN:UNIT``: a split that names both a unit and the earlier one says that it is another, a join that it is
that one. A split that names the new unit alone matches it with earlier ones all the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from datamarket_gym.data.acquired import AcquiredData
from datamarket_gym.data.inputs import is_labelled, unlabelled
from datamarket_gym.data.submission import Submission
from datamarket_gym.display import counted, listed
from datamarket_gym.errors import DataMarketError
from datamarket_gym.evidence.graph import AcquiredMatches
from datamarket_gym.evidence.text_containment import Pairs, WordPairs, no_pairs
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
from datamarket_gym.payout.ledger.entries import APPROVED, LedgerEntry, RunRecord, describe_state
from datamarket_gym.payout.ledger.runs import ledger_of, run_of
from datamarket_gym.payout.manifest import NAME, OWNED, read_manifest, require_as_written
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import run_called, visible
from datamarket_gym.payout.overrides import Override

if TYPE_CHECKING:
    from datamarket_gym.payout.results import Results

ROLE = "acquired"
_SHORT = 16  # characters of a run's id
_FEW = 5  # runs that are named
_NO_LABELS = "none"


class AcquiredDataError(DataMarketError):
    """A folder that cannot be taken as previously acquired data, or an override of what was acquired."""


@dataclass(frozen=True, eq=False)
class PackedNames:
    """Names end to end as UTF-8, and where each ends: one long name does not make all of them as long."""

    text: NDArray[np.uint8]
    ends: Codes

    @classmethod
    def from_names(cls, names: Iterable[str]) -> PackedNames:
        parts = [name.encode() for name in names]
        text = np.frombuffer(b"".join(parts), dtype=np.uint8)
        return cls(text, np.cumsum([len(part) for part in parts], dtype=np.int64))

    def __iter__(self) -> Iterator[str]:
        text = self.text.tobytes()
        return (text[start:end].decode() for start, end in pairwise([0, *self.ends.tolist()]))

    def __len__(self) -> int:
        return len(self.ends)


@dataclass(frozen=True)
class UnitKind:
    """What units must have in common to be compared: the length of their vectors, labels, columns, the encoder.

    ``labels`` are ``text``, ``numbers`` or ``none``. Where some units have none, no labels count.
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
    unit: PackedNames
    people: PackedNames
    submitter: Codes
    owner: Codes
    root: Codes  # the row of the unit that stands for the tree
    stands: Codes  # rows
    time: Values | None
    columns: PackedNames  # that the features came from, where they are several
    encoder: str  # that made the features of texts or images; blank where they were submitted
    word_pairs: Pairs  # of the texts, by which copies are recognised; the texts themselves are not kept
    word_starts: Codes  # as in `WordPairs`
    asked: PackedNames  # digests of what later periods may ask of the units (`AcquiredData.highest`)
    answers: Values  # one after the other
    answered: Codes  # where each ends

    @property
    def kind(self) -> UnitKind:
        width = None if self.embedding is None else self.embedding.shape[1]
        labels, columns = kind_of_labels(self.labels), tuple(self.columns)
        return UnitKind(self.features.shape[1], width, labels, columns, str(self.encoder))


def fits(matrix: Features, kind: type[np.floating[Any]]) -> bool:
    """Tell whether a kind of numbers holds all of a matrix without loss."""
    with np.errstate(over="ignore"):
        return all(
            block.dtype.itemsize <= np.dtype(kind).itemsize or np.array_equal(block, block.astype(kind))
            for _, block in in_blocks(matrix)
        )


def shortest(matrix: Features) -> Features:
    """Return the numbers in the shortest kind that holds all of them without loss."""
    kind = next((kind for kind in (np.float16, np.float32) if fits(matrix, kind)), None)
    return np.asarray(matrix, dtype=kind)


def kind_of_labels(label: NDArray[Any]) -> str:
    """Return ``text``, ``numbers`` or ``none``."""
    if not is_labelled(label):
        return _NO_LABELS
    return "text" if label.dtype.kind in "US" else "numbers"


# The earlier runs of a run.


@dataclass(frozen=True)
class AcquiredRun:
    """An earlier run, as its manifest has it; ``given`` are the runs that it itself named."""

    folder: Path
    run: str
    sha256: str  # of what it has acquired
    period: str
    given: tuple[str, ...]
    amount: int  # in minor units
    currency: str

    @property
    def short(self) -> str:
        """The id by which overrides name the run."""
        return self.run[:_SHORT]

    @property
    def called(self) -> str:
        """The period of the run, else its id."""
        return run_called(self.period, self.run)

    @property
    def plain(self) -> dict[str, str]:
        """The entry of the manifest of a later run."""
        return {"run": self.run, "owned": self.sha256, "period": self.period}

    @classmethod
    def read(cls, folder: Path, whole: bool = True) -> AcquiredRun:
        """Read the run of a folder; with ``whole`` refuse one whose acquired units are not as it left them."""
        if not folder.is_dir():
            raise AcquiredDataError(
                f"{str(folder)!r} is no folder of a payout run; if it was moved, say where it is now: --acquired FOLDER"
            )
        manifest = read_manifest(folder)
        if whole:
            require_as_written(folder, manifest["outputs"], OWNED)
        return cls(
            folder,
            manifest["run"],
            manifest["outputs"].get(OWNED, {}).get("sha256", ""),
            manifest["spec"].get("period") or "",
            tuple(each["run"] for each in manifest.get(ROLE, ())),
            manifest["amount"],
            manifest["currency"],
        )


def _approval(folder: Path) -> tuple[RunRecord, str, LedgerEntry]:
    """Read the record of an approved run, its ledger and the entry of the approval; refuse any other run."""
    ledger = ledger_of(folder)
    record = run_of(folder, ledger.accounts())
    if record.state not in APPROVED:
        later = f"; {record.superseded[1]!r} has taken its place" if record.superseded else ""
        raise AcquiredDataError(
            f"the run in {str(folder)!r} is {describe_state(record.state)}, so that nothing of it is acquired{later}"
            ": name approved runs alone"
        )
    if sha256(folder / NAME) != record.manifest:
        raise AcquiredDataError(
            f"{str(folder / NAME)!r} is not the one that was approved; run: datamarket verify {folder}"
        )
    return record, ledger.where, next(entry for entry in record.history if entry.kind == "approved")


def accepted(folders: Sequence[Path], out: Path) -> tuple[Path, ...]:
    """Return the folders of earlier runs, the oldest first; refuse one that cannot be taken as acquired."""
    runs = [AcquiredRun.read(folder, whole=False) for folder in folders]
    approvals = [_approval(folder) for folder in folders]
    by_run: dict[str, AcquiredRun] = {}
    for run in runs:
        if run.folder.resolve() == out.resolve():
            raise AcquiredDataError(
                f"{str(out)!r} is the folder of this run itself; leave that --acquired out"
            )
        twin = by_run.setdefault(run.run, run)
        if twin is not run:
            raise AcquiredDataError(
                f"{str(twin.folder)!r} and {str(run.folder)!r} are the same run, {run.short}; name it once"
            )
    for run, (record, _, _) in zip(runs, approvals, strict=True):
        for place, given in enumerate(run.given, 1):
            if given not in by_run:
                raise AcquiredDataError(
                    f"{run.called}, in {str(run.folder)!r}, names run {given[:_SHORT]}, which this one does not: "
                    "what was copied from that one would be paid for now. Add --acquired "
                    f"{record.places.get(f'{ROLE} {place}', 'its folder')}"
                )
    one_ledger = len({ledger for _, ledger, _ in approvals}) == 1

    def age(i: int) -> tuple[int | str, ...]:
        entry = approvals[i][2]
        return (entry.number,) if one_ledger else (entry.at, runs[i].run)

    return tuple(folders[i] for i in sorted(range(len(runs)), key=age))


def find_named_runs(folders: Sequence[Path], acquired: Sequence[dict[str, Any]]) -> tuple[Path, ...]:
    """Return the folders of the runs that a manifest names as acquired, in its order; they may have been moved."""
    by_run = {read_manifest(folder)["run"]: folder for folder in folders}
    named = {each["run"]: each["period"] or "a run" for each in acquired}
    wrong = [
        f"{period} ({run[:_SHORT]}) is not among the folders"
        for run, period in named.items()
        if run not in by_run
    ]
    wrong += [f"{str(folder)!r} is none of them" for run, folder in by_run.items() if run not in named]
    if wrong:
        raise AcquiredDataError(
            f"the run names {len(acquired)} earlier runs, and {wrong[0]}; name each with --acquired"
        )
    return tuple(by_run[run] for run in named)


# The units of earlier runs.


@dataclass(frozen=True)
class MatchedAcquiredUnit:
    """A unit of a submission that was acquired before, as a row of acquired.parquet.

    ``matched_to`` is the earlier unit that it was matched with, as overrides name it (`RUN:UNIT`): it may be a copy of
    what was acquired.
    """

    unit: str
    identity: str  # now
    run: str  # that acquired it
    period: str
    old_unit: str  # what it was acquired as
    old_owner: str
    score: float
    reason: str
    matched_to: str

    @property
    def called(self) -> str:
        """The period of the run that acquired it, else the run's id."""
        return run_called(self.period, self.run)


def known_table(known: Sequence[MatchedAcquiredUnit]) -> pa.Table:
    """Tabulate the units that were acquired before, in the order of the submissions."""
    kinds = {each.name: pa.string() for each in fields(MatchedAcquiredUnit)} | {"score": pa.float64()}
    return pa.Table.from_pylist([asdict(row) for row in known], pa.schema(kinds))


@dataclass(frozen=True, eq=False)
class AcquiredUnits:
    """Earlier runs, the oldest first, and their units in one table; without labels where some units have none."""

    runs: tuple[AcquiredRun, ...]
    art: AcquiredData
    start: Codes  # the first row of each run
    unit: list[str]
    owner: list[str]
    root: Codes  # the row of what each was acquired as
    unlabelled: Sequence[str] = ()  # the names of the runs whose units have no labels

    @classmethod
    def read(cls, runs: Sequence[AcquiredRun], kind: UnitKind) -> AcquiredUnits:
        """Read what some runs have acquired, for new units of a kind; refuse others by name."""
        records = [read_record(run.folder / OWNED, RunUnits) for run in runs]
        without = []
        for run, record in zip(runs, records, strict=True):
            _require_kind(run, record.kind, kind)
            if record.kind.labels == _NO_LABELS:
                without.append(run.called)
        *start, n = np.cumsum([0, *(len(record.owner) for record in records)]).tolist()
        embeddings = [record.embedding for record in records if record.embedding is not None]
        labelled = kind.labels != _NO_LABELS and not without
        units = Submission(
            np.char.add("p", np.char.zfill(np.arange(n).astype(np.str_), 9)),
            np.full(n, "p"),  # `owner` has the owners: neither evidence nor scores need them
            cast(Features, LowPrecisionRows([record.features for record in records], finite=True)),
            np.concatenate([record.labels[record.label] for record in records])
            if labelled
            else unlabelled(n),
            cast(Features, LowPrecisionRows(embeddings, finite=True)) if embeddings else None,
        )
        WordPairs.concat([WordPairs(r.word_pairs, r.word_starts) for r in records]).keep_with(units)
        owner: list[str] = []
        for record in records:
            people = list(record.people)
            owner += [people[i] for i in record.owner.tolist()]
        canonical, root = (
            np.concatenate([getattr(r, rows) + at for r, at in zip(records, start, strict=True)])
            for rows in ("stands", "root")
        )
        return cls(
            tuple(runs), AcquiredData(units, canonical, _highest(records)), np.array(start),
            [name for record in records for name in record.unit], owner, root, without,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.unit)

    def run_at(self, row: int) -> int:
        """Return the place of a row's run."""
        return int(np.searchsorted(self.start, row, side="right")) - 1

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
        self, known: AcquiredMatches, units: Iterable[str], identities: Iterable[str]
    ) -> list[MatchedAcquiredUnit]:
        """Name units of a submission that were acquired before, by what represents their trees."""
        matches = zip(units, identities, known.old.tolist(), known.score, known.reason, strict=True)
        rows = []
        for unit, identity, old, score, reason in matches:
            root = int(self.root[old])
            run = self.runs[self.run_at(root)]
            acquired = run.run, run.period, self.unit[root], self.owner[old]
            rows.append(
                MatchedAcquiredUnit(unit, identity, *acquired, float(score), str(reason), self.name(old))
            )
        return rows


def _highest(records: Sequence[RunUnits]) -> dict[str, Values]:
    """Merge the caches of the runs: the highest similarity to the units of all of them."""
    runs = [dict(zip(r.asked, np.split(r.answers, r.answered)[:-1], strict=True)) for r in records]
    asked = set(runs[0]).intersection(*runs[1:])
    return {name: np.max([known[name] for known in runs], axis=0) for name in sorted(asked)}


def _require_kind(acquired: AcquiredRun, theirs: UnitKind, ours: UnitKind) -> None:
    """Refuse units that cannot be compared with the new ones, by what differs."""
    remedy = "embed both by one encoder"
    if theirs.encoder != ours.encoder:
        then, now = (f"features made by {kind.encoder or 'the submitters'}" for kind in (theirs, ours))
    elif theirs.features != ours.features:
        then, now = (f"features of {kind.features} numbers" for kind in (theirs, ours))
    elif theirs.embedding != ours.embedding:
        then, now = (
            "no embedding" if kind.embedding is None else f"embedding of {kind.embedding} numbers"
            for kind in (theirs, ours)
        )
    elif _NO_LABELS not in (theirs.labels, ours.labels) and theirs.labels != ours.labels:
        then, now = f"labels that are {theirs.labels}", ours.labels
        remedy = "write them in one way"
    elif theirs.columns and ours.columns and theirs.columns != ours.columns:
        columns = zip(theirs.columns, ours.columns, strict=True)
        then, now = next((f"the column {a!r}", f"{b!r}") for a, b in columns if a != b)
        remedy = "give both the same columns, in the same order"
    else:
        return
    raise AcquiredDataError(
        f"units of {acquired.called}, in {str(acquired.folder)!r}, have {then}, those of this run {now}; {remedy}"
    )


def overridden_known(
    known: AcquiredMatches, overrides: Sequence[Override], acquired: AcquiredUnits, ids: Sequence[str]
) -> tuple[AcquiredMatches, list[Override]]:
    """Apply the overrides that name earlier units; return the matches, and the overrides of new units alone."""
    place = {name: i for i, name in enumerate(ids)} if overrides else {}
    rest = []
    for each in overrides:
        earlier = {name: row for name in each.units if (row := acquired.row_of(name)) is not None}
        if twice := next((name for name in earlier if name in place), None):
            raise AcquiredDataError(
                f"an override names {visible(twice)!r}, which is a unit of this run and one of an earlier run, too; "
                "give that unit of this run another id, and pay again"
            )
        if not earlier:
            rest.append(each)
            continue
        known, done = _applied(known, each, earlier, place)
        if left := [name for name in each.units if name not in done]:
            rest.append(each.model_copy(update={"units": left}))
    for name in (n for e in rest if e.action == "split" and e.dispute is None for n in e.units):
        for i in np.flatnonzero(known.unit == place.get(name, -1)).tolist():
            raise AcquiredDataError(
                f"an override splits {visible(name)!r}, which was taken for a unit that was acquired before; if it is "
                f"another, name both: units = [{visible(name)!r}, {visible(acquired.name(int(known.old[i])))!r}]"
            )
    return known, rest


def _applied(
    known: AcquiredMatches, override: Override, earlier: Mapping[str, int], place: Mapping[str, int]
) -> tuple[AcquiredMatches, set[str]]:
    """Apply an override that names earlier units; return the matches, and the names that it is done with."""
    rows = np.array(list(earlier.values()), dtype=np.int64)
    named = {place[name]: name for name in override.units if name in place}
    ours = np.array(list(named), dtype=np.int64)
    first = visible(next(iter(earlier)))
    if override.action == "join":
        if not len(ours):
            raise AcquiredDataError(
                f"an override joins {first!r}, which was acquired before, with no unit of this run; name one"
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
            f"an override splits from {first!r}, which was acquired before, and none of the units that it names was "
            "taken for that one; acquired.parquet says which was taken for what (matched_to)"
        )
    return known.where(~freed), {*earlier, *(named[unit] for unit in known.unit[freed].tolist())}


# What a run keeps for later ones.


def write_acquired(results: Results, unpaid: Collection[str], folder: Path) -> None:
    """Write what a run has acquired; nothing is acquired of the ``unpaid``."""
    write_record(folder / OWNED, acquired_units(results, unpaid))


def acquired_units(results: Results, unpaid: Collection[str]) -> RunUnits:
    """Collect the units of a run with a paid owner, then those that were set aside as validation rows."""
    inputs, submission, canonical = results.inputs, results.inputs.submission, results.payments.canonical
    label, leaks = results.payments.clustering.label, results.leaks
    sold, owner_of, names = _owners(results, unpaid)
    rows = np.flatnonzero(sold[label])
    place = np.full(len(label), -1)
    place[rows] = np.arange(len(rows))
    stands = place[np.sort(canonical.unit)]
    stands = stands[stands >= 0]
    stands_for = np.full(canonical.n_clusters, -1)
    stands_for[canonical.cluster] = canonical.unit
    ids = [inputs.ids[i] for i in rows]
    submitters, owners, root = inputs.owner[rows], owner_of[label[rows]], place[stands_for[label[rows]]]
    units = submission if len(rows) == len(submission) else submission.take(rows)
    if leaks.units is not None:
        units = Submission.concat([units, leaks.units])
        ids += leaks.id.tolist()
        code = {name: i for i, name in enumerate(names)}
        theirs = np.array([code[name] for name in leaks.identity.tolist()], dtype=np.int64)
        submitters, owners = np.concatenate([submitters, theirs]), np.concatenate([owners, theirs])
        root = np.concatenate([root, np.arange(len(rows), len(units))])
    people = sorted({names[i] for i in np.union1d(submitters, owners).tolist()})
    number = {name: i for i, name in enumerate(people)}
    number_of = np.array([number.get(name, -1) for name in names])
    labels, which = np.unique(units.label, return_inverse=True)
    checked = results.spec.leak_check != "off"  # then those that are validation rows were set aside
    utility = results.utility
    if inputs.acquired is not None:
        utility = replace(inputs, acquired=None).utility_oracle(results.spec)
    asked = results.asked if checked and len(rows) == len(submission) else None
    highest = highest_for_later(units, stands, utility, len(rows) if checked else 0, asked)
    pairs = WordPairs.of_submission(units)
    if pairs is None:
        pairs = WordPairs(no_pairs(), np.zeros(len(units) + 1, dtype=np.int64))
    return RunUnits(
        features=shortest(units.features),
        embedding=None if units.embedding is None else shortest(units.embedding),
        labels=labels,
        label=which.astype(np.int64),
        unit=PackedNames.from_names(ids),
        people=PackedNames.from_names(people),
        submitter=number_of[submitters],
        owner=number_of[owners],
        root=root,
        stands=stands,
        time=units.time,
        columns=PackedNames.from_names(inputs.columns if len(inputs.columns) > 1 else ()),
        encoder=inputs.encoder,
        word_pairs=pairs.pair,
        word_starts=pairs.start,
        asked=PackedNames.from_names(highest),
        answers=np.concatenate([np.empty(0), *highest.values()]),
        answered=np.cumsum([len(values) for values in highest.values()], dtype=np.int64),
    )


def _owners(results: Results, unpaid: Collection[str]) -> tuple[NDArray[np.bool_], Codes, list[str]]:
    """Return for each cluster whether an owner is paid, and its owner by the place in a list of names.

    Several names own it together only where they submitted the same at the same time.
    """
    inputs, canonical = results.inputs, results.payments.canonical
    names, n = list(inputs.identities), canonical.n_clusters
    cluster, owner = distinct_pairs(
        canonical.cluster[canonical.claim_row], inputs.owner[canonical.claim_unit]
    )
    is_paid = np.array([name not in unpaid for name in names])
    sold = np.bincount(cluster, weights=is_paid[owner], minlength=n) > 0
    owner_of, count = np.zeros(n, dtype=np.int64), np.bincount(cluster, minlength=n)
    owner_of[cluster] = owner
    together: dict[str, int] = {}
    shared = np.flatnonzero(count[cluster] > 1)
    for part in np.split(shared, np.flatnonzero(np.diff(cluster[shared])) + 1) if len(shared) else []:
        name = " and ".join(sorted(names[code] for code in owner[part].tolist()))
        owner_of[cluster[part[0]]] = together.setdefault(name, len(inputs.identities) + len(together))
    return sold, owner_of, [*names, *together]


# What new units are paid for, and what they add at the price of what was acquired before.


def priced_given(results: Results) -> dict[str, Any]:
    """Compute what acquired units are worth, what new ones add, and that at the earlier price in minor units.

    Nothing where new units are paid by themselves. Earlier runs divided so much for U(P), counted from U of no units;
    the new units add v(all). At the same price they are worth amount x v(all) / U(P). There is no price (None) where
    earlier runs divided another currency, or where either is worth nothing.
    """
    acquired, utility = results.inputs.acquired, results.utility
    if acquired is None or utility.background is None:
        return {}
    there, adds = utility.empty_value - utility.nothing_value, results.payments.scores.grand_value
    price = None
    if {run.currency for run in acquired.runs} == {results.spec.currency} and there > 0 and adds > 0:
        price = round(sum(run.amount for run in acquired.runs) * adds / there)
    return {"there": there, "adds": adds, "at_earlier_price": price}


def _price_message(given: dict[str, Any], amount: int, currency: str) -> str:
    price = given.get("at_earlier_price")
    if price is None:
        return ""
    then, now = (f"{currency} {Currency(currency).shown(each)}" for each in (price, amount))
    return (
        f"What is new adds {given['adds'] / given['there']:.1%} to the worth of what was acquired; at the price of "
        f"then that is {then}, and this run divides {now}. Where every period divides the same, waiting is paid more."
    )


def value_message(results: Results) -> str:
    """Say what the new units of a run that names earlier ones are paid for."""
    acquired, spec = results.inputs.acquired, results.spec
    assert acquired is not None
    names = listed((run.called for run in acquired.runs), _FEW)
    if results.utility.background is None:
        return (
            f"Units that match what was acquired in {names} earn nothing. All others are paid as new: for what they "
            "are worth by themselves, whatever was acquired."
        )
    worth, alone = spec.worth, spec.worth.shown(results.utility.empty_value)
    standing = counted(len(acquired.art.canonical), "unit stands", "units stand")
    return (
        f"This run pays for what its units add to what was acquired in {names}: {standing} for it, one for each group "
        f"of copies. {worth.alone.format(alone)}; what is new adds "
        f"{worth.shown(results.payments.scores.grand_value)}, and that is what the scores divide. "
        f"{_price_message(priced_given(results), spec.minor, spec.currency)}"
    ).strip()


def acquired_messages(manifest: dict[str, Any], accounts: Accounts) -> str:
    """Say what a run makes of earlier ones; where it names none, which acquisitions of its ledger it overlooks."""
    if given := manifest.get(ROLE, ()):
        names = listed((run_called(each["period"], each["run"]) for each in given), _FEW)
        known = counted(manifest["known"], "unit was", "units were")
        known = f"{known} acquired then and earn nothing now."
        if not manifest["given"]:
            return (
                f"Compared with what was acquired before ({names}): {known} New units are paid as new."
            )
        price = _price_message(manifest["given"], manifest["amount"], manifest["currency"])
        return f"Priced given what was acquired before ({names}): {known} {price}".strip()
    approved = [
        run for run in accounts.runs.values() if run.state in APPROVED and run.run != manifest["run"]
    ]
    if not approved:
        return ""
    names = listed((run_called(run.period, run.run) for run in approved), _FEW)
    return (
        f"Not compared with what the ledger has acquired before ({names}): submitted again, it is paid for again. See: "
        "pay --help, --acquired."
    )
