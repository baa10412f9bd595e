"""Figures over two noise rates (S5 and the finer grid), and S6: the bound of the fairness theorem, and the
proxy that the paper plots in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.figures.drawing import (
    COLOURS,
    MAP,
    MARKERS,
    distinct,
    drawer,
    legend_below,
    panels,
    pick,
    plotting,
    say,
)
from datamarket_gym.lab.figures.words import attack_words, words

ERRORS = {
    "even": "independent",
    "size": "correlated with size",
    "density": "correlated with density",
    "shared": "shared by a provider's names",
}
"""How the errors of noisy evidence hang together, in words."""


def noise_rows(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Gains over the two rates of noise: of each kind of errors where there are several, by its words."""
    if distinct(rows, "errors"):
        return {title: pick(rows, "gain", errors=errors) for errors, title in ERRORS.items()}
    return {"equal shares per name": pick(rows, "gain", mechanism="quotient_shapley/noisy")}


@drawer("s5")
def noise_grid(rows: Sequence[Row]) -> Any:
    """Gains over the grid, ours above and the paper's in brackets below."""
    with plotting() as plt:
        figure, (axis,) = panels(plt, 1, size=(6.4, 4.2))
        ((title, shown),) = noise_rows(rows).items()
        image = _heat(axis, shown, title, _view(shown))
        say(figure, f"attack: {attack_words(shown[0]['attack'])}")
        for row in shown:
            x, y = _place(shown, row)
            text = f"{row['value']:.2f} ± {row['se'] or 0.0:.2f}"
            if row["paper"] is not None:
                text += f"\n({row['paper']:.2f})"
            colour = "white" if row["value"] < np.mean(_view(shown)) else "black"
            axis.text(x, y, text, ha="center", va="center", color=colour, fontsize=7)
        figure.colorbar(image, ax=axis, label="gain")
        figure.bars = "± one standard error over seeds; in brackets the paper's"
        for row in pick(rows, "gain", mechanism="shapley"):
            say(figure, f"without evidence (Shapley): gain {row['value']:.2f} ± {row['se'] or 0.0:.2f}")
    return figure


@drawer("ablation-noise")
def fine_grid(rows: Sequence[Row]) -> Any:
    """Gains over the finer grid under even and correlated errors, with contour lines."""
    with plotting() as plt:
        figure, axes = panels(plt, 4, per_row=2, size=(3.7, 3.1))
        for axis, (title, shown) in zip(axes, noise_rows(rows).items(), strict=True):
            image = _heat(axis, shown, title, _view(pick(rows, "gain")))
            lines = axis.contour(_table(shown), levels=[1.25, 1.5, 1.75, 2.0, 2.25], colors="white")
            axis.clabel(lines, fontsize=6)
            for which in (axis.xaxis, axis.yaxis):
                which.set_ticks(which.get_ticklocs()[::2], which.get_ticklabels()[::2])
        figure.colorbar(image, ax=axes, label="gain")
        largest = max(row["se"] or 0.0 for row in pick(rows, "gain"))
        say(figure, f"attack: {attack_words(rows[0]['attack'])}")
        figure.bars = f"standard errors over seeds up to {largest:.2f}"
    return figure


def _view(shown: Sequence[Row]) -> tuple[float, float]:
    """From a little below no gain to the largest gain there is: no colour is cut off."""
    values = [row["value"] for row in shown]
    return min(0.9, *values), max(1.5, *values)


def _heat(axis: Any, shown: Sequence[Row], title: str, view: tuple[float, float]) -> Any:
    image = axis.imshow(
        _table(shown), origin="lower", cmap=MAP, vmin=view[0], vmax=view[1], aspect="auto"
    )
    across, down = distinct(shown, "p_fm"), distinct(shown, "p_fs")
    axis.set_xticks(range(len(across)), [f"{p:g}" for p in across])
    axis.set_yticks(range(len(down)), [f"{p:g}" for p in down])
    axis.set(title=title, xlabel="false-merge rate", ylabel="false-split rate")
    axis.grid(visible=False)
    return image


def _table(shown: Sequence[Row]) -> Any:
    table = np.full((len(distinct(shown, "p_fs")), len(distinct(shown, "p_fm"))), np.nan)
    for row in shown:
        x, y = _place(shown, row)
        table[y, x] = row["value"]
    return table


def _place(shown: Sequence[Row], row: Row) -> tuple[int, int]:
    return distinct(shown, "p_fm").index(row["p_fm"]), distinct(shown, "p_fs").index(row["p_fs"])


@drawer("s6")
def fairness(rows: Sequence[Row]) -> Any:
    """Loss against exact Delta, and payment L1 against the mixed-component fraction."""
    cases = (
        ("delta", "fairness_loss", "exact: theorem", "Delta", "largest loss of a cluster"),
        ("mixed_components", "oracle_l1", "proxy: no theorem", "mixed-component fraction", "payment L1"),
    )
    with plotting() as plt:
        figure, axes = panels(plt, 2, size=(3.8, 3.2))
        for axis, (across, up, title, xlabel, ylabel) in zip(axes, cases, strict=True):
            for number, representative in enumerate(distinct(rows, "representative")):
                x = pick(rows, across, representative=representative)
                y = pick(rows, up, representative=representative)
                axis.errorbar(
                    [row["value"] for row in x],
                    [row["value"] for row in y],
                    xerr=[row["se"] or 0.0 for row in x],
                    yerr=[row["se"] or 0.0 for row in y],
                    fmt=MARKERS[number],
                    color=COLOURS[number],
                    mfc="white" if number % 2 else COLOURS[number],
                    linewidth=0.6,
                    label=words("representative", representative),
                )
            right, top = axis.get_xlim()[1], axis.get_ylim()[1]
            axis.plot([0, right], [0, 2 * right], color="#d4202a", linestyle="--", label="y = 2x")
            axis.set(xlim=(-0.02 * right, right), ylim=(-0.03 * top, top))
            axis.set(title=title, xlabel=xlabel, ylabel=ylabel)
        legend_below(figure, axes[0])
        say(
            figure,
            f"attack: {attack_words(rows[0]['attack'])}; each dot is one evidence layer or noise rate",
        )
    return figure
