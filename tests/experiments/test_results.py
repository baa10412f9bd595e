"""Compact results lose nothing that is shown, and pages are made of them alone."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.errors import DataMarketError
from datamarket_gym.experiments import parse_spec, run_experiment
from datamarket_gym.experiments.paper import _labelled
from datamarket_gym.experiments.reproduction import result_pages
from datamarket_gym.experiments.results import collect, read_all, read_compact

DOCS = Path(__file__).parents[2] / "docs"
TINY = """
name = "tiny"
title = "A tiny experiment"
seeds = 2
tasks = [{ task = "synthetic(n_providers=3, per_provider=8, validation=30)" }]
utilities = [{ learner = "knn@3", empty = "none" }]
attacks = ["sybil_split_k@2"]
[[mechanisms]]
name = "shapley"
[[mechanisms]]
name = "quotient_shapley/cosine@{theta}"
label = "quotient_shapley/cosine"
sweep = { theta = [0.9, 0.99] }
[[tables]]
metric = "oracle_l1"
down = ["theta"]
"""


@pytest.fixture
def runs(tmp_path):
    spec = parse_spec(TINY, "tiny.toml")
    return spec, run_experiment(spec, tmp_path / "runs" / "tiny"), tmp_path / "runs"


def test_compact_results_lose_nothing_that_is_shown(runs, tmp_path):
    _, rows, folder = runs
    assert collect(folder, tmp_path / "kept") == ["tiny"]
    shutil.copytree(next(folder.iterdir()), folder / "another")
    with pytest.raises(DataMarketError, match="are both runs of 'tiny'; move one"):
        collect(folder, tmp_path / "kept")
    shutil.rmtree(folder / "another")
    (kept,) = read_all(tmp_path / "kept")
    shown = {"gain", "gain_ratio_of_means", "gain_additive", "oracle_l1"}
    assert {row["metric"] for row in kept.rows} == shown
    wanted = [row for row in rows if row["metric"] in shown]
    assert len(kept.rows) == len(wanted)
    for found, row in zip(kept.rows, wanted, strict=True):
        assert set(found) == set(row)
        assert found["value"] == pytest.approx(row["value"], rel=1e-5)
        assert {k: v for k, v in found.items() if k not in ("value", "se")} == {
            k: v for k, v in row.items() if k not in ("value", "se")
        }
    assert kept.seeds == 2


def test_the_page_says_where_we_differ(runs, tmp_path, monkeypatch):
    _, rows, folder = runs
    measured = next(r["value"] for r in rows if r["metric"] == "gain" and r.get("theta") == 0.99)
    entry = {
        "experiment": "tiny", "attack": "sybil_split_2", "mechanism": "quotient_shapley/cosine",
        "theta": 0.99, "metric": "gain", "paper": measured - 1, "tolerance": "l1", "why": "Because.",
    }  # fmt: skip
    near = {**entry, "theta": 0.9, "paper": measured, "tolerance": "real baseline"}
    silent = {"experiment": "tiny", "attack": "sybil_split_2", "mechanism": "shapley", "metric": "gain"}
    silent |= {"paper": 7.0, "paper_se": 0.5, "why": "Nobody knows."}
    values = {"tiny": (entry, near, silent)}
    monkeypatch.setattr("datamarket_gym.experiments.paper.paper_values", lambda: values)
    _labelled.cache_clear()
    collect(folder, tmp_path / "kept")
    made = result_pages(tmp_path / "kept")
    text = made["kept/tiny.md"]
    assert f"for {measured - 1:g}). Because." in text
    assert "| +1.000 | 0.05 (set after measuring) | **outside** |" in text
    assert text.count("Because.") == 1
    assert "| 7 ± 0.5 |" in text
    assert "for 7 ± 0.5). Nobody knows." in text
    front = " ".join(made["kept.md"].split())
    assert front.count("| 3 | 1 | 1 | 1 |") == 2  # of the experiment, and of all
    assert "| [tiny](kept/tiny.md) | A tiny experiment | 2 | 3 |" in front
    assert "kept-reproduce.md" not in made  # the paper has no experiment of this name
    assert "Seeds 0 to 1." in text
    _labelled.cache_clear()


def test_the_commands_write_the_page_and_refuse_empty_folders(runs, tmp_path):
    _, _, folder = runs
    out = tmp_path / "docs" / "results.md"
    out.parent.mkdir()
    made = CliRunner().invoke(app, ["results", str(folder), "--out", str(out)])
    assert made.exit_code == 0
    first = out.read_bytes()
    assert (out.parent / "results" / "tiny.md").read_text().startswith("# tiny: A tiny experiment\n")
    again = CliRunner().invoke(app, ["results", "--out", str(out)])
    assert again.exit_code == 0
    assert out.read_bytes() == first
    assert json.loads((out.parent / "results" / "tiny.json").read_text())["name"] == "tiny"
    for words in (["results", str(tmp_path / "none")], ["figures", str(tmp_path / "none")]):
        failed = CliRunner().invoke(app, words)
        assert isinstance(failed.exception, DataMarketError)


@pytest.mark.parametrize("name", ["s10", "agnews", "imdb", "cifar10", "stl10"])
def test_splits_and_exact_copies_gain_exactly_nothing_on_five_domains(name):
    """Where there are times `recommended` pays 1 in every market that is published, hence no error beside it."""
    kept = read_compact(DOCS / "results" / f"{name}.json")
    found = {
        (row["attack"], row["value"], row["se"])
        for row in kept.rows
        if (row["mechanism"], row["metric"], row["task"])
        == ("recommended", "gain", kept.spec.tasks[0].task)
        and (
            row["attack"].startswith("sybil_split_")
            or row["attack"] in ("exact_dup_2x_sybils", "copycat")
        )
    }
    assert len({attack for attack, _, _ in found}) == 5
    assert {(value, error) for _, value, error in found} == {(1.0, None)}
