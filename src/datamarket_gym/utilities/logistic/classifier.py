"""The utility `logistic` and its scorers: checks, easy cases, choice of engine, report.

Compiled kernels answer where there are few parameters and many coalitions, else whole batches, which begin in single
precision where there are many features. The choice is a function of the problem, of how many games like it are to be
played, and of what is installed: all coalitions of its players are assumed to be asked for. All engines give the same
answers.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.display import Shown
from datamarket_gym.errors import ParameterError, require_in
from datamarket_gym.execution.arrays import CoalitionMatrix, Codes, Values
from datamarket_gym.execution.parallel import available_cores
from datamarket_gym.registry import OneOf, Range, register
from datamarket_gym.utilities.base import Scorer, TrainingRows, UtilityFunction, ValidationRows
from datamarket_gym.utilities.logistic import certainty
from datamarket_gym.utilities.logistic.batched import Answer, BatchedGames
from datamarket_gym.utilities.logistic.layout import stack
from datamarket_gym.utilities.logistic.low_precision import Wide
from datamarket_gym.utilities.logistic.problem import Problem, prepare, present, standardise

_COMPILED = 400  # parameters up to which compiled kernels beat matrix products
_WIDE = 65  # features from which rows are fitted so closely that few of them bend the loss
_WORTH_LOADING = 200  # coalitions that take as long in batches as loading the kernels
_ITERATIONS = 10_000  # of scikit-learn's solver, where the batched one fails
_WORTH_COMPILING = 4000  # half a minute, once on a machine: nobody should wait for it to solve a few


class Batched:
    """Whole batches of one game, on NumPy or on a device of torch."""

    def __init__(self, problem: Problem, C: float, jobs: int, device: str = "numpy") -> None:
        self.games = BatchedGames(stack([problem], C, _empty(device)), jobs)

    def solve(self, coalitions: CoalitionMatrix) -> Answer:
        """Solve coalitions with at least two classes; what is not proven is solved again by `certainty`."""
        return self.games.solve([coalitions])[0]


def choose(problem: Problem, C: float, jobs: int, backend: str = "auto", games: int = 1) -> Any:
    """Choose the engine for a problem; ``backend`` (compiled, wide, batched) overrides the choice."""
    if backend == "auto":
        many = "wide" if problem.features.shape[1] >= _WIDE else "batched"
        backend = "compiled" if _worth_compiled_kernels(problem, games) else many
    if backend == "compiled":
        from datamarket_gym.utilities.logistic.compiled import Compiled

        return Compiled(problem, C, jobs)
    return Wide(problem, C, jobs) if backend == "wide" else Batched(problem, C, jobs)


def _worth_compiled_kernels(problem: Problem, games: int) -> bool:
    coalitions = 2**problem.n_players - 1
    small = problem.n_classes * (problem.features.shape[1] + 1) <= _COMPILED and problem.n_classes <= 60
    if not small or coalitions <= _WORTH_LOADING or find_spec("numba") is None:
        return False
    from datamarket_gym.utilities.accelerators import is_compiled
    from datamarket_gym.utilities.logistic._numba import solve_part

    return coalitions * games > _WORTH_COMPILING or is_compiled(solve_part)


@dataclass
class SolverReport(Shown):
    """Count the work of a scorer."""

    coalitions: int = 0  # solved, single-class ones included
    proven: int = 0  # predictions certain by proof (or because there is one class only)
    converged: int = 0  # certain because the gradient is at rounding level
    ties: int = 0  # a validation row stayed within rounding of a boundary: lowest class taken
    gradients: int = 0  # gradient evaluations


class LogisticScorer(Scorer):
    """Answer the coalitions of one game; `report` counts what it took.

    Parameters
    ----------
    rows
        The training rows.
    validation
        The validation rows.
    C
        The inverse of the regularisation strength.
    jobs
        Cores that are used; 0: all.
    backend
        The engine: ``compiled``, ``wide``, ``batched``, ``exact``, or ``auto``.
    games
        How many games like this one are to be played, by which the engine is chosen.
    device
        ``numpy``, or a device of torch on which the batched engine works: ``cpu``, ``cuda``, ``auto``.
    """

    def __init__(
        self,
        rows: TrainingRows,
        validation: ValidationRows,
        C: float = 1.0,
        jobs: int = 0,
        backend: str = "auto",
        games: int = 1,
        device: str = "numpy",
    ) -> None:
        require_in("C", C, 0.0, 1e6, open_low=True)
        self.problem = prepare(rows, validation)
        self.C = float(C)
        self.jobs, self.backend, self.games = jobs or available_cores(), backend, games
        self.report = SolverReport()
        if device != "numpy":
            self.engine = Batched(self.problem, self.C, 1, device)

    @cached_property
    def engine(self) -> Any:
        """Choose what solves coalitions of more than one class."""
        return choose(self.problem, self.C, self.jobs, self.backend, self.games)

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        return self.correct(coalitions) / len(self.problem.validation_label)

    def correct(self, coalitions: CoalitionMatrix) -> Codes:
        """Number of validation rows each coalition's model gets right."""
        coalitions = np.asarray(coalitions)
        correct, todo = _one_class(self.problem, coalitions, self.report)
        if len(todo):
            remaining = coalitions[todo]
            exact = self.backend == "exact"
            answer = Answer.of(len(todo)) if exact else self.engine.solve(remaining)
            _complete(self.problem, self.C, remaining, answer, self.report)
            correct[todo] = answer.correct
        return correct

    def class_scores(self, coalitions: CoalitionMatrix) -> Values:
        """Compute logits of validation rows, shape (B, rows, classes), of converged models; -inf for absent classes."""
        problem = self.problem
        having = present(coalitions, problem.classes)
        rows = len(problem.validation_label)
        out = np.where(having, 0.0, -np.inf)[:, None].repeat(rows, axis=1)  # so of one class alone
        todo = np.flatnonzero(having.sum(axis=1) > 1)
        if len(todo):
            games = Batched(problem, self.C, self.jobs).games
            out[todo], converged = games.logits(coalitions[todo])
            for b in todo[~converged]:
                out[b] = self._by_sklearn(coalitions[b])
        return out

    def _by_sklearn(self, coalition: NDArray[np.bool_]) -> Values:
        """Compute the logits of a coalition with which the descent has trouble."""
        from sklearn.linear_model import LogisticRegression

        problem, at = self.problem, self.problem.rows_of(coalition)
        weight, label = problem.weight[at], problem.label[at]
        x, z = standardise(problem.features[at], weight, problem.validation)
        fitted = LogisticRegression(C=self.C, max_iter=_ITERATIONS).fit(x, label, weight)
        score = fitted.decision_function(z)
        out = np.full((len(z), problem.n_classes), -np.inf)
        out[:, fitted.classes_] = np.c_[-score / 2, score / 2] if score.ndim == 1 else score
        return out


