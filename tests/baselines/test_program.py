"""A program as a mechanism: what it is given, what it may answer, and what happens when it misbehaves."""

from __future__ import annotations

import csv
import json
import os
import shlex
import sys
import time

import numpy as np
import pytest

from datamarket_gym import Submission, Utility, UtilityOracle, create
from datamarket_gym.benchmark.baselines import Program, read_payments, write_market
from datamarket_gym.benchmark.baselines.protocol import read_cost
from datamarket_gym.data.acquired import AcquiredData
from datamarket_gym.errors import DataMarketError, ParameterError, ProgramError, SubmissionError
from datamarket_gym.mechanism import as_mechanism, get_mechanism
from datamarket_gym.registry import written

EVEN = """
import csv, json, pathlib, sys
given, taken = map(pathlib.Path, sys.argv[-2:])
with open(given / "units.csv", newline="", encoding="utf-8") as file:
    names = list(dict.fromkeys(row["identity"] for row in csv.DictReader(file)))
with open(taken / "payments.csv", "w", newline="", encoding="utf-8") as file:
    csv.writer(file).writerows([("identity", "amount"), *((name, 0.1 * i) for i, name in enumerate(names))])
"""


@pytest.fixture
def utility():
    rng = np.random.default_rng(5)
    return UtilityOracle(rng.normal(size=(6, 3)), np.array([0, 1] * 3), Utility("logistic"))


@pytest.fixture
def submission():
    rng = np.random.default_rng(3)
    return Submission(
        id=["u1", "u2", "u3", "u4"],
        identity=["ann", 'bo "x", y\nz', "ann", "cé d"],
        features=rng.normal(size=(4, 3)) * 10.0 ** rng.integers(-100, 100, size=(4, 3)),
        label=[0, 1, 1, 0],
        time=[0.1, 0.2, 0.1 + 0.2, 5.0],
    )


def program(folder, text, **options):
    file = folder / "a program.py"
    file.write_text(text, encoding="utf-8")
    return Program(shlex.join([sys.executable, str(file)]), **options)


def rows(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file, strict=True))


def test_a_market_reads_back_to_the_same_bits(tmp_path, submission, utility):
    told = write_market(tmp_path, submission, utility)
    assert told == json.loads((tmp_path / "market.json").read_text())
    seed = told.pop("seed")
    assert told == {
        "protocol": 1, "learner": "logistic", "empty": "none", "classes": ["0", "1"],
        "features": 3, "units": 4, "validation": 6,
    }  # fmt: skip
    head, *units = rows(tmp_path / "units.csv")
    assert head == ["unit", "identity", "time", "label", "f0", "f1", "f2"]
    assert [row[1] for row in units] == submission.identity.tolist()
    assert [row[:1] + row[3:4] for row in units] == [["u1", "0"], ["u2", "1"], ["u3", "1"], ["u4", "0"]]
    assert np.array_equal([[float(x) for x in row[4:]] for row in units], submission.features)
    assert np.array_equal([float(row[2]) for row in units], submission.time)
    head, *held = rows(tmp_path / "validation.csv")
    assert head == ["label", "f0", "f1", "f2"]
    assert np.array_equal([[float(x) for x in row[1:]] for row in held], utility.features)
    # The seed is of the content alone: it changes with it, and not with names, order or the market's own seed.
    names = submission.take(np.array([2, 0, 3, 1]), {"identity": np.array(list("abcd"))})
    assert write_market(tmp_path, names, utility)["seed"] == seed
    assert write_market(tmp_path, submission.take(slice(3)), utility)["seed"] != seed
    assert 0 <= seed < 2**31


def test_equal_labels_have_one_text(tmp_path, submission, utility):
    """0 and 0.0 are one class to every learner here; to a program texts are all there is."""
    floats = UtilityOracle(utility.features, utility.label.astype(float), Utility("logistic"))
    assert write_market(tmp_path, submission, floats)["classes"] == ["0.0", "1.0"]
    assert [row[3] for row in rows(tmp_path / "units.csv")[1:]] == ["0.0", "1.0", "1.0", "0.0"]
    assert {row[0] for row in rows(tmp_path / "validation.csv")[1:]} == {"0.0", "1.0"}


def test_nothing_but_the_three_files_goes_in(tmp_path, submission, utility):
    write_market(tmp_path, submission, utility)
    assert {path.name for path in tmp_path.iterdir()} == {"market.json", "units.csv", "validation.csv"}


