"""Outcomes of checks: what is read, what is refused, and that answers are only ever added."""

import json
import os
import signal

import pytest

from datamarket_gym.errors import DataMarketError, RunError, SubmissionError, UnknownNameError
from datamarket_gym.execution.files import claimed
from datamarket_gym.payout.checks import outcomes as record
from datamarket_gym.payout.checks.draw import Draw, DrawnChecks
from datamarket_gym.payout.checks.outcomes import (
    NOT_MADE,
    CheckAnswer,
    answers_of,
    examination_of,
    keep_outcomes,
    read_outcomes,
)
from excel_files import write_book

UNITS = ["u1", "u2", "u3", "=1+1", " spaced ", "<script>"]
DRAWN = DrawnChecks(
    "run of the tests", "a beacon", 3, 0.8,
    [Draw(i, "anna" if i < 4 else "ben", "anna", unit, i, 1.0, 0.5) for i, unit in enumerate(UNITS, 1)],
)  # fmt: skip


def read(tmp_path, text, name="outcomes.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_outcomes(path, DRAWN)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "read_checks", lambda run: DRAWN)
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


def test_answers_are_read_by_number_in_order(tmp_path):
    found = read(
        tmp_path,
        'number,outcome,note,by\n3,genuine,,R. Okafor\n1,False," a note, with a comma ",R. Okafor\n2,,,\n',
    )
    assert found == [
        CheckAnswer(1, "false", "a note, with a comma", "R. Okafor"),
        CheckAnswer(3, "genuine", "", "R. Okafor"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbfnumber;outcome\r\n1;genuine\r\n",  # as spreadsheets of half of Europe write it
        b"Number,OUTCOME \n1.0,Genuine\n",
        b"unit,outcome\nu1,genuine\n",
        b"number,unit,outcome\n1,u1,genuine\n",
        b"number\toutcome\n1\tgenuine\n",
    ],
)
def test_ways_of_writing_the_same(tmp_path, text):
    assert read(tmp_path, text) == [CheckAnswer(1, "genuine")]


def test_names_and_notes_come_back_from_what_spreadsheets_are_kept_from(tmp_path):
    found = read(
        tmp_path, "unit,outcome,note\n'=1+1,false,'=2+2\n spaced ,genuine,\n<script>,unanswered,\n"
    )
    assert found == [
        CheckAnswer(4, "false", "=2+2"),
        CheckAnswer(5, "genuine"),
        CheckAnswer(6, "unanswered"),
    ]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "is empty"),
        ("number,outcome\n", "no rows"),
        ("number,outcome\n1,\n2,\n", "holds no outcomes; write genuine, false or unanswered"),
        ("name,outcome\nanna,genuine\n", "no column 'number'"),
        ("number,result\n1,genuine\n", "no column 'outcome'"),
        ("number,outcome\n7,genuine\n", "no draw has the number '7'; .* 1 to 6"),
        ("number,outcome\n-1,genuine\n", "no draw has the number '-1'"),
        ("number,outcome\n1e0,genuine\n", "no draw has the number '1e0'"),
        (f"number,outcome\n{'9' * 5000},genuine\n", "no draw has the number"),
        ("number,outcome\n٣,genuine\n", "no draw has the number"),
        ("number,outcome\n1,genuine\n1,false\n", "row 1: number 1 is answered twice"),
        ("number,unit,outcome\n1,,genuine\n,u1,genuine\n", "number 1 is answered twice"),
        ("number,unit,outcome\n1,u2,genuine\n", "number 1 is unit 'u1', not 'u2'"),
        ("number,unit,outcome\n,,genuine\n", "names no draw"),
        ("unit,outcome\nu9,genuine\n", "'u9' was not drawn"),
        (f"number,outcome,note\n1,genuine,{'x' * 3000}\n", "3,000 characters"),
        (b"number,outcome,note\n1,genuine,\xff\n", "UTF-8"),
        ("number,outcome,note\n1,genuine\n", "has 2 cells where the header has 3"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path, text, error):
    with pytest.raises(SubmissionError, match=error):
        read(tmp_path, text)


