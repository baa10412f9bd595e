"""Split gain of a semivalue on unanimity games (Proposition 1 and its n-player extension).

One of n unanimity players splits into k pseudonyms, all of whom are needed. With size law q (see
`datamarket_gym.games.semivalue`) a player of an N-player unanimity game scores omega_{N,N-1} = q_{N-1}:

    additive        Gamma = k omega_{n+k-1, n+k-2} - omega_{n, n-1}
    multiplicative  G     = k omega_{n+k-1, n+k-2} / omega_{n, n-1}

Shapley: G = n k / (n + k - 1), above 1 for all n, k >= 2. Raw Banzhaf: G = k / 2^(k-1) for any n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datamarket_gym.core.arrays import Codes, Values
from datamarket_gym.core.errors import ParameterError, require_count
from datamarket_gym.core.registry import written
from datamarket_gym.games.semivalue import Semivalue

_SUM = 1e-9  # a law of K sizes in floating point sums to one within this


@dataclass(frozen=True)
class SplitGain:
    """What a player of the n-player unanimity game gets honestly, and split into k pseudonyms."""

    n: int
    k: int
    honest: float
    split: float

    @property
    def additive(self) -> float:
        """Gamma: positive where splitting pays."""
        return self.split - self.honest

    @property
    def multiplicative(self) -> float:
        """G, or NaN where the honest player gets nothing."""
        return self.split / self.honest if self.honest else float("nan")


def split_gain(semivalue: Semivalue, k: int, n: int = 2) -> SplitGain:
    """The gain of splitting one of n unanimity players into k pseudonyms."""
    require_count("k", k)
    require_count("n", n)
    honest = size_law(semivalue, n)[-1]
    split = k * size_law(semivalue, n + k - 1)[-1]
    return SplitGain(n, k, float(honest), float(split))


def shapley_split_gain(n: int, k: int) -> float:
    """The multiplicative gain under Shapley, n k / (n + k - 1)."""
    require_count("n", n)
    require_count("k", k)
    return n * k / (n + k - 1)


def profitable_splits(
    semivalue: Semivalue, n: int = 2, *, k_max: int = 64, identity_cost: float = 0.0
) -> Codes:
    """The k of 2..k_max with Gamma(k) > identity_cost (k - 1): where splitting pays."""
    require_count("k_max", k_max, at_least=2)
    gains = np.array([split_gain(semivalue, k, n).additive for k in range(2, k_max + 1)])
    found: Codes = 2 + np.flatnonzero(gains > identity_cost * np.arange(1, k_max))
    return found


def size_law(semivalue: Semivalue, n_players: int) -> Values:
    """The semivalue's law of sizes; refuses weights that are negative or do not sum to one."""
    law = np.asarray(semivalue.size_law(n_players), dtype=np.float64)
    if law.shape != (n_players,) or not (law >= 0).all() or abs(law.sum() - 1.0) > _SUM:
        raise ParameterError(
            "semivalue",
            _name(semivalue),
            f"its weights for {n_players} players are not a semivalue's: sum_s C(K-1, s) omega_s is "
            f"{law.sum():.6g} and the least is {law.min():.3g}; normalise them to sum to one",
        )
    return law


def _name(semivalue: Semivalue) -> str:
    from datamarket_gym.core.errors import DataMarketError

    try:
        return written(semivalue)
    except DataMarketError:  # not registered
        return type(semivalue).__name__
