"""What is on the screen, as code: the program prints the page's numbers."""

import ast
import contextlib
import io
from importlib import import_module

import pytest

pytest.importorskip("fastapi", reason="the extra explorer is not installed")

from job_answers import followed

from datamarket_gym.explorer.market.answer import answer
from datamarket_gym.explorer.market.code import code_of
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
