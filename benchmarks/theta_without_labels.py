"""What thresholds come to where labels are taken away; prints three tables.

First, on random training rows of each domain: the theta of the honest price, and the floors of `predict_theta` (the
90th percentile of cosines between honest units, of one class or any; the chaining floor of four iid providers), each
with labels and without. The ceiling, noisy copies, does not look at labels. Then, in fresh markets of 8 x 50 units,
with labels and without, paid by coverage@0.9: the theta that `recommended` takes by itself, the share of honest pay
that it moves (half the L1 distance to the shares where identical units alone are tied), and what a provider gains by
noisy copies of everybody's units, 0.6 and 1 spreads of noise (ratios of means over seeds). Last, in the same markets,
how unequal the pay of single units is before any are tied, and how many units are tied.

Usage: python benchmarks/theta_without_labels.py [--seeds N] [--domain NAME] [--units]
"""

from __future__ import annotations

import argparse

import numpy as np

from datamarket_gym import ProviderMarket, Utility, create, mechanism
from datamarket_gym.core.content import keyed_generator
from datamarket_gym.evidence.threshold import predict_theta
from datamarket_gym.evidence.threshold.choice import LabelledVectors, choose_threshold
from datamarket_gym.evidence.threshold.floors import variants_for
from datamarket_gym.judge.redteam.own_market import spread
from datamarket_gym.world.data.embeddings import Embeddings
from honest_price import moved

DOMAINS = ("agnews", "imdb", "stl10", "cifar10")
ROWS = (200, 500, 2000)
FIRST_SEED = 7000
COVERAGE = Utility("coverage@0.9")
THEFT = "composite(split=1, copy=0.0, steal=1.0, steal_sigma={}, victims=99)"
NOISE = (0.6, 1.0)


def thresholds(domain: str) -> None:
    """A line for each number of rows."""
    everything = create("task", domain).pool()
    for count in ROWS:
        rows = keyed_generator("theta without labels", domain).permutation(len(everything.vectors))[
            :count
        ]
        vectors, label = everything.vectors[rows], everything.label[rows]
        found = []
        for known in (label, None):
            pool = Embeddings(vectors, known)
            theta = choose_threshold(LabelledVectors(vectors, known), None).theta
            bounds = predict_theta(pool, trials=10, per_provider=count // 5, variants=variants_for(pool))
            found.append(
                (f"{theta:g}" if theta else "none", bounds.pairwise_floor, bounds.chaining_floor)
            )
        ceiling = bounds.near_duplicate_p10
        cells = [f"{a if isinstance(a, str) else f'{a:.2f}'} / {b if isinstance(b, str) else f'{b:.2f}'}"
                 for a, b in zip(*found, strict=True)]  # fmt: skip
        print(f"| {domain} | {count:,} | {' | '.join(cells)} | {ceiling:.3f} |", flush=True)


def market(domain: str, seeds: int, labels: bool) -> None:
    """A line for fresh markets of a domain."""
    of = f"{domain}(n_providers=8, per_provider=50)"
    task = of if labels else {"name": "without_labels", "of": of}
    recommended, identical = mechanism("recommended"), mechanism("recommended/lineage@none")
    thetas, prices, before, after = [], [], [], []
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        drawn = ProviderMarket.from_task(task, seed)
        oracle, submission = drawn.utility_oracle(COVERAGE), drawn.honest.submission
        honest = recommended.pay(submission, oracle)
        assert honest.threshold is not None
        thetas.append(honest.threshold.theta or 1.0)
        prices.append(moved(identical.pay(submission, oracle), honest))
        before.append(honest.total(["provider_0"]))
        gains = []
        for noise in NOISE:
            attack = create("attack", THEFT.format(noise * spread(drawn.state)))
            profile = attack.apply(0, drawn.state)
            paid = recommended.pay(profile.submission, oracle)
            gains.append(paid.total(profile.identities_of("provider_0")))
        after.append(gains)
    gain = np.mean(after, axis=0) / np.mean(before)
    cells = [f"{min(thetas):g} to {max(thetas):g}", f"{np.mean(prices):.2%}", f"{max(prices):.2%}"]
    name = f"{domain}, {'with labels' if labels else 'without'}"
    print(f"| {name} | {' | '.join([*cells, *(f'{g:.2f}' for g in gain)])} |", flush=True)


def units(domain: str, seeds: int, labels: bool) -> None:
    """A line for the same markets: what single units earn where identical ones alone are tied."""
    of = f"{domain}(n_providers=8, per_provider=50)"
    task = of if labels else {"name": "without_labels", "of": of}
    recommended, identical = mechanism("recommended"), mechanism("recommended/lineage@none")
    found = []
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        drawn = ProviderMarket.from_task(task, seed)
        oracle, submission = drawn.utility_oracle(COVERAGE), drawn.honest.submission
        paid = np.sort(identical.pay(submission, oracle).scores.values)[::-1]
        tied = len(submission) - recommended.pay(submission, oracle).clustering.n_clusters
        found.append((paid[0] / paid.sum(), paid[:4].sum() / paid.sum(), tied))
    one, four, tied = np.mean(found, axis=0)
    name = f"{domain}, {'with labels' if labels else 'without'}"
    print(f"| {name} | {one:.1%} | {four:.1%} | {tied:.1f} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--domain", default="", help="one of them alone")
    parser.add_argument("--units", action="store_true", help="the last table alone")
    asked = parser.parse_args()
    chosen = [name for name in DOMAINS if name.startswith(asked.domain)]
    if not asked.units:
        both(chosen, asked.seeds)
    print("| market | the best-paid unit | the best four (1 %) | units tied |\n|---|---|---|---|")
    for domain in chosen:
        for labels in (True, False):
            units(domain, asked.seeds, labels)


def both(chosen: list[str], seeds: int) -> None:
    """The first two tables."""
    print("With labels / without.\n")
    print(
        "| domain | rows | theta | pairwise floor | chaining floor | noisy copies, p10 |\n|---|---|---|---|---|---|"
    )
    for domain in chosen:
        thresholds(domain)
    print()
    print("| market | theta (lowest to highest) | honest price: mean | worst seed |", end="")
    print(
        "".join(f" theft at {c:g} spreads |" for c in NOISE)
        + "\n|---|---|---|---|"
        + "---|" * len(NOISE)
    )
    for domain in chosen:
        for labels in (True, False):
            market(domain, seeds, labels)
    print()


if __name__ == "__main__":
    main()
