"""Utilities of one's own: functions of training rows and validation rows.

    @utility("spread", target="none")
    def spread(train, validation):
        return float(np.ptp(train.features, axis=0).mean())

From then on it goes by its name wherever a utility does. The function is called for coalitions of training rows, each
set once (games cache values); a ``batched`` one for many at a time. Rows come in the order of their content, validation
rows too, so that names and the order of submission decide no bit.

`as_utility` takes a registered utility or its name, a scikit-learn estimator or its class, or a function.
"""

from __future__ import annotations

import inspect
import traceback
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.inputs import is_labelled
from datamarket_gym.display import Shown
from datamarket_gym.errors import (
    DataMarketError,
    InputTypeError,
    ParameterError,
    UnknownNameError,
    UtilityError,
    require_choice,
)
from datamarket_gym.execution.arrays import LARGEST, CoalitionMatrix, Features, Values
from datamarket_gym.registry import display_name, register, written
from datamarket_gym.utilities.base import (
    LEARNERS,
    Scorer,
    Target,
    TrainingRows,
    UtilityFunction,
    ValidationRows,
    distinct_rows,
)
from datamarket_gym.utilities.similarity import ComparedAsTables
from datamarket_gym.utilities.sklearn import SklearnEstimator, estimator_utility, is_estimator

_CELLS = 1 << 22  # of the matrix of coalitions that a batched function is called with


@dataclass(frozen=True, eq=False)
class UtilityRows(Shown):
    """Hold rows as a function sees them: labels as submitted (None where they do not count), and weights.

    Parameters
    ----------
    features
        Shape (n, d).
    label
        Shape (n,); float64 where the function's target is "number".
    weight
        Shape (n,), positive; a row of weight w stands for w copies of it.
    """

    features: Features
    label: NDArray[Any] | None
    weight: Values

    def __len__(self) -> int:
        return len(self.features)

    def take(self, rows: NDArray[Any]) -> UtilityRows:
        label = None if self.label is None else self.label[rows]
        return UtilityRows(self.features[rows], label, self.weight[rows])


@dataclass(frozen=True)
class FunctionUtility(ComparedAsTables, UtilityFunction):
    """Value coalitions by a function; each has a class of its own, which `utility` makes."""

    name: ClassVar[str]
    batched: ClassVar[bool]

    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> FunctionScorer:
        return FunctionScorer(self, rows, validation)

    @staticmethod
    @abstractmethod
    def function(*arguments: Any) -> Any:
        """Value training rows on validation rows."""


def utility(
    name: str, *, target: Target = "class", batched: bool = False, over_chance: bool = False
) -> Callable[[Callable[..., Any]], type[FunctionUtility]]:
    """Register a function as a utility, as a decorator; the function itself is the class's attribute ``function``.

    Parameters
    ----------
    name
        The utility's name.
    target
        The labels that the function needs: ``class``, ``number`` or ``none``.
    batched
        Whether it is ``f(train, coalitions, validation) -> float[B]`` with a boolean matrix (B, rows of train), and
        not ``f(train, validation) -> float``; rows are `UtilityRows`.
    over_chance
        Whether no rows are worth 1 / classes, for functions that return an accuracy, and not 0.

    Returns
    -------
    Callable[[Callable[..., Any]], type[FunctionUtility]]
        The decorator, which returns the utility's class.
    """
    if not isinstance(name, str):
        raise ParameterError(
            "name", getattr(name, "__name__", name), 'name it: @utility("name"), with brackets'
        )
    require_choice("target", target, ("class", "number", "none"))
    if over_chance and target != "class":
        raise ParameterError(
            "over_chance", over_chance, f"chance is of classes, the target is {target!r}"
        )

    def decorate(function: Callable[..., Any]) -> type[FunctionUtility]:
        paid_from = "chance" if over_chance else "none"
        made = _utility_class(function, name, target, batched, paid_from)
        return register("learner", name, by=function.__module__)(made)

    return decorate


