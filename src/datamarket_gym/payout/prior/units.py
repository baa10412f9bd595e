"""The units that earlier runs have bought, put together: what new ones are compared with, and valued given.

Numbers stay in the files until they are looked at; names, which may be of any length, stay outside of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Features, Values
from datamarket_gym.core.narrow import Narrow
from datamarket_gym.payout.prior.bought import BoughtFile
from datamarket_gym.payout.prior.known import KnownUnits, OldUnit
from datamarket_gym.payout.prior.runs import PriorError, PriorRun
from datamarket_gym.pipeline.prior import Known
from datamarket_gym.units.labels import is_labelled, unlabelled
from datamarket_gym.units.prior import PriorArt
from datamarket_gym.units.submission import Submission


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
class PriorUnits:
    """Earlier runs, the oldest first, and their units in one table; without labels where some units have none."""

    runs: tuple[PriorRun, ...]
    art: PriorArt
    start: Codes  # the first row of each run
    unit: list[str]
    owner: list[str]
    root: Codes  # the row of what each was bought as
    unlabelled: Sequence[str] = ()  # what the runs are called whose units have no labels

    @classmethod
    def read(cls, runs: Sequence[PriorRun], kind: UnitKind) -> PriorUnits:
        """What some runs have bought, for new units of a kind; others are refused by name."""
        files = [BoughtFile(each.bought) for each in runs]
        kinds = [kind_of(file) for file in files]
        without = [e.called for e, theirs in zip(runs, kinds, strict=True) if theirs.labels == _NONE]
        for each, theirs in zip(runs, kinds, strict=True):
            _require_kind(each, theirs, kind)
        labelled = kind.labels != _NONE and not without
        sizes = [len(file.array("owner")) for file in files]
        start = np.cumsum([0, *sizes[:-1]])
        n = sum(sizes)
        features = Narrow([file.matrix("features") for file in files], finite=True)  # when it was bought
        embedding = (
            None
            if kind.embedding is None
            else Narrow([file.matrix("embedding") for file in files], finite=True)
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
        art = PriorArt(units, np.concatenate(stands), _highest([file.highest() for file in files]))
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

    def named(self, known: Known, units: list[str], identities: list[str]) -> KnownUnits:
        """Units of a submission that were bought before, by their names and those of whoever submitted them."""
        return KnownUnits(
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


def kind_of(file: BoughtFile) -> UnitKind:
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


def _require_kind(prior: PriorRun, theirs: UnitKind, ours: UnitKind) -> None:
    """Refuse units that cannot be compared with the new ones, by what differs."""
    said = f"{prior.called}, in {str(prior.folder)!r}"
    if theirs.encoder != ours.encoder:
        raise PriorError(
            f"the features of {said} were made by {_encoder(theirs)}, those of this run by {_encoder(ours)}; units are "
            "compared with what was bought only if one encoder made both"
        )
    for what, old, new in (
        ("features", theirs.features, ours.features),
        ("embedding", theirs.embedding, ours.embedding),
    ):
        if old != new:
            raise PriorError(
                f"units of {said} have {_width(what, old)}, those of this run {_width(what, new)}; embed both alike"
            )
    if _NONE not in (theirs.labels, ours.labels) and theirs.labels != ours.labels:
        raise PriorError(
            f"labels of {said} are {theirs.labels}, those of this run {ours.labels}; write them alike"
        )
    if theirs.columns and ours.columns and theirs.columns != ours.columns:
        first = zip(theirs.columns, ours.columns, strict=True)
        before, now = next((a, b) for a, b in first if a != b)
        raise PriorError(
            f"the features of {said} are {before!r} where those of this run are {now!r}; give both the same "
            "columns, in the same order"
        )


def _encoder(kind: UnitKind) -> str:
    return kind.encoder or "whoever submitted them"


def _width(what: str, width: int | None) -> str:
    return f"no {what}" if width is None else f"{what} of {width} numbers"
