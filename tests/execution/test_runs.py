"""Runs: steps are kept and taken up, nothing stale ever is, and a folder holds one run."""

import importlib
import json
from dataclasses import replace

import pytest

from datamarket_gym import registry
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution import runs
from datamarket_gym.execution.files import read_json, write_json
from datamarket_gym.execution.parallel import Processes
from datamarket_gym.execution.runs import MANIFEST, Format, Unkept, open_run

JSON = Format(".json", lambda path, found: path.write_text(json.dumps(found)), read_json)


class Told:
    """Progress that remembers what it was told."""

    def __init__(self):
        self.stages, self.counts = [], []

    def stage(self, what, unit=""):
        self.stages.append((what, unit))

    def count(self, done, total):
        self.counts.append((done, total))


def square(shared, i):
    return {"value": shared + i * i}


TASKS = {f"square-{i}": (i,) for i in range(5)}


def unfinished(folder, key="k", made_by="1", **options):
    """A run whose first three steps are done when it is killed."""
    calls = []

    def dies(shared, i):
        calls.append(i)
        if i == 3:
            raise KeyboardInterrupt
        return square(shared, i)

    with pytest.raises(KeyboardInterrupt), open_run(folder, key, "audit", made_by, **options) as run:
        run.steps(dies, 10, TASKS, JSON)
    return calls


def counted():
    calls = []
    return calls, lambda shared, i: (calls.append(i), square(shared, i))[1]


def test_steps_are_kept_and_only_what_is_missing_is_computed(tmp_path):
    unfinished(tmp_path)
    assert not (tmp_path / ".lock").exists()
    calls, function = counted()
    told = Told()
    with open_run(tmp_path, "k", "audit", "1", progress=told) as run:
        assert not run.finished
        assert run.steps(function, 10, TASKS, JSON) == [{"value": 10 + i * i} for i in range(5)]
        assert calls == [3, 4]
        assert told.counts == [(3, 5), (4, 5), (5, 5)]
        write_json(tmp_path / MANIFEST, {"digest": "k"})
    assert [p.name for p in tmp_path.iterdir()] == [MANIFEST]
    with open_run(tmp_path, "k", "audit", "1") as run:
        assert run.finished
    assert [p.name for p in tmp_path.iterdir()] == [MANIFEST]


def test_processes_keep_the_order_of_the_tasks(tmp_path):
    with open_run(tmp_path, "k", "audit", "1", executor=Processes(2)) as run:
        assert [r["value"] for r in run.steps(square, 1, TASKS, JSON)] == [1, 2, 5, 10, 17]
        assert len(list(run.state.glob("square-*.json"))) == 5


@pytest.mark.parametrize("change", ["version", "libraries", "name", "key"])
def test_what_something_else_computed_is_not_taken_up(tmp_path, monkeypatch, change):
    unfinished(tmp_path)
    calls, function = counted()
    if change == "libraries":
        monkeypatch.setattr(runs, "libraries", lambda: {"numpy": "0"})
    tasks = {f"other-{name}": task for name, task in TASKS.items()} if change == "name" else TASKS
    with open_run(tmp_path, "k", "audit", "2" if change == "version" else "1") as run:
        run = replace(run, key="other") if change == "key" else run
        run.steps(function, 10, tasks, JSON)
    assert calls == [0, 1, 2, 3, 4]


def test_a_folder_of_another_run_is_refused_finished_or_not(tmp_path):
    unfinished(tmp_path / "a")
    with pytest.raises(DataMarketError, match="holds another audit"):
        unfinished(tmp_path / "a", key="other")
    with open_run(tmp_path / "b", "k", "run", "1", manifest_key="run"):
        write_json(tmp_path / "b" / MANIFEST, {"run": "k", "digest": "other"})
    with open_run(tmp_path / "b", "k", "run", "1", manifest_key="run"):
        pass
    with pytest.raises(DataMarketError, match="holds another experiment"):
        open_run(tmp_path / "b", "k", "experiment", "1").__enter__()
    assert (tmp_path / "b" / MANIFEST).exists()
    assert not (tmp_path / "b" / ".state").exists()