def test_what_changes_speed_alone_is_not_told_and_times_may_be_unknown(tmp_path, submission, utility):
    undated = Submission(submission.id, submission.identity, submission.features, submission.label)
    quick = UtilityOracle(
        utility.features, utility.label, learner=create("learner", "knn(k=3, vote=majority)")
    )
    assert write_market(tmp_path, undated, quick)["learner"] == "knn(k=3, vote=majority)"
    assert {row[2] for row in rows(tmp_path / "units.csv")[1:]} == {""}
    threads = create("learner", {"name": "logistic", "jobs": 1})
    quick = UtilityOracle(utility.features, utility.label, learner=threads)
    assert write_market(tmp_path, undated, quick)["learner"] == "logistic"


def test_acquired_art_and_names_that_are_no_text_are_refused(tmp_path, submission, utility):
    with pytest.raises(DataMarketError, match="no place for previously acquired data"):
        write_market(tmp_path, submission, utility.given(AcquiredData(submission, np.arange(4))))
    odd = submission.take(slice(None), {"identity": np.array(["a", "b", "\ud800", "c"])})
    with pytest.raises(SubmissionError, match="no text in UTF-8"):
        write_market(tmp_path, odd, utility)


def test_a_program_pays_as_any_mechanism_does(tmp_path, submission, utility):
    made = program(tmp_path, EVEN)
    paid = as_mechanism(made).pay(submission, utility)
    assert paid.as_dict() == {"ann": 0.0, 'bo "x", y\nz': 0.1, "cé d": 0.2}
    assert np.isnan(paid.evaluations)
    assert 0 < made.pay(submission, utility).seconds < paid.seconds + 5
    assert create("mechanism", written(made)) == made
    assert create("mechanism", f"program(command={made.command!r}, timeout=5)") == Program(
        made.command, 5
    )


def test_evaluations_are_recorded(tmp_path, submission, utility):
    made = program(tmp_path, EVEN + '(taken / "cost.json").write_text(\'{"evaluations": 7, "x": 1}\')')
    assert as_mechanism(made).pay(submission, utility).evaluations == 7
    ours = get_mechanism("shapley").pay(submission, utility)
    assert ours.evaluations == ours.scores.evaluations > 0


HEAD = "identity,amount\n"
GOOD = '"bo ""x"", y\nz",-1.5e-3\nann,1\ncé d,.5\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD + GOOD, ""),
        ("\ufeff" + (HEAD + GOOD).replace("\ny", "\r\ny"), ""),
        (HEAD + GOOD.replace("ann,1\n", ""), "no amount for 'ann'; pay 0"),
        (HEAD + "ann,1\n", r"no amount for 'bo .* and 1 more; pay 0"),
        (HEAD + GOOD + "ann,1\n", "line 6: 'ann' is paid twice"),
        (HEAD + "dora,1\n" + GOOD, "line 2: 'dora' submitted nothing"),
        (HEAD + GOOD.replace("ann,1", "ann,nan"), "line 4: 'ann' is paid 'nan'; write a finite number"),
        (HEAD + GOOD.replace("ann,1", "ann,1e999"), "'1e999'; write a finite"),
        (HEAD + GOOD.replace("ann,1", "ann,1_0"), "'1_0'; write a finite"),
        (HEAD + GOOD.replace("ann,1", "ann,"), "''; write a finite"),
        (HEAD + GOOD.replace("ann,1", "ann,\u0661"), "write a finite"),
        (HEAD + GOOD.replace("ann,1", "ann,1,2"), "line 4: there are 3 fields"),
        (HEAD + GOOD + "\n", "line 6: there are 0 fields"),
        ("name,amount\n" + GOOD, "line 1: the header is 'name,amount'; write identity,amount"),
        (GOOD, "line 2: the header|line 1: the header"),
        ("", "line 1: the header is ''"),
        (HEAD + 'ann,"1', "line 2: .*; write it as RFC 4180 says"),
        (HEAD + GOOD + "x" * 10_000, "bytes, where .* are plenty"),
    ],
)  # fmt: skip
def test_payments_are_checked(tmp_path, submission, text, says):
    (tmp_path / "payments.csv").write_bytes(text.encode())
    if not says:
        paid = {"ann": 1.0, 'bo "x", y\nz': -0.0015, "cé d": 0.5}
        assert read_payments(tmp_path, submission) == paid
        return
    with pytest.raises(ProgramError, match=says):
        read_payments(tmp_path, submission)


