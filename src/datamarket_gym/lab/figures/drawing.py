"""What all figures share: one style (readable in grey, by line style and marker as well as by colour),
picking numbers out of summary rows, which experiment has which figure (`drawer`), and drawing to files:
SVG and PNG, the same bytes for the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from datamarket_gym.core.arrays import Values
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.extras import require_extra
from datamarket_gym.core.files import replacing
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.summary import matches
from datamarket_gym.world.tasks.base import TASKS

# From dark to light, so that a grey print keeps them apart (after Okabe and Ito).
COLOURS = ("#1b1b1b", "#0b5fa5", "#b3460a", "#1f8f6b", "#a8588f", "#8a7a1c")
MARKERS = ("o", "s", "^", "D", "v", "P")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
PAPER = {"marker": "x", "color": "#d4202a", "linestyle": "none", "markersize": 6, "zorder": 5}
MAP = "cividis"  # its lightness is monotone
PANEL = (3.4, 2.7)  # inches


@contextmanager
def plotting() -> Iterator[Any]:
    """pyplot with our settings, without a display; the settings end with the block."""
    require_extra("matplotlib", "figures")
    import matplotlib as mpl

    settings = {
        "font.size": 9,
        "axes.titlesize": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#dddddd",
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
        "legend.frameon": False,
        "legend.fontsize": 8,
        "lines.linewidth": 1.4,
        "lines.markersize": 4,
        "figure.constrained_layout.use": True,
        "svg.hashsalt": "datamarket-gym",  # ids in the file are then the same every time
        "svg.fonttype": "none",
    }
    with mpl.rc_context(settings):
        from matplotlib import pyplot as plt

        yield plt


def panels(plt: Any, n: int, per_row: int = 3, size: tuple[float, float] = PANEL) -> tuple[Any, Any]:
    """A figure with n panels, and the panels as a flat list."""
    columns = min(n, per_row)
    rows = -(-n // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(size[0] * columns, size[1] * rows), squeeze=False
    )
    flat = axes.ravel().tolist()
    for unused in flat[n:]:
        unused.set_visible(False)
    return figure, flat[:n]


def line(axis: Any, number: int, x: Any, y: Any, se: Any, label: str) -> None:
    """A line with a band of one standard error either way, in the style of the number."""
    style = {"color": COLOURS[number % 6], "linestyle": LINES[number % 6], "marker": MARKERS[number % 6]}
    axis.plot(x, y, label=label, **style)
    axis.fill_between(x, np.subtract(y, se), np.add(y, se), color=style["color"], alpha=0.18, lw=0)


def style(number: int) -> dict[str, Any]:
    """Colour and marker of a series of dots; no two of the first 36 share both."""
    colour = COLOURS[number % 6]
    marker = MARKERS[(number + number // 6) % 6]
    return {"color": colour, "fmt": marker, "mfc": "white" if number % 2 else colour}


def honest_line(axis: Any, *, vertical: bool = False) -> None:
    """Where an attack neither gains nor loses."""
    mark = axis.axvline if vertical else axis.axhline
    mark(1.0, color="#777777", linewidth=0.8, zorder=0)


def legend_below(figure: Any, *axes: Any) -> None:
    """One legend for all panels under them, where it covers nothing."""
    found = {
        label: handle
        for axis in axes
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    if "paper" in found:
        found["paper"] = found.pop("paper")  # last
    handles, labels = list(found.values()), list(found)
    widest = 0.55 + 0.07 * max(len(label) for label in labels)  # inches, at this font size
    columns = max(1, min(len(labels), int(figure.get_figwidth() / widest)))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def pick(rows: Sequence[Row], metric: str, **where: Any) -> list[Row]:
    """The rows of a metric with the given labels; a list means any of them, "" none."""
    return [row for row in rows if row["metric"] == metric and matches(row, where)]


def along(rows: Sequence[Row], axis: str) -> tuple[list[Any], Values, Values]:
    """Positions on an axis in order, values and standard errors."""
    ordered = sorted((row for row in rows if axis in row), key=lambda row: row[axis])
    values = np.array([row["value"] for row in ordered])
    errors = np.array([row["se"] or 0.0 for row in ordered])
    return [row[axis] for row in ordered], values, errors


def only(rows: Sequence[Row]) -> Row:
    """The single row there should be."""
    if len(rows) != 1:
        raise DataMarketError(
            f"a figure needs one row and found {len(rows)}; run the whole experiment, without --only"
        )
    return rows[0]


def distinct(rows: Sequence[Row], key: str) -> list[Any]:
    """The values of a label in the order in which they first occur."""
    return list(dict.fromkeys(row[key] for row in rows if key in row))


def on_paper(rows: Sequence[Row]) -> list[Row]:
    """The rows for which the paper has a number."""
    return [row for row in rows if row["paper"] is not None]


def note(rows: Sequence[Row], bars: str = "") -> str:
    """How many seeds and providers the rows rest on, and what bars and bands mean (``bars``: something else)."""
    seeds = sorted({row["seeds"] for row in rows if row.get("seeds")})
    parts = [f"n = {_span(seeds)} seed{'s' if seeds[-1] > 1 else ''}"] if seeds else []
    tasks = [task for name in distinct(rows, "task") if (task := _task(name)) is not None]
    if tasks:
        providers = sorted({task.n_providers for task in tasks})
        units = sorted({task.per_provider for task in tasks if hasattr(task, "per_provider")})
        parts.append(
            f"markets of {_span(providers)} providers"
            + (f" with {_span(units)} units each" if units else "")
        )
    usual = "bars and bands: ± one standard error over seeds"
    parts.append(
        bars or (usual if any(row.get("se") for row in rows) else "no bars: no standard errors")
    )
    return "; ".join(parts)


def _undefined(rows: Sequence[Row]) -> str:
    """Which mechanisms have cells without a gain, because the honest payment is nowhere clearly positive."""
    from datamarket_gym.lab.figures.words import mechanism_words

    missing = [row["mechanism"] for row in pick(rows, "gain") if row.get("value") is None]
    listed = ", ".join(
        f"{mechanism_words(m)} ({missing.count(m)} cells)" for m in dict.fromkeys(missing)
    )
    return f"not shown, honest pay is nowhere clearly above zero: {listed}" if missing else ""


def _span(values: Sequence[int]) -> str:
    return f"{values[0]}" if values[0] == values[-1] else f"{values[0]} to {values[-1]}"


def _task(name: str) -> Any:
    """The task of that name, where it is one that deals units to providers."""
    try:
        task = TASKS.create(name)
    except DataMarketError:
        return None
    return task if hasattr(task, "n_providers") else None


Drawer = Callable[..., Any]
"""Takes an experiment's summary rows, and those of the experiment beside it if it names one; returns a figure."""