def function_utility(function: Callable[..., float]) -> FunctionUtility:
    """Make a utility of a function ``f(X, y, X_val, y_val) -> float``, without registering it.

    ``y`` and ``y_val`` are None where units or validation rows have no labels. Rows come in the order of their content.
    """
    name = getattr(function, "__name__", type(function).__name__)
    try:
        inspect.signature(function).bind(None, None, None, None)
    except TypeError as error:
        remedy = f"let it take (X, y, X_val, y_val): {error}"
        raise ParameterError("utility", name, remedy) from error
    except ValueError:  # a built-in function without a signature
        pass

    @wraps(function)
    def of_arrays(train: UtilityRows, validation: UtilityRows) -> float:
        return function(train.features, train.label, validation.features, validation.label)

    made = _utility_class(of_arrays, name, "none", False, "none")
    made.__reduce__ = lambda _: (function_utility, (function,))  # type: ignore[method-assign, assignment]
    return made()


def _utility_class(
    function: Callable[..., Any], name: str, target: Target, batched: bool, paid_from: str
) -> type[FunctionUtility]:
    called: str = getattr(function, "__name__", name)
    parts = {
        "__doc__": (function.__doc__ or f"The function {called}.").strip(),
        "__module__": function.__module__,
        "__qualname__": getattr(function, "__qualname__", called),
        "name": name,
        "function": staticmethod(function),
        "batched": batched,
        "target": target,
        "paid_from": paid_from,
    }
    return dataclass(frozen=True)(type(called, (FunctionUtility,), parts))


