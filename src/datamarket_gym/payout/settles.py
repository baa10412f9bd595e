"""What a run settles: the earlier draft whose checks were answered, who failed them, and who was not checked.

Part of a run's inputs: it decides who is paid, stands in the manifest, and is in the run's id.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

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


class Settles(Document):
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
    draws: list[StandingDraw]
    looks: list[MadeLook]
    examined: Literal["anew", "once"]  # whether each draw of the earlier run was a look of its own
    before: str  # sha256 of checks/before.parquet: what part of a payee's pay each unit was
    kept: int = 0  # minor units that were not divided again, in this and earlier drafts

    @property
    def unpaid(self) -> frozenset[str]:
        """Who is paid nothing in this run: what their units earn goes to the others, old balances stay as they are."""
        return frozenset((*self.forfeited, *self.carried))
