"""Manipulation that costs something (the paper's Remark on costs).

With a cost c per further identity a split into k pseudonyms pays only while Gamma(k) > c (k - 1).
Under Shapley the (k+1)st pseudonym adds (n-1) / ((n+k-1)(n+k)), which falls in k: there is a finite k
to stop at for every c > 0. For an attack of perturbation distance d and cost c(d) the theory yields
no more than an upper bound of the net gain, B - c(d); it does not say which d an attacker chooses.
"""

from __future__ import annotations

import math

from datamarket_gym.core.errors import ParameterError, require_count, require_in
from datamarket_gym.games.semivalue import Semivalue
from datamarket_gym.judge.guarantees.split_gain import split_gain


def marginal_benefit(n: int, k: int) -> float:
    """What the (k+1)st pseudonym adds to the Shapley payment in the n-player unanimity game."""
    require_count("n", n)
    require_count("k", k)
    return (n - 1) / ((n + k - 1) * (n + k))


def stopping_k(n: int, identity_cost: float) -> int:
    """Under Shapley, the k from which one more pseudonym is not worth its cost."""
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
    """The k of 1..k_max with the largest Gamma(k) - identity_cost (k - 1), and that net gain."""
    require_count("k_max", k_max)
    require_in("identity_cost", identity_cost, 0.0, math.inf)
    nets = [split_gain(semivalue, k, n).additive - identity_cost * (k - 1) for k in range(1, k_max + 1)]
    best = max(range(k_max), key=lambda i: nets[i])
    return best + 1, nets[best]


def net_gain_bound(bound: float | None, cost: float) -> float:
    """B - c(d): an upper bound of the net gain, where the theorem gave a bound B at all."""
    if bound is None:
        raise ParameterError(
            "bound", bound, "there is no bound to subtract a cost from: the theorem does not apply"
        )
    require_in("cost", cost, 0.0, math.inf)
    return bound - cost
