"""Fidelity: how well attributions predict what a model learns, by the linear datamodeling score (LDS).

Draw random halves H of the units, train a model on each, and observe o(H, z), its log-odds of the true class of
validation row z. Attributions a(u, z) predict it by their sum p(H, z) over the units u in H. With corr Spearman's rank
correlation over the halves (Park et al. 2023, TRAK: Attributing Model Behavior at Scale)

    LDS              = mean over z of corr(p(H, z), o(H, z)),
    LDS of the total = corr(sum over z of p(H, z), sum over z of o(H, z)).

A row that no unit reaches has the same prediction for every half, and counts 0. A row on which the models of all halves
are equally sure has no correlation: it is left out, whatever the attributions.

Halves are drawn, and rows are summed, in the order of content: renaming or reordering units or validation rows changes
nothing. 95 % intervals are bootstraps within one market: validation rows and halves are drawn with replacement (halves
alone for the total), and ranks are not computed anew. They say nothing of other markets.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from datamarket_gym.data.content_keys import keyed_generator, unit_keys
from datamarket_gym.data.inputs import are_numbers, is_labelled, learning_arrays
from datamarket_gym.data.submission import Submission
from datamarket_gym.display import Screen, Shown, counted
from datamarket_gym.errors import ParameterError, SubmissionError, require_choice, require_whole
from datamarket_gym.execution.arrays import CoalitionMatrix, Values
from datamarket_gym.execution.progress import Progress
from datamarket_gym.games.estimate import estimate
from datamarket_gym.games.exact import coalitions_numbered
from datamarket_gym.games.semivalues import SEMIVALUES, Semivalue
from datamarket_gym.plots import plot_intervals
from datamarket_gym.result_table import ResultTable
from datamarket_gym.utilities.base import TrainingRows, ValidationRows
from datamarket_gym.utilities.custom import as_utility, utility_title
from datamarket_gym.utilities.labels import require_same_kind
from datamarket_gym.utilities.logistic import Logistic
from datamarket_gym.utilities.oracle import UtilityOracle
from datamarket_gym.utilities.ridge import Ridge, RidgeRegression
from datamarket_gym.utilities.subset_models import (
    Model,
    class_scores,
    is_trained_one_by_one,
    log_odds,
    model_title,
)

HALVES, FEWER_HALVES = 150, 50
"""How many halves are drawn: for models trained on all halves together, and for models trained one by one."""
FEWEST_UNITS, FEWEST_HALVES = 10, 10
MOST_IDENTITIES = 12
"""The most identities whose coalitions are all tried, where a utility has no formula for each validation row."""
_CELLS = 1 << 27  # the most attributions that are held: 1 GiB
_RESAMPLES, _PERCENTILES = 1000, (2.5, 97.5)
_DIGITS = 10  # predictions are rounded to so many, relative to the largest possible


@dataclass(frozen=True, eq=False, repr=False)
class Fidelity(Shown):
    """Hold the LDS: how well attributions predict what a model learns from random halves of the units.

    Parameters
    ----------
    attributions, model
        Names of the attributions, and of the model that was trained.
    predicted_ranks, observed_ranks
        Ranks over the halves, centred and of length 1 (zero where all are equal), of each validation row's predicted
        sum and observed log-odds, shape (halves, rows); the predicted ranks are None if attributions are totals.
    predicted_total, observed_total
        The same of the total over all validation rows, shape (halves,).
    seed
        Seed of the halves.
    """

    attributions: str
    model: str
    predicted_ranks: Values | None
    observed_ranks: Values
    predicted_total: Values
    observed_total: Values
    seed: int

    @cached_property
    def varies(self) -> NDArray[np.bool_]:
        """Whether the model's log-odds of each validation row differ between halves at all."""
        return np.asarray(self.observed_ranks.any(axis=0))

    @cached_property
    def by_row(self) -> Values:
        """LDS of each validation row: NaN where the model's log-odds do not vary, or if attributions are totals."""
        if self.predicted_ranks is None:
            return np.full(self.observed_ranks.shape[1], np.nan)
        return np.where(self.varies, (self.predicted_ranks * self.observed_ranks).sum(axis=0), np.nan)

    @property
    def lds(self) -> float:
        """The mean LDS over validation rows; NaN if attributions are totals."""
        rows = self.by_row[self.varies]
        return float(rows.mean()) if len(rows) else float("nan")

    @property
    def lds_total(self) -> float:
        """The LDS of the total over all validation rows; NaN where the model's mean log-odds do not vary."""
        varies = self.observed_total.any()
        return float(self.predicted_total @ self.observed_total) if varies else float("nan")

    @property
    def unreached(self) -> float:
        """The share of validation rows that no unit reaches, which count 0."""
        if self.predicted_ranks is None:
            return float("nan")
        return float((~self.predicted_ranks.any(axis=0)).mean())

    @cached_property
    def interval(self) -> tuple[float, float]:
        """A 95 % interval of `lds`, by bootstrap over validation rows and halves of this market."""
        if self.predicted_ranks is None or not self.varies.any():
            return float("nan"), float("nan")
        rng = keyed_generator(self.seed, "bootstrap of rows")
        x, y = (ranks[:, self.varies] for ranks in (self.predicted_ranks, self.observed_ranks))
        halves, rows = x.shape
        draws = np.array([
            correlation @ rng.multinomial(rows, np.full(rows, 1.0 / rows)) / rows
            for correlation in _resampled(x, y, rng.multinomial(halves, np.full(halves, 1.0 / halves), _RESAMPLES))
        ])  # fmt: skip
        low, high = np.percentile(draws, _PERCENTILES)
        return float(low), float(high)

    @cached_property
    def total_interval(self) -> tuple[float, float]:
        """A 95 % interval of `lds_total`, by bootstrap over the halves."""
        rng, halves = keyed_generator(self.seed, "bootstrap of halves"), len(self.observed_total)
        weight = rng.multinomial(halves, np.full(halves, 1.0 / halves), _RESAMPLES)
        draws = _resampled(self.predicted_total[:, None], self.observed_total[:, None], weight)
        low, high = np.percentile(draws, _PERCENTILES)
        return float(low), float(high)

    def table(self) -> ResultTable:
        """Return the LDS per validation row (their mean) and of the total, with 95 % intervals.

        Returns
        -------
        ResultTable
            Columns ``of``, ``lds``, ``low`` and ``high``.
        """
        rows = [("validation rows (mean)", self.lds, *self.interval)]
        rows = [] if self.predicted_ranks is None else rows
        rows.append(("total over all rows", self.lds_total, *self.total_interval))
        columns = dict(zip(("of", "lds", "low", "high"), zip(*rows, strict=True), strict=True))
        return ResultTable(self._title, columns)

    def by_validation_row(self) -> ResultTable:
        """Return the LDS of every validation row, in the order of the rows of X_val.

        Returns
        -------
        ResultTable
            Columns ``row`` and ``lds``; NaN where the model's log-odds do not vary over the halves.
        """
        return ResultTable(self._title, {"row": np.arange(len(self.by_row)), "lds": self.by_row})

    @property
    def _title(self) -> str:
        halves, rows = self.observed_ranks.shape
        title = (
            f"LDS of {self.attributions}: rank correlation with the log-odds of {self.model} trained on {halves:,} "
            f"random halves; {counted(rows, 'validation row')}, 95 % intervals"
        )
        return (
            title
            if not self.unreached > 0.0
            else f"{title}; {self.unreached:.0%} of rows unreached, which count 0"
        )

    def screen(self) -> Screen:
        return self.table().screen()

    def plot(self) -> Any:
        """Plot the LDS per validation row and of the total with 95 % intervals, with matplotlib or else with plotly."""
        table = self.table()
        errors = (table["high"] - table["low"]) / (2 * 1.96)
        title = f"Fidelity of {self.attributions} to {self.model}"
        return plot_intervals(table["of"].tolist(), table["lds"], errors, title=title, xlabel="LDS")


