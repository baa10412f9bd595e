"""``datamarket figures``: which figures are drawn of what a folder holds, and where they go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.extras import require_extra
from datamarket_gym.lab.figures import draw, figures_of
from datamarket_gym.lab.folders import as_built_in, held, is_finished, opened
from datamarket_gym.lab.spec import builtin_specs


def draw_all(folder: Path, out: Path | None) -> Iterator[Path]:
    """Draw a run, all runs of a folder, or all compact results of a folder; the files, as they are written."""
    require_extra("matplotlib", "figures")  # before anything is read
    built_in = builtin_specs()
    found = [one for one in held(folder) if one.form == "compact" or is_finished(one.path)]
    if not found:
        raise DataMarketError(
            f"there is neither a finished run nor a compact result in {str(folder)!r}; run an experiment first "
            "(datamarket run s2), then: datamarket figures runs/s2"
        )
    read = [(one, opened(one, built_in)) for one in found]
    others = {one.name: results.rows for one, results in read}
    for one, results in read:
        spec, rows = results.spec, results.rows
        title = f"{spec.name}: {spec.title}"
        into = out or (one.path if one.form == "run" else Path("docs/figures"))
        # A run has its experiment's own figures, if it was run as that is built in, else the general one.
        own = figures_of(spec.name) if one.form == "compact" or as_built_in(results, built_in) else []
        for name in own:
            yield from draw(name, rows, into, title=title, others=others)
        if not own:
            yield from draw(spec.name, rows, into, title=title, of="", others=others)