def test_a_folder_of_something_else_is_refused_and_left_as_it_was(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(DataMarketError, match="not empty and holds no audit"):
        open_run(tmp_path, "k", "audit", "1").__enter__()
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(DataMarketError, match="cannot be made a folder"):
        open_run(tmp_path / "thesis.txt", "k", "audit", "1").__enter__()


def test_a_manifest_without_its_outputs_is_no_finished_run(tmp_path):
    write_json(tmp_path / MANIFEST, {"digest": "k"})
    with open_run(tmp_path, "k", "audit", "1", outputs=["audit.json"]) as run:
        assert not run.finished
        assert run.steps(square, 0, TASKS, JSON)[2] == {"value": 4}


def test_a_damaged_step_is_named(tmp_path):
    unfinished(tmp_path)
    (kept,) = (tmp_path / ".state").glob("square-1-*.json")
    kept.write_text("{")
    with (
        pytest.raises(DataMarketError, match=rf"{kept.name}.* is damaged .*delete it"),
        open_run(tmp_path, "k", "audit", "1") as run,
    ):
        run.steps(square, 10, TASKS, JSON)


def test_what_a_killed_process_was_writing_goes(tmp_path):
    unfinished(tmp_path)
    (tmp_path / ".audit.json.0.part").write_text("")
    (tmp_path / ".state" / ".x.0.part").write_text("")
    with open_run(tmp_path, "k", "audit", "1") as run:
        assert {p.name for p in tmp_path.iterdir()} == {".state", ".lock"}
        assert not list(run.state.glob(".*"))
        assert json.loads((run.state / "run.json").read_text()) == {"run": "k"}


def test_a_step_may_be_an_output_and_is_still_never_stale(tmp_path):
    seen = []

    def killed_run(made_by, key=""):
        with open_run(tmp_path, "k", "run", made_by) as run:
            run.output(
                "records/ties.json", JSON, lambda: (seen.append(made_by), {"by": made_by})[1], key
            )
            raise KeyboardInterrupt

    for made_by, key, calls in (("1", "", 1), ("1", "", 1), ("2", "", 2), ("2", "theta", 3)):
        with pytest.raises(KeyboardInterrupt):
            killed_run(made_by, key)
        assert len(seen) == calls
        assert json.loads((tmp_path / "records" / "ties.json").read_text()) == {"by": made_by}
    with open_run(tmp_path, "k", "run", "2") as run:
        (tmp_path / "records" / "ties.json").unlink()
        assert run.output("records/ties.json", JSON, lambda: 7, "theta") == 7
        write_json(tmp_path / MANIFEST, {"digest": "k"})
    assert {p.name for p in tmp_path.iterdir()} == {"records", MANIFEST}
    assert [p.name for p in (tmp_path / "records").iterdir()] == ["ties.json"]


def test_what_a_killed_process_was_writing_to_a_subfolder_goes(tmp_path):
    unfinished(tmp_path)
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / ".ties.npz.0.part").write_text("")
    with open_run(tmp_path, "k", "audit", "1"):
        assert not list((tmp_path / "records").iterdir())


def test_steps_without_a_folder_are_the_same_steps(tmp_path):
    told, kept = Told(), Told()
    found = Unkept(Processes(2), told).steps(square, 10, TASKS, JSON, before=2, after=3)
    with open_run(tmp_path, "k", "audit", "1", progress=kept) as run:
        assert run.steps(square, 10, TASKS, JSON, before=2, after=3) == found
    assert told.counts == kept.counts == [(2 + i, 10) for i in range(6)]


def test_an_output_that_was_changed_before_the_run_ended_is_computed_again(tmp_path):
    def killed_run(found):
        with open_run(tmp_path, "k", "run", "1") as run:
            assert run.output("records/scores.json", JSON, lambda: [1, 2]) == [1, 2]
            found.append((tmp_path / "records" / "scores.json").read_text())
            raise KeyboardInterrupt

    seen = []
    for text in (None, "[100, 2]", "[1, 2]", ""):
        if text is not None:
            (tmp_path / "records" / "scores.json").write_text(text)
        with pytest.raises(KeyboardInterrupt):
            killed_run(seen)
    assert seen == ["[1, 2]"] * 4


def test_what_earlier_code_of_a_plug_point_computed_is_not_taken_up(tmp_path, monkeypatch):
    module = tmp_path / "their_attack.py"
    module.write_text("def theirs():\n    return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    theirs = importlib.import_module("their_attack").theirs
    monkeypatch.setitem(registry._components["attack"], "theirs", theirs)
    monkeypatch.setitem(registry._by, ("attack", "theirs"), theirs.__module__)
    folder = tmp_path / "run"
    assert unfinished(folder) == [0, 1, 2, 3]
    assert unfinished(folder) == [3]
    module.write_text("def theirs():\n    return 2\n")
    assert unfinished(folder) == [0, 1, 2, 3]