@dataclass(frozen=True, eq=False)
class HalfOutcomes(Shown):
    """Hold what a model learned from random halves of the units, to be compared with any attributions.

    Parameters
    ----------
    halves
        Which units each half has, shape (halves, units).
    log_odds
        Each model's log-odds of the true class, shape (halves, validation rows).
    model
        The model's name.
    seed
        Seed of the halves.
    """

    halves: CoalitionMatrix
    log_odds: Values
    model: str
    seed: int

    def fidelity(self, attributions: Any, name: str = "attributions") -> Fidelity:
        """Compute the LDS of attributions.

        Parameters
        ----------
        attributions : array-like of shape (units, validation rows) or (units,)
            What each unit adds to each validation row, or to the total alone.
        name : str
            Their name in results.

        Returns
        -------
        Fidelity
            The LDS per validation row and of the total.

        Raises
        ------
        SubmissionError
            If the shape is wrong, or a number is not finite.
        """
        (_, units), rows = self.halves.shape, self.log_odds.shape[1]
        a = np.asarray(attributions, dtype=np.float64)
        if a.shape not in ((units, rows), (units,)):
            raise SubmissionError(
                f"attributions have shape {a.shape}; give one row for each of the {units} units and one column for "
                f"each of the {rows} validation rows, or one number for each unit"
            )
        if not np.isfinite(a).all():
            at = [int(i) for i in np.argwhere(~np.isfinite(a))[0]]
            where = f"unit {at[0]}" + (f" on validation row {at[1]}" if len(at) > 1 else "")
            raise SubmissionError(
                f"the attribution of {where} is {a[tuple(at)]}; give a finite number, 0 where a unit adds nothing"
            )
        inside = self.halves.astype(np.float64)
        by_row = None
        if a.ndim == 2:
            by_row = normalised_ranks(inside @ a, np.abs(a).sum(axis=0))
            a = a.sum(axis=1)
        total = normalised_ranks((inside @ a)[:, None], np.abs(a).sum(keepdims=True))[:, 0]
        mean = normalised_ranks(self.log_odds.mean(axis=1)[:, None])[:, 0]
        return Fidelity(
            name, self.model, by_row, normalised_ranks(self.log_odds), total, mean, self.seed
        )


