"""How much longer searches and k-NN scores take for what a seller of one unit in a hundred submits.

    python benchmarks/one_seller.py

CPU seconds on one core, the best of two: nearest earlier units and all pairs at theta .95 of 20,000 x 384, and k-NN
Shapley values of 34,000 x 16 on 1,000 validation rows (with numba, where it is installed).
"""

import time
from collections.abc import Callable

import numpy as np

from datamarket_gym import create
from datamarket_gym.core.compute import Compute, computing
from datamarket_gym.evidence import cells, nearest_earlier, prefix
from datamarket_gym.evidence.distinct import DistinctRows
from datamarket_gym.evidence.pairs import similar_pairs
from datamarket_gym.learners import TrainingRows, ValidationRows
from datamarket_gym.learners.knn import Knn

THETA, UNITS, WIDTH = 0.95, 20_000, 384


def seconds(work: Callable[[], object]) -> float:
    """The best of two."""
    taken = []
    for _ in range(2):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def searches() -> None:
    """Nearest earlier units, and pairs."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0]
    falling = np.arange(1, WIDTH + 1) ** -0.7
    centres = (rng.normal(size=(400, WIDTH)) * falling)[rng.integers(400, size=UNITS)]
    honest = (centres + 0.8 * rng.normal(size=(UNITS, WIDTH)) * falling) @ turn
    m = UNITS // 100
    cells._SAMPLE = prefix._SAMPLE = (
        m  # as of a million and of 100,000: one unit in a hundred is as many
    )
    noise, at = rng.normal(size=(m, WIDTH)), rng.choice(UNITS, m, replace=False)
    first = honest[0] / np.linalg.norm(honest[0])
    beside = noise - (noise @ first)[:, None] * first
    beside /= np.linalg.norm(beside, axis=1)[:, None]
    hidden = rng.normal(size=(m, 150)) @ turn[-150:]
    even = np.linspace(0, UNITS - 1, m).astype(int)
    sent = {
        "nothing of the kind": (at, honest[at]),
        "near copies, 1e-4": (at, honest[0] + 1e-4 * noise),
        "near copies, 1e-9": (at, honest[0] + 1e-9 * noise),
        "just below theta of one another": (
            at,
            (THETA - 1e-6) ** 0.5 * first + (0.05 + 1e-6) ** 0.5 * beside,
        ),
        "along the least axes": (at, hidden),
        "the same, at even places": (even, hidden),
    }
    print(f"{UNITS:,} x {WIDTH}{'':28}nearest earlier    pairs")
    for name, (where, units) in sent.items():
        rows = honest.copy()
        rows[where] = units
        one = seconds(lambda rows=rows: nearest_earlier(rows, THETA))
        two = seconds(lambda rows=rows: similar_pairs(DistinctRows(rows), THETA))
        print(f"{name:40}{one:14.2f} s {two:7.2f} s", flush=True)


def scores() -> None:
    """k-NN in closed form."""
    rng = np.random.default_rng(0)
    n, held = 34_000, 1000
    honest, validation = rng.normal(size=(n, 16)), rng.normal(size=(held, 16))
    label, truth = rng.integers(4, size=n), rng.integers(4, size=held)
    one_place, far, near = honest.copy(), honest.copy(), honest.copy()
    one_place[: n // 100], far[0] = honest[0], 1e6
    near[: n // 100] = honest[0] + 1e-9 * rng.normal(size=(n // 100, 16))
    sent = {"nothing of the kind": honest, "one unit far away": far}
    sent |= {"one place, all labels": one_place, "nearly one place, all labels": near}
    print(f"\n{n:,} x 16, {held:,} validation rows{'':12}k-NN")
    for name, rows in sent.items():
        units = TrainingRows(rows, label, np.arange(n), n, 4)
        scorer = Knn(5).scorer(units, ValidationRows(validation, truth))
        scorer.closed_form(create("semivalue", "shapley"), 0.25)
        taken = seconds(lambda s=scorer: s.closed_form(create("semivalue", "shapley"), 0.25))
        print(f"{name:40}{taken:10.2f} s", flush=True)


if __name__ == "__main__":
    with computing(Compute(threads=1)):
        searches()
        scores()
