"""How close the nearest stranger comes as a submission grows; prints a Markdown table.

For AG News (MiniLM): quantiles of the highest cosine of 1,000 test articles with any of the first n training
articles. The 95 % column is the crowding floor of a payout run of that size.

Usage: python benchmarks/payout_crowding.py
"""

from __future__ import annotations

import numpy as np

from datamarket_gym.core.highest import highest_cosines
from datamarket_gym.world.data.files import data_file

QUANTILES = (0.5, 0.9, 0.95, 0.99)


def main() -> None:
    """Print the table."""
    with np.load(data_file("agnews_minilm.npz"), allow_pickle=False) as file:
        vectors, split = file["embeddings"].astype(np.float64), file["split"]
    rng = np.random.default_rng(0)
    train = rng.permutation(np.flatnonzero(split == "train"))
    held = vectors[rng.permutation(np.flatnonzero(split != "train"))[:1000]]
    held /= np.linalg.norm(held, axis=1, keepdims=True)
    print(
        "| units | " + " | ".join(f"{q:.0%}" for q in QUANTILES) + " |\n|---|" + "---|" * len(QUANTILES)
    )
    for n in (400, 2000, 8000, 23000):
        found = highest_cosines(held, vectors[train[:n]])
        print(f"| {n:,} | " + " | ".join(f"{np.quantile(found, q):.2f}" for q in QUANTILES) + " |")


if __name__ == "__main__":
    main()
