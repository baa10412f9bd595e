"""Baselines as mechanisms: environments, messages where one is absent, and equality with our own mechanisms."""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from itertools import chain, combinations
from pathlib import Path

import numpy as np
import pytest

from datamarket_gym import ProviderMarket, Synthetic, Utility, create
from datamarket_gym.benchmark.baselines import environments
from datamarket_gym.benchmark.baselines.environments import (
    BASELINES,
    RECORD,
    BaselinePackage,
    install,
    installed,
    python_of,
)
from datamarket_gym.benchmark.baselines.program import LEARNS, VALUATORS, Baseline
from datamarket_gym.benchmark.baselines.protocol import write_market
from datamarket_gym.errors import (
    DataMarketError,
    MissingBaselineError,
    MissingBaselineWarning,
    ParameterError,
    UnknownNameError,
)
from datamarket_gym.experiments import parse_spec, run_experiment
from datamarket_gym.experiments.runner import present
from datamarket_gym.experiments.spec import builtin_specs
from datamarket_gym.mechanism import as_mechanism, get_mechanism
from datamarket_gym.mechanism.own_mechanism import worth
from datamarket_gym.registry import written

SCRIPTS = Path(environments.__file__).parent / "scripts"


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("DATAMARKET_BASELINES", str(tmp_path / "the baselines"))
    return tmp_path / "the baselines"


@pytest.fixture(scope="module")
def market():
    return ProviderMarket.from_task(Synthetic(n_providers=3, per_provider=12, validation=40), 2)


def subsets(players):
    """Every coalition but the empty one."""
    return chain.from_iterable(combinations(players, size) for size in range(1, len(players) + 1))


def fake(folder, name, script):
    """An environment whose Python is ours and runs another script in the stead of the baseline's."""
    place = folder / name
    (place / "bin").mkdir(parents=True)
    python = place / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$5" "$6"\n')
    python.chmod(0o755)
    (place / RECORD).write_text(json.dumps({"baseline": name, "version": "0", "python": "3"}))


def test_an_absent_baseline_is_an_error_with_the_line_that_installs_it(nowhere, market):
    for name in BASELINES:
        assert installed(name) is None
        with pytest.raises(MissingBaselineError, match=f"datamarket baselines install {name}$"):
            python_of(name)
    with pytest.raises(MissingBaselineError, match="datamarket baselines install shapiq"):
        Baseline("shapiq-shapley").pay(market.honest.submission, market.utility_oracle())


def test_baselines_are_mechanisms_by_name():
    for valuator in VALUATORS:
        made = create("mechanism", f"baseline@{valuator}")
        assert made == Baseline(valuator)
        assert written(made) == f"baseline@{valuator}"
        assert as_mechanism(made).name == f"baseline@{valuator}"
    with pytest.raises(UnknownNameError, match="did you mean pydvl-shapley"):
        Baseline("pydvl-shaply")
    with pytest.raises(UnknownNameError, match="baseline"):
        install("numpy")


def test_every_baseline_has_its_script_and_every_script_its_valuators():
    for name, baseline in BASELINES.items():
        text = (SCRIPTS / f"{name}_baseline.py").read_text()
        told = text[text.index("\npay(") :]
        assert [way for way in ("shapley", "banzhaf", "knn5") if f'"{way}":' in told] == list(
            baseline.valuators
        )


def test_a_baseline_runs_the_python_of_its_environment(nowhere, market):
    fake(nowhere, "shapiq", Path(__file__).parent / "pays_by_units.py")
    assert Baseline("shapiq-banzhaf").version == "0"
    paid = as_mechanism(Baseline("shapiq-banzhaf")).pay(
        market.honest.submission, market.utility_oracle()
    )
    assert paid.totals == pytest.approx([1 / 3] * 3)
    assert paid.evaluations == 0
    with pytest.raises(ParameterError, match="baseline@shapiq-banzhaf pays by logistic, coverage, knn"):
        Baseline("shapiq-banzhaf").pay(market.honest.submission, market.utility_oracle(Utility("ridge")))
    fake(nowhere, "pydvl", Path(__file__).parent / "pays_by_units.py")
    with pytest.raises(ParameterError, match="baseline@pydvl-knn5 pays by knn, knn@5"):
        Baseline("pydvl-knn5").pay(market.honest.submission, market.utility_oracle(Utility("coverage")))