class StackedLogisticScorer(Shown):
    """Answers the coalitions of several games with the same features and classes in one batch.

    ``device`` is "numpy", or a device of torch: "cpu", "cuda", or "auto" (cuda where there is one).
    Values are those of `LogisticScorer`.
    """

    def __init__(
        self,
        problems: Sequence[tuple[TrainingRows, ValidationRows]],
        C: float = 1.0,
        device: str = "auto",
    ) -> None:
        require_in("C", C, 0.0, 1e6, open_low=True)
        self.C = float(C)
        self.problems = [prepare(rows, validation) for rows, validation in problems]
        self.report = SolverReport()
        self.games = BatchedGames(stack(self.problems, self.C, _empty(device)))

    def correct(self, coalitions: Sequence[CoalitionMatrix]) -> list[Codes]:
        """Validation rows that each coalition's model gets right, game by game."""
        if len(coalitions) != len(self.problems):
            raise ParameterError("coalitions", len(coalitions), "pass one matrix per game")
        matrices = [np.asarray(matrix) for matrix in coalitions]
        counts, open_ = [], []
        for problem, matrix in zip(self.problems, matrices, strict=True):
            hits, todo = _one_class(problem, matrix, self.report)
            counts.append(hits)
            open_.append(todo)
        if any(len(todo) for todo in open_):
            remaining = [c[todo] for c, todo in zip(matrices, open_, strict=True)]
            answers = self.games.solve(remaining)
            for problem, hits, todo, c, answer in zip(
                self.problems, counts, open_, remaining, answers, strict=True
            ):
                _complete(problem, self.C, c, answer, self.report)
                hits[todo] = answer.correct
        return counts


