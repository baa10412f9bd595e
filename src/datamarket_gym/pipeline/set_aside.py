"""Before the stages, set aside: units that are validation rows, or nearly (`evidence.leak`).

They earn nothing and have no say: neither the threshold nor the evidence nor the scores of others see them, so
what everybody else is paid is what they would be paid had those units not been submitted, to the bit.
Whoever submitted them is still listed among those who are paid, with 0 for these units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from datamarket_gym.core.errors import LeakError
from datamarket_gym.core.screen import counted
from datamarket_gym.evidence.graph import Clusters
from datamarket_gym.evidence.leak import HeldRows, Leaks, find_leaks
from datamarket_gym.learners.distinct import among
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.pipeline.compare import compared
from datamarket_gym.units.submission import Submission

REMEDY = (
    "Validation rows decide what data are worth, so somebody may know them: take new ones if they leaked, or remove "
    "those that others come by honestly, such as boilerplate that many units repeat"
)


LeakCheck = Literal["off", "drop", "error"]


def found_leaks(leak_check: LeakCheck, submission: Submission, utility: UtilityOracle) -> Leaks:
    """The units that are validation rows; an error where there must be none."""
    if leak_check == "off":
        return Leaks.none()
    seen, judging = compared(submission, utility)
    leaks = find_leaks(seen, HeldRows(judging.features, judging.embedding))
    require_playable(leak_check, leaks, len(submission))
    return replace(leaks, units=submission.take(leaks.unit)) if len(leaks) else leaks


def bought_rows(leak_check: LeakCheck, utility: UtilityOracle) -> str:
    """What a person should know of validation rows that were bought before, number for number; blank where none was.

    They are covered for good: nobody is paid for them, and who covers the other rows takes all.
    """
    if leak_check == "off" or utility.prior is None:
        return ""
    bought = np.flatnonzero(among(utility.features, utility.prior.features))
    if not len(bought):
        return ""
    words = (
        f"{len(bought):,} of the {counted(len(utility.label), 'validation row')} were bought in an earlier period, the "
        f"first being row {bought[0]}, so nobody is paid for what is like them; take rows that nobody has sold"
    )
    if leak_check == "error":
        raise LeakError(words)
    return words


def require_playable(
    leak_check: LeakCheck, leaks: Leaks, units: int, shown: Callable[[str], str] = str
) -> None:
    """Refuse leaks where they are errors, and a submission that is nothing but leaks."""
    if not len(leaks):
        return
    if leak_check == "error":
        raise LeakError(f"{leaks.words(shown)}. {REMEDY}; with the leak check 'drop' they are set aside")
    if len(leaks) == units:
        raise LeakError(
            f"every unit equals a validation row, or nearly, so nothing is left to pay for: {leaks.words(shown)}. "
            "Check that the submissions and the validation rows are not the same data"
        )


def told(leaks: Leaks, shown: Callable[[str], str] = str) -> str:
    """What a person should know of leaks that were set aside."""
    return f"{leaks.words(shown)}; they are set aside and earn nothing. {REMEDY}"


def without_leaks(clusters: Clusters, playing: Submission, leaks: Leaks) -> Clusters:
    """Clusters of a whole submission as clusters of the units that play."""
    rest = leaks.others(len(clusters.label))
    place = np.full(len(clusters.label), -1, dtype=np.int64)
    place[rest] = np.arange(len(rest))
    edges = clusters.edges
    edges = edges.where((place[edges.left] >= 0) & (place[edges.right] >= 0))
    edges = replace(edges, left=place[edges.left], right=place[edges.right])
    label = np.unique(clusters.label[rest], return_inverse=True)[1].astype(np.int64)
    return Clusters(label, edges, clusters.granularity, playing, clusters.lot)
