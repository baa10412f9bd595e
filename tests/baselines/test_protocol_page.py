"""The programs that docs/protocol.md shows: they are short, and both pay the same."""

import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from datamarket_gym import Submission, UtilityOracle
from datamarket_gym.benchmark.baselines import Program
from datamarket_gym.testing import validate_mechanism

FOLDER = Path(__file__).parents[2] / "examples" / "protocol"
PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"


def market():
    rng = np.random.default_rng(0)
    names = np.array(["ann", 'b "o", \r\nb', "cé", "d\ne"])[rng.integers(0, 4, size=24)]
    rows = rng.normal(size=(24, 3))
    rows[12:16] = rows[:4]  # equal ones share
    submission = Submission(
        np.array([f"u{i}" for i in range(24)]),
        names,
        rows,
        rng.choice(["x", "y"], 24),
    )
    return submission, UtilityOracle(rng.normal(size=(20, 3)), rng.choice(["x", "y"], 20))


def expected(submission, oracle):
    distance = ((oracle.features[:, None] - submission.features[None]) ** 2).sum(axis=2)
    nearest = distance == distance.min(axis=1, keepdims=True)
    part = nearest * (submission.label == oracle.label[:, None]) / nearest.sum(axis=1, keepdims=True)
    return np.bincount(submission.identity_codes, weights=part.mean(axis=0), minlength=4)


@pytest.mark.parametrize("name", ["nearest.mjs", "nearest.py"])
def test_the_programs_of_the_page_pay_what_they_say(name):
    runner = sys.executable if name.endswith(".py") else shutil.which("node")
    if runner is None:
        pytest.skip("node is not installed")
    submission, oracle = market()
    program = Program(shlex.join([runner, str(FOLDER / name)]))
    assert program.pay(submission, oracle).totals == pytest.approx(expected(submission, oracle))
    assert f"examples/protocol/{name}" in PAGE.read_text(encoding="utf-8")
    assert len((FOLDER / name).read_text(encoding="utf-8").splitlines()) < 40


def test_the_block_of_the_page_runs(monkeypatch, capsys):
    monkeypatch.chdir(PAGE.parents[1])
    code = PAGE.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    exec(code.replace("python3 ", f"{shlex.quote(sys.executable)} "), {})
    assert "3 identities" in capsys.readouterr().out


def test_the_one_in_python_keeps_the_promises_of_mechanisms():
    validate_mechanism(Program(shlex.join([sys.executable, str(FOLDER / "nearest.py")])))
