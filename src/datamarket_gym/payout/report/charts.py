"""The report's charts as plotly figures in plain values; colours are the page's own variables."""

from __future__ import annotations

from typing import Any

from datamarket_gym.evidence.threshold.price import LIMIT
from datamarket_gym.judge.redteam import AuditReport
from datamarket_gym.judge.redteam.grid import family
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.results import Results
from datamarket_gym.payout.threshold import DrawnThreshold

_MOST_BARS = 30


def payment_chart(results: Results) -> dict[str, Any]:
    """The highest payments with their intervals, and what they would have been without evidence."""
    unit = 10**results.spec.money.digits
    paid = results.division.paid
    top = sorted(range(len(paid)), key=lambda i: (-paid[i], results.names[i]))[:_MOST_BARS][::-1]
    names = [visible(results.names[i], 22).partition(" (")[0] for i in top]
    places = list(range(len(top)))
    values = [paid[i] / unit for i in top]
    bars = {
        "type": "bar", "orientation": "h", "name": "payment", "x": values, "y": places,
        "marker": {"color": "--main"}, "hovertemplate": "%{x:,.2f}<extra></extra>",
        "error_x": {
            "type": "data", "symmetric": False, "color": "--ink", "thickness": 1.2, "width": 3,
            "array": [max(0.0, results.high[i] / unit - v) for i, v in zip(top, values, strict=True)],
            "arrayminus": [max(0.0, v - results.low[i] / unit) for i, v in zip(top, values, strict=True)],
        },
    }  # fmt: skip
    rings = {
        "type": "scatter", "mode": "markers", "name": "without evidence", "y": places,
        "x": [results.without_evidence[i] / unit for i in top], "hovertemplate": "%{x:,.2f}<extra></extra>",
        "marker": {"size": 9, "color": "--paper", "line": {"width": 2.5, "color": "--alt"}},
    }  # fmt: skip
    layout = {
        "height": 90 + 24 * len(top), "margin": {"l": 10, "r": 16, "t": 34, "b": 44}, "bargap": 0.35,
        "xaxis": {"title": {"text": results.spec.currency}, "rangemode": "tozero"},
        "yaxis": {"tickvals": places, "ticktext": [_plain(n) for n in names], "automargin": True},
        "legend": {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom"},
    }  # fmt: skip
    return {"data": [bars, rings], "layout": layout}


def threshold_chart(threshold: DrawnThreshold) -> dict[str, Any]:
    """Both similarity distributions, the honest price, the thresholds that may be used and the chosen theta."""
    price, floor = threshold.price, threshold.floor
    assert price is not None
    centres = [round((a + b) / 2, 4) for a, b in zip(threshold.bins, threshold.bins[1:], strict=False)]
    data = [
        _hills("honest units of one class", centres, threshold.honest, "--main"),
        _hills("noisy copies", centres, threshold.copies, "--alt"),
        {
            "type": "scatter", "mode": "lines", "name": f"honest price, {LIMIT:.0%} = 1",
            "x": price.thetas, "y": [round(min(p / LIMIT, 1.05), 4) for p in price.prices],
            "line": {"color": "--good", "dash": "dot"},
        },
    ]  # fmt: skip
    shapes: list[dict[str, Any]] = []
    if floor is not None:
        shapes.append(
            {"type": "rect", "yref": "paper", "x0": floor, "x1": 1.0, "y0": 0, "y1": 1,
             "fillcolor": "--band", "line": {"width": 0}}
        )  # fmt: skip
    if threshold.theta is not None:
        shapes.append(
            {"type": "line", "yref": "paper", "x0": threshold.theta, "x1": threshold.theta, "y0": 0, "y1": 1,
             "line": {"color": "--ink", "width": 2}}
        )  # fmt: skip
        data.append(
            {"type": "scatter", "mode": "lines", "name": f"theta {threshold.theta:g}", "x": [None], "y": [None],
             "line": {"color": "--ink", "width": 2}}
        )  # fmt: skip
    layout = {
        "height": 380, "margin": {"l": 56, "r": 16, "t": 70, "b": 46}, "shapes": shapes, "bargap": 0,
        "xaxis": {"title": {"text": "cosine similarity"}, "range": [min(0.0, threshold.bins[0]), 1.01]},
        "yaxis": {"title": {"text": "relative frequency, honest price"}, "range": [0, 1.05]},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
    }  # fmt: skip
    return {"data": data, "layout": layout}


def red_team_chart(found: AuditReport) -> dict[str, Any]:
    """The worst gain of each attack, as expected given the checks that there are."""
    rows = [
        (family(f.worst.attack), f.worst.expected_gain)
        for f in reversed(found.findings)
        if f.worst.expected_gain is not None
    ]
    colors = ["--alt" if gain > found.stop_at else "--good" for _, gain in rows]
    bars = {
        "type": "bar", "orientation": "h", "x": [gain for _, gain in rows], "y": [name for name, _ in rows],
        "marker": {"color": colors}, "hovertemplate": "%{x:.3f}<extra></extra>",
        "text": [f"{gain:.2f}" for _, gain in rows], "textposition": "outside", "cliponaxis": False,
    }  # fmt: skip
    layout = {
        "height": 90 + 30 * len(rows), "margin": {"l": 10, "r": 16, "t": 10, "b": 44}, "showlegend": False,
        "xaxis": {"title": {"text": "cheating / honest pay"}, "rangemode": "tozero"},
        "yaxis": {"automargin": True},
        "shapes": [{"type": "line", "yref": "paper", "x0": 1, "x1": 1, "y0": 0, "y1": 1,
                    "line": {"color": "--ink", "width": 1.5, "dash": "dot"}}],
    }  # fmt: skip
    return {"data": [bars], "layout": layout}


def _hills(name: str, centres: list[float], shares: list[float], color: str) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "lines", "name": name, "x": centres, "fill": "tozeroy",
        "y": [round(share / max(shares), 4) for share in shares],
        "line": {"color": color, "shape": "hvh", "width": 1.5}, "hoverinfo": "name+x",
    }  # fmt: skip


def _plain(text: str) -> str:
    """Text that plotly shows as it is: its labels know a little markup, so angle brackets are replaced."""
    for sign, shown in (("&", "\uff06"), ("<", "\u2039"), (">", "\u203a"), ("$", "\uff04")):
        text = text.replace(sign, shown)
    return text
