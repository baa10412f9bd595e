"""The engine for few parameters, on compiled kernels: levels of equal size, parts of neighbours, threads.

A coalition's solution is close to those of its subsets with one player less, so coalitions are solved in
order of size and start from what is extrapolated from their subsets (`coalition.guess`). Only the last size
is kept.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import CoalitionMatrix, Codes
from datamarket_gym.learners.logistic.ladder import Ladder, by_size
from datamarket_gym.learners.logistic.problem import Problem, present

_KEPT = 20_000_000  # numbers of the last size's solutions kept for warm starts (480 MB with trends)
_log = logging.getLogger(__name__)


class Compiled:
    """The engine for few parameters."""

    def __init__(self, problem: Problem, C: float, jobs: int) -> None:
        self.problem, self.C, self.jobs = problem, float(C), jobs
        self.shape = (problem.n_classes, problem.features.shape[1] + 1)
        self.bits = 1 << np.arange(problem.n_classes, dtype=np.int64)
        self.features = np.ascontiguousarray(problem.features.T)
        self.validation = np.ascontiguousarray(problem.validation.T)
        self.weight = C * problem.weight
        self._rows: Any = None

    def solve(self, coalitions: CoalitionMatrix) -> tuple[Codes, NDArray[np.bool_], int]:
        """See `engine.Engine`."""
        from datamarket_gym.learners.logistic import coalition

        if self._rows is None:
            self._start()
        correct = np.zeros(len(coalitions), dtype=np.int64)
        proven = np.zeros(len(coalitions), dtype=bool)
        gradients = 0
        codes = self._codes(coalitions)
        ladder = Ladder(coalitions.shape[1])
        solution, trend, old = self._space(0), self._trends(0), codes[:0]
        with ThreadPoolExecutor(self.jobs) as pool:
            for rows in by_size(coalitions):
                members, code = coalitions[rows], codes[rows]
                subset, found = ladder.subsets(members, int(members[0].sum()))
                if not len(solution):
                    subset, found = subset[:, :0], found[:, :0]
                kept = len(rows) if len(rows) * int(np.prod(self.shape)) <= _KEPT else 0
                new, change = self._space(kept), self._trends(kept)
                hits, sure = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=bool)
                step = int(np.clip(len(rows) // (4 * self.jobs), 8, 64))
                tasks = []
                for a in range(0, len(rows), step):
                    at = slice(a, a + step)
                    level = coalition.Level(
                        members[at], subset[at], found[at], code[at], solution, trend, old
                    )
                    answers = coalition.Answers(new[at], change[at], hits[at], sure[at])
                    tasks.append(pool.submit(_solve_part, self._rows, level, answers))
                gradients += sum(task.result() for task in tasks)
                correct[rows], proven[rows] = hits, sure
                solution, trend, old = new, change, code
        return correct, proven, gradients

    def _start(self) -> None:
        """Compile if need be; solve the grand coalition, the start where there is no better one."""
        from datamarket_gym.learners.kernel_cache import is_compiled
        from datamarket_gym.learners.logistic import coalition

        if not is_compiled(coalition.solve_part):
            _log.warning("compiling the logistic kernels, once on this machine: about half a minute")
        problem = self.problem
        self._rows = coalition.Rows(
            self.features, problem.label, self.weight, problem.start, self.validation,
            problem.validation_label, problem.n_classes, problem.centre, problem.spread,
            np.zeros(self.shape), self.C,
        )  # fmt: skip
        everyone = np.ones((1, problem.n_players), dtype=bool)
        code, none = self._codes(everyone), np.zeros((1, 0), dtype=bool)
        level = coalition.Level(
            everyone, none.astype(np.intp), none, code, self._space(0), self._trends(0), code[:0]
        )
        solution = self._space(1)
        answers = coalition.Answers(solution, self._trends(1), np.zeros(1, np.int64), np.zeros(1, bool))
        _solve_part(self._rows, level, answers)
        self._rows = self._rows._replace(anchor=solution[0])

    def _codes(self, coalitions: CoalitionMatrix) -> Codes:
        """The classes of each coalition as bits."""
        return np.asarray(present(coalitions, self.problem.classes) @ self.bits)

    def _space(self, n: int) -> NDArray[np.float64]:
        return np.zeros((n, *self.shape))

    def _trends(self, n: int) -> NDArray[np.float64]:
        return np.zeros((n, 2, *self.shape))


def _solve_part(rows: Any, level: Any, answers: Any) -> int:
    from datamarket_gym.learners.logistic import coalition, kernels

    bits = np.zeros(kernels.TILE, dtype=np.int64)
    return int(coalition.solve_part(rows, level, answers, bits, bits.view(np.float64)))
