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

Near copies: the cosine from which on two units are closer than strangers are, by a few honest rows alone.

The level lies half-way between two cosines, and not below the second:

- copies: p10 of the cosine of a row with a copy of it under noise of 0.02 of a median vector, the near-duplicate level
  of the admissibility check;
- strangers: what a small share of honest units reach with their nearest stranger. Where units are that alike anyway
  (images, digits) copies lie below it, and it alone is the level.

Among points of d dimensions, 1 - cosine to the nearest of n has a Weibull law,
P(1 - cosine < x) = 1 - exp(-(x / s)^(d / 2)), and s^(d / 2) falls as 1 / n. The law is fitted to the median and the
10th percentile of the distances between each row and its nearest other row, so that a few duplicates among the rows
lift nothing; it then says what a small share of units reach, or the nearest of more units than there are rows.

Crowding: how alike is an honest unit to the most similar of all units that were submitted?

The honest price is measured in pretend markets of 400 units; the more units there are, the closer the nearest
stranger comes. The validation rows are honest units that nobody submitted: the 95th percentile of their highest
cosine with any submitted unit is a floor for thresholds in *this* submission.

One in twenty, because ties between the honest largely cancel: a few per cent of units may be tied while less than
one per cent of pay moves. docs/guarantees.md shows both as markets grow, with this floor and
without. Of at least 100 rows, three that somebody knows and submits move the floor by three places among the rows
and no further.

Which threshold lineage takes: the lowest whose honest price is at most 1 %, lifted where units are crowded.

The price (`price`) asks what lineage would do to the *honest*. It is therefore measured on the operator's own rows,
the validation rows or a reference sample in their stead: measured on the submissions, a few copies would look like
honest units that are alike, and whoever submits copies could switch the evidence off. A second floor comes from the
size of the submission (`crowding`). Fewer than 100 rows are too few for a price: then near copies alone are tied, which
are closer than all but one honest unit in a hundred come to their nearest stranger (`near_copies`). Where the rows have
no embeddings, or are fewer than 20, identical units alone are tied.

This is the policy behind ``lineage@auto``, for everybody who settles it: `Mechanism.pay`, experiments, audits,
paydays and ``datamarket theta``. A threshold is a function of content: neither names nor the order of rows nor
a seed decide it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.content_keys import keyed_generator, unit_keys
from datamarket_gym.data.labels import are_numbers, unlabelled
from datamarket_gym.display import Screen
from datamarket_gym.errors import DataMarketError
from datamarket_gym.evidence.admissible_interval import variant_similarities, variants_for
from datamarket_gym.evidence.lineage import AUTO, NONE, Lineage
from datamarket_gym.evidence.similarity_search import nearest_earlier
from datamarket_gym.execution.arrays import Codes, Features, Rows, Values, directions, highest_cosines
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.market.datasets import Embeddings
from datamarket_gym.plots import plot_thresholds
from datamarket_gym.registry import Document, written
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


