"""A utility of one's own: a function of training rows and validation rows becomes a learner.

    @utility("spread", target="none")
    def spread(train, validation):
        return float(np.ptp(train.features, axis=0).mean())

From then on it goes by its name wherever a learner does. The function is asked for the worth of coalitions of training
rows, each set once (games remember); a ``batched`` one for many at a time. Rows come in the order of their content,
validation rows too, so that names and the order of submission decide no bit.

What callers may name as a utility: one of ours, a scikit-learn estimator or its class, or a function.
"""

from __future__ import annotations

import inspect
import traceback
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
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
    check_coalitions,
    check_rows,
    content_order,
    distinct_rows,
    rows_per_player,
)
from datamarket_gym.utilities.similarity import ComparedAsTables
from datamarket_gym.utilities.sklearn import (
    SklearnEstimator,
    SklearnRegressor,
    estimator_utility,
    is_estimator,
)

_CELLS = 1 << 22  # of the matrix of coalitions that a batched function is given at a time


@dataclass(frozen=True, eq=False)
class UtilityRows(Shown):
    """Rows as a function sees them: labels as submitted (None where they do not count), and weights.

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
    """A function as a utility; each has a class of its own, which `utility` makes.

    ``progress`` is told how many coalitions a scorer has answered so far.
    """

    progress: Callable[[int], None] | None = field(default=None, compare=False, repr=False)
    name: ClassVar[str]
    batched: ClassVar[bool]

    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> FunctionScorer:
        check_rows(rows, validation)
        return FunctionScorer(self, rows, validation)

    @staticmethod
    @abstractmethod
    def function(*given: Any) -> Any:
        """The function itself."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "progress": None}  # workers do not report


def utility(
    name: str, *, target: Target = "class", batched: bool = False, over_chance: bool = False
) -> Callable[[Callable[..., Any]], type[FunctionUtility]]:
    """Register a function as a learner, as a decorator; the function itself is the class's attribute ``function``.

    Parameters
    ----------
    name
        The learner's name.
    target
        What the function needs of labels: ``class``, ``number`` or ``none``.
    batched
        Whether it is ``f(train, coalitions, validation) -> float[B]`` with a boolean matrix (B, rows of train), and
        not ``f(train, validation) -> float``; rows are `UtilityRows`.
    over_chance
        Whether no rows are worth 1 / classes, for functions that return an accuracy, and not 0.

    Returns
    -------
    Callable[[Callable[..., Any]], type[FunctionUtility]]
        The decorator, which returns the learner's class.
    """
    if not isinstance(name, str):
        raise ParameterError(
            "name",
            getattr(name, "__name__", name),
            'say what it is called: @utility("name"), with brackets',
        )
    require_choice("target", target, ("class", "number", "none"))
    if over_chance and target != "class":
        raise ParameterError(
            "over_chance", over_chance, f"chance is of classes, the target is {target!r}"
        )

    def made(function: Callable[..., Any]) -> type[FunctionUtility]:
        paid_from = "chance" if over_chance else "none"
        found = _utility_class(function, name, target, batched, paid_from)
        return register("learner", name, by=function.__module__)(found)

    return made


