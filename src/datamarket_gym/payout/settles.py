"""What a run settles: the earlier draft whose checks were answered, who failed them, and who is carried.

Part of a run's inputs: it decides who is paid, stands in the manifest, and is in the run's id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from datamarket_gym.core.specs import Document


class FoundUnit(Document):
    """A unit that is not genuine, as a check found."""

    unit: str
    identity: str
    payee: str
    note: str = ""


class StandingDraw(Document):
    """A draw of the earlier run, of a payee who passed."""

    payee: str
    unit: str


class MadeLook(Document):
    """A look at a unit in the earlier run, or in one before it, whose answer was: genuine."""

    unit: str
    by: str  # who looked; empty where that was not said


@dataclass(frozen=True)
class Unpaid:
    """Identities that are paid nothing now.

    What the units of the ``forfeited`` earn goes to the others; old balances of theirs stay as they are. What the
    ``carried`` are entitled to is their balance; the others are paid it in advance, and it is settled in the next run.
    """

    forfeited: frozenset[str] = frozenset()
    carried: frozenset[str] = frozenset()


class Settles(Document):
    """The earlier run, and what becomes of those in it."""

    run: str
    manifest: str  # sha256 of the earlier run's manifest
    beacon: str  # that its checks were drawn under
    checks: int  # of each payee
    power: float
    outcomes: str  # sha256 of its answers
    found: list[FoundUnit]  # taken out of the game
    forfeited: list[
        str
    ]  # identities whose payees failed: paid nothing, and their other units go on playing
    carried: list[
        str
    ]  # identities that are paid less than checks cost: not paid now, the amount is a balance
    draws: list[StandingDraw]
    looks: list[MadeLook]
    examined: Literal["anew", "once"]  # whether each draw of the earlier run was a look of its own
    fakes: int = 0  # planted among the checks, of this and of earlier drafts
    fakes_found: int = 0
    before: str  # sha256 of checks/before.parquet: what part of a payee's pay each unit was
    kept: int = 0  # minor units that were forfeited and not divided again, in this and earlier drafts

    @property
    def unpaid(self) -> Unpaid:
        """Who is paid nothing in this run."""
        return Unpaid(frozenset(self.forfeited), frozenset(self.carried))
