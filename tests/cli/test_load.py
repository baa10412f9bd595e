"""Plug points of one's own on the command line: a Python file named by --load."""

import json
import os
import subprocess
import sys

import pytest

from datamarket_gym.errors import DataMarketError
from datamarket_gym.registry import load

SCRIPT = '''
from helper_of_mine import PRICE
from datamarket_gym import register

@register("mechanism", "by_the_unit")
class ByTheUnit:
    """The same for every unit."""

    def pay(self, submission, utility):
        return {name: PRICE * (submission.identity == name).sum() for name in submission.identities}
'''
EXPERIMENT = """
name = "mine"
title = "Mine"
seeds = 2
tasks = [{ task = "synthetic(n_providers=3, per_provider=8, validation=30)" }]
utilities = [{ learner = "knn@3", empty = "chance" }]
attacks = ["sybil_split_k@2", "exact_dup_2x_sybils@1.0"]
[[mechanisms]]
name = "by_the_unit"
"""


def datamarket(folder, *arguments):
    return subprocess.run(
        # -P: as for the installed command, the working directory is no place to import from
        [sys.executable, "-P", "-c", "from datamarket_gym.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "COLUMNS": "80"},
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine_alone.py").write_text(SCRIPT)
    (tmp_path / "helper_of_mine.py").write_text("PRICE = 0.01\n")
    (tmp_path / "my.toml").write_text(EXPERIMENT)
    return tmp_path


def test_a_mechanism_of_one_file_runs_in_an_experiment_in_several_processes(folder):
    done = datamarket(folder, "run", "my.toml", "--load", "mine_alone.py", "--jobs", "2", "--out", "x")
    assert done.returncode == 0, done.stderr
    rows = json.loads((folder / "x" / "table.json").read_text())
    gains = {row["attack"]: row["value"] for row in rows if row["metric"] == "gain"}
    assert gains == pytest.approx({"sybil_split_2": 1.0, "exact_dup_2x_sybils": 3.0})
    # Other code on the same folder is refused, a helper's too.
    (folder / "helper_of_mine.py").write_text("PRICE = 0.02\n")
    more = ("--seeds", "3", "--jobs", "1", "--out", "x")
    again = datamarket(folder, "run", "my.toml", "--load", "mine_alone.py", *more)
    assert again.returncode != 0
    assert "--out" in again.stderr


@pytest.mark.parametrize("tables", ["", '[[tables]]\nmetric = "gain"\n'])
def test_it_stands_in_one_table_with_ours(folder, tables):
    more = '[[mechanisms]]\nname = "shapley"\n[[mechanisms]]\nname = "recommended"\n'
    (folder / "my.toml").write_text(EXPERIMENT + more + tables)
    done = datamarket(folder, "run", "my.toml", "--load", "mine_alone.py", "--jobs", "1")
    assert done.returncode == 0, done.stderr
    heads = [line.split() for line in done.stdout.splitlines() if line.startswith("attack ")]
    assert heads[0] == ["attack", "by_the_unit", "shapley", "recommended"]
    assert "Figure: datamarket figures runs/mine" in done.stdout


def test_list_names_it(folder):
    done = datamarket(folder, "list", "mechanism", "--load", "mine_alone.py")
    assert "by_the_unit" in done.stdout
    assert "by_the_unit" not in datamarket(folder, "list", "mechanism").stdout


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("absent.py", None, "there is no Python file"),
        ("mine.txt", "", "ends in .py"),
        ("my-market.py", "", "letters, digits and _"),
        ("numpy.py", "", "rename it"),
        ("broken_one.py", "import no_such_library", "no_such_library"),
    ],
)
def test_what_cannot_be_loaded_is_said_in_a_line(folder, name, text, says):
    if text is not None:
        (folder / name).write_text(text)
    with pytest.raises(DataMarketError, match=says) as error:
        load([folder / name])
    assert "\n" not in str(error.value)
