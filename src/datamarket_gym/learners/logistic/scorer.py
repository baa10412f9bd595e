"""The registered learner and its scorers: checks, easy cases, choice of engine, report."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from datamarket_gym.core.arrays import CoalitionMatrix, Codes, Values
from datamarket_gym.core.errors import ParameterError, require_in
from datamarket_gym.core.machine import available_cores
from datamarket_gym.core.parameters import OneOf, Range
from datamarket_gym.core.registry import register
from datamarket_gym.core.screen import Shown
from datamarket_gym.learners.base import Learner, Scorer, TrainingRows, ValidationRows
from datamarket_gym.learners.logistic import exact
from datamarket_gym.learners.logistic.batched import BatchedGames
from datamarket_gym.learners.logistic.engine import Engine, choose
from datamarket_gym.learners.logistic.layout import stack
from datamarket_gym.learners.logistic.problem import Problem, prepare, present


@dataclass
class SolverReport(Shown):
    """What a scorer has done so far."""

    coalitions: int = 0  # solved, single-class ones included
    proven: int = 0  # predictions certain by proof (or because there is one class only)
    converged: int = 0  # certain because the gradient is at rounding level
    ties: int = 0  # a validation row stayed within rounding of a boundary: lowest class taken
    gradients: int = 0  # gradient evaluations

    def add(self, other: SolverReport) -> None:
        """Add the counts of another report."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


class LogisticScorer(Scorer):
    """Answers coalitions on the CPU; `report` counts what it took."""

    def __init__(
        self,
        rows: TrainingRows,
        validation: ValidationRows,
        C: float = 1.0,
        jobs: int = 0,
        backend: str = "auto",
        games: int = 1,
    ) -> None:
        self.problem = prepare(rows, validation)
        self.C = float(C)
        self.jobs, self.backend, self.games = jobs or available_cores(), backend, games
        self.report = SolverReport()

    @cached_property
    def engine(self) -> Engine:
        """What solves coalitions of more than one class."""
        return choose(self.problem, self.C, self.jobs, self.backend, self.games)

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        """Validation accuracy of each coalition."""
        return self.correct(coalitions) / len(self.problem.validation_label)

    def correct(self, coalitions: CoalitionMatrix) -> Codes:
        """Number of validation rows each coalition's model gets right."""
        coalitions = np.asarray(coalitions)
        correct, todo = _one_class(self.problem, coalitions, self.report)
        if len(todo):
            hits, proven, gradients = self.engine.solve(coalitions[todo])
            self.report.gradients += gradients
            _settle(self.problem, self.C, coalitions[todo], hits, proven, self.report)
            correct[todo] = hits
        return correct


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
        matrices = [np.asarray(asked) for asked in coalitions]
        counts, open_ = [], []
        for problem, asked in zip(self.problems, matrices, strict=True):
            hits, todo = _one_class(problem, asked, self.report)
            counts.append(hits)
            open_.append(todo)
        if any(len(todo) for todo in open_):
            remaining = [c[todo] for c, todo in zip(matrices, open_, strict=True)]
            answers = self.games.solve(remaining)
            for problem, hits, todo, c, answer in zip(
                self.problems, counts, open_, remaining, answers, strict=True
            ):
                self.report.gradients += answer.gradients
                _settle(problem, self.C, c, answer.correct, answer.proven, self.report)
                hits[todo] = answer.correct
        return counts


class TorchLogisticScorer(Scorer):
    """Answers the coalitions of one game on a device; see `StackedLogisticScorer`."""

    def __init__(
        self, rows: TrainingRows, validation: ValidationRows, C: float = 1.0, device: str = "auto"
    ) -> None:
        self.stacked = StackedLogisticScorer([(rows, validation)], C, device)

    @property
    def report(self) -> SolverReport:
        """What the scorer has done so far."""
        return self.stacked.report

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        """Validation accuracy of each coalition."""
        return self.correct(coalitions) / len(self.stacked.problems[0].validation_label)

    def correct(self, coalitions: CoalitionMatrix) -> Codes:
        """Number of validation rows each coalition's model gets right."""
        return self.stacked.correct([coalitions])[0]


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


def _settle(
    problem: Problem,
    C: float,
    coalitions: CoalitionMatrix,
    correct: Codes,
    proven: Any,
    report: SolverReport,
) -> None:
    """Solve what stayed open one by one, in place, and report."""
    report.proven += int(proven.sum())
    for b in np.flatnonzero(~proven):
        outcome = exact.solve(problem, coalitions[b], C)
        correct[b] = outcome.correct
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
class Logistic(Learner):
    """Classify by logistic regression, trained on every coalition until it converges."""

    title = "logistic regression"

    C: Annotated[
        float, Range(0, 1e6, open_low=True), "C; the larger, the closer the model follows its data"
    ] = 1.0
    device: Annotated[str, OneOf("cpu", "cuda", "auto")] = (
        "cpu"  # cpu, cuda, or auto (cuda where there is one)
    )
    jobs: Annotated[int, Range(0)] = (
        0  # threads on the CPU; 0 means all cores; results do not depend on it
    )
    games: Annotated[int, Range(1)] = (
        1  # how many are to be played: many are worth compiling kernels for; nor on this
    )

    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> Scorer:
        """Prepare the rows; on the GPU where asked for and available."""
        if self.device != "cpu":
            try:
                return TorchLogisticScorer(rows, validation, self.C, "cuda")
            except (ImportError, RuntimeError) as error:
                warnings.warn(
                    f"logistic on device {self.device!r} is not available ({error}); "
                    "using the CPU, which gives the same values",
                    stacklevel=2,
                )
        return LogisticScorer(rows, validation, self.C, self.jobs, games=self.games)
