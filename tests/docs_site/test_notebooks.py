"""The notebooks run from top to bottom, and keep no outputs: what the site shows was printed when it was built."""

import json

import pytest

from repository import ROOT, tool_named

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
site = tool_named("docs_site")


def test_there_are_notebooks_for_both():
    assert {file.stem for file in NOTEBOOKS} >= {"attack-two-mechanisms", "payday-from-a-csv"}


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_it_keeps_no_outputs(file):
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_it_runs(file, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    monkeypatch.setenv("PATH", site.with_own_programs())
    notebook = nbformat.read(file, 4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    printed = [cell for cell in notebook.cells if cell.get("outputs")]
    assert len(printed) >= 3
