"""Compare the coalition engine with plain scikit-learn loops on one core and with other libraries, in one run.

    python benchmarks/engine.py            # a random part of the coalitions for the loops (a minute or two)
    python benchmarks/engine.py --full     # all coalitions (many minutes)
    python benchmarks/engine.py --baselines    # libraries of `datamarket baselines list`, each in its own environment

Both sides run right after one another in one process, so that ratios compare like with like on a noisy machine.
`default` and `converged` say how many times longer the loop takes at scikit-learn's tolerance and at 1e-8; `agreement`
is the share of compared coalitions with the same accuracy as the converged loop. Seconds of another library are those
of its computation: neither starting it nor reading files counts. 5-NN values differ a little, as other libraries
divide by k among fewer than k rows, too.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from datamarket_gym import create
from datamarket_gym.benchmark.baselines.program import VALUATORS, Baseline
from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import MissingBaselineError, ProgramError
from datamarket_gym.games import Shapley, semivalues_from_table
from datamarket_gym.market.datasets import find
from datamarket_gym.market.tasks.synthetic import Synthetic
from datamarket_gym.utilities import TrainingRows, ValidationRows
from datamarket_gym.utilities.logistic import LogisticScorer
from datamarket_gym.utilities.oracle import Utility, UtilityOracle

Row = dict[str, Any]


class Game(NamedTuple):
    """Training rows by player, and validation rows."""

    name: str
    rows: TrainingRows
    validation: ValidationRows

    @property
    def coalitions(self) -> np.ndarray:
        """All coalitions but the empty one."""
        numbers = np.arange(1, 1 << self.rows.n_players)
        return (numbers[:, None] >> np.arange(self.rows.n_players) & 1).astype(bool)


def synthetic(players: int) -> Game:
    """Draw the synthetic market: 60 rows of 24 features a player, 4 classes."""
    draw = Synthetic(n_providers=players).draw(0)
    data, dealt = draw.dataset, np.concatenate(draw.provider_partition)
    player = np.repeat(np.arange(players), [len(part) for part in draw.provider_partition])
    rows = TrainingRows(data.features[dealt], data.label[dealt], player, players, 4)
    validation = ValidationRows(data.validation_features, data.validation_label)
    return Game(f"synthetic, {players} players x 60 x 24, 4 classes", rows, validation)


def hard() -> Game:
    """Draw ten players of whom half have one or two classes, wrong labels and constant features."""
    easy, rng = synthetic(10), np.random.default_rng(0)
    features, label = easy.rows.features.copy(), easy.rows.label.copy()
    for player in range(5):
        mine = np.flatnonzero(easy.rows.player == player)
        label[mine] = rng.choice(rng.choice(4, size=1 + player % 2, replace=False), size=len(mine))
        features[mine, player], features[mine, 20] = 1.0, 0.5
    rows = replace(easy.rows, features=features, label=label)
    return Game("hard: one- and two-class players, wrong labels", rows, easy.validation)


def embedded(name: str, file: str, width: int, classes: int) -> Game:
    """Draw eight players of 100 embeddings: real ones where their file is there, else around random centres."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, classes, size=1300)
    features = 0.6 * rng.normal(size=(classes, width))[label] + rng.normal(size=(1300, width))
    path = find(file)
    if path is not None:
        with np.load(path) as data:
            some = rng.permutation(len(data["labels"]))[:1300]
            features, label = data["embeddings"][some].astype(np.float64), data["labels"][some]
    rows = TrainingRows(features[:800], label[:800], np.repeat(np.arange(8), 100), 8, classes)
    source = "simulated" if path is None else "real"
    name = f"{name}, 8 x 100 x {width}, {classes} classes ({source} embeddings)"
    return Game(name, rows, ValidationRows(features[800:], label[800:]))


LOOPS = {
    "logistic": lambda tight: make_pipeline(
        StandardScaler(), LogisticRegression(**({"tol": 1e-8, "max_iter": 20_000} if tight else {}))
    ),
    "ridge": lambda tight: make_pipeline(StandardScaler(), RidgeClassifier()),
    "knn(vote='majority')": lambda tight: KNeighborsClassifier(5, algorithm="brute"),
}
"""What a plain loop fits for each learner of ours."""


def loop(game: Game, coalitions: np.ndarray, learner: str, tight: bool) -> np.ndarray:
    """Fit one scikit-learn model a coalition, on one core, and return its accuracies."""
    values = np.empty(len(coalitions))
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for i, coalition in enumerate(coalitions):
            mine = coalition[game.rows.player]
            label = game.rows.label[mine]
            if len(np.unique(label)) == 1:
                values[i] = (game.validation.label == label[0]).mean()
                continue
            fitted = LOOPS[learner](tight).fit(game.rows.features[mine], label)
            values[i] = (fitted.predict(game.validation.features) == game.validation.label).mean()
    return values


