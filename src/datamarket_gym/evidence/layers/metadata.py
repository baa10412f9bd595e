"""Evidence from a column that the operator fills in: a watermark id, a licence, a device, a document of origin.

Units that agree in the column are matched. The layer believes what it reads: where submitters fill the column in, a
copied value ties somebody else's unit to one's own, and a changed one unties a copy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import ParameterError
from datamarket_gym.evidence.graph import Edges, EvidenceLayer, View, star
from datamarket_gym.execution.arrays import Codes
from datamarket_gym.registry import register


@register("evidence", "metadata")
@dataclass(frozen=True)
class Metadata(EvidenceLayer):
    """Match units that agree in a ``column`` of the submission; an empty cell agrees with nothing."""

    title = "same metadata"

    column: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.column.strip():
            raise ParameterError("column", self.column, "name a column, as in metadata@licence")

    def edges(self, view: View) -> Edges:
        """Tie all units of a value to the first of them."""
        codes = value_codes(view.submission, self.column)
        known = np.flatnonzero(codes >= 0)
        matches = star(codes[known], f"same {self.column}")
        return Edges(known[matches.left], known[matches.right], matches.score, matches.reason)


def value_codes(submission: Submission, column: str) -> Codes:
    """Number the values of a column in their own order: one code per unit, -1 where the cell is empty."""
    values = submission.column(column)
    number = {value: code for code, value in enumerate(sorted({v for v in values if v is not None}))}
    return np.array([-1 if value is None else number[value] for value in values], dtype=np.int64)
