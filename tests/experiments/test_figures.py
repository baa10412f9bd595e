"""Every experiment has a figure that says what it shows: all of it, in words, with n and what bars mean."""

import html
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.errors import DataMarketError
from datamarket_gym.experiments import builtin_specs, parse_spec, run_experiment
from datamarket_gym.experiments.plotters import DotPanel, draw_dots, plotting
from datamarket_gym.experiments.presets import draw, presets
from datamarket_gym.experiments.tables import attack_words, mechanism_words, words
from repository import published

pytest.importorskip("matplotlib")
DOCS = Path(__file__).parents[2] / "docs"
KEPT = published()
ROWS = {name: one.rows for name, one in KEPT.items()}
COMPARE = [
    name
    for name in KEPT
    if name
    not in (
        "best-response",
        "predict-theta",
        "s1",
        "s3",
        "s5",
        "s6",
        "s11",
        "s12",
        "s12-dimensions",
        "s14",
        "ablation-noise",
        "frontier",
        "royalty",
    )
]
"""Experiments whose figure names several attacks. Of S11 the second does: tests/experiments/test_checks_figures.py. S14
is best responses all over, ``frontier`` shows the worst of all attacks, and ``royalty`` has one attack."""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """What is written on the figure of an experiment, as one line."""
    from matplotlib.figure import Figure

    out, texts, save = tmp_path_factory.mktemp("figures"), {}, Figure.savefig

    def saved(figure, *words, **options):
        save(figure, *words, **options)
        figure.set_layout_engine("none")  # laid out once, for the SVG that is read; the PNG keeps to it

    def text(name):
        if name not in texts:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Figure, "savefig", saved)
                svg, png = draw(name, ROWS[name], out, others=ROWS)
            assert png.read_bytes().startswith(b"\x89PNG")
            assert png.stat().st_size > 10_000
            texts[name] = written_on(svg)
        return texts[name]

    return text


def written_on(svg):
    found = re.findall(r"<text[^>]*>(.*?)</text>", svg.read_text(encoding="utf-8"), flags=re.DOTALL)
    return " ".join(" ".join(html.unescape(re.sub(r"<[^>]*>", " ", part)).split()) for part in found)


@pytest.mark.parametrize("name", sorted(KEPT))
def test_every_figure_says_n_and_what_bars_mean_in_words(name, drawn):
    text = drawn(name)
    assert re.search(r"n = \d+( to \d+)? seeds?\b", text)
    assert "standard error" in text or "standard errors" in text
    if name not in ("s1", "royalty"):  # games of their own have no market
        assert re.search(r"markets of \d+( to \d+)? providers", text)
    assert re.findall(r"\b[a-z0-9]+(?:_[a-z0-9]+)+\b", text) == []


@pytest.mark.parametrize("name", COMPARE)
def test_no_attack_is_left_out(name, drawn):
    gains = [row for row in ROWS[name] if row["metric"] == "gain"]
    for attack in dict.fromkeys(row["attack"] for row in gains if row["attack"] != "honest"):
        assert attack_words(attack) in drawn(name)


@pytest.mark.parametrize("name", ["s2", "s8", "s10", "best-response", "agnews", "stl10", "content-imdb"])
def test_no_mechanism_is_left_out(name, drawn):
    text = drawn(name)
    for mechanism in dict.fromkeys(row["mechanism"] for row in ROWS[name]):
        assert mechanism_words(mechanism) in text


def test_the_best_response_shows_tuned_and_fresh_gains_the_costs_and_the_attack(drawn):
    text = drawn("best-response")
    for said in (
        "attack tuned on this market", "same attack in a fresh market", "attacks are free",
        "a false name costs 0.1", "combined attack", "split",
    ):  # fmt: skip
        assert said in text


