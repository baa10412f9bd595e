"""Models trained on many subsets of the units, and how sure each is of the true class of every validation row.

A model gives one number for each subset and validation row, the log-odds of the row's true class y:

* ``logistic`` (with the settings of the utility): multinomial logistic regression on standardised features, all subsets
in
  lockstep until they converge; z_y - log(sum over other classes k of exp(z_k)) with z the logits.
* ``ridge``: least squares on one-hot labels, in closed form. It has no probabilities: the number is the margin
  f_y - max over other classes k of f_k of its predictions f.
* ``knn``: the k nearest units of the subset, from one table of distances. With v votes for y among k it is
  log((v + 1/2) / (k - v + 1/2)), which is finite where all agree.
* ``mlp``, or any estimator with ``predict_proba``: scikit-learn, one fit after the other; log(p_y / (1 - p_y)) with p
  at least `LEAST_PROBABILITY` and at most 1 minus that.
* a function ``f(X, y, X_val, y_val)`` that trains a model of any kind and returns the log-odds, one for each
  validation row.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from threadpoolctl import threadpool_limits

from datamarket_gym.errors import DataMarketError, InputTypeError, ParameterError, UtilityError, describe
from datamarket_gym.execution.arrays import CoalitionMatrix, Features, Values
from datamarket_gym.execution.progress import Progress
from datamarket_gym.utilities.base import LEARNERS, TrainingRows, UtilityFunction, ValidationRows
from datamarket_gym.utilities.custom import utility_title
from datamarket_gym.utilities.knn import Knn
from datamarket_gym.utilities.logistic import Logistic, LogisticScorer
from datamarket_gym.utilities.ridge import Ridge, RidgeRegression, RidgeScorer

Model: TypeAlias = Any
"""The name of a model, an estimator with ``predict_proba``, or a function that returns log-odds."""
ClassScores: TypeAlias = NDArray[np.float64]
"""Shape (subsets, validation rows, classes); minus infinity for a class that no unit of the subset has."""

MODEL_NAMES = ("logistic", "knn", "ridge", "mlp")
LEAST_PROBABILITY = 1e-6
"""Probabilities are clipped to this: below it a network's log-odds are rounding."""
_ITERATIONS, _HIDDEN = 500, 64
_KNN_CELLS = 1 << 26  # pairs of a validation row and a unit, times subsets, that are held at a time


def parse_model(model: Model) -> UtilityFunction | Callable[..., Any] | Any:
    """Return the component, estimator or function that a model is; refuse anything else."""
    if isinstance(model, str) and model == "mlp":
        from sklearn.neural_network import MLPClassifier

        return MLPClassifier(hidden_layer_sizes=(_HIDDEN,), max_iter=_ITERATIONS)
    choose = f"choose {', '.join(MODEL_NAMES)}, an estimator with predict_proba, or a function"
    if isinstance(model, str):
        try:
            model = LEARNERS.create(model)
        except ParameterError:
            raise
        except DataMarketError as error:
            raise ParameterError("model", model, choose) from error
    if isinstance(model, UtilityFunction):
        if not isinstance(model, Logistic | Knn | Ridge) or isinstance(model, RidgeRegression):
            raise ParameterError(
                "model", utility_title(model), f"it is not trained as a classifier; {choose}"
            )
        return model
    if hasattr(model, "predict_proba") and hasattr(model, "fit") and not isinstance(model, type):
        return model
    if callable(model) and not isinstance(model, type):
        return model
    wanted = f"one of {', '.join(MODEL_NAMES)}, an estimator with predict_proba, or a function"
    raise InputTypeError("model", model, wanted)


def model_title(model: Model) -> str:
    """Return a model's name in results."""
    if isinstance(model, str):
        return model
    if isinstance(model, UtilityFunction):
        return utility_title(model)
    return str(getattr(model, "__name__", type(model).__name__))


def is_trained_one_by_one(model: Model) -> bool:
    """Tell whether subsets are fitted one after the other in Python, which makes fewer of them affordable."""
    return not isinstance(parse_model(model), UtilityFunction)


