"""Previously acquired data, which is there already when the units of a new period are valued."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.content_keys import combined_key, unit_keys
from datamarket_gym.data.submission import Submission
from datamarket_gym.display import Shown
from datamarket_gym.errors import SubmissionError
from datamarket_gym.execution.arrays import Codes, Features, Values


@dataclass(frozen=True, eq=False)
class AcquiredData(Shown):
    """Hold all units of earlier periods, oldest first.

    Parameters
    ----------
    units
        The units; ``identity`` is the owner of each one's cluster, not always its submitter.
    canonical
        Rows that stand for their clusters, P: a new period is worth U(P + S) - U(P). The others serve to find copies.
    highest
        A cache of the highest similarities to validation rows, by a digest of all else that they depend on.
    """

    units: Submission
    canonical: Codes
    highest: dict[str, Values] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows = np.asarray(self.canonical, dtype=np.int64)
        object.__setattr__(self, "canonical", rows)
        if not len(rows):
            raise SubmissionError(
                "previously acquired data without a unit to train on is none; leave it out, or name its canonical units"
            )
        if rows.min() < 0 or rows.max() >= len(self.units) or len(np.unique(rows)) < len(rows):
            raise SubmissionError(
                f"the canonical units of previously acquired data are rows of its {len(self.units)} units, each once"
            )

    def __len__(self) -> int:
        return len(self.units)

    @cached_property
    def features(self) -> Features:
        """Return the training rows of P, which cannot be written to: what is computed from them is cached."""
        rows = self.units.features[self.canonical]
        rows.flags.writeable = False
        return rows

    @cached_property
    def label(self) -> NDArray[Any]:
        return self.units.label[self.canonical]

    def beginning_like(self, rows: Features) -> Codes:
        """Return the units of P that begin with the same number as one of these rows: no other equals one."""
        return self.canonical[np.isin(self.units.features[self.canonical, 0], rows[:, 0])]

    @cached_property
    def digest(self) -> str:
        return combined_key(unit_keys(self.features, self.label)).decode()

    @staticmethod
    def concat(periods: Mapping[str, AcquiredData]) -> AcquiredData:
        """Stack several periods, the oldest first; units are called ``PERIOD:ID`` from then on."""
        if not periods:
            raise SubmissionError("there are no periods to put together; name at least one")
        named = [
            period.units.take(slice(None), {"id": np.char.add(f"{name}:", period.units.id)})
            for name, period in periods.items()
        ]
        starts = np.cumsum([0, *(len(units) for units in named[:-1])])
        canonical = [each.canonical + at for each, at in zip(periods.values(), starts, strict=True)]
        require_same_columns(named)
        return AcquiredData(Submission.concat(named), np.concatenate(canonical))


def require_same_columns(parts: list[Submission]) -> None:
    """Refuse periods of which only some have embeddings, or whose vectors are of unequal length."""
    if len({None if p.embedding is None else p.embedding.shape[1] for p in parts}) > 1:
        raise SubmissionError(
            "some units have embeddings and others have none, or of another length; embed all of them the same way"
        )
    if len({p.features.shape[1] for p in parts}) > 1:
        raise SubmissionError(
            "the units of these periods have unequal numbers of features; use one encoder for all of them"
        )
    if len({p.labelled for p in parts}) > 1:
        raise SubmissionError(
            "some units have labels and others none; leave the labels out of all, or label all"
        )
    if len({p.label.dtype.kind in "US" for p in parts}) > 1:
        raise SubmissionError("some labels are numbers and others text; write all of them the same way")


def joined(acquired: AcquiredData, submission: Submission) -> Submission:
    """Stack old units, then new ones, for evidence to compare; old units and owners are called what no new one is."""
    old, n = acquired.units, len(acquired)
    require_same_columns([old, submission])
    columns: dict[str, Any] = {
        "id": _strangers(n, submission.id),
        "identity": np.full(n, _strangers(1, submission.identity)[0]),
        "features": old.features,
        "label": old.label,
    }
    if old.embedding is not None:
        columns["embedding"] = old.embedding
    if submission.time is not None:
        # Old units are senior whatever times say (`View`): theirs are never looked at.
        columns["time"] = np.full(n, submission.time.min())
    if submission.source is not None:
        columns["source"] = columns["id"]
    return Submission.concat([Submission(**columns, metadata=old.metadata), submission])


def _strangers(count: int, names: NDArray[np.str_]) -> NDArray[np.str_]:
    """Return names that differ from all of these: they are longer."""
    longer = "*" * (int(np.char.str_len(names).max()) + 1)
    return np.array([f"{longer}{i}" for i in range(count)])