def normalised_ranks(numbers: Values, scale: Values | None = None) -> Values:
    """Rank each column, centred and scaled to length 1; columns of equal numbers become zero.

    Numbers that differ by rounding are equal; ``scale`` is the size of what was summed, the largest number if None.
    """
    size = np.abs(numbers).max(axis=0) if scale is None else scale
    rounded = np.round(numbers / np.where(size > 0.0, size, 1.0), _DIGITS)
    ranks = rankdata(rounded, axis=0)
    ranks -= ranks.mean(axis=0)
    length = np.sqrt((ranks**2).sum(axis=0))
    return np.asarray(ranks / np.where(length > 0.0, length, 1.0))


def _resampled(x: Values, y: Values, weight: NDArray[np.int64]) -> Values:
    """Correlate columns of x and y (halves, rows) under each row of weights of the halves, (resamples, rows)."""
    w = weight / weight.sum(axis=1, keepdims=True)
    mean_x, mean_y = w @ x, w @ y
    covariance = w @ (x * y) - mean_x * mean_y
    variance = (w @ x**2 - mean_x**2) * (w @ y**2 - mean_y**2)
    return np.asarray(
        np.where(variance > 1e-12 / len(x) ** 2, covariance, 0.0) / np.sqrt(np.maximum(variance, 1e-300))
    )


