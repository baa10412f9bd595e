"""Attacks by generated units, selection, copies of others' units, random units, wrong labels, and all combined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.inputs import are_numbers
from datamarket_gym.errors import DataMarketError
from datamarket_gym.market.attacks.base import (
    AddedUnits,
    Attack,
    Block,
    First,
    Noise,
    Own,
    Share,
    add_noise,
    choose_share,
    groups,
    wrong,
)
from datamarket_gym.registry import OneOf, Range, register


@register("attack", "synthetic_laundering")
@dataclass(frozen=True)
class SyntheticLaundering(Attack):
    """Add units generated from the attacker's own, class by class, under a further identity.

    ``how="gaussian"`` draws from a Gaussian fitted to the attacker's units of a class;
    ``how="mix"`` interpolates between two of its units of the same class. Without labels all are of one; numbers are
    cut into four parts by size, and are drawn, or mixed, as the features are. With ``first`` they came before
    all other units, which needs no forged clock: they are made of its own.
    """

    title = "generated units added"
    tried = (
        "ratio=1.0, how=gaussian",
        "ratio=1.0, how=mix",
        "ratio=3.0, how=gaussian",
        "ratio=3.0, how=mix",
        "ratio=3.0, first=True",
        "ratio=0.1",
    )

    ratio: AddedUnits = 1.0
    how: Annotated[str, OneOf("gaussian", "mix"), "how they are generated"] = "gaussian"
    first: First = False

    def blocks(self, own: Own) -> list[Block]:
        rng = own.rng("laundering")
        count = max(1, round(self.ratio * len(own.rows)))
        parents = rng.choice(own.rows, size=count)
        numbers = are_numbers(own.honest.label)
        columns = own.honest.features
        if numbers:  # a number is made as one more feature
            columns = np.column_stack([columns, own.honest.label])
        code = np.full(len(own.honest), -1)
        code[own.rows] = groups(own.honest.label[own.rows])
        made = np.empty((count, columns.shape[1]))
        for c in np.unique(code[parents]):
            of_class = np.flatnonzero(code == c)
            mine, where = columns[of_class], np.flatnonzero(code[parents] == c)
            if self.how == "gaussian":
                deviation = mine.std(axis=0)
                made[where] = rng.normal(mine.mean(axis=0), deviation, (len(where), len(deviation)))
            else:
                partner = columns[rng.choice(of_class, size=len(where))]
                share = rng.uniform(size=(len(where), 1))
                made[where] = share * columns[parents[where]] + (1 - share) * partner
        features, label = (made[:, :-1], made[:, -1]) if numbers else (made, None)
        time = own.earliest(count) if self.first else None
        added = Block(1, parents, features, label, copy=True, owner=own.name, time=time)
        return [Block(0, own.rows), added]


@register("attack", "strategic_curation")
@dataclass(frozen=True)
class StrategicCuration(Attack):
    """Submit only, or mostly, the own units that a leaked validation sample rewards.

    A unit's reward is the number of leaked rows of its label, less those of other labels, among
    whose five nearest own units it is; where labels are numbers, or there are none, of all leaked rows.
    """

    title = "best units only"
    tried = ("keep=0.3", "keep=0.6", "keep=0.9")

    keep: Annotated[
        float, Range(0, 1, open_low=True), "share of its units that are submitted; the best"
    ] = 0.5
    rest: Annotated[float, Range(0, 1), "share of the others that are submitted as well"] = 0.0

    def blocks(self, own: Own) -> list[Block]:
        order = np.argsort(-leaked_rewards(own, own.rows), kind="stable")
        best = max(1, round(self.keep * len(own.rows)))
        others = order[best:][: round(self.rest * (len(own.rows) - best))]
        chosen = np.sort(np.concatenate([order[:best], others]))
        return [Block(0, own.rows[chosen])]


@register("attack", "copycat")
@dataclass(frozen=True)
class Copycat(Attack):
    """Submit another provider's units, exact or with noise, as the attacker's beside its own."""

    title = "copies of another's units"
    tried = ("fraction=1.0, sigma=0.0", "fraction=1.0, sigma={noise}")

    fraction: Share = 1.0
    sigma: Noise = 0.0
    victim: Annotated[
        int | str, "victim; a provider's number or name, -1 for the one after the attacker"
    ] = -1

    def blocks(self, own: Own) -> list[Block]:
        if self.victim == -1:
            (victim,) = own.victims(1)
        else:
            victim = own.state.provider(self.victim)
        if victim == own.name:
            raise DataMarketError(f"copycat: {own.name} cannot copy itself; name another victim")
        rng = own.rng("copycat")
        copied = choose_share(np.flatnonzero(own.owner == victim), self.fraction, rng)
        features = add_noise(own.honest.features[copied], self.sigma, rng)
        return [Block(0, own.rows), Block(0, copied, features=features, copy=True)]


@register("attack", "junk_padding")
@dataclass(frozen=True)
class JunkPadding(Attack):
    """Add random units with random labels, to collect what guessing earns."""

    title = "random units added"
    tried = ("ratio=1.0", "ratio=3.0, identities=3", "ratio=3.0, first=True")

    ratio: AddedUnits = 1.0
    identities: Annotated[int, Range(1), "identities that submit the added units"] = 1
    first: First = False

    def blocks(self, own: Own) -> list[Block]:
        rng = own.rng("junk")
        mine = own.honest.features[own.rows]
        classes = np.unique(own.honest.label)
        blocks = [Block(0, own.rows)]
        for pseudonym in range(self.identities):
            count = max(1, round(self.ratio * len(own.rows) / self.identities))
            features = rng.normal(mine.mean(axis=0), mine.std(axis=0), (count, mine.shape[1]))
            rows, label = rng.choice(own.rows, size=count), rng.choice(classes, size=count)
            time = own.earliest(count) if self.first else None
            blocks.append(
                Block(
                    pseudonym, rows, features=features, label=label, copy=True, owner=own.name,
                    derived=False, time=time,
                )
            )  # fmt: skip
        return blocks


def leaked_rewards(own: Own, units: NDArray[np.int64], neighbours: int = 5) -> NDArray[np.int64]:
    """Count how often each unit is near a leaked row of its label, less of another; near any, without classes."""
    mine, label = own.honest.features[units], own.honest.label[units]
    classes = own.labels_count and not are_numbers(label)
    rewards = np.zeros(len(units), dtype=np.int64)
    for row, wanted in zip(own.state.leaked_features, own.state.leaked_label, strict=True):
        near = np.argsort(((mine - row) ** 2).sum(axis=1), kind="stable")[:neighbours]
        rewards[near] += np.where(label[near] == wanted, 1, -1) if classes else 1
    return rewards


@register("attack", "label_poisoning")
@dataclass(frozen=True)
class LabelPoisoning(Attack):
    """Label some own units as the class after their own: systematic, not random.

    Numbers become those half-way round among all of the market's, by size.
    """

    title = "systematically wrong labels"

    needs_labels: ClassVar[bool] = True

    p: Annotated[float, Range(0, 1), "share of the labels that are wrong"] = 1.0

    def blocks(self, own: Own) -> list[Block]:
        label = own.honest.label[own.rows].copy()
        chosen = own.rng("poisoned units").permutation(len(label))[: round(self.p * len(label))]
        label[chosen] = wrong(label[chosen], own.honest.label)
        return [Block(0, own.rows, label=label)]


@register("attack", "composite")
@dataclass(frozen=True)
class Composite(Attack):
    """Split and curate the own units, and add noisy copies of them and of others' units."""

    title = "combined attack"
    tried = (
        "split=1, copy=1.0, copy_sigma={noise}, steal=1.0, steal_sigma={noise}",
        "split=1, copy=0.0, steal=1.0, steal_sigma={noise}, victims=99",
        "split=1, copy=0.0, steal=0.3, steal_sigma={noise}, victims=99, pick=rewards",
        "split=1, copy=0.0, steal=0.05, steal_sigma={noise}, victims=99, pick=rewards",
        "split=1, copy=1.0, copy_sigma={half}, steal=0.0, first=True",
    )

    split: Annotated[int, Range(1), "identities for its own units"] = 2
    keep: Annotated[
        float,
        Range(0, 1, open_low=True),
        "share of its own units that are submitted; the best by the leaked validation sample",
    ] = 1.0
    copy: Annotated[float, Range(0, 1), "share of its own units that are copied"] = 0.5
    copy_sigma: Annotated[float, Range(0), "noise on copies of its own units"] = 0.5
    steal: Annotated[float, Range(0, 1), "share of others' units that are copied"] = 0.5
    steal_sigma: Annotated[float, Range(0), "noise on copies of others' units"] = 0.5
    victims: Annotated[int, Range(1), "others it copies from; the next providers"] = 1
    pick: Annotated[
        str,
        OneOf("random", "rewards"),
        "which of others' units; random ones, or those the leaked sample rewards",
    ] = "random"
    names: Annotated[int, Range(0), "further identities for the copies; 0 leaves them under its own"] = 0
    first: Annotated[bool, "copies of its own units before all other units"] = False

    def blocks(self, own: Own) -> list[Block]:
        best = _best(own, own.rows, self.keep)
        blocks = [Block(j, best[j :: self.split]) for j in range(self.split) if j < len(best)]
        copied = _some(own, best, self.copy, "copy")
        stolen = self._stolen(own)
        for rows, sigma, purpose, time in (
            (copied, self.copy_sigma, "copy noise", own.earliest(len(copied)) if self.first else None),
            (stolen, self.steal_sigma, "theft noise", None),
        ):
            noise = own.rng(purpose).normal(size=(len(rows), own.honest.features.shape[1]))
            features = own.honest.features[rows] + sigma * noise
            for j in range(max(1, self.names)):
                part = slice(j, None, max(1, self.names))
                name = self.split + j if self.names else 0
                if len(rows[part]):
                    when = None if time is None else time[part]
                    made = Block(name, rows[part], features=features[part], copy=True, time=when)
                    blocks.append(made)
        return blocks

    def _stolen(self, own: Own) -> NDArray[np.int64]:
        providers = own.state.providers
        me, most = providers.index(own.name), len(providers) - 1
        marks = [providers[(me + j) % len(providers)] for j in range(1, min(self.victims, most) + 1)]
        theirs = np.flatnonzero(np.isin(own.owner, marks))
        if self.pick == "random":
            return _some(own, theirs, self.steal, "theft")
        return _best(own, theirs, self.steal) if self.steal and len(theirs) else theirs[:0]


def _some(own: Own, rows: NDArray[np.int64], share: float, purpose: str) -> NDArray[np.int64]:
    return np.sort(own.rng(purpose).permutation(rows)[: round(share * len(rows))])


def _best(own: Own, rows: NDArray[np.int64], share: float) -> NDArray[np.int64]:
    count = max(1, round(share * len(rows)))
    if count == len(rows):
        return rows
    order = np.argsort(-leaked_rewards(own, rows), kind="stable")
    return np.sort(rows[order[:count]])
