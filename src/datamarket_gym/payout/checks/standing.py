"""What stands of an earlier draft's checks: its draws, the looks that were made, and each unit's part of its pay."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from datamarket_gym.core.arrays import Values
from datamarket_gym.core.errors import RunError
from datamarket_gym.core.files import replacing, sha256
from datamarket_gym.payout.checks.payees import CheckedPayee
from datamarket_gym.payout.settles import Settles

FILE = "checks/before.parquet"


@dataclass(frozen=True)
class StandingChecks:
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
    (run / FILE).parent.mkdir(exist_ok=True)
    with replacing(run / FILE) as part:
        part.write_bytes(content)


def read_standing(run: Path, settles: Settles | None) -> StandingChecks | None:
    """What stands of the draft that a run settles; None where it settles none."""
    import pyarrow.parquet as pq

    if settles is None:
        return None
    path = run / FILE
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
    return StandingChecks(draws, share, looks)
