"""S1: the split gain of Proposition 1, measured by enumeration on unanimity and random games."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field

from datamarket_gym.core.specs import Document
from datamarket_gym.games.closed_form import RandomMonotoneGame, SplitGame, UnanimityGame
from datamarket_gym.games.game import Game
from datamarket_gym.games.semivalue import SEMIVALUES
from datamarket_gym.judge.metrics import clearly_paid, gain_of
from datamarket_gym.lab.cells import Row, kind
from datamarket_gym.lab.spec import ExperimentSpec, TaskEntry
from datamarket_gym.semivalues import full_table, semivalues_from_table

MECHANISM = {"shapley": "shapley", "banzhaf": "banzhaf", "beta": "beta_shapley"}


class SplitOptions(Document):
    """Players, names and semivalues."""

    n: list[int] = Field(min_length=1)
    k: list[int] = Field(min_length=1)
    semivalues: list[str] = Field(min_length=1)


@kind("split_gain", SplitOptions)
def split_gain_cell(
    spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]
) -> list[Row]:
    """Every (n, k): player 0 of an n-player game splits into k pseudonyms."""
    names = spec.options["semivalues"]
    semivalues = [SEMIVALUES.create(name) for name in names]
    rows: list[Row] = []
    for n in spec.options["n"]:
        game = _game(task.task, n, seed)
        table = full_table(game)
        honest = semivalues_from_table(table, semivalues)[:, 0]
        for k in spec.options["k"]:
            split = SplitGame(game, 0, k)
            parts = semivalues_from_table(full_table(split), semivalues)[:, split.pseudonyms]
            for name, before, after in zip(names, honest, parts.sum(axis=1), strict=True):
                rows.append(
                    {
                        "experiment": spec.name,
                        "task": task.task,
                        "seed": seed,
                        "attack": f"sybil_split_{k}",
                        "mechanism": MECHANISM[name],
                        "granularity": "identity",
                        "representative": "identity",
                        "n": n,
                        "k": k,
                        "honest_payment": before,
                        "attacked_payment": after,
                        "gain": gain_of(after, before),
                        "gain_additive": after - before,
                        "near_zero": float(not clearly_paid(before, table[-1], n)),
                    }
                )
    return rows


def _game(name: str, n: int, seed: int) -> Game:
    if name == "unanimity":
        return UnanimityGame(n)
    return RandomMonotoneGame(n, np.random.default_rng(np.random.SeedSequence([seed, n])))
