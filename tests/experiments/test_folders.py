"""What a folder of results holds: a run, runs, compact results; and words where it is broken or something else."""

import json
import shutil
from pathlib import Path

import pytest

from datamarket_gym.errors import DataMarketError, RunError
from datamarket_gym.experiments import builtin_specs, run_experiment
from datamarket_gym.experiments.results import StoredResults, as_built_in, list_results, read_results
from repository import published

DOCS = Path(__file__).parents[2] / "docs" / "results"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A folder of runs with one run of S1 in it."""
    folder = tmp_path_factory.mktemp("held") / "runs"
    run_experiment(builtin_specs()["s1"].model_copy(update={"seeds": 2}), folder / "mine")
    return folder


def test_compact_results_are_held_in_the_order_of_the_experiments():
    assert [one.name for one in list_results(DOCS)] == list(published())
    assert {one.form for one in list_results(DOCS)} == {"compact"}


def test_a_run_is_read_as_its_table_is_written(run):
    alone, among = list_results(run / "mine"), list_results(run)
    assert [(one.name, one.form) for one in (*alone, *among)] == [("mine", "run")] * 2
    read = read_results(among[0])
    assert read.rows == json.loads((run / "mine" / "table.json").read_text())
    assert (read.spec.name, read.seeds) == ("s1", 2)
    assert as_built_in(read, builtin_specs())


def test_a_run_that_was_changed_is_not_as_it_is_built_in(run):
    read = read_results(list_results(run)[0])
    changed = builtin_specs()["s1"].model_copy(update={"options": {"other": 1}})
    assert not as_built_in(read, {"s1": changed})
    assert not as_built_in(read, {})


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: (folder / "table.json").write_text("[{"), "cannot be read"),
        (
            lambda folder: (folder / "table.json").write_text('[{"metric": "gain"}]'),
            "lacks 'experiment'",
        ),
        (lambda folder: (folder / "manifest.json").write_text("[]"), "cannot be read"),
        (lambda folder: (folder / "table.json").unlink(), "not finished"),
    ],
    ids=["half written", "a row without numbers", "another manifest", "no table"],
)
def test_a_damaged_run_is_listed_and_says_what_is_wrong(run, tmp_path, damage, words):
    shutil.copytree(run, tmp_path / "runs")
    damage(tmp_path / "runs" / "mine")
    (one,) = list_results(tmp_path / "runs")
    with pytest.raises(RunError, match=words) as raised:
        read_results(one)
    assert "--out" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cut short"),
        ("[1, 2]", "not a compact result"),
        ('{"name": "s2"}', "it has no"),
        (json.dumps({"name": "s2", "spec": {}, "same": {}, "columns": ["value"], "rows": [[1]], "seeds": [0, 1],
                     "timings": {}, "versions": {}}), "it has no 'metric'"),
    ],
    ids=["half written", "a list", "foreign", "rows of something else"],
)  # fmt: skip
def test_a_file_that_is_no_compact_result_says_so(tmp_path, text, words):
    path = tmp_path / "odd.json"
    path.write_text(text)
    with pytest.raises(DataMarketError, match=words) as raised:
        read_results(StoredResults("odd", path, "compact"))
    assert "'odd.json'" in str(raised.value)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataMarketError, match="not a folder"):
        list_results(tmp_path / "nowhere")
