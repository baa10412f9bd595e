"""docs/reproduce.md: every table and figure of the paper, commands that exist, links that lead somewhere."""

import re

import pytest

from datamarket_gym.experiments import builtin_specs
from datamarket_gym.experiments.paper import paper, paper_values
from datamarket_gym.experiments.presets import figures_of
from datamarket_gym.experiments.reproduction import compare_with_paper, result_pages, summarize
from repository import ROOT, published, tool_named

PAGE = ROOT / "docs" / "reproduce.md"
TEXT = PAGE.read_text(encoding="utf-8")
PAPERS = [folder / "shared" / "paper" / "quotient-semivalues.tex" for folder in ROOT.parents]
FLOATS = re.compile(r"\\begin\{(table|figure)\*?\}(.*?)\\end\{\1\*?\}", re.S)


def test_every_command_names_what_exists():
    commands = re.findall(r"`datamarket (\w+) ([^`]+)`", TEXT)
    suites = {spec.suite for spec in builtin_specs().values()}
    assert {command for command, _ in commands} == {"run", "figures", "suite"}
    for command, name in commands:
        if command == "suite":
            assert name in suites
        else:
            assert name.removeprefix("runs/") in builtin_specs()
        if command == "figures":
            assert figures_of(name.removeprefix("runs/"))


def test_every_link_leads_to_a_file():
    found = list(tool_named("docs_links").links(PAGE))
    assert len(found) > 2 * len(paper().result)
    assert [str(file) for file, _ in found if not file.is_file()] == []
    for page in ("index.md", "results.md"):
        assert "](reproduce.md)" in (ROOT / "docs" / page).read_text(encoding="utf-8")


def test_every_experiment_with_numbers_of_the_paper_is_on_it_with_its_count():
    assert set(paper_values()) <= {name for place in paper().result for name in place.experiments}
    for place in paper().result:
        shown = [
            one for name in place.experiments for one in compare_with_paper(name, published()[name].rows)
        ]
        start = f"| {place.number} (`{place.label}`) |" if place.label else f"| {place.number} |"
        (line,) = [line for line in TEXT.splitlines() if line.startswith(start)]
        assert line.endswith(f"| {summarize(shown)} |")


def test_results_without_the_papers_experiments_have_no_such_page(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "s10.json").write_bytes((ROOT / "docs" / "results" / "s10.json").read_bytes())
    made = result_pages(tmp_path / "mine")
    assert "mine-reproduce.md" not in made
    assert "reproduce" not in made["mine.md"]


def test_the_papers_tables_and_figures_are_all_there():
    source = next((file for file in PAPERS if file.is_file()), None)
    if source is None:
        pytest.skip("the paper is not beside the repository")
    count = {"table": 0, "figure": 0}
    wanted = {}
    for kind, body in FLOATS.findall(source.read_text(encoding="utf-8")):
        count[kind] += 1
        (label,) = re.findall(r"\\label\{((?:tab|fig):[^}]+)\}", body)
        wanted[label] = f"{kind.title()} {count[kind]}"
    assert len(wanted) == 10
    assert {place.label: place.number for place in paper().result if place.label} == wanted
