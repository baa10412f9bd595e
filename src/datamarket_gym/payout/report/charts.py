"""The chart of payments as a plotly figure in plain values; colours are the page's own variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from datamarket_gym.payout.money import LEVEL, Currency
from datamarket_gym.payout.names import visible

MOST_SHOWN = 30
"""Payments in the chart; the page says so where there are more."""
_ROW = 26  # pixels of one row
_WIDEST = 1.0  # intervals are drawn up to this share of their payment


@dataclass(frozen=True)
class DrawnPayment:
    """A payment and what stands beside it, in minor units."""

    name: str
    paid: int
    low: int
    high: int
    without_evidence: int


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
