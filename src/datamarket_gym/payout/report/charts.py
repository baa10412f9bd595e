"""The report's charts as plotly figures in plain values; colours are the page's own variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from datamarket_gym.analysis.redteam import AuditReport, Trial
from datamarket_gym.evidence.threshold import LIMIT
from datamarket_gym.payout.money import (
    LEVEL,
    Currency,
)
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.report.html import attack_title
from datamarket_gym.payout.results import Results
from datamarket_gym.payout.threshold import DrawnThreshold

MOST_SHOWN = 30
"""Payments in the picture; the page says so where there are more."""
_ROW = 26  # pixels of one row
_WIDEST = 1.0  # intervals are drawn up to this part of their payment


@dataclass(frozen=True)
class DrawnPayment:
    """A payment and what is drawn beside it, in minor units."""

    name: str
    paid: int
    low: int
    high: int
    without_evidence: int


def payment_chart(results: Results) -> dict[str, Any]:
    """The highest payments of a run, as `drawn_payments` draws them."""
    paid, names, low, high = results.division.paid, results.names, results.low, results.high
    top = sorted(range(len(paid)), key=lambda i: (-paid[i], names[i]))[:MOST_SHOWN]
    return drawn_payments(
        [DrawnPayment(names[i], paid[i], low[i], high[i], results.without_evidence[i]) for i in top],
        results.spec.money,
    )


def drawn_payments(highest: Sequence[DrawnPayment], money: Currency) -> dict[str, Any]:
    """Payments as bars, the highest first, and beside each its interval, in parts of the payment.

    A payment of thousands and one of cents have intervals that no common scale of money shows; in parts of their
    payments both can be seen.
    """
    unit = 10**money.digits
    top = highest[::-1]
    rows = list(range(len(top)))
    ends = {
        row: (each.low / each.paid - 1.0, each.high / each.paid - 1.0)
        for row, each in zip(rows, top, strict=True)
        if each.paid > 0
    }
    widest = min(
        _WIDEST, 1.1 * max((abs(end) for pair in ends.values() for end in pair), default=0.0) or 0.01
    )
    bands_x = [x for low, high in ends.values() for x in (max(low, -widest), min(high, widest), None)]
    bands_y = [y for row in ends for y in (row, row, None)]
    data = [
        {"type": "bar", "orientation": "h", "name": "payment", "x": [each.paid / unit for each in top], "y": rows,
         "marker": {"color": "--main"}, "hovertemplate": "%{x:,.2f}<extra></extra>"},
        _ticks("without evidence", [each.without_evidence / unit for each in top], rows, "--alt", 16),
        {"type": "scatter", "mode": "lines", "name": f"{LEVEL:.0%} interval", "x": bands_x, "y": bands_y, "xaxis": "x2",
         "line": {"color": "--range", "width": 10}, "hovertemplate": "%{x:+.1%}<extra></extra>"},
    ]  # fmt: skip
    layout = {
        "height": 96 + _ROW * len(top), "margin": {"l": 10, "r": 30, "t": 40, "b": 52}, "bargap": 0.4,
        "xaxis": {"title": {"text": money.code, "standoff": 8}, "rangemode": "tozero", "domain": [0, 0.56],
                  "tickformat": ",~f", "nticks": 5},
        "xaxis2": {"title": {"text": "interval, %", "standoff": 8}, "domain": [0.64, 1], "nticks": 5,
                   "range": [-widest, widest], "tickformat": ".0%" if widest > 0.05 else ".1%"},
        "yaxis": {
            "tickvals": rows, "ticktext": [drawn_name(each.name) for each in top],
            "automargin": True, "range": [-0.7, len(top) - 0.3], "zeroline": False,
        },
        "shapes": [{"type": "line", "xref": "x2", "yref": "paper", "x0": 0, "x1": 0, "y0": 0, "y1": 1,
                    "line": {"color": "--main", "width": 2}}],
        "legend": {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom"}, "showlegend": True,
    }  # fmt: skip
    return {"data": data, "layout": layout}


def _ticks(name: str, x: list[float | None], y: list[int], color: str, size: int) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "markers", "name": name, "x": x, "y": y, "hovertemplate": "%{x:,.2f}<extra></extra>",
        "marker": {"symbol": "line-ns", "size": size, "color": color, "line": {"width": 3, "color": color}},
        "cliponaxis": False,
    }  # fmt: skip


def threshold_chart(threshold: DrawnThreshold, honest: str) -> dict[str, Any]:
    """Both similarity distributions, the honest price, the thresholds that may be used and the chosen theta.

    ``honest`` are the units whose similarities are shown, in words.
    """
    price, floor = threshold.cost, threshold.floor
    assert price is not None
    centres = [round((a + b) / 2, 4) for a, b in zip(threshold.bins, threshold.bins[1:], strict=False)]
    data = [
        _hills(honest, centres, threshold.honest, "--main"),
        _hills("noisy copies", centres, threshold.copies, "--alt"),
        {
            "type": "scatter", "mode": "lines", "name": f"honest price, {LIMIT:.0%} = 1",
            "x": price.thetas, "y": [round(min(p / LIMIT, 1.05), 4) for p in price.costs],
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
        "yaxis": {"title": {"text": "frequency; honest price"}, "range": [0, 1.05]},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
    }  # fmt: skip
    return {"data": data, "layout": layout}


def red_team_chart(found: AuditReport) -> dict[str, Any] | None:
    """The worst gain of each attack, as expected given the checks that there are; None where no gain is a factor."""
    told = [f for f in reversed(found.findings) if f.worst.expected_gain is not None]
    if not told:
        return None
    gains = [float(f.worst.expected_gain or 0.0) for f in told]
    places = list(range(len(told)))
    checked = found.checks is not None
    data: list[dict[str, Any]] = [
        {
            "type": "bar", "orientation": "h", "x": gains, "y": places, "name": "with checks" if checked else "gain",
            "marker": {"color": ["--alt" if gain > found.stop_at else "--good" for gain in gains]},
            "hovertemplate": "%{x:.3f}<extra></extra>", "showlegend": False,
            "text": [f"{gain:.2f}" for gain in gains], "textposition": "auto", "insidetextanchor": "end",
            "insidetextfont": {"color": "--paper"}, "textangle": 0, "constraintext": "none", "cliponaxis": False,
        }
    ]  # fmt: skip
    most = max([*gains, 1.0])
    if checked:
        unchecked = [f.unchecked.gain for f in told]
        most = max([most, *(gain for gain in unchecked if gain is not None)])
        data.append(_ticks("if nothing were checked", unchecked, places, "--ink", 14))
    layout = {
        "height": (96 if checked else 74) + 30 * len(told), "showlegend": checked,
        "margin": {"l": 10, "r": 16, "t": 36 if checked else 14, "b": 52},
        "legend": {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom"},
        "xaxis": {"title": {"text": "pay when cheating / honest pay", "standoff": 8}, "range": [0, most * 1.12]},
        "yaxis": {
            "automargin": True, "tickvals": places, "ticktext": [_attack(f.worst) for f in told],
            "zeroline": False,
        },
        "shapes": [{"type": "line", "yref": "paper", "x0": 1, "x1": 1, "y0": 0, "y1": 1,
                    "line": {"color": "--ink", "width": 1.5, "dash": "dot"}}],
    }  # fmt: skip
    return {"data": data, "layout": layout}


def _attack(trial: Trial) -> str:
    """The attack of a bar; of one that forges times, under which clock."""
    clock = {"believed": ", believed", "logged": ", with a log"}.get(trial.clock, "")
    return f"{attack_title(trial.attack)}{clock}"


def _hills(name: str, centres: list[float], shares: list[float], color: str) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "lines", "name": name, "x": centres, "fill": "tozeroy",
        "y": [round(share / max(shares), 4) for share in shares],
        "line": {"color": color, "shape": "hvh", "width": 1.5}, "hoverinfo": "name+x",
    }  # fmt: skip


def drawn_name(name: str) -> str:
    """A name as it stands beside a bar: short, visible, and no markup."""
    return _plain(visible(name, 22).partition(" (")[0])


def _plain(text: str) -> str:
    """Text that plotly shows as it is: its labels know a little markup, so angle brackets are replaced."""
    for sign, shown in (("&", "\uff06"), ("<", "\u2039"), (">", "\u203a"), ("$", "\uff04")):
        text = text.replace(sign, shown)
    return text