def function_utility(function: Callable[..., float]) -> FunctionUtility:
    """A function ``f(X, y, X_val, y_val) -> float`` as a utility, without registering it.

    ``y`` and ``y_val`` are None where units or validation rows have no labels. Rows come in the order of their content.
    """
    try:
        inspect.signature(function).bind(None, None, None, None)
    except TypeError as error:
        raise ParameterError(
            "utility",
            getattr(function, "__name__", function),
            f"let it take (X, y, X_val, y_val): {error}",
        ) from error
    except ValueError:  # a built-in function that does not say what it takes
        pass

    @wraps(function)
    def of_arrays(train: UtilityRows, validation: UtilityRows) -> float:
        return function(train.features, train.label, validation.features, validation.label)

    name = getattr(function, "__name__", type(function).__name__)
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
    """Asks the function for the worth of coalitions."""

    def __init__(self, learner: FunctionUtility, rows: TrainingRows, validation: ValidationRows) -> None:
        self._learner, self._rows_of, self._answered = learner, rows_per_player(rows), 0
        order = content_order(rows, distinct_rows(rows.features)[1])
        self._player = rows.player[order]
        label = rows.submitted_label[order]
        self._train = _seen(rows.features[order], label, rows.weights[order])
        held = np.lexsort((validation.label, distinct_rows(validation.features)[1]))
        label = validation.submitted_label[held]
        self._validation = _seen(validation.features[held], label, np.ones(len(held)))

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        check_coalitions(coalitions, self._rows_of)
        if self._learner.batched:
            step = max(1, _CELLS // len(self._player))
            parts = [self._batch(coalitions[at : at + step]) for at in range(0, len(coalitions), step)]
            return np.concatenate(parts) if parts else np.empty(0)
        return np.array([self._single(coalition) for coalition in coalitions], dtype=np.float64)

    def _report(self, answered: int) -> None:
        self._answered += answered
        if self._learner.progress is not None:
            self._learner.progress(self._answered)

    def _single(self, coalition: NDArray[np.bool_]) -> float:
        train = self._train.take(coalition[self._player])
        found = self._asked(f"{len(train)} rows", train, self._validation)
        number = _numbers(found)
        if number is None or number.shape != () or not abs(number) <= LARGEST:
            raise UtilityError(
                f"{self._who} returned {_shown(found)} for a coalition of {len(train)} rows; return one finite number, "
                f"of at most {LARGEST:g} in size"
            )
        self._report(1)
        return float(number)

    def _batch(self, coalitions: CoalitionMatrix) -> Values:
        inside = coalitions[:, self._player]
        found = self._asked(f"{len(inside)} coalitions", self._train, inside, self._validation)
        numbers = _numbers(found)
        if numbers is None or numbers.shape != (len(inside),):
            raise UtilityError(
                f"{self._who} returned {_shown(found)} for {len(inside)} coalitions; return an array of as many numbers"
            )
        bad = np.flatnonzero(~(np.abs(numbers) <= LARGEST))
        if len(bad):
            raise UtilityError(
                f"{self._who} returned {numbers[bad[0]]} for a coalition of {int(inside[bad[0]].sum())} rows; return "
                f"finite numbers, of at most {LARGEST:g} in size"
            )
        self._report(len(numbers))
        return numbers

    @property
    def _who(self) -> str:
        return f"the utility {self._learner.name!r}"

    def _asked(self, of: str, *given: Any) -> Any:
        function = type(self._learner).function
        try:
            return function(*given)
        except (Exception, SystemExit) as error:  # the function's, whatever it is; say where
            raise UtilityError(
                f"{self._who} failed on {of}: {type(error).__name__}: {error}{_where(error, function)}"
            ) from error


def _seen(features: Features, label: NDArray[Any], weight: Values) -> UtilityRows:
    """Rows that a function cannot change: others are asked for the same."""
    found = UtilityRows(features.copy(), label.copy() if is_labelled(label) else None, weight.copy())
    for part in (found.features, found.label, found.weight):
        if part is not None:
            part.flags.writeable = False
    return found


def _numbers(found: Any) -> Values | None:
    try:
        array = np.asarray(found)
    except ValueError:  # lists of unequal length
        return None
    return array.astype(np.float64) if array.dtype.kind in "fiub" else None


def _shown(found: Any) -> str:
    text = repr(found)
    kind = type(found).__name__
    shape = f" of shape {found.shape}" if isinstance(found, np.ndarray) and found.ndim else ""
    return f"{kind}{shape} {text[:60]}{'...' if len(text) > 60 else ''}"


def _where(error: BaseException, function: Callable[..., Any]) -> str:
    """The line of the function's own file in which it failed."""
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
    utility : str, Learner, estimator, class of estimators, or callable
        ``"logistic"``, ``"knn"``, ``SVC()``, ``SVC``, or ``f(X, y, X_val, y_val) -> float``.
    scoring : str or callable, optional
        A scikit-learn scorer name or a function ``scorer(estimator, X, y)``, for estimators and for ``"logistic"``,
        which is then fitted by scikit-learn.

    Returns
    -------
    Learner
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
        learner = _registered(utility)
        return learner if scoring is None else _scored(learner, scoring)
    if is_estimator(utility):
        return estimator_utility(utility, scoring)
    if not callable(utility) or isinstance(utility, type):
        raise InputTypeError("utility", utility, _WANTED)
    if scoring is not None:
        raise ParameterError(
            "scoring", scoring, "a function says itself what it is worth; leave scoring out"
        )
    return function_utility(utility)


def _registered(utility: str | UtilityFunction) -> UtilityFunction:
    try:
        return LEARNERS.create(utility)
    except UnknownNameError as error:
        if "unknown learner" not in str(error):
            raise
        words = str(error).replace("unknown learner", "unknown utility")
        raise DataMarketError(
            f"{words} (a model of scikit-learn is passed as an object, such as SVC())"
        ) from None


def _scored(learner: UtilityFunction, scoring: Any) -> UtilityFunction:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if isinstance(learner, SklearnEstimator | SklearnRegressor):
        return type(learner)(learner.estimator, scoring, learner.jobs)
    if display_name(learner) == "logistic":
        return SklearnEstimator(
            make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), scoring
        )
    raise ParameterError(
        "scoring", scoring,
        f"{display_name(learner)} takes no scorer; leave scoring out, or pass an estimator as the utility",
    )  # fmt: skip


def utility_title(learner: UtilityFunction) -> str:
    """A learner as text for people, also one that has no written form."""
    if isinstance(learner, SklearnEstimator) and not isinstance(learner.estimator, str):
        scored = "" if not learner.scoring else f", scoring={learner.scoring!r}"
        text = f"{' '.join(repr(learner.estimator).split())}{scored}"
        return text if len(text) <= 200 else f"{type(learner.estimator).__name__}(...){scored}"
    return display_name(learner) if isinstance(learner, FunctionUtility) else written(learner)
