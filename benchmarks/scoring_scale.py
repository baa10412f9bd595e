"""What the scoring of a payday by coverage costs, in CPU seconds, with labels and without.

A payday scores clusters (and their values on groups of validation rows), scores once more without evidence, and keeps
which units cover which rows. Without labels every unit meets every validation row: ten times the similarities of ten
labels. Parts of one run are to be compared with each other; seconds are the machine's.

Usage: python benchmarks/scoring_scale.py 100000 --validation 1000
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from payout_scale import DIMENSIONS, TOPICS, draw, spectrum

from datamarket_gym.evidence.graph import Edges, clusters_by
from datamarket_gym.games.semivalue import SEMIVALUES
from datamarket_gym.learners.covered_rows import covered_rows
from datamarket_gym.learners.oracle import Utility, UtilityOracle
from datamarket_gym.payout.intervals import validation_groups
from datamarket_gym.pipeline.mechanism import mechanism
from datamarket_gym.pipeline.represent import represent
from datamarket_gym.pipeline.score import score
from datamarket_gym.units.submission import Submission

LABELS = 10

T = TypeVar("T")


def timed(what: str, work: Callable[[], T]) -> T:
    """Print the CPU seconds of all threads."""
    started = time.process_time()
    found = work()
    print(f"  {what:32s} {time.process_time() - started:8.1f} s", flush=True)
    return found


def main() -> None:
    """Score the same units with labels and without."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("units", type=int)
    parser.add_argument("--validation", type=int, default=1000)
    chosen = parser.parse_args()
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(TOPICS, DIMENSIONS)) * spectrum()
    features, _ = draw(rng, chosen.units, centres)
    held, _ = draw(rng, chosen.validation, centres)
    label, held_label = (rng.integers(0, LABELS, len(each)) for each in (features, held))
    names = [str(i) for i in range(chosen.units)]
    pays = mechanism("recommended", evidence="none")
    for title, label_of, held_of in (
        (f"{LABELS} labels", label, held_label),
        ("no labels", None, None),
    ):
        print(f"{chosen.units:,} units, {chosen.validation:,} validation rows, {title}:")
        submission = Submission(id=names, identity=names, features=features, label=label_of)
        clusters = clusters_by(submission, Edges.none(), "unit", pays.lot)
        canonical = represent(pays, submission, clusters)
        oracle = UtilityOracle(held, held_of, Utility("coverage", "none"))
        group = validation_groups(oracle.features, oracle.label, 0)
        scores = timed("scores, and on groups of rows", lambda: score(pays, canonical, oracle, group))
        again = UtilityOracle(held, held_of, Utility("coverage", "none"))
        timed("scores alone", lambda: score(pays, canonical, again))

        def needs() -> object:
            player = scores.number[canonical.cluster]
            scorer = oracle.scorer(
                canonical.features, canonical.label, canonical.weight, player, canonical.n_clusters
            )
            everyone, shapley = np.arange(canonical.n_clusters), SEMIVALUES.create("shapley")
            return covered_rows(scorer, shapley, 5, everyone, everyone % 1000, 1000)

        timed("who covers which rows", needs)


if __name__ == "__main__":
    main()