@pytest.mark.parametrize("name", ["agnews", "imdb", "cifar10", "stl10"])
def test_domains_mark_the_floors_and_the_predicted_threshold(name, drawn):
    text = drawn(name)
    for quantity in ("pairwise floor", "chaining floor at 0.10"):
        (row,) = [r for r in ROWS["predict-theta"] if r["task"] == name and r["quantity"] == quantity]
        assert f"{quantity}: {row['value']:.2f}" in text
    thetas = {row["theta"] for row in ROWS[name] if row["mechanism"] == "units/predicted"}
    assert thetas
    assert all(f"predicted threshold {theta:g}" in text for theta in thetas)


def test_a_value_far_off_is_written_at_the_edge():
    rows = [
        {"attack": f"a{i}", "mechanism": m, "value": v, "se": 0.01, "paper": None}
        for i, values in enumerate([(1.0, 1.2), (1.1, 50.0), (0.9, -40.0), (1.3, 1.4)])
        for m, v in zip(("shapley", "mine"), values, strict=True)
    ]
    with plotting() as plt:
        figure, axis = plt.subplots()
        draw_dots(axis, DotPanel("", "attack", "mechanism", rows))
        low, high = axis.get_xlim()
        assert -2 < low < 0.9
        assert 1.4 < high < 5
        assert {text.get_text() for text in axis.texts} == {"mine 50 ± 0.01 →", "← mine -40 ± 0.01"}
        plt.close(figure)


def test_dots_of_a_row_are_not_covered_by_what_is_written_at_its_edge():
    rows = [
        {"attack": "theft", "mechanism": m, "value": v, "se": 0.01, "paper": None}
        for m, v in (("shapley", 1.0), ("mine", 3.5), ("theirs", 9.0), ("ours", 1.1), ("yours", 1.2))
    ]
    with plotting() as plt:
        figure, axis = plt.subplots()
        draw_dots(axis, DotPanel("", "attack", "mechanism", rows))
        (text,) = axis.texts
        left = text.get_window_extent(figure.canvas.get_renderer()).x0
        assert axis.transData.transform((3.5, 0))[0] < left
        plt.close(figure)


def test_results_that_do_not_say_what_others_lose_are_refused(tmp_path):
    rows = [row for row in ROWS["s10"] if row["metric"] != "victim_loss"]
    with pytest.raises(DataMarketError, match=r"no victim_loss.*run the whole experiment"):
        draw("s10-losses", rows, tmp_path)


def test_gains_stand_beside_losses_for_every_attack(tmp_path):
    svg, _ = draw("s10-losses", ROWS["s10"], tmp_path)
    text = written_on(svg)
    for row in ROWS["s10"]:
        if row["metric"] == "victim_loss":
            assert attack_words(row["attack"]) in text
    assert text.count("victim's loss (largest)") == 2  # one for each market


def test_names_are_titles_and_unknown_ones_stay():
    assert attack_words("near_duplicate_2x_sybils") == "near copies under new identities"
    assert attack_words("near_duplicate_2x_sybils@0.5") == "near copies under new identities, sigma 0.5"
    assert attack_words("sybil_split_3") == "split over several identities, k 3"
    assert attack_words("image_crop_2") == "image crop 2"
    assert attack_words("my-attack@3") == "my-attack@3"
    assert (
        mechanism_words("quotient_shapley/cosine@0.99") == "quotient Shapley, cosine similarity (0.99)"
    )
    assert mechanism_words("baseline@pydvl-beta_shapley") == "Beta Shapley by pyDVL"
    assert mechanism_words("my-rule/cosine") == "my-rule, cosine similarity"
    assert words("representative", "capped@30") == "at most so many units a cluster (30)"
    assert words("task", "synthetic, times equal") == "synthetic market (times equal)"
    assert words("my_axis", 3) == "my_axis = 3"


def test_the_same_rows_give_the_same_file(tmp_path):
    first = [f.read_bytes() for f in draw("s4", ROWS["s4"], tmp_path / "a")]
    again = [f.read_bytes() for f in draw("s4", ROWS["s4"], tmp_path / "b")]
    assert first == again


