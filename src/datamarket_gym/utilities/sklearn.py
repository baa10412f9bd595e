"""Any scikit-learn estimator: one fit per coalition, for what has no faster form here.

Rows reach the estimator in content order and an estimator that draws random numbers is given
``random_state=0``, so a value depends on the set of rows alone. A coalition of a single class
predicts that class, and one on which the estimator cannot be fitted (too few rows for its
neighbours, say) its most frequent class, or the mean where numbers are predicted. Row weights go to
every step of a pipeline that takes ``sample_weight``.
Estimators go by name: ``DecisionTreeClassifier``, ``SVC(C=2.0)`` or ``package.module.Class``.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import (
    FitFailedWarning,
    InputTypeError,
    ParameterError,
    UnknownNameError,
    UtilityError,
    describe,
    warn_user,
)
from datamarket_gym.execution.arrays import CoalitionMatrix, Values
from datamarket_gym.execution.parallel import available_cores, executor, in_order
from datamarket_gym.registry import Range, register
from datamarket_gym.utilities.base import (
    Scorer,
    Target,
    TrainingRows,
    UtilityFunction,
    ValidationRows,
    check_coalitions,
    check_rows,
    content_order,
    distinct_rows,
    rows_per_player,
)


def estimator_named(text: str, kind: str = "classifier") -> Any:
    """The classifier (or regressor) that a written form means; parameters are literals given by name."""
    name, parameters = _parse(text)
    try:
        return _class_named(name, kind)(**parameters)
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


def _class_named(name: str, kind: str) -> Any:
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
    known = dict(all_estimators(type_filter=kind))
    if name not in known:
        raise UnknownNameError(f"scikit-learn {kind}", name, known)
    return known[name]


def is_estimator(value: object) -> bool:
    """Whether this is an estimator of scikit-learn's kind, or a class of such."""
    return hasattr(value, "fit") and (hasattr(value, "predict") or hasattr(value, "get_params"))


def estimator_utility(estimator: Any, scoring: Any = None) -> SklearnEstimator:
    """The utility of an estimator, an object or its class: of a classifier its accuracy, of a regressor its R^2."""
    from sklearn.base import clone

    if isinstance(estimator, type):
        try:
            estimator = estimator()
        except TypeError as error:
            raise ParameterError(
                "utility",
                estimator.__name__,
                f"it needs parameters ({error}); pass an object, {estimator.__name__}(...)",
            ) from error
    missing = [name for name in _MODEL if not callable(getattr(estimator, name, None))]
    if missing:
        raise InputTypeError(
            "utility", estimator,
            f"an estimator with {', '.join(_MODEL)} ({type(estimator).__name__} has no {missing[0]})",
        )  # fmt: skip
    try:
        clone(estimator)
    except (TypeError, RuntimeError) as error:
        remedy = f"scikit-learn cannot clone it ({error}); let it keep its parameters"
        raise ParameterError("utility", type(estimator).__name__, remedy) from error
    return (SklearnRegressor if _is_regressor(estimator) else SklearnEstimator)(estimator, scoring)


def _is_regressor(estimator: Any) -> bool:
    from sklearn.base import is_regressor

    try:
        return bool(is_regressor(estimator))
    except AttributeError:  # of another library, which has not scikit-learn's tags
        return getattr(estimator, "_estimator_type", "") == "regressor"


_MODEL = ("fit", "predict", "get_params")
_CHUNK = 16  # coalitions fitted between two reports


@register("learner", "sklearn")
@dataclass(frozen=True)
class SklearnEstimator(UtilityFunction):
    """A scikit-learn classifier or pipeline (an object, or its name), cloned for each coalition.

    ``scoring`` is the name of a scikit-learn scorer or a function ``scorer(estimator, X, y)``; the accuracy of a
    classifier and the R^2 of a regressor if blank. ``jobs`` processes fit at a time; 0 uses every core.
    """

    title = "scikit-learn classifier"

    estimator: Annotated[Any, "model of scikit-learn; the name of a classifier or regressor"]
    scoring: Annotated[Any, "scorer of scikit-learn; blank: accuracy, or R squared of numbers"] = ""
    jobs: Annotated[int, Range(0)] = 1
    kind: ClassVar[str] = "classifier"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.estimator, str):
            estimator_named(self.estimator, self.kind)
        if self.scoring is None:
            object.__setattr__(self, "scoring", "")
        if isinstance(self.scoring, str):
            if self.scoring:
                _scorer_named(self.scoring)
        elif not callable(self.scoring):
            wanted = "the name of a scikit-learn scorer, or a function scorer(estimator, X, y)"
            raise InputTypeError("scoring", self.scoring, wanted)
        elif inspect.isfunction(self.scoring) and self.scoring.__module__.startswith("sklearn.metrics."):
            name = self.scoring.__name__
            raise ParameterError("scoring", name, f"it is a metric; pass make_scorer({name})")

    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> SklearnScorer:
        check_rows(rows, validation)
        return SklearnScorer(self, rows, validation)