def log_odds(
    model: Model,
    units: TrainingRows,
    validation: ValidationRows,
    subsets: CoalitionMatrix,
    seed: int = 0,
    progress: Progress | None = None,
) -> Values:
    """Train a model on each subset of the units and compute the log-odds of every validation row's true class.

    Parameters
    ----------
    model
        The name of a model, an estimator with ``predict_proba``, or a function ``f(X, y, X_val, y_val)``.
    units, validation
        The rows, one player for each unit.
    subsets
        Shape (B, units), boolean.
    seed
        Seed of estimators that take one (``random_state``).
    progress
        Receives how many fits are done, for models that are trained one by one.

    Returns
    -------
    Values
        Shape (B, validation rows).
    """
    chosen, truth = parse_model(model), validation.label
    if isinstance(chosen, UtilityFunction):
        scores = class_scores(chosen, units, validation, subsets)
        own = np.take_along_axis(scores, truth[None, :, None], axis=2)[..., 0]
        if isinstance(chosen, Knn):
            votes = np.maximum(scores, 0.0).sum(axis=2)
            return np.log((own + 0.5) / (votes - own + 0.5))
        np.put_along_axis(
            scores, np.broadcast_to(truth[:, None], (*scores.shape[:2], 1)), -np.inf, axis=2
        )
        rest = scores.max(axis=2) if isinstance(chosen, Ridge) else logsumexp(scores, axis=2)
        return np.asarray(own - rest)
    estimated = hasattr(chosen, "predict_proba")
    label, true_label = units.submitted_label, validation.submitted_label
    out = np.empty((len(subsets), len(truth)))
    compute = _by_estimator if estimated else _by_function
    with threadpool_limits(1, user_api="blas"):  # a fit is small: threads cost more than they save
        for b, subset in enumerate(subsets):
            rows = units.features[subset], label[subset], validation.features, true_label
            out[b] = compute(chosen, *rows, seed)
            if progress is not None:
                progress.count(b + 1, len(subsets))
    return out


def _by_estimator(
    estimator: Any, X: Features, y: NDArray[Any], X_val: Features, y_val: NDArray[Any], seed: int
) -> Values:
    """Fit a clone of an estimator on standardised features."""
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    fitted = clone(estimator)
    if "random_state" in fitted.get_params():
        fitted.set_params(random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a network's log-odds count as they are
        pipeline = make_pipeline(StandardScaler(), fitted).fit(X, y)
    column = np.searchsorted(pipeline.classes_, y_val)
    p = np.clip(
        pipeline.predict_proba(X_val)[np.arange(len(y_val)), column],
        LEAST_PROBABILITY,
        1.0 - LEAST_PROBABILITY,
    )
    return np.asarray(np.log(p / (1.0 - p)))


def _by_function(
    model: Callable[..., Any],
    X: Features,
    y: NDArray[Any],
    X_val: Features,
    y_val: NDArray[Any],
    seed: int,
) -> Values:
    try:
        returned = np.asarray(model(X.copy(), y.copy(), X_val.copy(), y_val.copy()), dtype=np.float64)
    except Exception as error:  # whatever the function raises
        raise UtilityError(
            f"the model {model_title(model)!r} failed on {len(y)} units: {type(error).__name__}: {error}"
        ) from error
    if returned.shape != y_val.shape or not np.isfinite(returned).all():
        what = (
            describe(returned)
            if returned.shape != y_val.shape
            else "an array with numbers that are not finite"
        )
        raise UtilityError(
            f"the model {model_title(model)!r} returned {what}; return the log-odds of the true class, a finite number "
            f"for each of the {len(y_val)} validation rows"
        )
    return returned


def class_scores(
    model: UtilityFunction, units: TrainingRows, validation: ValidationRows, subsets: CoalitionMatrix
) -> ClassScores:
    """Compute each subset's scores of all classes: logits, predictions of one-hot labels, or votes.

    Parameters
    ----------
    model
        ``logistic``, ``ridge`` or ``knn``, with their settings.
    units, validation
        The rows, one player for each unit.
    subsets
        Shape (B, units), boolean; no subset is empty.

    Returns
    -------
    ClassScores
        Shape (B, validation rows, classes).
    """
    if isinstance(model, Knn):
        return _votes(model.k, units, validation, subsets)
    if isinstance(model, Ridge):
        return RidgeScorer(model.alpha, units, validation).class_scores(subsets)
    assert isinstance(model, Logistic)
    return LogisticScorer(units, validation, model.C, model.jobs).class_scores(subsets)


def _votes(
    k: int, units: TrainingRows, validation: ValidationRows, subsets: CoalitionMatrix
) -> ClassScores:
    """Count the votes of the k nearest units of each subset; ties go by the order of units."""
    x, z = (
        np.asarray(rows, dtype=np.float64) - units.features.mean(axis=0)
        for rows in (units.features, validation.features)
    )
    squared = (x**2).sum(axis=1) - 2.0 * z @ x.T
    order = np.argsort(squared, axis=1, kind="stable")
    hot = np.eye(units.n_classes)[units.label]
    out = np.empty((len(subsets), len(z), units.n_classes))
    step = max(1, _KNN_CELLS // order.size)
    for at in range(0, len(subsets), step):
        inside = subsets[at : at + step][:, order]  # (subsets, rows, units from near to far)
        chosen = inside & (np.cumsum(inside, axis=2, dtype=np.int32) <= k)
        nearest = np.zeros(chosen.shape, dtype=np.float32)
        np.put_along_axis(nearest, np.broadcast_to(order, chosen.shape), chosen, axis=2)
        out[at : at + step] = nearest @ hot
    return out