def false_match_cost(vectors: Features, label: NDArray[np.generic]) -> FalseMatchCost:
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
    return FalseMatchCost(
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


_SEED = 0  # of the noise: the level is a function of the rows alone
_BLOCK = 8192
_EQUAL = 1e-12  # directions closer than this are one


def copy_level(rows: Features, share: float, times: float = 1.0) -> float | None:
    """The level of near copies by different rows: a ``share`` of units is that near to one of ``times`` as many.

    None where one row in ten has an equal direction among the others: no direction then tells a copy.
    """
    some = Embeddings(rows)
    noisy = ATTACKS.create(variants_for(some))
    copies = variant_similarities(some, noisy, np.arange(len(rows)), _SEED)
    strangers = stranger_level(directions(rows), share, times)
    if strangers is None:
        return None
    return max(strangers, (strangers + float(np.quantile(copies, 0.10))) / 2)


def stranger_level(unit: Features, share: float, times: float = 1.0) -> float | None:
    """The cosine with its nearest stranger that a ``share`` of units reach, of ``times`` as many others as rows.

    None where one row in ten has an equal direction among the others.
    """
    middle, near = np.log(np.maximum(1.0 - np.quantile(nearest_others(unit), [0.5, 0.9]), _EQUAL))
    if near == math.log(_EQUAL):
        return None
    at_half, at_tenth, at_share = (math.log(-math.log1p(-part)) for part in (0.5, 0.1, share))
    slope = (middle - near) / (at_half - at_tenth)  # 2 / d
    return 1.0 - math.exp(middle - slope * (at_half - at_share + math.log(times)))


def nearest_others(unit: Features) -> Values:
    """The cosine of each row with the nearest other row."""
    highest: Values = np.empty(len(unit))
    for at in range(0, len(unit), _BLOCK):
        block = unit[at : at + _BLOCK] @ unit.T
        block[np.arange(len(block)), at + np.arange(len(block))] = -1.0
        highest[at : at + _BLOCK] = block.max(axis=1)
    return highest


ALLOWED = 0.05
_CROWD_ROWS = 1000


def density_sample(honest: Features) -> Features:
    """Directions of some of the honest units, which come in order of content."""
    rows = np.sort(keyed_generator("crowding").permutation(len(honest))[:_CROWD_ROWS])
    return directions(honest[rows])


def floor_of(highest: Values) -> float:
    """The smallest threshold that at most one honest unit in twenty exceeds, by the highest cosine of each."""
    nearest = np.minimum(highest, 1.0)  # rounding exceeds it
    return float(np.quantile(nearest, 1 - ALLOWED, method="higher"))


LEAST = 100
"""Rows below which the price is not asked: one row in twenty must be more than three."""
FEWEST = 20
"""Rows below which nothing is asked."""
_STRANGERS_CHOICE = (
    0.01  # honest units that may have a stranger as close as the threshold, where the price is not asked
)

Sample = Literal["validation", "reference"]
"""Whose rows a threshold is measured on."""

_POOL = 20_000  # rows that are looked at
_ROUNDING = 1e-9  # of a hundredth
_ELSEWHERE = {"validation": " (or a reference sample of other honest units)", "reference": ""}


class Threshold(Document):
    """The evidence that is used, why, and the measurements it rests on."""

    evidence: str = "lineage@none"
    theta: float | None = None
    why: str
    price: FalseMatchCost | None = None
    crowding: float | None = None
    near_copies: float | None = None
    measured_on: Sample = "validation"

    @property
    def layer_theta(self) -> float | str:
        """The threshold as evidence writes it."""
        return NONE if self.theta is None else self.theta

    @property
    def measured(self) -> bool:
        """Whether anything was measured that says which thresholds may be used."""
        return self.price is not None or self.near_copies is not None

    @property
    def floor(self) -> float | None:
        """The lowest threshold that may be used here; None where none may."""
        if self.price is not None and self.price.theta is None:
            return None
        known = [self.near_copies, self.crowding, None if self.price is None else self.price.theta]
        return max((floor for floor in known if floor is not None), default=None)

    @property
    def lowest(self) -> float | None:
        """The floor, rounded up to hundredths: what ``auto`` takes."""
        return None if self.floor is None else math.ceil(100 * self.floor - _ROUNDING) / 100

    def screen(self) -> Screen:
        """The evidence and why it is used, and what was measured."""
        known = {
            f: v for f in ("price", "crowding", "near_copies") if (v := getattr(self, f)) is not None
        }
        return Screen.of_fields(f"Threshold: {self.evidence}; {self.why}", known)

    def plot(self) -> Any:
        """Plot the false-match cost by threshold: the share of honest pay that false matches move.

        Returns
        -------
        matplotlib.figure.Figure or plotly.graph_objects.Figure
            The figure of the library that is installed; of matplotlib where both are.

        Raises
        ------
        DataMarketError
            If no false-match cost was measured.
        ImportError
            If neither matplotlib nor plotly is installed.
        """
        if self.price is None:
            raise DataMarketError(
                f"no false-match cost was measured, so there is nothing to plot: {self.why}"
            )
        price, name = self.price, "false-match cost"
        return plot_thresholds(
            price.thetas,
            {name: price.prices},
            title=f"False-match cost of lineage among {price.rows:,} {self.measured_on} rows",
            ylabel="share of honest pay moved (%)",
            errors={name: price.errors},
            chosen=self.theta,
            bounds={} if self.crowding is None else {"density correction": self.crowding},
            limit=LIMIT,
        )

    def admits(self, theta: float) -> bool:
        """Whether a threshold may be used. A high one harms nobody, so there is no ceiling.

        A floor that is a hundredth, up to rounding, admits that hundredth: else whoever places units at a
        cosine of 0.9 with some validation rows would switch the evidence off.
        """
        return self.floor is not None and 100 * theta >= 100 * self.floor - 2 * _ROUNDING


@dataclass(frozen=True, eq=False)
class LabelledVectors:
    """Embeddings of units with their classes; two are equal where their rows are, to the bit.

    Numbers are no classes, and one class tells as little as none: neither is looked at.
    """

    vectors: Features
    label: NDArray[Any] | None = None
    classes: NDArray[Any] = field(init=False)  # empty texts where there are none

    def __post_init__(self) -> None:
        given = None if self.label is None or are_numbers(self.label) else self.label
        told = given is not None and len(np.unique(given)) > 1
        object.__setattr__(self, "classes", given if told else unlabelled(len(self.vectors)))

    @cached_property
    def digest(self) -> str:
        """Hash of all rows in their order."""
        text = repr((self.vectors.shape, self.vectors.dtype.str, self.classes.tolist()))
        return hashlib.sha256(text.encode() + np.ascontiguousarray(self.vectors).tobytes()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabelledVectors) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def pool(self) -> Embeddings:
        """Units to measure on: each once, in order of content, without vectors of zeros, which have no cosine."""
        pointed = np.flatnonzero(self.vectors.any(axis=1))
        keys = unit_keys(self.vectors[pointed], self.classes[pointed])
        first = pointed[np.unique(keys, return_index=True)[1]]
        rows: Codes = first[np.sort(keyed_generator("threshold").permutation(len(first))[:_POOL])]
        return Embeddings(self.vectors[rows], self.classes[rows])


def choose_threshold(
    honest: LabelledVectors | None,
    submitted: Rows | None,
    wanted: str = AUTO,
    measured_on: Sample = "validation",
    nearest: Callable[[Features], Values] | None = None,
) -> Threshold:
    """Lineage at the lowest threshold that the honest price admits, and the crowd.

    ``honest`` are the operator's own units, None where they have no embeddings, and ``measured_on`` what they are
    called; ``submitted`` are the vectors of a submission, None where there is none yet. ``wanted`` is ``auto``,
    ``none`` or a number, which the same rule must admit. ``nearest`` says of directions their highest cosine with any
    submitted unit, where that is known without looking at all of them.
    """
    if wanted == NONE:
        return Threshold(why="similarity was switched off")
    if honest is None:
        why = (
            f"the {measured_on} rows have no embeddings to measure a threshold on; "
            "give them those that the units have"
        )
        return Threshold(why=why, measured_on=measured_on)
    measured = _measured(honest, measured_on)
    if len(measured.crowd) < FEWEST:
        return Threshold(why=measured.why, measured_on=measured_on)
    if measured.price is None:
        units = len(measured.crowd) if submitted is None else _distinct(submitted)
        level = copy_level(measured.crowd, _STRANGERS_CHOICE, units / len(measured.crowd))
        found = Threshold(why=measured.why, near_copies=level, measured_on=measured_on)
    else:
        crowding = None
        if submitted is not None:
            near = nearest or partial(highest_cosines, others=submitted)
            crowding = floor_of(near(measured.crowd))
        found = Threshold(
            why=measured.why, price=measured.price, crowding=crowding, measured_on=measured_on
        )
    if found.floor is None or found.lowest is None or found.lowest > 1:
        return found
    theta = found.lowest if wanted == AUTO else float(wanted)
    if not found.admits(theta):
        why = f"theta {theta:g} is below {found.floor:.3f}, the lowest that may be used here: {_floor_words(found)}"
        return found.model_copy(update={"why": why})
    why = f"units descend from their nearest earlier one at similarities of at least {theta:g}: {_floor_words(found)}"
    return found.model_copy(update={"theta": theta, "why": why, "evidence": written(Lineage(theta))})


def unit_density(honest: LabelledVectors) -> Features | None:
    """The directions that crowding asks, of validation rows; None where they are too few for a price."""
    measured = _measured(honest, "validation")
    return None if measured.price is None else measured.crowd


def _distinct(vectors: Rows) -> int:
    """How many different units there are; copies are no crowd."""
    return len(np.unique(unit_keys(vectors, np.zeros(len(vectors), dtype=np.int64))))


def _floor_words(found: Threshold) -> str:
    price = found.price
    if price is None:
        return (
            f"{found.why}, so that near copies alone are matched, closer than {1 - _STRANGERS_CHOICE:.0%} of honest "
            "units come to their nearest stranger"
        )
    assert price.theta is not None
    words = (
        f"among {price.rows:,} {found.measured_on} rows, dealt to {PROVIDERS} pretend providers, lineage at "
        f"{price.theta:g} moves {price.at(price.theta):.1%} of honest pay, at most {LIMIT:.0%} being allowed"
    )
    if found.crowding is not None and found.crowding > price.theta:
        near = f"have a submitted unit at {found.crowding:.2f} or closer"
        words += f", and {ALLOWED:.0%} of the {found.measured_on} rows {near}"
    return words


@dataclass(frozen=True, eq=False)
class _Measured:
    """The honest price, or why there is none, and the rows that crowding asks."""

    price: FalseMatchCost | None
    why: str
    crowd: Features


@lru_cache(maxsize=8)
def _measured(honest: LabelledVectors, measured_on: Sample) -> _Measured:
    """Remembered: audits and experiments pay thousands of times on the same rows."""
    pool = honest.pool()
    assert pool.label is not None
    if len(pool.vectors) < LEAST:
        why = (
            f"{len(pool.vectors)} different {measured_on} rows are too few to measure an honest price on; "
            f"{LEAST} are needed{_ELSEWHERE[measured_on]}"
        )
        return _Measured(None, why, pool.vectors)
    price = false_match_cost(pool.vectors, pool.label)
    why = (
        f"at every threshold lineage would move more than {LIMIT:.0%} of honest pay, measured on "
        f"{len(pool.vectors):,} {measured_on} rows; embed units by an encoder that tells them apart"
    )
    return _Measured(price, why, density_sample(pool.vectors))
