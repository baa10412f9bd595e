"""pay: divide an amount of money among the identities that submitted data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from datamarket_gym.data.inputs import is_frame
from datamarket_gym.data.submission import Submission, from_table, read_submission, read_validation
from datamarket_gym.display import counted
from datamarket_gym.errors import (
    InputTypeError,
    NegativeValueWarning,
    ParameterError,
    require_instance,
    require_whole,
    warn_user,
)
from datamarket_gym.execution.progress import show_progress
from datamarket_gym.mechanism.allocation import Payments, Pot
from datamarket_gym.mechanism.own_mechanism import Payer
from datamarket_gym.mechanism.pipeline import Mechanism, get_mechanism
from datamarket_gym.utilities.coverage import RECOMMENDED
from datamarket_gym.utilities.custom import as_utility
from datamarket_gym.utilities.oracle import UtilityOracle

_LITTLE = 0.01  # of what clusters are worth: less negative value is not warned of


def pay(
    units: Any,
    validation: Any,
    *,
    amount: float,
    mechanism: str | Mechanism = "recommended",
    utility: Any = RECOMMENDED,
    columns: Mapping[str, str] | None = None,
    seed: int | None = None,
    progress: bool | Callable[[int, int], None] | None = None,
) -> Payments:
    """Divide an amount of money among identities by what their data are worth.

    Units that the evidence of the mechanism matches are paid once, to the earliest submitter. Clusters of
    negative value count as zero, as under ``datamarket pay --negative zero``. Rounding moves each identity's payment by
    less than a cent.

    Parameters
    ----------
    units : Submission, path, frame or mapping
        The submitted units: a `Submission`, a CSV, Parquet, Arrow, JSON lines or Excel file, or a pandas, polars or
        Arrow table (or a dict of columns) with the columns ``id``, ``identity``, ``features`` (or ``features_0``,
        ``features_1`` and so on) and, where there are any, ``label``, ``time`` and ``text``.
    validation : tuple, path, frame or UtilityOracle
        The rows that data are measured on: ``(X_val, y_val)``, or a file or table with ``features`` and ``label``.
        Texts of units are compared by words where these rows have a column ``text``, too.
    amount : float
        The money to divide, with at most two decimals. Payments sum to it to the cent.
    mechanism : str or Mechanism
        ``"recommended"``, ``"shapley"``, ``"quotient_shapley/cosine@0.95"`` and others; see `mechanism`.
    utility : str, estimator, class of estimators, or callable
        What data are paid for; see `value`. Accuracy is counted over chance. Ignored where ``validation`` is an oracle.
    columns : mapping, optional
        Names of columns that differ, for example ``{"identity": "seller"}``.
    seed : int, optional
        Seed of sampling and of random tie-breaking; the mechanism's own if left out.
    progress : bool or callable, optional
        Whether to show progress; by default after two seconds in a terminal or notebook.

    Returns
    -------
    Payments
        With `Payments.by_identity`, `Payments.by_unit`, `Payments.clusters`, `Payments.explain` and `Payments.plot`.

    Raises
    ------
    DataMarketError
        If an argument cannot be used; the message names it and what to pass.

    Examples
    --------
    >>> units = {"id": ["u", "v"], "identity": ["ann", "bob"], "features": [[0.0, 1.0], [1.0, 0.0]], "label": [0, 1],
    ...          "time": [1.0, 2.0]}
    >>> payments = pay(units, ([[0.1, 1.0], [1.0, 0.2]], [0, 1]), amount=100, utility="knn@1")
    >>> payments.as_dict()
    {'ann': 50.0, 'bob': 50.0}
    """
    pot = Pot.from_amount(amount)
    if isinstance(mechanism, str):
        mechanism = get_mechanism(mechanism)
    elif isinstance(mechanism, Payer) and not isinstance(mechanism, Mechanism):
        remedy = "call its own pay(): it is not made of evidence and a semivalue"
        raise ParameterError("mechanism", type(mechanism).__name__, remedy)
    require_instance(
        "mechanism", mechanism, Mechanism, "a name such as 'recommended', or get_mechanism(...)"
    )
    submission = _submission(units, columns)
    oracle = _oracle(validation, utility)
    if seed is not None:
        mechanism = mechanism.seeded(require_whole("seed", seed, at_least=0))
    with show_progress(progress):
        paid = replace(mechanism.pay(submission, oracle), pot=pot)
    paid.as_dict()  # an error now where no identity can be paid
    values = paid.scores.values
    below, above = -values[values < 0].sum(), values[values > 0].sum()
    if below > _LITTLE * above:
        message = (
            f"{counted(int((values < 0).sum()), 'cluster')} of {len(values):,} are worth less than nothing "
            f"({below / above:.0%} of what the others are worth) and count as zero, so harmful units are not charged "
            "for; pay by coverage, where no value is negative, or in payout runs, which carry negative balances "
            "forward (datamarket pay)"
        )
        warn_user(NegativeValueWarning(mechanism.name, message))
    return paid


def _submission(units: Any, columns: Mapping[str, str] | None) -> Submission:
    if isinstance(units, Submission):
        if columns:
            remedy = "a Submission has its columns already; leave them out"
            raise ParameterError("columns", dict(columns), remedy)
        return units
    if isinstance(units, str | Path):
        return read_submission(units, columns)
    if is_frame(units) or isinstance(units, Mapping):
        return from_table(units, columns)
    raise InputTypeError(
        "units", units, "a Submission, a path, or a table with columns id, identity and features "
        "(Submission.from_arrays(X, y, owner) makes one of arrays)",
    )  # fmt: skip


def _oracle(validation: Any, utility: Any) -> UtilityOracle:
    if isinstance(validation, UtilityOracle):
        return validation
    if isinstance(validation, str | Path) or is_frame(validation) or isinstance(validation, Mapping):
        features, label, text = read_validation(validation)
    elif isinstance(validation, tuple) and len(validation) == 2:
        (features, label), text = validation, None
    else:
        raise InputTypeError(
            "validation",
            validation,
            "(X_val, y_val), a path or a table with features and labels, or a UtilityOracle",
        )
    learner = as_utility(utility)
    oracle = UtilityOracle(features, label, learner=learner, text=text)
    return oracle.counted_from(learner.paid_from)
