"""Components that need parameters, written out, and a game of each kind: what tests of all plug points share."""

import shlex
import sys
from pathlib import Path

import numpy as np

from datamarket_gym import ImportedScores, ScoreTable
from datamarket_gym.games import RoyaltyGame
from datamarket_gym.games.closed_form import (
    AdditiveGame,
    RandomMonotoneGame,
    SumOfUnanimity,
    UnanimityGame,
    WeightedMajorityGame,
)
from datamarket_gym.registry import components
from datamarket_gym.testing.utilities import example_rows

PROGRAM = shlex.join([sys.executable, str(Path(__file__).parent / "baselines" / "pays_by_units.py")])
WRITTEN = {
    ("evidence", "cosine"): "cosine@0.95",
    ("evidence", "linkage"): "linkage@batch",
    ("evidence", "metadata"): "metadata@batch",
    ("evidence", "lineage"): "lineage@0.95",
    ("evidence", "hybrid_source_cosine"): "hybrid_source_cosine@0.95",
    ("evidence", "hybrid_hash_cosine"): "hybrid_hash_cosine@0.95",
    ("evidence", "containment"): "containment@0.4",
    ("evidence", "hybrid_perceptual_cosine"): "hybrid_perceptual_cosine@0.95",
    ("evidence", "noisy_oracle_latent"): "noisy_oracle_latent(p_fs=0.2, p_fm=0.1)",
    ("learner", "sklearn"): "sklearn@GaussianNB",
    ("learner", "sklearn_regressor"): "sklearn_regressor@Ridge",
    ("mechanism", "program"): f"program(command={PROGRAM!r})",
    ("mechanism", "baseline"): "baseline@pydvl-shapley",
    ("mechanism", "quotient_shapley"): "quotient_shapley/cosine@0.95",
    ("mechanism", "quotient_banzhaf"): "quotient_banzhaf/noisy_oracle_latent(p_fs=0.1, p_fm=0.2)",
    ("mechanism", "quotient_beta_shapley"): "quotient_beta_shapley/exact_hash",
}
PRESETS = [name for name, made in components("mechanism").items() if not isinstance(made, type)]
"""The mechanisms of our own pipeline."""
GAMES = {
    "unanimity": UnanimityGame(5),
    "weighted_majority": WeightedMajorityGame([3, 2, 2, 1], 5),
    "sum_of_unanimity": SumOfUnanimity.random(6, np.random.default_rng(0)),
    "additive": AdditiveGame([0.5, -1.0, 2.0]),
    "random_monotone": RandomMonotoneGame(5, np.random.default_rng(0)),
    "royalty": RoyaltyGame("google", split="both"),
}


def with_scores(features, label, validation_features):
    """The learner ``scores`` with scores of any kind for these units: some negative, some of single rows alone."""
    rng = np.random.default_rng(len(features))
    scores = rng.normal(0.3, 1.0, size=(len(features), len(validation_features)))
    scores[rng.random(scores.shape) < 0.5] = 0.0
    return ImportedScores(ScoreTable(features, label, scores, validation_features))


def made(kind, name):
    """A component of each name: written out where it needs parameters, made where no text makes it."""
    if (kind, name) == ("learner", "scores"):
        rows, validation = example_rows()
        return with_scores(rows.features, rows.label, validation.features)
    return WRITTEN.get((kind, name), name)