@dataclass(frozen=True)
class Figure:
    """Who draws a figure, of which experiment, and the experiment whose rows it also shows."""

    draws: Drawer
    of: str = ""
    beside: str = ""


_drawers: dict[str, Figure] = {}


def drawer(*names: str, beside: str = "", called: str = "") -> Callable[[Drawer], Drawer]:
    """Decorator: the function draws the figure of these experiments; an experiment's second is ``called`` otherwise."""

    def add(function: Drawer) -> Drawer:
        for name in names:
            _drawers[called or name] = Figure(function, name, beside)
        return function

    return add


@cache
def drawers() -> dict[str, Figure]:
    """All figures by name, the experiment's own for its first; importing them does not import matplotlib."""
    from importlib import import_module
    from pkgutil import iter_modules

    from datamarket_gym.lab import figures as home

    for module in iter_modules(home.__path__, f"{home.__name__}."):
        import_module(module.name)
    return _drawers


def figures_of(experiment: str) -> list[str]:
    """The names of an experiment's figures."""
    return sorted(name for name, figure in drawers().items() if figure.of == experiment)


def draw(
    name: str,
    rows: Sequence[Row],
    out: Path,
    *,
    title: str = "",
    of: str | None = None,
    others: Mapping[str, Sequence[Row]] | None = None,
) -> list[Path]:
    """Draw a figure of an experiment into a folder, as ``name.svg`` and ``name.png``.

    ``of`` names the figure that it is, if it is not ``name``; an experiment without a figure of its own has
    the general one. ``others`` holds the rows of other experiments, for figures that show some beside.
    """
    from datamarket_gym.lab.figures.general import any_experiment

    chosen = drawers().get(name if of is None else of, Figure(any_experiment))
    defined = [row for row in rows if row.get("value") is not None]
    out.mkdir(parents=True, exist_ok=True)
    files = [out / f"{name}.svg", out / f"{name}.png"]
    with plotting() as plt:
        figure = chosen.draws(
            defined, *([(others or {}).get(chosen.beside, [])] if chosen.beside else [])
        )
        bars = getattr(figure, "bars", "")
        said = [*getattr(figure, "said", []), _undefined(rows)]
        lines = filter(None, [title, note(defined, bars), *said])
        across = int(14 * figure.get_figwidth())  # letters, at this font size
        figure.suptitle("\n".join(fill(line, across) for line in lines), fontsize=9)
        for file in files:
            # Without a date, so that an unchanged figure is an unchanged file.
            metadata = {"Date": None} if file.suffix == ".svg" else {"Software": None}
            with replacing(file) as part:
                figure.savefig(part, dpi=160, metadata=metadata, format=file.suffix[1:])
        plt.close(figure)
    return files


def say(figure: Any, line: str) -> None:
    """A line under the figure's title: what is left out, and why."""
    figure.said = [*getattr(figure, "said", []), line]
