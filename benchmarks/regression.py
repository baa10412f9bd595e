"""Numbers as labels: what clipping is for, and what a formula for numbers costs beside the one for classes.

    python benchmarks/regression.py [--units N] [--rows R] [--width D] [--out FILE]

The unit of the diabetes market that is worth most by k-NN regression is given a label of a million. `U(all)` is what
all units together explain of the variance, `its value` what that unit is worth by the Shapley value where units play
(k-NN regression), or its provider where providers do (ridge regression): with labels clipped to the range of the
validation labels, and as they are.

CPU seconds are those of the whole closed form, over all cores: what is put in order once, and the Shapley
values of all units. Each is measured three times, in turn, and the best counts.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from datamarket_gym import ProviderMarket, Utility, create, mechanism
from datamarket_gym.core.arrays import Values
from datamarket_gym.core.files import write_text
from datamarket_gym.learners import TrainingRows, ValidationRows, explained
from datamarket_gym.semivalues import Shapley

WILD = 1e6
TIMES = 3


def clipping() -> list[str]:
    """A table of what one wild label does."""
    market = ProviderMarket.from_task("diabetes")
    honest = market.honest.submission
    oracle = market.utility_oracle(Utility("knn_regression"))
    row = int(mechanism("shapley", granularity="unit").pay(honest, oracle).scores.values.argmax())
    label = honest.label.copy()
    label[row] = WILD
    wild = honest.take(np.arange(len(honest)), {"label": label})
    lines = [
        "| utility | labels | U(all), honest | U(all), one label of a million | its value, honest | its value then |"
    ]
    lines.append("|---|---|---|---|---|---|")
    for learner, granularity in (("knn_regression", "unit"), ("ridge_regression", "identity")):
        for how in ("clipped", "as they are"):
            kept = explained.Explained.units
            if how != "clipped":
                explained.Explained.units = _unclipped  # type: ignore[method-assign]
            try:
                oracle = market.utility_oracle(Utility(learner))
                payer = mechanism("shapley", granularity=granularity)
                paid = [payer.pay(part, oracle) for part in (honest, wild)]
            finally:
                explained.Explained.units = kept  # type: ignore[method-assign]
            player = row if granularity == "unit" else honest.identity_codes[row]
            worth = [one.grand_value for one in paid] + [
                float(one.scores.values[player]) for one in paid
            ]
            lines.append(f"| {learner} | {how} | " + " | ".join(f"{x:.4g}" for x in worth) + " |")
    return lines


def _unclipped(self: explained.Explained, target: Values) -> Values:
    share = (target - self.lowest) / (self.highest - self.lowest)
    d: Values = (share - self.mean) / self.deviation
    return d


def scale(units: int, rows: int, width: int) -> list[str]:
    """A table of seconds."""
    rng = np.random.default_rng(0)
    x, held = rng.normal(size=(units, width)), rng.normal(size=(rows, width))
    y, wanted = x[:, 0] + rng.normal(size=units), held[:, 0] + rng.normal(size=rows)
    number = np.unique(np.concatenate([y, wanted]))
    codes, asked = np.searchsorted(number, y), np.searchsorted(number, wanted)
    markets = {
        "knn": (
            TrainingRows(x, (y > 0).astype(np.int64), np.arange(units), units, 2),
            ValidationRows(held, (wanted > 0).astype(np.int64)),
        ),
        "knn_regression": (
            TrainingRows(x, codes, np.arange(units), units, len(number), classes=number),
            ValidationRows(held, asked, number),
        ),
    }
    best = dict.fromkeys(markets, np.inf)
    for _ in range(TIMES):
        for name, (train, validation) in markets.items():
            start = time.process_time()
            create("learner", name).scorer(train, validation).closed_form(Shapley(), 0.0)
            best[name] = min(best[name], time.process_time() - start)
    lines = [
        "| units | validation rows | features | knn, CPU s | knn_regression, CPU s | ratio |",
        "|---|---|---|---|---|---|",
    ]
    ratio = best["knn_regression"] / best["knn"]
    lines.append(
        f"| {units:,} | {rows} | {width} | {best['knn']:.2f} | {best['knn_regression']:.2f} | {ratio:.2f} |"
    )
    return lines


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=20_000)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    text = "\n".join([*clipping(), "", *scale(asked.units, asked.rows, asked.width)]) + "\n"
    print(text, end="")
    if asked.out:
        write_text(asked.out, text)


if __name__ == "__main__":
    main()
