"""Plots of results by either library: eight figures of real results, and what both have in common."""

import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from datamarket_gym import (
    Clusters,
    EvidenceGraph,
    ProviderMarket,
    Synthetic,
    create,
    get_mechanism,
    predict_theta,
)
from datamarket_gym.analysis.redteam import audit
from datamarket_gym.errors import DataMarketError
from datamarket_gym.evidence import Edges
from datamarket_gym.evidence.threshold import Threshold
from datamarket_gym.plots import plot_clusters, plot_intervals, plot_pairs, plot_thresholds

LIBRARIES = ("matplotlib", "plotly")
ATTACKS = "sybil_split_k,copycat,composite,exact_dup_2x_sybils"


@pytest.fixture(scope="module")
def market():
    return ProviderMarket.from_task(Synthetic(n_providers=6, per_provider=25, validation=150), 0, "knn")


@pytest.fixture(scope="module")
def results(market):
    """What is plotted: values with standard errors, an audit, clusters of an attacked market, a threshold."""
    oracle, state = market.utility_oracle(), market.state
    paid = get_mechanism("shapley", estimator="permutation", samples=30).pay(
        state.honest.submission, oracle
    )
    attacked = create("attack", "composite(copy_sigma=0.1, steal_sigma=0.1, names=1)").apply(2, state)
    return {
        "intervals": paid,
        "pairs": audit(
            state,
            get_mechanism("shapley"),
            oracle,
            providers=2,
            only="sybil_split_k,copycat,composite,exact_dup_2x_sybils",
        ),
        "clusters": EvidenceGraph.build(attacked, "cosine@0.98"),
        "thresholds": get_mechanism("recommended").pay(state.honest.submission, oracle).threshold,
    }


@pytest.fixture(params=LIBRARIES)
def library(request, monkeypatch):
    pytest.importorskip(request.param)
    if request.param == "plotly":
        monkeypatch.setitem(sys.modules, "matplotlib", None)
    return request.param


def plotted(results, kind):
    if kind == "intervals":
        paid = results[kind]
        title = "Payments to six providers"
        return plot_intervals(
            paid.identities, paid.totals, paid.standard_errors, title=title, xlabel="payment"
        )
    return results[kind].plot()


def saved(figure, path):
    if hasattr(figure, "savefig"):
        figure.savefig(path.with_suffix(".png"))
        return path.with_suffix(".png")
    figure.write_html(path.with_suffix(".html"))
    return path.with_suffix(".html")


def texts_of(figure):
    """All texts of a figure: title, axes, rows, legend and texts."""
    if hasattr(figure, "savefig"):
        from matplotlib.text import Text

        figure.canvas.draw()
        return "\n".join(each.get_text() for each in figure.findobj(Text))
    layout = figure.layout
    axes = [layout.title.text, layout.xaxis.title.text, layout.yaxis.title.text]
    traces = [trace.name for trace in figure.data if trace.showlegend]
    texts = [str(trace.text) for trace in figure.data if trace.mode == "text"]
    return "\n".join(map(str, [*axes, *traces, *texts, *(layout.yaxis.ticktext or ())]))