@pytest.mark.parametrize("learner", LEARNS["shapley"])
@pytest.mark.parametrize("task", ["synthetic", "breast_cancer", "digits"])
def test_scripts_value_coalitions_as_we_do(task, learner, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    market_files = importlib.import_module("market_files")
    drawn = ProviderMarket.from_task(task, 1)
    copied = create("attack", "near_duplicate_2x_sybils@0").apply(0, drawn.state).submission
    few = copied.take(np.isin(copied.identity, copied.identities[:4]))
    oracle = drawn.utility_oracle(Utility.paying(learner))
    write_market(tmp_path, few, oracle)
    read = market_files.Market(tmp_path)
    assert read.worth([]) == read.empty == oracle.empty_value
    names = few.identities.tolist()
    for chosen in subsets(range(len(names))):
        mine = few.take(np.isin(few.identity, [names[i] for i in chosen]))
        theirs = read.worth([read.players.tolist().index(names[i]) for i in chosen])
        assert theirs - read.empty == pytest.approx(worth(mine, oracle), abs=1e-12)
    assert read.evaluations == 2 ** len(names) - 1


def test_an_installation_is_there_when_its_record_is(nowhere, monkeypatch):
    told, done = [], []

    def run(words, what):
        done.append(words)
        if words[1:3] == ["-m", "venv"]:
            Path(words[3]).mkdir()
        if "broken==1" in words:
            raise DataMarketError(f"{what}: no such version")
        return '{"python": "3.12.1", "version": "9.9"}'

    monkeypatch.setattr(environments, "_run", run)
    monkeypatch.setitem(BASELINES, "pydvl", BaselinePackage("pydvl", ("a==1 b<2", "c"), ("shapley",)))
    record = install("pydvl", say=told.append)
    assert [words[6:] for words in done[1:3]] == [["a==1", "b<2"], ["c"]]
    assert record == installed("pydvl")
    assert (record["version"], record["python"]) == ("9.9", "3.12.1")
    assert told[0].startswith("pydvl: an environment with")
    assert told[1:] == ["pydvl: pip install a==1 b<2", "pydvl: pip install c"]
    monkeypatch.setitem(BASELINES, "pydvl", BaselinePackage("pydvl", ("broken==1",), ("shapley",)))
    with pytest.raises(
        DataMarketError, match="broken==1 cannot be installed for pydvl: no such version"
    ):
        install("pydvl", say=told.append)
    assert installed("pydvl") is None  # what was there was of other requirements


def test_requirements_follow_the_python_of_the_environment(tmp_path):
    here, python = sys.version_info.minor, Path(sys.executable)
    requirements_on = environments._requirements_on
    newer = BaselinePackage("x", ("new",), (), here + 1, otherwise=("any",))
    assert requirements_on(BaselinePackage("x", ("a",), ()), python) == ("a",)
    assert requirements_on(newer, python) == ("any",)
    with pytest.raises(DataMarketError, match="name one with --python"):
        requirements_on(BaselinePackage("x", ("a",), (), newest=here - 1), python)
    with pytest.raises(DataMarketError, match="no Python 3 that runs"):
        requirements_on(newer, tmp_path / "python")


SMALL = """
name = "small"
title = "Small"
kind = "baselines"
seeds = 1
tasks = [{ task = "synthetic(n_providers=3, per_provider=10, validation=30)" }]
utilities = [{ empty = "none" }, { learner = "coverage" }]
attacks = ["honest", "sybil_split_k@2"]
called = { "sybil_split_k@2" = "split" }
[options]
learners = { "recommended" = "coverage", "*" = "logistic" }
fair = { "*banzhaf" = "quotient_banzhaf/oracle_latent", "*" = "quotient_shapley/oracle_latent" }
[[mechanisms]]
name = "shapley"
[[mechanisms]]
name = "baseline@shapiq-shapley"
[[mechanisms]]
name = "baseline@datascope-shapley"
[[mechanisms]]
name = "recommended"
"""


def test_absent_baselines_are_left_out_and_it_is_said_and_kept(nowhere, tmp_path):
    fake(nowhere, "datascope", Path(__file__).parent / "pays_by_units.py")
    spec = parse_spec(SMALL, "small.toml")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run_experiment(spec, tmp_path / "run")
    [told] = [str(each.message) for each in caught if each.category is MissingBaselineWarning]
    line = "the baseline shapiq is not installed here; datamarket baselines install shapiq"
    assert told == f"baseline@shapiq-shapley: {line}"
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert [
        "MissingBaselineWarning",
        "baseline@shapiq-shapley",
        line,
    ] in manifest["warnings"]
    rows = json.loads((tmp_path / "run" / "table.json").read_text())
    assert {row["mechanism"] for row in rows} == {"shapley", "baseline@datascope-shapley", "recommended"}
    assert {row["learner"] for row in rows if row["mechanism"] == "recommended"} == {"coverage"}
    found = {(row["metric"], row["mechanism"], row["attack"]): row["value"] for row in rows}
    assert found["gain", "baseline@datascope-shapley", "honest"] == 1.0
    assert found["gain", "baseline@datascope-shapley", "split"] == pytest.approx(1.0)
    assert found["oracle_l1", "baseline@datascope-shapley", "honest"] > 0
    assert found["oracle_l1", "shapley", "honest"] == 0
    assert found["asked", "shapley", "split"] == 2**4 - 1
    assert found["seconds", "baseline@datascope-shapley", "honest"] > 0
    # Installed later, it is another experiment: the folder is refused and never mixed.
    fake(nowhere, "shapiq", Path(__file__).parent / "pays_by_units.py")
    with pytest.raises(DataMarketError, match="choose another"):
        run_experiment(spec, tmp_path / "run")


def test_the_experiment_names_every_baseline_that_values_identities(nowhere):
    spec = builtin_specs()["baselines"]
    named = {entry.name for entry in spec.mechanisms if entry.name.startswith("baseline@")}
    assert named == {f"baseline@{valuator}" for valuator, (_, way) in VALUATORS.items() if way != "knn5"}
    s2 = builtin_specs()["s2"]
    assert spec.attacks == s2.attacks
    left, told = present(spec)
    assert {name for _, name, _ in told} == {"baseline@pydvl-shapley", "baseline@shapiq-shapley"} | {
        "baseline@datascope-shapley",
        "baseline@opendataval-shapley",
    }
    assert {entry.name for entry in left.mechanisms} == {
        "shapley", "banzhaf", "quotient_shapley/oracle_latent", "recommended",
    }  # fmt: skip


def test_players_stand_in_the_order_of_what_they_submitted(tmp_path, monkeypatch, market):
    """Of many players baselines sample: who is drawn when has nothing to do with names."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    market_files = importlib.import_module("market_files")
    units, oracle = market.honest.submission, market.utility_oracle(Utility("knn"))
    names = dict(zip(units.identities.tolist(), units.identities[::-1].tolist(), strict=True))
    swapped = np.array([names[name] for name in units.identity.tolist()])
    players = []
    for each in (units, units.take(np.arange(len(units)), {"identity": swapped})):
        write_market(tmp_path, each, oracle)
        read = market_files.Market(tmp_path)
        assert read.players[read.player].tolist() == each.identity.tolist()
        players.append(read.players.tolist())
    assert players[1] == [names[name] for name in players[0]]


@pytest.mark.parametrize("valuator", VALUATORS)
@pytest.mark.parametrize("learner", ["logistic", "coverage", "knn"])
@pytest.mark.slow
def test_a_baseline_pays_what_ours_pays(market, valuator, learner):
    name, way = VALUATORS[valuator]
    try:
        python_of(name)
    except MissingBaselineError as error:
        pytest.skip(str(error))
    if way == "knn5":
        pytest.skip("its U divides by k among fewer rows, as the benchmark of the engine does")
    oracle = market.utility_oracle(Utility.paying(learner))
    split = create("attack", "sybil_split_k@2").apply(0, market.state).submission
    theirs = Baseline(valuator).pay(split, oracle)
    ours = get_mechanism(way).pay(split, oracle)
    sampled = 0.02 if name == "opendataval" else 1e-9
    assert theirs.totals == pytest.approx(ours.totals, abs=sampled)
    assert theirs.evaluations == 2 ** len(split.identities) - 1
    assert np.isfinite(theirs.computing)
    many = create("attack", "sybil_split_k@10").apply(0, market.state).submission
    if learner == "coverage":  # of so many players they sample, and we do not
        assert len(many.identities) > 10
        theirs, ours = (
            Baseline(valuator).pay(many, oracle),
            get_mechanism(way, samples=4000).pay(many, oracle),
        )
        assert theirs.totals == pytest.approx(ours.totals, abs=0.03)
