"""Which engine answers: compiled kernels for few parameters, BLAS in lockstep for many."""

from __future__ import annotations

import sys
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import CoalitionMatrix, Codes
from datamarket_gym.learners.logistic.problem import Problem


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


class OnDemand:
    """Matrix products first; compiled kernels once there is enough to do to make up for loading them.

    The very first time on a machine they are compiled, which takes half a minute: nobody should wait
    for that to solve a few hundred coalitions. Both engines give the same answers.
    """

    _solved: ClassVar[int] = 0  # coalitions of this process

    def __init__(self, problem: Problem, C: float, jobs: int) -> None:
        self._make = {
            name: cache(partial(choose, problem, C, jobs, name)) for name in ("compiled", "lockstep")
        }

    def solve(self, coalitions: CoalitionMatrix) -> tuple[Codes, NDArray[np.bool_], int]:
        """By whichever engine is worth it by now."""
        OnDemand._solved += len(coalitions)
        loaded = "datamarket_gym.learners.logistic.coalition" in sys.modules
        enough = 0 if loaded else _WORTH_LOADING if kernels_are_compiled() else _WORTH_COMPILING
        name = "compiled" if OnDemand._solved > enough else "lockstep"
        return self._make[name]().solve(coalitions)


def kernels_are_compiled() -> bool:
    """Whether an earlier process has compiled the kernels and kept them."""
    return any((Path(__file__).parent / "__pycache__").glob("coalition.*.nbi"))


_COMPILED = 400  # parameters up to which compiled kernels beat matrix products
_WORTH_LOADING = 200  # coalitions that take as long in lockstep as loading the kernels
_WORTH_COMPILING = 4000


def choose(problem: Problem, C: float, jobs: int, backend: str = "auto") -> Engine:
    """The engine for a problem; ``backend`` (compiled, lockstep, alone) overrides the choice."""
    size = problem.n_classes * (problem.features.shape[1] + 1)
    if backend == "auto":
        fits = size <= _COMPILED and problem.n_classes <= 60 and find_spec("numba") is not None
        backend = "on demand" if fits else "lockstep"
    if backend == "on demand":
        return OnDemand(problem, C, jobs)
    if backend == "compiled":
        from datamarket_gym.learners.logistic.compiled import Compiled

        return Compiled(problem, C, jobs)
    if backend == "lockstep":
        from datamarket_gym.learners.logistic.lockstep import Lockstep

        return Lockstep(problem, C, jobs)
    return NoEngine()
