"""Split gain of a semivalue on unanimity games (Proposition 1 and its n-player extension).

One of n unanimity players splits into k pseudonyms, all of whom are needed. With size weights q (see
`datamarket_gym.games.semivalues`) a player of an N-player unanimity game scores omega_{N,N-1} = q_{N-1}:

    additive        Gamma = k omega_{n+k-1, n+k-2} - omega_{n, n-1}
    multiplicative  G     = k omega_{n+k-1, n+k-2} / omega_{n, n-1}

Shapley: G = n k / (n + k - 1), above 1 for all n, k >= 2. Raw Banzhaf: G = k / 2^(k-1) for any n.

Manipulation may cost something (the paper's Remark on costs). With a cost c per further identity a
split into k pseudonyms pays only while Gamma(k) > c (k - 1). Under Shapley the (k+1)st pseudonym adds
(n-1) / ((n+k-1)(n+k)), which falls in k: there is a finite k to stop at for every c > 0. For an
attack of perturbation distance d and cost c(d) the theory yields no more than an upper bound of the
net gain, B - c(d); it does not say which d an attacker chooses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from datamarket_gym.display import Shown
from datamarket_gym.errors import ParameterError, require_count, require_in
from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.games.semivalues import Semivalue

_SUM = 1e-9  # the weights of K sizes in floating point sum to one within this


@dataclass(frozen=True)
class SplitGain(Shown):
    """Hold what a player of the n-player unanimity game gets honestly, and split into k pseudonyms."""

    n: int
    k: int
    honest: float
    split: float

    @property
    def additive(self) -> float:
        """Return Gamma: positive where splitting pays."""
        return self.split - self.honest

    @property
    def multiplicative(self) -> float:
        """Return G, or NaN where the honest player gets nothing."""
        return self.split / self.honest if self.honest else float("nan")


def split_gain(semivalue: Semivalue, k: int, n: int = 2) -> SplitGain:
    """Compute the gain of splitting one of n unanimity players into k pseudonyms.

    Parameters
    ----------
    semivalue, k, n
        How coalitions are weighted, and the numbers of pseudonyms and of players.

    Returns
    -------
    SplitGain
        What the player is paid, honest and split.
    """
    require_count("k", k)
    require_count("n", n)
    honest = size_weights(semivalue, n)[-1]
    split = k * size_weights(semivalue, n + k - 1)[-1]
    return SplitGain(n, k, float(honest), float(split))


def shapley_split_gain(n: int, k: int) -> float:
    """Compute the multiplicative gain n k / (n + k - 1) of a split under Shapley.

    Parameters
    ----------
    n, k
        The number of players of the unanimity game, and of pseudonyms.

    Returns
    -------
    float
    """
    require_count("n", n)
    require_count("k", k)
    return n * k / (n + k - 1)


def profitable_splits(
    semivalue: Semivalue, n: int = 2, *, k_max: int = 64, identity_cost: float = 0.0
) -> Codes:
    """List the k of 2..k_max with Gamma(k) > identity_cost (k - 1): the splits that pay.

    Parameters
    ----------
    semivalue, n
        How coalitions are weighted, and the number of players of the unanimity game.
    k_max, identity_cost
        The largest number of pseudonyms that is tried, and the cost of each further one.

    Returns
    -------
    Codes
    """
    require_count("k_max", k_max, at_least=2)
    gains = np.array([split_gain(semivalue, k, n).additive for k in range(2, k_max + 1)])
    return 2 + np.flatnonzero(gains > identity_cost * np.arange(1, k_max))


def size_weights(semivalue: Semivalue, n_players: int) -> Values:
    """Return the semivalue weights by size; refuse weights that are negative or do not sum to one."""
    weights = np.asarray(semivalue.size_weights(n_players), dtype=np.float64)
    if weights.shape != (n_players,) or not (weights >= 0).all() or abs(weights.sum() - 1.0) > _SUM:
        raise ParameterError(
            "semivalue",
            type(semivalue).__name__,
            f"its weights for {n_players} players are not a semivalue's: sum_s C(K-1, s) omega_s is "
            f"{weights.sum():.6g} and the least is {weights.min():.3g}; normalise them to sum to one",
        )
    return weights


def marginal_benefit(n: int, k: int) -> float:
    """Compute (n - 1) / ((n + k - 1)(n + k)), what the (k+1)st pseudonym adds to the Shapley payment.

    Parameters
    ----------
    n, k
        The number of players of the unanimity game, and of pseudonyms so far.

    Returns
    -------
    float
    """
    require_count("n", n)
    require_count("k", k)
    return (n - 1) / ((n + k - 1) * (n + k))


def stopping_k(n: int, identity_cost: float) -> int:
    """Compute the number of pseudonyms at which, under Shapley, one more is not worth its cost.

    Parameters
    ----------
    n, identity_cost
        The number of players of the unanimity game, and the cost of each further pseudonym.

    Returns
    -------
    int
    """
    require_count("n", n)
    require_in("identity_cost", identity_cost, 0.0, math.inf, open_low=True)
    # x (x + 1) >= (n - 1) / c at x = n + k - 1; the root may be off by one in floating point
    root = (math.sqrt(1.0 + 4.0 * (n - 1) / identity_cost) - 1.0) / 2.0
    k = max(1, math.ceil(root) - n + 1)
    while k > 1 and marginal_benefit(n, k - 1) <= identity_cost:
        k -= 1
    while marginal_benefit(n, k) > identity_cost:
        k += 1
    return k


def best_split(
    semivalue: Semivalue, n: int = 2, *, identity_cost: float = 0.0, k_max: int = 64
) -> tuple[int, float]:
    """Find the k of 1..k_max with the largest net gain Gamma(k) - identity_cost (k - 1).

    Parameters
    ----------
    semivalue, n, identity_cost, k_max
        As of `profitable_splits`.

    Returns
    -------
    tuple of int and float
        That k, and the net gain.
    """
    require_count("k_max", k_max)
    require_in("identity_cost", identity_cost, 0.0, math.inf)
    nets = [split_gain(semivalue, k, n).additive - identity_cost * (k - 1) for k in range(1, k_max + 1)]
    best = max(range(k_max), key=lambda i: nets[i])
    return best + 1, nets[best]


def net_gain_bound(bound: float | None, cost: float) -> float:
    """Bound the net gain of a manipulation that costs something by B - c(d).

    Parameters
    ----------
    bound, cost
        The theorem's bound B (None, where there is none, is refused), and what the manipulation costs.

    Returns
    -------
    float
    """
    if bound is None:
        raise ParameterError(
            "bound", bound, "there is no bound to subtract a cost from: the theorem does not apply"
        )
    require_in("cost", cost, 0.0, math.inf)
    return bound - cost
