"""What callers may name as a utility: one of ours, a scikit-learn estimator or its class, or a function."""

from __future__ import annotations

from typing import Any

from datamarket_gym.core.errors import DataMarketError, InputTypeError, ParameterError, UnknownNameError
from datamarket_gym.core.registry import display_name, written
from datamarket_gym.learners.base import LEARNERS, Learner
from datamarket_gym.learners.function import FunctionUtility, function_utility
from datamarket_gym.learners.sklearn_fallback import (
    SklearnEstimator,
    SklearnRegressor,
    estimator_utility,
    is_estimator,
)

_WANTED = (
    "the name of a utility (datamarket list learner), a scikit-learn estimator (an object or its class), or a "
    "function f(X, y, X_val, y_val) -> float"
)


def as_learner(utility: Any, scoring: Any = None) -> Learner:
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
    if isinstance(utility, str | Learner):
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


def _registered(utility: str | Learner) -> Learner:
    try:
        return LEARNERS.create(utility)
    except UnknownNameError as error:
        if "unknown learner" not in str(error):
            raise
        words = str(error).replace("unknown learner", "unknown utility")
        raise DataMarketError(
            f"{words} (a model of scikit-learn is passed as an object, such as SVC())"
        ) from None


def _scored(learner: Learner, scoring: Any) -> Learner:
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


def shown_learner(learner: Learner) -> str:
    """A learner as text for people, also one that has no written form."""
    if isinstance(learner, SklearnEstimator) and not isinstance(learner.estimator, str):
        scored = "" if not learner.scoring else f", scoring={learner.scoring!r}"
        text = f"{' '.join(repr(learner.estimator).split())}{scored}"
        return text if len(text) <= 200 else f"{type(learner.estimator).__name__}(...){scored}"
    return display_name(learner) if isinstance(learner, FunctionUtility) else written(learner)
