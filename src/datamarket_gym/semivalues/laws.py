"""The semivalues: each is a law of coalition sizes q_s = C(K-1, s) omega_{K,s} and nothing else.

Shapley: q_s = 1/K. Banzhaf: q_s = C(K-1, s) / 2^(K-1). Beta-Shapley (Kwon & Zou 2022): omega_{K,s}
proportional to B(s + beta, K - 1 - s + alpha), so that q is the beta-binomial law of s successes
with parameters (beta, alpha): (1, 1) is Shapley, a large alpha favours small coalitions.
Leave-one-out: all mass at K - 1. Only Shapley's scores always sum to the value of all players; the
others are raw (see `datamarket_gym.semivalues.estimate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from datamarket_gym.core.arrays import Values
from datamarket_gym.core.errors import require_count
from datamarket_gym.core.parameters import Range
from datamarket_gym.core.registry import register
from datamarket_gym.games.semivalue import Semivalue

_MAX_SHAPE = 1e6  # beyond this the law is a binomial to every digit that matters
Shape = Annotated[float, Range(0, _MAX_SHAPE, open_low=True)]


@register("semivalue", "shapley")
@dataclass(frozen=True)
class Shapley(Semivalue):
    """Count every coalition size as equally likely; scores add up to the value of all data."""

    title = "Shapley"

    def size_law(self, n_players: int) -> Values:
        """Uniform on 0..K-1."""
        require_count("n_players", n_players)
        return np.full(n_players, 1.0 / n_players)


@register("semivalue", "banzhaf")
@dataclass(frozen=True)
class Banzhaf(Semivalue):
    """Count every coalition as equally likely; scores need not add up to anything."""

    title = "Banzhaf"

    def size_law(self, n_players: int) -> Values:
        """Binomial(K-1, 1/2), each probability a correctly rounded ratio of whole numbers."""
        require_count("n_players", n_players)
        others, ways = n_players - 1, 1
        law = np.empty(n_players)
        for size in range(n_players):
            law[size] = ways / (1 << others)
            ways = ways * (others - size) // (size + 1)
        return law


@register("semivalue", "beta")
@dataclass(frozen=True)
class Beta(Semivalue):
    """Weight coalition sizes by a beta-binomial law: a large alpha favours small coalitions."""

    title = "Beta Shapley"

    alpha: Annotated[Shape, "alpha; the larger, the more small coalitions count"] = 2.0
    beta: Annotated[Shape, "beta; the larger, the more large coalitions count"] = 2.0

    def size_law(self, n_players: int) -> Values:
        """Beta-binomial(K-1; beta, alpha), from logarithms so that a large K does not underflow."""
        from scipy.special import betaln, gammaln

        require_count("n_players", n_players)
        size = np.arange(n_players, dtype=float)
        rest = n_players - 1 - size
        log_law = betaln(size + self.beta, rest + self.alpha) - gammaln(size + 1) - gammaln(rest + 1)
        law: Values = np.exp(log_law - log_law.max())
        law /= law.sum()
        return law


@register("semivalue", "loo")
@dataclass(frozen=True)
class LeaveOneOut(Semivalue):
    """Count what all players lose when this one goes."""

    title = "leave-one-out"

    def size_law(self, n_players: int) -> Values:
        """All mass at K-1."""
        require_count("n_players", n_players)
        law = np.zeros(n_players)
        law[-1] = 1.0
        return law
