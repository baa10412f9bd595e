"""What is on the screen, as code: the program prints the page's numbers, the experiment's gain is the page's."""

import ast
import contextlib
import io
from importlib import import_module

import pytest

pytest.importorskip("fastapi", reason="the extra explorer is not installed")

import pyarrow.parquet as pq
from job_answers import followed
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.experiments.cells import compute
from datamarket_gym.experiments.spec import parse_spec
from datamarket_gym.explorer.market.answer import answer
from datamarket_gym.explorer.market.code import BASELINE, code_of
from datamarket_gym.explorer.market.request import MarketRequest

THEFT = "composite(split=1, copy=0.0, steal=1.0, steal_sigma=0.7, victims=3)"
QUESTIONS = {
    "the default": {},
    "no checks": {"checks": 0, "attack": THEFT},
    "knowledge": {"attack": THEFT, "knowledge": 0.4, "checks": 0, "attacker": 1},
    "knowledge and checks": {"attack": THEFT, "knowledge": 0.7, "power": 0.5, "seed": 2},
    "parts of one's own": {
        "task": {"name": "synthetic", "classes": 3}, "units": 12, "learner": {"name": "knn", "k": 3}, "checks": 0,
        "mechanism": "quotient_banzhaf", "evidence": {"name": "cosine", "theta": 0.95}, "normalize": True,
        "attack": "near_duplicate_2x_sybils(sigma=0.2, sybils=1)", "seed": 5, "samples": 20,
    },
    "nobody first": {"times": "equal", "checks": 0, "mechanism": "shapley", "granularity": "unit"},
    "no labels": {"task": "without_labels", "checks": 2, "attack": "exact_dup_2x_sybils"},
    "numbers": {"task": "synthetic_regression", "learner": "knn_regression", "attack": "junk_padding", "checks": 0},
    "the first provider": {"attack": "provider_zero_attack", "attacker": 2, "units": 15},
}  # fmt: skip


def printed(program):
    """What a program prints, run as it stands."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(program, "market.py", "exec"), {"__name__": "__main__"})
    return out.getvalue().splitlines()


def rows_of(toml):
    """The rows of the one cell of an experiment."""
    spec = parse_spec(toml, "market.toml")
    assert len(spec.seed_range) == len(spec.tasks) == 1
    return compute(spec, spec.tasks[0], spec.first_seed, {})


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_program_prints_the_numbers_of_the_page(question):
    asked = MarketRequest(**QUESTIONS[question])
    found, lines = answer(asked), printed(code_of(asked)["python"])
    for scheme, told in zip(found["schemes"], (lines[:3], lines[3:6]), strict=True):
        honest, attacked = (ast.literal_eval(line.split(": ", 1)[1]) for line in told[:2])
        assert honest == {row["provider"]: row["honest"] for row in scheme["providers"]}
        assert attacked == {row["identity"]: row["attacked"] for row in scheme["identities"]}
        gain = float(told[2].split("gain: ")[1].split()[0])
        assert gain == scheme["gain"]["gain"]
    if asked.checks:
        assert float(lines[6].removeprefix("with checks: ")) == found["schemes"][1]["checked"]["pay"]
    assert lines[-1] == f"certificate: {found['certificate']['words']}"


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_experiment_has_the_gain_of_the_page(question):
    asked = MarketRequest(**QUESTIONS[question])
    found, written = answer(asked)["schemes"], code_of(asked)
    rows = rows_of(written["toml"])
    if asked.checks or asked.knowledge < 1.0:
        gained = next(row for row in rows if "gain" in row)
        netted = next(row for row in rows if "expected_net_gain" in row)
        assert gained["gain"] == found[1]["gain"]["gain"]
        assert netted["checks"] == asked.checks
        if asked.checks:
            assert netted["expected_net_gain"] == found[1]["checked"]["gain"]
        assert gained["redrawn"] == 0.0
    else:
        gains = {row["mechanism"]: row["gain"] for row in rows}
        assert gains.pop(BASELINE) == found[0]["gain"]["gain"]
        assert list(gains.values()) == [found[1]["gain"]["gain"]]
    for words in written["left_out"]:
        assert f"# Left out: {words}\n" in written["toml"]


@pytest.mark.parametrize("question", ["no checks", "knowledge and checks"])
def test_the_command_line_runs_it(question, tmp_path):
    asked = MarketRequest(**QUESTIONS[question])
    written = code_of(asked)
    file = tmp_path / written["toml_name"]
    file.write_text(written["toml"], encoding="utf-8")
    ran = CliRunner().invoke(app, ["run", str(file), "--out", str(tmp_path / "out")])
    assert ran.exit_code == 0, ran.output
    kept = [
        row for file in (tmp_path / "out").rglob("*.parquet") for row in pq.read_table(file).to_pylist()
    ]
    gains = {
        row["gain"] for row in kept if row["mechanism"] == "recommended" and row["gain"] is not None
    }
    assert {gain for gain in gains if gain == gain} == {answer(asked)["schemes"][1]["gain"]["gain"]}


def test_programs_import_public_names_alone():
    for question in QUESTIONS.values():
        for node in ast.walk(ast.parse(code_of(MarketRequest(**question))["python"])):
            if isinstance(node, ast.ImportFrom):
                room = import_module(node.module)
                public = getattr(room, "__all__", [name for name in vars(room) if name[0] != "_"])
                assert {alias.name for alias in node.names} <= set(public)


def test_code_over_http(client):
    explorer = client()
    found = explorer.post("/api/market/code", json={"seed": 7})
    assert followed(explorer, found).json() == code_of(MarketRequest(seed=7))
