"""The outcomes of checks; whether files, ledger and beacon agree on them, and what they certify.

A table of outcomes has one row per check: ``number`` (or ``unit``), ``outcome`` (genuine, false or unanswered), and if
wanted ``note`` and ``by``. Checks of one unit that find it genuine must be made by different people, who are named.
Rows without an outcome are checks that are not made yet. Answers are appended to ``checks/outcomes.json``; a second,
different answer to a draw is refused unless it is meant as a correction: then both stay, and the last counts.

With ``check_once``, checks of a unit after the first are noted as not made, and the certificate (certificate.json, what
the checks leave to be gained, by the power that the operator states) says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from datamarket_gym.analysis.theorems.deterrence import Checks, certified_checks
from datamarket_gym.analysis.theorems.leakage import Externality
from datamarket_gym.data.readers.tables import Table
from datamarket_gym.display import counted, listed
from datamarket_gym.errors import DataMarketError, RunError, SubmissionError, UnknownNameError
from datamarket_gym.execution.files import (
    claimed,
    json_text,
    make_folder,
    read_json,
    remove_leftovers,
    sha256,
    write_json,
    write_text,
)
from datamarket_gym.mechanism.pipeline import Mechanism
from datamarket_gym.payout.checks.draw import (
    CHECKS_FILE,
    LOCAL_SEED,
    Draw,
    DrawnChecks,
    checks_text,
    read_checks,
    recompute_draw,
)
from datamarket_gym.payout.checks.plan import (
    CARRIED_FILE,
    EARLIER_FILE,
    FOLDER,
    SettledDraft,
    carried_text,
    paid_payees,
    working_in,
)
from datamarket_gym.payout.ledger.entries import APPROVED, require_draft
from datamarket_gym.payout.ledger.runs import run_of, transaction_of
from datamarket_gym.payout.ledger.store import is_readable
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import Check, read_manifest, settled_by, spec_of
from datamarket_gym.payout.names import from_csv, visible

OUTCOMES = ("genuine", "false", "unanswered")  # unanswered: no proof was received
NOT_MADE = "not made"  # of a check after the first one of a unit, with ``check_once``
PATH = f"{FOLDER}/outcomes.json"
CERTIFICATE = "certificate.json"
_FORMAT = 1
_ROLES = ("number", "unit", "outcome", "note", "by")
_LONGEST = 2000  # characters of a note
_NAMED = 5  # numbers in an error


class RefusedAnswerError(SubmissionError):
    """One of several answers cannot be recorded: its ``number`` says which."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(why)
        self.number = number


@dataclass(frozen=True)
class CheckAnswer:
    number: int
    outcome: str
    note: str = ""
    by: str = ""


def read_outcomes(path: Path, drawn: DrawnChecks) -> list[CheckAnswer]:
    table = Table.open(path)
    names = {name.strip().lower(): name for name in table.names}
    if "number" not in names and "unit" not in names:
        raise SubmissionError(
            f"{table.where} has no column 'number' (or 'unit'); save the outcomes from checks.html, or name the "
            "columns number, outcome, note, by"
        )
    table.require("outcome", names.get("outcome", "outcome"))
    roles = {role: names[role] for role in _ROLES if role in names}
    columns, _ = table.read(list(roles.values()))
    cells = dict.fromkeys(_ROLES, [""] * len(columns[roles["outcome"]].data))
    for role, name in roles.items():  # spaces may be part of a unit's name
        texts = (text or "" for text in columns[name].optional())
        cells[role] = [from_csv(text if role == "unit" else text.strip()) for text in texts]
    answers: dict[int, CheckAnswer] = {}
    for row, (number_text, unit, outcome, note, by) in enumerate(zip(*cells.values(), strict=True)):
        if not outcome:
            continue
        where = f"{table.where}, row {row}"
        number = _number(number_text, unit, drawn, where)
        if number in answers:
            raise SubmissionError(f"{where}: number {number} is answered twice; keep one of the rows")
        answers[number] = parse_answer(number, outcome, note, by, where)
    if not answers:
        raise SubmissionError(
            f"{table.where} holds no outcomes; write {', '.join(OUTCOMES[:-1])} or {OUTCOMES[-1]} for at least one draw"
        )
    return [answers[number] for number in sorted(answers)]


def parse_answer(
    number: int, outcome: str, note: str = "", by: str = "", where: str = ""
) -> CheckAnswer:
    where, note = where or f"the answer to check {number}", note.strip()
    word = outcome.strip().casefold()
    if word not in OUTCOMES:
        raise UnknownNameError("outcome", visible(outcome), OUTCOMES, f"in {where}")
    if len(note) > _LONGEST:
        raise SubmissionError(f"{where}: the note has {len(note):,} characters; keep it to {_LONGEST:,}")
    return CheckAnswer(number, word, note, by.strip())


