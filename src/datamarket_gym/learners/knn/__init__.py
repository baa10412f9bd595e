"""k nearest neighbours: accuracy of a vote (`learner`), what means explain (`regression`), and both cut short.

`distances` and `ranks` say who is near, `neighbours` keeps it; `votes` and `means` answer coalitions (`compiled`: their
loops), `scorer` holds closed forms together, `given` those beside rows that are there already. `truncated` looks at the
nearest alone, `device` works on a graphics card.
"""

from __future__ import annotations

from datamarket_gym.learners.knn.learner import Knn, KnnScorer, NearestNeighbourGame, closed_form

__all__ = ["Knn", "KnnScorer", "NearestNeighbourGame", "closed_form"]
