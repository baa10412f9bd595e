"""Faithful groups over quotient units (FGSV): P_G = sum over G of phi_k.

Once the quotient units and their Shapley values are fixed, a group's payment is the sum of its units'
values, so dividing a group into others leaves the total unchanged: shell companies gain nothing. The
composition is specific to Shapley, and assumes every quotient unit to belong to one group; a cluster
of several owners needs an allocation rule first. Sums are made on a grid on which they are exact, so
the invariance holds to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from datamarket_gym.core.arrays import Values
from datamarket_gym.core.errors import ParameterError
from datamarket_gym.games.semivalue import Semivalue
from datamarket_gym.judge.guarantees.split_gain import size_law
from datamarket_gym.pipeline.apportion import exact_amounts
from datamarket_gym.semivalues.laws import Shapley


def group_values(
    scores: Values, groups: Mapping[str, Sequence[int]], semivalue: Semivalue | None = None
) -> dict[str, float]:
    """The FGSV payment of each group of quotient units, given the units' Shapley values.

    ``semivalue`` is what the scores are: anything but Shapley is refused. Every unit must be in
    exactly one group.
    """
    scores = np.asarray(scores, dtype=np.float64)
    law = size_law(semivalue or Shapley(), len(scores))
    if not np.allclose(law, 1.0 / len(scores), rtol=1e-9, atol=0.0):
        raise ParameterError(
            "semivalue",
            type(semivalue).__name__,
            "faithful groups are defined for Shapley values; score the units by shapley",
        )
    group = _codes(len(scores), groups)
    amounts = exact_amounts(scores, np.arange(len(scores)), np.ones(len(scores)))
    totals = np.zeros(len(groups))
    np.add.at(totals, group, amounts)
    return dict(zip(groups, totals.tolist(), strict=True))


def _codes(n: int, groups: Mapping[str, Sequence[int]]) -> np.ndarray:
    group = np.full(n, -1)
    for code, (name, members) in enumerate(groups.items()):
        for member in members:
            if not 0 <= member < n:
                raise ParameterError(f"group {name!r}", member, f"units are numbered 0 to {n - 1}")
            if group[member] >= 0:
                raise ParameterError(
                    f"group {name!r}", member, "this unit is in two groups; put each into one"
                )
            group[member] = code
    if (group < 0).any():
        raise ParameterError(
            "groups", int((group < 0).argmax()), "this unit is in no group; put each unit into one"
        )
    return group
