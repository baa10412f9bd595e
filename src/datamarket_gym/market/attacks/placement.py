"""Units placed where they pay: on leaked validation rows, or early in the way of units to come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.inputs import are_numbers, is_labelled
from datamarket_gym.execution.arrays import Features, directions
from datamarket_gym.market.attacks.base import (
    Attack,
    Block,
    Noise,
    Own,
    Victim,
    choose_share,
    groups,
    nearest,
)
from datamarket_gym.registry import OneOf, Range, register

_ROUNDS = 10  # of k-means


@register("attack", "leak_stuffing")
@dataclass(frozen=True)
class LeakStuffing(Attack):
    """Submit leaked validation rows, exact or with noise, besides the own units or instead of them.

    Knows the leaked sample and nothing of the others' units.
    """

    title = "leaked validation rows"
    tried = ("sigma=0.0", "sigma={half}")

    share: Annotated[float, Range(0, 1, open_low=True), "share of the leaked rows that are used"] = 1.0
    sigma: Noise = 0.0
    instead: Annotated[bool, "instead of its own units"] = False

    def blocks(self, own: Own) -> list[Block]:
        leaked, label = own.state.leaked_features, own.leaked_label
        rng = own.rng("leak stuffing")
        chosen = choose_share(np.arange(len(leaked)), self.share, rng)
        features = leaked[chosen] + self.sigma * rng.normal(size=leaked[chosen].shape)
        stuffed = Block(
            0, nearest(own.honest.features, own.rows, features), features=features, label=label[chosen],
            copy=True, owner=own.name, derived=False,
        )  # fmt: skip
        return [stuffed] if self.instead else [Block(0, own.rows), stuffed]


@register("attack", "squat")
@dataclass(frozen=True)
class Squat(Attack):
    """Come first with units where others' will be, so that theirs seem to descend from the attacker's.

    ``points`` units of each class (of all, where there are no labels; of each quarter of the numbers, where these are
    the labels, each with the number of the unit that it is nearest to), before all others: ``how=means`` of as many
    groups of similar units (spherical k-means), or ``how=guesses``, units under noise ``sigma``. With ``knows=units``
    these are the units of its ``victim``, as if it had seen them before they came: the strongest squatter. With
    ``knows=leak`` it has its own units and the leaked sample to guess from, and nothing of the others'.

    ``worthless`` squatters have a further name and a label that nobody asks for. They earn nothing, so that no check is
    drawn on them, and nothing is earned by what descends from them: the attacker's own units have less competition.
    Those who guess then leave out their own units. Without classes there is no such label.
    """

    title = "units placed before others'"
    tried = (
        "victim=all, points=3",
        "victim=all, points=20",
        "victim=all, points=20, knows=leak",
        "victim=all, points=999, how=guesses, worthless=True",
        "victim=all, points=999, how=guesses, knows=leak, worthless=True",
    )

    victim: Victim = 1
    points: Annotated[int, Range(1), "units of each class that are placed"] = 3
    how: Annotated[
        str, OneOf("means", "guesses"), "what is placed; means of similar units, or noisy units"
    ] = "means"
    knows: Annotated[str, OneOf("units", "leak"), "what it knows; victim's units, or leaked rows"] = (
        "units"
    )
    sigma: Annotated[Noise, "noise on placed units"] = 0.0
    worthless: Annotated[bool, "under a label that nobody asks for"] = False

    @property
    def assumes(self) -> str:
        return "that it saw the others' units before they came" if self.knows == "units" else ""

    def beyond(self, label: NDArray[Any]) -> str:
        if not self.worthless or (is_labelled(label) and not are_numbers(label)):
            return ""
        have = "labels are numbers" if is_labelled(label) else "units have no labels"
        return f"worthless squatters have a class that nobody asks for, and this market's {have}"

    def blocks(self, own: Own) -> list[Block]:
        rows, features, label = self._pool(own)
        rng, code = own.rng("squat"), groups(label)
        parts: list[Features] = []
        labels: list[NDArray[Any]] = []
        for c in np.unique(code):
            of_class = np.flatnonzero(code == c)
            part = self._placed(features[of_class], min(self.points, len(of_class)), rng)
            parts.append(part)
            labels.append(label[nearest(features, of_class, part)])
        placed = np.concatenate(parts)
        placed = placed + self.sigma * rng.normal(size=placed.shape)
        seen = self.knows == "units"
        squatters = Block(
            1 if self.worthless else 0, nearest(own.honest.features, rows, placed), features=placed,
            label=_unasked(own.honest.label, len(placed)) if self.worthless else np.concatenate(labels),
            time=own.earliest(len(placed)), copy=True, owner=None if seen else own.name, derived=seen,
        )  # fmt: skip
        return [Block(0, own.rows), squatters]

    def _pool(self, own: Own) -> tuple[NDArray[np.int64], Features, NDArray[Any]]:
        if self.knows == "units":
            rows = own.rows_of(self.victim)
            return rows, own.honest.features[rows], own.honest.label[rows]
        if self.worthless:
            return own.rows, own.state.leaked_features, own.leaked_label
        features = np.concatenate([own.honest.features[own.rows], own.state.leaked_features])
        return own.rows, features, np.concatenate([own.honest.label[own.rows], own.leaked_label])

    def _placed(self, units: Features, count: int, rng: np.random.Generator) -> Features:
        first: Features = units[np.sort(rng.permutation(len(units))[:count])]
        if self.how == "guesses":
            return first
        return mean_directions(units, first)


def _unasked(label: NDArray[Any], count: int) -> NDArray[Any]:
    """Return a label after all that there are."""
    last = max(label.tolist())  # numpy has no maximum of texts
    return np.full(count, f"{last}~" if label.dtype.kind == "U" else last + 1)


def mean_directions(units: Features, centres: Features) -> Features:
    """Compute spherical k-means from given centres: mean directions of similar units, at the mean length."""
    unit, centre = directions(units), directions(centres)
    for _ in range(_ROUNDS):
        group = (unit @ centre.T).argmax(axis=1)
        sums = np.zeros_like(centre)
        np.add.at(sums, group, unit)
        empty = np.linalg.norm(sums, axis=1) == 0
        centre = directions(np.where(empty[:, None], centre, sums))
    return centre * np.linalg.norm(units, axis=1).mean()
