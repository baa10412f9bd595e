"""Which engine answers: compiled kernels for few parameters and many coalitions, else whole batches,
which begin in single precision where there are many features.

The choice is a function of the problem, of how many games like it are to be played, and of what is
installed: all coalitions of its players are assumed to be asked for. All engines give the same answers.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import CoalitionMatrix, Codes
from datamarket_gym.learners.logistic.batched import BatchedGames
from datamarket_gym.learners.logistic.layout import stack
from datamarket_gym.learners.logistic.problem import Problem
from datamarket_gym.learners.logistic.wide import Wide

_COMPILED = 400  # parameters up to which compiled kernels beat matrix products
_WIDE = 65  # features from which rows are fitted so closely that few of them bend the loss
_WORTH_LOADING = 200  # coalitions that take as long in batches as loading the kernels
_WORTH_COMPILING = 4000  # half a minute, once on a machine: nobody should wait for it to solve a few


class Engine(Protocol):
    """Solves coalitions with at least two classes."""

    def solve(self, coalitions: CoalitionMatrix) -> tuple[Codes, NDArray[np.bool_], int]:
        """Correct predictions, whether they are proven, and gradient evaluations spent.

        What is not proven is solved again by `exact`.
        """


class Batched:
    """Whole batches on NumPy: without numba, and for few coalitions."""

    def __init__(self, problem: Problem, C: float, jobs: int) -> None:
        self._games = BatchedGames(stack([problem], C, np.empty(0)), jobs)

    def solve(self, coalitions: CoalitionMatrix) -> tuple[Codes, NDArray[np.bool_], int]:
        """See `Engine`."""
        (answer,) = self._games.solve([coalitions])
        return answer.correct, answer.proven, answer.gradients


class NoEngine:
    """Leaves everything to `exact`."""

    def solve(self, coalitions: CoalitionMatrix) -> tuple[Codes, NDArray[np.bool_], int]:
        """Nothing proven."""
        n = len(coalitions)
        return np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool), 0


def choose(problem: Problem, C: float, jobs: int, backend: str = "auto", games: int = 1) -> Engine:
    """The engine for a problem; ``backend`` (compiled, wide, batched, exact) overrides the choice."""
    if backend == "auto":
        many = "wide" if problem.features.shape[1] >= _WIDE else "batched"
        backend = "compiled" if _worth_compiled_kernels(problem, games) else many
    if backend == "compiled":
        from datamarket_gym.learners.logistic.compiled import Compiled

        return Compiled(problem, C, jobs)
    if backend == "wide":
        return Wide(problem, C, jobs)
    return Batched(problem, C, jobs) if backend == "batched" else NoEngine()


def _worth_compiled_kernels(problem: Problem, games: int) -> bool:
    coalitions = 2**problem.n_players - 1
    small = problem.n_classes * (problem.features.shape[1] + 1) <= _COMPILED and problem.n_classes <= 60
    if not small or coalitions <= _WORTH_LOADING or find_spec("numba") is None:
        return False
    from datamarket_gym.learners.kernel_cache import is_compiled
    from datamarket_gym.learners.logistic.coalition import solve_part

    return coalitions * games > _WORTH_COMPILING or is_compiled(solve_part)
