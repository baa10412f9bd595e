"""The README: short, its Python runs and prints what it shows, its table and figure are measured."""

import contextlib
import io
import json
import re

import pytest

from datamarket_gym.lab.kinds.checks import ASSUMING
from repository import ROOT, published, tool_named

tool, limits = tool_named("readme"), tool_named("limits_page")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_is_short():
    assert len(README.split()) <= 800


def test_the_python_runs_as_it_stands_and_prints_what_is_shown(tmp_path):
    code, shown = re.findall(r"```(?:python|text)\n(.*?)```", README, re.S)[:2]
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    printed = io.StringIO()
    with contextlib.chdir(tmp_path), contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    assert printed.getvalue() == shown


def test_the_table_is_that_of_the_measured_rows():
    assert tool.block(README, "table") == tool.table(), "run: python tools/readme.py"


def test_the_table_shows_where_recommended_loses():
    rows = json.loads(tool.ROWS.read_text(encoding="utf-8"))["rows"]
    unchecked, shapley = (
        {group: tool.gains(rows, name, group)[0] for group in {row["class"] for row in rows}}
        for name in ("recommended", "Shapley over identities")
    )
    assert any(
        unchecked[group] > shapley[group] for group in unchecked
    )  # else the sentence below it is wrong
    assert "`recommended` loses to Shapley" in README


def test_the_first_screen_names_both_commands_and_the_install_line():
    first = README.partition("## ")[0]
    for line in ("make demo ", "make test ", "pip install . ", "docs/figures/overview.png"):
        assert line in first
    assert (ROOT / "docs" / "figures" / "overview.png").stat().st_size > 10_000


def test_the_paper_is_cited_as_in_the_citation_file():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    for part in (
        "Quotient Semivalues for False-Name-Resistant Data Attribution",
        "2605.07663",
        "Burnat",
        "Davidson",
    ):
        assert part in README
        assert part in citation


def _row(attack, task, checks, value, knowledge=1.0):
    labels = {"attack": attack, "task": task, "checks": checks, "knowledge": knowledge}
    labels["family"] = ASSUMING if attack == "squat" else "any"
    return {**labels, "learner": "coverage", "power": 0.8, "value": value, "se": None}


def test_the_size_of_an_attack_is_that_of_its_worst_variant_and_knowledge():
    nets = {  # by attack and domain: without checks, with them
        ("honest", "imdb"): (1.0, 1.0),
        ("sybil_split_2", "imdb"): (1.0, 1.0),
        ("sybil_split_3", "imdb"): (1.004, 1.0),
        ("turn", "imdb"): (1.0, 1.0),
        ("turn@0.6", "imdb"): (1.5, 0.4),
        ("turn@0.6", "stl10"): (1.9, 1.02),
        ("squat", "imdb"): (1.7, 0.9),
    }
    rows = [
        _row(attack, task, checks, value)
        for (attack, task), both in nets.items()
        for checks, value in zip((0, 3), both, strict=True)
    ]
    rows += [_row("turn@0.6", "imdb", 3, 1.01, knowledge=0.5), _row("squat", "imdb", 1, 9.0)]
    found = {one.name: one.nets for one in limits.of_learner(rows, "coverage")}
    assert found == {
        "copies of all turned out of reach": {"imdb": (1.5, 1.01), "stl10": (1.9, 1.02)},
        r"squatting before one victim\*": {"imdb": (1.7, 0.9)},
        "split into … names": {"imdb": (1.004, 1.0)},
    }


def test_the_attack_found_is_the_one_that_s10_plays():
    kept = published()
    (found,) = {
        row["best_attack"]
        for row in kept["best-response"].rows
        if row["mechanism"] == "recommended"
        and row["metric"] == "net_gain"
        and not row["cost_identity"]
        and not row["cost_perturbation"]
    }
    called = {name: attack for attack, name in kept["s10"].spec.called.items()}
    assert called["best_response_found"] == found, "put it into s10.toml and run s10 again"


@pytest.mark.parametrize(
    "page", ["docs/valuation.md", "docs/quickstarts.md", "docs/reproduce.md", "docs/enter.md"]
)
def test_the_pages_it_sends_people_to_exist(page):
    assert f"]({page})" in README
    assert (ROOT / page).exists()
