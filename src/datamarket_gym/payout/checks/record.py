"""What the checks found: outcomes.csv of whoever checked, kept in the run's folder and never written over.

A table with one row per draw: ``number`` (or ``unit``), ``outcome`` (genuine, false or unanswered), and if wanted
``note`` and ``by``. Rows without an outcome are draws that nobody has answered yet. What is read is appended to
``checks/outcomes.json``; a second, different answer to a draw is refused unless it is meant as a correction, and
then both are kept: the last one counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import DataMarketError, RunError, SubmissionError, UnknownNameError
from datamarket_gym.core.files import claimed, read_json, remove_leftovers, write_json
from datamarket_gym.payout.checks.draw import DrawnChecks, read_checks
from datamarket_gym.payout.names import from_csv, visible
from datamarket_gym.units.tables import Table

OUTCOMES = ("genuine", "false", "unanswered")
"""Proof was given; it was found that the unit is not genuine; nothing came back."""
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
    by_unit = {draw.unit: draw.number for draw in drawn.draws}
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


def keep_outcomes(run: Path, answers: Sequence[CheckAnswer], correct: bool = False) -> list[CheckAnswer]:
    """Append answers to the run's history; those that are there already are left alone. Returns what was new.

    A different answer to a draw that has one is refused, and nothing is kept, unless ``correct`` says that it
    corrects the earlier one.
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
        new = [answer for answer in answers if last.get(answer.number) != answer]
        other = {answer.number for answer in new} & last.keys()
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


def ever_answered(run: Path, outcome: str) -> frozenset[int]:
    """The draws that were answered so at any time, corrected or not."""
    history = _history(run, read_checks(run))
    return frozenset(answer.number for answer in history if answer.outcome == outcome)


def _columns(table: Table, wanted: dict[str, str]) -> dict[str, Any]:
    single, _ = table.read(list(wanted.values()))
    return {role: single[name] for role, name in wanted.items()}


def _text(cell: str | None, role: str) -> str:
    if cell is None:
        return ""
    return from_csv(cell if role == "unit" else cell.strip())  # spaces may be part of a unit's name


def _number(cell: dict[str, str], by_number: dict[int, str], by_unit: dict[str, int], where: str) -> int:
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
    return by_unit[unit]


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
    shown = sorted(numbers)
    more = f" and {len(shown) - _NAMED} more" if len(shown) > _NAMED else ""
    return ", ".join(map(str, shown[:_NAMED])) + more
