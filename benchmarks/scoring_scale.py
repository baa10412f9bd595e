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
from functools import partial
from typing import TypeVar

import numpy as np

from datamarket_gym.evidence.graph import Edges, clusters_by
from datamarket_gym.games.semivalue import SEMIVALUES
from datamarket_gym.learners.coverage import CoverageScorer
from datamarket_gym.learners.coverage.covered_rows import CoveredRows, covered_rows
from datamarket_gym.learners.oracle import Utility, UtilityOracle
from datamarket_gym.payout.intervals import validation_groups
from datamarket_gym.pipeline.mechanism import mechanism
from datamarket_gym.pipeline.represent import represent_clusters
from datamarket_gym.pipeline.score import score_clusters
from datamarket_gym.units.submission import Submission
from payout_scale import DIMENSIONS, TOPICS, draw, spectrum

LABELS, IDENTITIES = 10, 1000

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
    for title, given, held_given in (
        (f"{LABELS} labels", label, held_label),
        ("no labels", None, None),
    ):
        print(f"{chosen.units:,} units, {chosen.validation:,} validation rows, {title}:")
        scored(
            Submission(id=names, identity=names, features=features, label=given),
            partial(UtilityOracle, held, held_given, Utility("coverage", "none")),
        )


def scored(submission: Submission, utility: Callable[[], UtilityOracle]) -> None:
    """All that a payday asks of the similarities of these units and validation rows."""
    pays = mechanism("recommended", evidence="none")
    clusters = clusters_by(submission, Edges.none(), "unit", pays.lot)
    canonical, n = represent_clusters(clusters, pays.representative), clusters.n_clusters
    oracle = utility()
    group = validation_groups(oracle.features, oracle.label, 0)
    scores = timed(
        "scores, and on groups of rows", lambda: score_clusters(canonical, oracle, groups=group)
    )
    timed("scores alone", lambda: score_clusters(canonical, utility()))  # with nothing remembered

    def needs() -> CoveredRows:
        player = scores.number[canonical.cluster]
        scorer = oracle.scorer(canonical.features, canonical.label, canonical.weight, player, n)
        assert isinstance(scorer, CoverageScorer)
        everybody = np.arange(n)
        return covered_rows(
            scorer, SEMIVALUES.create("shapley"), 5, everybody, everybody % IDENTITIES, IDENTITIES
        )

    timed("who covers which rows", needs)


if __name__ == "__main__":
    main()
