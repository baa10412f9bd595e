"""A suite's cells in one pool: every experiment ends as by itself."""

from __future__ import annotations

import json

import pytest

from comparing import require_same_rows
from datamarket_gym.errors import RunError
from datamarket_gym.experiments import builtin_specs, run_experiment
from datamarket_gym.experiments import runner as together
from datamarket_gym.experiments.runner import RESULTS, cell, device_of, run_suite
from datamarket_gym.experiments.spec import TaskEntry, UtilityEntry

SMALL = {
    "tasks": [TaskEntry(task="synthetic(n_providers=4, per_provider=12, validation=60)")],
    "utilities": [UtilityEntry(learner="knn@3")],
    "options": {},
    "seeds": 2,
}


def specs():
    return [builtin_specs()[name].model_copy(update=SMALL) for name in ("s4", "s5", "s7")]


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_experiment_has_the_numbers_that_it_has_by_itself(tmp_path, jobs):
    for spec in specs():
        run_experiment(spec, tmp_path / "alone" / spec.name)
    seconds = run_suite(specs(), tmp_path / "suite", jobs=jobs)
    for spec in specs():
        require_same_rows(
            tmp_path / "suite" / spec.name / RESULTS, tmp_path / "alone" / spec.name / RESULTS
        )
    kept = json.loads((tmp_path / "suite" / together.FILE).read_text())
    assert kept["seconds"] == pytest.approx(seconds, abs=1e-3)
    assert kept["jobs"] == jobs


def test_a_killed_suite_goes_on_where_it_was(tmp_path, monkeypatch):
    computed = []

    def dying(shared, *task):
        if len(computed) == 3:
            raise KeyboardInterrupt
        computed.append((shared.spec.name, task[1]))
        return cell(shared, *task)

    monkeypatch.setattr(together, "cell", dying)
    with pytest.raises(KeyboardInterrupt):
        run_suite(specs(), tmp_path)
    monkeypatch.setattr(
        together,
        "cell",
        lambda shared, *task: computed.append((shared.spec.name, task[1])) or cell(shared, *task),
    )
    run_suite(specs(), tmp_path)
    assert sorted(computed) == sorted((spec.name, seed) for spec in specs() for seed in (0, 1))
    run_suite(specs(), tmp_path)  # nothing is left to do
    assert len(computed) == 6


def test_a_folder_that_holds_something_else_stops_it_before_any_cell(tmp_path, monkeypatch):
    monkeypatch.setattr(together, "cell", lambda *_: pytest.fail("computed"))
    last = specs()[-1]
    (tmp_path / last.name).mkdir(parents=True)
    (tmp_path / last.name / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match=last.name):
        run_suite(specs(), tmp_path)


def test_a_gpu_computes_what_needs_it_in_one_process(tmp_path, monkeypatch):
    needs, other = (builtin_specs()[name].model_copy(update=SMALL) for name in ("s8-exact", "s4"))
    assert device_of(needs, "auto") == "cpu"  # none is here
    monkeypatch.setattr(together, "gpu_name", lambda: True)
    assert [device_of(spec, "auto") for spec in (needs, other)] == ["cuda", "cpu"]
    assert [device_of(spec, "cuda") for spec in (needs, other)] == ["cuda", "cuda"]
    asked = []
    each = together._cells

    def seen(shared, place, tasks):
        asked.append((shared[place].engine["device"], len(tasks)))
        return each(shared, place, tasks)

    monkeypatch.setattr(together, "_cells", seen)
    run_suite([other, needs], tmp_path, device="auto")
    assert asked == [("cuda", 2), ("cpu", 1), ("cpu", 1)]
