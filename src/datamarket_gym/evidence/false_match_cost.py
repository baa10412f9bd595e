"""False-match cost: how much pay lineage moves between honest providers, as a function of theta.

The operator's rows (validation rows, or another sample of honest units) are dealt to pretend providers with random
times; a fifth of each deal is kept as pretend validation rows. All are honest, so every match of lineage is a mistake:

    cost(theta) = mean over deals of 1/2 sum_p |share of p with lineage@theta - share of p without|.

The pay is fixed, whatever the market pays by: the Shapley value of 5 nearest neighbours on the same vectors, in closed
form, counted over chance, negative totals raised to 0. Where rows have one class, no labels or numbers, it is the
Shapley value of coverage without labels, cosines above c, the 0.9 quantile of those between pretend validation rows
(docs/real-domains.md says how little that changes). The numbers of pretend providers and units are fixed, too: were
they the market's, splitting into names would move theta. The threshold is the lowest of the grid such that there *and
at every higher one* the cost, plus three standard errors over the deals, is at most 1 %: the highest similarities among
few hundred rows say little about the highest in a market.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.content_keys import keyed_generator
from datamarket_gym.evidence.similarity_search import nearest_earlier
from datamarket_gym.execution.arrays import Codes, Features, Values, directions
from datamarket_gym.registry import Document
from datamarket_gym.utilities.knn import NearestNeighbourGame

LIMIT = 0.01
"""The share of honest pay that lineage may move between providers."""

GRID: Values = np.round(np.arange(100, 49, -1) / 100, 2)
"""Thresholds from high to low. Below one half units have less in common than not."""

PROVIDERS, DEALS, NEIGHBOURS = 8, 20, 5
_ROWS = 500  # of each deal, as many as a market of 8 x 50 units and 100 validation rows
_ERRORS = 3.0
_STRANGERS = 0.9  # the quantile of coverage


class FalseMatchCost(Document):
    """Hold costs from the highest threshold down to the first that is too high; ``theta`` is the one before it."""

    rows: int
    units: int
    thetas: list[float]
    costs: list[float]  # means over deals
    errors: list[float]  # their standard errors
    theta: float | None

    def at(self, theta: float) -> float:
        """Return the cost at the nearest threshold that was tried."""
        return self.costs[int(np.argmin(np.abs(np.array(self.thetas) - theta)))]


def false_match_cost(
    vectors: Features,
    label: NDArray[np.generic],
    grid: Values = GRID,
    compare: Callable[[Codes], Values] | None = None,
) -> FalseMatchCost:
    """Measure the cost of lineage among honest units, in content order (no two equal, none of zero length).

    ``compare`` takes row numbers and returns how similar each row is to the most similar one before it in this order;
    cosine if left out.
    """
    code = np.unique(label, return_inverse=True)[1].astype(np.int64)
    rng = keyed_generator("honest price")  # the key decides payments: it stays as it is
    size = min(len(vectors), _ROWS)
    n = size * 4 // 5
    dealt = [rng.permutation(len(vectors))[:size] for _ in range(DEALS)]
    deals = [_Deal(vectors, code, rows, n, compare and compare(rows[:n])) for rows in dealt]
    thetas, costs, errors = [], [], []
    lowest = None
    for theta in grid.tolist():
        moved = np.array([deal.cost(theta) for deal in deals])
        thetas.append(theta)
        costs.append(round(float(moved.mean()), 6))
        errors.append(round(float(moved.std(ddof=1) / np.sqrt(DEALS)), 6))
        if costs[-1] + _ERRORS * errors[-1] > LIMIT:
            break
        lowest = theta
    return FalseMatchCost(
        rows=len(vectors), units=n, thetas=thetas, costs=costs, errors=errors, theta=lowest
    )


class _Deal:
    """One pretend market: its first ``n`` rows are units, in order of time, the others validate."""

    def __init__(
        self, vectors: Features, code: Codes, rows: Codes, n: int, nearness: Values | None = None
    ) -> None:
        units, validation = rows[:n], rows[n:]
        self._nearness = nearest_earlier(vectors[units])[1] if nearness is None else nearness
        pay: type[_Accuracy] | type[_Covered] = _Accuracy if code.any() else _Covered
        self._pay = pay(vectors, code, units, validation)
        self._provider: Codes = np.arange(n) % PROVIDERS
        self._alone = self._shares(np.ones(n, dtype=bool))
        self._last = (n, 0.0)

    def cost(self, theta: float) -> float:
        """Return half the L1 distance between shares with lineage and without; 1 where no provider earns anything."""
        unmatched = self._nearness < theta
        left = int(unmatched.sum())
        if self._alone is None:
            return 1.0
        if left != self._last[0]:
            shares = self._shares(unmatched)
            moved = 1.0 if shares is None else float(np.abs(shares - self._alone).sum() / 2)
            self._last = (left, moved)
        return self._last[1]

    def _shares(self, playing: NDArray[np.bool_]) -> Values | None:
        """Return shares of providers where these units play; None where no provider earns anything."""
        unit, values = self._pay.pay(playing)
        pay = np.bincount(self._provider[unit].ravel(), values.ravel(), PROVIDERS).clip(0.0)
        total = float(pay.sum())
        return pay / total if total > 0 else None


class _Accuracy:
    """Pay by nearest neighbours, over chance."""

    def __init__(self, vectors: Features, code: Codes, units: Codes, validation: Codes) -> None:
        distance = (vectors[units] ** 2).sum(axis=1) - 2.0 * vectors[validation] @ vectors[units].T
        self._near: Codes = np.argsort(distance, axis=1, kind="stable")
        self._agrees = (code[units][self._near] == code[validation][:, None]).astype(np.float64)
        self._chance = 1.0 / (int(code.max()) + 1)

    def pay(self, playing: NDArray[np.bool_]) -> tuple[Codes, Values]:
        """Return for each validation row the units that play, the nearest first, and what it pays them."""
        inside = playing[self._near]
        near = self._near[inside].reshape(len(inside), -1)
        agrees = self._agrees[inside].reshape(near.shape)
        n = near.shape[1]
        game = NearestNeighbourGame.from_weights(np.full(n, 1.0 / n), NEIGHBOURS)
        return near, game.values(agrees, self._chance)


class _Covered:
    """Pay by coverage without labels, up to a factor: what counts are shares."""

    def __init__(self, vectors: Features, code: Codes, units: Codes, validation: Codes) -> None:
        towards, unit = directions(vectors[validation]), directions(vectors[units])
        pairs = (towards @ towards.T)[np.triu_indices(len(validation), 1)]
        above = np.maximum(towards @ unit.T - max(0.0, float(np.quantile(pairs, _STRANGERS))), 0.0)
        self._rank: Codes = np.argsort(above, axis=1, kind="stable")
        self._above = np.take_along_axis(above, self._rank, axis=1)

    def pay(self, playing: NDArray[np.bool_]) -> tuple[Codes, Values]:
        """Return for each validation row the units that play, what covers least first, and what it pays them."""
        inside = playing[self._rank]
        unit = self._rank[inside].reshape(len(inside), -1)
        rise = np.diff(self._above[inside].reshape(unit.shape), axis=1, prepend=0.0)
        return unit, np.cumsum(rise / np.arange(unit.shape[1], 0, -1), axis=1)
