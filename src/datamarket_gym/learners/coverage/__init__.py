"""Coverage of validation rows: the learner and its formulas (`learner`), and how they are worked out.

`covering` has similarities a block at a time, `covered_by` who covers a row and what it is worth there (`compiled`,
`device`: the same on compiled loops and on a device), `floor` what is covered already, `covered_rows` the rows behind a
value; `truncated` looks at the nearest alone.
"""

from __future__ import annotations

from datamarket_gym.learners.coverage.covered_by import deciding
from datamarket_gym.learners.coverage.learner import Coverage, CoverageScorer

__all__ = ["Coverage", "CoverageScorer", "deciding"]
