"""Every figure draws from the committed results, and the same rows give the same file."""

import sys
from pathlib import Path

import pytest

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.lab import builtin_specs
from datamarket_gym.lab.figures import draw, drawers
from datamarket_gym.lab.results import read_all

pytest.importorskip("matplotlib")
DOCS = Path(__file__).parents[2] / "docs"
KEPT = {one.spec.name: one for one in read_all(DOCS / "results")}


@pytest.mark.parametrize("name", sorted(drawers()))
def test_every_figure_draws(name, tmp_path):
    svg, png = draw(name, KEPT[name].rows, tmp_path)
    assert svg.read_text(encoding="utf-8").startswith("<?xml")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert png.stat().st_size > 10_000
    assert {p.name for p in tmp_path.iterdir()} == {svg.name, png.name}


def test_the_same_rows_give_the_same_file(tmp_path):
    first = [f.read_bytes() for f in draw("s4", KEPT["s4"].rows, tmp_path / "a")]
    again = [f.read_bytes() for f in draw("s4", KEPT["s4"].rows, tmp_path / "b")]
    assert first == again


def test_every_figure_belongs_to_an_experiment_and_is_in_the_docs():
    assert set(drawers()) <= set(builtin_specs())
    for name in drawers():
        for suffix in (".svg", ".png"):
            assert (DOCS / "figures" / f"{name}{suffix}").exists()


def test_an_experiment_without_a_figure_draws_none(tmp_path):
    assert draw("s8-sampled", [], tmp_path) == []


def test_rows_of_a_partial_run_are_refused(tmp_path):
    rows = [r for r in KEPT["s4"].rows if r["mechanism"] != "shapley"]
    with pytest.raises(DataMarketError, match="--only"):
        draw("s4", rows, tmp_path)


def test_without_matplotlib_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DataMarketError, match=r"datamarket-gym\[figures\]"):
        draw("s4", KEPT["s4"].rows, tmp_path)
