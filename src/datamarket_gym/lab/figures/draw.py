"""Drawing figures to files: SVG and PNG, the same bytes for the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from datamarket_gym.core.files import replacing
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.figures.registry import drawers
from datamarket_gym.lab.figures.style import plotting


def draw(name: str, rows: Sequence[Row], out: Path) -> list[Path]:
    """Draw an experiment's figure into a folder; no files where it has none."""
    if name not in drawers():
        return []
    out.mkdir(parents=True, exist_ok=True)
    files = [out / f"{name}.svg", out / f"{name}.png"]
    with plotting() as plt:
        figure = drawers()[name](rows)
        for file in files:
            # Without a date, so that an unchanged figure is an unchanged file.
            metadata = {"Date": None} if file.suffix == ".svg" else {"Software": None}
            with replacing(file) as part:
                figure.savefig(part, dpi=160, metadata=metadata, format=file.suffix[1:])
        plt.close(figure)
    return files
