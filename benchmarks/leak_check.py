"""What the leak check of the recommended mechanism hits and what it stops; prints two Markdown tables.

First, in markets of five domains and of scikit-learn's digits: the level, honest units that are set aside, and
validation rows that are caught when they are submitted under noise, in spreads of a feature. Second, what
provider 0 gains by submitting a quarter of the validation rows beside its own units, without the check and with
it: the pay with the rows over the pay without them, all markets together.

Usage: python benchmarks/leak_check.py [markets] [first seed]
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator

import numpy as np

from datamarket_gym import ProviderMarket, Submission, mechanism
from datamarket_gym.evidence.leak import HeldRows, find_leaks, near_copy_level
from datamarket_gym.world.tasks.base import Dataset

DOMAINS = ("agnews", "imdb", "stl10", "cifar10", "synthetic", "digits")
NOISE = (0.0, 0.1, 0.2, 0.3, 0.5)
LEAKED = 0.25
KNN = {"learner": "knn", "utility": "chance"}


def market_of(domain: str, seed: int) -> ProviderMarket:
    """A fresh market: 8 providers x 60 digits, or the task of the domain as it is."""
    if domain != "digits":
        return ProviderMarket.from_task(domain, seed=seed, **KNN)
    from sklearn.datasets import load_digits

    features, label = load_digits(return_X_y=True)
    rows = np.random.default_rng(seed).permutation(len(label))
    dealt, held = rows[:480], rows[480:880]
    data = Dataset("digits", features[dealt], label[dealt], features[held], label[held])
    return ProviderMarket(data, np.split(np.arange(480), 8), **KNN, seed=seed)


def leaked(market: ProviderMarket, rows: np.ndarray, noise: float, name: str) -> Submission:
    """Validation rows as units of one identity, under noise in spreads of a feature."""
    data, rng = market.dataset, np.random.default_rng(market.seed)
    spread = np.sqrt(data.validation_features.var(axis=0).mean())
    features = data.validation_features[rows]
    return Submission(
        id=np.array([f"leaked-{row}" for row in rows]),
        identity=np.full(len(rows), name),
        features=features + rng.normal(0, noise * spread, features.shape),
        label=data.validation_label[rows],
        time=np.full(len(rows), 2.0),  # after all honest units
    )


def hits(markets: list[ProviderMarket]) -> Iterator[str]:
    """Cells of the first table: the level, honest units hit, and the share of rows caught by noise."""
    levels, hit, units = [], 0, 0
    caught, rows = dict.fromkeys(NOISE, 0), 0
    for market in markets:
        held, honest = HeldRows(market.dataset.validation_features), market.honest.submission
        level = near_copy_level(held.features)
        levels.append(1.0 if level is None else level)
        hit, units = hit + len(find_leaks(honest, held)), units + len(honest)
        every = np.arange(len(held.features))
        rows += len(every)
        for noise in NOISE:
            caught[noise] += len(find_leaks(leaked(market, every, noise, "thief"), held))
    yield f"{min(levels):.3f} to {max(levels):.3f}"
    yield f"{hit} of {units:,} ({hit / units:.2%})"
    yield from (f"{caught[noise] / rows:.0%}" for noise in NOISE)


def gains(markets: list[ProviderMarket]) -> Iterator[str]:
    """Cells of the second table: gain without the check, and with it, by noise."""
    paid = {(check, noise): 0.0 for check in ("off", "drop") for noise in NOISE}
    honestly = dict.fromkeys(("off", "drop"), 0.0)
    for market in markets:
        utility, me, honest = market.utility_oracle(), market.state.provider(0), market.honest.submission
        n = len(utility.label)
        rows = np.random.default_rng(market.seed).permutation(n)[: round(LEAKED * n)]
        for check in honestly:
            pay = mechanism("recommended", leak_check=check).pay
            honestly[check] += pay(honest, utility).total([me])
            for noise in NOISE:
                stuffed = Submission.concat([honest, leaked(market, rows, noise, me)])
                paid[check, noise] += pay(stuffed, utility).total([me])
    for noise in NOISE:
        before, after = (paid[check, noise] / honestly[check] for check in ("off", "drop"))
        yield f"{before:.2f} -> {after:.2f}"


def main() -> None:
    """Print the tables."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 3000
    warnings.simplefilter("ignore")
    drawn = {d: [market_of(d, seed) for seed in range(first, first + count)] for d in DOMAINS}
    noise = " | ".join(f"noise {each:g}" for each in NOISE)
    print(f"| {count} markets each | level | honest units hit | {noise} |\n|{'---|' * (3 + len(NOISE))}")
    for domain, markets in drawn.items():
        print(f"| {domain} | {' | '.join(hits(markets))} |")
    print(f"\n| gain of provider 0 | {noise} |\n|{'---|' * (1 + len(NOISE))}")
    for domain, markets in drawn.items():
        print(f"| {domain} | {' | '.join(gains(markets))} |", flush=True)


if __name__ == "__main__":
    main()
