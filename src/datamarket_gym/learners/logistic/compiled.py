"""The engine on compiled kernels: levels of equal size, parts of neighbours, threads."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.learners.logistic import warm
from datamarket_gym.learners.logistic.problem import Problem
from datamarket_gym.typing import CoalitionMatrix, Codes

_KEPT = 60_000_000  # numbers of the last size's solutions kept for warm starts (480 MB)
_GROUP = 1  # coalitions that share a factorised Hessian
_log = logging.getLogger(__name__)


class Compiled:
    """The engine for few parameters."""

    def __init__(self, problem: Problem, C: float, jobs: int) -> None:
        from datamarket_gym.learners.logistic import coalition

        self.problem, self.jobs, self._kernel = problem, jobs, coalition.solve_part
        self.features = np.ascontiguousarray(problem.features.T)
        self.validation = np.ascontiguousarray(problem.validation.T)
        self.weight = C * problem.weight
        self.shape = (problem.n_classes, problem.features.shape[1] + 1)
        self.anchor: NDArray[np.float64] | None = None

    def solve(self, coalitions: CoalitionMatrix) -> tuple[Codes, NDArray[np.bool_], int]:
        """See `engine.Engine`."""
        correct = np.zeros(len(coalitions), dtype=np.int64)
        proven = np.zeros(len(coalitions), dtype=bool)
        gradients = 0
        if self.anchor is None:
            self.anchor = self._grand()
        bit = 1 << np.arange(self.problem.n_classes, dtype=np.int64)
        classes = (coalitions @ self.problem.classes.astype(np.float32)) > 0
        codes = classes @ bit
        ladder = warm.Ladder(coalitions.shape[1])
        solution = trend = np.zeros((0, *self.shape))
        old = np.zeros(0, dtype=np.int64)
        with ThreadPoolExecutor(self.jobs) as pool:
            for rows in warm.by_size(coalitions):
                members, code = coalitions[rows], codes[rows]
                subset, found = ladder.subsets(members, int(members[0].sum()))
                if not len(solution):
                    subset, found = subset[:, :0], found[:, :0]
                keep = len(rows) * int(np.prod(self.shape)) <= _KEPT
                new = np.zeros((len(rows) if keep else 0, *self.shape))
                change = np.zeros_like(new)
                hits, sure = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=bool)

                def work(part: slice) -> int:
                    return self._run(
                        members[part], subset[part], found[part], code[part],  # noqa: B023
                        solution, trend, old,  # noqa: B023
                        new[part], change[part], hits[part], sure[part],  # noqa: B023
                    )  # fmt: skip

                step = int(np.clip(len(rows) // (4 * self.jobs), 8, 64))
                parts = [slice(a, a + step) for a in range(0, len(rows), step)]
                gradients += sum(pool.map(work, parts))
                correct[rows], proven[rows] = hits, sure
                solution, trend, old = new, change, code
        return correct, proven, gradients

    def _grand(self) -> NDArray[np.float64]:
        """A rough solution of the grand coalition: the start where there is no better one."""
        if not self._kernel.signatures:
            _log.info("compiling the logistic kernels (once; later runs load them from the cache)")
        everyone = np.ones((1, self.problem.n_players), dtype=bool)
        code = np.array([(1 << np.flatnonzero(self.problem.classes.any(axis=0))).sum()])
        empty = np.zeros((0, *self.shape))
        out, none = np.zeros((1, *self.shape)), np.zeros((1, 0))
        self.anchor = np.zeros(self.shape)
        self._run(
            everyone, none.astype(np.intp), none.astype(bool), code, empty, empty,
            np.zeros(0, dtype=np.int64), out, out.copy(), np.zeros(1, np.int64), np.zeros(1, bool),
        )  # fmt: skip
        return np.asarray(out[0])

    def _run(self, members, subset, found, code, before, trend, old, new, change, hits, sure):  # type: ignore[no-untyped-def]  # noqa: E501
        problem = self.problem
        return self._kernel(
            self.features, problem.label, self.weight, problem.start, self.validation,
            problem.validation_label, problem.n_classes, problem.centre, problem.spread, _GROUP,
            members, subset, found, code, before, trend, old, self.anchor, new, change, hits, sure,
        )  # fmt: skip
