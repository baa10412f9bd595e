"""The rest of every market's worries: laundering, curation, theft, junk and poisoning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.errors import DataMarketError, require_choice, require_count, require_in
from datamarket_gym.core.registry import register
from datamarket_gym.units.labels import are_numbers
from datamarket_gym.world.attacks.attack import Attack, Block, Own
from datamarket_gym.world.attacks.labels import groups, wrong


@register("attack", "synthetic_laundering")
@dataclass(frozen=True)
class SyntheticLaundering(Attack):
    """Adds class-conditional generated variants of its own units under a further identity.

    ``how="gaussian"`` draws from a Gaussian fitted to the attacker's units of a class;
    ``how="mix"`` interpolates between two of its units of the same class. Without labels all are of one; numbers are
    cut into four parts by size, and are drawn, or mixed, as the features are. With ``first`` they came before
    everybody's units, which needs no forged clock: they are made of its own.
    """

    title = "generated units added"

    ratio: float = 1.0
    how: str = "gaussian"
    first: bool = False

    def __post_init__(self) -> None:
        require_in("ratio", self.ratio, 0.0, np.inf, open_low=True)
        require_choice("how", self.how, ("gaussian", "mix"))

    def blocks(self, own: Own) -> list[Block]:
        """Honest units, and generated ones in the same label proportions."""
        rng = own.rng("laundering")
        count = max(1, round(self.ratio * len(own.rows)))
        parents = rng.choice(own.rows, size=count)
        numbers = are_numbers(own.honest.label)
        columns = own.honest.features
        if numbers:  # a number is made as one more feature
            columns = np.column_stack([columns, own.honest.label])
        code = np.full(len(own.honest), -1)
        code[own.rows] = groups(own.honest.label[own.rows])
        found = np.empty((count, columns.shape[1]))
        for c in np.unique(code[parents]):
            of_class = np.flatnonzero(code == c)
            mine, where = columns[of_class], np.flatnonzero(code[parents] == c)
            if self.how == "gaussian":
                spread = mine.std(axis=0)
                found[where] = rng.normal(mine.mean(axis=0), spread, (len(where), len(spread)))
            else:
                partner = columns[rng.choice(of_class, size=len(where))]
                share = rng.uniform(size=(len(where), 1))
                found[where] = share * columns[parents[where]] + (1 - share) * partner
        made = Block(
            1,
            parents,
            features=found[:, :-1] if numbers else found,
            label=found[:, -1] if numbers else None,
            copy=True,
            owner=own.name,
            time=own.earliest(count) if self.first else None,
        )
        return [Block(0, own.rows), made]


@register("attack", "strategic_curation")
@dataclass(frozen=True)
class StrategicCuration(Attack):
    """Submits only (or mostly) the units that a leaked validation sample rewards.

    The best ``keep`` share is submitted, with a share ``rest`` of the others: 0 is "only".
    A unit's reward is the number of leaked rows of its label, less those of other labels, among
    whose five nearest own units it is; where labels are numbers, or there are none, of all leaked rows.
    """

    title = "best units only"

    keep: float = 0.5
    rest: float = 0.0

    def __post_init__(self) -> None:
        require_in("keep", self.keep, 0.0, 1.0, open_low=True)
        require_in("rest", self.rest, 0.0, 1.0)

    def blocks(self, own: Own) -> list[Block]:
        """A selection of the honest units."""
        order = np.argsort(-leaked_rewards(own, own.rows), kind="stable")
        best = max(1, round(self.keep * len(own.rows)))
        others = order[best:][: round(self.rest * (len(own.rows) - best))]
        chosen = np.sort(np.concatenate([order[:best], others]))
        return [Block(0, own.rows[chosen])]


@register("attack", "copycat")
@dataclass(frozen=True)
class Copycat(Attack):
    """Submits another provider's units, exact or noisy, under its own name beside its own.

    ``victim`` is a provider's number or name; -1 is the provider after the attacker.
    """

    title = "copies of another's units"

    fraction: float = 1.0
    sigma: float = 0.0
    victim: int | str = -1

    def __post_init__(self) -> None:
        require_in("fraction", self.fraction, 0.0, 1.0, open_low=True)
        require_in("sigma", self.sigma, 0.0, np.inf)

    def blocks(self, own: Own) -> list[Block]:
        """Own units, and later copies of the victim's."""
        if self.victim == -1:
            (victim,) = own.victims(1)
        else:
            victim = own.state.provider(self.victim)
        if victim == own.name:
            raise DataMarketError(f"copycat: {own.name} cannot copy itself; name another victim")
        rng = own.rng("copycat")
        theirs = np.flatnonzero(own.owner == victim)
        count = max(1, round(self.fraction * len(theirs)))
        copied = np.sort(rng.permutation(theirs)[:count])
        features = own.honest.features[copied]
        if self.sigma > 0:
            features = features + rng.normal(scale=self.sigma, size=features.shape)
        return [Block(0, own.rows), Block(0, copied, features=features, copy=True)]


@register("attack", "junk_padding")
@dataclass(frozen=True)
class JunkPadding(Attack):
    """Pads its submission with noise, labelled by chance, to collect a share of chance; ``first``: before all units."""

    title = "random units added"

    ratio: float = 1.0
    identities: int = 1
    first: bool = False

    def __post_init__(self) -> None:
        require_in("ratio", self.ratio, 0.0, np.inf, open_low=True)
        require_count("identities", self.identities)

    def blocks(self, own: Own) -> list[Block]:
        """Noise with the overall mean and spread of the attacker's own units, random labels."""
        rng = own.rng("junk")
        mine = own.honest.features[own.rows]
        classes = np.unique(own.honest.label)
        blocks = [Block(0, own.rows)]
        for pseudonym in range(self.identities):
            count = max(1, round(self.ratio * len(own.rows) / self.identities))
            features = rng.normal(mine.mean(axis=0), mine.std(axis=0), (count, mine.shape[1]))
            blocks.append(
                Block(
                    pseudonym,
                    rng.choice(own.rows, size=count),
                    features=features,
                    label=rng.choice(classes, size=count),
                    copy=True,
                    owner=own.name,
                    derived=False,
                    time=own.earliest(count) if self.first else None,
                )
            )
        return blocks


def leaked_rewards(own: Own, units: NDArray[np.int64], neighbours: int = 5) -> NDArray[np.int64]:
    """How often each of the units is near a leaked row of its label, less of another.

    Near any leaked row, where labels are no classes or there are none on either side.
    """
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
    """Relabels a share ``p`` of its units as the class after their own: systematic, not random.

    Numbers become those half-way round among all of the market's, by size.
    """

    title = "systematically wrong labels"

    needs_labels: ClassVar[bool] = True

    p: float = 1.0

    def __post_init__(self) -> None:
        require_in("p", self.p, 0.0, 1.0)

    def blocks(self, own: Own) -> list[Block]:
        """The same units, the chosen ones with the next class's label."""
        label = own.honest.label[own.rows].copy()
        chosen = own.rng("poisoned units").permutation(len(label))[: round(self.p * len(label))]
        label[chosen] = wrong(label[chosen], own.honest.label)
        return [Block(0, own.rows, label=label)]
