"""Which threshold lineage takes: the lowest whose honest price is at most 1 %, lifted where units are crowded.

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

from datamarket_gym.core.arrays import Codes, Features, Values
from datamarket_gym.core.content import keyed_generator, unit_keys
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.highest import highest_cosines
from datamarket_gym.core.narrow import Rows
from datamarket_gym.core.plots import plot_thresholds
from datamarket_gym.core.registry import written
from datamarket_gym.core.screen import Screen
from datamarket_gym.core.specs import Document
from datamarket_gym.evidence.lineage import AUTO, NONE, Lineage
from datamarket_gym.evidence.threshold.crowding import ALLOWED, crowd_sample, floor_of
from datamarket_gym.evidence.threshold.near_copies import copy_level
from datamarket_gym.evidence.threshold.price import LIMIT, PROVIDERS, HonestPrice, honest_price
from datamarket_gym.units.labels import are_numbers, unlabelled
from datamarket_gym.world.data.embeddings import Embeddings

LEAST = 100
"""Rows below which the price is not asked: one row in twenty must be more than three."""
FEWEST = 20
"""Rows below which nothing is asked."""
_STRANGERS = (
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
    price: HonestPrice | None = None
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
        level = copy_level(measured.crowd, _STRANGERS, units / len(measured.crowd))
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


def crowd_of(honest: LabelledVectors) -> Features | None:
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
            f"{found.why}, so that near copies alone are tied, which are closer than {1 - _STRANGERS:.0%} of honest "
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

    price: HonestPrice | None
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
    price = honest_price(pool.vectors, pool.label)
    why = (
        f"at every threshold lineage would move more than {LIMIT:.0%} of honest pay, measured on "
        f"{len(pool.vectors):,} {measured_on} rows; embed units by an encoder that tells them apart"
    )
    return _Measured(price, why, crowd_sample(pool.vectors))
