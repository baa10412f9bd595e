"""examples/train_attacker.py learns: what is trained gains more than what is random; the page shows what it prints."""

import re
import runpy
import sys
import time

import pytest

from repository import ROOT

gymnasium = pytest.importorskip("gymnasium")
FILE = ROOT / "examples" / "train_attacker.py"
ROW = re.compile(r"^(\S.*?)  +(-?\d\.\d\d) ± \d\.\d\d +(-?\d\.\d\d) ± \d\.\d\d$", re.M)


def table(text):
    return {name: (float(random), float(trained)) for name, random, trained in ROW.findall(text)}


def test_it_trains_in_under_a_minute_of_one_core_and_gains_more_than_chance(
    monkeypatch, capsys, tmp_path
):
    drawn = tmp_path / "rewards.png"
    figure = []
    try:
        import matplotlib

        matplotlib.use("Agg")
        figure = ["--figure", str(drawn)]
    except ImportError:
        pass
    monkeypatch.setattr(sys, "argv", [str(FILE), *figure])
    began = time.process_time()
    runpy.run_path(str(FILE), run_name="__main__")
    assert time.process_time() - began < 60
    printed = capsys.readouterr().out
    found = table(printed)
    assert len(found) == printed.count("best attack found:") == 4
    for line in re.findall(r"reward by iteration: (.*)", printed):
        rewards = [float(each) for each in line.split()]
        assert len(rewards) == 12
        assert rewards[-1] > rewards[0]
    for random, trained in found.values():
        assert trained > random + 0.1
    page = table((ROOT / "docs" / "environments.md").read_text(encoding="utf-8"))
    assert page.keys() == found.keys()
    for name, numbers in page.items():
        assert numbers == pytest.approx(
            found[name], abs=0.1
        )  # other releases of NumPy may round otherwise
    assert drawn.exists() == bool(figure)


def test_the_same_seed_trains_the_same_attacker():
    example = runpy.run_path(str(FILE))
    env = gymnasium.make(example["ENVIRONMENT"], mechanism_name="shapley", checks=0)
    first, again = (example["train"](env, iterations=2, population=8, seed=3) for _ in range(2))
    other = example["train"](env, iterations=2, population=8, seed=4)
    assert first.rewards == again.rewards != other.rewards
    assert first.attack == again.attack
