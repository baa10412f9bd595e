"""Planning a run's checks as one types, entering the plan, and drawing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from datamarket_gym.core.progress import Progress
from datamarket_gym.core.screen import counted
from datamarket_gym.core.specs import Document
from datamarket_gym.payout.checks.draw import draw_checks
from datamarket_gym.payout.checks.plan import PlanSummary, Wishes, foreseen, make_plan
from datamarket_gym.payout.checks.words import plan_rows, to_publish
from datamarket_gym.payout.kept import places_of
from datamarket_gym.payout.manifest import read_manifest


class AskedPlan(Document):
    """What is typed; what is left out the run's own settings decide."""

    checks: int | None = Field(default=None, ge=1)
    gain: float | None = None
    power: float | None = None
    price: str = ""
    least: str = ""
    false_alarms: float = 0.0
    announce: str = ""

    @property
    def wishes(self) -> Wishes:
        """The same as the library takes it."""
        return Wishes(
            self.checks, self.gain, self.power, self.price.strip() or None, self.least.strip() or None,
            self.false_alarms, self.announce,
        )  # fmt: skip


def plan_preview(run: Path, asked: AskedPlan, *, progress: Progress) -> dict[str, Any]:
    """What a plan would come to; nothing is written."""
    progress.stage("working out what this plan leaves to gain")
    return _shown(run, foreseen(run, asked.wishes))


def plan_checks(run: Path, asked: AskedPlan, by: str, *, progress: Progress) -> dict[str, Any]:
    """Enter a plan."""
    progress.stage("entering the plan")
    return _shown(run, make_plan(run, asked.wishes, by))


def draw(run: Path, beacon: str, by: str, *, progress: Progress) -> dict[str, Any]:
    """Draw the units to look at, once."""
    progress.stage("drawing the units to look at")
    drawn = draw_checks(run, beacon, by, places_of(run))
    payees = len({each.payee for each in drawn.draws})
    return {"words": f"{counted(len(drawn.draws), 'check')} of {counted(payees, 'payee')} were drawn."}


def _shown(run: Path, found: PlanSummary) -> dict[str, Any]:
    told = []
    if found.below_price:
        told.append(
            f"{counted(found.below_price, 'payee is', 'payees are')} paid less than their checks cost; with a least "
            "payment they are neither checked nor paid, and can hand their units in again."
        )
    if not found.plan.announced:
        told.append(
            "No beacon is announced: payees then have only your word that it was not chosen. Write what it will be."
        )
    return {
        "payees": found.payees,
        "rows": plan_rows(found, read_manifest(run)["currency"]),
        "publish": to_publish(run, found.plan),
        "told": told,
    }
