"""Error bars eta of the scores, and the bounds they enter.

Theorem 3: |gain| <= B = A + L + D + 2 K' eta when every honest and manipulated score is within eta.
Uniformly over c = K + K' scores that are means of R i.i.d. samples of range w, with probability 1 - d:

    Hoeffding           eta = w sqrt(ln(2c/d) / (2R))
    empirical Bernstein eta = max se sqrt(2 ln(4c/d)) + 7 w ln(4c/d) / (3 (R - 1))

(Maurer and Pontil 2009), and in expectation, E|error| <= sd: eta = max se, which bounds the *expected*
gain alone. Scores of a truncated estimator are biased besides: in a monotone game by at most b, so that
eta = max (se + b) in expectation; in any other game by an unknown amount, so that there is no eta.
A marginal contribution of utilities in [0, V] lies in [-V, V], so w = 2V; in a monotone
game w = V.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from datamarket_gym.display import Shown
from datamarket_gym.errors import ParameterError, require_count, require_in
from datamarket_gym.games.semivalues import Estimate


@dataclass(frozen=True)
class Eta(Shown):
    """Hold a bound of the error of every score, and the method by which it was computed."""

    value: float
    method: str  # "exact", "hoeffding", "bernstein", "mean_absolute"; "none" (an infinite value)
    delta: float = 0.0  # probability with which it may fail; 0 for "exact"


def hoeffding(width: float, samples: int, comparisons: int, delta: float) -> float:
    """Compute eta for means of i.i.d. samples, uniformly over several scores.

    Parameters
    ----------
    width, samples
        The range of a sample, and how many make up each mean.
    comparisons, delta
        How many scores the bound covers at once, and the probability with which it may fail.

    Returns
    -------
    float
    """
    _check(width, samples, comparisons, delta)
    return width * math.sqrt(math.log(2 * comparisons / delta) / (2 * samples))


def empirical_bernstein(
    standard_error: float, width: float, samples: int, comparisons: int, delta: float
) -> float:
    """Compute eta for a mean with this standard error (sample deviation over root R).

    Parameters
    ----------
    standard_error
        The largest standard error of a score.
    width, samples, comparisons, delta
        As of `hoeffding`, with at least two samples.

    Returns
    -------
    float
    """
    _check(width, samples, comparisons, delta)
    require_count("samples", samples, at_least=2)
    log = math.log(4 * comparisons / delta)
    return standard_error * math.sqrt(2 * log) + 7 * width * log / (3 * (samples - 1))


def sample_size(eta: float, width: float, comparisons: int, delta: float) -> int:
    """Compute the samples per score after which Hoeffding's eta is at most a target.

    Parameters
    ----------
    eta
        The target.
    width, comparisons, delta
        As of `hoeffding`.

    Returns
    -------
    int
    """
    require_in("eta", eta, 0.0, math.inf, open_low=True)
    _check(width, 1, comparisons, delta)
    return math.ceil(width**2 * math.log(2 * comparisons / delta) / (2 * eta**2))


def sample_size_mean_absolute(eta: float, width: float) -> int:
    """Compute the samples per score after which the mean absolute error is at most eta, whatever the scores.

    Parameters
    ----------
    eta, width
        The target, and the range of a sample.

    Returns
    -------
    int
    """
    require_in("eta", eta, 0.0, math.inf, open_low=True)
    require_in("width", width, 0.0, math.inf)
    return max(1, math.ceil((width / (2 * eta)) ** 2))  # a deviation is at most half the range


def eta_of(
    honest: Estimate,
    attacked: Estimate,
    *,
    method: str = "auto",
    delta: float = 0.05,
    value_range: float = 1.0,
    monotone: bool = False,
) -> Eta:
    """Compute the error bar of two sets of scores together; ``auto`` takes Hoeffding's where it holds.

    ``value_range`` is V. Truncated scores of a game that is not monotone have no error bar: the method "none".
    """
    both = (honest, attacked)
    for estimate in both:
        errors = np.asarray(estimate.standard_errors, dtype=np.float64)
        if errors.shape != estimate.values.shape or not np.isfinite(errors).all():
            raise ParameterError(
                "estimator",
                estimate.method,
                "it gives no finite error bars, so nothing can be said about the gain; use an "
                "estimator with standard errors, or more samples",
            )
    if all(estimate.samples == 0 for estimate in both):
        return Eta(0.0, "exact")
    sampled = [estimate for estimate in both if estimate.samples != 0]
    if method == "auto":
        means = all(estimate.samples is not None for estimate in sampled)
        method = "hoeffding" if means else "mean_absolute"
    if method not in ("hoeffding", "bernstein", "mean_absolute"):
        raise ParameterError("eta", method, "choose auto, hoeffding, bernstein or mean_absolute")
    unbounded = not monotone and any(estimate.bias for estimate in both)
    if method == "mean_absolute":
        worst = max(float(e.standard_errors.max()) + e.bias for e in sampled)
        return Eta(math.inf, "none") if unbounded else Eta(worst, method)
    comparisons = sum(len(estimate.values) for estimate in both)
    bars = []
    for estimate in sampled:
        if estimate.samples is None:
            raise ParameterError(
                "eta",
                method,
                f"the scores of {estimate.method!r} are no means of i.i.d. samples, so {method} does "
                "not hold for them; use estimator permutation (without truncation) or subset, or "
                "eta='mean_absolute'",
            )
        width = value_range * (1.0 if monotone else 2.0) * estimate.reach
        if method == "hoeffding":
            bar = hoeffding(width, estimate.samples, comparisons, delta)
        else:
            worst = float(estimate.standard_errors.max())
            bar = empirical_bernstein(worst, width, estimate.samples, comparisons, delta)
        bars.append(bar + estimate.bias)
    return Eta(math.inf, "none") if unbounded else Eta(max(bars), method, delta)


def theorem_bound(leakage_total: float, n_clusters: int, eta: float) -> float:
    """Compute the bound of Theorem 3, B = A + L + D + 2 K' eta.

    Parameters
    ----------
    leakage_total, n_clusters, eta
        A + L + D, the number K' of manipulated clusters, and the error bar of every score.

    Returns
    -------
    float
    """
    return leakage_total + 2 * n_clusters * eta


def probabilistic_miss(delta: float, units: int, marginal: float) -> float:
    """Bound the expected escaped mass, E[L] <= delta r B (Corollary).

    Parameters
    ----------
    delta, units, marginal
        The probability that a variant escapes the evidence, the number r of variants, and the largest score B of one.

    Returns
    -------
    float
    """
    require_in("delta", delta, 0.0, 1.0)
    require_count("units", units, at_least=0)
    require_in("marginal", marginal, 0.0, math.inf)
    return delta * units * marginal


def normalized_bound(
    bound: float,
    honest_payment: float,
    totals: tuple[float, float],
    grand_values: tuple[float, float],
) -> float:
    """Compute the lemma's bound of rescaled payments, with raw sums T and grand values V (honest, attacked).

    With T_min the smaller sum: V_a B / T_min + |x| |V_a - V_0| / T_min + |V_0| |x| |T_a - T_0| / T_min^2.
    """
    (t0, ta), (v0, va) = totals, grand_values
    least = min(t0, ta)
    if not least > 0:
        raise ParameterError(
            "raw score sums", totals, "the lemma needs both above zero; pay the raw scores instead"
        )
    x = abs(honest_payment)
    return abs(va) / least * bound + x / least * abs(va - v0) + abs(v0) * x / least**2 * abs(ta - t0)


def _check(width: float, samples: int, comparisons: int, delta: float) -> None:
    require_in("width", width, 0.0, math.inf)
    require_count("samples", samples)
    require_count("comparisons", comparisons)
    require_in("delta", delta, 0.0, 1.0, open_low=True)
