"""The registered learner and its scorer: checks, easy cases, choice of engine, report."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import CoalitionMatrix, Codes, Values
from datamarket_gym.core.errors import ParameterError, require_choice, require_count, require_in
from datamarket_gym.core.machine import available_cores
from datamarket_gym.core.registry import register
from datamarket_gym.learners.base import Learner, Scorer, TrainingRows, ValidationRows
from datamarket_gym.learners.logistic import alone, engine, warm
from datamarket_gym.learners.logistic.problem import prepare


@dataclass
class SolverReport:
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
    ) -> None:
        self.problem = prepare(rows, validation)
        self.C = float(C)
        self.jobs = jobs or available_cores()
        self.report = SolverReport()
        self._engine = engine.choose(self.problem, self.C, self.jobs, backend)

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        """Validation accuracy of each coalition."""
        return self.correct(coalitions) / len(self.problem.validation_label)

    def correct(self, coalitions: CoalitionMatrix) -> Codes:
        """Number of validation rows each coalition's model gets right."""
        problem = self.problem
        coalitions = np.asarray(coalitions)
        if coalitions.dtype != bool or coalitions.shape[1:] != (problem.n_players,):
            raise ParameterError(
                "coalitions",
                f"{coalitions.dtype} array of shape {coalitions.shape}",
                f"pass a boolean matrix of shape (B, {problem.n_players})",
            )
        present = warm.present(coalitions, problem.classes)
        count = present.sum(axis=1)
        if (count == 0).any():
            players = np.flatnonzero(coalitions[int((count == 0).argmax())]).tolist()
            raise ParameterError("coalition", players, "it has no training row; leave it out")
        hits = np.bincount(problem.validation_label.clip(0), minlength=problem.n_classes)
        hits = hits[: problem.n_classes] - _negatives(problem.validation_label, problem.n_classes)
        correct = hits[present.argmax(axis=1)].astype(np.int64)
        easy = int((count == 1).sum())
        self.report.add(SolverReport(coalitions=len(coalitions), proven=easy))
        todo = np.flatnonzero(count > 1)
        if len(todo):
            correct[todo] = self._solve(coalitions[todo])
        return correct

    def _solve(self, coalitions: CoalitionMatrix) -> Codes:
        correct, proven, gradients = self._engine.solve(coalitions)
        report = SolverReport(proven=int(proven.sum()), gradients=gradients)
        for b in np.flatnonzero(~proven):
            outcome = alone.solve(self.problem, coalitions[b], self.C)
            correct[b] = outcome.correct
            report.proven += outcome.proven
            report.converged += not outcome.proven and not outcome.tied
            report.ties += outcome.tied
            report.gradients += outcome.evaluations
        self.report.add(report)
        return correct


def _negatives(label: Codes, n_classes: int) -> NDArray[np.int64]:
    """Validation labels below zero were clipped to class 0; this is what to take off again."""
    out = np.zeros(n_classes, dtype=np.int64)
    out[0] = int((label < 0).sum())
    return out


@register("learner", "logistic")
@dataclass(frozen=True)
class Logistic(Learner):
    """Multinomial logistic regression at its converged optimum, standardised per coalition."""

    C: float = 1.0
    device: str = "cpu"  # cpu, cuda, or auto (cuda where there is one)
    jobs: int = 0  # threads on the CPU; 0 means all cores; results do not depend on it

    def __post_init__(self) -> None:
        require_in("C", self.C, 0.0, 1e6, open_low=True)
        require_choice("device", self.device, ("cpu", "cuda", "auto"))
        require_count("jobs", self.jobs, at_least=0)

    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> Scorer:
        """Prepare the rows; on the GPU where asked for and available."""
        if self.device != "cpu":
            try:
                from datamarket_gym.learners.logistic_torch import TorchLogisticScorer

                scorer: Scorer = TorchLogisticScorer(rows, validation, self.C, "cuda")
                return scorer
            except (ImportError, RuntimeError) as error:
                warnings.warn(
                    f"logistic on device {self.device!r} is not available ({error}); "
                    "using the CPU, which gives the same values",
                    stacklevel=2,
                )
        return LogisticScorer(rows, validation, self.C, self.jobs)
