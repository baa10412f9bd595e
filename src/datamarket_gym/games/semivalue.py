"""What a semivalue is (a law of coalition sizes) and what an estimator returns.

phi_k = sum over Q without k of omega_{K,|Q|} [v(Q + k) - v(Q)], with sum_s C(K-1, s) omega_{K,s} = 1.
The numbers q_s = C(K-1, s) omega_{K,s} are therefore a probability law on sizes 0..K-1: draw a size,
then a coalition of that size uniformly. The law, unlike omega, does not underflow when K is large.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from datamarket_gym.core.arrays import Values
from datamarket_gym.core.parameters import Component, OneOf, Range
from datamarket_gym.core.plots import plot_intervals
from datamarket_gym.core.registry import Kind
from datamarket_gym.core.screen import Shown, counted
from datamarket_gym.games.game import Game


class Semivalue(Component, ABC):
    """Plug point ``semivalue``: a frozen dataclass with one method, the law of coalition sizes."""

    @abstractmethod
    def size_law(self, n_players: int) -> Values:
        """Probabilities of |Q| = 0..K-1, shape (K,), summing to one."""

    def weights(self, n_players: int) -> Values:
        """omega_{K,s} for s = 0..K-1: the size law over the number of coalitions of each size."""
        from scipy.special import comb

        weights: Values = self.size_law(n_players) / comb(n_players - 1, np.arange(n_players))
        return weights


SEMIVALUES: Kind[Semivalue] = Kind("semivalue", Semivalue)


@dataclass(frozen=True)
class Estimate(Shown):
    """Scores of all players, with standard errors (zero where exact) and what they cost."""

    values: Values  # (K,)
    standard_errors: Values  # (K,)
    evaluations: int  # coalitions the game was asked for
    method: str  # the estimator that was really used, for example "exact" or "permutation"
    samples: int | None = None  # i.i.d. samples a score is the mean of; 0: exact; None: no such mean
    reach: float = 1.0  # a sample is at most this many times a marginal contribution
    bias: float = 0.0
    """How far truncation may move a score in expectation *if no player can lower the value*. Standard
    errors do not see it, and in any other game a bias above zero here means one without a bound."""
    proven: bool = False  # no score is moved by more than ``bias`` in any game, not in expectation alone

    @property
    def exact(self) -> bool:
        """Whether the scores carry no error."""
        return not self.standard_errors.any() and not self.bias

    def plot(self) -> Any:
        """Plot the largest scores, with 95 % intervals where they carry standard errors.

        Returns
        -------
        matplotlib.figure.Figure or plotly.graph_objects.Figure
            The figure of the library that is installed; of matplotlib where both are.

        Raises
        ------
        ImportError
            If neither matplotlib nor plotly is installed.
        """
        players = [f"player {number}" for number in range(len(self.values))]
        title = f"Scores of {counted(len(players), 'player')} ({self.method})"
        return plot_intervals(players, self.values, self.standard_errors, title=title, xlabel="score")


@dataclass(frozen=True)
class Truncated:
    """A closed form that looks at the nearest rows alone."""

    nearest: int
    within: float  # no score is off by more


Nearest = Annotated[
    int | str,
    Range(1),
    OneOf("auto"),
    "nearest units; how many count for each validation row, auto: as few as the error allows",
]
Within = Annotated[float, Range(0, 1), "error of a score at most"]


class Estimator(Component, ABC):
    """Plug point ``estimator``: a frozen dataclass that values all players within a budget."""

    @abstractmethod
    def estimate(
        self, game: Game, semivalue: Semivalue, budget: int, rng: np.random.Generator
    ) -> Estimate:
        """Ask the game for at most ``budget`` coalitions (in large batches) and value its players."""

    def budget(self, samples: int, n_players: int) -> int:
        """The evaluations that ``samples`` samples of every player cost (the paper's R)."""
        return samples * n_players


ESTIMATORS: Kind[Estimator] = Kind("estimator", Estimator)
