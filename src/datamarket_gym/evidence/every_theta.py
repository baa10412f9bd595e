"""What merges at every threshold at once: the maximum spanning forest of all similarities between rows.

Two rows are in one component of ``cosine@theta`` exactly if ties of the forest of at least theta join them
(`evidence.forest`), so whoever has the forest can move theta without asking again.

Not all pairs are worked out. From the highest level down, pairs are asked for between components alone: a pair within
a component is weaker than the ties that made it, closes a cycle, and is in no forest. Levels are quantiles of the
similarity of rows with their nearest other row; where few rows are left alone, little is left to ask.
"""

from __future__ import annotations

import numpy as np

from datamarket_gym.core.arrays import Codes, Features, Values
from datamarket_gym.core.progress import SILENT, Progress
from datamarket_gym.evidence.distinct import DistinctRows
from datamarket_gym.evidence.forest import Pairs
from datamarket_gym.evidence.graph import Edges, components, star
from datamarket_gym.evidence.layers.content import COSINE, require_directions
from datamarket_gym.evidence.pairs import similar_pairs

LOWEST = float(np.nextafter(-1.0, 0.0))
"""The lowest threshold that cosine evidence takes."""
_QUANTILES = (0.9, 0.7, 0.5, 0.3, 0.1, 0.01, 0.0)


def forest_of(vectors: Features, nearest: Values, progress: Progress = SILENT) -> Edges:
    """The forest of all rows by cosine evidence, the strongest tie first; identical rows are tied at 1.

    ``nearest`` are similarities of the rows with their nearest other row, or of some of them: they decide how
    long it takes and no tie.
    """
    rows = DistinctRows(vectors)
    require_directions(rows)
    found, node = Pairs.joined([]), np.arange(len(rows))
    levels = [*_levels(nearest), LOWEST]
    for done, theta in enumerate(levels):
        progress.count(done, len(levels))
        more = similar_pairs(rows, theta, node)
        found = Pairs.joined([found, more]).forest()
        node = _joined(found, len(rows))
        if not node.any():
            break
    place = rows.distinct
    same = star(rows.first, COSINE)
    return Edges.of(
        np.concatenate([same.left, place[found.left]]),
        np.concatenate([same.right, place[found.right]]),
        COSINE,
        np.concatenate([same.score, found.cosine]),
    )


def _levels(nearest: Values) -> list[float]:
    falling = np.unique(np.quantile(nearest, _QUANTILES))[::-1].tolist() if len(nearest) else []
    return [theta for theta in falling if LOWEST < theta <= 1.0]


def _joined(found: Pairs, n: int) -> Codes:
    return components(np.arange(n), Edges.of(found.left, found.right, COSINE))
