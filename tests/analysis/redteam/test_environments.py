"""Environments are found by name, and say what to install where the extra ``gym`` is missing."""

import subprocess
import sys

import pytest

from datamarket_gym.analysis.redteam import best_response

WRITTEN_FOR = {"gymnasium": "gymnasium_env", "pettingzoo": "pettingzoo_env"}


def in_a_new_process(code):
    subprocess.run(
        [sys.executable, "-W", "error", "-c", code], check=True, capture_output=True, timeout=120
    )


def test_gymnasium_finds_the_environment_by_its_id_alone():
    pytest.importorskip("gymnasium")
    in_a_new_process(
        "import gymnasium\n"
        "env = gymnasium.make('datamarket_gym.envs:DataMarket/Attack-v0')\n"
        "assert gymnasium.make('DataMarket/Attack-v0').spec.id == env.spec.id == 'DataMarket/Attack-v0'\n"
    )


def test_pettingzoo_finds_the_environment_once_the_package_is_imported():
    pytest.importorskip("pettingzoo")
    in_a_new_process(
        "import datamarket_gym.envs, pettingzoo\n"
        "from pettingzoo.test import parallel_api_test\n"
        "env = pettingzoo.make('parallel', 'DataMarket/MultiAttacker-v0', checks=0)\n"
        "assert isinstance(env, datamarket_gym.envs.ParallelMarketEnv)\n"
        "parallel_api_test(env, num_cycles=2)\n"
    )


@pytest.mark.parametrize(
    ("hidden", "module", "name"),
    [
        ("gymnasium", "datamarket_gym.analysis.redteam", "AttackEnv"),
        ("pettingzoo", "datamarket_gym.analysis.redteam", "ParallelMarketEnv"),
        ("gymnasium", "datamarket_gym.envs", "AttackEnv"),
        ("pettingzoo", "datamarket_gym.envs", "parallel_env"),
    ],
)
def test_a_missing_extra_is_an_import_error_that_says_what_to_install(monkeypatch, hidden, module, name):
    monkeypatch.delitem(sys.modules, "datamarket_gym.envs", raising=False)
    monkeypatch.delitem(
        sys.modules, f"datamarket_gym.analysis.redteam.{WRITTEN_FOR[hidden]}", raising=False
    )
    monkeypatch.setitem(sys.modules, hidden, None)
    with pytest.raises(ImportError, match=rf"{hidden}.*pip install 'datamarket-gym\[gym\]'"):
        exec(f"from {module} import {name}")


def test_everything_else_is_there_without_the_extra():
    in_a_new_process(
        "import sys\n"
        "sys.modules |= dict.fromkeys(['gymnasium', 'pettingzoo', 'optuna'])\n"
        "from datamarket_gym.analysis import redteam\n"
        "for name in redteam.__all__:\n"
        "    if name not in ('AttackEnv', 'ParallelMarketEnv'):\n"
        "        assert getattr(redteam, name)\n"
        "assert not hasattr(redteam, 'Attackenv')\n"
    )


def test_a_missing_optimiser_is_an_import_error_too(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r"optuna.*pip install 'datamarket-gym\[gym\]'"):
        best_response(None, optimiser="optuna")
