"""The report's section on what the buyer needs: how well the validation rows are covered, by whom, and which are not.

Rows go by their number: what is in them is secret, and stays in the operator's file.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from datamarket_gym.core.screen import counted
from datamarket_gym.learners.coverage.covered_rows import WELL
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.needs import Needs
from datamarket_gym.payout.report.html import Row
from datamarket_gym.payout.results import Results

_MOST_NAMES, _LEAST, _POINTS = 20, 10, 400


def needs_section(needs: Needs, results: Results) -> Row | None:
    """What the section shows; None where something else than coverage is paid for."""
    if not len(needs):
        return None
    names = sorted(results.names)
    order = np.lexsort(
        (np.arange(len(names)), -needs.of_identity, -needs.of_identity_nearest, -needs.of_identity_well)
    )
    told = [i for i in order.tolist() if needs.of_identity[i]]
    return {
        "words": _words(needs),
        "names": [
            {
                "identity": visible(names[i]),
                "rows": f"{needs.of_identity[i]:,}",
                "well": f"{needs.of_identity_well[i]:,}",
                "nearest": f"{needs.of_identity_nearest[i]:,}",
            }
            for i in told[:_MOST_NAMES]
        ],
        "names_in_all": len(told),
        "least": [_row(needs, results, z) for z in needs.least_covered[:_LEAST]],
        "before": bool(needs.before.any()),
    }


def _words(needs: Needs) -> str:
    n, well = len(needs), int(needs.covered_well.sum())
    nobody = int((needs.covered <= 0).sum())
    before = (
        f" What was bought before covers {needs.before.mean():.1%}, and nobody is paid for that again."
        if needs.before.any()
        else ""
    )
    none = f" {counted(nobody, 'need is', 'needs are')} covered by nobody." if nobody else ""
    return (
        f"The buyer's needs are {counted(n, 'validation row')}. Of these {well:,} ({well / n:.0%}) are covered well; "
        f"of all that is needed {needs.covered.mean():.1%} is covered.{before}{none}"
    )


def _row(needs: Needs, results: Results, z: int) -> Row:
    return {
        "row": f"{z:,}",
        "covered": f"{needs.covered[z]:.0%}",
        "units": f"{needs.units[z]:,}",
        "well": f"{needs.well[z]:,}",
        **_nearest(needs, results, z),
    }


def _nearest(needs: Needs, results: Results, z: int) -> Row:
    """The unit that comes nearest to a row, and whose it is; blank where none does."""
    player = int(needs.nearest[z])
    if player < 0:
        return {"unit": "", "identity": ""}
    canonical, inputs = results.payments.canonical, results.inputs
    [cluster] = np.flatnonzero(results.payments.scores.number == player)
    unit = int(canonical.unit[np.flatnonzero(canonical.cluster == cluster)[0]])
    return {
        "unit": visible(inputs.ids[unit]),
        "identity": visible(inputs.identities[inputs.owner[unit]]),
    }


def needs_chart(needs: Needs) -> dict[str, Any]:
    """How well each need is covered, the best covered first; where something was bought before, what that covers."""
    order = np.argsort(-needs.covered, kind="stable")
    at = np.unique(np.linspace(0, len(order) - 1, min(_POINTS, len(order))).round().astype(np.int64))
    share = _rounded(np.concatenate([[0.0], (at + 0.5) / len(order), [1.0]]))

    def drawn(values: np.ndarray) -> list[float]:
        return _rounded(np.concatenate([values[at[:1]], values[at], values[at[-1:]]]))

    data: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "lines", "name": "covered now", "x": share,
            "y": drawn(needs.covered[order]), "fill": "tozeroy", "fillcolor": "--range",
            "line": {"color": "--main", "shape": "hvh", "width": 2},
            "hovertemplate": "%{y:.0%}<extra></extra>",
        }
    ]  # fmt: skip
    if before := bool(needs.before.any()):
        data.append(
            {
                "type": "scatter", "mode": "lines", "name": "covered before", "x": share,
                "y": drawn(np.sort(needs.before)[::-1]), "line": {"color": "--alt", "shape": "hvh", "width": 2},
                "hovertemplate": "%{y:.0%}<extra></extra>",
            }
        )  # fmt: skip
    layout = {
        "height": 300, "margin": {"l": 56, "r": 28, "t": 36 if before else 16, "b": 46}, "showlegend": before,
        "legend": {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom"},
        "xaxis": {"title": {"text": "needs, best covered first"}, "range": [0, 1], "tickformat": ".0%"},
        "yaxis": {"title": {"text": "covered"}, "range": [0, 1.02], "tickformat": ".0%"},
        "shapes": [{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": WELL, "y1": WELL,
                    "line": {"color": "--good", "width": 1.5, "dash": "dot"}}],
        "annotations": [{"xref": "paper", "x": 1, "y": WELL, "xanchor": "right", "yanchor": "bottom",
                         "text": "covered well", "showarrow": False, "font": {"color": "--good"}}],
    }  # fmt: skip
    return {"data": data, "layout": layout}


def _rounded(values: np.ndarray) -> list[float]:
    return [round(float(value), 4) for value in values]
