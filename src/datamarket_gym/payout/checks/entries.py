"""What the book keeps of a run's checks: the plan, which may change until there is a beacon; the beacon, once; what
was answered; and whether everybody passed, or another draft took the place of the run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.files import claimed, remove_leftovers
from datamarket_gym.payout.book.place import page_of, run_of
from datamarket_gym.payout.book.run_record import APPROVED, DrawRecord, require_draft


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Keep other processes out of a run's folder, and take away what one that was killed was still writing."""
    with claimed(folder, "check"):
        remove_leftovers(folder)
        yield


def enter_plan(folder: Path, plan: str, announced: str, by: str | None = None) -> None:
    """Enter how checks will be drawn; it takes the place of an earlier plan, unless that was drawn by."""
    with page_of(folder) as (page, record):
        if record.draw is not None:
            raise DataMarketError(
                f"checks of this run were drawn already (beacon {record.draw.beacon!r}); a plan cannot change after "
                "that"
            )
        require_draft(record, "planned")
        if record.plan == plan:
            return
        digest = hashlib.sha256(plan.encode()).hexdigest()
        said = f"the beacon will be: {announced}" if announced else "no beacon was announced"
        content = {"plan": plan, "detail": f"{said}; plan {digest}"}
        page.add("planned", run=record.run, content=content, by=by)


def enter_beacon(folder: Path, beacon: str, by: str | None = None) -> DrawRecord:
    """Enter the beacon under which checks are drawn, once; another is refused. Returns what they are drawn by."""
    with page_of(folder) as (page, record):
        if record.draw is not None:
            if record.draw.beacon != beacon:
                raise DataMarketError(
                    f"checks of this run were drawn under the beacon {record.draw.beacon!r}; nobody may draw again "
                    "until the result pleases"
                )
            return record.draw
        require_draft(record, "drawn")
        if record.plan is None:
            raise DataMarketError(
                f"there is no plan to draw by; run datamarket check plan {folder}, with --announce and what the "
                "beacon will be"
            )
        page.add("drawn", run=record.run, content={"beacon": beacon}, by=by)
        return DrawRecord(record.plan, beacon)


def require_open(folder: Path) -> None:
    """Refuse answers to the checks of a run that was settled."""
    require_draft(run_of(folder), "answered")


def enter_answers(folder: Path, digest: str, new: int, by: str | None = None) -> None:
    """Enter that answers were recorded: how many, and the hash of the file that holds all of them."""
    with page_of(folder) as (page, record):
        require_draft(record, "answered")
        told = [e.content["outcomes"] for e in record.history if e.kind == "answers"]
        if new or told[-1:] != [digest]:
            page.add("answers", run=record.run, content={"new": new, "outcomes": digest}, by=by)


def mark_checked(folder: Path, detail: str, answers: str, by: str | None = None) -> bool:
    """A draft whose checks everybody passed is checked; False where it was so before."""
    with page_of(folder) as (page, record):
        if record.state in ("checked", *APPROVED):
            return False
        require_draft(record, "checked")
        page.add("checked", run=record.run, content={"detail": detail, "outcomes": answers}, by=by)
    return True


def supersede(
    folder: Path,
    by_run: str,
    place: Path,
    why: str,
    answers: str,
    by: str | None = None,
    *,
    forfeited: Sequence[str] = (),
    unchecked: Sequence[str] = (),
) -> bool:
    """Another draft, in the folder ``place``, takes the place of this one; False where it did so before.

    ``forfeited`` are the identities that failed, ``unchecked`` those that would earn less than their checks cost.
    """
    with page_of(folder) as (page, record):
        if record.state == "superseded":
            return False
        require_draft(record, "superseded")
        content = {
            "by_run": by_run, "place": str(place.resolve()), "detail": why, "outcomes": answers,
            "forfeited": list(forfeited), "unchecked": list(unchecked),
        }  # fmt: skip
        page.add("superseded", run=record.run, content=content, by=by)
    return True


def read_plan(folder: Path) -> str | None:
    """The plan of a run's checks, as it was entered; None where there is none."""
    return run_of(folder).plan


def read_draw(folder: Path) -> DrawRecord | None:
    """The plan and the beacon of a run's checks; None where none were drawn."""
    return run_of(folder).draw


def read_superseded(folder: Path) -> tuple[str, Path] | None:
    """The run that took a run's place, and its folder then; None where none did."""
    later = run_of(folder).superseded
    return None if later is None else (later[0], Path(later[1]))
