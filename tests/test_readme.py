"""The README: short, its Python runs and prints what it shows, its table and figure are measured."""

import contextlib
import io
import json
import re

import pytest

from repository import ROOT, published, tool_named

tool = tool_named("readme")
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
