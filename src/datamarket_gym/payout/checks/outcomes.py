"""What the checks found: outcomes.csv of whoever checked, kept in the run's folder and never written over.

A table with one row per look: ``number`` (or ``unit``), ``outcome`` (genuine, false or unanswered), and if wanted
``note`` and ``by``. Looks at one unit that find it genuine must be made by different people, who are named. Rows
without an outcome are looks that nobody has made yet. What is read is appended to
``checks/outcomes.json``; a second, different answer to a draw is refused unless it is meant as a correction, and
then both are kept: the last one counts.

Where nobody else can look (``one_look``), looks at a unit after the first are noted as not made, and the certificate
says that units were examined once.

check record: what was found, kept beside the run and noted in its ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from datamarket_gym.data.readers.tables import Table
from datamarket_gym.display import listed
from datamarket_gym.errors import DataMarketError, RunError, SubmissionError, UnknownNameError
from datamarket_gym.execution.files import claimed, read_json, remove_leftovers, sha256, write_json
from datamarket_gym.payout.checks import plan as entries
from datamarket_gym.payout.checks.draw import Draw, DrawnChecks, read_checks
from datamarket_gym.payout.names import from_csv, visible

OUTCOMES = ("genuine", "false", "unanswered")
"""Proof was given; it was found that the unit is not genuine; nothing came back."""
NOT_MADE = "not made"
"""What is kept of a look that nobody made after the first one at the unit."""
FOLDER = "checks"
FILE = "outcomes.json"
_FORMAT = 1
_LONGEST = 2000  # characters of a note
_NAMED = 5  # numbers in an error


@dataclass(frozen=True)
class CheckAnswer:
    """The outcome of one draw, what whoever checked wrote about it, and who that was."""

    number: int
    outcome: str
    note: str = ""
    by: str = ""


def read_outcomes(path: Path, drawn: DrawnChecks) -> list[CheckAnswer]:
    """The answers of a table, by number; refused as a whole where any row is wrong."""
    table = Table.open(path)
    names = {name.strip().lower(): name for name in table.names}
    if "number" not in names and "unit" not in names:
        raise SubmissionError(
            f"{table.where} has no column 'number' (or 'unit'); save the outcomes from checks.html, or name the "
            "columns number, outcome, note, by"
        )
    wanted: dict[str, str] = {
        role: names[role] for role in ("number", "unit", "note", "by") if role in names
    }
    wanted["outcome"] = table.require("outcome", names.get("outcome", "outcome"))
    cells = {role: column.optional() for role, column in _columns(table, wanted).items()}
    rows = len(cells["outcome"])
    by_number = {draw.number: draw.unit for draw in drawn.draws}
    by_unit = drawn.looks
    found: dict[int, CheckAnswer] = {}
    for row in range(rows):
        cell = {role: _text(column[row], role) for role, column in cells.items()}
        if not cell["outcome"]:
            continue
        where = f"{table.where}, row {row}"
        number = _number(cell, by_number, by_unit, where)
        if number in found:
            raise SubmissionError(f"{where}: number {number} is answered twice; keep one of the rows")
        found[number] = CheckAnswer(
            number, _word(cell["outcome"], where), _note(cell.get("note", ""), where), cell.get("by", "")
        )
    if not found:
        raise SubmissionError(
            f"{table.where} holds no outcomes; write {', '.join(OUTCOMES[:-1])} or {OUTCOMES[-1]} into the column "
            "'outcome' of at least one draw"
        )
    return [found[number] for number in sorted(found)]


def parse_answer(number: int, outcome: str, note: str = "", by: str = "") -> CheckAnswer:
    """One answer as somebody gave it, looked at as those of a table are."""
    where = f"the answer to check {number}"
    return CheckAnswer(number, _word(outcome.strip(), where), _note(note.strip(), where), by.strip())


def keep_outcomes(
    run: Path, answers: Sequence[CheckAnswer], correct: bool = False, one_look: bool = False
) -> list[CheckAnswer]:
    """Append answers to the run's history; those that are there already are left alone. Returns what was new.

    A different answer to a draw that has one is refused, and nothing is kept, unless ``correct`` says that it
    corrects the earlier one. Of units with ``one_look`` at them the other looks are noted as not made.
    """
    drawn = read_checks(run)
    unknown = {answer.number for answer in answers} - {draw.number for draw in drawn.draws}
    if unknown:
        raise SubmissionError(
            f"no draw of this run has the number {_listed(unknown)}; check the numbers"
        )
    (run / FOLDER).mkdir(exist_ok=True)
    with claimed(run / FOLDER, "record of outcomes"):
        remove_leftovers(run / FOLDER)
        history = _history(run, drawn)
        last = {answer.number: answer for answer in history}
        said = {answer.number: answer for answer in answers}
        if one_look:
            said |= _not_made(drawn, last | said)
        new = [answer for number, answer in sorted(said.items()) if last.get(number) != answer]
        _require_different_people(drawn, last | said)
        other = {a.number for a in new if a.number in last and last[a.number].outcome != NOT_MADE}
        if other and not correct:
            raise DataMarketError(
                f"number {_listed(other)} was answered differently before; look at both, and record again with "
                "--correct if the new answer is the right one (the old one stays in the history)"
            )
        if new:
            write_json(
                run / FOLDER / FILE,
                {
                    "format": _FORMAT,
                    "run": drawn.run,
                    "beacon": drawn.beacon,
                    "history": [asdict(answer) for answer in [*history, *new]],
                },
                sort=False,
            )
    return new


def answers_of(run: Path) -> dict[int, CheckAnswer]:
    """The answer that counts for each draw that has one."""
    return {answer.number: answer for answer in _history(run, read_checks(run))}


def outcome_of(draw: Draw, answers: Mapping[int, CheckAnswer]) -> str:
    """What was found of a draw; one that no answer came for is unanswered."""
    return answers[draw.number].outcome if draw.number in answers else "unanswered"


def examination_of(drawn: DrawnChecks, answers: Mapping[int, CheckAnswer]) -> Literal["anew", "once"]:
    """Whether each draw of a payee was a look of its own."""
    known = (answers.get(draw.number) for draw in drawn.draws)
    return "once" if any(a is not None and a.outcome == NOT_MADE for a in known) else "anew"


def _require_different_people(drawn: DrawnChecks, answers: Mapping[int, CheckAnswer]) -> None:
    """Refuse two looks by one person at a unit: the second tells nothing that the first did not."""
    for unit, numbers in drawn.looks.items():
        seen = {_person(by): "in an earlier draft" for by in drawn.before.get(unit, [])}
        count = len(numbers) + len(drawn.before.get(unit, []))
        for number in numbers if count > 1 else []:
            answer = answers.get(number)
            if answer is None or answer.outcome != "genuine":
                continue
            what = f"number {number} is one of {count} looks at unit {visible(unit)!r}"
            if not answer.by:
                raise SubmissionError(
                    f"{what}, which different people are to make; say who looked in the column 'by'"
                )
            person = _person(answer.by)
            if person in seen:
                raise SubmissionError(
                    f"{what}, and {visible(answer.by)!r} looked at it before ({seen[person]}); have somebody else "
                    "look who does not know the first answer, or record with --check-once: the look then counts as "
                    "not made, and the certificate says so"
                )
            seen[person] = f"number {number}"


def _not_made(drawn: DrawnChecks, answers: Mapping[int, CheckAnswer]) -> dict[int, CheckAnswer]:
    """Looks at units that the same person made, or nobody, after a first one. What was found to be false stays so."""
    found: dict[int, CheckAnswer] = {}
    for unit, numbers in drawn.looks.items():
        seen = {_person(by) for by in drawn.before.get(unit, [])}
        known = [answers.get(number, CheckAnswer(number, "")) for number in numbers]
        made = bool(seen) or any(answer.outcome == "false" for answer in known)
        for answer in sorted(known, key=lambda a: (a.outcome != "genuine", not a.by, a.number)):
            if answer.outcome not in ("", "genuine", NOT_MADE):
                continue
            if answer.outcome == "genuine" and (
                not made or (answer.by and _person(answer.by) not in seen)
            ):
                seen.add(_person(answer.by))
                made = True
            elif made:
                found[answer.number] = CheckAnswer(answer.number, NOT_MADE, answer.note)
    return found


def _person(name: str) -> str:
    """A name as it is compared: capitals and spaces make nobody somebody else."""
    return "".join(name.casefold().split())


def _columns(table: Table, wanted: dict[str, str]) -> dict[str, Any]:
    single, _ = table.read(list(wanted.values()))
    return {role: single[name] for role, name in wanted.items()}


def _text(cell: str | None, role: str) -> str:
    if cell is None:
        return ""
    return from_csv(cell if role == "unit" else cell.strip())  # spaces may be part of a unit's name


def _number(
    cell: dict[str, str], by_number: dict[int, str], by_unit: dict[str, list[int]], where: str
) -> int:
    """Which draw a row speaks of."""
    written, unit = cell.get("number", ""), cell.get("unit", "")
    if written:
        plain = written.removesuffix(".0")  # a spreadsheet's way with whole numbers
        number = int(plain) if plain.isascii() and plain.isdigit() and len(plain) < 10 else -1
        if number not in by_number:
            raise SubmissionError(
                f"{where}: no draw has the number {visible(written)!r}; the numbers are those of checks.csv, "
                f"{min(by_number, default=0)} to {max(by_number, default=0)}"
            )
        if unit and unit != by_number[number]:
            raise SubmissionError(
                f"{where}: number {number} is unit {visible(by_number[number])!r}, not {visible(unit)!r}; "
                "correct one of them, or leave the unit out"
            )
        return number
    if not unit:
        raise SubmissionError(f"{where} names no draw; fill in its number")
    if unit not in by_unit:
        raise SubmissionError(
            f"{where}: unit {visible(unit)!r} was not drawn; check the name, or give the number"
        )
    if len(by_unit[unit]) > 1:
        raise SubmissionError(
            f"{where}: unit {visible(unit)!r} is looked at {len(by_unit[unit])} times; give the number of the look, "
            f"one of {_listed(by_unit[unit])}"
        )
    return by_unit[unit][0]


def _word(written: str, where: str) -> str:
    word = written.casefold()
    if word not in OUTCOMES:
        raise UnknownNameError("outcome", visible(written), OUTCOMES, f"in {where}")
    return word


def _note(written: str, where: str) -> str:
    if len(written) > _LONGEST:
        raise SubmissionError(
            f"{where}: the note has {len(written):,} characters; keep it to {_LONGEST:,}"
        )
    return written


def _history(run: Path, drawn: DrawnChecks) -> list[CheckAnswer]:
    path = run / FOLDER / FILE
    if not path.exists():
        return []
    data = read_json(path)
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        raise RunError(f"{str(path)!r} is no record of outcomes of this version; restore it from a copy")
    if (data.get("run"), data.get("beacon")) != (drawn.run, drawn.beacon):
        raise RunError(
            f"{str(path)!r} holds the outcomes of another draw; move it away if that draw is no longer wanted"
        )
    try:
        return [CheckAnswer(**entry) for entry in data["history"]]
    except (KeyError, TypeError) as error:
        raise RunError(f"{str(path)!r} is damaged ({error}); restore it from a copy") from error


def _listed(numbers: set[int] | Sequence[int]) -> str:
    return listed(map(str, sorted(numbers)), _NAMED)


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
