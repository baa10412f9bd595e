"""The paper's table as `datamarket run` prints it: every number of the paper once, at any usual width."""

import re

import pytest
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.experiments.paper import paper_values
from datamarket_gym.experiments.reproduction import (
    compare_with_paper,
    paper_grids,
    reasons,
    sentences,
    summarize,
)
from datamarket_gym.experiments.spec import Layout
from datamarket_gym.experiments.tables import grids
from datamarket_gym.experiments.text_tables import as_text, paper_text
from repository import published

IN_BRACKETS = re.compile(r"\((-?[\d.]+)\)[!~]?")


def words_of(text):
    return " ".join(text.split())


@pytest.mark.parametrize("name", sorted(paper_values()))
@pytest.mark.parametrize("errors", [True, False])
def test_every_number_of_the_paper_is_there_once(name, errors):
    rows = published()[name].rows
    for grid in paper_grids(rows, errors=errors):
        cells = [cell[0] for _, line in grid.lines for cell in line if cell]
        found = [match[1] for cell in cells for match in IN_BRACKETS.finditer(cell)]
        for note in grid.notes:
            found += [match[1] for match in IN_BRACKETS.finditer(note)]
            if note.endswith(" in every line"):
                found += found[-1:] * (len(grid.lines) - 1)
        metric = grid.title.partition(":")[0].lower().replace(" ", "_")
        wanted = [row["paper"] for row in rows if row["metric"] == metric and row["paper"] is not None]
        assert sorted(map(float, found)) == pytest.approx(sorted(wanted))


@pytest.mark.parametrize("name", sorted(paper_values()))
@pytest.mark.parametrize("width", [80, 100, 120])
def test_it_fits_and_no_cell_is_broken(name, width):
    rows = published()[name].rows
    text = paper_text(rows, frozenset(), width)
    assert max(map(len, text.splitlines())) <= width
    outside = sum(row["within"] is False for row in rows)
    assert len(re.findall(r"\d\)!", text)) == outside
    assert ("! outside" in words_of(text)) == bool(outside)
    assert ("± standard error" in words_of(text)) == bool(re.search(r"\d±\d", text))


@pytest.mark.parametrize("width", [80, 100, 140])
def test_the_main_table_stays_in_one_piece(width):
    text = paper_text(published()["s2"].rows, frozenset(), width)
    assert len(re.findall(r"^mechanism ", text, re.M)) == 1
    (line,) = [line for line in text.splitlines() if line.startswith("Shapley  ")]
    three = next(
        row
        for row in published()["s2"].rows
        if (row["attack"], row["mechanism"], row["metric"], row["empty"])
        == ("sybil_split_3", "shapley", "gain", "none")
    )
    error = f"±{three['se']:.2f}" if width >= 140 else ""
    assert f"{three['value']:.2f}{error} ({three['paper']:.2f})" in line


def test_the_line_counts_what_the_table_marks():
    rows = published()["s4"].rows
    shown = compare_with_paper("s4", rows)
    text = paper_text(rows, frozenset(), 120) + "\n".join(sentences(shown))
    marks = len(re.findall(r"\)!", text))
    total = len(IN_BRACKETS.findall(text)) + len(re.findall(r"\(at (?:least|most) ", text))
    assert summarize(shown).startswith(
        f"{total - marks} of {total} cells within tolerance, {marks} outside, 0 "
    )
    assert len(reasons(shown)) == len({one.why for one in shown if one.verdict != "within"})


def test_rows_that_a_run_lacks_are_not_called_unclaimed():
    rows = [row for row in published()["s2"].rows if row["mechanism"] == "shapley"]
    shown = compare_with_paper("s2", rows)
    there = sum(row["paper"] is not None for row in rows)
    assert summarize(shown) == (
        f"{there} of {len(shown)} cells within tolerance, 0 outside, 0 not claimed by us, "
        f"{len(shown) - there} not in these results"
    )


def test_what_was_added_stands_in_the_papers_table():
    rows = published()["s2"].rows
    own = [
        {**{k: v for k, v in row.items() if k not in ("granularity", "representative")}, "mechanism": "mine",
         "paper": None, "within": None, "value": 7.0}
        for row in rows
        if row["mechanism"] == "shapley" and row["metric"] == "gain" and row["empty"] == "none"
    ]  # fmt: skip
    (grid,) = paper_grids([*rows, *own], frozenset({"mine"}), errors=False)
    (line,) = [cells for labels, cells in grid.lines if labels == ["mine"]]
    assert {cell for cell in line if cell} == {("7.00",)}
    (without,) = paper_grids([*rows, *own], errors=False)
    assert all("mine" not in labels for labels, _ in without.lines)


def test_run_prints_the_papers_table_and_all_tables_when_asked(tmp_path):
    def run(*more):
        words = ["run", "s1", "--seeds", "2", "--jobs", "1", "--out", str(tmp_path), *more]
        done = CliRunner().invoke(app, words, env={"COLUMNS": "80"})
        assert done.exit_code == 0, done.output
        return done.stdout

    short = run()
    assert "1.563 (1.563)" in short
    assert re.search(r"^12 of 12 cells within tolerance, 0 outside, 0 not claimed by us\.$", short, re.M)
    assert "2 of the experiment's 50 seeds" in short
    assert "--all" in short
    assert f"Figure: datamarket figures {tmp_path}" in short
    assert "(p 1.563)" not in short
    every = run("--all")
    assert "1.563 (1.563)" in every
    assert "(p 1.563)" in every
    titles = re.findall(r"^## (.*)$", (tmp_path / "table.md").read_text(), re.M)
    assert all(title in words_of(every) for title in titles)
    assert not all(title in words_of(short) for title in titles)


def test_columns_that_share_a_name_keep_their_ratios_of_means():
    """Two granularities of one mechanism are told apart in its name, and stay beside the others."""
    rows = published()["ablation-granularity"].rows
    (grid,) = grids(rows, [Layout(where={"attack": ["sybil_split_k@4", "near_duplicate_2x_sybils"]})])
    assert any(head.endswith(", unit") for head in grid.heads)
    ratios = [part for _, line in grid.lines for cell in line for part in cell if part.startswith("[")]
    assert len(ratios) == sum(bool(cell) for _, line in grid.lines for cell in line)
    assert "[" in as_text([grid], 80)
