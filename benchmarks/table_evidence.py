"""What evidence does for tables, comparing raw columns, and comparing what coverage compares; prints Markdown.

Markets of scikit-learn's tables: a third of the rows are validation rows, six providers hold the rest, and provider 0
also submits, last, a copy of everybody else's units under noise in spreads of each column. Gains are its share of the
pot over its honest share. Raw columns are handed over as embeddings, which evidence compares as they are.

Usage: python benchmarks/table_evidence.py [markets]
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace

import numpy as np
from sklearn import datasets

from datamarket_gym import Payments, Submission, Utility, UtilityOracle, mechanism

TABLES = ("wine", "breast_cancer", "digits")
NOISE = (0.003, 0.03, 0.1, 0.3)
PROVIDERS, ROWS = 6, 700


def market(table: str, seed: int) -> tuple[Submission, UtilityOracle]:
    """Honest units, and the utility on a third of the rows."""
    features, label = getattr(datasets, f"load_{table}")(return_X_y=True)
    rows = np.random.default_rng(seed).permutation(len(label))[:ROWS]
    held, dealt = np.split(rows, [len(rows) // 3])
    submission = Submission(
        id=np.array([f"unit-{row}" for row in dealt]),
        identity=np.array([f"provider_{i % PROVIDERS}" for i in range(len(dealt))]),
        features=features[dealt],
        label=label[dealt],
        time=np.arange(len(dealt), dtype=np.float64),
    )
    return submission, UtilityOracle(features[held], label[held], Utility.paying())


def with_copies(honest: Submission, noise: float, seed: int) -> Submission:
    """The units, and provider 0's later copies of all others'."""
    others = np.flatnonzero(honest.identity != "provider_0")
    stolen, rng = honest.take(others), np.random.default_rng([seed, 1])
    moved = stolen.features + noise * honest.features.std(axis=0) * rng.normal(
        size=stolen.features.shape
    )
    copies = stolen.take(
        np.arange(len(stolen)),
        {
            "id": np.char.add("copy-of-", stolen.id),
            "identity": np.full(len(stolen), "provider_0"),
            "features": moved,
            "time": stolen.times + len(honest),
        },
    )
    return Submission.concat([honest, copies])


def paid(submission: Submission, oracle: UtilityOracle, *, raw: bool) -> Payments:
    """What the recommended mechanism pays; ``raw``: evidence compares the columns as they are."""
    if raw:
        submission = replace(submission, embedding=submission.features)
        oracle = UtilityOracle(oracle.features, oracle.label, oracle.utility, embedding=oracle.features)
    return mechanism("recommended").pay(submission, oracle)


def share(payments: Payments) -> float:
    """Provider 0's part of the pot."""
    return payments.as_dict()["provider_0"] / float(payments.totals.sum())


def line(table: str, markets: int, *, raw: bool) -> str:
    """Theta, its honest price, honest units tied, and the gain at each noise."""
    thetas, prices, tied = [], [], []
    gains: dict[float, list[float]] = {noise: [] for noise in NOISE}
    for seed in range(markets):
        honest, oracle = market(table, seed)
        before = paid(honest, oracle, raw=raw)
        found = before.threshold
        if found is None or found.theta is None:
            raise SystemExit(f"{table}, market {seed}: no threshold")
        thetas.append(found.theta)
        prices += [] if found.price is None else [found.price.at(found.theta)]
        tied.append(1 - before.clusters.n_clusters / len(before.clusters.label))
        for noise in NOISE:
            after = paid(with_copies(honest, noise, seed), oracle, raw=raw)
            gains[noise].append(share(after) / share(before))
    price = f"{np.mean(prices):.2%}" if prices else "too few rows"
    cells = [f"{min(thetas):g} to {max(thetas):g}", price, f"{np.mean(tied):.1%}"]
    cells += [f"{np.mean(gains[noise]):.2f}" for noise in NOISE]
    return (
        f"| {table.replace('_', ' ')}, {'raw columns' if raw else 'as coverage'} | {' | '.join(cells)} |"
    )


def main() -> None:
    """Print the table."""
    markets = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    warnings.simplefilter("ignore")
    heads = [f"{markets} markets each", "theta", "honest price", "honest units tied"]
    heads += [f"gain at noise {noise:g}" for noise in NOISE]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for table in TABLES:
        for raw in (True, False):
            print(line(table, markets, raw=raw), flush=True)


if __name__ == "__main__":
    main()