def keep_outcomes(
    run: Path, answers: Sequence[CheckAnswer], correct: bool = False, check_once: bool = False
) -> list[CheckAnswer]:
    """Append answers to the run's history, and return those that are new; refuse all if one needs ``correct``."""
    drawn = read_checks(run)
    unknown = {answer.number for answer in answers} - {draw.number for draw in drawn.draws}
    if unknown:
        raise SubmissionError(
            f"no draw of this run has the number {_listed(unknown)}; check the numbers"
        )
    make_folder(run / FOLDER)
    with claimed(run / FOLDER, "record of outcomes"):
        remove_leftovers(run / FOLDER)
        history = _history(run, drawn)
        last = {answer.number: answer for answer in history}
        added = {answer.number: answer for answer in answers}
        if check_once:
            added |= _not_made(drawn, last | added)
        new = [answer for number, answer in sorted(added.items()) if last.get(number) != answer]
        _require_different_people(drawn, last | added)
        other = {a.number for a in new if a.number in last and last[a.number].outcome != NOT_MADE}
        if other and not correct:
            raise DataMarketError(
                f"number {_listed(other)} was answered differently before; look at both, and record again with "
                "--correct if the new answer is the right one (the old one stays in the history)"
            )
        if new:
            content = {"format": _FORMAT, "run": drawn.run, "beacon": drawn.beacon}
            content["history"] = [asdict(answer) for answer in [*history, *new]]
            write_json(run / PATH, content, sort=False)
    return new


def answers_of(run: Path) -> dict[int, CheckAnswer]:
    return {answer.number: answer for answer in _history(run, read_checks(run))}


def outcome_of(draw: Draw, answers: Mapping[int, CheckAnswer]) -> str:
    return answers[draw.number].outcome if draw.number in answers else "unanswered"


def examination_of(drawn: DrawnChecks, answers: Mapping[int, CheckAnswer]) -> Literal["anew", "once"]:
    """Return ``anew`` if each draw of a payee was a check of its own."""
    return "once" if NOT_MADE in {outcome_of(draw, answers) for draw in drawn.draws} else "anew"


def _require_different_people(drawn: DrawnChecks, answers: Mapping[int, CheckAnswer]) -> None:
    """Refuse two checks of a unit by one person: the second shows nothing that the first did not."""
    for unit, numbers in drawn.check_numbers.items():
        earlier = drawn.before.get(unit, [])
        seen = {_person(by): "in an earlier draft" for by in earlier}
        count = len(numbers) + len(earlier)
        for number in numbers if count > 1 else []:
            answer = answers.get(number)
            if answer is None or answer.outcome != "genuine":
                continue
            what = f"number {number} is one of {count} checks of unit {visible(unit)!r}"
            if not answer.by:
                raise RefusedAnswerError(
                    number,
                    f"{what}, which different people are to make; say who checked in the column 'by'",
                )
            person = _person(answer.by)
            if person in seen:
                raise RefusedAnswerError(
                    number,
                    f"{what}, and {visible(answer.by)!r} checked it before ({seen[person]}); have another person check "
                    "it who does not know the first answer, or record with --check-once: it then counts as not made",
                )
            seen[person] = f"number {number}"


def _not_made(drawn: DrawnChecks, answers: Mapping[int, CheckAnswer]) -> dict[int, CheckAnswer]:
    """Find checks of units by the same person, or an unnamed one, after a first one; false ones stay."""
    repeated: dict[int, CheckAnswer] = {}
    for unit, numbers in drawn.check_numbers.items():
        seen = {_person(by) for by in drawn.before.get(unit, [])}
        of_unit = [answers.get(number, CheckAnswer(number, "")) for number in numbers]
        made = bool(seen) or any(answer.outcome == "false" for answer in of_unit)
        for answer in sorted(of_unit, key=lambda a: (a.outcome != "genuine", not a.by, a.number)):
            if answer.outcome not in ("", "genuine", NOT_MADE):
                continue
            if answer.outcome == "genuine" and (
                not made or (answer.by and _person(answer.by) not in seen)
            ):
                seen.add(_person(answer.by))
                made = True
            elif made:
                repeated[answer.number] = CheckAnswer(answer.number, NOT_MADE, answer.note)
    return repeated


def _person(name: str) -> str:
    """Return a name as it is compared: without capitals and spaces."""
    return "".join(name.casefold().split())


