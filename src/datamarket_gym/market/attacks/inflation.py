"""Published ways to inflate what a unit is said to be worth, made from the idea.

X. Wang et al., Adversarial Attacks on Data Attribution (arXiv 2409.05657): train proxies on guessed data and perturb
one's units toward high scores. X. Gao et al., On the Fragility of Data Attribution When Learning Is Distributed
(arXiv 2605.15520): a small batch of made units where others cover little. Both keep to a budget: no unit moves
further than ``budget`` standard deviations, in the root mean square over features, from one of the attacker's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.inputs import are_numbers
from datamarket_gym.execution.arrays import Features, Values
from datamarket_gym.market.attacks.base import AddedUnits, Attack, Block, Own, squares
from datamarket_gym.registry import OneOf, Range, register

Budget = Annotated[
    float, Range(0, open_low=True), "how far a unit may move; in standard deviations of a feature"
]

_NEIGHBOURS = 5  # the kernel is as wide as the distance to this neighbour, in the median


@register("attack", "shadow")
@dataclass(frozen=True)
class Shadow(Attack):
    """Train a model on what is known, and move the own units to where that model scores them higher.

    The proxy is a kernel classifier, K(x, z) = exp(-|x - z|^2 / 2 h^2), trained on its own units and the leaked
    sample, of which it stands p(z) for the right label of row z on mass B(z). A unit (x, y) changes the sum of p by
    score(x, y) = sum over leaked z of K(x, z) ([y = y_z] - p(z)) / B(z): ``steps`` steps up its gradient, within the
    ``budget``, instead of the units or, as copies, ``besides`` them. Where labels are no classes, or there are none, no
    label is wrong, and p = 0: it moves to where leaked rows are. Knows nothing of the others' units.
    """

    title = "units moved by a proxy model"
    tried = ("budget=0.25", "budget=1.0, besides=True")

    budget: Budget = 0.5
    steps: Annotated[int, Range(1), "steps of each unit"] = 20
    besides: Annotated[bool, "as copies, besides its own units"] = False

    def blocks(self, own: Own) -> list[Block]:
        proxy = _Proxy.train(own)
        mine, label = own.honest.features[own.rows], own.honest.label[own.rows]
        radius = reach(own, self.budget)
        x, best = mine, mine
        top = proxy.score(mine, label)[0]
        for _ in range(self.steps):
            slope = proxy.score(x, label)[1]
            norm = np.linalg.norm(slope, axis=1, keepdims=True)
            x = x + 2 * radius / self.steps * slope / np.where(norm > 0, norm, 1.0)
            x = mine + shortened(x - mine, radius)
            score = proxy.score(x, label)[0]
            best, top = np.where((score > top)[:, None], x, best), np.maximum(score, top)
        if self.besides:
            return [Block(0, own.rows), Block(0, own.rows, features=best, copy=True)]
        return [Block(0, own.rows, features=best)]


@register("attack", "outlier")
@dataclass(frozen=True)
class Outlier(Attack):
    """Add units in regions that no other provider covers, each made from an own unit.

    Leaked validation rows are sorted by their distance to the nearest unit, the loneliest first: of the others'
    units with ``knows=units``, of its own with ``knows=own``. Toward each, ``ratio`` times its own
    number of them, goes a copy of its nearest own unit, of that label if it has one, by at most the ``budget``.
    """

    title = "units in uncovered regions"
    tried = ("budget=0.5", "budget=1.0, ratio=1.0")

    budget: Budget = 0.5
    ratio: AddedUnits = 0.5
    knows: Annotated[str, OneOf("units", "own"), "what it knows; others' units, or its own alone"] = (
        "units"
    )

    def blocks(self, own: Own) -> list[Block]:
        covering = np.flatnonzero(own.owner != own.name) if self.knows == "units" else own.rows
        goals, label = own.state.leaked_features, own.leaked_label
        lonely = squares(goals, own.honest.features[covering]).min(axis=1, initial=np.inf)
        order = np.argsort(-lonely, kind="stable")
        chosen = order[: max(1, round(self.ratio * len(own.rows)))]
        apart = squares(goals[chosen], own.honest.features[own.rows])
        same_label = label[chosen][:, None] == own.honest.label[own.rows]
        same_label[~same_label.any(axis=1)] = True  # a label that it does not have: any unit will do
        from_mine = np.where(same_label, apart, np.inf)
        rows = own.rows[from_mine.argmin(axis=1)]
        start = own.honest.features[rows]
        features = start + shortened(goals[chosen] - start, reach(own, self.budget))
        made = Block(0, rows, features=features, label=label[chosen], copy=True)
        return [Block(0, own.rows), made]


def reach(own: Own, budget: float) -> float:
    """Return the largest move of a unit: ``budget`` times the typical standard deviation over own units."""
    return budget * float(np.sqrt(own.honest.features[own.rows].var(axis=0).sum()))


def shortened(moves: Features, most: float) -> Features:
    """Shorten moves to at most ``most``."""
    length = np.linalg.norm(moves, axis=1, keepdims=True)
    return moves * np.minimum(1.0, most / np.where(length > 0, length, 1.0))


@dataclass(frozen=True, eq=False)
class _Proxy:
    """A kernel classifier's view of the leaked rows: how wide, how right, and on how much mass."""

    rows: Features
    label: NDArray[np.generic] | None  # None where no label is wrong
    width: float  # 2 h^2
    right: Values
    mass: Values

    @classmethod
    def train(cls, own: Own) -> _Proxy:
        """Fit on own units and the leaked rows, each of which is scored without itself."""
        rows, label = own.state.leaked_features, own.state.leaked_label
        points = np.concatenate([own.honest.features[own.rows], rows])
        apart = squares(rows, points)
        np.fill_diagonal(apart[:, len(own.rows) :], np.inf)
        place = min(_NEIGHBOURS, len(points) - 1) - 1
        width = 2 * float(np.median(np.partition(apart, place, axis=1)[:, place])) or 1.0
        kernel = np.exp(-apart / width)
        mass = kernel.sum(axis=1)
        mass = np.where(mass > 0, mass, 1.0)
        if not own.labels_count or are_numbers(label):
            return cls(rows, None, width, np.zeros(len(rows)), mass)
        labels = np.concatenate([own.honest.label[own.rows], label])
        right = (kernel * (labels == label[:, None])).sum(axis=1) / mass
        return cls(rows, label, width, right, mass)

    def score(self, x: Features, y: NDArray[np.generic]) -> tuple[Values, Features]:
        """Compute the score of units, and its gradient by their features."""
        kernel = np.exp(-squares(x, self.rows) / self.width)
        agrees = 1.0 if self.label is None else y[:, None] == self.label
        pull = kernel * (agrees - self.right) / self.mass
        slope = 2 / self.width * (pull @ self.rows - pull.sum(axis=1)[:, None] * x)
        return pull.sum(axis=1), slope
