"""The pictures of an experiment: the panels of its figures, for a page to draw."""

from __future__ import annotations

from typing import Any

from datamarket_gym.core.errors import UnknownNameError
from datamarket_gym.core.progress import Progress
from datamarket_gym.lab.figures import presets
from datamarket_gym.lab.figures.plotters import describe_rows
from datamarket_gym.lab.figures.presets import Preset
from datamarket_gym.web.benchmark.panels import to_json
from datamarket_gym.web.benchmark.reading import WantedResults


def charts_of(asked: WantedResults) -> list[Preset]:
    """The figures of an experiment, if it was run as it is built in."""
    if not asked.has_own_pictures:
        return []
    name = asked.read().spec.name
    return [one for one in presets().values() if one.of == name]


def chart(asked: WantedResults, name: str, progress: Progress) -> dict[str, Any]:
    """A figure by name."""
    progress.stage("reading the results")
    charts = {one.name: one for one in charts_of(asked)}
    if name not in charts:
        raise UnknownNameError("picture of this experiment", name, charts)
    one = charts[name]
    rows = [row for row in asked.read().rows if row.get("value") is not None]
    panels, notes = one.contents(rows, asked.beside(one.beside) if one.beside else [])
    return {
        "name": name,
        "title": one.title,
        "says": [*notes, describe_rows(rows)],
        "groups": list(dict.fromkeys(panel.group for panel in panels if panel.group)),
        "panels": [to_json(panel) for panel in panels],
    }