def test_an_unknown_outcome_says_which_there_are(tmp_path):
    with pytest.raises(UnknownNameError, match=r"unknown outcome 'genuin'; did you mean genuine.*row 0"):
        read(tmp_path, "number,outcome\n1,genuin\n")
    with pytest.raises(UnknownNameError, match="known: false, genuine, unanswered"):
        read(tmp_path, "number,outcome\n1,ok\n")
    with pytest.raises(SubmissionError, match=r"unknown ending '\.ods'"):
        read(tmp_path, "number,outcome\n", name="outcomes.ods")


def test_outcomes_of_a_sheet_in_which_false_became_a_truth_value(tmp_path):
    rows = [["number", "outcome", "by"], [1, False, "ro"], [3.0, "genuine", "ro"], [2, None, None]]
    path = write_book(tmp_path / "outcomes.xlsx", Checks=rows)
    assert read_outcomes(path, DRAWN) == [
        CheckAnswer(1, "false", "", "ro"),
        CheckAnswer(3, "genuine", "", "ro"),
    ]


def test_answers_add_up_and_saying_it_again_changes_nothing(run):
    assert answers_of(run) == {}
    first, second = CheckAnswer(1, "genuine", "", "ro"), CheckAnswer(2, "false", "a copy", "ro")
    assert keep_outcomes(run, [first]) == [first]
    kept = (run / "checks" / "outcomes.json").read_bytes()
    assert keep_outcomes(run, [first]) == []
    assert (run / "checks" / "outcomes.json").read_bytes() == kept
    assert keep_outcomes(run, [first, second]) == [second]
    assert answers_of(run) == {1: first, 2: second}


def test_another_answer_is_refused_unless_it_is_a_correction(run):
    keep_outcomes(run, [CheckAnswer(1, "genuine")])
    with pytest.raises(DataMarketError, match=r"number 1 was answered differently.*--correct"):
        keep_outcomes(run, [CheckAnswer(1, "false"), CheckAnswer(2, "genuine")])
    assert answers_of(run) == {1: CheckAnswer(1, "genuine")}  # nothing of a refused file is kept
    keep_outcomes(run, [CheckAnswer(1, "false")], correct=True)
    assert answers_of(run) == {1: CheckAnswer(1, "false")}
    history = json.loads((run / "checks" / "outcomes.json").read_text())["history"]
    assert [entry["outcome"] for entry in history] == ["genuine", "false"]


def test_numbers_that_were_not_drawn_are_refused(run):
    with pytest.raises(SubmissionError, match="number 9"):
        keep_outcomes(run, [CheckAnswer(9, "genuine")])
    assert not (run / "checks").exists()


def test_outcomes_of_another_draw_and_damaged_files_are_refused(run, monkeypatch):
    keep_outcomes(run, [CheckAnswer(1, "genuine")])
    other = DrawnChecks(DRAWN.run, "another beacon", 3, 0.8, DRAWN.draws)
    monkeypatch.setattr(record, "read_checks", lambda run: other)
    with pytest.raises(RunError, match="another draw"):
        answers_of(run)
    monkeypatch.setattr(record, "read_checks", lambda run: DRAWN)
    path = run / "checks" / "outcomes.json"
    whole = path.read_text()
    for damaged in (whole[:-20], "[]", whole.replace('"outcome"', '"odd"')):
        path.write_text(damaged)
        with pytest.raises(RunError, match=r"outcomes\.json"):
            answers_of(run)


def test_two_at_once_do_not_lose_answers(run):
    (run / "checks").mkdir()
    with claimed(run / "checks"), pytest.raises(RunError, match="another record of outcomes is at work"):
        keep_outcomes(run, [CheckAnswer(1, "genuine")])


@pytest.mark.parametrize("after", [False, True])
def test_killed_while_writing_the_old_answers_or_the_new_are_there(run, after):
    old, new = CheckAnswer(1, "genuine"), CheckAnswer(2, "false")
    keep_outcomes(run, [old])
    pid = os.fork()
    if pid == 0:
        real = os.replace

        def killed(a, b):
            if after:
                real(a, b)
            os.kill(os.getpid(), signal.SIGKILL)

        os.replace = killed
        keep_outcomes(run, [new])
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    assert answers_of(run) == ({1: old, 2: new} if after else {1: old})
    keep_outcomes(run, [new])
    assert answers_of(run) == {1: old, 2: new}
    assert [path.name for path in (run / "checks").iterdir()] == ["outcomes.json"]


