"""Any scikit-learn classifier: one fit per coalition, for what has no faster form here.

Rows reach the estimator in content order and an estimator that draws random numbers is given
``random_state=0``, so a value depends on the set of rows alone. A coalition of a single class
predicts that class. Row weights go to every step of a pipeline that takes ``sample_weight``.
Estimators go by name: ``DecisionTreeClassifier``, ``SVC(C=2.0)`` or ``package.module.Class``.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from datamarket_gym.core.arrays import CoalitionMatrix, Values
from datamarket_gym.core.errors import LearnerError, ParameterError, UnknownNameError, require_count
from datamarket_gym.core.executors import executor, in_order
from datamarket_gym.core.machine import available_cores
from datamarket_gym.core.registry import register
from datamarket_gym.learners.base import (
    Learner,
    Scorer,
    TrainingRows,
    ValidationRows,
    check_coalitions,
    check_rows,
    content_order,
    rows_per_player,
)
from datamarket_gym.learners.distinct import distinct_rows


def estimator_named(text: str) -> Any:
    """The classifier that a written form means; parameters are literals given by name."""
    name, parameters = _parse(text)
    try:
        return _class_named(name)(**parameters)
    except TypeError as error:
        raise ParameterError("estimator", text, f"check its parameters ({error})") from error


def _parse(text: str) -> tuple[str, dict[str, Any]]:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if not isinstance(tree, ast.Call):
            return ast.unparse(tree), {}
        if tree.args or any(keyword.arg is None for keyword in tree.keywords):
            raise ValueError("parameters are given by name")
        values = {str(item.arg): ast.literal_eval(item.value) for item in tree.keywords}
        return ast.unparse(tree.func), values
    except (SyntaxError, ValueError) as error:
        remedy = "write Name, Name(parameter=literal) or package.module.Name"
        raise ParameterError("estimator", text, f"{remedy} ({error})") from error


def _class_named(name: str) -> Any:
    from sklearn.utils import all_estimators

    module, _, attribute = name.rpartition(".")
    if module:
        try:
            found = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise ParameterError("estimator", name, f"it cannot be imported ({error})") from error
        # Whoever writes settings chooses a model by its name, and must not thereby call what is none.
        if not isinstance(found, type) or not all(hasattr(found, part) for part in _MODEL):
            raise ParameterError("estimator", name, "it is no class with fit, predict and get_params")
        return found
    known = dict(all_estimators(type_filter="classifier"))
    if name not in known:
        raise UnknownNameError("scikit-learn classifier", name, known)
    return known[name]


_MODEL = ("fit", "predict", "get_params")
_CHUNK = 16  # coalitions fitted between two reports


@register("learner", "sklearn")
@dataclass(frozen=True)
class SklearnEstimator(Learner):
    """A scikit-learn classifier or pipeline (an object, or its name), cloned for each coalition.

    ``jobs`` processes fit at a time; 0 uses every core. ``progress`` is called with the number of
    coalitions of the batch that are done so far.
    """

    estimator: Any
    jobs: int = 1
    progress: Callable[[int], None] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        require_count("jobs", self.jobs, at_least=0)
        if isinstance(self.estimator, str):
            estimator_named(self.estimator)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "progress": None}  # workers do not report

    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> SklearnScorer:
        """Check the rows and prepare the estimator once."""
        check_rows(rows, validation)
        return SklearnScorer(self, rows, validation)


class SklearnScorer(Scorer):
    """Fits a clone of the estimator on each coalition."""

    def __init__(
        self, learner: SklearnEstimator, rows: TrainingRows, validation: ValidationRows
    ) -> None:
        from sklearn.base import clone

        given = learner.estimator
        estimator = clone(estimator_named(given) if isinstance(given, str) else given)
        self._estimator = _seeded(estimator)
        self._jobs = learner.jobs
        self._progress = learner.progress
        self._rows_of = rows_per_player(rows)
        order = content_order(rows, distinct_rows(rows.features)[1])
        self._features, self._label = rows.features[order], rows.label[order]
        self._player, self._weight = rows.player[order], rows.weights[order]
        self._validation = validation
        unit = bool((self._weight == 1.0).all())
        self._weighted_steps = [] if unit else _steps_with_weights(self._estimator)

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        """Accuracy of each coalition's model."""
        check_coalitions(coalitions, self._rows_of)
        chunks = [(coalitions[at : at + _CHUNK],) for at in range(0, len(coalitions), _CHUNK)]
        done: list[Values] = []
        n_done = 0
        # A single chunk stays here: sending it away takes longer than many a fit.
        jobs = max(1, min(self._jobs or available_cores(), len(chunks)))
        for values in in_order(executor(jobs), _fit_chunk, self, chunks):
            done.append(values)
            n_done += len(values)
            if self._progress is not None:
                self._progress(n_done)
        return np.concatenate(done) if done else np.empty(0)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_progress": None}  # workers do not report

    def accuracy(self, coalition: CoalitionMatrix) -> float:
        """Accuracy of one coalition's model."""
        from sklearn.base import clone

        at = coalition[self._player]
        label, truth = self._label[at], self._validation.label
        if (label == label[0]).all():
            return float((truth == label[0]).mean())
        weights = dict.fromkeys(self._weighted_steps, self._weight[at])
        try:
            model = clone(self._estimator).fit(self._features[at], label, **weights)
            predicted = model.predict(self._validation.features)
        except Exception as error:  # whatever it is, it is the estimator's; say where it happened
            raise LearnerError(
                f"{self._estimator} failed on the coalition of players "
                f"{np.flatnonzero(coalition).tolist()}: {type(error).__name__}: {error}"
            ) from error
        return float((predicted == truth).mean())


def _fit_chunk(scorer: SklearnScorer, coalitions: CoalitionMatrix) -> Values:
    return np.array([scorer.accuracy(coalition) for coalition in coalitions])


def _seeded(estimator: Any) -> Any:
    """The estimator with every random state that is not a fixed number set to 0."""
    loose = {
        name: 0
        for name, value in estimator.get_params(deep=True).items()
        if name.split("__")[-1] == "random_state" and not isinstance(value, int | np.integer)
    }
    return estimator.set_params(**loose)


def _steps_with_weights(estimator: Any) -> list[str]:
    """The fit parameters that take row weights; an estimator without any is refused."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    if isinstance(estimator, Pipeline):
        steps = [(f"{n}__sample_weight", s) for n, s in estimator.steps if hasattr(s, "fit")]
    else:
        steps = [("sample_weight", estimator)]
    taking = [name for name, step in steps if has_fit_parameter(step, "sample_weight")]
    if not steps or steps[-1][0] not in taking:
        raise LearnerError(
            f"{estimator} takes no sample weights but the training rows have some; "
            "choose an estimator that does, or a representative without weights"
        )
    return taking
