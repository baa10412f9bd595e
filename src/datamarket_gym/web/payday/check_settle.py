"""Settling a run's checks: what it would mean, and doing it."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import ParameterError
from datamarket_gym.core.files import read_json
from datamarket_gym.core.progress import Progress
from datamarket_gym.payout.book.place import run_of
from datamarket_gym.payout.checks.certificate import FILE as CERTIFICATE
from datamarket_gym.payout.checks.foreseen import settling
from datamarket_gym.payout.checks.settle import settle
from datamarket_gym.payout.checks.words import failed_words

_NAME = re.compile(r"[^\W_][\w .-]{0,99}")


def settle_preview(
    run: Path, unanswered_false: int, keep_forfeited: int, *, progress: Progress
) -> dict[str, Any]:
    """What settling would come to, and the name that a new draft would have; nothing is written."""
    progress.stage("seeing who failed")
    found = settling(run, bool(unanswered_false), bool(keep_forfeited))
    return {**asdict(found), "name": _free_name(run)}


def settle_run(
    run: Path,
    name: str,
    unanswered_false: int,
    keep_forfeited: int,
    by: str,
    *,
    progress: Progress,
) -> dict[str, Any]:
    """Settle; a new draft is paid into a folder beside the run's."""
    found = settle(
        run, _beside(run, name) if name else None, by,
        unanswered_false=bool(unanswered_false), keep_forfeited=bool(keep_forfeited), progress=progress,
    )  # fmt: skip
    return {
        "checked": found.checked,
        "new": found.run.name if found.run != run else "",
        "words": failed_words(found),
        "certificate": str(read_json(found.run / CERTIFICATE)["words"]) if found.checked else "",
    }


def _free_name(run: Path) -> str:
    """The folder that the run was settled into before, else one that is not there yet."""
    later = run_of(run).superseded
    if later is not None:
        return Path(later[1]).name
    count = 2
    while (run.parent / f"{run.name}-{count}").exists():
        count += 1
    return f"{run.name}-{count}"


def _beside(run: Path, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise ParameterError(
            "name of the new draft",
            name,
            "write a plain name of a folder: letters, digits, spaces, - and .",
        )
    return run.parent / name
