"""A unit that was drawn, what it holds, and what it might be a copy of: as the page of checks has them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.files import sha256
from datamarket_gym.core.progress import Progress
from datamarket_gym.payout.checks.draw import ASKED, DrawnChecks, read_checks
from datamarket_gym.payout.checks.draw import FILE as CHECKS
from datamarket_gym.payout.checks.page import Beside, letter
from datamarket_gym.payout.kept import places_of
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.what_if import finished_results

_SIDE = 640  # pixels of a picture's longer side


def unit_shown(run: Path, number: int, *, progress: Progress) -> dict[str, Any]:
    """What is shown of one check: the unit, its nearest earlier others, and the letter to its payee."""
    progress.stage("reading the units, once for all checks")
    beside, drawn = _beside(run, sha256(run / MANIFEST), sha256(run / CHECKS))
    draw = next((each for each in drawn.draws if each.number == number), None)
    if draw is None:
        raise DataMarketError(f"there is no check {number}; there are 1 to {len(drawn.draws)}")
    labelled = beside.results.inputs.submission.labelled
    units = list(dict.fromkeys(visible(d.unit) for d in drawn.draws if d.payee == draw.payee))
    return {
        "content": beside.unit(draw.unit),
        "others": beside.others(draw.unit),
        "asked": ASKED,
        "letter": letter(visible(draw.payee), units, drawn.run, labelled),
        "labelled": labelled,
    }


@lru_cache(maxsize=2)
def _beside(run: Path, manifest: str, checks: str) -> tuple[Beside, DrawnChecks]:
    """All drawn units of a run beside their neighbours; the hashes say of which draw."""
    places, drawn = places_of(run), read_checks(run)
    _, results = finished_results(run, places)
    return Beside(results, places, drawn.draws, _SIDE), drawn
