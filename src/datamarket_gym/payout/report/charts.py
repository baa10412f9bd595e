"""The report's charts as plotly figures in plain values; colours are the page's own variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from datamarket_gym.analysis.redteam import AuditReport
from datamarket_gym.analysis.redteam.attack_grid import family
from datamarket_gym.analysis.redteam.findings import Trial
from datamarket_gym.evidence.false_match_cost import LIMIT
from datamarket_gym.payout.money import LEVEL, Currency
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.results import DrawnThreshold, Results
from datamarket_gym.payout.validation_coverage import Needs
from datamarket_gym.registry import components, describe
from datamarket_gym.utilities.coverage import WELL

MOST_SHOWN = 30
"""Payments in the chart; the page says so where there are more."""
_ROW = 26  # pixels of one row
_POINTS = 400  # of a curve
_WIDEST = 1.0  # intervals are drawn up to this share of their payment


@dataclass(frozen=True)
class DrawnPayment:
    """A payment and what stands beside it, in minor units."""

    name: str
    paid: int
    low: int
    high: int
    without_evidence: int


def payment_chart(results: Results) -> dict[str, Any]:
    rows = zip(
        results.names, results.division.paid, *results.interval, results.without_evidence, strict=True
    )  # fmt: skip
    highest = sorted((DrawnPayment(*row) for row in rows), key=lambda row: (-row.paid, row.name))
    return drawn_payments(highest[:MOST_SHOWN], results.spec.money)


def drawn_payments(highest: Sequence[DrawnPayment], money: Currency) -> dict[str, Any]:
    """Draw payments as bars, the highest first, and beside each its interval as a share of the payment.

    No common scale of money shows the intervals of a payment of thousands and of one of cents; shares do.
    """
    unit = 10**money.digits
    top, rows = highest[::-1], list(range(len(highest)))
    ends = {
        row: (payment.low / payment.paid - 1.0, payment.high / payment.paid - 1.0)
        for row, payment in enumerate(top)
        if payment.paid > 0
    }
    longest = max((abs(end) for pair in ends.values() for end in pair), default=0.0)
    widest = min(_WIDEST, 1.1 * longest or 0.01)
    bands_x = [x for low, high in ends.values() for x in (max(low, -widest), min(high, widest), None)]
    bands_y = [y for row in ends for y in (row, row, None)]
    data = [
        {"type": "bar", "orientation": "h", "name": "payment", "x": [payment.paid / unit for payment in top], "y": rows,
         "marker": {"color": "--main"}, "hovertemplate": "%{x:,.2f}<extra></extra>"},
        _ticks("without evidence", [payment.without_evidence / unit for payment in top], rows, "--alt", 16),
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
            "tickvals": rows, "ticktext": [bar_label(payment.name) for payment in top],
            "automargin": True, "range": [-0.7, len(top) - 0.3], "zeroline": False,
        },
        "shapes": [_line("x", 0) | {"xref": "x2", "line": {"color": "--main", "width": 2}}],
        "legend": {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom"}, "showlegend": True,
    }  # fmt: skip
    return {"data": data, "layout": layout}


def _ticks(name: str, x: list[float | None], y: list[int], color: str, size: int) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "markers", "name": name, "x": x, "y": y, "hovertemplate": "%{x:,.2f}<extra></extra>",
        "marker": {"symbol": "line-ns", "size": size, "color": color, "line": {"width": 3, "color": color}},
        "cliponaxis": False,
    }  # fmt: skip


def threshold_chart(threshold: DrawnThreshold, classes: bool) -> dict[str, Any]:
    """Draw both similarity distributions, the false-match cost, the thresholds that may be used and theta.

    ``classes``: the similarities of honest units are those within one class.
    """
    honest = "honest units of one class" if classes else "honest units"
    cost, floor = threshold.cost, threshold.floor
    assert cost is not None
    centres = [round((a + b) / 2, 4) for a, b in zip(threshold.bins, threshold.bins[1:], strict=False)]
    costs = [round(min(c / LIMIT, 1.05), 4) for c in cost.costs]
    data = [
        _density(honest, centres, threshold.honest, "--main"),
        _density("noisy copies", centres, threshold.copies, "--alt"),
        _curve(f"false-match cost, {LIMIT:.0%} = 1", cost.thetas, costs, color="--good", dash="dot"),
    ]
    shapes: list[dict[str, Any]] = []
    if floor is not None:
        band = {"fillcolor": "--band", "line": {"width": 0}}
        shapes.append({"type": "rect", "yref": "paper", "x0": floor, "x1": 1.0, "y0": 0, "y1": 1} | band)
    if threshold.theta is not None:
        shapes.append(_line("x", threshold.theta) | {"line": {"color": "--ink", "width": 2}})
        data.append(_curve(f"theta {threshold.theta:g}", [None], [None], color="--ink", width=2))
    layout = {
        "height": 380, "margin": {"l": 56, "r": 16, "t": 70, "b": 46}, "shapes": shapes, "bargap": 0,
        "xaxis": {"title": {"text": "cosine similarity"}, "range": [min(0.0, threshold.bins[0]), 1.01]},
        "yaxis": {"title": {"text": "frequency; false-match cost"}, "range": [0, 1.05]},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
    }  # fmt: skip
    return {"data": data, "layout": layout}


def red_team_chart(audit: AuditReport) -> dict[str, Any] | None:
    """Draw the worst gain of each attack, as expected given the checks; None where no gain is defined."""
    findings = [f for f in reversed(audit.findings) if f.worst.expected_gain is not None]
    if not findings:
        return None
    gains = [float(f.worst.expected_gain or 0.0) for f in findings]
    places = list(range(len(findings)))
    checked = audit.checks is not None
    data: list[dict[str, Any]] = [
        {
            "type": "bar", "orientation": "h", "x": gains, "y": places, "name": "with checks" if checked else "gain",
            "marker": {"color": ["--alt" if gain > audit.stop_at else "--good" for gain in gains]},
            "hovertemplate": "%{x:.3f}<extra></extra>", "showlegend": False,
            "text": [f"{gain:.2f}" for gain in gains], "textposition": "auto", "insidetextanchor": "end",
            "insidetextfont": {"color": "--paper"}, "textangle": 0, "constraintext": "none", "cliponaxis": False,
        }
    ]  # fmt: skip
    most = max([*gains, 1.0])
    if checked:
        unchecked = [f.unchecked.gain for f in findings]
        most = max([most, *(gain for gain in unchecked if gain is not None)])
        data.append(_ticks("if nothing were checked", unchecked, places, "--ink", 14))
    layout = {
        "height": (96 if checked else 74) + 30 * len(findings), "showlegend": checked,
        "margin": {"l": 10, "r": 16, "t": 36 if checked else 14, "b": 52},
        "legend": {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom"},
        "xaxis": {"title": {"text": "attacked / honest payment", "standoff": 8}, "range": [0, most * 1.12]},
        "yaxis": {
            "automargin": True, "tickvals": places, "ticktext": [_attack(f.worst) for f in findings],
            "zeroline": False,
        },
        "shapes": [_line("x", 1) | {"line": {"color": "--ink", "width": 1.5, "dash": "dot"}}],
    }  # fmt: skip
    return {"data": data, "layout": layout}


def needs_chart(needs: Needs) -> dict[str, Any]:
    """Draw how well each validation row is covered, now and by what was acquired before, the best covered first."""
    order = np.argsort(-needs.covered, kind="stable")
    at = np.unique(np.linspace(0, len(order) - 1, min(_POINTS, len(order))).round().astype(np.int64))
    share = np.concatenate([[0.0], (at + 0.5) / len(order), [1.0]]).round(4).tolist()

    def curve(name: str, covered: np.ndarray, color: str) -> dict[str, Any]:
        y = covered[np.concatenate([at[:1], at, at[-1:]])].round(4).tolist()
        drawn = _curve(name, share, y, color=color, shape="hvh", width=2)
        return drawn | {"hovertemplate": "%{y:.0%}<extra></extra>"}

    data = [
        curve("covered now", needs.covered[order], "--main")
        | {"fill": "tozeroy", "fillcolor": "--range"}
    ]
    if before := bool(needs.before.any()):
        data.append(curve("covered before", np.sort(needs.before)[::-1], "--alt"))
    layout = {
        "height": 300, "margin": {"l": 56, "r": 28, "t": 36 if before else 16, "b": 46}, "showlegend": before,
        "legend": {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom"},
        "xaxis": {"title": {"text": "needs, best covered first"}, "range": [0, 1], "tickformat": ".0%"},
        "yaxis": {"title": {"text": "covered"}, "range": [0, 1.02], "tickformat": ".0%"},
        "shapes": [_line("y", WELL) | {"line": {"color": "--good", "width": 1.5, "dash": "dot"}}],
        "annotations": [{"xref": "paper", "x": 1, "y": WELL, "xanchor": "right", "yanchor": "bottom",
                         "text": "covered well", "showarrow": False, "font": {"color": "--good"}}],
    }  # fmt: skip
    return {"data": data, "layout": layout}


def _attack(trial: Trial) -> str:
    """Name the attack of a bar; of one that forges times, also the clock."""
    clock = {"believed": ", believed", "logged": ", with a log"}.get(trial.clock, "")
    return f"{attack_title(trial.attack)}{clock}"


def attack_title(written: str) -> str:
    """Return what tables and charts call an attack."""
    name = family(written)
    return describe("attack", name).title if name in components("attack") else name


def _density(name: str, centres: list[float], shares: list[float], color: str) -> dict[str, Any]:
    heights = [round(share / max(shares), 4) for share in shares]
    drawn = _curve(name, centres, heights, color=color, shape="hvh", width=1.5)
    return drawn | {"fill": "tozeroy", "hoverinfo": "name+x"}


def _curve(name: str, x: Sequence[Any], y: Sequence[Any], **line: Any) -> dict[str, Any]:
    return {"type": "scatter", "mode": "lines", "name": name, "x": x, "y": y, "line": line}


def _line(axis: str, at: float) -> dict[str, Any]:
    """Return a line across the chart at a place on one axis."""
    across = "y" if axis == "x" else "x"
    place = {f"{axis}0": at, f"{axis}1": at, f"{across}0": 0, f"{across}1": 1}
    return {"type": "line", f"{across}ref": "paper"} | place


def bar_label(name: str) -> str:
    """Return a name as it stands beside a bar: short, visible, and without what plotly takes for markup."""
    text = visible(name, 22).partition(" (")[0]
    for sign, shown in (("&", "\uff06"), ("<", "\u2039"), (">", "\u203a"), ("$", "\uff04")):
        text = text.replace(sign, shown)
    return text
