"""examples/attributions.py pays by scores of attribution tools: by those that are kept, and by the tools themselves."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from example_scenes import play
from repository import ROOT

EXAMPLES = ROOT / "examples"
TOOLS = "ATTRIBUTION_TOOLS"  # names the Python that has torch, captum, dattri and traker


@pytest.fixture(scope="module")
def tools():
    python = os.environ.get(TOOLS)
    if python is None:
        pytest.skip(f"{TOOLS} does not name a Python that has torch, captum, dattri and traker")
    return python


@pytest.fixture(scope="module")
def market(tmp_path_factory):
    return tmp_path_factory.mktemp("attributions") / "market"


@pytest.fixture(scope="module")
def scenes(market):
    return play("attributions.py", market, "--market", "drawn")


def gains(table):
    """(words, tool) -> the columns of the table; without lines where there was nothing to leave out."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    return {(row[0], row[1]): [float(cell) for cell in row[2:]] for row in rows if "none" not in row}


def payments(run):
    rows = pq.read_table(run / "payments.parquet").to_pylist()
    return {row["identity"]: row["payment"] for row in rows if float(row["payment"])}


def test_kept_scores_of_three_tools_are_paid(scenes):
    assert {tool for _, tool in gains(scenes["gains"])} == {"captum", "dattri", "trak"}


def test_copies_of_every_kind_gain_exactly_nothing_where_they_are_merged_before_units_are_scored(
    market, scenes
):
    for tool in ("captum", "dattri", "trak"):
        honest = payments(market / "what-if" / f"june-{tool}")  # nothing to merge: both ways are one
        for attack in ("copies", "near", "theft"):
            assert payments(market / f"june-{attack}-{tool}") == honest
            floored = payments(market / f"june-{attack}-{tool}-zero")
            assert floored == payments(market / f"june-{tool}-zero")


def test_copies_gain_by_name_and_harm_those_who_are_copied_where_units_are_scored_as_submitted(scenes):
    found = gains(scenes["gains"])
    for (words, tool), (by_name, after, *first) in found.items():
        if "units under 3 more names" in words or "units of chen" in words:
            assert by_name > 1.2, (words, tool)
        if "chen is left" in words:
            assert by_name < 0.9, (words, tool)
            assert after < 0.9, (words, tool)
            assert first == [1.0, 1.0]


def test_kept_scores_are_small_and_say_what_made_them():
    files = sorted((EXAMPLES / "attribution_scores").glob("*.parquet"))
    assert sum(file.stat().st_size for file in files) < 200_000
    for file in files:
        table = pq.read_table(file)
        assert table.column_names == ["unit", "row", "score"]
        made = json.loads(table.schema.metadata[b"made_by"])
        assert made["tool"] == file.name.split("-")[0]
        assert made["torch"]
        assert np.isfinite(table["score"].to_numpy()).all()


def test_every_file_of_kept_scores_is_paid(market, scenes):
    paid = {file.read_bytes() for file in (market / "scores").iterdir()}
    for file in (EXAMPLES / "attribution_scores").glob("*.parquet"):
        assert file.read_bytes() in paid, f"{file.name} is of no use"


def test_without_kept_scores_and_tools_the_example_says_what_to_do(tmp_path):
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("attribution_scores"))
    words = [
        sys.executable,
        str(tmp_path / "examples" / "attributions.py"),
        "--out",
        str(tmp_path / "market"),
    ]
    done = subprocess.run(words, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode
    assert "captum has not scored what-if/june/canonical.parquet yet" in done.stderr
    assert "--tools" in done.stderr


def score(tools, training, validation, tool, out):
    words = [tools, "-W", "ignore", str(EXAMPLES / "attribution_tools.py"), training, validation]
    done = subprocess.run(
        [*words, "--tool", tool, "--out", out], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    table = pq.read_table(out)
    return np.array(table["unit"].to_pylist()), table["score"].to_numpy()


@pytest.mark.parametrize("tool", ["captum", "dattri", "trak"])
def test_a_tool_scores_as_was_kept_and_neither_names_nor_order_change_a_bit(
    tools, market, scenes, tmp_path, tool
):
    units, validation = market / "june.parquet", market / "validation.parquet"
    names, scores = score(tools, units, validation, tool, tmp_path / "scores.parquet")
    kept = pq.read_table(market / "scores" / f"june-{tool}-unmerged.parquet")
    assert kept["unit"].to_pylist() == names.tolist()
    assert np.abs(kept["score"].to_numpy() - scores).max() < 1e-3 * np.abs(scores).max()
    table = pq.read_table(units)
    order = np.random.default_rng(5).permutation(len(table))
    other = table.take(order).set_column(0, "id", [[f"x{order[i]}" for i in range(len(table))]])
    pq.write_table(other, tmp_path / "other.parquet")
    renamed, again = score(
        tools, tmp_path / "other.parquet", validation, tool, tmp_path / "again.parquet"
    )
    assert [f"unit-{int(name[1:]):03d}" for name in renamed] == names.tolist()
    assert (again == scores).all()


def test_the_tools_compute_what_they_claim(tools, market, scenes):
    words = ["attribution_check.py", "what-if/june/canonical.parquet", "validation.parquet"]
    done = subprocess.run(
        [tools, "-W", "ignore", str(EXAMPLES / words[0]), *words[1:]],
        cwd=market,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout.strip().splitlines()) == 7


def test_weights_that_the_script_would_not_heed_are_refused(tools, market, scenes, tmp_path):
    table = pq.read_table(market / "what-if" / "june" / "canonical.parquet")
    heavy = table.set_column(table.column_names.index("weight"), "weight", [[2.0] * len(table)])
    pq.write_table(heavy, tmp_path / "heavy.parquet")
    words = [
        tools,
        str(EXAMPLES / "attribution_tools.py"),
        tmp_path / "heavy.parquet",
        market / "validation.parquet",
    ]
    done = subprocess.run(
        [*words, "--tool", "captum", "--out", tmp_path / "x"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "some have other weights" in done.stderr
    assert not (tmp_path / "x").exists()
