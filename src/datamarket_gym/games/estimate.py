"""Scores of a game's players as a function of content: not of names, not of the order of players.

Players are put into the order of their content keys before anything is drawn or summed, random
numbers come from a generator keyed by the seed and all players' keys, and players of identical
content, who are symmetric in the game, share one score. Renaming or reordering players therefore
changes no bit of any score.

Rescaling to the grand value is a separate step, because it can change signs of gains: raw Banzhaf,
Beta and leave-one-out scores do not sum to v(all). Rescaled scores spend the whole value, but
guarantees for raw scores do not carry over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.content_keys import combined_key, keyed_generator
from datamarket_gym.errors import ParameterError, require_count, require_instance
from datamarket_gym.execution.arrays import CoalitionMatrix, Keys, Values
from datamarket_gym.execution.progress import Watch, watch
from datamarket_gym.games.exact import MAX_PLAYERS, Exact
from datamarket_gym.games.game import Game
from datamarket_gym.games.permutation import Permutation
from datamarket_gym.games.sampling import count_coalitions
from datamarket_gym.games.semivalues import (
    ESTIMATORS,
    SEMIVALUES,
    Banzhaf,
    Estimate,
    Estimator,
    Semivalue,
    Shapley,
    Truncated,
)
from datamarket_gym.games.stratified import Stratified
from datamarket_gym.games.subset import MaximumSampleReuse
from datamarket_gym.registry import Range, register


@register("estimator", "auto")
@dataclass(frozen=True)
class Auto(Estimator):
    """Use the closed form, else enumerate within the budget, else sample as suits the semivalue.

    ``exact_n_limit`` (the paper's name; its experiments have 4): enumerate all coalitions of up to so
    many players whatever the budget, and sample with more. -1: enumerate where 2^K coalitions cost no
    more than sampling would. A closed form is used in any case, and sampling by size (Beta) goes
    through all coalitions of a size that has no more than its draws.
    """

    title = "automatic"

    exact_n_limit: Annotated[
        int,
        Range(-1, MAX_PLAYERS),
        "players whose coalitions are all tried; -1: where that costs no more than sampling",
    ] = -1

    def estimate(
        self, game: Game, semivalue: Semivalue, budget: int, rng: np.random.Generator
    ) -> Estimate:
        if (exact := self.closed_form(game, semivalue)) is not None:
            return exact
        chosen = self.choose(game.n_players, semivalue, budget)
        return chosen.estimate(game, semivalue, budget, rng)

    def closed_form(self, game: Game, semivalue: Semivalue) -> Estimate | None:
        values = game.closed_form(semivalue)
        if values is None:
            return None
        cut, errors = game.truncated(semivalue), np.zeros(game.n_players)
        if cut is None:
            return Estimate(values, errors, 0, "closed form", samples=0)
        method = f"closed form of the nearest {cut.nearest:,} (each score within {cut.within:.2g})"
        return Estimate(values, errors, 0, method, bias=cut.within, proven=True)

    def choose(self, n_players: int, semivalue: Semivalue, budget: int) -> Estimator:
        """Choose the estimator of a game without closed form."""
        size_weights = semivalue.size_weights(n_players)
        sizes = np.flatnonzero(size_weights).tolist()
        if len(sizes) < n_players and count_coalitions(n_players, sizes, budget + 1) <= budget:
            return (
                Stratified()
            )  # enumerates just the sizes that count: for leave-one-out K + 1 coalitions
        affords = n_players <= MAX_PLAYERS and 1 << n_players <= budget
        if affords if self.exact_n_limit < 0 else n_players <= self.exact_n_limit:
            return Exact()
        if isinstance(semivalue, Shapley):
            return Permutation()
        if isinstance(semivalue, Banzhaf):
            return MaximumSampleReuse()
        return Stratified()


def estimate(
    game: Game,
    semivalue: str | Semivalue = "shapley",
    estimator: str | Estimator = "auto",
    *,
    samples: int = 256,
    seed: int = 0,
) -> Estimate:
    """Estimate the semivalue of every player, with standard errors, in the order of the game's players.

    Parameters
    ----------
    game : Game
        The coalition game.
    semivalue : str or Semivalue
        The weights of coalition sizes.
    estimator : str or Estimator
        The method; ``auto`` takes a formula where the game has one.
    samples : int
        The paper's R: orders of joining (Algorithm 1), draws a player (Algorithm 2).
    seed : int
        Seed of the sampling.

    Returns
    -------
    Estimate
        Scores, standard errors and the number of evaluations.

    Examples
    --------
    >>> from datamarket_gym.games.closed_form import UnanimityGame
    >>> estimate(UnanimityGame(4)).values
    array([0.25, 0.25, 0.25, 0.25])
    """
    require_instance("game", game, Game, "a Game (UtilityOracle.game makes one)")
    require_count("samples", samples)
    require_count("seed", seed, at_least=0)
    chosen, method = SEMIVALUES.create(semivalue), ESTIMATORS.create(estimator)
    order = np.arange(game.n_players) if game.keys is None else np.argsort(game.keys, kind="stable")
    view = OrderedView(game, order)
    scores = method.closed_form(view, chosen) if isinstance(method, Auto) else None
    if scores is None:
        scores = _sampled(view, chosen, method, samples, seed)
    if game.keys is None:
        return scores
    back, keys = np.argsort(order), game.keys[order]
    return replace(
        scores,
        values=_shared(scores.values, keys)[back],
        # sd(mean) <= mean(sd) however the estimates depend on each other
        standard_errors=_shared(scores.standard_errors, keys)[back],
    )


def _sampled(
    view: OrderedView, semivalue: Semivalue, estimator: Estimator, samples: int, seed: int
) -> Estimate:
    n_players = view.n_players
    budget = estimator.budget(samples, n_players)
    rng = keyed_generator(seed, n_players if view.keys is None else combined_key(view.keys.tolist()))

    def plan() -> tuple[int, int]:
        """Return the evaluations at most, and those of each sample where their number depends on samples."""
        chosen = estimator
        if isinstance(estimator, Auto):
            chosen = estimator.choose(n_players, semivalue, budget)
        most = 1 << MAX_PLAYERS if isinstance(chosen, Exact) else budget
        sizes = np.flatnonzero(semivalue.size_weights(n_players)).tolist()
        planned = count_coalitions(n_players, sizes, most)
        return planned, budget // samples if planned == budget else 0

    with watch(plan) as view.watched:
        try:
            return estimator.estimate(view, semivalue, budget, rng)
        except ParameterError as error:
            if error.parameter != "budget" or view.keys is None:
                raise
            raise ParameterError("samples", samples, f"take more: {error.remedy}") from error


def _shared(numbers: Values, sorted_keys: Keys) -> Values:
    """Replace each run of equal keys by its mean."""
    starts = np.flatnonzero(np.append(True, sorted_keys[1:] != sorted_keys[:-1]))
    if len(starts) == len(numbers):
        return numbers
    counts = np.diff(np.append(starts, len(numbers)))
    means: Values = np.repeat(np.add.reduceat(numbers, starts) / counts, counts)
    return means


class OrderedView(Game):
    """Play a game with its players in another order: player j is player ``order[j]``; evaluations may be watched."""

    def __init__(self, game: Game, order: NDArray[np.intp]) -> None:
        super().__init__(
            game.n_players,
            keys=None if game.keys is None else game.keys[order],
            cache_keys=game.cache_keys[order],
            cache=game.cache,
            empty_value=game.empty_value,
        )
        self.game = game
        self.order = order
        self.watched: Watch | None = None
        self.asked, self.computed = game.asked, game.computed

    def values(self, coalitions: CoalitionMatrix) -> Values:
        coalitions, asked = self._require_coalitions(coalitions), self.game.asked
        watched = self.watched
        values = self._ask(coalitions) if watched is None else watched.values(self._ask, coalitions)
        self.game.asked = asked + len(coalitions)  # a watch may evaluate some twice
        self.asked, self.computed = self.game.asked, self.game.computed
        return values

    def closed_form(self, semivalue: Semivalue) -> Values | None:
        values = self.game.closed_form(semivalue)
        return None if values is None else values[self.order]

    def truncated(self, semivalue: Semivalue) -> Truncated | None:
        return self.game.truncated(semivalue)

    def _ask(self, coalitions: CoalitionMatrix) -> Values:
        return self.game.values(self._restored(coalitions))

    def _evaluate(self, coalitions: CoalitionMatrix) -> Values:
        return self.game._evaluate(self._restored(coalitions))

    def _restored(self, coalitions: CoalitionMatrix) -> CoalitionMatrix:
        restored = np.empty_like(coalitions)
        restored[:, self.order] = coalitions
        return restored


_CLEARLY = 1e-9  # of the scores' own size


def normalized(values: Values, grand_value: float) -> Values:
    """Rescale scores to sum to ``grand_value``; a sum that is not clearly above zero is refused."""
    values = np.asarray(values, dtype=float)
    total = float(values.sum())
    if not total > _CLEARLY * float(np.abs(values).sum()):
        remedy = "normalisation needs a sum clearly above zero; pay the raw scores, or use Shapley"
        raise ParameterError("values", f"scores that sum to {total:g}", remedy)
    return values * (grand_value / total)
