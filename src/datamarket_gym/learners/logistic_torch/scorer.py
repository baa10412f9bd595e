"""The scorer on a torch device, and its stacked form for several games at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from datamarket_gym.core.arrays import CoalitionMatrix, Codes, Values
from datamarket_gym.core.errors import LearnerError, ParameterError, require_in
from datamarket_gym.learners.base import Scorer, TrainingRows, ValidationRows
from datamarket_gym.learners.logistic import alone
from datamarket_gym.learners.logistic.problem import Problem, prepare
from datamarket_gym.learners.logistic.scorer import SolverReport
from datamarket_gym.learners.logistic_torch.engine import Answer, Engine
from datamarket_gym.learners.logistic_torch.layout import stack


class StackedLogisticScorer:
    """Answers the coalitions of several games with the same features and classes in one batch."""

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
        self._engine = Engine(stack(self.problems, self.C, _device(device)))

    def correct(self, coalitions: Sequence[CoalitionMatrix]) -> list[Codes]:
        """Validation rows that each coalition's model gets right, game by game."""
        if len(coalitions) != len(self.problems):
            raise ParameterError("coalitions", len(coalitions), "pass one matrix per game")
        counts, todo = [], []
        for problem, asked in zip(self.problems, coalitions, strict=True):
            hits, open_ = _one_class(problem, asked)
            counts.append(hits)
            todo.append(open_)
            self.report.coalitions += len(asked)
            self.report.proven += len(asked) - len(open_)
        remaining = [c[rows] for c, rows in zip(coalitions, todo, strict=True)]
        if any(len(rows) for rows in todo):
            answers = self._engine.solve(remaining)
            for problem, hits, rows, c, answer in zip(
                self.problems, counts, todo, remaining, answers, strict=True
            ):
                self._settle(problem, c, answer)
                hits[rows] = answer.correct
        return counts

    def _settle(self, problem: Problem, coalitions: CoalitionMatrix, answer: Answer) -> None:
        """Solve what stayed open one by one, in place, and report."""
        self.report.proven += int(answer.proven.sum())
        self.report.gradients += answer.gradients
        for b in np.flatnonzero(~answer.proven):
            outcome = alone.solve(problem, coalitions[b], self.C)
            answer.correct[b] = outcome.correct
            self.report.proven += outcome.proven
            self.report.converged += not outcome.proven and not outcome.tied
            self.report.ties += outcome.tied
            self.report.gradients += outcome.evaluations


class TorchLogisticScorer(Scorer):
    """Answers coalitions in batches on ``device``: "cpu", "cuda", or "auto" (cuda where there is one).

    Values are those of `logistic.LogisticScorer`: correct predictions at the converged optimum.
    """

    def __init__(
        self, rows: TrainingRows, validation: ValidationRows, C: float = 1.0, device: str = "auto"
    ) -> None:
        self._stacked = StackedLogisticScorer([(rows, validation)], C, device)
        self._n_validation = len(validation.label)

    @property
    def report(self) -> SolverReport:
        """What the scorer has done so far."""
        return self._stacked.report

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        """Validation accuracy of each coalition."""
        return np.asarray(self.correct(coalitions) / self._n_validation)

    def correct(self, coalitions: CoalitionMatrix) -> Codes:
        """Number of validation rows each coalition's model gets right."""
        return self._stacked.correct([np.asarray(coalitions)])[0]


def stacked_correct(
    problems: Sequence[tuple[TrainingRows, ValidationRows]],
    coalitions: Sequence[CoalitionMatrix],
    C: float = 1.0,
    device: str = "auto",
) -> list[Codes]:
    """Correct predictions of the coalitions of several games, solved in one batch."""
    return StackedLogisticScorer(problems, C, device).correct(coalitions)


def _one_class(problem: Problem, coalitions: CoalitionMatrix) -> tuple[Codes, Codes]:
    """Hits of coalitions with one class, which predict it, and the places of all others."""
    if coalitions.dtype != bool or coalitions.shape[1:] != (problem.n_players,):
        raise ParameterError(
            "coalitions",
            f"{coalitions.dtype} array of shape {coalitions.shape}",
            f"pass a boolean matrix of shape (B, {problem.n_players})",
        )
    present = (coalitions @ problem.classes.astype(np.float32)) > 0
    count = present.sum(axis=1)
    if (count == 0).any():
        players = np.flatnonzero(coalitions[int((count == 0).argmax())]).tolist()
        raise LearnerError(f"coalition {players} has no training row; leave it out")
    label = problem.validation_label
    known = label[(label >= 0) & (label < problem.n_classes)]
    hits = np.bincount(known, minlength=problem.n_classes)
    return hits[present.argmax(axis=1)].astype(np.int64), np.flatnonzero(count > 1)


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type not in ("cpu", "cuda"):
        raise ParameterError("device", name, "choose cpu, cuda or auto")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("torch sees no CUDA device")
    return device