TWICE = DrawnChecks(
    "run of the tests", "a beacon", 3, 0.8,
    [
        *(Draw(i, "anna", "anna", "one", 0, 1.0, 1.0) for i in (1, 2, 3)),
        Draw(4, "ben", "ben", "two", 1, 1.0, 0.5),
        Draw(5, "ben", "ben", "three", 2, 1.0, 0.5),
    ],
    before={"three": ["R. Okafor"]},
)  # fmt: skip


@pytest.fixture
def twice(run, monkeypatch):
    monkeypatch.setattr(record, "read_checks", lambda run: TWICE)
    return run


def said(*looks):
    return [CheckAnswer(number, outcome, "", by) for number, outcome, by in looks]


def test_looks_at_one_unit_are_made_by_different_people(twice):
    keep_outcomes(twice, said((1, "genuine", "R. Okafor")))
    for by in ("R. Okafor", " r.okafor"):
        again = r"number 2 is one of 3 checks of unit 'one', and .* checked it before \(number 1\); have another"
        with pytest.raises(
            SubmissionError, match=again + " person check it .* or record with --check-once"
        ):
            keep_outcomes(twice, said((2, "genuine", by)))
    with pytest.raises(
        SubmissionError, match="different people are to make; say who checked in the column 'by'"
    ):
        keep_outcomes(twice, said((2, "genuine", "")))
    assert list(answers_of(twice)) == [1]
    assert len(keep_outcomes(twice, said((2, "genuine", "K. Ito"), (3, "genuine", "L. Sand")))) == 2
    keep_outcomes(twice, said((4, "genuine", "")))  # a single look may be anybody's
    assert examination_of(TWICE, answers_of(twice)) == "anew"


def test_who_looked_in_an_earlier_draft_does_not_look_again(twice):
    with pytest.raises(SubmissionError, match=r"one of 2 checks of unit 'three'.*in an earlier draft"):
        keep_outcomes(twice, said((5, "genuine", "R. Okafor")))
    keep_outcomes(twice, said((5, "genuine", "K. Ito")))


def test_whoever_finds_a_unit_false_is_believed(twice):
    keep_outcomes(
        twice, said((1, "genuine", "ro"), (2, "false", "ro"), (3, "unanswered", ""), (5, "false", ""))
    )
    assert answers_of(twice)[2].outcome == "false"


def test_with_one_look_the_others_are_noted_as_not_made(twice):
    answers = said(
        (1, "genuine", "ro"), (2, "genuine", "ro"), (4, "genuine", ""), (5, "genuine", "R. Okafor")
    )
    keep_outcomes(twice, answers, check_once=True)
    known = {number: answer.outcome for number, answer in answers_of(twice).items()}
    assert known == {1: "genuine", 2: NOT_MADE, 3: NOT_MADE, 4: "genuine", 5: NOT_MADE}
    assert examination_of(TWICE, answers_of(twice)) == "once"
    assert keep_outcomes(twice, answers, check_once=True) == []
    keep_outcomes(
        twice, said((2, "genuine", "ki"), (3, "genuine", "ls"), (5, "genuine", "ki"))
    )  # made after all
    assert examination_of(TWICE, answers_of(twice)) == "anew"


def test_with_one_look_nothing_that_was_found_is_lost_and_no_first_look_is_made_up(twice):
    keep_outcomes(
        twice, said((1, "genuine", "ro"), (2, "false", "ro"), (5, "false", "R. Okafor")), check_once=True
    )
    known = {number: answer.outcome for number, answer in answers_of(twice).items()}
    assert (known[2], known[5]) == ("false", "false")
    assert 4 not in known


def test_a_unit_with_several_looks_is_named_by_number(tmp_path):
    path = tmp_path / "outcomes.csv"
    path.write_text("unit,outcome\none,genuine\n")
    with pytest.raises(
        SubmissionError, match="'one' is checked 3 times; give the number of the check, one of 1, 2, 3"
    ):
        read_outcomes(path, TWICE)
