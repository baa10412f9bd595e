"""Recording what checks found, from one or several browsers: nothing is lost, and nothing written over unseen."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from datamarket_gym.core.errors import DataMarketError, SubmissionError
from datamarket_gym.core.files import TakenError, waiting_for
from datamarket_gym.core.progress import Progress
from datamarket_gym.core.screen import counted
from datamarket_gym.core.specs import Document
from datamarket_gym.payout.checks.answers import record_answers, record_given
from datamarket_gym.payout.checks.draw import read_checks
from datamarket_gym.payout.checks.record import NOT_MADE, CheckAnswer, answers_of, given_answer
from datamarket_gym.payout.names import visible
from datamarket_gym.web.payday.check_state import shown_answers

_LOCK = ".answers.lock"  # of answers that come over the web: they wait for each other
_WAIT = 20.0  # seconds
Result = TypeVar("Result")


class SeenAnswer(Document):
    """The answer that stood on the page when another was given."""

    outcome: str
    note: str = ""
    by: str = ""


class GivenAnswer(Document):
    """One answer, and what was there before it as far as its giver saw."""

    number: int
    outcome: str
    note: str = ""
    by: str
    seen: SeenAnswer | None = None


def record(
    run: Path, answers: tuple[GivenAnswer, ...], by: str, one_look: bool, *, progress: Progress
) -> dict[str, Any]:
    """Record those that can be; each of the others is told why not."""
    progress.stage("recording the answers")
    refused: dict[int, str] = {}
    new = 0
    with waiting_for(run / _LOCK, _WAIT, "answers"):
        known, fresh, corrected = answers_of(run), [], []
        for each in answers:
            try:
                said = given_answer(each.number, each.outcome, each.note, each.by)
            except DataMarketError as error:
                refused[each.number] = str(error)
                continue
            before = known.get(each.number)
            if before is None or before == said or before.outcome == NOT_MADE:
                fresh.append(said)
            elif _seen(each, before):
                corrected.append(said)
            else:
                refused[each.number] = (
                    f"{visible(before.by) or 'somebody'} answered this check meanwhile. Look at both, and answer again "
                    "if yours is the right one: it then corrects the other, and both stay in the history."
                )
        for some, correct in ((fresh, False), (corrected, True)):
            new += _kept(run, some, correct, by, one_look, refused)
    drawn = read_checks(run)
    return {
        "new": new,
        "refused": {str(number): why for number, why in refused.items()},
        "answers": shown_answers(drawn, answers_of(run), by),
    }


def record_table(
    run: Path, table: Path, name: str, correct: int, by: str, *, progress: Progress
) -> dict[str, Any]:
    """Record the answers of a table, all of them or none, as ``datamarket check record`` does."""
    progress.stage("reading and recording the answers")
    try:
        with waiting_for(run / _LOCK, _WAIT, "answers"):
            found = patiently(lambda: record_answers(run, table, bool(correct), by))
    except DataMarketError as error:
        raise DataMarketError(str(error).replace(str(table), name)) from error
    return {
        "words": f"{counted(len(found.new), 'new answer')} of {counted(len(found.drawn.draws), 'check')}."
    }


def patiently(work: Callable[[], Result]) -> Result:
    """Do it once nobody else is at work in the run's folder."""
    until = time.monotonic() + _WAIT
    while True:
        try:
            return work()
        except TakenError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def _seen(given: GivenAnswer, before: CheckAnswer) -> bool:
    """Whether its giver saw the answer that is there, or that there is one whose outcome is not told."""
    seen = given.seen
    if seen is None or seen.by != before.by:
        return False
    return seen.outcome == "answered" or (seen.outcome, seen.note) == (before.outcome, before.note)


def _kept(
    run: Path,
    answers: list[CheckAnswer],
    correct: bool,
    by: str,
    one_look: bool,
    refused: dict[int, str],
) -> int:
    """Record answers together, or one by one where some cannot be; how many are new."""
    if not answers:
        return 0

    def kept(some: list[CheckAnswer]) -> int:
        return len(patiently(lambda: record_given(run, some, correct, by, one_look)).new)

    try:
        return kept(answers)
    except SubmissionError as error:
        if len(answers) == 1:
            refused[answers[0].number] = str(error)
            return 0
    return sum(_kept(run, [each], correct, by, one_look, refused) for each in answers)
