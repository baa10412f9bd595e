"""Many coalitions in lockstep on BLAS: levels of equal size, chunks of neighbours, threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import CoalitionMatrix, Codes
from datamarket_gym.learners.logistic import newton, warm
from datamarket_gym.learners.logistic.chunk import Array, Chunk, Layout
from datamarket_gym.learners.logistic.problem import Problem

_KEPT = 60_000_000  # numbers of the last size's solutions kept for warm starts (480 MB)


@dataclass(frozen=True)
class _Level:
    """Coalitions of one size, and what is known of their subsets."""

    members: CoalitionMatrix
    subset: NDArray[np.intp]
    found: NDArray[np.bool_]
    solution: Array  # of the size before
    trend: Array


class Lockstep:
    """The engine without compiled kernels, and for many features."""

    def __init__(self, problem: Problem, C: float, jobs: int) -> None:
        self.layout, self.jobs = Layout(problem, C), jobs
        self.shape = (problem.n_classes, self.layout.width)
        cells = problem.n_classes * (2 * len(problem.label) + 8 * self.layout.width)
        if problem.n_classes * self.layout.width <= newton._DENSE:
            cells += 3 * (problem.n_classes * self.layout.width) ** 2
        self.chunk = int(np.clip(8e6 / cells, 4, 64))
        self._anchor: Array | None = None

    def solve(self, coalitions: CoalitionMatrix) -> tuple[Codes, NDArray[np.bool_], int]:
        """See `engine.Engine`."""
        from threadpoolctl import threadpool_limits

        correct = np.zeros(len(coalitions), dtype=np.int64)
        proven = np.zeros(len(coalitions), dtype=bool)
        gradients = 0
        ladder = warm.Ladder(coalitions.shape[1])
        solution = trend = np.zeros((0, *self.shape))
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(self.jobs) as pool:
            if self._anchor is None:
                self._anchor = self._grand()
            for rows in warm.by_size(coalitions):
                members = coalitions[rows]
                size = int(members[0].sum())
                level = _Level(members, *ladder.subsets(members, size), solution, trend)
                keep = len(rows) * int(np.prod(self.shape)) <= _KEPT
                solution = np.zeros((len(rows) if keep else 0, *self.shape))
                trend = np.zeros_like(solution)
                # no chunk too large for the cache, and something for every thread to do
                count = max(-(-len(rows) // self.chunk), min(self.jobs, len(rows)))
                parts = np.array_split(np.arange(len(rows)), count)
                results = pool.map(lambda part, level=level: self._part(level, part), parts)
                for part, (theta, change, hits, sure, spent) in zip(parts, results, strict=True):
                    if keep:
                        solution[part], trend[part] = theta, change
                    correct[rows[part]], proven[rows[part]] = hits, sure
                    gradients += spent
        return correct, proven, gradients

    def _part(
        self, level: _Level, part: NDArray[np.intp]
    ) -> tuple[Array, Array, Codes, NDArray[np.bool_], int]:
        members = level.members[part]
        assert self._anchor is not None
        start = np.repeat(self._anchor[None], len(part), axis=0)
        mean = start
        if len(level.solution) and level.found.size:
            known = np.asarray(level.found[part].any(axis=1))[:, None, None]
            guess, average = warm.extrapolate(
                level.solution,
                level.trend,
                level.subset[part],
                level.found[part],
                int(members[0].sum()),
            )
            start, mean = np.where(known, guess, start), np.where(known, average, start)
        chunk = Chunk(self.layout, members)
        # a problem that runs away is not proven, and `alone` solves it
        with np.errstate(over="ignore", invalid="ignore"):
            theta, hits, proven = newton.solve(chunk, start)
        theta[~np.isfinite(theta).all(axis=(1, 2))] = self._anchor
        if mean is start:
            mean = theta
        return theta, theta - mean, hits, proven, chunk.count

    def _grand(self) -> Array:
        """A rough solution of the grand coalition: the start where there is no better one."""
        everyone = np.ones((1, self.layout.problem.n_players), dtype=bool)
        theta, _, _ = newton.solve(Chunk(self.layout, everyone), np.zeros((1, *self.shape)))
        return np.asarray(theta[0])
