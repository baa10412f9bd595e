"""Gradient products of a logistic model that is fitted here: scores of units as attribution tools print them.

With W the weights of a multinomial logistic regression on standardised features x (and a constant), p the class
probabilities and y the label as a unit vector, the gradient of a row's loss is (p - y) x', so

    grad_u . grad_z = ((p_u - y_u) . (p_z - y_z)) (x_u . x_z + 1).

``path``: summed over the first `STEPS` steps of gradient descent from W = 0, each times its step size (TracIn:
Pruthi et al. 2020, Estimating Training Data Influence by Tracing Gradient Descent), over the number of units: all
units' scores of a row then sum, to first order, to what training took off the row's loss. Few steps, because a fit of
hundreds of features to hundreds of units that goes on raises the loss of other rows again. ``end``: at the end of a
long fit alone, TracIn with one checkpoint. There the gradients of all units cancel but for the penalty, so that the
scores of a row sum to next to nothing, and to less than that where the fit is too close.

Rows are put in content order first: names, order and splits change no bit.

One market under utilities that need labels, that need none, and whose scores come from elsewhere.

A utility without labels (``coverage(labels=False)``) plays the market as if nobody had ever labelled anything: units,
validation rows and what attackers see of them have no labels, so that evidence has no classes either. Imported scores
are computed on the very units that are paid for: as they were submitted (``reported``), or after the quotient, on the
units that stand for the others (``canonical``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import LeakedRowsWarning, require_choice
from datamarket_gym.evidence.graph import suppress_market_warnings
from datamarket_gym.execution.arrays import Features, Values
from datamarket_gym.experiments.cells import utility_for
from datamarket_gym.experiments.spec import ExperimentSpec, UtilityEntry
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.mechanism.allocation import Payments
from datamarket_gym.mechanism.pipeline import Mechanism
from datamarket_gym.registry import Document
from datamarket_gym.utilities import ImportedScores, ScoreTable
from datamarket_gym.utilities.base import LEARNERS
from datamarket_gym.utilities.coverage import Coverage
from datamarket_gym.utilities.oracle import Utility, UtilityOracle

Along = Literal["end", "path"]
STEPS, TO_THE_END = 10, 200
PENALTY = 1e-3
"""Of half the squared weights, beside the mean loss."""


def gradient_products(
    features: Features,
    label: NDArray[Any],
    validation_features: Features,
    validation_label: NDArray[Any],
    along: Along = "path",
) -> Values:
    """Scores (units, validation rows): how far learning from a unit lowers a row's loss."""
    require_choice("along", along, ("end", "path"))
    classes = np.unique(np.concatenate([label, validation_label]))
    code, held = np.searchsorted(classes, label), np.searchsorted(classes, validation_label)
    order = np.lexsort((*features.T[::-1], code))
    x, z = _standardised(features[order], validation_features)
    fit = _Fit(x, np.eye(len(classes))[code[order]], z, np.eye(len(classes))[held])
    out = np.empty((len(features), len(validation_features)))
    out[order] = fit.products(along)
    return out


class _Fit:
    """Gradient descent on the mean loss and the penalty, by the step that the largest curvature allows."""

    def __init__(self, x: Features, y: Values, z: Features, y_held: Values) -> None:
        self._x, self._y, self._z, self._held = x, y, z, y_held
        smaller = x @ x.T if len(x) < x.shape[1] else x.T @ x
        curvature = 0.5 * float(np.linalg.eigvalsh(smaller)[-1]) / len(x)  # of the softmax at most 1/2
        self.step = 1.0 / (curvature + PENALTY)

    def products(self, along: Along) -> Values:
        """The products after the last step of a long fit, or summed over the first steps."""
        steps = STEPS if along == "path" else TO_THE_END
        weights = np.zeros((self._x.shape[1], self._y.shape[1]))
        total = np.zeros((len(self._x), len(self._z)))
        for at in range(steps):
            ours = self._errors(self._x, self._y, weights)
            if along == "path" or at == steps - 1:
                total += ours @ self._errors(self._z, self._held, weights).T
            weights -= self.step * (self._x.T @ ours / len(ours) + PENALTY * weights)
        return self.step / len(self._x) * total * (self._x @ self._z.T)

    def _errors(self, x: Features, y: Values, weights: Values) -> Values:
        logits = x @ weights
        grown = np.exp(logits - logits.max(axis=1, keepdims=True))
        return grown / grown.sum(axis=1, keepdims=True) - y


