"""Which engine answers: compiled kernels for few parameters, BLAS in lockstep for many."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.learners.logistic.problem import Problem
from datamarket_gym.typing import CoalitionMatrix, Codes


class Engine(Protocol):
    """Solves coalitions with at least two classes."""

    def solve(self, coalitions: CoalitionMatrix) -> tuple[Codes, NDArray[np.bool_], int]:
        """Correct predictions, whether they are proven, and gradient evaluations spent.

        What is not proven is solved again by `alone`.
        """


class NoEngine:
    """Leaves everything to `alone`."""

    def solve(self, coalitions: CoalitionMatrix) -> tuple[Codes, NDArray[np.bool_], int]:
        """Nothing proven."""
        n = len(coalitions)
        return np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool), 0


_COMPILED = 400  # parameters up to which compiled kernels beat matrix products


def choose(problem: Problem, C: float, jobs: int, backend: str = "auto") -> Engine:
    """The engine for a problem; ``backend`` (compiled, lockstep, alone) overrides the choice."""
    size = problem.n_classes * (problem.features.shape[1] + 1)
    if backend == "auto":
        fits = size <= _COMPILED and problem.n_classes <= 60 and find_spec("numba") is not None
        backend = "compiled" if fits else "lockstep"
    if backend == "compiled":
        from datamarket_gym.learners.logistic.compiled import Compiled

        return Compiled(problem, C, jobs)
    if backend == "lockstep":
        from datamarket_gym.learners.logistic.lockstep import Lockstep

        return Lockstep(problem, C, jobs)
    return NoEngine()
