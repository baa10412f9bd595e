"""value: what each row of training data, or each owner of some, is worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np

from datamarket_gym.data.inputs import feature_array, label_array, require_same_columns
from datamarket_gym.data.submission import Submission
from datamarket_gym.display import Screen, Shown, counted
from datamarket_gym.errors import (
    ParameterError,
    SubmissionError,
    UnknownNameError,
    require_choice,
    require_whole,
)
from datamarket_gym.execution.progress import show_progress
from datamarket_gym.games.estimate import estimate
from datamarket_gym.games.semivalues import SEMIVALUES, Estimate, Semivalue
from datamarket_gym.plots import plot_intervals
from datamarket_gym.registry import components
from datamarket_gym.result_table import ResultTable
from datamarket_gym.utilities.base import UtilityFunction
from datamarket_gym.utilities.custom import as_utility, utility_title
from datamarket_gym.utilities.labels import require_learnable
from datamarket_gym.utilities.oracle import SubmissionGame, UtilityOracle


def value(
    X: Any,
    y: Any,
    X_val: Any,
    y_val: Any,
    *,
    owner: Any = None,
    utility: Any = "logistic",
    method: str | Semivalue = "shapley",
    scoring: Any = None,
    samples: int | None = None,
    empty: str | float = "none",
    seed: int = 0,
    progress: bool | Callable[[int, int], None] | None = None,
) -> Valuation:
    """Value training data: each row, or each owner of rows, by a semivalue of a utility.

    Parameters
    ----------
    X, X_val : array-like or frame of shape (n, d)
        Features of the training rows and of the validation rows: arrays, or pandas, polars or Arrow tables.
    y, y_val : array-like of shape (n,) or None
        Their labels; utilities such as ``"coverage"`` need none.
    owner : array-like of shape (n,), optional
        Who owns each training row. Owners are then the players of the game; without it each row is one.
    utility : str, estimator, class of estimators, or callable
        What a set of training rows is worth: ``"logistic"`` (accuracy of logistic regression, the default), ``"knn"``,
        ``"coverage"``, ``"ridge"``, ``"knn_regression"`` and others; a scikit-learn estimator such as ``SVC()``; or a
        function ``f(X, y, X_val, y_val) -> float``.
    method : str or Semivalue
        ``"shapley"``, ``"banzhaf"``, ``"beta"`` (Beta(2, 2)-Shapley) or ``"loo"`` (leave-one-out).
    scoring : str or callable, optional
        A scikit-learn scorer for estimators and for ``"logistic"``; accuracy of classifiers and R^2 of regressors if
        left out.
    samples : int, optional
        Orders of joining (permutations) that are sampled where the value has no formula and there are too many players
        for all coalitions; 256 if left out.
    empty : {"none", "chance"} or float
        What no data are worth: 0, as in most of the literature, the accuracy of guessing, 1 / classes, or a number.
    seed : int
        Seed of the sampling.
    progress : bool or callable, optional
        Whether to show progress; by default after two seconds in a terminal or notebook. A function is called with
        (evaluations done, at most so many).

    Returns
    -------
    Valuation
        With `Valuation.by_unit`, `Valuation.by_owner`, `Valuation.plot` and `Valuation.summary`.

    Raises
    ------
    DataMarketError
        If an argument cannot be used; the message names it and what to pass.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> values = value(X[::2], y[::2], X[1::2], y[1::2], utility="knn")
    >>> len(values.by_unit())
    75
    """
    features = feature_array("X", X)
    label_array("y", y, len(features), "X")
    validation = feature_array("X_val", X_val)
    held_label = label_array("y_val", y_val, len(validation), "X_val")
    learner = as_utility(utility, scoring)
    try:
        semivalue = SEMIVALUES.create(method)
    except UnknownNameError:
        raise UnknownNameError("method", str(method), components("semivalue")) from None
    samples = 256 if samples is None else require_whole("samples", samples, at_least=2)
    seed = require_whole("seed", seed, at_least=0)
    if features.shape[1] != validation.shape[1]:
        raise SubmissionError(
            f"X_val has {validation.shape[1]} columns and X has {features.shape[1]}; give both the same features"
        )
    require_same_columns("X_val", X_val, "X", X)
    oracle = UtilityOracle(validation, held_label, learner=learner)
    oracle = oracle.counted_from(_empty_value(empty, learner, scoring))
    submission = Submission.from_arrays(features, y, owner)
    require_learnable(submission.label, oracle)
    found = Valuation(submission, oracle, semivalue, samples, seed, owner is not None, progress)
    found.estimate("owner" if found.has_owners else "unit")
    return found


def _empty_value(empty: Any, learner: UtilityFunction, scoring: Any) -> str | float:
    """What no data are worth, or an error where that makes no sense."""
    if isinstance(empty, Real) and not isinstance(empty, bool) and isfinite(empty):
        return float(empty)
    if empty not in ("none", "chance"):
        raise ParameterError(
            "empty", empty, "choose 'none' (0), 'chance' (1 / classes) or a finite number"
        )
    if empty == "chance" and (learner.paid_from != "chance" or scoring is not None):
        raise ParameterError(
            "empty", empty, "only accuracy has a value of guessing; give a number, or leave it out"
        )
    if isinstance(scoring, str) and scoring.startswith("neg_"):
        raise ParameterError(
            "empty", empty,
            f"{scoring} is at best 0, so no data would be worth most; say what they are worth, such as empty=-2.3",
        )  # fmt: skip
    return str(empty)


@dataclass(frozen=True, eq=False, repr=False)
class Valuation(Shown):
    """Value training data: each unit (row), or each owner.

    Owners and units are players of two different games, each valued when it is first asked for: what an owner is worth
    is not the sum of what its units are worth alone.

    Parameters
    ----------
    submission
        The units and their owners.
    oracle
        What training rows are worth.
    semivalue
        How coalitions are weighted.
    samples
        Permutations.
    seed
        Seed of what is drawn.
    has_owners
        Whether owners were named.
    progress
        Whether progress is shown, or who is told of it.

    Attributes
    ----------
    evaluations : int
        The coalitions whose utility was asked for so far; 0 where a formula was known.
    """

    submission: Submission
    oracle: UtilityOracle
    semivalue: Semivalue
    samples: int
    seed: int
    has_owners: bool
    progress: bool | Callable[[int, int], None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: not the caller's function that is told of progress."""
        return {**self.__dict__, "progress": None if callable(self.progress) else self.progress}

    @cached_property
    def _estimates(self) -> dict[str, Estimate]:
        return {}

    def estimate(self, level: str) -> Estimate:
        """Return the values of all units (``"unit"``) or owners (``"owner"``) as arrays, with standard errors."""
        if level not in self._estimates:
            with show_progress(self.progress):
                self._estimates[level] = estimate(
                    self._game(level), self.semivalue, samples=self.samples, seed=self.seed
                )
        return self._estimates[level]

    def _game(self, level: str) -> SubmissionGame:
        require_choice("level", level, ("unit", "owner"))
        return self.oracle.game(self.submission, "unit" if level == "unit" else "identity")

    @property
    def evaluations(self) -> int:
        """The coalitions whose utility was asked for so far."""
        return sum(found.evaluations for found in self._estimates.values())

    def by_unit(self) -> ResultTable:
        """Return the value of every unit, in the order of the rows of X.

        Returns
        -------
        ResultTable
            Columns ``unit`` (row number), ``owner`` (where owners were given), ``label``, ``value``,
            ``standard_error`` (0 where exact) and ``rank`` (1 is worth most).
        """
        found = self.estimate("unit")
        columns: dict[str, Any] = {"unit": np.arange(len(self.submission))}
        if self.has_owners:
            columns["owner"] = self.submission.identity
        if self.submission.labelled:
            columns["label"] = self.submission.label
        return self._table(columns, found, "unit")

    def by_owner(self) -> ResultTable:
        """Return the value of every owner, sorted by name; whole numbers are sorted as numbers.

        Returns
        -------
        ResultTable
            Columns ``owner``, ``units`` (how many it owns), ``value``, ``standard_error`` and ``rank``.

        Raises
        ------
        ParameterError
            If `value` was called without ``owner``.
        """
        if not self.has_owners:
            raise ParameterError(
                "owner", None, "value was called without it; pass one name per row of X"
            )
        columns = {
            "owner": self.submission.identities,
            "units": np.bincount(self.submission.identity_codes),
        }
        table = self._table(columns, self.estimate("owner"), "owner")
        names = self.submission.identities
        if not np.char.isdecimal(names).all():
            return table
        return table.take(np.lexsort((names, np.char.str_len(names))))  # "10" behind "9"

    def _table(self, columns: dict[str, Any], found: Estimate, who: str) -> ResultTable:
        order = np.argsort(-found.values, kind="stable")
        rank = np.argsort(order, kind="stable") + 1
        columns |= {"value": found.values, "standard_error": found.standard_errors, "rank": rank}
        return ResultTable(self._title(found, counted(len(order), who)), columns)

    def _title(self, found: Estimate, players: str) -> str:
        how = found.method if found.exact else f"{found.method}, samples={self.samples}"
        return (
            f"{type(self.semivalue).__name__} values of {players}: {utility_title(self.oracle.learner)} on "
            f"{counted(len(self.oracle.label), 'validation row')}, U(empty) = {self.oracle.empty_value:.3g}; {how}, "
            f"{counted(found.evaluations, 'evaluation')}"
        )

    @property
    def _main(self) -> ResultTable:
        return self.by_owner() if self.has_owners else self.by_unit()

    def screen(self) -> Screen:
        """The best and the number of the rest."""
        return self._main.take(np.argsort(self._main["rank"])).screen()

    def summary(self) -> ResultTable:
        """Return one row: v(all), the sum of values, the largest and the smallest, and what it cost.

        Returns
        -------
        ResultTable
            Columns ``players`` (owners or units), ``grand_value`` (v of all data), ``sum``, ``mean``, ``largest``,
            ``smallest``, ``negative`` (how many are below zero), ``largest_standard_error`` and ``evaluations``.
        """
        level = "owner" if self.has_owners else "unit"
        found = self.estimate(level)
        v = found.values
        columns = {
            "players": [len(v)],
            "grand_value": [self._game(level).grand_value()],
            "sum": [v.sum()], "mean": [v.mean()], "largest": [v.max()], "smallest": [v.min()],
            "negative": [int((v < 0).sum())],
            "largest_standard_error": [found.standard_errors.max()],
            "evaluations": [found.evaluations],
        }  # fmt: skip
        return ResultTable(self._title(found, counted(len(v), level)), columns)

    def plot(self) -> Any:
        """Plot the values with 95 % intervals, the largest first.

        Returns
        -------
        matplotlib.figure.Figure or plotly.graph_objects.Figure
            Of matplotlib if it is installed, else of plotly.

        Raises
        ------
        ImportError
            If neither matplotlib nor plotly is installed.
        """
        table = self._main
        who = "owner" if self.has_owners else "unit"
        return plot_intervals(
            table[who].astype(str).tolist(), table["value"], table["standard_error"],
            title=f"{type(self.semivalue).__name__} value of each {who}",
            xlabel=f"value ({utility_title(self.oracle.learner)})",
        )  # fmt: skip