def against_loop(game: Game, learner: str, part: int) -> Row:
    """Time the engine on all coalitions and the loop on a random part of them."""
    coalitions = game.coalitions
    started = time.perf_counter()
    ours = create("learner", learner).scorer(game.rows, game.validation).utility(coalitions)
    seconds = time.perf_counter() - started
    some = np.random.default_rng(0).permutation(len(coalitions))[:part]
    times = []
    for tight in (False, True):
        started = time.perf_counter()
        theirs = loop(game, coalitions[some], learner, tight)
        times.append((time.perf_counter() - started) / len(some) * len(coalitions) / seconds)
    return {
        "workload": f"{learner}; {game.name}", "coalitions": len(coalitions), "seconds": seconds,
        "default": times[0], "converged": times[1],
        "agreement": float((np.abs(theirs - ours[some]) < 1e-12).mean()),
    }  # fmt: skip


def loop_rows(full: bool) -> Iterator[Row]:
    """Compare with plain loops, one row a game."""
    if find_spec("numba"):  # compile first
        game = synthetic(4)
        LogisticScorer(game.rows, game.validation, backend="compiled").utility(game.coalitions)
    text, images = ("text", "agnews_minilm.npz", 384, 4), ("images", "cifar10_resnet18.npz", 512, 10)
    for game, learner, part in (
        (synthetic(12), "logistic", 120), (hard(), "logistic", 120), (embedded(*text), "logistic", 24),
        (embedded(*images), "logistic", 16), (synthetic(12), "knn(vote='majority')", 80), (synthetic(12), "ridge", 80),
    ):  # fmt: skip
        yield against_loop(game, learner, 1 << 20 if full else part)
    for players in (16, 20):
        table = np.random.default_rng(players).random(1 << players)
        started = time.perf_counter()
        semivalues_from_table(table, [Shapley()])
        seconds = time.perf_counter() - started
        yield {
            "workload": f"Shapley from a table, K = {players}",
            "coalitions": 1 << players,
            "seconds": seconds,
        }


def baseline_rows(units: int = 5_000, validation: int = 500) -> Iterator[Row]:
    """Compare with every installed library: exact Shapley of eight players, 5-NN Shapley of single rows."""
    exact, rng = synthetic(8), np.random.default_rng(0)
    held = ValidationRows(rng.normal(size=(validation, 32)), rng.integers(0, 10, size=validation))
    label = rng.integers(0, 10, size=units)
    single = TrainingRows(rng.normal(size=(units, 32)), label, np.arange(units), units, 10)
    tasks = {
        "shapley": (exact.name, exact.rows, exact.validation, "logistic"),
        "knn5": (f"5-NN Shapley, {units:,} x {validation:,} x 32", single, held, "knn@5"),
    }
    for way, (name, rows, validation_rows, learner) in tasks.items():
        started = time.perf_counter()
        scorer = create("learner", learner).scorer(rows, validation_rows)
        if way == "shapley":
            table = np.r_[0.0, scorer.utility(exact.coalitions)]
            values = semivalues_from_table(table, [Shapley()])[0]
        else:
            values = scorer.closed_form(Shapley(), 0.0)
        ours = time.perf_counter() - started
        yield {
            "workload": name,
            "who": "datamarket-gym",
            "seconds": ours,
            "ratio": 1.0,
            "difference": 0.0,
        }
        ids = np.array([f"u{i}" for i in range(len(rows.label))])
        identity = np.array([f"{player:06d}" for player in rows.player])  # names sort as numbers do
        submission = Submission(ids, identity, rows.features, rows.label)
        oracle = UtilityOracle(validation_rows.features, validation_rows.label, Utility(learner))
        for valuator, (library, theirs) in VALUATORS.items():
            if theirs != way:
                continue
            try:
                baseline = Baseline(valuator)
                paid = baseline.pay(submission, oracle)
            except (MissingBaselineError, ProgramError) as error:
                yield {"workload": name, "who": library, "note": str(error).splitlines()[-1]}
                continue
            yield {
                "workload": name, "who": f"{library} {baseline.version}", "seconds": paid.computing,
                "ratio": paid.computing / ours, "difference": float(np.abs(paid.totals - values).max()),
            }  # fmt: skip


def main() -> None:
    """Print the rows as they come, and save them if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="whole loops")
    parser.add_argument("--baselines", action="store_true", help="compare with other libraries instead")
    parser.add_argument("--save", type=Path, help="write the rows to this JSON file")
    chosen = parser.parse_args()
    rows = []
    for row in baseline_rows() if chosen.baselines else loop_rows(chosen.full):
        rows.append(row)
        figures = (
            f"{k} {v:,.3g}" if isinstance(v, float) else f"{k} {v}"
            for k, v in row.items()
            if k != "workload"
        )
        print(f"{row['workload']}: {', '.join(figures)}", flush=True)
    if chosen.save:
        saved = {"machine": {"cores": os.cpu_count()}, "rows": rows}
        chosen.save.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
