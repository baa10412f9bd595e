"""value: what each row of training data, or each owner of some, is worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np

from datamarket_gym.data.inputs import learning_arrays
from datamarket_gym.data.submission import Submission
from datamarket_gym.display import Screen, Shown, counted
from datamarket_gym.errors import (
    ParameterError,
    UnknownNameError,
    require_choice,
    require_instance,
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
from datamarket_gym.utilities.fidelity import Fidelity, measure_fidelity, train_on_halves
from datamarket_gym.utilities.labels import require_learnable
from datamarket_gym.utilities.oracle import SubmissionGame, UtilityOracle
from datamarket_gym.utilities.subset_models import Model


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
    fidelity: bool = False,
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
    fidelity : bool
        Whether `Valuation.summary` also shows how well the values predict what logistic regression learns from 150
        random halves of the rows (`Valuation.fidelity`).
    seed : int
        Seed of the sampling, and of the halves.
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
    features, _, validation, validation_label = learning_arrays(X, y, X_val, y_val)
    learner = as_utility(utility, scoring)
    try:
        semivalue = SEMIVALUES.create(method)
    except UnknownNameError:
        raise UnknownNameError("method", str(method), components("semivalue")) from None
    samples = 256 if samples is None else require_whole("samples", samples, at_least=2)
    seed = require_whole("seed", seed, at_least=0)
    oracle = UtilityOracle(validation, validation_label, learner=learner)
    oracle = oracle.counted_from(_empty_value(empty, learner, scoring))
    submission = Submission.from_arrays(features, y, owner)
    require_learnable(submission.label, oracle)
    require_instance("fidelity", fidelity, bool, "True or False")
    valuation = Valuation(
        submission, oracle, semivalue, samples, seed, owner is not None, progress, fidelity
    )
    valuation.estimate(valuation.level)
    if fidelity:
        valuation.fidelity()
    return valuation


def _empty_value(empty: Any, learner: UtilityFunction, scoring: Any) -> str | float:
    """Return what no data are worth; raise an error where that makes no sense."""
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
        remedy = f"{scoring} is at best 0, so no data would be worth most; say what they are worth, such as empty=-2.3"
        raise ParameterError("empty", empty, remedy)
    return str(empty)


@dataclass(frozen=True, eq=False, repr=False)
class Valuation(Shown):
    """Value training data: each unit (row), or each owner.

    Owners and units are players of two different games, each valued when it is first used: what an owner is worth is
    not the sum of what its units are worth alone.

    Parameters
    ----------
    submission, oracle
        The units and their owners, and what training rows are worth.
    semivalue, samples, seed
        How coalitions are weighted, the permutations, and the seed of what is drawn.
    has_owners
        Whether owners were named.
    progress
        Whether progress is shown, or a function that is called with it.
    with_fidelity
        Whether the summary shows how well the values predict what a model learns.
    """

    submission: Submission
    oracle: UtilityOracle
    semivalue: Semivalue
    samples: int
    seed: int
    has_owners: bool
    progress: bool | Callable[[int, int], None] | None = None
    with_fidelity: bool = False

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: not the caller's function for progress."""
        return {**self.__dict__, "progress": None if callable(self.progress) else self.progress}

    @cached_property
    def _estimates(self) -> dict[str, Estimate]:
        return {}

    def estimate(self, level: str) -> Estimate:
        """Return the values of all units (``"unit"``) or owners (``"owner"``) as arrays, with standard errors."""
        if level not in self._estimates:
            game = self._game(level)
            with show_progress(self.progress):
                values = estimate(game, self.semivalue, samples=self.samples, seed=self.seed)
            self._estimates[level] = values
        return self._estimates[level]

    def _game(self, level: str) -> SubmissionGame:
        require_choice("level", level, ("unit", "owner"))
        return self.oracle.game(self.submission, "unit" if level == "unit" else "identity")

    @property
    def evaluations(self) -> int:
        """Number of coalitions whose utility was asked for so far; 0 where a formula was known."""
        return sum(estimate.evaluations for estimate in self._estimates.values())

    @property
    def level(self) -> str:
        """Level of the players that `value` was called for: ``"owner"`` where owners were named, else ``"unit"``."""
        return "owner" if self.has_owners else "unit"

    def by_unit(self) -> ResultTable:
        """Return the value of every unit, in the order of the rows of X.

        Returns
        -------
        ResultTable
            Columns ``unit`` (row number), ``owner`` (where owners were given), ``label``, ``value``,
            ``standard_error`` (0 where exact) and ``rank`` (1 is worth most).
        """
        columns: dict[str, Any] = {"unit": np.arange(len(self.submission))}
        if self.has_owners:
            columns["owner"] = self.submission.identity
        if self.submission.labelled:
            columns["label"] = self.submission.label
        return self._table("unit", columns)

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
            raise ParameterError("owner", None, "value was called without it; pass a name per row of X")
        names, units = self.submission.identities, np.bincount(self.submission.identity_codes)
        table = self._table("owner", {"owner": names, "units": units})
        if not np.char.isdecimal(names).all():
            return table
        return table.take(np.lexsort((names, np.char.str_len(names))))  # "10" behind "9"

    def _table(self, level: str, columns: dict[str, Any]) -> ResultTable:
        estimate = self.estimate(level)
        order = np.argsort(-estimate.values, kind="stable")
        rank = np.argsort(order, kind="stable") + 1
        columns |= {"value": estimate.values, "standard_error": estimate.standard_errors, "rank": rank}
        return ResultTable(self._title(level), columns)

    def _title(self, level: str) -> str:
        estimate, oracle = self.estimate(level), self.oracle
        method = estimate.method if estimate.exact else f"{estimate.method}, samples={self.samples}"
        return (
            f"{type(self.semivalue).__name__} values of {counted(len(estimate.values), level)}: "
            f"{utility_title(oracle.learner)} on {counted(len(oracle.label), 'validation row')}, "
            f"U(empty) = {oracle.empty_value:.3g}; {method}, {counted(estimate.evaluations, 'evaluation')}"
        )

    @property
    def _main(self) -> ResultTable:
        return self.by_owner() if self.has_owners else self.by_unit()

    def screen(self) -> Screen:
        """Show those worth most, and the number of the others."""
        return self._main.take(np.argsort(self._main["rank"])).screen()

    def summary(self) -> ResultTable:
        """Return one row: v(all), the sum of values, the largest and the smallest, and what it cost.

        Returns
        -------
        ResultTable
            Columns ``players`` (owners or units), ``grand_value`` (v of all data), ``sum``, ``mean``, ``largest``,
            ``smallest``, ``negative`` (how many are below zero), ``largest_standard_error`` and ``evaluations``; with
            ``fidelity=True`` also ``lds``, per validation row, and ``lds_total`` (`Fidelity`).
        """
        estimate, v = self.estimate(self.level), self.estimate(self.level).values
        columns = {
            "players": [len(v)],
            "grand_value": [self._game(self.level).grand_value()],
            "sum": [v.sum()], "mean": [v.mean()], "largest": [v.max()], "smallest": [v.min()],
            "negative": [int((v < 0).sum())],
            "largest_standard_error": [estimate.standard_errors.max()],
            "evaluations": [estimate.evaluations],
        }  # fmt: skip
        if self.with_fidelity:
            measured = self.fidelity()
            columns |= {"lds": [measured.lds], "lds_total": [measured.lds_total]}
        return ResultTable(self._title(self.level), columns)

    def fidelity(
        self, model: Model = "logistic", halves: int | None = None, *, level: str | None = None
    ) -> Fidelity:
        """Measure how well the values predict what a model learns: the linear datamodeling score (LDS).

        Parameters
        ----------
        model : str, estimator, or callable
            What is trained on random halves of the rows: ``"logistic"``, ``"knn"``, ``"ridge"``, ``"mlp"``, an
            estimator with ``predict_proba``, or a function ``f(X, y, X_val, y_val)`` that returns log-odds.
        halves : int, optional
            How many halves; if left out, 150, or 50 for models that are trained one after the other.
        level : {"unit", "owner"}, optional
            Whose values; by default owners' if `value` was given owners. An owner's value is divided equally among its
            units.

        Returns
        -------
        Fidelity
            The LDS per validation row and of the total, with 95 % intervals.

        Raises
        ------
        DataMarketError
            If labels are no classes, units are too few, or a half lacks a class; the message says what to do.
        """
        level = self.level if level is None else level
        require_choice("level", level, ("unit", "owner"))
        key = str(model), halves, level
        if key not in self._fidelities or not isinstance(model, str):  # two functions may have one name
            outcomes = train_on_halves(self.submission, self.oracle, model, halves, self.seed)
            self._fidelities[key] = measure_fidelity(
                self.submission, self.oracle, self.semivalue, "unit" if level == "unit" else "identity",
                outcomes=outcomes, samples=self.samples, seed=self.seed,
            )  # fmt: skip
        return self._fidelities[key]

    @cached_property
    def _fidelities(self) -> dict[Any, Fidelity]:
        return {}

    def plot(self) -> Any:
        """Plot the values with 95 % intervals, the largest first, with matplotlib or else with plotly."""
        table = self._main
        return plot_intervals(
            table[self.level].astype(str).tolist(), table["value"], table["standard_error"],
            title=f"{type(self.semivalue).__name__} value of each {self.level}",
            xlabel=f"value ({utility_title(self.oracle.learner)})",
        )  # fmt: skip
