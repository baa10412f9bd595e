"""What a run settles: the earlier draft whose checks were answered, who failed them, and who was not checked.

Part of a run's inputs: it decides who is paid, stands in the manifest, and is in the run's id.

What stands of an earlier draft's checks: its draws, the looks that were made, and each unit's part of its pay.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from datamarket_gym.errors import RunError
from datamarket_gym.execution.arrays import Values
from datamarket_gym.execution.files import replacing, sha256
from datamarket_gym.payout.checks.plan import CheckedPayee
from datamarket_gym.registry import Document


class FoundUnit(Document):
    """A unit that is not genuine, as a check found."""

    unit: str
    identity: str
    payee: str
    note: str = ""


class EarlierDraw(Document):
    """A draw of the earlier run, of a payee who passed."""

    payee: str
    unit: str


class PriorReview(Document):
    """A look at a unit in the earlier run, or in one before it, whose answer was: genuine."""

    unit: str
    by: str  # who looked; empty where that was not said


class SettledDraft(Document):
    """The earlier run, and what becomes of those in it."""

    run: str
    manifest: str  # sha256 of the earlier run's manifest
    beacon: str  # that its checks were drawn under
    beacons: list[str] = Field(default_factory=list)  # that those of the drafts before it were
    checks: int  # of each payee
    power: float
    outcomes: str  # sha256 of its answers
    found: list[FoundUnit]  # taken out of the game
    forfeited: list[
        str
    ]  # identities whose payees failed: paid nothing, and their other units go on playing
    carried: list[str]  # identities that would be paid less than checks cost: neither checked nor paid
    draws: list[EarlierDraw]
    looks: list[PriorReview]
    examined: Literal["anew", "once"]  # whether each draw of the earlier run was a look of its own
    before: str  # sha256 of checks/before.parquet: what part of a payee's pay each unit was
    kept: int = 0  # minor units that were not divided again, in this and earlier drafts

    @property
    def unpaid(self) -> frozenset[str]:
        """Who is paid nothing in this run: what their units earn goes to the others, old balances stay as they are."""
        return frozenset((*self.forfeited, *self.carried))


EARLIER_FILE = "checks/before.parquet"


@dataclass(frozen=True)
class EarlierChecks:
    """Units that were drawn of each payee, each unit's chance to be drawn, and who looked at which unit."""

    draws: dict[str, list[str]]
    share: dict[str, dict[str, float]]
    looks: dict[str, list[str]] = field(default_factory=dict)

    def draws_of(self, payee: str) -> list[str]:
        """The units that were drawn of a payee."""
        return self.draws.get(payee, [])

    def shares(self, payee: str, units: Sequence[str]) -> Values:
        """The chance that each unit of a payee had; 0 for units that could not be drawn."""
        known = self.share.get(payee, {})
        return np.array([known.get(unit, 0.0) for unit in units])

    def counted(self, unit: str, times: int) -> int:
        """Of so many looks at a unit, how many were made before.

        One by nobody in particular counts only where one is asked for: who looks next could be the same person.
        """
        made = self.looks.get(unit, [])
        return min(times, len(made) if times == 1 else sum(map(bool, made)))


def before_bytes(payees: Sequence[CheckedPayee]) -> bytes:
    """The chances of all units of payees, as a file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "payee": pa.array([p.name for p in payees for _ in p.units], pa.string()),
            "unit": pa.array([unit for p in payees for unit in p.units], pa.string()),
            "share": pa.array(np.concatenate([np.zeros(0), *(p.share for p in payees)])),
        }
    )
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def digest_of(content: bytes) -> str:
    """The sha256 of a file's bytes."""
    return hashlib.sha256(content).hexdigest()


def write_before(run: Path, content: bytes) -> None:
    """Put the chances into the folder of the run that takes the place of the earlier one."""
    (run / EARLIER_FILE).parent.mkdir(exist_ok=True)
    with replacing(run / EARLIER_FILE) as part:
        part.write_bytes(content)


def read_earlier_checks(run: Path, settles: SettledDraft | None) -> EarlierChecks | None:
    """What stands of the draft that a run settles; None where it settles none."""
    import pyarrow.parquet as pq

    if settles is None:
        return None
    path = run / EARLIER_FILE
    if not path.is_file() or sha256(path) != settles.before:
        raise RunError(
            f"{str(path)!r} is missing or changed; settle the earlier run again into this folder, which writes it"
        )
    share: dict[str, dict[str, float]] = {}
    for row in pq.read_table(path).to_pylist():
        share.setdefault(row["payee"], {})[row["unit"]] = row["share"]
    draws: dict[str, list[str]] = {}
    for draw in settles.draws:
        draws.setdefault(draw.payee, []).append(draw.unit)
    looks: dict[str, list[str]] = {}
    for look in settles.looks:
        looks.setdefault(look.unit, []).append(look.by)
    return EarlierChecks(draws, share, looks)
