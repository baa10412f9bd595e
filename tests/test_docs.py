"""The documentation: one check of all pages, and one run of each page that has code."""

import shutil

import pytest

import page_inputs
from datamarket_gym import registry
from repository import ROOT, tool_named

check = tool_named("check_docs")
ELSEWHERE = (  # pages that a test of their own runs, which also examines what comes of them
    "cluster.md", "coverage.md", "experiments.md", "guarantees.md", "intake.md", "lineage.md", "paper-interface.md",
    "plug-points", "protocol.md", "regression.md", "scores.md", "theory-tools.md",
)  # fmt: skip
SETUPS = {
    "README.md": page_inputs.inputs,
    "book.md": page_inputs.inputs,
    "ledger.md": page_inputs.inputs,
    "payout.md": page_inputs.inputs,
}
SLOW = ("book.md", "ledger.md", "payout.md")  # README has most of their commands, too
APPROVED = ("bank.md", "disputes.md", "statements.md")  # a month that was approved
PAGES = [
    pytest.param(page, id=page.stem, marks=[pytest.mark.slow] if page.name in SLOW else [])
    for page in check.pages()
    if check.is_run(page) and page.name not in ELSEWHERE and page.parent.name not in ELSEWHERE
]


def test_pages_have_no_faults():
    assert check.static_faults() == []


@pytest.fixture
def restored_registry():
    yield  # what a page registers goes with it
    for known in registry._components.values():
        for name in [name for name, made in known.items() if made.__module__ == "__main__"]:
            del known[name]


@pytest.fixture(scope="module")
def approved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("approved")
    with check.chdir(folder):
        page_inputs.approved()
    return folder


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs_and_prints_what_it_shows(page, tmp_path, restored_registry, request):
    if page.name == "operator.md":
        pytest.importorskip("lxml")  # the extra "payout"
    if page.name in APPROVED:
        shutil.copytree(request.getfixturevalue("approved"), tmp_path, dirs_exist_ok=True)
    check.run_page(page, tmp_path, SETUPS.get(page.name))


@pytest.mark.parametrize("file", sorted((ROOT / "docs/notebooks").glob("*.ipynb")), ids=lambda f: f.stem)
def test_a_notebook_runs(file, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    monkeypatch.setenv("PATH", tool_named("docs_site").with_own_programs())
    notebook = nbformat.read(file, 4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    assert len([cell for cell in notebook.cells if cell.get("outputs")]) >= 3


FAULTY = """# Title

[a](no-such.md) [b](#no-such) `datamarket no-such` `datamarket_gym.analysis.no_such` `tests/test_docs.py::no_such`

```python
from datamarket_gym.registry import _components
```

```python
x = = 1
```

```toml
a = = 1
```

```
datamarket pay units.csv --no-such 1
```

```
make test
```

<!-- not run: no reason -->
```
make test
```
"""


def test_faults_of_every_kind_are_found_with_their_lines(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(FAULTY)
    monkeypatch.setattr(check, "ROOT", tmp_path)
    found = [*check.link_faults([page]), *check.prose_faults(page)]
    for block in check.blocks(page):
        found += [*check.code_faults(block), *check.command_faults(block)]
    text = "\n".join(f"{place}: {fault}" for place, fault in found)
    for place, word in [
        (3, "no-such.md, which does not exist"), (3, "#no-such"), (3, "datamarket no-such"),
        (3, "analysis.no_such"), (3, "test_docs.py::no_such"), (5, "_components is not public"),
        (9, "not Python"), (13, "not TOML"), (17, "--no-such"), (21, "needs <!-- not run"), (26, "unknown reason"),
    ]:  # fmt: skip
        assert any(
            line.startswith(f"page.md:{place}:") and word in line for line in text.splitlines()
        ), word


@pytest.mark.parametrize(
    "text",
    [
        "```python\n1 / 0\n```\n",
        "```python\nprint(1)\n```\n\n```text\n2\n```\n",
        "```python\n>>> 1 + 1\n3\n```\n",
        "```\ndatamarket explain nothing/ --payee x\n```\n",
    ],
)
def test_a_block_that_fails_is_found(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises((AssertionError, ZeroDivisionError)):
        check.run_page(page, tmp_path)
