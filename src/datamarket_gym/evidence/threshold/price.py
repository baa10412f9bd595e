"""The honest price of lineage: how much pay it moves between providers who all are honest, by theta.

Rows that the operator holds (validation rows, or another sample of honest units) are dealt to pretend
providers with random times, a fifth of each deal kept as pretend validation rows. Everybody is honest, so
whatever lineage ties is a mistake:

    price(theta) = mean over deals of 1/2 sum_p |share of p with lineage@theta - share of p without|.

The pay is fixed, whatever the market pays by: the Shapley value of 5 nearest neighbours on the same vectors,
in closed form, counted over chance, negative totals floored at 0. Rows of one class, or without labels, or with numbers
for labels, say nothing about accuracy: there it is the Shapley value of coverage without labels, cosines above c, the
0.9 quantile of those between pretend validation rows (docs/real-domains.md says how little that
changes). Fixed are the numbers of pretend providers and units, too: were they the market's, splitting into names would
move theta. A unit's nearest earlier one does not depend on theta: ancestors are found once a deal and cut at each theta
of the grid.

The threshold is the lowest of the grid such that there *and at every higher one* the price, plus three
standard errors over the deals, is at most 1 %. Three, because the highest similarities among few hundred
rows say little about the highest in a market; docs/guarantees.md says what markets then pay.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Features, Values, directions
from datamarket_gym.core.content import keyed_generator
from datamarket_gym.core.specs import Document
from datamarket_gym.evidence.nearest import nearest_earlier
from datamarket_gym.learners.knn import NearestNeighbourGame

LIMIT = 0.01
"""The share of honest pay that lineage may move between providers."""

GRID: Values = np.round(np.arange(100, 49, -1) / 100, 2)
"""Thresholds from high to low. Below one half units have less in common than not."""

PROVIDERS, DEALS, NEIGHBOURS = 8, 20, 5
_ROWS = 500  # of each deal, as many as a market of 8 x 50 units and 100 validation rows
_ERRORS = 3.0
_STRANGERS = 0.9  # the quantile of coverage


class HonestPrice(Document):
    """Prices from the highest threshold down to the first that is too dear, and the lowest that is not."""

    rows: int
    units: int
    thetas: list[float]
    prices: list[float]  # means over deals
    errors: list[float]  # their standard errors
    theta: float | None

    def at(self, theta: float) -> float:
        """The price at the nearest threshold that was tried."""
        return self.prices[int(np.argmin(np.abs(np.array(self.thetas) - theta)))]


def honest_price(vectors: Features, label: NDArray[np.generic]) -> HonestPrice:
    """The prices of lineage among honest units, in content order (no two alike, none of zero length)."""
    code = np.unique(label, return_inverse=True)[1].astype(np.int64)
    chosen = keyed_generator("honest price")
    size = min(len(vectors), _ROWS)
    n = size * 4 // 5
    deals = [_Deal(vectors, code, chosen.permutation(len(vectors))[:size], n) for _ in range(DEALS)]
    thetas, prices, errors = [], [], []
    lowest = None
    for theta in GRID.tolist():
        found = np.array([deal.price(theta) for deal in deals])
        thetas.append(theta)
        prices.append(round(float(found.mean()), 6))
        errors.append(round(float(found.std(ddof=1) / np.sqrt(DEALS)), 6))
        if prices[-1] + _ERRORS * errors[-1] > LIMIT:
            break
        lowest = theta
    return HonestPrice(
        rows=len(vectors), units=n, thetas=thetas, prices=prices, errors=errors, theta=lowest
    )


class _Deal:
    """One pretend market: its first ``n`` rows are units, in order of time, the others validate."""

    def __init__(self, vectors: Features, code: Codes, rows: Codes, n: int) -> None:
        units, held = rows[:n], rows[n:]
        self._cosine = nearest_earlier(vectors[units])[1]
        self._pay: _Accuracy | _Covered = (
            _Accuracy(vectors, code, units, held) if code.any() else _Covered(vectors, units, held)
        )
        self._provider: Codes = np.arange(n) % PROVIDERS
        self._alone = self._shares(np.ones(n, dtype=bool))
        self._last = (n, 0.0)

    def price(self, theta: float) -> float:
        """Half the L1 distance between shares with lineage and without; 1 where nobody earns anything."""
        kept = self._cosine < theta
        left = int(kept.sum())
        if self._alone is None:
            return 1.0
        if left != self._last[0]:
            shares = self._shares(kept)
            moved = 1.0 if shares is None else float(np.abs(shares - self._alone).sum() / 2)
            self._last = (left, moved)
        return self._last[1]

    def _shares(self, kept: NDArray[np.bool_]) -> Values | None:
        """Shares of providers where these units play; None where nobody earns anything."""
        unit, values = self._pay.of(kept)
        pay = np.bincount(self._provider[unit].ravel(), values.ravel(), PROVIDERS).clip(0.0)
        total = float(pay.sum())
        return pay / total if total > 0 else None


class _Accuracy:
    """Pay by nearest neighbours, over chance."""

    def __init__(self, vectors: Features, code: Codes, units: Codes, held: Codes) -> None:
        distance = (vectors[units] ** 2).sum(axis=1) - 2.0 * vectors[held] @ vectors[units].T
        self._near: Codes = np.argsort(distance, axis=1, kind="stable")
        self._agrees = (code[units][self._near] == code[held][:, None]).astype(np.float64)
        self._chance = 1.0 / (int(code.max()) + 1)

    def of(self, kept: NDArray[np.bool_]) -> tuple[Codes, Values]:
        """For each validation row the units that play, the nearest first, and what it pays them."""
        inside = kept[self._near]
        near = self._near[inside].reshape(len(inside), -1)
        agrees = self._agrees[inside].reshape(near.shape)
        n = near.shape[1]
        return near, NearestNeighbourGame.of(np.full(n, 1.0 / n), NEIGHBOURS).values(
            agrees, self._chance
        )


class _Covered:
    """Pay by coverage without labels, up to a factor: what counts are shares."""

    def __init__(self, vectors: Features, units: Codes, held: Codes) -> None:
        towards, among = directions(vectors[held]), directions(vectors[units])
        c = max(
            0.0, float(np.quantile((towards @ towards.T)[np.triu_indices(len(held), 1)], _STRANGERS))
        )
        above = np.maximum(towards @ among.T - c, 0.0)
        self._rank: Codes = np.argsort(above, axis=1, kind="stable")
        self._above = np.take_along_axis(above, self._rank, axis=1)

    def of(self, kept: NDArray[np.bool_]) -> tuple[Codes, Values]:
        """For each validation row the units that play, the one that covers least first, and what it pays them."""
        inside = kept[self._rank]
        unit = self._rank[inside].reshape(len(inside), -1)
        rise = np.diff(self._above[inside].reshape(unit.shape), axis=1, prepend=0.0)
        return unit, np.cumsum(rise / np.arange(unit.shape[1], 0, -1), axis=1)
