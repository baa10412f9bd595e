"""Mean and standard error of i.i.d. sample vectors that come in batches, one column per player."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datamarket_gym.typing import Values


@dataclass
class Moments:
    """Running sums, and the two ways in which a sample variance can be too good to be true.

    A player whose samples are all equal has sample variance zero, though an event rarer than one in
    n may have gone unseen: the error is then that of one unseen event as large as the largest
    spread of any player, spread / n. And with importance weights, a player of whom hardly any
    sample carries weight is unknown: below two samples' worth of weight the error is infinite.
    """

    total: Values  # (K,)
    squares: Values  # (K,), about the mean
    lowest: Values  # (K,)
    highest: Values  # (K,)
    told: Values  # (K,), the samples' weights as shares of the largest weight
    count: int = 0

    @classmethod
    def zeros(cls, n_players: int) -> Moments:
        """No samples yet."""
        low, high = np.full(n_players, np.inf), np.full(n_players, -np.inf)
        return cls(np.zeros(n_players), np.zeros(n_players), low, high, np.zeros(n_players))

    def add(self, samples: Values, told: Values) -> None:
        """Take in a batch (B, K) of samples (Chan et al. 1983: no cancellation)."""
        count, mean = len(samples), samples.mean(axis=0)
        if self.count:
            drift = mean - self.total / self.count
            self.squares += drift**2 * (self.count * count / (self.count + count))
        self.squares += ((samples - mean) ** 2).sum(axis=0)
        self.total += samples.sum(axis=0)
        self.lowest = np.minimum(self.lowest, samples.min(axis=0))
        self.highest = np.maximum(self.highest, samples.max(axis=0))
        self.told += told
        self.count += count

    def mean(self) -> Values:
        """The estimate."""
        return self.total / self.count

    def standard_errors(self) -> Values:
        """Of the mean."""
        if self.count < 2:
            return np.full(len(self.total), np.inf)
        errors: Values = np.sqrt(self.squares / (self.count * (self.count - 1)))
        spread = self.highest - self.lowest
        errors = unseen(errors, spread == 0, float(spread.max()), self.count)
        errors[self.told < 2] = np.inf
        return errors


def unseen(errors: Values, constant: np.ndarray, spread: float, count: int) -> Values:
    """Errors in which players with constant samples get that of one unseen event."""
    return np.where(constant, spread / count, errors)
