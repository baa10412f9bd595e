"""Why coverage has a level of strangers: what junk and generated units gain without labels; prints a Markdown table.

The labels of a domain are taken away, from the units and from the validation rows, once the units are dealt to
providers. Provider 0 adds three times as many units as its own: noise with the mean and the spread of its units
(``junk_padding``), draws from a Gaussian that it fits to them (``synthetic_laundering``), or, where it knows the
classes that the market does not ask for, to those of each class. Its share of the pot over its honest share is printed
(ratio of means over markets, and the largest of one market) with no level at all (c = 0), and with quantiles of the
similarities between validation rows for c; the quantile 0 is the lowest of them, at least 0. Units are tied by lineage
at a cosine of 0.9; nothing is checked.

Usage: python benchmarks/unlabelled_levels.py [--seeds N] [--first SEED] [--only DOMAIN ...] [--out FILE]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from datamarket_gym import (
    ProviderMarket,
    SubmittedProfile,
    Utility,
    UtilityOracle,
    create,
    mechanism,
    register,
)
from datamarket_gym.core.arrays import Features
from datamarket_gym.core.files import write_text
from datamarket_gym.learners.coverage import Coverage

DOMAINS = ("agnews", "stl10")
LEVELS = ("from_zero", "coverage@0", "coverage@0.5", "coverage@0.9", "coverage@0.99")
THETA = 0.9
PAYS = mechanism(f"recommended/lineage@{THETA}", leak_check="off")
ATTACKS = {
    "junk": "junk_padding(ratio=3.0)",
    "Gaussian": "synthetic_laundering(ratio=3.0)",
    "Gaussian of each class": "synthetic_laundering(ratio=3.0)",
}


@register("learner", "from_zero")
@dataclass(frozen=True)
class FromZero(Coverage):
    """Coverage without a level of strangers: whatever is like a row at all covers it."""

    def strangers(self, validation: Features) -> float:
        """c = 0."""
        return 0.0


@dataclass(frozen=True)
class Pair:
    """A market without labels, and the same with them."""

    bare: ProviderMarket
    labelled: ProviderMarket

    @classmethod
    def drawn(cls, domain: str, seed: int) -> Pair:
        """The market of a domain."""
        found = ProviderMarket.from_task(domain, seed)
        return cls(found.without_labels(), found)

    def profile(self, name: str) -> SubmittedProfile:
        """What is submitted: the attack, or everybody's own units."""
        whose = self.labelled if "class" in name else self.bare
        return create("attack", ATTACKS[name]).apply(0, whose.state) if name in ATTACKS else whose.honest

    def oracle(self, level: str) -> UtilityOracle:
        """Coverage of the validation rows without their labels: those of units then do not count either."""
        return UtilityOracle(self.bare.dataset.validation_features, None, Utility.paying(level))


def share(pair: Pair, name: str, level: str) -> float:
    """Provider 0's share of the pot."""
    given = pair.profile(name)
    paid = PAYS.pay(given.submission, pair.oracle(level))
    return float(paid.total(given.identities_of("provider_0")) / paid.totals.sum())


def lines(domain: str, seeds: range) -> Iterator[str]:
    """The lines of a domain: one for each level."""
    pairs = [Pair.drawn(domain, seed) for seed in seeds]
    for level in LEVELS:
        c = np.mean([_strangers(pair.oracle(level)) for pair in pairs])
        honest = np.array([share(pair, "honest", level) for pair in pairs])
        cells = []
        for name in ATTACKS:
            found = np.array([share(pair, name, level) for pair in pairs])
            cells.append(f"{found.mean() / honest.mean():.2f} ({(found / honest).max():.2f})")
        called = "no level" if level == "from_zero" else level
        yield f"| {domain} | {called} | {c:.2f} | {' | '.join(cells)} |"


def _strangers(oracle: UtilityOracle) -> float:
    return float(oracle.learner.strangers(oracle.features))  # type: ignore[attr-defined]


def main() -> None:
    """Print the table, and write it to a file where one is named."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--seeds", type=int, default=3, help="markets each")
    asked.add_argument("--first", type=int, default=0, help="the first seed")
    asked.add_argument("--only", nargs="*", default=[], help="some domains alone")
    asked.add_argument("--out", type=Path, help="a file for what is printed")
    given = asked.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    table = [
        f"| {given.seeds} markets each | paid by | c | {' | '.join(ATTACKS)} |",
        "|---" * 6 + "|",
    ]
    for domain in given.only or DOMAINS:
        table += lines(domain, seeds)
    print("\n".join(table))
    if given.out:
        write_text(given.out, "\n".join(table) + "\n")


if __name__ == "__main__":
    main()