def test_every_experiment_with_results_has_a_figure_of_its_own_on_the_page():
    assert set(KEPT) <= {figure.of for figure in presets().values()} <= set(builtin_specs())
    for name, figure in presets().items():
        page = (DOCS / "results" / f"{figure.of}.md").read_text(encoding="utf-8")
        assert f"figures/{name}.svg" in page
        assert (DOCS / "figures" / f"{name}.svg").exists()


OWN = """
name = "own"
title = "An experiment of my own"
seeds = 3
tasks = [{ task = "synthetic(n_providers=3, per_provider=8, validation=30)" }]
utilities = [{ learner = "knn@3", empty = "chance" }]
attacks = ["sybil_split_k@2", "copycat"]

[[mechanisms]]
name = "shapley"
label = "my_name_for_it"

[[mechanisms]]
name = "quotient_shapley/cosine@{theta}"
label = "quotient_shapley/cosine"
sweep = { theta = [0.9, 0.99] }
"""


def test_one_draws_ones_own_experiments(tmp_path):
    spec = parse_spec(OWN, "own.toml")
    run_experiment(spec, tmp_path / "runs" / "own")
    found = CliRunner().invoke(app, ["figures", str(tmp_path / "runs" / "own")])
    assert found.exit_code == 0, found.output
    assert found.output.split() == [str(tmp_path / "runs" / "own" / f"own.{e}") for e in ("svg", "png")]
    text = written_on(tmp_path / "runs" / "own" / "own.svg")
    for said in (
        "own: An experiment of my own", "n = 3 seeds", "markets of 3 providers with 8 units each",
        "split over several identities, k 2", "copies of another's units", "my name for it",
        "quotient Shapley, cosine similarity, threshold 0.9",
        "quotient Shapley, cosine similarity, threshold 0.99",
    ):  # fmt: skip
        assert said in text
    # A whole folder of runs, into a folder of one's choice; a changed built-in experiment is one's own too.
    changed = spec.model_copy(update={"name": "s4"})
    run_experiment(changed, tmp_path / "runs" / "s4")
    found = CliRunner().invoke(
        app, ["figures", str(tmp_path / "runs"), "--out", str(tmp_path / "figures")]
    )
    assert found.exit_code == 0, found.output
    assert {p.name for p in (tmp_path / "figures").iterdir()} == {
        "own.svg",
        "own.png",
        "s4.svg",
        "s4.png",
    }
    assert "my name for it" in written_on(tmp_path / "figures" / "s4.svg")


def test_many_mechanisms_get_a_row_each(tmp_path):
    rows = [
        {
            "attack": attack,
            "mechanism": f"rule-{i}",
            "metric": "gain",
            "value": 1.0 + i,
            "se": 0.1,
            "seeds": 4,
        }
        for attack in ("copycat", "honest")
        for i in range(12)
    ]
    svg, _ = draw("own", rows, tmp_path)
    text = written_on(svg)
    assert all(f"rule-{i}" in text for i in range(12))
    assert "copies of another's units" in text


def test_cells_without_a_gain_are_named(tmp_path):
    """A gain over an honest payment of nothing is none: the row has no value, or none is written."""
    lost = [row for row in ROWS["s2"] if row["metric"] == "gain" and row["mechanism"] == "loo"]
    rows = [{**row, "value": None, "seeds": 0} if row in lost[:2] else row for row in ROWS["s2"]]
    rows = [{k: v for k, v in row.items() if k != "value" or row is not lost[2]} for row in rows]
    svg, _ = draw("s2", rows, tmp_path)
    text = written_on(svg)
    assert "not shown, honest pay is nowhere clearly above zero: leave-one-out (3 cells)" in text
    assert re.search(r"n = (\d+ to )?50 seeds", text)


def test_without_matplotlib_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DataMarketError, match=r"datamarket-gym\[figures\]"):
        draw("s4", ROWS["s4"], tmp_path)