@register("learner", "sklearn_regressor")
@dataclass(frozen=True)
class SklearnRegressor(SklearnEstimator):
    """A scikit-learn regressor or pipeline (an object, or its name), worth its R^2 or another score."""

    title = "scikit-learn regressor"

    kind: ClassVar[str] = "regressor"
    target: ClassVar[Target] = "number"
    paid_from: ClassVar[str] = "none"


def _scorer_named(name: str) -> Any:
    from sklearn.metrics import get_scorer, get_scorer_names

    if name not in get_scorer_names():
        raise UnknownNameError("scikit-learn scorer", name, get_scorer_names())
    return get_scorer(name)


class SklearnScorer(Scorer):
    """Fits a clone of the estimator on each coalition."""

    def __init__(
        self, learner: SklearnEstimator, rows: TrainingRows, validation: ValidationRows
    ) -> None:
        from sklearn.base import clone

        given = learner.estimator
        estimator = clone(estimator_named(given, learner.kind) if isinstance(given, str) else given)
        self._estimator = _seeded(estimator)
        self._jobs = learner.jobs
        self._numbers = learner.target == "number"
        scoring = learner.scoring
        self._score = scoring
        if isinstance(scoring, str):
            self._score = _scorer_named(scoring) if scoring else None
        self._rows_of = rows_per_player(rows)
        order = content_order(rows, distinct_rows(rows.features)[1])
        self._features = rows.features[order]
        self._label = rows.target[order] if self._numbers else rows.submitted_label[order]
        self._truth = validation.target if self._numbers else validation.submitted_label
        # Of validation rows too: what a set is worth is then the same whoever else is there.
        self._classes = np.unique(np.concatenate([self._label, self._truth]))
        self._player, self._weight = rows.player[order], rows.weights[order]
        self._validation = validation.features
        unit = bool((self._weight == 1.0).all())
        self._weighted_steps = [] if unit else _steps_with_weights(self._estimator)
        self._warned = False
        self._passed_on: set[_Place] = set()

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        check_coalitions(coalitions, self._rows_of)
        chunks = [(coalitions[at : at + _CHUNK],) for at in range(0, len(coalitions), _CHUNK)]
        done: list[Values] = []
        # A single chunk stays here: sending it away takes longer than many a fit.
        jobs = max(1, min(self._jobs or available_cores(), len(chunks)))
        for values, failure, caught in in_order(executor(jobs), _fit_chunk, self, chunks):
            for place in caught.keys() - self._passed_on:
                warnings.warn_explicit(caught[place], *place)
            self._passed_on |= caught.keys()
            if failure:
                self._warn_of(failure)
            done.append(values)
        return np.concatenate(done) if done else np.empty(0)

    def coalition_score(self, coalition: CoalitionMatrix) -> tuple[float, str]:
        """The score of one coalition's model, and why the estimator could not be fitted, if so."""
        from sklearn.dummy import DummyClassifier, DummyRegressor

        at = coalition[self._player]
        label, failure = self._label[at], ""
        if self._numbers or (label != label[0]).any():
            try:
                return self._fitted_score(at), ""
            except Exception as error:  # whatever it is, it is the estimator's
                failure = f"{type(error).__name__}: {error}"
        constant = DummyRegressor() if self._numbers else DummyClassifier(strategy="most_frequent")
        model = constant.fit(self._features[at], label, sample_weight=self._weight[at])
        try:
            return self._scored(model), failure
        except Exception as error:
            raise UtilityError(
                f"scoring failed on the coalition of players {np.flatnonzero(coalition).tolist()}: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _fitted_score(self, at: CoalitionMatrix) -> float:
        from sklearn.base import clone

        weights = dict.fromkeys(self._weighted_steps, self._weight[at])
        return self._scored(clone(self._estimator).fit(self._features[at], self._label[at], **weights))

    def _scored(self, model: Any) -> float:
        # A copy: some steps change what they are given, such as StandardScaler(copy=False).
        rows = self._validation.copy()
        if self._score is None:
            predicted = model.predict(rows)
            if self._numbers:
                from sklearn.metrics import r2_score

                return float(r2_score(self._truth, predicted))
            return float((_class_labels(predicted, self._truth) == self._truth).mean())
        if not self._numbers and not np.array_equal(
            getattr(model, "classes_", self._classes), self._classes
        ):
            model = _with_all_classes()(model, self._classes)
        score = self._score(model, rows, self._truth)
        try:
            number = float(score)
        except (TypeError, ValueError):
            raise UtilityError(f"scoring returned {describe(score)}; return one number") from None
        if not np.isfinite(number):
            raise UtilityError(f"scoring returned {number}; return a finite number")
        return number

    def _warn_of(self, failure: str) -> None:
        """Say once that some coalitions could not be fitted; where not even all rows can, that is an error."""
        if self._warned:
            return
        self._warned = True
        try:
            self._fitted_score(np.ones(len(self._label), dtype=bool))
        except Exception as error:
            raise UtilityError(
                f"{self._estimator} failed on all {len(self._label)} rows: {type(error).__name__}: {error}"
            ) from error
        constant = "the mean of its labels" if self._numbers else "its most frequent class"
        warn_user(
            FitFailedWarning(
                f"{self._estimator} could not be fitted on some coalitions (the first: {failure}); such a coalition "
                f"predicts {constant}"
            )
        )


def _class_labels(predicted: Any, truth: NDArray[Any]) -> NDArray[Any]:
    """What ``predict`` returned, which has to be one label for each validation row."""
    found = np.asarray(predicted)
    if found.shape == (len(truth), 1):
        found = found[:, 0]
    text = found.dtype.kind in "US" or (found.dtype.kind == "O" and isinstance(found.flat[0], str))
    if found.shape != truth.shape or text != (truth.dtype.kind in "US"):
        raise UtilityError(
            f"predict returned {describe(predicted)}{' of text' if text else ''}; return one label for each of "
            f"{len(truth)} validation rows, such as {truth[0].item()!r}"
        )
    return found


@cache
def _with_all_classes() -> Any:
    """A class of fitted classifiers with a probability for every class, zero for those it has not seen."""
    from sklearn.base import BaseEstimator, ClassifierMixin

    class AllClasses(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        def __init__(self, model: Any, classes: Any) -> None:
            self.model, self.classes_ = model, classes

        def __sklearn_is_fitted__(self) -> bool:
            return True

        def fit(self, X: Any, y: Any) -> Any:
            return self

        def predict(self, X: Any) -> Any:
            return self.model.predict(X)

        def predict_proba(self, X: Any) -> Any:
            found = self.model.predict_proba(X)
            out = np.zeros((len(found), len(self.classes_)))
            out[:, np.searchsorted(self.classes_, self.model.classes_)] = found
            return out

    return AllClasses


_Place: TypeAlias = tuple[type[Warning], str, int]  # category, file and line of a warning
_Chunk: TypeAlias = tuple[Values, str, dict[_Place, str]]


def _fit_chunk(scorer: SklearnScorer, coalitions: CoalitionMatrix) -> _Chunk:
    """Scores, the first failure, and the first warning of each place: thousands of fits would give thousands."""
    with warnings.catch_warnings(record=True) as caught:
        scored = [scorer.coalition_score(coalition) for coalition in coalitions]
    places: dict[_Place, str] = {}
    for one in caught:
        places.setdefault((one.category, one.filename, one.lineno), str(one.message))
    return np.array([v for v, _ in scored]), next((why for _, why in scored if why), ""), places


def _seeded(estimator: Any) -> Any:
    """The estimator with every random state that is not a fixed number set to 0."""
    loose = {
        name: 0
        for name, value in estimator.get_params(deep=True).items()
        if name.split("__")[-1] == "random_state" and not isinstance(value, int | np.integer)
    }
    return estimator.set_params(**loose) if loose else estimator


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
        raise UtilityError(
            f"{estimator} takes no sample weights but the training rows have some; "
            "choose an estimator that does, or a representative without weights"
        )
    return taking
