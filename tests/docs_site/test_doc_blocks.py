"""Every page's code and commands run, top to bottom, as they are printed; what is not run is marked."""

import re
import shutil

import page_runs
import pytest

from datamarket_gym import registry
from repository import ROOT, tool_named

links, tool = tool_named("docs_links"), tool_named("docs_blocks")
# Pages whose blocks run in a test of their own, which also looks at what comes of them.
ELSEWHERE = {
    "cluster.md": "core/test_cluster.py",
    "coverage.md": "learners/test_coverage_page.py",
    "experiments.md": "lab/test_experiments_page.py",
    "guarantees.md": "judge/guarantees/test_docs.py",
    "how-to/": "docs_theory/test_how_to_pages.py",
    "intake.md": "intake/test_intake_page.py",
    "lineage.md": "interface/test_interface_pages.py",
    "paper-interface.md": "interface/test_interface_pages.py",
    "plug-points/": "test_plug_point_pages.py",
    "scores.md": "learners/test_scores_page.py",
    "tables.md": "units/test_tables_page.py",
    "theory/": "docs_theory/test_theory_pages.py",
    "theory-tools.md": "judge/guarantees/test_docs.py",
    "tutorials/": "docs_theory/test_tutorials.py",
}
SETUPS = {  # what a page takes for granted
    "README.md": page_runs.inputs,
    "ledger.md": page_runs.inputs,
    "payout.md": page_runs.inputs,
    "protocol.md": page_runs.examples,
    "regression.md": page_runs.numbers,
}
SLOW = ("ledger.md", "payout.md")  # README types most of their commands, too
APPROVED = ("bank.md", "disputes.md", "statements.md")  # a month that was approved


def elsewhere(page):
    """The test of its own that runs a page."""
    name = (
        page.relative_to(ROOT / "docs").as_posix() if page.is_relative_to(ROOT / "docs") else page.name
    )
    return next((test for start, test in ELSEWHERE.items() if name.startswith(start)), None)


def to_run(page):
    blocks = [block for block in tool.blocks(page) if not block.not_run]
    return [block for block in blocks if block.language == "python" or block.commands()]


PAGES = [
    pytest.param(page, id=page.stem, marks=[pytest.mark.slow] if page.name in SLOW else [])
    for page in links.pages()
    if to_run(page) and not elsewhere(page)
]


@pytest.fixture
def as_before():
    yield  # what a page registers goes with it
    for known in registry._components.values():
        for name in [name for name, made in known.items() if made.__module__ == "__main__"]:
            del known[name]


@pytest.fixture(scope="module")
def approved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("approved")
    with page_runs.chdir(folder):
        page_runs.approved()
    return folder


@pytest.mark.parametrize("page", PAGES)
def test_the_page_runs(page, tmp_path, as_before, request):
    if page.name in APPROVED:
        shutil.copytree(request.getfixturevalue("approved"), tmp_path, dirs_exist_ok=True)
    page_runs.run_page(page, tmp_path, SETUPS.get(page.name))


def test_tests_of_their_own_run_their_pages():
    for page, test in ELSEWHERE.items():
        if not (ROOT / "docs" / page).exists():
            continue
        text = (ROOT / "tests" / test).read_text(encoding="utf-8")
        assert page.strip("/").removesuffix(".md") in text, f"tests/{test} does not know {page}"
        assert re.search(r"exec\(|doctest|subprocess", text), f"tests/{test} runs nothing"


def test_a_block_that_fails_is_found(tmp_path):
    page = tmp_path / "page.md"
    for text in ("```python\n1 / 0\n```\n", "```\ndatamarket explain nothing/ --payee x\n```\n",
                 "```python\n>>> 1 + 1\n3\n```\n", "```\nmake test\n```\n"):  # fmt: skip
        page.write_text(text)
        with pytest.raises((AssertionError, ZeroDivisionError)):
            page_runs.run_page(page, tmp_path)
