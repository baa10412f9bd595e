"""The engine for many features on the CPU: in single precision until a proof in double precision holds.

Coalitions are solved in order of size, many at a time on matrix products, each from what is
extrapolated from its subsets. A first few sweeps are preconditioned by the grand coalition's
curvature (`anchor`), the others by the coalition's own (`edges`): 20 gradients instead of 60. Sweeps are in
single precision, which is twice as fast; where a coalition seems solved its gradient is taken in double
precision, and with that the proof (`verdict`). What single precision is too coarse for goes on in
double precision (`batched.CoalitionBatch`), what that does not settle is left to `exact`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from datamarket_gym.core.arrays import CoalitionMatrix, Codes
from datamarket_gym.learners.logistic import descent
from datamarket_gym.learners.logistic.batched import cells_of
from datamarket_gym.learners.logistic.ladder import Ladder, by_size
from datamarket_gym.learners.logistic.layout import stack
from datamarket_gym.learners.logistic.part import WideGame, WidePart, game_of, joined
from datamarket_gym.learners.logistic.problem import Problem, present

_KEPT = 20_000_000  # numbers of the last size's solutions kept for warm starts (240 MB with trends)
_COMPANY = 6  # coalitions of a size from which it is worth going size by size
_TOGETHER = 72  # coalitions at a time: products are large, and what they need stays in the cache


class Wide:
    """See `engine.Engine`."""

    def __init__(self, problem: Problem, C: float, jobs: int) -> None:
        self.problem, self.jobs = problem, jobs
        self.stack = stack([problem], C, np.empty(0))
        self._game: WideGame | None = None

    def solve(self, coalitions: CoalitionMatrix) -> tuple[Codes, NDArray[np.bool_], int]:
        """See `engine.Engine`."""
        correct = np.zeros(len(coalitions), dtype=np.int64)
        proven = np.zeros(len(coalitions), dtype=bool)
        gradients = 0
        sizes = by_size(coalitions)
        if len(coalitions) < _COMPANY * len(sizes):
            sizes = [np.arange(len(coalitions))]
        ladder, having = Ladder(coalitions.shape[1]), present(coalitions, self.problem.classes)
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(self.jobs) as pool:
            if self._game is None:
                self._game = game_of(self.stack)
            before = None
            for rows in sizes:
                members = coalitions[rows]
                subset, found = ladder.subsets(members, int(members[0].sum()))
                step = self._step(len(rows))
                places = [slice(a, a + step) for a in range(0, len(rows), step)]
                parts = [WidePart(self._game, members[at], having[rows[at]]) for at in places]
                if before is not None:
                    for part, at in zip(parts, places, strict=True):
                        part.extrapolate(before, subset[at], found[at])
                list(pool.map(WidePart.run, parts))
                for part, at in zip(parts, places, strict=True):
                    correct[rows[at]], proven[rows[at]] = part.correct, part.proven
                    gradients += part.gradients
                small = len(rows) * self.stack.n_classes * self.stack.width <= _KEPT
                before = joined([part.known() for part in parts]) if small else None
        return correct, proven, gradients

    def _step(self, number: int) -> int:
        """Coalitions at a time: as many for each thread, and fewer where they are large."""
        classes, n = self.stack.n_classes, max(self.stack.x.shape[1], self.stack.val.shape[1])
        one = 3 * classes * n + (2 * descent.PAIRS + 10) * classes * self.stack.width
        most = max(1, min(_TOGETHER, 2 * cells_of(self.stack.x) // one))
        parts = -(-number // (most * self.jobs)) * self.jobs
        return -(-number // parts)
