"""The games that are timed: synthetic, hard, text and images, and units."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from datamarket_gym.core.arrays import CoalitionMatrix
from datamarket_gym.core.content import keyed_generator
from datamarket_gym.learners.base import TrainingRows, ValidationRows
from datamarket_gym.semivalues.exact import coalitions_numbered
from datamarket_gym.world.data import find
from datamarket_gym.world.tasks.synthetic import Synthetic


@dataclass(frozen=True, eq=False)
class Workload:
    """Rows, validation rows and the coalitions to solve."""

    name: str
    rows: TrainingRows
    validation: ValidationRows
    coalitions: CoalitionMatrix


def every_coalition(n_players: int) -> CoalitionMatrix:
    """All coalitions but the empty one."""
    return coalitions_numbered(1, 1 << n_players, n_players)


def synthetic(players: int, seed: int = 0) -> Workload:
    """The synthetic market: 60 rows x 24 features a player, 4 classes."""
    draw = Synthetic(n_providers=players).draw(seed)
    dealt, data = draw.provider_partition, draw.dataset
    rows = np.concatenate(dealt)
    player = np.repeat(np.arange(players), [len(part) for part in dealt])
    training = TrainingRows(data.features[rows], data.label[rows], player, players, 4)
    validation = ValidationRows(data.validation_features, data.validation_label)
    return Workload(
        f"synthetic, {players} players x 60 x 24, 4 classes",
        training,
        validation,
        every_coalition(players),
    )


def hard(seed: int = 0) -> Workload:
    """Ten players, half of them with one or two classes, wrong labels and constant features."""
    easy = synthetic(10, seed)
    rng = keyed_generator("hard", seed)
    features, label = easy.rows.features.copy(), easy.rows.label.copy()
    for player in range(5):
        mine = np.flatnonzero(easy.rows.player == player)
        label[mine] = rng.choice(rng.choice(4, size=1 + player % 2, replace=False), size=len(mine))
        features[mine, player] = 1.0
        features[mine, 20] = 0.5
    rows = replace(easy.rows, features=features, label=label)
    return Workload(
        "hard: one- and two-class players, wrong labels", rows, easy.validation, easy.coalitions
    )


def embedded(kind: str, seed: int = 0) -> Workload:
    """Eight players x 100 rows of text (384-d, 4 classes) or image (512-d, 10 classes) embeddings."""
    file, d, classes = {
        "text": ("agnews_minilm.npz", 384, 4),
        "images": ("cifar10_resnet18.npz", 512, 10),
    }[kind]
    rng = keyed_generator(kind, seed)
    path = find(file)
    if path is not None:
        with np.load(path) as found:
            pool = np.flatnonzero(found["split"] == 0) if found["split"].dtype.kind != "U" else None
            pool = np.flatnonzero(found["split"] == "train") if pool is None else pool
            chosen = rng.permutation(pool)[:1300]
            features, label = found["embeddings"][chosen].astype(np.float64), found["labels"][chosen]
        source = "real embeddings"
    else:
        label = rng.integers(0, classes, size=1300)
        centres = rng.normal(size=(classes, d))
        features = 0.6 * centres[label] + rng.normal(size=(1300, d))
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        source = "simulated embeddings"
    rows = TrainingRows(features[:800], label[:800], np.repeat(np.arange(8), 100), 8, classes)
    validation = ValidationRows(features[800:], label[800:])
    return Workload(
        f"{kind}, 8 x 100 x {d}, {classes} classes ({source})", rows, validation, every_coalition(8)
    )


def units(permutations: int, seed: int = 0) -> Workload:
    """Unit granularity: 480 players of one row, all prefixes of some permutations."""
    base = synthetic(8, seed)
    n = len(base.rows.label)
    rows = replace(base.rows, player=np.arange(n), n_players=n)
    rng = keyed_generator("units", seed)
    joined = np.array([np.argsort(rng.permutation(n)) for _ in range(permutations)])
    prefixes = (joined[:, None, :] <= np.arange(n)[None, :, None]).reshape(-1, n)
    return Workload(f"units, 480 players, {permutations} permutations", rows, base.validation, prefixes)