def _standardised(units: Features, rows: Features) -> tuple[Features, Features]:
    """Both by the units' mean and spread, with a constant; a feature that never varies is left at zero."""
    mean, spread = units.mean(axis=0), units.std(axis=0)
    scale = np.where(spread > 0.0, spread, np.inf)
    x, z = ((each - mean) / scale for each in (units, rows))
    return np.c_[x, np.ones(len(x))], np.c_[z, np.ones(len(z))]


SCORES = "scores"


class ScoresEntry(Document):
    """Imported scores: what results call them, along what part of the fit, and on which units they are computed."""

    called: str = SCORES
    along: Along = "path"
    of: Literal["canonical", "reported"] = "canonical"


class MarketUtility(ABC):
    """A utility in one market, labelled or not."""

    name: str
    empty: str
    market: ProviderMarket

    @abstractmethod
    def oracle(self, submission: Submission) -> UtilityOracle:
        """What values units of this submission; of imported scores, those computed on it as it stands."""

    def pay(self, m: Mechanism, submission: Submission) -> Payments:
        """What the mechanism pays."""
        with suppress_market_warnings(LeakedRowsWarning):  # where there are any, an attack's doing
            return m.pay(submission, self.oracle(submission))


@dataclass(eq=False)
class _Fixed(MarketUtility):
    """One oracle, with its memo, whatever is submitted."""

    name: str
    empty: str
    market: ProviderMarket
    held: UtilityOracle

    def oracle(self, submission: Submission) -> UtilityOracle:
        return self.held


@dataclass(eq=False)
class _Scored(MarketUtility):
    """Gradient products that are computed anew on what is submitted."""

    name: str
    empty: str
    market: ProviderMarket
    along: Along
    of: str

    def oracle(self, submission: Submission) -> UtilityOracle:
        return self._on(submission.features, submission.label)

    def pay(self, m: Mechanism, submission: Submission) -> Payments:
        paid = super().pay(m, submission)
        if not m.matches or self.of == "reported":
            return paid
        # What evidence ties does not depend on scores: the second time it is the same.
        with suppress_market_warnings(LeakedRowsWarning):
            return m.pay(submission, self._on(paid.canonical.features, paid.canonical.label))

    def _on(self, features: Features, label: NDArray[Any]) -> UtilityOracle:
        data = self.market.dataset
        found = gradient_products(
            features, label, data.validation_features, data.validation_label, self.along
        )
        learner = ImportedScores(ScoreTable(features, label, found, data.validation_features))
        return self.market.utility_oracle(Utility(SCORES, self.empty), learner)


def utilities_in(
    spec: ExperimentSpec, scores: list[ScoresEntry], market: ProviderMarket, engine: dict[str, Any]
) -> Iterator[MarketUtility]:
    """The experiment's utilities in a market, and of imported scores each kind."""
    bare = market.without_labels()
    for entry in spec.utilities:
        if entry.learner == SCORES:
            for asked in scores:
                yield _Scored(asked.called, entry.empty, market, asked.along, asked.of)
            continue
        here = bare if needs_no_labels(entry) else market
        oracle = here.utility_oracle(entry.build(), utility_for(entry, engine), engine.get("memo"))
        yield _Fixed(entry.learner, entry.empty, here, oracle)


def needs_no_labels(entry: UtilityEntry) -> bool:
    """Whether a utility is coverage to which labels do not count."""
    learner = LEARNERS.create(entry.learner)
    return isinstance(learner, Coverage) and not learner.labels