def train_on_halves(
    submission: Submission,
    oracle: UtilityOracle,
    model: Model = "logistic",
    halves: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> HalfOutcomes:
    """Train a model on random halves of the units; compute its log-odds of each validation row's true class.

    Parameters
    ----------
    submission, oracle
        The units, and the oracle with the validation rows.
    model
        See `datamarket_gym.utilities.subset_models`.
    halves
        How many; if left out, `HALVES`, or `FEWER_HALVES` for a model that is trained one by one.
    seed
        Seed of the halves, and of estimators that take one.
    progress
        Receives how many fits are done.

    Returns
    -------
    HalfOutcomes
        The halves and the log-odds.

    Raises
    ------
    DataMarketError
        If labels are no classes, units are too few, or a half lacks a class; the message says what to do.
    """
    default = FEWER_HALVES if is_trained_one_by_one(model) else HALVES
    halves = default if halves is None else require_whole("halves", halves, FEWEST_HALVES)
    seed = require_whole("seed", seed, at_least=0)
    numbers = oracle.learner.target == "number"
    _require_classes(
        submission, oracle, numbers and callable(model) and not hasattr(model, "predict_proba")
    )
    order = np.argsort(submission.keys, kind="stable")
    row_order = np.argsort(unit_keys(oracle.features, oracle.label), kind="stable")
    drawn = _draw_halves(len(order), halves, seed)
    label, features = submission.label[order], submission.features[order]
    classes, code = np.unique(label, return_inverse=True)
    if not numbers:
        _require_all_classes(drawn, classes, code)
    truth = oracle.label[row_order]
    true_code = np.minimum(np.searchsorted(classes, truth), len(classes) - 1)
    units = TrainingRows(features, code, np.arange(len(code)), len(code), len(classes), classes=classes)
    validation = ValidationRows(oracle.features[row_order], true_code, classes)
    if numbers:  # a validation number has no class code: no unit has it
        validation = ValidationRows(validation.features, np.arange(len(truth)), truth)
    odds = log_odds(model, units, validation, drawn, seed, progress)
    inside, out = np.empty_like(drawn), np.empty_like(odds)
    inside[:, order], out[:, row_order] = drawn, odds
    return HalfOutcomes(inside, out, model_title(model), seed)


def _draw_halves(units: int, halves: int, seed: int) -> CoalitionMatrix:
    if units < FEWEST_UNITS or comb(units, units // 2) < halves:
        needed = next(n for n in range(FEWEST_UNITS, units + 64) if comb(n, n // 2) >= halves)
        raise SubmissionError(
            f"there are {counted(units, 'unit')}, and {halves} random halves need at least {needed}; give more units"
        )
    rank = keyed_generator(seed, "halves", units).random((halves, units)).argsort(axis=1)
    return np.asarray(rank.argsort(axis=1) < units // 2)


def _require_classes(submission: Submission, oracle: UtilityOracle, any_numbers: bool) -> None:
    """Refuse missing labels, labels that are numbers, a single class, and validation labels that no unit has."""
    label, truth = submission.label, oracle.label
    for rows, column in (("the units", label), ("the validation rows", truth)):
        if not is_labelled(column):
            raise SubmissionError(
                f"{rows} have no labels, and fidelity needs a model that is trained on labels; give labels of the "
                "units and of the validation rows"
            )
    if any_numbers:
        return
    require_same_kind(label, truth)
    measured = are_numbers(label) and label.dtype.kind == "f" and (label != np.round(label)).any()
    if oracle.learner.target == "number" or measured:
        raise SubmissionError(
            "the labels are numbers, and fidelity compares log-odds of classes; pass as model a function "
            "f(X, y, X_val, y_val) that returns, for example, minus the squared error of each validation row"
        )
    classes = np.unique(label)
    if len(classes) < 2:
        raise SubmissionError(
            f"all units have the label {classes[0].item()!r}, and a model has nothing to learn; give units of at least "
            "two classes"
        )
    unseen = np.flatnonzero(~np.isin(truth, classes))
    if len(unseen):
        raise SubmissionError(
            f"validation label {truth[unseen[0]].item()!r} (row {unseen[0]}) is the label of no unit; drop that row, "
            "or add units with that label"
        )


def _require_all_classes(
    halves: CoalitionMatrix, classes: NDArray[Any], code: NDArray[np.int64]
) -> None:
    counts = halves.astype(np.float64) @ np.eye(len(classes))[code]
    missing = (counts == 0).sum(axis=0)
    if missing.any():
        worst, lacking = int(missing.argmax()), int((missing > 0).sum())
        units = counted(int((code == worst).sum()), "unit")
        raise SubmissionError(
            f"some of the {len(halves)} random halves lack a class ({lacking} of {len(classes)} classes in all): "
            f"{classes[worst].item()!r}, with {units}, is missing from {missing[worst]} of them; add units of "
            "such classes, or drop these classes from units and validation rows"
        )


def row_attributions(
    submission: Submission, oracle: UtilityOracle, semivalue: Semivalue, level: str
) -> Values | None:
    """Compute each unit's semivalue on each validation row alone, shape (units, rows), where that is possible.

    At level "identity" an identity's value is divided equally among its units. Utilities with a closed form have one
    for each row; the accuracy of logistic and ridge regression is enumerated for up to `MOST_IDENTITIES` identities.
    Other utilities: None.

    Parameters
    ----------
    submission, oracle, semivalue
        The units, what they are worth, and by which semivalue.
    level
        The players, "unit" or "identity".

    Returns
    -------
    Values or None
        The attributions.
    """
    require_choice("level", level, ("unit", "identity"))
    rows = len(oracle.label)
    if rows * len(submission) > _CELLS:
        raise SubmissionError(
            f"{len(submission):,} units have an attribution to each of {rows:,} validation rows, and at most "
            f"{_CELLS:,} are held; pass a sample of the units or of the validation rows"
        )
    game = oracle.game(submission, level)
    values = game.game.closed_form_by_group(semivalue, np.arange(rows))  # type: ignore[attr-defined]
    by_player = None if values is None else values[:, game.order].T
    if by_player is None and level == "identity":
        by_player = _enumerated(submission, oracle, semivalue)
    if by_player is None or level == "unit":
        return by_player
    code = submission.identity_codes
    return np.asarray((by_player / np.bincount(code)[:, None])[code])


def _enumerated(submission: Submission, oracle: UtilityOracle, semivalue: Semivalue) -> Values | None:
    """Compute identities' semivalues of each validation row's accuracy, from all coalitions of identities."""
    learner, k = oracle.learner, len(submission.identities)
    accuracy = isinstance(learner, Logistic | Ridge) and not isinstance(learner, RidgeRegression)
    if not accuracy or k > MOST_IDENTITIES or oracle.acquired is not None:
        return None
    order = np.argsort(submission.keys, kind="stable")
    classes, label = np.unique(submission.label[order], return_inverse=True)
    units = TrainingRows(
        submission.features[order],
        label,
        np.arange(len(order)),
        len(order),
        len(classes),
        classes=classes,
    )
    truth = np.minimum(np.searchsorted(classes, oracle.label), len(classes) - 1)
    validation = ValidationRows(oracle.features, truth, classes)
    coalitions = coalitions_numbered(1, 1 << k, k)
    subsets = coalitions[:, submission.identity_codes[order]]
    right = class_scores(learner, units, validation, subsets).argmax(axis=2) == truth
    size, weights = coalitions.sum(axis=1), semivalue.weights(k)
    with_player = coalitions * weights[size - 1][:, None]
    without = ~coalitions * np.append(weights, 0.0)[size][:, None]
    values = (with_player - without).T @ (right - oracle.empty_value)
    return np.asarray(values)


def measure_fidelity(
    submission: Submission,
    oracle: UtilityOracle,
    semivalue: Semivalue,
    level: str,
    *,
    outcomes: HalfOutcomes,
    samples: int = 256,
    seed: int = 0,
) -> Fidelity:
    """Compute the LDS of a utility's semivalues; if it has no values for each row, of the total alone.

    Parameters
    ----------
    submission, oracle, semivalue
        The units, what they are worth, and by which semivalue.
    level
        The players, "unit" or "identity"; an identity's value is divided equally among its units.
    outcomes
        What a model learned from halves of the units.
    samples, seed
        The sampling of values that have no formula.

    Returns
    -------
    Fidelity
        The LDS.
    """
    name = f"{utility_title(oracle.learner)} by {level}"
    attributions = row_attributions(submission, oracle, semivalue, level)
    if attributions is None:
        values = estimate(oracle.game(submission, level), semivalue, samples=samples, seed=seed).values
        code = submission.identity_codes
        attributions = values if level == "unit" else (values / np.bincount(code))[code]
    return outcomes.fidelity(attributions, name)


def fidelity(
    X: Any,
    y: Any,
    X_val: Any,
    y_val: Any,
    *,
    utility: Any = "coverage",
    attributions: Any = None,
    owner: Any = None,
    method: str | Semivalue = "shapley",
    model: Model = "logistic",
    halves: int | None = None,
    samples: int = 256,
    seed: int = 0,
) -> Fidelity:
    """Measure how well values predict what a model learns: the linear datamodeling score (LDS).

    Parameters
    ----------
    X, y, X_val, y_val : array-like
        Training and validation rows with their labels, as in `value`.
    utility : str, estimator, or callable
        What a set of training rows is worth, as in `value`.
    attributions : array-like of shape (units, validation rows) or (units,), optional
        Attributions of another tool; if given, they are measured and ``utility`` is ignored.
    owner : array-like, optional
        Who owns each row: values are then those of owners, divided equally among their rows.
    method : str or Semivalue
        The semivalue of the utility.
    model : str, estimator, or callable
        The model that is trained on random halves of the rows: ``"logistic"``, ``"knn"``, ``"ridge"``, ``"mlp"``, an
        estimator with ``predict_proba``, or a function ``f(X, y, X_val, y_val)`` that trains any model and returns its
        log-odds of the true class of each validation row.
    halves : int, optional
        How many halves; if left out, 150, or 50 for models that are trained one after the other.
    samples, seed : int
        How many coalitions are sampled where values have no closed form, and the seed of everything random.

    Returns
    -------
    Fidelity
        ``lds``, ``lds_total``, and `Fidelity.table` with 95 % intervals.

    Raises
    ------
    DataMarketError
        If an argument cannot be used; the message names it and what to pass.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> fidelity(X[::2], y[::2], X[1::2], y[1::2], utility="knn").lds > 0.3
    True
    """
    features, label, validation, validation_label = learning_arrays(X, y, X_val, y_val)
    if attributions is not None and owner is not None:
        raise ParameterError("owner", "given", "attributions are of rows; leave owner out")
    learner = as_utility("coverage" if attributions is not None else utility)
    oracle = UtilityOracle(validation, validation_label, learner=learner)
    submission = Submission.from_arrays(features, label if is_labelled(label) else None, owner)
    semivalue = SEMIVALUES.create(method)
    outcomes = train_on_halves(submission, oracle, model, halves, seed)
    if attributions is not None:
        return outcomes.fidelity(attributions)
    level = "unit" if owner is None else "identity"
    return measure_fidelity(
        submission, oracle, semivalue, level, outcomes=outcomes, samples=samples, seed=seed
    )
