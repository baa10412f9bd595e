"""The paper's table as `datamarket run` prints it: every number of the paper once, at any usual width."""

import re

import pytest
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.experiments.paper import paper_values
from datamarket_gym.experiments.reproduction import (
    compare_with_paper,
    paper_tables,
    reasons,
    sentences,
    summarize,
)
from datamarket_gym.experiments.spec import Layout
from datamarket_gym.experiments.tables import as_text, grids
from repository import published


def words_of(text):
    return " ".join(text.split())


@pytest.mark.parametrize("name", sorted(paper_values()))
def test_every_number_of_the_paper_is_there_once(name):
    rows = published()[name].rows
    shown = [
        part for grid in paper_tables(rows) for _, line in grid.lines for cell in line for part in cell
    ]
    wanted = [row for row in rows if row["paper"] is not None]
    assert sum(part.startswith("(p ") for part in shown) == len(wanted)
    assert sum(part.endswith(" !)") for part in shown) == sum(row["within"] is False for row in wanted)
    for width in (80, 120):
        assert max(map(len, as_text(paper_tables(rows), width).splitlines())) <= width


def test_the_line_counts_what_the_table_marks():
    rows = published()["s4"].rows
    shown = compare_with_paper("s4", rows)
    text = as_text(paper_tables(rows), 120)
    outside = text.count(" !)")
    claims = [one for one in shown if not one.metric]
    total = text.count("(p ") - text.count("(p ...)") + len(claims)
    assert summarize(shown).startswith(
        f"{total - outside} of {total} cells within tolerance, {outside} outside, 0 "
    )
    assert len(sentences(shown)) == len(claims)
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
    (grid,) = paper_tables([*rows, *own], frozenset({"mine"}))
    assert {line[grid.heads.index("mine")][0][:5] for _, line in grid.lines} == {"7.000"}
    (without,) = paper_tables([*rows, *own])
    assert "mine" not in without.heads


def test_run_prints_the_papers_table_and_all_tables_when_asked(tmp_path):
    def run(*more):
        words = ["run", "s1", "--seeds", "2", "--jobs", "1", "--out", str(tmp_path), *more]
        done = CliRunner().invoke(app, words, env={"COLUMNS": "80"})
        assert done.exit_code == 0, done.output
        return done.stdout

    short = run()
    assert "1.563 (p 1.563)" in short
    assert re.search(r"^12 of 12 cells within tolerance, 0 outside, 0 not claimed by us\.$", short, re.M)
    assert "2 of the experiment's 50 seeds" in short
    assert "--all" in short
    assert f"Figure: datamarket figures {tmp_path}" in short
    every = run("--all")
    assert "1.563 [1.507]" in every
    titles = re.findall(r"^## (.*)$", (tmp_path / "table.md").read_text(), re.M)
    assert all(title in words_of(every) for title in titles)
    assert len(every) > len(short)


def test_rows_that_would_share_a_cell_have_a_table_for_each_merged_label():
    rows = published()["ablation-granularity"].rows
    parts = grids(rows, [Layout(where={"attack": ["sybil_split_k@4", "near_duplicate_2x_sybils"]})])
    assert any("unit granularity" in grid.title for grid in parts)
    cells = [cell for grid in parts for _, line in grid.lines for cell in line if cell]
    assert len([part for cell in cells for part in cell if part.startswith("[")]) == len(cells)
