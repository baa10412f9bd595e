"""What units that lie far from everything earn, exactly and where scores are truncated to the nearest T.

    python benchmarks/truncated_pay.py

Of 4,000 units forty are junk with one label. Printed is what they earn of all that is positive, by the label that earns
most, and how scores of all units correlate with the exact ones.
"""

import numpy as np

from datamarket_gym import create
from datamarket_gym.learners import TrainingRows, ValidationRows
from datamarket_gym.learners.knn import Knn
from datamarket_gym.learners.knn.truncated import KnnTruncated

UNITS, JUNK, HELD, WIDTH = 4000, 40, 200, 8
SHARES = {
    "two labels, half each": (0.5, 0.5),
    "two labels, .7 and .3": (0.7, 0.3),
    "four labels": (0.25,) * 4,
}
WAYS = {"exact": Knn(5)} | {f"nearest {t}": KnnTruncated(5, nearest=t) for t in (50, 500, 2000)}


def scores(shares: tuple[float, ...], junk_label: int) -> dict[str, np.ndarray]:
    """Of all units, by each way; the junk comes last."""
    rng = np.random.default_rng(0)
    n_labels = len(shares)
    centres = 1.2 * rng.normal(size=(n_labels, WIDTH))
    label, held = (rng.choice(n_labels, n, p=shares) for n in (UNITS, HELD))
    rows, validation = (centres[some] + rng.normal(size=(len(some), WIDTH)) for some in (label, held))
    rows[-JUNK:], label[-JUNK:] = 1000.0 + rng.normal(size=(JUNK, WIDTH)), junk_label
    units = TrainingRows(rows, label, np.arange(UNITS), UNITS, n_labels)
    shapley = create("semivalue", "shapley")
    found = {}
    for name, learner in WAYS.items():
        scorer = learner.scorer(units, ValidationRows(validation, held))
        found[name] = scorer.closed_form(shapley, 1.0 / n_labels)
    return found


def main() -> None:
    """Print a table."""
    print(
        f"{JUNK} of {UNITS:,} units are junk: their part of all positive scores, and how scores correlate"
    )
    print(f"{'':24}" + "".join(f"{name:>22}" for name in WAYS))
    for market, shares in SHARES.items():
        by_label = [scores(shares, label) for label in range(len(shares))]
        cells = []
        for name in WAYS:
            part = max(
                np.maximum(s[name], 0)[-JUNK:].sum() / np.maximum(s[name], 0).sum() for s in by_label
            )
            alike = np.corrcoef(by_label[0][name], by_label[0]["exact"])[0, 1]
            cells.append(f"{part:14.2%} {alike:7.3f}")
        print(f"{market:24}" + "".join(cells))


if __name__ == "__main__":
    main()