def _number(written: str, unit: str, drawn: DrawnChecks, where: str) -> int:
    """Find the number of the draw that a row names."""
    if written:
        unit_of = {draw.number: draw.unit for draw in drawn.draws}
        plain = written.removesuffix(".0")  # a spreadsheet's way with whole numbers
        number = int(plain) if plain.isascii() and plain.isdigit() and len(plain) < 10 else -1
        if number not in unit_of:
            raise SubmissionError(
                f"{where}: no draw has the number {visible(written)!r}; the numbers are those of checks.csv, "
                f"{min(unit_of, default=0)} to {max(unit_of, default=0)}"
            )
        if unit and unit != unit_of[number]:
            raise SubmissionError(
                f"{where}: number {number} is unit {visible(unit_of[number])!r}, not {visible(unit)!r}; "
                "correct one of them, or leave the unit out"
            )
        return number
    if not unit:
        raise SubmissionError(f"{where} names no draw; fill in its number")
    numbers, name = drawn.check_numbers.get(unit, []), visible(unit)
    if not numbers:
        raise SubmissionError(
            f"{where}: unit {name!r} was not drawn; check the name, or give the number"
        )
    if len(numbers) > 1:
        raise SubmissionError(
            f"{where}: unit {name!r} is checked {len(numbers)} times; give the number of the check, one of "
            f"{_listed(numbers)}"
        )
    return numbers[0]


def _history(run: Path, drawn: DrawnChecks) -> list[CheckAnswer]:
    path = run / PATH
    if not path.exists():
        return []
    data = read_json(path)
    try:
        if (data["format"], data["run"], data["beacon"]) == (_FORMAT, drawn.run, drawn.beacon):
            return [CheckAnswer(**entry) for entry in data["history"]]
    except (KeyError, TypeError) as error:
        raise RunError(f"{str(path)!r} is damaged ({error}); restore it from a copy") from error
    raise RunError(
        f"{str(path)!r} holds the outcomes of another draw or version; restore it from a copy, or move it away if that "
        "draw is no longer wanted"
    )


def _listed(numbers: set[int] | Sequence[int]) -> str:
    return listed(map(str, sorted(numbers)), _NAMED)


@dataclass(frozen=True)
class RecordedAnswers:
    drawn: DrawnChecks
    new: list[CheckAnswer]
    answers: dict[int, CheckAnswer]  # all of the run

    def count(self, outcome: str) -> int:
        return sum(outcome_of(draw, self.answers) == outcome for draw in self.drawn.draws)


def record_answers(
    run: Path,
    answers: Path | Sequence[CheckAnswer],
    correct: bool = False,
    by: str | None = None,
    check_once: bool = False,
) -> RecordedAnswers:
    """Record answers, or those of a table, and enter them into the ledger."""
    drawn = read_checks(run)
    if isinstance(answers, Path):
        answers = read_outcomes(answers, drawn)
    with working_in(run):
        require_draft(run_of(run), "given outcomes")
        new = keep_outcomes(run, answers, correct, check_once)
        digest = sha256(run / PATH)
        with transaction_of(run) as (transaction, record):
            recorded = [e.content["outcomes"] for e in record.history if e.kind == "answers"]
            if new or recorded[-1:] != [digest]:
                content = {"new": len(new), "outcomes": digest}
                transaction.add("answers", run=record.run, content=content, by=by)
    return RecordedAnswers(drawn, new, answers_of(run))


def certificate_text(run: Path) -> str:
    """Certify what the checks of a run leave to be gained, for payees who passed them."""
    manifest, record = read_manifest(run), run_of(run)
    settles, spec, payees = settled_by(manifest), spec_of(manifest), paid_payees(run, manifest)
    drawn = None if record.draw is None else read_checks(run)
    if drawn is not None:
        checks, examined = Checks(drawn.checks, drawn.power), examination_of(drawn, answers_of(run))
    elif settles is not None:  # no payee failed there, so that nothing was drawn here
        checks, examined = Checks(settles.checks, settles.power), settles.examined
    else:
        raise DataMarketError(f"no checks are drawn yet; run: datamarket check sample {run}")
    unit_gap = None
    if spec.forfeit == "unit":
        left = max(p.gap(checks, "unit", examined) for p in payees)
        unit_gap = left if settles is None else max(left, settles.gap)
    certificate = certified_checks(
        checks,
        payments=[p.paid / 10**spec.money.digits for p in payees],
        kappa=max(p.kappa for p in payees),
        largest_unit=max(p.largest_unit for p in payees),
        externality=Externality.by(Mechanism.model_validate(manifest["mechanism"]), spec.utility),
        carried_forward=len(settles.carried) if settles else 0,
        examined=examined,
        money=spec.currency,
        unit_gap=unit_gap,
    )
    words, announced = [certificate.words], was_announced(settles, drawn)
    if not announced:
        words.append(LOCAL_SEED)
    plans = [e.content["plan"] for e in record.history if e.kind == "planned"]
    if announced and len(plans) > 1:
        words.append(
            f"The plan, or what was announced, was changed {counted(len(plans) - 1, 'time')} before the draw."
        )
    return json_text(
        {**certificate.model_dump(mode="json"), "announced": announced, "words": " ".join(words)}
    )


