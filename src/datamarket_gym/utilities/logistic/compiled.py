"""The engine for few parameters, on compiled kernels: levels of equal size, parts of neighbours, threads.

A coalition's solution is close to those of its subsets with one player less, so coalitions are solved in order of size
and start from what is extrapolated from their subsets (`_numba.guess`). Only the last size is kept.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.execution.arrays import CoalitionMatrix, Codes
from datamarket_gym.utilities.logistic.batched import Answer
from datamarket_gym.utilities.logistic.problem import Problem, present, slabs

_ALL = 64  # players up to which all subsets are listed
_FEW = 8


def by_size(coalitions: CoalitionMatrix) -> list[NDArray[np.intp]]:
    """Row numbers of each size, ascending; within a size similar coalitions are neighbours."""
    size = coalitions.sum(axis=1)
    packed = np.packbits(coalitions[:, ::-1], axis=1)
    keys = [packed[:, j] for j in range(packed.shape[1] - 1, -1, -1)]
    order = np.lexsort([*keys, size])
    cuts = np.flatnonzero(np.diff(size[order])) + 1
    return list(np.split(order, cuts))


class Ladder:
    """Solutions of the coalitions of the last size, found by the fingerprint of the set."""

    def __init__(self, n_players: int) -> None:
        rng = np.random.default_rng(0)
        self._player = rng.integers(0, 2**63, n_players, dtype=np.uint64)
        self._table, self._order = np.empty(0, np.uint64), np.empty(0, np.intp)
        self._size = -1

    def subsets(
        self, coalitions: CoalitionMatrix, size: int
    ) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Positions (b, m) of each coalition's subsets among the last size's, and which are there.

        With many players only the first few that are found are listed.
        """
        b, n_players = coalitions.shape
        columns = n_players if n_players <= _ALL else _FEW
        if self._size != size - 1:
            columns = 0
        cache_keys = np.empty(b, dtype=np.uint64)
        subset, found = np.zeros((b, columns), dtype=np.intp), np.zeros((b, columns), dtype=bool)
        for part in slabs(b, n_players):
            members = coalitions[part]
            cache_keys[part] = members.astype(np.uint64) @ self._player
            if not columns:
                continue
            wanted = cache_keys[part, None] - self._player
            at = np.minimum(np.searchsorted(self._table, wanted), len(self._table) - 1)
            hit = members & (self._table[at] == wanted)
            if columns < n_players:
                first = np.argsort(~hit, axis=1, kind="stable")[:, :columns]
                at, hit = np.take_along_axis(at, first, 1), np.take_along_axis(hit, first, 1)
            subset[part], found[part] = self._order[at], hit
        self._order = np.argsort(cache_keys)
        self._table, self._size = cache_keys[self._order], size
        return subset, found


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

    def solve(self, coalitions: CoalitionMatrix) -> Answer:
        """Solve coalitions with at least two classes; what is not proven is solved again by `certainty`."""
        from datamarket_gym.utilities.logistic import _numba

        if self._rows is None:
            self._start()
        answer = Answer.of(len(coalitions))
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
                part = Answer.of(len(rows))
                step = int(np.clip(len(rows) // (4 * self.jobs), 8, 64))
                tasks = []
                for a in range(0, len(rows), step):
                    at = slice(a, a + step)
                    level = _numba.Level(
                        members[at], subset[at], found[at], code[at], solution, trend, old
                    )
                    answers = _numba.Answers(new[at], change[at], part.correct[at], part.proven[at])
                    tasks.append(pool.submit(_solve_part, self._rows, level, answers))
                answer.gradients += sum(task.result() for task in tasks)
                answer.correct[rows], answer.proven[rows] = part.correct, part.proven
                solution, trend, old = new, change, code
        return answer

    def _start(self) -> None:
        """Compile if need be; solve the grand coalition, the start where there is no better one."""
        from datamarket_gym.utilities.accelerators import is_compiled
        from datamarket_gym.utilities.logistic import _numba

        if not is_compiled(_numba.solve_part):
            _log.warning("compiling the logistic kernels, once on this machine: about half a minute")
        problem = self.problem
        self._rows = _numba.Rows(
            self.features, problem.label, self.weight, problem.start, self.validation,
            problem.validation_label, problem.n_classes, problem.centre, problem.spread,
            np.zeros(self.shape), self.C,
        )  # fmt: skip
        everyone = np.ones((1, problem.n_players), dtype=bool)
        code, none = self._codes(everyone), np.zeros((1, 0), dtype=bool)
        level = _numba.Level(
            everyone, none.astype(np.intp), none, code, self._space(0), self._trends(0), code[:0]
        )
        solution = self._space(1)
        answers = _numba.Answers(solution, self._trends(1), np.zeros(1, np.int64), np.zeros(1, bool))
        _solve_part(self._rows, level, answers)
        self._rows = self._rows._replace(anchor=solution[0])

    def _codes(self, coalitions: CoalitionMatrix) -> Codes:
        return np.asarray(present(coalitions, self.problem.classes) @ self.bits)

    def _space(self, n: int) -> NDArray[np.float64]:
        return np.zeros((n, *self.shape))

    def _trends(self, n: int) -> NDArray[np.float64]:
        return np.zeros((n, 2, *self.shape))


def _solve_part(rows: Any, level: Any, answers: Any) -> int:
    from datamarket_gym.utilities.logistic import _numba

    bits = np.zeros(_numba.TILE, dtype=np.int64)
    return int(_numba.solve_part(rows, level, answers, bits, bits.view(np.float64)))
