"""The largest changes between two runs as a plotly figure in plain values: a dot before, a dot now, a line between."""

from __future__ import annotations

from typing import Any

from datamarket_gym.payout.compared import Compared
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.report.charts import drawn_name

MOST_DRAWN = 20
"""Changes in the picture; a page says so where there are more."""
_ROW = 26


def change_chart(found: Compared) -> dict[str, Any]:
    """Payments before and now; in parts of all that is paid, where the runs are in different currencies."""
    same = found.before.currency == found.after.currency
    top = [each for each in found.payees if each.change or each.share_change][:MOST_DRAWN][::-1]
    rows = list(range(len(top)))
    unit = 10 ** Currency(found.after.currency).digits

    def at(side: str) -> list[float | None]:
        standing = [getattr(each, side) for each in top]
        return [None if x is None else (x.paid / unit if same else x.share) for x in standing]

    before, after = at("before"), at("after")
    lines_x = [x for pair in zip(before, after, strict=True) for x in (*(v or 0.0 for v in pair), None)]
    lines_y = [y for row in rows for y in (row, row, None)]
    shown = "%{x:,.2f}" if same else "%{x:.1%}"
    data = [
        {"type": "scatter", "mode": "lines", "x": lines_x, "y": lines_y, "showlegend": False, "hoverinfo": "skip",
         "line": {"color": "--range", "width": 6}},
        _dots("before", before, rows, "--alt", "circle-open", shown),
        _dots("now", after, rows, "--main", "circle", shown),
    ]  # fmt: skip
    layout = {
        "height": 110 + _ROW * len(top), "margin": {"l": 10, "r": 20, "t": 40, "b": 52},
        "xaxis": {"title": {"text": found.after.currency if same else "part of all that is paid", "standoff": 8},
                  "rangemode": "tozero", "tickformat": ",~f" if same else ".0%", "nticks": 5},
        "yaxis": {"tickvals": rows, "ticktext": [drawn_name(each.identity) for each in top], "automargin": True,
                  "range": [-0.7, max(len(top) - 0.3, 0.7)], "zeroline": False},
        "legend": {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom"}, "showlegend": True,
    }  # fmt: skip
    return {"data": data, "layout": layout}


def _dots(
    name: str, x: list[float | None], y: list[int], color: str, symbol: str, shown: str
) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "markers", "name": name, "x": x, "y": y,
        "marker": {"color": color, "symbol": symbol, "size": 11, "line": {"color": color, "width": 2}},
        "hovertemplate": f"{shown}<extra></extra>", "cliponaxis": False,
    }  # fmt: skip
