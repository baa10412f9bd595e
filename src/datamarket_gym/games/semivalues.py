"""Semivalues (weights of coalition sizes), estimators and their estimates.

phi_k = sum over Q without k of omega_{K,|Q|} [v(Q + k) - v(Q)], with sum_s C(K-1, s) omega_{K,s} = 1.
The numbers q_s = C(K-1, s) omega_{K,s} are therefore probabilities of sizes 0..K-1: draw a size,
then a coalition of that size uniformly. These weights, unlike omega, do not underflow when K is large.

Shapley: q_s = 1/K. Banzhaf: q_s = C(K-1, s) / 2^(K-1). Beta-Shapley (Kwon & Zou 2022): omega_{K,s}
proportional to B(s + beta, K - 1 - s + alpha), so that q is the beta-binomial distribution of s successes
with parameters (beta, alpha): (1, 1) is Shapley, a large alpha favours small coalitions.
Leave-one-out: all mass at K - 1. Only Shapley's scores always sum to the value of all players; the
others are raw (see `datamarket_gym.games.estimate`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from datamarket_gym.display import Shown, counted
from datamarket_gym.errors import require_count
from datamarket_gym.execution.arrays import Values
from datamarket_gym.games.game import Game
from datamarket_gym.plots import plot_intervals
from datamarket_gym.registry import Component, Kind, OneOf, Range, register


class Semivalue(Component, ABC):
    """Plug point ``semivalue``: a frozen dataclass with one method, the weights of coalition sizes."""

    @abstractmethod
    def size_weights(self, n_players: int) -> Values:
        """Return the probabilities of |Q| = 0..K-1, shape (K,), summing to one."""

    def weights(self, n_players: int) -> Values:
        """Return omega_{K,s} for s = 0..K-1: the weight of each size over the number of coalitions of that size."""
        from scipy.special import comb

        weights: Values = self.size_weights(n_players) / comb(n_players - 1, np.arange(n_players))
        return weights


SEMIVALUES: Kind[Semivalue] = Kind("semivalue", Semivalue)


@dataclass(frozen=True)
class Estimate(Shown):
    """Hold the scores of all players, with standard errors (zero where exact) and the number of evaluations.

    Parameters
    ----------
    values
        Shape (K,).
    standard_errors
        Shape (K,); zero where exact.
    evaluations
        Number of coalitions that were evaluated.
    method
        The estimator that was used, for example "exact" or "permutation".
    samples
        The i.i.d. samples that a score is the mean of; 0: exact; None: no such mean.
    reach
        A sample is at most this many times a marginal contribution.
    bias
        How far truncation may move a score in expectation *if no player can lower the value*. Standard errors do not
        see it; in any other game a bias above zero means one without a bound.
    proven
        Whether no score is moved by more than ``bias`` in any game, not in expectation alone.
    """

    values: Values
    standard_errors: Values
    evaluations: int
    method: str
    samples: int | None = None
    reach: float = 1.0
    bias: float = 0.0
    proven: bool = False

    @property
    def exact(self) -> bool:
        return not self.standard_errors.any() and not self.bias

    def plot(self) -> Any:
        """Plot the largest scores, with 95 % intervals where they carry standard errors.

        Returns
        -------
        matplotlib.figure.Figure or plotly.graph_objects.Figure
            Of matplotlib if it is installed, else of plotly.

        Raises
        ------
        ImportError
            If neither matplotlib nor plotly is installed.
        """
        players = [f"player {number}" for number in range(len(self.values))]
        title = f"Scores of {counted(len(players), 'player')} ({self.method})"
        return plot_intervals(players, self.values, self.standard_errors, title=title, xlabel="score")


@dataclass(frozen=True)
class Truncated:
    """Describe a closed form of the nearest rows alone."""

    nearest: int
    within: float  # no score is off by more


Nearest = Annotated[
    int | str,
    Range(1),
    OneOf("auto"),
    "nearest units; how many count for each validation row, auto: as few as the error allows",
]
Within = Annotated[float, Range(0, 1), "error of a score at most"]


class Estimator(Component, ABC):
    """Plug point ``estimator``: a frozen dataclass that values all players within a budget."""

    @abstractmethod
    def estimate(
        self, game: Game, semivalue: Semivalue, budget: int, rng: np.random.Generator
    ) -> Estimate:
        """Ask the game for at most ``budget`` coalitions (in large batches) and value its players."""

    def budget(self, samples: int, n_players: int) -> int:
        """Return the evaluations that ``samples`` samples of every player cost (the paper's R)."""
        return samples * n_players


ESTIMATORS: Kind[Estimator] = Kind("estimator", Estimator)

_MAX_SHAPE = 1e6  # beyond this they are binomial to every digit that matters
Shape = Annotated[float, Range(0, _MAX_SHAPE, open_low=True)]


@register("semivalue", "shapley")
@dataclass(frozen=True)
class Shapley(Semivalue):
    """Count every coalition size as equally likely; scores add up to the value of all data."""

    title = "Shapley"

    def size_weights(self, n_players: int) -> Values:
        require_count("n_players", n_players)
        return np.full(n_players, 1.0 / n_players)


@register("semivalue", "banzhaf")
@dataclass(frozen=True)
class Banzhaf(Semivalue):
    """Count every coalition as equally likely; scores need not add up to anything."""

    title = "Banzhaf"

    def size_weights(self, n_players: int) -> Values:
        """Return Binomial(K-1, 1/2), each probability a correctly rounded ratio of whole numbers."""
        require_count("n_players", n_players)
        others, ways = n_players - 1, 1
        size_weights = np.empty(n_players)
        for size in range(n_players):
            size_weights[size] = ways / (1 << others)
            ways = ways * (others - size) // (size + 1)
        return size_weights


@register("semivalue", "beta")
@dataclass(frozen=True)
class Beta(Semivalue):
    """Weight coalition sizes by a beta-binomial distribution: a large alpha favours small coalitions.

    Parameters
    ----------
    alpha, beta
        The parameters of the distribution.
    """

    title = "Beta Shapley"

    alpha: Annotated[Shape, "alpha; the larger, the more small coalitions count"] = 2.0
    beta: Annotated[Shape, "beta; the larger, the more large coalitions count"] = 2.0

    def size_weights(self, n_players: int) -> Values:
        """Return Beta-binomial(K-1; beta, alpha), from logarithms so that a large K does not underflow."""
        from scipy.special import betaln, gammaln

        require_count("n_players", n_players)
        size = np.arange(n_players, dtype=float)
        rest = n_players - 1 - size
        log_weights = betaln(size + self.beta, rest + self.alpha) - gammaln(size + 1) - gammaln(rest + 1)
        size_weights: Values = np.exp(log_weights - log_weights.max())
        size_weights /= size_weights.sum()
        return size_weights


@register("semivalue", "loo")
@dataclass(frozen=True)
class LeaveOneOut(Semivalue):
    """Count what all players lose when this one goes."""

    title = "leave-one-out"

    def size_weights(self, n_players: int) -> Values:
        require_count("n_players", n_players)
        size_weights = np.zeros(n_players)
        size_weights[-1] = 1.0
        return size_weights
