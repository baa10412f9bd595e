"""Units of a run that earlier runs have bought: what each was bought as, in which run, and from whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from datamarket_gym.core.arrays import Values
from datamarket_gym.payout.prior.runs import PriorRun
from datamarket_gym.units.submission import Text


@dataclass(frozen=True)
class OldUnit:
    """A unit that was bought: in which of the earlier runs (its place among them), as what, and from whom."""

    run: int
    unit: str
    owner: str


@dataclass(frozen=True, eq=False)
class KnownUnits:
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
    def none() -> KnownUnits:
        """Nothing was bought before."""
        return KnownUnits([], [], [], [], np.empty(0), np.empty(0, dtype=np.str_))


def known_table(known: KnownUnits, runs: Sequence[PriorRun]) -> pa.Table:
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
