"""What is gained by getting round the evidence of the recommended mechanism; prints a Markdown table.

Synthetic markets, provider 0 cheats. Leaked validation rows: it knows four of the 200 and submits copies of
them beside a theft of three others' units with noise of 0.3, with the leak check and without it. Units
without times: it submits twenty exact copies of everybody's units.

Usage: python benchmarks/evidence_holes.py [markets]
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

from datamarket_gym import ProviderMarket, Submission, create, mechanism

THEFT = "composite(split=1, copy=0.0, steal=1.0, steal_sigma=0.3, victims=3)"
LEAKED, COPIES = 4, 20


def extended(submission: Submission, features: np.ndarray, label: np.ndarray, name: str) -> Submission:
    """The submission with more units of one identity, which come last."""
    more = len(label)
    time = submission.time
    return Submission(
        id=np.concatenate([submission.id, [f"more-{i}" for i in range(more)]]),
        identity=np.concatenate([submission.identity, np.full(more, name)]),
        features=np.concatenate([submission.features, features]),
        label=np.concatenate([submission.label, label]),
        time=None if time is None else np.concatenate([time, np.full(more, time.max() + 1)]),
    )


def gains(seed: int) -> dict[str, float]:
    """Attacked over honest payment of provider 0 in one market."""
    market = ProviderMarket.from_task("synthetic", seed=seed, learner="knn", utility="chance")
    utility, data = market.utility_oracle(), market.dataset
    me, pay = market.state.provider(0), mechanism("recommended").pay
    unchecked = mechanism("recommended", leak_check="off").pay
    leaked = data.validation_features[:LEAKED], data.validation_label[:LEAKED]

    def timed(submission: Submission) -> Submission:
        return submission.take(np.arange(len(submission)), {"time": np.arange(float(len(submission)))})

    honest = timed(market.honest.submission)
    stolen = timed(create("attack", THEFT).apply(0, market.state).submission)
    copies = np.tile(honest.features, (COPIES, 1)), np.tile(honest.label, COPIES)
    undated = honest.take(np.arange(len(honest)), {"time": None})
    one = pay(honest, utility).total([me])
    other = pay(undated, utility).total([me])
    return {
        "noisy theft": pay(stolen, utility).total([me]) / one,
        "noisy theft and four leaked rows": pay(extended(stolen, *leaked, me), utility).total([me])
        / one,
        "the same, leak check off": unchecked(extended(stolen, *leaked, me), utility).total([me])
        / unchecked(honest, utility).total([me]),
        "twenty copies of all, with times": pay(extended(honest, *copies, me), utility).total([me])
        / one,
        "twenty copies of all, without": pay(extended(undated, *copies, me), utility).total([me])
        / other,
    }


def main() -> None:
    """Print the table."""
    markets = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    warnings.simplefilter("ignore")
    found = [gains(seed) for seed in range(markets)]
    print(f"| gain of provider 0, {markets} markets | mean | lowest | highest |\n|---|---|---|---|")
    for name in found[0]:
        values = [each[name] for each in found]
        print(f"| {name} | {np.mean(values):.2f} | {min(values):.2f} | {max(values):.2f} |")


if __name__ == "__main__":
    main()
