"""What still pays under the recommended mechanism with spot checks, by coverage; prints a Markdown table.

Expected pay over honest pay at three checks of each payee, power 0.8 (`judge.checked`), mean and highest over markets
and over the first two providers of each. None of these forges a clock or has seen units before they came.

- a further name: own units under one's own name, which passes always, and three copies of everybody else's units,
  turned to a cosine just below theta, under another;
- heirs: seven further names, each later than the one before, with the same copies. They are tied and earn nothing
  until the names before them have failed and their units are gone;
- sacrificed: ten such copies of each unit of the classes of which one has less than the others, under a name that
  fails. The payday takes out what was found and lets the rest dilute on, unpaid: shares of a fixed pot where what was
  forfeited is divided among the others, and where it is kept. (What was found, three units, is not taken out here.)
- first: own units alone, before everybody's;
- squatters: the same, then means of twenty own units of a class under a label that nobody asks for, before all others';
- a crowd: units at a cosine of 0.8 or 0.9 with leaked validation rows (a quarter of them leaked), under such a label,
  later than all others, which lift theta: the higher of the two;
- nothing tied: what honest ties cost, were identical units alone tied.

Usage: python benchmarks/coverage_holes.py [markets]
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from datamarket_gym import Payments, ProviderMarket, SubmittedProfile, Utility, UtilityOracle, mechanism
from datamarket_gym.judge.checked import CheckedAttack
from datamarket_gym.judge.guarantees import Checks
from datamarket_gym.world.attacks import Attack, Block, Own

DOMAINS = ("agnews", "imdb", "stl10", "cifar10", "synthetic")
FIRST, PROVIDERS, HEIRS = 1000, 2, 8
PAYS = mechanism("recommended")
BELOW = 0.02  # copies are turned so far below theta


@dataclass(frozen=True)
class Crafted(Attack):
    """Blocks by a function of the attacker's view."""

    made: Callable[[Own], list[Block]]

    @property
    def label(self) -> str:
        """It has no name in the library."""
        return "crafted"

    def blocks(self, own: Own) -> list[Block]:
        """What the function says."""
        return self.made(own)


def turned(rows: np.ndarray, cosine: float, rng: np.random.Generator) -> np.ndarray:
    """Rows of the same length at a cosine with the given ones."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit, other = rows / length, rng.normal(size=rows.shape)
    other -= (other * unit).sum(axis=1, keepdims=True) * unit
    other /= np.linalg.norm(other, axis=1, keepdims=True)
    return length * (cosine * unit + np.sqrt(1 - cosine**2) * other)


def block(own: Own, name: int, rows: np.ndarray, features: np.ndarray, **more: object) -> Block:
    """Made up units under a further name."""
    return Block(name, rows, features, copy=True, owner=own.name, derived=False, **more)  # type: ignore[arg-type]


def copies(theta: float, each: int, names: int, *, elsewhere: bool) -> Callable[[Own], list[Block]]:
    """Own units, and turned copies of others' under further names, one after the other."""

    def made(own: Own) -> list[Block]:
        rows, label = np.flatnonzero(own.owner != own.name), own.honest.label
        if elsewhere:
            mine, theirs = label[own.rows], label[rows]
            rows = rows[[(mine == c).mean() < (theirs == c).mean() for c in theirs]]
        rows = np.tile(rows, each)
        features = turned(own.honest.features[rows], theta - BELOW, own.rng("turned"))
        late = own.honest.times.max() + 1 + np.linspace(0, 0.9, len(rows))
        return [
            Block(0, own.rows),
            *(block(own, k + 1, rows, features, time=late + k) for k in range(names)),
        ]

    return made


def first(own: Own) -> list[Block]:
    """Own units, before everybody's."""
    return [Block(0, own.rows, time=own.earliest(len(own.rows)) - 2)]


def unasked(own: Own, count: int) -> np.ndarray:
    """A label that no validation row has."""
    return np.full(count, own.honest.label.max() + 1)


def squatters(own: Own) -> list[Block]:
    """The same, then means of own units that stand where others' may come, and earn nothing."""
    rng, label, rows = own.rng("means"), own.honest.label[own.rows], []
    for c in np.unique(label):
        pool = own.rows[label == c]
        rows += [rng.choice(pool, size=min(20, len(pool)), replace=False) for _ in range(3)]
    means = np.array([own.honest.features[some].mean(axis=0) for some in rows])
    at = np.array([some[0] for some in rows])
    more = {"label": unasked(own, len(at)), "time": own.earliest(len(at))}
    return [*first(own), block(own, 1, at, means, **more)]


