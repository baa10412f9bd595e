"""Any scikit-learn estimator, fitted once for each coalition.

Rows reach the estimator in content order and an estimator that draws random numbers is given
``random_state=0``, so a value depends on the set of rows alone. A coalition of a single class
predicts that class, and one on which the estimator cannot be fitted (too few rows for its
neighbours, say) its most frequent class, or the mean where numbers are predicted. Row weights go to
every step of a pipeline that takes ``sample_weight``.
Estimators are written ``DecisionTreeClassifier`` or ``SVC(C=2.0)``: names of scikit-learn's own, and of nothing else.
"""

from __future__ import annotations

import ast
import inspect
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar

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
from datamarket_gym.utilities.base import Scorer, Target, TrainingRows, UtilityFunction, ValidationRows

_MODEL = ("fit", "predict", "get_params")
_CHUNK = 16  # coalitions fitted between two reports


def estimator_named(text: str, kind: str = "classifier") -> Any:
    """Build the classifier (or regressor) of a written form; parameters are literals given by name."""
    try:
        call = ast.parse(text.strip(), mode="eval").body
        parameters = {}
        if isinstance(call, ast.Call):
            if call.args or any(keyword.arg is None for keyword in call.keywords):
                raise ValueError("parameters are given by name")
            parameters = {str(item.arg): ast.literal_eval(item.value) for item in call.keywords}
            call = call.func
    except (SyntaxError, ValueError) as error:
        remedy = "write Name or Name(parameter=literal)"
        raise ParameterError("estimator", text, f"{remedy} ({error})") from error
    try:
        return _class_named(ast.unparse(call), kind)(**parameters)
    except TypeError as error:
        raise ParameterError("estimator", text, f"check its parameters ({error})") from error


def _class_named(name: str, kind: str) -> Any:
    """Find a class among scikit-learn's own; nothing is imported by a name, which may be a stranger's."""
    from sklearn.utils import all_estimators

    classes = dict(all_estimators(type_filter=kind))
    module, _, short = name.rpartition(".")
    cls = classes.get(short)
    if cls is None or not f"{cls.__module__}.".startswith(f"{module}." if module else ""):
        more = "a model of another library is passed as an object, or registered in a file for --load"
        raise UnknownNameError(f"scikit-learn {kind}", name, classes, *([more] if module else []))
    return cls


def is_estimator(value: object) -> bool:
    """Return whether this is an estimator of scikit-learn's kind, or a class of such."""
    return hasattr(value, "fit") and (hasattr(value, "predict") or hasattr(value, "get_params"))


def estimator_utility(estimator: Any, scoring: Any = None) -> SklearnEstimator:
    """Make the utility of an estimator, an object or its class: accuracy of a classifier, R^2 of a regressor."""
    from sklearn.base import clone

    if isinstance(estimator, type):
        name = estimator.__name__
        try:
            estimator = estimator()
        except TypeError as error:
            remedy = f"it needs parameters ({error}); pass an object, {name}(...)"
            raise ParameterError("utility", name, remedy) from error
    name = type(estimator).__name__
    missing = [method for method in _MODEL if not callable(getattr(estimator, method, None))]
    if missing:
        wanted = f"an estimator with {', '.join(_MODEL)} ({name} has no {missing[0]})"
        raise InputTypeError("utility", estimator, wanted)
    try:
        clone(estimator)
    except (TypeError, RuntimeError) as error:
        remedy = f"scikit-learn cannot clone it ({error}); let it keep its parameters"
        raise ParameterError("utility", name, remedy) from error
    return (SklearnRegressor if _is_regressor(estimator) else SklearnEstimator)(estimator, scoring)


