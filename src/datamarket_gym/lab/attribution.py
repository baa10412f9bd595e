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
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Features, Values
from datamarket_gym.core.errors import require_choice

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