@pytest.mark.parametrize("kind", ["intervals", "pairs", "clusters", "thresholds"])
def test_eight_example_figures(results, kind, library, tmp_path):
    figure = plotted(results, kind)
    assert type(figure).__module__.startswith(library)
    folder = Path(os.environ.get("DATAMARKET_FIGURES", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as a letter that the font lacks
        assert saved(figure, folder / f"{kind}-{library}").stat().st_size > 5_000
    wide = figure.get_figwidth() * figure.dpi if library == "matplotlib" else figure.layout.width
    assert wide == 800
    expected = {
        "intervals": ["provider_0", "95 % intervals", "payment"],
        "pairs": ["honest", "attacked", "copycat", "ratio of attacked to honest"],
        "clusters": ["provider_2", "cluster of several identities", "match no other"],
        "thresholds": [f"chosen: {results['thresholds'].theta:.3g}", "limit: 1%", "false-match cost"],
    }[kind]
    assert [words for words in expected if words not in texts_of(figure)] == []


def test_intervals_are_of_95_per_cent_and_the_largest_comes_first(library):
    figure = plot_intervals(["a", "b"], [1.0, 2.0], [0.1, 0.5], title="t", xlabel="x")
    if library == "plotly":
        _zero, lines, dots = figure.data
        assert list(dots.x) == [2.0, 1.0]
        assert list(figure.layout.yaxis.ticktext) == ["b", "a"]
        assert lines.x[:2] == pytest.approx((2 - 0.98, 2 + 0.98))
    else:
        _zero, lines, dots = figure.axes[0].lines
        assert list(dots.get_xdata()) == [2.0, 1.0]
        assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == ["b", "a"]
        assert lines.get_xdata()[:2] == pytest.approx((2 - 0.98, 2 + 0.98))


def test_of_many_rows_thirty_are_drawn_and_the_others_counted(library):
    names = [f"{i}-" + "x" * 80 for i in range(300)]
    figure = plot_intervals(names, np.arange(300.0), title="Many", xlabel="value", groups=names)
    assert "and 270 more" in texts_of(figure)
    assert "24 others" in texts_of(figure)  # identities that share a colour
    assert max(map(len, texts_of(figure).split("\n"))) < 100
    pairs = plot_pairs(names, np.ones(300), np.full(300, 2.0), title="Many", xlabel="value")
    assert "and 270 more" in texts_of(pairs)
    assert texts_of(pairs).count("2.00") >= 30
    group = np.arange(400) // 2
    ends = np.arange(0, 400, 2), np.arange(1, 400, 2)
    assert "and 170 more clusters" in texts_of(plot_clusters(group, ["a"] * 400, *ends, title="Many"))


def test_submitted_names_stay_names(library):
    names = ["$x^2$ and $y$", "<b>bold</b>", "_hidden", "new\nline", "x_{1}"]
    figure = plot_intervals(names, np.ones(5), title="$t$ <i>t</i>", xlabel="x", groups=names)
    words = texts_of(figure)
    assert "<b>" not in words.replace("<br>", "") or library == "matplotlib"
    assert r"new\nline" in words
    assert "hidden" in words
    if library == "matplotlib":
        assert words.count(r"\$x^2\$") >= 2  # which matplotlib shows as it was written
    else:
        assert words.count("&#36;x^2&#36;") >= 2


def test_nothing_to_plot_is_a_plot_that_says_so(library):
    alone = Clusters(np.arange(3), Edges.none(), "unit")
    assert "no unit matches another" in texts_of(alone.plot())
    assert "Nobody" in texts_of(plot_intervals([], [], title="Nobody", xlabel="payment"))
    with pytest.raises(DataMarketError, match="nothing to plot: similarity was switched off"):
        Threshold(why="similarity was switched off").plot()


def test_a_payment_of_nothing_has_no_ratio(library):
    figure = plot_pairs(["a"], [0.0], [1.0], title="t", xlabel="x")
    assert "inf" not in texts_of(figure)


def test_the_admissible_interval_is_marked(market, library):
    units = market.state.honest.submission
    prediction = predict_theta(units.features, units.label, trials=3, per_provider=10)
    low, high = prediction.interval
    words = texts_of(prediction.plot())
    assert f"lowest that may be used: {low:.3g}" in words
    assert f"highest: {high:.3g}" in words
    assert "variants matched" in words


def test_scores_are_plotted(results, library):
    assert "player 0" in texts_of(results["intervals"].scores.plot())


def test_without_either_library_the_error_names_the_install_line(monkeypatch):
    for name in LIBRARIES:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        plot_thresholds([0.9], {"matched": [0.1]}, title="t", ylabel="y")
