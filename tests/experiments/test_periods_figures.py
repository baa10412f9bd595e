"""The figures of S12 show copies by their noise on every domain, in words, and say what is left to the tables."""

import html
import itertools
import re

import pytest

from datamarket_gym.errors import DataMarketError
from datamarket_gym.experiments import builtin_specs
from datamarket_gym.experiments.presets import draw, figures_of, presets

pytest.importorskip("matplotlib")
SERIES = presets()["s12"].figure.words["acquired mechanism"]
THEFTS = [theft["called"] for theft in builtin_specs()["s12"].options["thefts"]]


def rows():
    asked = itertools.product(
        ("synthetic", "stl10"), ("newcomers", "continuing"), ("recommended", "knn"), map(str.split, SERIES), THEFTS,
        (0.0, 1.0), ("gain", "victim_loss"),
    )  # fmt: skip
    return [
        {
            "experiment": "s12", "metric": metric, "learner": learner, "empty": "none", "attack": attack,
            "task": "stl10(partition=iid)" if task == "stl10" and learner == "knn" else task,
            "mechanism": mechanism, "layout": layout, "acquired": acquired, "noise": noise,
            "value": 1.0 + noise if metric == "gain" else 0.2 * noise, "se": 0.01, "seeds": 10,
            "paper": None, "tolerance": None, "within": None,
        }
        for task, layout, learner, (acquired, mechanism), attack, noise, metric in asked
        if metric == "gain" or layout == "continuing"
    ]  # fmt: skip


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    out, found = tmp_path_factory.mktemp("figures"), {}
    for name in figures_of("s12"):
        svg, png = draw(name, rows(), out, title="S12")
        assert png.stat().st_size > 10_000
        parts = re.findall(r"<text[^>]*>(.*?)</text>", svg.read_text(encoding="utf-8"), flags=re.DOTALL)
        found[name] = " ".join(
            " ".join(html.unescape(re.sub(r"<[^>]*>", " ", part)).split()) for part in parts
        )
    return found


def test_both_say_n_the_errors_the_four_lines_and_no_identifiers(texts):
    assert set(texts) == {"s12", "s12-victims"}
    assert figures_of("s12-dimensions") == ["s12-dimensions"]
    for text in texts.values():
        assert "n = 10 seeds" in text
        assert "standard error" in text
        assert all(words in text for words in SERIES.values())
        assert re.findall(r"\b[a-z0-9]+(?:_[a-z0-9]+)+\b", text) == []


def test_there_is_a_panel_for_every_domain_utility_and_layout(texts):
    gains, victims = texts["s12"], texts["s12-victims"]
    assert gains.count("synthetic market") == 4
    assert gains.count("STL-10") == 4
    assert victims.count("synthetic market") == 2  # newcomers have no victims who sell
    for said in ("newcomers, recommended coverage", "continuing, 5-NN over chance", "dotted: 1.05"):
        assert said in gains
    assert "dotted: 2%" in victims


def test_results_without_copies_are_refused(tmp_path):
    without = [row for row in rows() if row["attack"] != "copies"]
    for name in figures_of("s12"):
        with pytest.raises(DataMarketError, match=r"no (gain|victim_loss), attack copies"):
            draw(name, without, tmp_path)


def test_dimensions_are_told_apart_by_their_lines(tmp_path):
    of = {"layout": "newcomers", "learner": "recommended", "task": "synthetic"}
    shown = [
        {**row, "experiment": "s12-dimensions", "dimensions": d, "value": 1.0 + row["noise"] / d}
        for row in rows()
        if row["metric"] == "gain" and all(row[key] == value for key, value in of.items())
        for d in (12, 384)
    ]
    svg, _ = draw("s12-dimensions", shown, tmp_path)
    text = svg.read_text(encoding="utf-8")
    assert all(
        words in text
        for words in ("12 features", "384 features", "previously acquired data, no lineage")
    )
