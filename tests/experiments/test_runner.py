import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from datamarket_gym.errors import DataMarketError, ParameterError, ProgramError, RunError
from datamarket_gym.execution import runs
from datamarket_gym.experiments import builtin_specs, parse_spec, run_experiment, runner
from datamarket_gym.experiments.summary import summarise

TINY = """
name = "tiny"
title = "A tiny experiment"
seeds = 3
tasks = [{ task = "synthetic(n_providers=3, per_provider=8, validation=30)" }]
utilities = [{ learner = "knn@3", empty = "none" }, { learner = "knn@3", empty = "chance" }]
attacks = ["honest", "sybil_split_k@2"]

[[mechanisms]]
name = "shapley"

[[mechanisms]]
name = "quotient_shapley/cosine@{theta}"
representative = ["identity", "collapse"]
sweep = { theta = [0.9, 0.99] }
"""


@pytest.fixture
def tiny():
    return parse_spec(TINY, "tiny.toml")


def files(folder):
    names = ("results.parquet", "table.json", "table.md", "manifest.json")
    return {name: (folder / name).read_bytes() for name in names}


def test_parallel_equals_serial_to_the_byte(tiny, tmp_path):
    run_experiment(tiny, tmp_path / "one", jobs=1)
    run_experiment(tiny, tmp_path / "two", jobs=2)
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_a_killed_run_resumes_and_ends_with_the_same_bytes(tiny, tmp_path, monkeypatch):
    run_experiment(tiny, tmp_path / "whole")
    compute, calls = runner.compute, []

    def dies_on_the_third(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return compute(*arguments)

    monkeypatch.setattr(runner, "compute", dies_on_the_third)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(tiny, tmp_path / "killed")
    assert not (tmp_path / "killed" / "results.parquet").exists()
    seen = []
    monkeypatch.setattr(runner, "compute", lambda *a: (seen.append(a), compute(*a))[1])
    run_experiment(tiny, tmp_path / "killed")
    assert len(seen) == 1  # only the missing cell
    assert files(tmp_path / "whole") == files(tmp_path / "killed")


def test_table_rows_have_the_stated_keys(tiny, tmp_path):
    run_experiment(tiny, tmp_path)
    rows = json.loads((tmp_path / "table.json").read_text())
    keys = {"experiment", "task", "attack", "mechanism", "granularity", "representative", "metric",
            "value", "se", "seeds", "paper", "tolerance", "within"}  # fmt: skip
    assert all(keys <= set(row) for row in rows)
    assert {"gain", "gain_ratio_of_means", "gain_additive", "oracle_l1"} <= {r["metric"] for r in rows}
    gains = [r for r in rows if r["metric"] == "gain" and r["attack"] == "honest"]
    assert {r["value"] for r in gains} == {1.0}
    assert {r.get("theta") for r in rows} == {None, 0.9, 0.99}
    results = pq.read_table(tmp_path / "results.parquet")
    assert len(results) == 3 * 2 * 2 * 5


def test_a_folder_of_another_experiment_is_refused(tiny, tmp_path):
    run_experiment(tiny, tmp_path)
    other = tiny.model_copy(update={"provider": 1})
    with pytest.raises(DataMarketError, match="holds another experiment"):
        run_experiment(other, tmp_path)


def seeded(spec, seeds, first=0):
    return spec.model_copy(update={"seeds": seeds, "first_seed": first})


def counting(monkeypatch):
    """The (task, seed) of every cell that is computed from now on."""
    compute, seen = runner.compute, []

    def counted(spec, task, seed, engine):
        seen.append((task.task, seed))
        return compute(spec, task, seed, engine)

    monkeypatch.setattr(runner, "compute", counted)
    return seen


TWO_TASKS = """tasks = [
  { task = "synthetic(n_providers=3, per_provider=8, validation=30)", axes = { n = 3 } },
  { task = "synthetic(n_providers=4, per_provider=8, validation=30)" },
]"""


def test_more_seeds_extend_a_run_to_the_bytes_of_a_run_of_all(tmp_path, monkeypatch):
    lines = [TWO_TASKS if line.startswith("tasks") else line for line in TINY.splitlines()]
    spec = parse_spec("\n".join(lines), "tiny.toml")
    run_experiment(seeded(spec, 5, first=1), tmp_path / "whole")
    seen = counting(monkeypatch)
    run_experiment(seeded(spec, 2, first=2), tmp_path / "grown")
    assert [seed for _, seed in seen] == [2, 3, 2, 3]
    del seen[:]
    run_experiment(seeded(spec, 5, first=1), tmp_path / "grown")  # at both ends
    assert [seed for _, seed in seen] == [1, 4, 5, 1, 4, 5]
    assert files(tmp_path / "grown") == files(tmp_path / "whole")
    del seen[:]
    run_experiment(seeded(spec, 5, first=1), tmp_path / "grown")
    assert seen == []


def test_fewer_seeds_than_a_run_has_are_refused_and_nothing_is_lost(tiny, tmp_path):
    run_experiment(tiny, tmp_path)
    before = files(tmp_path)
    with pytest.raises(RunError, match=r"seeds 0 to 2, and 0 to 1 .* --first-seed 0 --seeds 3, or"):
        run_experiment(seeded(tiny, 2), tmp_path)
    with pytest.raises(
        RunError, match=r"and 2 to 5 .* --first-seed 0 --seeds 6, or choose another --out"
    ):
        run_experiment(seeded(tiny, 4, first=2), tmp_path)
    assert files(tmp_path) == before


def test_killed_while_it_grows_a_run_resumes(tiny, tmp_path, monkeypatch):
    run_experiment(seeded(tiny, 5), tmp_path / "whole")
    run_experiment(seeded(tiny, 2), tmp_path / "grown")
    for killer in ("compute", "write_json"):
        calls, real = [], getattr(runner, killer)

        def dies(*arguments, calls=calls, real=real, **options):
            calls.append(arguments)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return real(*arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(runner, killer, dies)
            with pytest.raises(KeyboardInterrupt):
                run_experiment(seeded(tiny, 5), tmp_path / "grown")
    seen = counting(monkeypatch)
    run_experiment(seeded(tiny, 5), tmp_path / "grown")
    assert seen == []
    assert files(tmp_path / "grown") == files(tmp_path / "whole")


def test_what_another_version_made_is_refused_and_says_what_differs(tiny, tmp_path, monkeypatch):
    run_experiment(tiny, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(runner, "__version__", "99.0")
        for spec in (tiny, seeded(tiny, 4)):
            with pytest.raises(RunError, match=r"datamarket-gym .* there, 99\.0 here.*another --out"):
                run_experiment(spec, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(runs, "sources_elsewhere", lambda: {"my_attacks": "1"})
        with pytest.raises(RunError, match="no plug points of my_attacks, which is loaded here"):
            run_experiment(tiny, tmp_path)
        run_experiment(tiny, tmp_path / "mine")
        patch.setattr(runs, "sources_elsewhere", lambda: {"my_attacks": "2"})
        with pytest.raises(RunError, match="other code of the plug points in my_attacks"):
            run_experiment(tiny, tmp_path / "mine")
    with pytest.raises(RunError, match="plug points of my_attacks, which is not loaded here"):
        run_experiment(tiny, tmp_path / "mine")
    run_experiment(tiny, tmp_path)


def test_cells_of_other_code_do_not_stay(tiny, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(runner, "__version__", "0.0")
        patch.setattr(runner, "write_table", None)
        with pytest.raises(TypeError):
            run_experiment(tiny, tmp_path)
    assert len(list((tmp_path / "cells").glob("cell-*"))) == 3
    run_experiment(tiny, tmp_path)
    assert len(list((tmp_path / "cells").glob("cell-*"))) == 3


def test_bad_specs_name_the_key():
    with pytest.raises(ParameterError, match="atacks"):
        parse_spec('name = "x"\ntitle = "y"\natacks = []', "x.toml")
    with pytest.raises(DataMarketError, match="not valid TOML"):
        parse_spec("name = ", "x.toml")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ('[[mechanisms]]\nname = "shapley"\nchanges = { semivalue = "loo" }', "mechanism 'shapley'"),
        ('[[mechanisms]]\nname = "uniform"\nsweep = { seed = [1, 2] }', "axis = 'seed'"),
        ('[[mechanisms]]\nname = "uniform"\nsweep = { gain = [1, 2] }', "axis = 'gain'"),
    ],
)
def test_what_tables_cannot_tell_apart_is_refused_and_not_averaged(more, why, tmp_path):
    spec = parse_spec(f"{TINY}\n{more}", "mine.toml")
    with pytest.raises(DataMarketError, match=why):
        run_experiment(spec, tmp_path / "mine")
    assert not (tmp_path / "mine" / "table.json").exists()


@pytest.mark.parametrize("what", ["tasks", "utilities"])
def test_tasks_and_utilities_that_are_there_twice_are_refused(what, tiny, tmp_path):
    twice = tiny.model_copy(update={what: [getattr(tiny, what)[0]] * 2})
    with pytest.raises(DataMarketError, match=f"two of its {what}"):
        run_experiment(twice, tmp_path / "mine")


def test_only_selects_attacks_and_mechanisms(tiny, tmp_path):
    some = tiny.model_copy(update={"only": "sybil*"})
    rows = run_experiment(some, tmp_path / "a")
    assert {row["attack"] for row in rows} == {"sybil_split_2"}
    none = tiny.model_copy(update={"only": "nobody"})
    with pytest.raises(DataMarketError, match="--only"):
        run_experiment(none, tmp_path / "b")


def test_ratio_of_means_and_near_zero_seeds():
    row = {"experiment": "x", "task": "t", "attack": "a", "mechanism": "m", "granularity": "unit",
           "representative": "identity", "gain_additive": 0.0}  # fmt: skip
    results = [
        {
            **row,
            "seed": 0,
            "honest_payment": 1.0,
            "attacked_payment": 2.0,
            "gain": 2.0,
            "near_zero": 0.0,
        },
        {
            **row,
            "seed": 1,
            "honest_payment": 0.001,
            "attacked_payment": 0.1,
            "gain": 100.0,
            "near_zero": 1.0,
        },
    ]
    rows = summarise(results)
    found = {r["metric"]: r["value"] for r in rows}
    assert found["gain"] == 2.0  # of the seed whose honest payment is clearly above zero
    assert found["gain_every_seed"] == 51.0
    assert found["gain_ratio_of_means"] == pytest.approx(2.1 / 1.001)
    assert next(r for r in rows if r["metric"] == "gain")["left_out"] == [1]


def test_s1_matches_the_paper_to_three_decimals(tmp_path):
    rows = run_experiment(builtin_specs()["s1"].model_copy(update={"seeds": 2}), tmp_path)
    held = [row for row in rows if row["paper"] is not None]
    assert len(held) == 10
    assert all(abs(row["value"] - row["paper"]) <= 0.0006 for row in held)
    additive = {
        (r["mechanism"], r["k"]): r["value"]
        for r in rows
        if r["task"] == "random_monotone" and r["metric"] == "gain_additive" and "n" not in r
    }
    assert all(additive["banzhaf", k] <= 1e-12 for k in (3, 4, 5, 6))


def test_s2_on_a_few_seeds_keeps_the_papers_ordering(tmp_path):
    """The full table (50 seeds) is run by `make slow`; here the structure and the theorem."""
    spec = builtin_specs()["s2"].model_copy(
        update={"seeds": 2, "utilities": builtin_specs()["s2"].utilities[:1]}
    )
    rows = run_experiment(spec, tmp_path)
    gain = {
        (r["attack"], r["mechanism"], r["representative"]): r["value"]
        for r in rows
        if r["metric"] == "gain"
    }
    for attack in ("exact_dup_2x_sybils", "near_duplicate_2x_sybils"):
        assert gain[attack, "shapley", "identity"] > 1.4
        assert gain[attack, "quotient_shapley/cosine@0.99", "identity"] < 1.1
    for evidence in ("oracle_latent", "oracle_source", "exact_hash", "cosine@0.99"):
        assert gain["exact_dup_2x_sybils", f"quotient_shapley/{evidence}", "collapse"] == 1.0
    assert gain["sybil_split_3", "quotient_shapley/oracle_latent", "identity"] == 1.0
    assert gain["sybil_split_3", "quotient_shapley/cosine@0.99", "identity"] > 1.3


@pytest.mark.parametrize("name", ["../../elsewhere", "/elsewhere", "", ".hidden", "a/b"])
def test_an_experiments_name_cannot_leave_the_folder_of_runs(name):
    with pytest.raises(DataMarketError, match="name"):
        parse_spec(f'name = "{name}"\ntitle = "t"', "my.toml")


PROGRAMS = {
    "by name": "[[mechanisms]]\nname = \"program(command='touch MARK')\"",
    "by its parts": '[[mechanisms]]\nname = "program"\nchanges = { command = "touch MARK" }',
    "by a sweep": '[[mechanisms]]\nname = "{a}"\nsweep = { a = ["program(command=\'touch MARK\')"] }',
    "in pieces": '[[mechanisms]]\nname = "pro{a}(command=\'touch MARK\')"\nsweep = { a = ["gram"] }',
}


@pytest.mark.parametrize("how", PROGRAMS)
def test_a_file_that_starts_programs_is_refused(how, tmp_path):
    """Nothing is started and nothing written; --allow-programs starts them (this one pays nobody)."""
    from typer.testing import CliRunner

    from datamarket_gym.cli.app import app

    file, mark = tmp_path / "stranger.toml", tmp_path / "mark"
    shared = TINY.split("[[mechanisms]]")[0].replace("seeds = 3", "seeds = 1")
    file.write_text(shared + PROGRAMS[how].replace("MARK", str(mark)))
    words = ["run", str(file), "--out", str(tmp_path / "out"), "--jobs", "1"]
    refused = CliRunner().invoke(app, words)
    assert isinstance(refused.exception, ProgramError)
    assert "--allow-programs" in str(refused.exception)
    assert not mark.exists()
    assert not (tmp_path / "out").exists()
    CliRunner().invoke(app, [*words, "--allow-programs"])
    assert mark.exists()


def test_a_cell_that_starts_a_program_is_refused_in_its_own_process(tmp_path):
    """Parts of a mechanism may be known in the cell alone."""
    text = TINY.split("[[mechanisms]]")[0] + PROGRAMS["by name"].replace("MARK", str(tmp_path / "mark"))
    spec = parse_spec(text, "tiny.toml")
    shared = replace(runner._shared(spec, "cpu", 1, None), programs=False)
    with pytest.raises(ProgramError, match="--allow-programs"):
        runner.cell(shared, spec.tasks[0], 0)
    assert not (tmp_path / "mark").exists()
