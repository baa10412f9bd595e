"""Shared parts of samplers: large batches of distinct, non-empty coalitions, in order of first occurrence,
and the mean and standard error of i.i.d. sample vectors, one column per player.

The running sums of a long estimation are saved in a checkpoint file that is whole at every moment. It
carries a key made of everything the result depends on; a file with another key is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import combinations, islice
from math import comb
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import ParameterError
from datamarket_gym.execution.arrays import CoalitionMatrix, Values
from datamarket_gym.execution.files import replacing
from datamarket_gym.games.game import Game


@dataclass
class Moments:
    """Hold running sums, with corrections where a sample variance understates the error.

    A player whose samples are all equal has sample variance zero, though an event rarer than one in
    n may have gone unseen: the error is then that of one unseen event as large as the largest
    range of any player, range / n. And with importance weights, a player of whom hardly any
    sample carries weight is unknown: below two samples' worth of weight the error is infinite.
    """

    total: Values  # (K,)
    squares: Values  # (K,), about the mean
    lowest: Values  # (K,)
    highest: Values  # (K,)
    weight: Values  # (K,), of all samples, in shares of the largest weight a sample can have
    count: int = 0

    @classmethod
    def zeros(cls, n_players: int) -> Moments:
        low, high = np.full(n_players, np.inf), np.full(n_players, -np.inf)
        return cls(np.zeros(n_players), np.zeros(n_players), low, high, np.zeros(n_players))

    def add(self, samples: Values, weight: Values) -> None:
        """Add a batch (B, K) of samples (Chan et al. 1983: no cancellation)."""
        count, mean = len(samples), samples.mean(axis=0)
        if self.count:
            drift = mean - self.total / self.count
            self.squares += drift**2 * (self.count * count / (self.count + count))
        self.squares += ((samples - mean) ** 2).sum(axis=0)
        self.total += samples.sum(axis=0)
        self.lowest = np.minimum(self.lowest, samples.min(axis=0))
        self.highest = np.maximum(self.highest, samples.max(axis=0))
        self.weight += weight
        self.count += count

    def mean(self) -> Values:
        return self.total / self.count

    def standard_errors(self) -> Values:
        if self.count < 2:
            return np.full(len(self.total), np.inf)
        errors: Values = np.sqrt(self.squares / (self.count * (self.count - 1)))
        width = self.highest - self.lowest
        errors = unseen(errors, width == 0, float(width.max()), self.count)
        errors[self.weight < 2] = np.inf
        return errors


def unseen(errors: Values, constant: np.ndarray, width: float, count: int) -> Values:
    """Replace the errors of players with constant samples by that of one unseen event."""
    return np.where(constant, width / count, errors)


BATCH_CELLS = 1 << 26  # a boolean coalition matrix is at most 64 MB
BATCH_ROWS = 1 << 14  # and at most this many coalitions, so that progress can be saved in between


def rows_per_batch(n_players: int) -> int:
    """Return how many coalitions of ``n_players`` go into one batch."""
    return max(1, min(BATCH_ROWS, BATCH_CELLS // n_players))


def ask(game: Game, coalitions: CoalitionMatrix) -> Values:
    """Compute v of each row; repeated rows count once, and empty ones not at all (they are worth 0)."""
    values = np.zeros(len(coalitions))
    rows = np.flatnonzero(coalitions.any(axis=1))
    if len(rows):
        first, where = _distinct(coalitions[rows])
        values[rows] = game.values(coalitions[rows[first]])[where]
    return values


def all_of_size(n_players: int, size: int) -> Iterator[CoalitionMatrix]:
    """Yield all coalitions of a size, by batches."""
    few = min(size, n_players - size)  # list the members or the absent, whichever are fewer
    listed = combinations(range(n_players), few)
    while chunk := list(islice(listed, rows_per_batch(n_players))):
        batch = np.zeros((len(chunk), n_players), dtype=bool)
        players = np.array(chunk, dtype=np.intp).reshape(len(chunk), few)
        np.put_along_axis(batch, players, True, axis=1)
        yield batch if few == size else ~batch


def require_budget(budget: int, needed: int, method: str, n_players: int) -> None:
    """Refuse a budget that does not pay for two samples: one has no standard error."""
    if budget < needed:
        raise ParameterError(
            "budget",
            budget,
            f"{method} with {n_players} players needs at least {needed} evaluations, for two samples",
        )


def _distinct(coalitions: CoalitionMatrix) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the first row of each distinct coalition, in order of occurrence, and the place of each row's."""
    packed = np.ascontiguousarray(np.packbits(coalitions, axis=1))
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, first, where = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[where]


def count_coalitions(n_players: int, sizes: Iterable[int], most: int | None = None) -> int:
    """Count the coalitions Q, and Q with a player, for Q of these sizes, up to ``most``; the empty one is free."""
    total = 0
    # Sizes of few coalitions first: with many players the others have more than can be counted.
    every = {size + more for size in sizes for more in (0, 1)} - {0}
    for few in sorted(min(size, n_players - size) for size in every):
        if most is not None and few >= most.bit_length():  # comb(n, few) >= 2^few
            return most
        total += comb(n_players, few)
        if most is not None and total >= most:
            return most
    return total


class Checkpoint:
    """Save `Moments` between batches in a file; without a path, nowhere."""

    def __init__(self, path: str | None, *parts: object) -> None:
        self.path = None if path is None else Path(path)
        self.key = hashlib.sha256(repr(parts).encode()).hexdigest()

    def load(self, rng: np.random.Generator) -> tuple[Moments, int] | None:
        """Return the sums and evaluations so far, and set the generator; None without a file."""
        if self.path is None or not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as file:
                key, evaluations = str(file["key"]), int(file["evaluations"])
                moments = Moments(**{f.name: file[f.name] for f in fields(Moments)})
                moments.count = int(moments.count)
                state = json.loads(str(file["generator"]))
        except (OSError, ValueError, KeyError, BadZipFile) as error:
            remedy = f"not a checkpoint ({error}); delete it or name another"
            raise ParameterError("checkpoint", str(self.path), remedy) from error
        if key != self.key:
            remedy = "it belongs to another game, seed, budget or parameters; delete it or name another"
            raise ParameterError("checkpoint", str(self.path), remedy)
        rng.bit_generator.state = state
        return moments, evaluations

    def save(self, moments: Moments, rng: np.random.Generator, evaluations: int) -> None:
        """Write the sums to the file."""
        if self.path is None:
            return
        with replacing(self.path) as part, part.open("wb") as file:
            np.savez(
                file,
                key=self.key,
                **vars(moments),
                evaluations=evaluations,
                generator=json.dumps(rng.bit_generator.state),
            )
