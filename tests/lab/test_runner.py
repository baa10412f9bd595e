import json

import pyarrow.parquet as pq
import pytest

from datamarket_gym.core.errors import DataMarketError, ParameterError
from datamarket_gym.lab import builtin_specs, parse_spec, run_experiment, runner
from datamarket_gym.lab.summary import summarise

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
    other = tiny.model_copy(update={"seeds": 4})
    with pytest.raises(DataMarketError, match="holds another experiment"):
        run_experiment(other, tmp_path)


def test_bad_specs_name_the_key():
    with pytest.raises(ParameterError, match="atacks"):
        parse_spec('name = "x"\ntitle = "y"\natacks = []', "x.toml")
    with pytest.raises(DataMarketError, match="not valid TOML"):
        parse_spec("name = ", "x.toml")


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
