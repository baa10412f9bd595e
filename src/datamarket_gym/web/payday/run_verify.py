"""``datamarket verify`` for a page: every check, and whether it is good."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from datamarket_gym.core.progress import Progress
from datamarket_gym.payout.book.entry import BookError
from datamarket_gym.payout.book.place import run_of
from datamarket_gym.payout.verify import verify
from datamarket_gym.web.payday.run_inputs import MovedInputs, inputs_on_show, require_log_on_show
from datamarket_gym.web.places import NamedPlaces


def verified(on_show: NamedPlaces, folder: Path, progress: Progress) -> dict[str, Any]:
    """The files of a run against each other and against the book."""
    with suppress(BookError):  # which is told below
        require_log_on_show(on_show, run_of(folder))
    progress.stage("reading the files and the book")
    return _told([check._asdict() for check in verify(folder, progress=progress)], recomputed=False)


def recomputed(
    on_show: NamedPlaces, folder: Path, moved: MovedInputs, progress: Progress
) -> dict[str, Any]:
    """The same, and everything worked out again from the inputs, to the byte."""
    inputs_on_show(on_show, folder, moved)
    checks = verify(
        folder,
        True,
        moved.path("submissions"),
        moved.path("validation"),
        progress,
        moved.path("reference"),
    )
    return _told([check._asdict() for check in checks], recomputed=True)


def _told(checks: list[dict[str, Any]], recomputed: bool) -> dict[str, Any]:
    return {"checks": checks, "good": all(check["good"] for check in checks), "recomputed": recomputed}