class FunctionScorer(Scorer):
    """Call the function for the values of coalitions."""

    def __init__(self, utility: FunctionUtility, rows: TrainingRows, validation: ValidationRows) -> None:
        super().__init__(rows, validation)
        self._utility = utility
        order = rows.content_order()
        self._player = rows.player[order]
        self._train = _read_only(rows.features[order], rows.submitted_label[order], rows.weights[order])
        order = np.lexsort((validation.label, distinct_rows(validation.features)[1]))
        self._validation = _read_only(
            validation.features[order], validation.submitted_label[order], np.ones(len(order))
        )

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        self.count_rows(coalitions)
        if self._utility.batched:
            step = max(1, _CELLS // len(self._player))
            parts = [self._batch(coalitions[at : at + step]) for at in range(0, len(coalitions), step)]
            return np.concatenate(parts) if parts else np.empty(0)
        return np.array([self._single(coalition) for coalition in coalitions], dtype=np.float64)

    def _single(self, coalition: NDArray[np.bool_]) -> float:
        train = self._train.take(coalition[self._player])
        returned = self._call(f"{len(train)} rows", train, self._validation)
        number = _numbers(returned)
        if number is None or number.shape != () or not abs(number) <= LARGEST:
            raise UtilityError(
                f"{self._title} returned {_shown(returned)} for a coalition of {len(train)} rows; return one finite "
                f"number, of at most {LARGEST:g} in size"
            )
        return float(number)

    def _batch(self, coalitions: CoalitionMatrix) -> Values:
        inside = coalitions[:, self._player]
        returned = self._call(f"{len(inside)} coalitions", self._train, inside, self._validation)
        numbers = _numbers(returned)
        if numbers is None or numbers.shape != (len(inside),):
            raise UtilityError(
                f"{self._title} returned {_shown(returned)} for {len(inside)} coalitions; return an array of as many "
                "numbers"
            )
        bad = np.flatnonzero(~(np.abs(numbers) <= LARGEST))
        if len(bad):
            raise UtilityError(
                f"{self._title} returned {numbers[bad[0]]} for a coalition of {int(inside[bad[0]].sum())} rows; return "
                f"finite numbers, of at most {LARGEST:g} in size"
            )
        return numbers

    @property
    def _title(self) -> str:
        return f"the utility {self._utility.name!r}"

    def _call(self, rows: str, *arguments: Any) -> Any:
        function = type(self._utility).function
        try:
            return function(*arguments)
        except (Exception, SystemExit) as error:  # whatever the function raises
            raise UtilityError(
                f"{self._title} failed on {rows}: {type(error).__name__}: {error}{_line_of(error, function)}"
            ) from error


def _read_only(features: Features, label: NDArray[Any], weight: Values) -> UtilityRows:
    """Copy rows so that a function cannot change them: later calls are given the same."""
    rows = UtilityRows(features.copy(), label.copy() if is_labelled(label) else None, weight.copy())
    for part in (rows.features, rows.label, rows.weight):
        if part is not None:
            part.flags.writeable = False
    return rows


def _numbers(returned: Any) -> Values | None:
    try:
        array = np.asarray(returned)
    except ValueError:  # lists of unequal length
        return None
    return array.astype(np.float64) if array.dtype.kind in "fiub" else None


def _shown(returned: Any) -> str:
    text = repr(returned)
    shape = f" of shape {returned.shape}" if isinstance(returned, np.ndarray) and returned.ndim else ""
    return f"{type(returned).__name__}{shape} {text[:60]}{'...' if len(text) > 60 else ''}"


def _line_of(error: BaseException, function: Callable[..., Any]) -> str:
    """Name the line of the function's own file in which it failed."""
    function = inspect.unwrap(function)
    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    lines = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    return f" ({file}, line {lines[-1].lineno})" if lines else ""


_WANTED = (
    "the name of a utility (datamarket list learner), a scikit-learn estimator (an object or its class), or a "
    "function f(X, y, X_val, y_val) -> float"
)


def as_utility(utility: Any, scoring: Any = None) -> UtilityFunction:
    """Return the utility that a name, an estimator or a function stands for.

    Parameters
    ----------
    utility : str, UtilityFunction, estimator, class of estimators, or callable
        ``"logistic"``, ``"knn"``, ``SVC()``, ``SVC``, or ``f(X, y, X_val, y_val) -> float``.
    scoring : str or callable, optional
        A scikit-learn scorer name or a function ``scorer(estimator, X, y)``, for estimators and for ``"logistic"``,
        which is then fitted by scikit-learn.

    Returns
    -------
    UtilityFunction
        The plug point ``learner``.

    Raises
    ------
    InputTypeError
        If it is none of these.
    ParameterError
        If ``scoring`` is given for a utility that fits no estimator.
    """
    if isinstance(utility, type) and issubclass(utility, FunctionUtility):
        utility = utility()
    if isinstance(utility, str | UtilityFunction):
        component = _registered(utility)
        return component if scoring is None else _with_scoring(component, scoring)
    if is_estimator(utility):
        return estimator_utility(utility, scoring)
    if not callable(utility) or isinstance(utility, type):
        raise InputTypeError("utility", utility, _WANTED)
    if scoring is not None:
        raise ParameterError(
            "scoring", scoring, "a function returns its score itself; leave scoring out"
        )
    return function_utility(utility)


def _registered(utility: str | UtilityFunction) -> UtilityFunction:
    try:
        return LEARNERS.create(utility)
    except UnknownNameError as error:
        if "unknown learner" not in str(error):
            raise
        message = str(error).replace("unknown learner", "unknown utility")
        raise DataMarketError(
            f"{message} (a model of scikit-learn is passed as an object, such as SVC())"
        ) from None


def _with_scoring(utility: UtilityFunction, scoring: Any) -> UtilityFunction:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    name = display_name(utility)
    if isinstance(utility, SklearnEstimator):
        return type(utility)(utility.estimator, scoring, utility.jobs)
    if name == "logistic":
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        return SklearnEstimator(model, scoring)
    remedy = f"{name} takes no scorer; leave scoring out, or pass an estimator as the utility"
    raise ParameterError("scoring", scoring, remedy)


def utility_title(utility: UtilityFunction) -> str:
    """Return a utility as text for people, also one that has no written form."""
    if isinstance(utility, SklearnEstimator) and not isinstance(utility.estimator, str):
        scored = "" if not utility.scoring else f", scoring={utility.scoring!r}"
        text = f"{' '.join(repr(utility.estimator).split())}{scored}"
        return text if len(text) <= 200 else f"{type(utility.estimator).__name__}(...){scored}"
    if isinstance(utility, FunctionUtility):
        return display_name(utility)
    try:
        return written(utility)
    except DataMarketError:  # an unregistered class
        return type(utility).__name__
