"""What lineage costs the honest at the theta that `recommended` picks by itself, and what thieves gain; prints tables.

Five domains, fresh markets, k-NN pay (5 neighbours, counted over chance). The price is half the L1 distance between
the providers' shares and those that they have where only identical units are tied. Theft: provider 0 submits noisy
copies of everybody's units, c spreads of noise; gains are ratios of means over seeds.

``--sizes``: the same price as markets grow, with the share of units that descend from another, and the share of
validation rows that have a submitted unit as near as theta; at the theta of the honest price alone, and at the
one that crowding lifts.

``--rows N``: the same price and thefts where theta is settled on N validation rows alone (pay is by all of them).

Usage: python benchmarks/honest_price.py [--sizes] [--rows N] [--task NAME] [--seeds N]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from datamarket_gym import (
    Payments,
    Submission,
    SubmittedProfile,
    Utility,
    UtilityOracle,
    create,
    mechanism,
)
from datamarket_gym.core.highest import highest_cosines
from datamarket_gym.judge.redteam.own_market import spread
from datamarket_gym.pipeline import resolve_threshold
from datamarket_gym.world.market import ProviderMarket

FIRST_SEED = 5000  # the rule was chosen on markets of seeds below 2,100
KNN = Utility("knn@5", "chance")
THEFT = "composite(split=1, copy=0.0, steal=1.0, steal_sigma={}, victims=99)"
NOISE = (0.6, 1.0)
MARKETS = [(name, n, 50) for name in ("agnews", "imdb", "stl10", "cifar10") for n in (4, 8)]
MARKETS += [("synthetic", 4, 50), ("synthetic", 8, 50)]
SIZES = {
    "agnews": (50, 200, 800), "imdb": (50, 200, 500), "stl10": (50, 200), "cifar10": (50, 200, 600),
    "synthetic": (60, 240, 960),
}  # fmt: skip


def moved(before: Payments, after: Payments) -> float:
    """Half the L1 distance between shares of the pot."""
    shares = [p.totals / p.totals.sum() for p in (before, after)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def drawn(task: str, providers: int, per_provider: int, seed: int) -> ProviderMarket:
    """A market nobody has tuned on."""
    written = f"{task}(n_providers={providers}, per_provider={per_provider})"
    return ProviderMarket.from_task(create("task", written), FIRST_SEED + seed)


def five_domains(seeds: int, task_named: str) -> None:
    """Thetas, prices and thefts."""
    print("| market | theta (lowest to highest) | honest price: mean | worst seed | over 1 % |", end="")
    print(
        "".join(f" theft at {c:g} spreads |" for c in NOISE)
        + "\n|---|---|---|---|---|"
        + "---|" * len(NOISE)
    )
    recommended, identical = mechanism("recommended"), mechanism("recommended/lineage@none")
    for task, providers, per_provider in (m for m in MARKETS if m[0].startswith(task_named)):
        thetas, prices, before, after = [], [], [], []
        for seed in range(seeds):
            market = drawn(task, providers, per_provider, seed)
            oracle, submission = market.utility_oracle(KNN), market.honest.submission
            honest = recommended.pay(submission, oracle)
            assert honest.threshold is not None
            thetas.append(honest.threshold.theta or 1.0)
            prices.append(moved(identical.pay(submission, oracle), honest))
            before.append(honest.total(["provider_0"]))
            after.append([stolen(market, c) for c in NOISE])
        gains = np.mean(after, axis=0) / np.mean(before)
        print(
            f"| {task} {providers} x {per_provider} | {np.mean(thetas):.2f} ({min(thetas):.2f} to {max(thetas):.2f}) "
            f"| {np.mean(prices):.2%} | {max(prices):.2%} | {np.mean(np.array(prices) > 0.01):.0%} |"
            + "".join(f" {gain:.3f} |" for gain in gains),
            flush=True,
        )


def theft(market: ProviderMarket, spreads: float) -> SubmittedProfile:
    """Provider 0 steals from everybody."""
    attack = create("attack", THEFT.format(spreads * spread(market.state)))
    return attack.apply(0, market.state)


def stolen(market: ProviderMarket, spreads: float) -> float:
    """What provider 0 is paid after stealing from everybody."""
    profile = theft(market, spreads)
    paid = mechanism("recommended").pay(profile.submission, market.utility_oracle(KNN))
    return paid.total(profile.identities_of("provider_0"))


def few_rows(rows: int, seeds: int) -> None:
    """Price and thefts where validation rows are few."""
    print(
        "| market | theta (lowest to highest) | honest price: mean | worst seed | theft at .1, .3, .6 spreads |"
    )
    print("|---|---|---|---|---|")
    for task, providers, per_provider in MARKETS[1::2]:
        thetas, prices, before, after = [], [], [], []
        for seed in range(seeds):
            market = drawn(task, providers, per_provider, 300 + seed)
            oracle, submission = market.utility_oracle(KNN), market.honest.submission
            some = np.random.default_rng(seed).permutation(len(oracle.label))[:rows]
            small = UtilityOracle(oracle.features[some], oracle.label[some], KNN)

            def paid(
                units: Submission, by: UtilityOracle = oracle, few: UtilityOracle = small
            ) -> Payments:
                evidence = resolve_threshold(mechanism("recommended"), units, few)[0].evidence
                return mechanism(f"recommended/{evidence}").pay(units, by)

            honest = paid(submission)
            found = resolve_threshold(mechanism("recommended"), submission, small)[1]
            thetas.append(1.0 if found is None or found.theta is None else found.theta)
            prices.append(moved(mechanism("recommended/lineage@none").pay(submission, oracle), honest))
            before.append(honest.total(["provider_0"]))
            thefts = [theft(market, c) for c in (0.1, 0.3, 0.6)]
            after.append([paid(p.submission).total(p.identities_of("provider_0")) for p in thefts])
        gains = np.mean(after, axis=0) / np.mean(before)
        print(
            f"| {task} {providers} x {per_provider} | {np.mean(thetas):.2f} ({min(thetas):.2f} to {max(thetas):.2f}) "
            f"| {np.mean(prices):.2%} | {max(prices):.2%} | "
            + ", ".join(f"{g:.3f}" for g in gains)
            + " |",
            flush=True,
        )


def sizes(seeds: int) -> None:
    """Prices as markets grow."""
    measured = "honest price | tied | near rows |"
    print(f"| market | units | theta by price | {measured} theta | {measured}")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for task, many in SIZES.items():
        for per_provider in many:
            rows = [grown(drawn(task, 8, per_provider, seed)) for seed in range(seeds)]
            mean = np.mean(rows, axis=0)
            print(f"| {task} | {8 * per_provider:,} |" + shown(mean[:4]) + shown(mean[4:]), flush=True)


def shown(row: Sequence[float]) -> str:
    """A theta, and shares."""
    return f" {row[0]:.3f} |" + "".join(f" {share:.2%} |" for share in row[1:])


def grown(market: ProviderMarket) -> list[float]:
    """Theta, price, share of units tied and share of near rows: by the price alone, and lifted."""
    oracle, submission = market.utility_oracle(KNN), market.honest.submission
    found = resolve_threshold(mechanism("recommended"), submission, oracle)[1]
    assert found is not None
    assert found.price is not None
    assert found.price.theta is not None
    assert found.theta is not None
    alone = mechanism("recommended/lineage@none").pay(submission, oracle)
    unit = oracle.features / np.linalg.norm(oracle.features, axis=1, keepdims=True)
    near = highest_cosines(unit, submission.features)
    row = []
    for theta in (found.price.theta, found.theta):
        paid = mechanism(f"recommended/lineage@{theta}").pay(submission, oracle)
        tied = 1 - paid.clustering.n_clusters / len(submission)
        row += [theta, moved(alone, paid), tied, float((near >= theta).mean())]
    return row


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--sizes", action="store_true", help="grow the markets instead")
    asked.add_argument("--seeds", type=int, default=0, help="markets each; 20, or 3 with --sizes")
    asked.add_argument("--rows", type=int, default=0, help="settle on so few validation rows instead")
    asked.add_argument("--task", default="", help="one domain alone")
    given = asked.parse_args()
    if given.sizes:
        sizes(given.seeds or 3)
    elif given.rows:
        few_rows(given.rows, given.seeds or 10)
    else:
        five_domains(given.seeds or 20, given.task)