def was_announced(settles: SettledDraft | None, drawn: DrawnChecks | None) -> bool:
    """Return whether every beacon so far was announced beforehand: that of a draw, and of the drafts before it."""
    now = drawn is None or bool(drawn.announced)
    return now and (settles is None or settles.announced)


def mark_checked(run: Path, detail: str, by: str | None) -> None:
    """Certify a run, and enter that it is checked; if it was before, only the file is written again."""
    write_text(run / CERTIFICATE, certificate_text(run))
    with transaction_of(run) as (transaction, record):
        if record.state not in ("checked", *APPROVED):
            content = {"detail": detail, "outcomes": outcomes_digest(run)}
            transaction.add("checked", run=record.run, content=content, by=by)


def verify_checks(run: Path) -> Iterator[Check]:
    """Compare the files of a run's checks with its ledger and each other, from the plan to the settlement."""
    settles, record, same = settled_by(read_manifest(run)), run_of(run), True
    if settles is not None:
        same = (run / EARLIER_FILE).is_file() and sha256(run / EARLIER_FILE) == settles.before
        again = "settle the earlier run again"
        yield Check(EARLIER_FILE, same, "as written" if same else f"missing or changed: {again}")
        if text := carried_text(run):
            yield _compare(run, CARRIED_FILE, lambda: text, again)
    if any(entry.kind == "checked" for entry in record.history):
        yield _compare(run, CERTIFICATE, lambda: certificate_text(run), "settle again")
    if record.draw is not None and same:  # the draw goes by the earlier one
        drawn = recompute_draw(run)
        text = checks_text(drawn)
        check = _compare(run, CHECKS_FILE, lambda: text, f"run datamarket check sample {run}")
        yield check
        if check.good:
            yield from _verify_answers(run, drawn)


def _compare(run: Path, name: str, compute: Callable[[], str], remedy: str) -> Check:
    """Compare a file with the text that the manifest and the ledger come to."""
    try:
        same = is_readable(run / name) and (run / name).read_bytes() == compute().encode()
    except DataMarketError as error:
        return Check(name, False, str(error))
    wrong = f"missing, or not what the manifest and the ledger come to: {remedy}"
    return Check(name, same, "as the manifest and the ledger say" if same else wrong)


def _verify_answers(run: Path, drawn: DrawnChecks) -> Iterator[Check]:
    """Compare the answers with the history, and the settlement with the answers."""
    record, digest = run_of(run), outcomes_digest(run)
    recorded = [entry.content["outcomes"] for entry in record.history if entry.kind == "answers"]
    if recorded or digest:
        same = bool(digest) and recorded[-1:] == [digest]
        wrong = "missing, or not what was recorded last: record the outcomes again"
        yield Check(PATH, same, f"recorded {len(recorded)} times" if same else wrong)
        if not same:
            return
    ended = [entry.content for entry in record.history if entry.kind in ("checked", "superseded")]
    if not ended:
        return
    answers = answers_of(run)
    false = any(outcome_of(draw, answers) == "false" for draw in drawn.draws)
    good = ended[-1]["outcomes"] == digest and not (false and record.state != "superseded")
    detail = ended[-1]["detail"] if good else "answers were changed after they were settled"
    yield Check("settlement", good, detail)
    later = Path(record.superseded[1]) if record.superseded is not None else run
    if later == run or not is_readable(later / MANIFEST):
        return
    ours, theirs = read_manifest(run), read_manifest(later)
    before, settles = settled_by(ours), settled_by(theirs)
    pot = ours["amount"] + (before.kept if before else 0)
    same = settles is not None and (
        settles.manifest, settles.outcomes, theirs["amount"] + settles.kept,
    ) == (sha256(run / MANIFEST), digest, pot)  # fmt: skip
    detail = str(later) if same else "it does not settle this run"
    yield Check("the run that took its place", same, detail)


def outcomes_digest(run: Path) -> str:
    path = run / PATH
    return sha256(path) if path.exists() else ""
