"""What the ledger keeps of a run's checks: the plan, which may change until there is a beacon; the beacon, once; what
was answered; and whether everybody passed, or another draft took the place of the run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.files import claimed, remove_leftovers
from datamarket_gym.payout.ledger_file import (
    APPROVED,
    NAME,
    DrawRecord,
    checking_of,
    draw_of,
    note,
    opened,
    require_draft,
    required,
    seal_of,
    superseded_of,
    transaction,
)


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Keep other processes out of a run's folder, and take away what one that was killed was still writing."""
    with claimed(folder, "check"):
        remove_leftovers(folder)
        yield


def enter_plan(folder: Path, plan: str, announced: str, by: str | None = None) -> None:
    """Enter how checks will be drawn; it takes the place of an earlier plan, unless that was drawn by."""
    with opened(folder / NAME) as connection, transaction(connection):
        record = required(connection, folder)
        if (before := draw_of(connection)) is not None:
            raise DataMarketError(
                f"checks of this run were drawn already (beacon {before.beacon!r}); a plan cannot change after that"
            )
        require_draft(record, "planned")
        known = checking_of(connection)
        if known is None:
            raise DataMarketError(
                f"{str(folder)!r} was made by a version that knew of no checks; pay again into another folder"
            )
        if known == (record.checks, plan, None):
            return
        connection.execute("UPDATE checking SET plan = ? WHERE run = ?", (plan, record.run))
        digest = hashlib.sha256(plan.encode()).hexdigest()
        said = f"the beacon will be: {announced}" if announced else "no beacon was announced"
        note(connection, record.run, "planned", by, f"{said}; plan {digest}")


def enter_beacon(folder: Path, beacon: str, by: str | None = None) -> DrawRecord:
    """Enter the beacon that checks are drawn under, once; the same again changes nothing, another is refused."""
    with opened(folder / NAME) as connection, transaction(connection):
        record = required(connection, folder)
        if (before := draw_of(connection)) is not None:
            if before.beacon != beacon:
                raise DataMarketError(
                    f"checks of this run were drawn under the beacon {before.beacon!r}; nobody may draw again until "
                    "the result pleases"
                )
            return before
        require_draft(record, "drawn")
        plan = (checking_of(connection) or (0, None, None))[1]
        if plan is None:
            raise DataMarketError(
                f"there is no plan to draw by; run datamarket check plan {folder}, with --announce and what the "
                "beacon will be"
            )
        connection.execute("UPDATE checking SET beacon = ? WHERE run = ?", (beacon, record.run))
        note(connection, record.run, "drawn", by, f"beacon {beacon}")
        return DrawRecord(plan, beacon)


def enter_seal(folder: Path, seal: str, by: str | None = None) -> None:
    """Enter the hash of the list of planted fakes, once; another is refused."""
    with opened(folder / NAME) as connection, transaction(connection):
        record = required(connection, folder)
        known = seal_of(connection)
        if known not in (None, seal):
            raise DataMarketError(
                "the list of planted fakes is not the one that was sealed when the checks were drawn; restore it"
            )
        if known is None:
            require_draft(record, "drawn")
            note(connection, record.run, "planted", by, seal)


def require_open(folder: Path) -> None:
    """Refuse answers to the checks of a run that was settled."""
    with opened(folder / NAME) as connection:
        require_draft(required(connection, folder), "answered")


def enter_answers(folder: Path, digest: str, new: int, by: str | None = None) -> None:
    """Enter that answers were recorded: how many, and the hash of the file that holds all of them."""
    with opened(folder / NAME) as connection, transaction(connection):
        record = required(connection, folder)
        require_draft(record, "answered")
        last = "SELECT detail FROM history WHERE event = 'answers' ORDER BY entry DESC LIMIT 1"
        if new == 0 and (known := connection.execute(last).fetchone()) and known[0].endswith(digest):
            return
        note(connection, record.run, "answers", by, f"{new} new; outcomes {digest}")


def mark_checked(folder: Path, detail: str, by: str | None = None) -> bool:
    """A draft whose checks everybody passed is checked; False where it was so before."""
    with opened(folder / NAME) as connection, transaction(connection):
        record = required(connection, folder)
        if record.state in ("checked", *APPROVED):
            return False
        require_draft(record, "checked")
        note(connection, record.run, "checked", by, detail)
        connection.execute("UPDATE runs SET state = 'checked' WHERE run = ?", (record.run,))
    return True


def supersede(
    folder: Path, by_run: str, place: Path, why: str, answers: str, by: str | None = None
) -> bool:
    """Another draft, in the folder ``place``, takes the place of this one; False where it did so before."""
    with opened(folder / NAME) as connection, transaction(connection):
        record = required(connection, folder)
        if record.state == "superseded":
            return False
        require_draft(record, "superseded")
        connection.execute(
            "INSERT INTO superseded VALUES (?, ?, ?)", (record.run, by_run, str(place.resolve()))
        )
        connection.execute("UPDATE runs SET state = 'superseded' WHERE run = ?", (record.run,))
        note(connection, record.run, "superseded", by, f"{why}; by run {by_run}; {answers}")
    return True


def read_plan(folder: Path) -> str | None:
    """The plan of a run's checks, as it was entered; None where there is none."""
    with opened(folder / NAME) as connection:
        return (checking_of(connection) or (0, None, None))[1]


def read_draw(folder: Path) -> DrawRecord | None:
    """The plan and the beacon of a run's checks; None where none were drawn."""
    with opened(folder / NAME) as connection:
        return draw_of(connection)


def read_seal(folder: Path) -> str | None:
    """The hash of the list of planted fakes, as it was entered."""
    with opened(folder / NAME) as connection:
        return seal_of(connection)


def read_superseded(folder: Path) -> tuple[str, Path] | None:
    """The run that took a run's place, and its folder then; None where none did."""
    with opened(folder / NAME) as connection:
        return superseded_of(connection)