def crowd(cosine: float) -> Callable[[Own], list[Block]]:
    """Own units, and units near leaked validation rows that earn nothing and come last."""

    def made(own: Own) -> list[Block]:
        near = turned(own.state.leaked_features, cosine, own.rng("crowd"))
        at = np.resize(own.rows, len(near))
        return [Block(0, own.rows), block(own, 1, at, near, label=unasked(own, len(near)))]

    return made


@dataclass(frozen=True)
class Trial:
    """A market and one of its providers."""

    market: ProviderMarket
    oracle: UtilityOracle
    honest: Payments
    provider: int

    @property
    def me(self) -> str:
        """The provider's name."""
        return self.market.state.provider(self.provider)

    def played(self, made: Callable[[Own], list[Block]]) -> tuple[SubmittedProfile, Payments]:
        """What an attack submits, and what it is paid unchecked."""
        profile = Crafted(made).apply(self.provider, self.market.state)
        return profile, PAYS.pay(profile.submission, self.oracle, profile.truth)

    def expected(self, made: Callable[[Own], list[Block]], checks: int = 3) -> float:
        """Expected over honest pay."""
        (profile, paid), pay = self.played(made), self.honest.total([self.me])
        found = CheckedAttack(PAYS, profile, self.market.honest, self.oracle, self.me, pay, paid)
        return found.expected(Checks(checks, 0.8)).pay / pay

    def sacrificed(self, made: Callable[[Own], list[Block]]) -> tuple[float, float]:
        """Share of the pot over the honest one, once the further names failed: forfeits divided, and kept."""
        profile, paid = self.played(made)
        lost = [name for name in profile.identities_of(self.me) if name != self.me]
        pot = paid.totals.sum()
        honest = self.honest.total([self.me]) / self.honest.totals.sum()
        mine = paid.total([self.me])
        return mine / (pot - paid.total(lost)) / honest, mine / pot / honest

    def gains(self) -> dict[str, float]:
        """All rows of the table."""
        assert self.honest.threshold is not None
        theta = self.honest.threshold.theta or 1.0
        further = copies(theta, 3, 1, elsewhere=False)
        divided, kept = self.sacrificed(copies(theta, 10, 1, elsewhere=True))
        untied = mechanism("recommended/lineage@none").pay(self.market.honest.submission, self.oracle)
        return {
            "a further name, 3 checks": self.expected(further),
            "a further name, 4 checks": self.expected(further, 4),
            f"{HEIRS - 1} heirs, 3 checks": self.expected(copies(theta, 3, HEIRS, elsewhere=False)),
            "sacrificed, forfeits divided": divided,
            "sacrificed, forfeits kept": kept,
            "first": self.expected(first),
            "first, and squatters": self.expected(squatters),
            "a crowd near leaked rows": max(self.expected(crowd(0.8)), self.expected(crowd(0.9))),
            "nothing tied": untied.total([self.me]) / self.honest.total([self.me]),
        }


def trials(domain: str, markets: int) -> list[dict[str, float]]:
    """The gains in some markets."""
    found = []
    for seed in range(FIRST, FIRST + markets):
        market = ProviderMarket.from_task(domain, seed=seed)
        oracle = market.utility_oracle(Utility.paying())
        honest = PAYS.pay(market.honest.submission, oracle)
        found += [Trial(market, oracle, honest, provider).gains() for provider in range(PROVIDERS)]
    return found


def main() -> None:
    """Print the table."""
    markets = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    warnings.simplefilter("ignore")
    found = {domain: trials(domain, markets) for domain in DOMAINS}
    print(
        f"| {markets} markets, 2 providers of each | {' | '.join(DOMAINS)} |\n|---|{'---|' * len(DOMAINS)}"
    )
    for row in found[DOMAINS[0]][0]:
        cells = [[each[row] for each in found[domain]] for domain in DOMAINS]
        print(f"| {row} | {' | '.join(f'{np.mean(c):.3f} ({max(c):.3f})' for c in cells)} |")


if __name__ == "__main__":
    main()
