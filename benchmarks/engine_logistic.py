"""Coalition engine against a plain scikit-learn loop; prints times, ratios and equal accuracies.

Usage: OPENBLAS_NUM_THREADS=1 python benchmarks/engine_logistic.py synthetic --reference 200
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np

from datamarket_gym.learners.base import TrainingRows, ValidationRows
from datamarket_gym.learners.logistic import LogisticScorer

Game = tuple[TrainingRows, ValidationRows]


def synthetic(players: int = 12, rows: int = 60, seed: int = 0, weighted: bool = False) -> Game:
    """The synthetic market: provider i has dominant class i mod 4 with share 0.75."""
    from sklearn.datasets import make_classification

    x, y = make_classification(
        n_samples=40 * players * rows + 200,
        n_features=24,
        n_informative=7,
        n_redundant=0,
        n_clusters_per_class=1,
        n_classes=4,
        class_sep=1.2,
        flip_y=0.01,
        random_state=seed,
    )
    rng = np.random.default_rng(seed)
    val, pool = slice(0, 200), {k: list(np.flatnonzero(y[200:] == k) + 200) for k in range(4)}
    picked, owner = [], []
    for p in range(players):
        share = np.full(4, 1 / 12)
        share[p % 4] = 0.75
        for k, count in enumerate(rng.multinomial(rows, share)):
            picked += [pool[k].pop() for _ in range(count)]
            owner += [p] * count
    weight = rng.uniform(0.2, 3, len(picked)) if weighted else None
    train = TrainingRows(x[picked], y[picked], np.array(owner), players, 4, weight)
    return train, ValidationRows(x[val], y[val])


def hard(seed: int = 0) -> Game:
    """Ten players; half have one or two classes and wrong labels, some features are constant."""
    train, validation = synthetic(10, 60, seed)
    rng = np.random.default_rng(seed + 1)
    x, y = train.features.copy(), train.label.copy()
    for p in range(5):
        mine = np.flatnonzero(train.player == p)
        y[mine] = rng.choice(rng.choice(4, 1 + p % 2, replace=False), len(mine))
        x[mine, p] = 1.0
        x[mine, 20] = 0.5
    return TrainingRows(x, y, train.player, 10, 4), validation


def embeddings(path: Path, classes: int, seed: int = 0, n_val: int = 200) -> Game:
    """Eight players with a hundred random rows each of stored embeddings."""
    stored = np.load(path)
    x, y = stored["embeddings"].astype(float), stored["labels"].astype(int)
    pick = np.random.default_rng(seed).permutation(len(x))[: 800 + n_val]
    train, val = pick[:800], pick[800:]
    rows = TrainingRows(x[train], y[train], np.repeat(np.arange(8), 100), 8, classes)
    return rows, ValidationRows(x[val], y[val])


def units(seed: int = 0) -> Game:
    """480 players of one row each."""
    train, validation = synthetic(8, 60, seed)
    n = len(train.label)
    return TrainingRows(train.features, train.label, np.arange(n), n, 4), validation


def all_coalitions(players: int) -> np.ndarray:
    """All non-empty coalitions (2^K - 1, K)."""
    codes = np.arange(1, 2**players)
    return (codes[:, None] >> np.arange(players) & 1).astype(bool)


def prefixes(players: int, permutations: int, seed: int = 0) -> np.ndarray:
    """All prefixes of random permutations, shuffled."""
    rng = np.random.default_rng(seed)
    out = np.zeros((permutations, players, players), dtype=bool)
    for m in range(permutations):
        rank = rng.permutation(players).argsort()
        out[m] = rank[None, :] <= np.arange(players)[:, None]
    return rng.permutation(out.reshape(-1, players))


def reference(game: Game, coalitions: np.ndarray, tol: float | None) -> np.ndarray:
    """One scikit-learn fit per coalition."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    rows, validation = game
    settings = {"max_iter": 1000} if tol is None else {"max_iter": 100_000, "tol": tol}
    out = np.empty(len(coalitions))
    for b, coalition in enumerate(coalitions):
        mine = coalition[rows.player]
        x, y, w = rows.features[mine], rows.label[mine], rows.weights[mine]
        if len(np.unique(y)) == 1:
            out[b] = np.mean(validation.label == y[0])
            continue
        scale = StandardScaler().fit(x, sample_weight=w)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LogisticRegression(**settings).fit(scale.transform(x), y, sample_weight=w)
        out[b] = np.mean(model.predict(scale.transform(validation.features)) == validation.label)
    return out


def main() -> None:
    """Run one workload."""
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=["synthetic", "weighted", "hard", "text", "images", "units"])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("DATAMARKET_DATA", ".")))
    parser.add_argument("--reference", type=int, default=100, help="coalitions timed in sklearn")
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--permutations", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, default=0)
    args = parser.parse_args()
    game = {
        "synthetic": lambda: synthetic(seed=args.seed),
        "weighted": lambda: synthetic(seed=args.seed, weighted=True),
        "hard": lambda: hard(args.seed),
        "text": lambda: embeddings(args.data / "agnews_minilm.npz", 4, args.seed),
        "images": lambda: embeddings(args.data / "cifar10_resnet18.npz", 10, args.seed),
        "units": lambda: units(args.seed),
    }[args.workload]()
    players = game[0].n_players
    many = players > 20
    coalitions = prefixes(players, args.permutations) if many else all_coalitions(players)
    if args.limit:
        coalitions = np.random.default_rng(0).permutation(coalitions)[: args.limit]
    best = cpu = np.inf
    for _ in range(args.repeat):
        scorer = LogisticScorer(*game, jobs=args.jobs, backend=args.backend)
        begin, used = time.perf_counter(), time.process_time()
        got = scorer.utility(coalitions)
        best = min(best, time.perf_counter() - begin)
        cpu = min(cpu, time.process_time() - used)
    per, per_cpu = best / len(coalitions), cpu / len(coalitions)
    print(f"{args.workload}: {len(coalitions)} coalitions {best:.3f} s")
    print(f"  {1e6 * per:.0f} us each, {1e6 * per_cpu:.0f} us of processor time")
    print(f"  {scorer.report}  gradients each {scorer.report.gradients / len(coalitions):.1f}")
    if args.reference:
        some = np.random.default_rng(1).permutation(len(coalitions))[: args.reference]
        for name, tol in (("default", None), ("tol 1e-10", 1e-10)):
            begin, used = time.perf_counter(), time.process_time()
            expected = reference(game, coalitions[some], tol)
            took = (time.perf_counter() - begin) / len(some)
            used = (time.process_time() - used) / len(some)
            equal = np.mean(expected == got[some])
            print(
                f"  sklearn {name}: {1e6 * took:.0f} us each, {took / per:.1f}x; processor time "
                f"{1e6 * used:.0f} us each, {used / per_cpu:.1f}x a core; equal {equal:.2%}"
            )


if __name__ == "__main__":
    main()