def _is_regressor(estimator: Any) -> bool:
    from sklearn.base import is_regressor

    try:
        return bool(is_regressor(estimator))
    except AttributeError:  # of another library, without scikit-learn's tags
        return getattr(estimator, "_estimator_type", "") == "regressor"


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
    """Fit a clone of the estimator on each coalition."""

    def __init__(
        self, utility: SklearnEstimator, rows: TrainingRows, validation: ValidationRows
    ) -> None:
        from sklearn.base import clone

        super().__init__(rows, validation)
        estimator, scoring = utility.estimator, utility.scoring
        if isinstance(estimator, str):
            estimator = estimator_named(estimator, utility.kind)
        self._estimator = _seeded(clone(estimator))
        self._jobs = utility.jobs
        self._numbers = utility.target == "number"
        self._score = scoring
        if isinstance(scoring, str):
            self._score = _scorer_named(scoring) if scoring else None
        order = rows.content_order()
        self._features = rows.features[order]
        self._label = rows.target[order] if self._numbers else rows.submitted_label[order]
        self._truth = validation.target if self._numbers else validation.submitted_label
        # Classes of validation rows too: a set's value then does not depend on the rows of others.
        self._classes = np.unique(np.concatenate([self._label, self._truth]))
        self._player, self._weight = rows.player[order], rows.weights[order]
        self._validation = validation.features
        unweighted = bool((self._weight == 1.0).all())
        self._weighted_steps = [] if unweighted else _steps_with_weights(self._estimator)
        self._warned = False
        self._reported: set[_Place] = set()

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        self.count_rows(coalitions)
        chunks = [(coalitions[at : at + _CHUNK],) for at in range(0, len(coalitions), _CHUNK)]
        parts = [np.empty(0)]
        # A single chunk is fitted in this process: a transfer takes longer than most fits.
        jobs = max(1, min(self._jobs or available_cores(), len(chunks)))
        for values, failure, caught in in_order(executor(jobs), _fit_chunk, self, chunks):
            for place in caught.keys() - self._reported:
                warnings.warn_explicit(caught[place], *place)
            self._reported |= caught.keys()
            if failure:
                self._warn_of(failure)
            parts.append(values)
        return np.concatenate(parts)

    def coalition_score(self, coalition: CoalitionMatrix) -> tuple[float, str]:
        """Compute the score of one coalition's model; name the reason if the estimator could not be fitted."""
        from sklearn.dummy import DummyClassifier, DummyRegressor

        at = coalition[self._player]
        label, failure = self._label[at], ""
        if self._numbers or (label != label[0]).any():
            try:
                return self._fitted_score(at), ""
            except Exception as error:  # whatever the estimator raises
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
        # A copy: some steps change their input, such as StandardScaler(copy=False).
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
        """Warn once that some coalitions could not be fitted; raise where not even all rows can."""
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
        message = (
            f"{self._estimator} could not be fitted on some coalitions (the first: {failure}); such a coalition "
            f"predicts {constant}"
        )
        warn_user(FitFailedWarning(message))


def _class_labels(predicted: Any, truth: NDArray[Any]) -> NDArray[Any]:
    """Return the result of ``predict``, which has to be one label for each validation row."""
    label = np.asarray(predicted)
    if label.shape == (len(truth), 1):
        label = label[:, 0]
    text = label.dtype.kind in "US" or (label.dtype.kind == "O" and isinstance(label.flat[0], str))
    if label.shape != truth.shape or text != (truth.dtype.kind in "US"):
        raise UtilityError(
            f"predict returned {describe(predicted)}{' of text' if text else ''}; return one label for each of "
            f"{len(truth)} validation rows, such as {truth[0].item()!r}"
        )
    return label


@cache
def _with_all_classes() -> Any:
    """Make the class of fitted classifiers with a probability for every class, zero for unseen ones."""
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
            probability = self.model.predict_proba(X)
            out = np.zeros((len(probability), len(self.classes_)))
            out[:, np.searchsorted(self.classes_, self.model.classes_)] = probability
            return out

    return AllClasses


_Place = tuple[type[Warning], str, int]  # category, file and line of a warning


def _fit_chunk(
    scorer: SklearnScorer, coalitions: CoalitionMatrix
) -> tuple[Values, str, dict[_Place, str]]:
    """Return scores, the first failure, and the first warning of each place: thousands of fits give thousands."""
    with warnings.catch_warnings(record=True) as caught:
        scored = [scorer.coalition_score(coalition) for coalition in coalitions]
    places = {(w.category, w.filename, w.lineno): str(w.message) for w in reversed(caught)}
    return np.array([v for v, _ in scored]), next((why for _, why in scored if why), ""), places


def _seeded(estimator: Any) -> Any:
    """Set every random state of the estimator that is not a fixed number to 0."""
    loose = {
        name: 0
        for name, value in estimator.get_params(deep=True).items()
        if name.split("__")[-1] == "random_state" and not isinstance(value, int | np.integer)
    }
    return estimator.set_params(**loose) if loose else estimator


def _steps_with_weights(estimator: Any) -> list[str]:
    """List the fit parameters that take row weights; an estimator without any is refused."""
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
