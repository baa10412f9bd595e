"""check record: what was found, kept beside the run and noted in its book."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from datamarket_gym.core.files import sha256
from datamarket_gym.payout.checks import entries
from datamarket_gym.payout.checks.draw import DrawnChecks, read_checks
from datamarket_gym.payout.checks.record import (
    FILE,
    FOLDER,
    NOT_MADE,
    CheckAnswer,
    answers_of,
    keep_outcomes,
    outcome_of,
    read_outcomes,
)

PATH = f"{FOLDER}/{FILE}"


@dataclass(frozen=True)
class RecordedAnswers:
    """What a table of outcomes added, and where that leaves the checks."""

    drawn: DrawnChecks
    new: list[CheckAnswer]
    known: dict[int, CheckAnswer]

    @property
    def not_made(self) -> int:
        """Looks that were noted as not made."""
        return self.count(NOT_MADE)

    def count(self, outcome: str) -> int:
        """Checks of an outcome."""
        return sum(outcome_of(draw, self.known) == outcome for draw in self.drawn.draws)


def record_answers(
    run: Path, outcomes: Path, correct: bool = False, by: str | None = None, one_look: bool = False
) -> RecordedAnswers:
    """Keep the answers of a table; what differs from earlier ones is refused unless it corrects them."""
    return record_given(run, read_outcomes(outcomes, read_checks(run)), correct, by, one_look)


def record_given(
    run: Path,
    answers: Sequence[CheckAnswer],
    correct: bool = False,
    by: str | None = None,
    one_look: bool = False,
) -> RecordedAnswers:
    """The same of answers that were given one by one (`given_answer`)."""
    drawn = read_checks(run)
    with entries.working_in(run):
        entries.require_open(run)
        new = keep_outcomes(run, answers, correct, one_look)
        entries.enter_answers(run, sha256(run / PATH), len(new), by)
    return RecordedAnswers(drawn, new, answers_of(run))