def test_a_link_a_folder_a_pipe_and_other_codes_are_refused(tmp_path, submission):
    file = tmp_path / "payments.csv"
    with pytest.raises(ProgramError, match=r"payments\.csv is missing"):
        read_payments(tmp_path, submission)
    (tmp_path / "elsewhere").write_text(HEAD + GOOD, encoding="utf-8")
    for make in (lambda: file.symlink_to(tmp_path / "elsewhere"), lambda: os.mkfifo(file)):
        make()
        with pytest.raises(ProgramError, match="no plain file"):
            read_payments(tmp_path, submission)
        file.unlink()
    file.write_bytes((HEAD + GOOD).encode("utf-16"))
    with pytest.raises(ProgramError, match="not UTF-8"):
        read_payments(tmp_path, submission)


@pytest.mark.parametrize("text", ["7", "{}", '{"evaluations": -1}', '{"evaluations": true}', "[" * 5000])
def test_costs_are_whole_numbers(tmp_path, text):
    assert np.isnan(list(read_cost(tmp_path).values())).all()
    (tmp_path / "cost.json").write_text(text)
    with pytest.raises(ProgramError, match=r"cost\.json (says|is no JSON)"):
        read_cost(tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import sys; sys.exit('no such luck')", r"(?s)exit code 1\. Its last output:\nno such luck"),
        ("raise SystemExit(3)", "exit code 3; it wrote nothing"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended by SIGKILL .is there enough"),
        ("", r"payments\.csv is missing"),
        ("import sys; sys.stderr.write('x' * 3_000_000 + 'END\\x1b[2J'); sys.exit(1)", r"xEND\?\[2J$"),
        ("print('y' * 3_000_000)", r"payments\.csv is missing"),
    ],
)
def test_a_program_that_fails_says_why(tmp_path, submission, utility, text, says):
    with pytest.raises(ProgramError, match=says) as found:
        program(tmp_path, text).pay(submission, utility)
    assert len(str(found.value)) < 5_000
    assert "a program.py" in str(found.value)


def test_a_program_that_hangs_is_ended_with_all_it_started(tmp_path, submission, utility):
    mark = tmp_path / "mark"
    child = f"import time, pathlib; time.sleep(1.5); pathlib.Path({str(mark)!r}).touch()"
    text = (
        f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "sys.stderr.write('thinking')\nsys.stderr.flush()\ntime.sleep(60)"
    )
    started = time.monotonic()
    with pytest.raises(
        ProgramError, match=r"(?s)not done after 0\.7 seconds.*Its last output:\nthinking"
    ):
        program(tmp_path, text, timeout=0.7).pay(submission, utility)
    assert time.monotonic() - started < 5
    time.sleep(1.2)
    assert not mark.exists()


def test_whoever_stays_behind_does_not_hold_the_answer_up(tmp_path, submission, utility):
    left = "\nimport subprocess\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
    started = time.monotonic()
    assert program(tmp_path, EVEN + left).pay(submission, utility).totals.sum() > 0
    assert time.monotonic() - started < 5


def test_secrets_of_the_environment_do_not_travel(tmp_path, submission, utility, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "hush")
    text = "import os, sys; sys.exit(repr(sorted(os.environ)))"
    with pytest.raises(ProgramError, match="'PATH'") as found:
        program(tmp_path, text).pay(submission, utility)
    assert "MY_TOKEN" not in str(found.value)


def test_nothing_is_left_in_the_temporary_folder(tmp_path, submission, utility, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    before = set(tmp_path.iterdir()) | {tmp_path / "a program.py"}
    locked = EVEN + "\n(taken / 'x').mkdir(); (taken / 'x' / 'y').touch(); (taken / 'x').chmod(0o500)"
    program(tmp_path, locked).pay(submission, utility)
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", ["", "  ", 'python "mine.py', "a\0b", 3])
def test_commands_that_are_none_are_refused(command):
    with pytest.raises(ParameterError, match="command of the program"):
        Program(command)


def test_a_program_that_is_not_there_is_named(submission, utility):
    with pytest.raises(ProgramError, match=r"'no-such-program'.* cannot be started.*check its name"):
        Program("no-such-program").pay(submission, utility)
    with pytest.raises(ParameterError, match="timeout of the program"):
        Program("true", timeout=0)