def _one_class(
    problem: Problem, coalitions: CoalitionMatrix, report: SolverReport
) -> tuple[Codes, Codes]:
    """Hits of coalitions with one class, which predict it, and the places of all others."""
    if coalitions.dtype != bool or coalitions.shape[1:] != (problem.n_players,):
        raise ParameterError(
            "coalitions",
            f"{coalitions.dtype} array of shape {coalitions.shape}",
            f"pass a boolean matrix of shape (B, {problem.n_players})",
        )
    having = present(coalitions, problem.classes)
    count = having.sum(axis=1)
    if (count == 0).any():
        players = np.flatnonzero(coalitions[int((count == 0).argmax())]).tolist()
        raise ParameterError("coalition", players, "it has no training row; leave it out")
    label = problem.validation_label
    known = label[(label >= 0) & (label < problem.n_classes)]
    hits = np.bincount(known, minlength=problem.n_classes)
    todo = np.flatnonzero(count > 1)
    report.coalitions += len(coalitions)
    report.proven += len(coalitions) - len(todo)
    return hits[having.argmax(axis=1)].astype(np.int64), todo


def _complete(
    problem: Problem, C: float, coalitions: CoalitionMatrix, answer: Answer, report: SolverReport
) -> None:
    """Solve what stayed open one by one, in place, and report."""
    report.proven += int(answer.proven.sum())
    report.gradients += answer.gradients
    for b in np.flatnonzero(~answer.proven):
        outcome = certainty.solve(problem, coalitions[b], C)
        answer.correct[b] = outcome.correct
        report.proven += outcome.proven
        report.converged += not outcome.proven and not outcome.tied
        report.ties += outcome.tied
        report.gradients += outcome.evaluations


def _empty(device: str) -> Any:
    """An array of the library and on the device that is asked for."""
    if device == "numpy":
        return np.empty(0)
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if torch.device(device).type not in ("cpu", "cuda"):
        raise ParameterError("device", device, "choose numpy, cpu, cuda or auto")
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("torch sees no CUDA device")
    return torch.empty(0, device=device)


@register("learner", "logistic")
@dataclass(frozen=True)
class Logistic(UtilityFunction):
    """Classify by logistic regression, trained on every coalition until it converges.

    Parameters
    ----------
    C
        The inverse of the regularisation strength.
    device
        ``cpu``, ``cuda`` or ``auto``.
    jobs
        Cores that are used; 0: all.
    games
        How many games like this one are to be played, by which the engine is chosen.
    """

    title = "logistic regression"

    C: Annotated[
        float, Range(0, 1e6, open_low=True), "C; the larger, the closer the model follows its data"
    ] = 1.0
    device: Annotated[str, OneOf("cpu", "cuda", "auto")] = "cpu"  # auto: cuda where there is one
    jobs: Annotated[int, Range(0)] = 0  # threads on the CPU; 0 means all cores
    games: Annotated[int, Range(1)] = 1  # how many are to be played: many are worth compiling for

    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> Scorer:
        if self.device != "cpu":
            try:
                return LogisticScorer(rows, validation, self.C, device="cuda")
            except (ImportError, RuntimeError) as error:
                warnings.warn(
                    f"logistic on device {self.device!r} is not available ({error}); "
                    "using the CPU, which gives the same values",
                    stacklevel=2,
                )
        return LogisticScorer(rows, validation, self.C, self.jobs, games=self.games)
