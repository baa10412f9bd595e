"""Permutation sampling (the paper's Algorithm 1): players join in random order, marginals are kept.

In a uniform order a player joins a coalition whose size is uniform on 0..K-1 and which is uniform
given its size. The marginal at size s times K q_s is therefore an unbiased sample of *any*
semivalue with weights q of sizes; for Shapley the factor is one and the scores sum to v(all) exactly.
Antithetic: every order is also read backwards, and the mean of the two is one i.i.d. sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.content_keys import combined_key
from datamarket_gym.execution.arrays import Values
from datamarket_gym.games.game import Game
from datamarket_gym.games.sampling import (
    BATCH_CELLS,
    Checkpoint,
    Moments,
    ask,
    require_budget,
    rows_per_batch,
)
from datamarket_gym.games.semivalues import Estimate, Estimator, Semivalue
from datamarket_gym.registry import Range, register

_WAVES = 32  # with truncation, a permutation is read in about this many pieces


@register("estimator", "permutation")
@dataclass(frozen=True)
class Permutation(Estimator):
    """Let players join in random orders, and credit each with what it adds.

    Parameters
    ----------
    antithetic
        Whether each order is also played backwards.
    truncation
        Once |v(all) - v(prefix)| is at most this, the rest of the order is not evaluated and shares v(all) - v(prefix)
        equally (Shapley scores still sum to v(all)). In a monotone game a truncated marginal is then off by at most
        so much, and so is every score in expectation, for any semivalue: the estimate's ``bias``. Where v can fall
        after the prefix there is no bound, and no guarantee is claimed (see `eta_of`).
    checkpoint
        A file for the running sums after each batch, from which a run resumes with the same result.
    """

    title = "random orders"

    antithetic: Annotated[bool, "each order also reversed"] = True
    truncation: Annotated[
        float, Range(0), "cut orders short; where what is left to gain is at most this, 0: never"
    ] = 0.0
    checkpoint: str | None = None

    def estimate(
        self, game: Game, semivalue: Semivalue, budget: int, rng: np.random.Generator
    ) -> Estimate:
        """Estimate scores and standard errors from budget // K orders, two at least (antithetic: four)."""
        n_players = game.n_players
        together = 2 if self.antithetic else 1
        require_budget(budget, 2 * together * n_players, "permutation", n_players)
        n_samples = budget // (n_players * together)
        factor = n_players * semivalue.size_weights(n_players)

        before = game.asked
        grand = game.grand_value()
        file = Checkpoint(
            self.checkpoint,
            n_players,
            None if game.keys is None else combined_key(game.keys.tolist()),
            grand,
            factor.tolist(),
            budget,
            self.antithetic,
            self.truncation,
            rng.bit_generator.state,
        )
        resumed = file.load(rng)
        moments, done = resumed or (Moments.zeros(n_players), 0)
        before += resumed is not None  # the grand coalition was counted by the run that began
        # A batch holds whole orders, or a piece of each.
        piece = -(-n_players // _WAVES) if self.truncation > 0 else n_players
        at_once = max(1, rows_per_batch(n_players) // (piece * together))
        while moments.count < n_samples:
            n_now = min(at_once, n_samples - moments.count)
            orders = rng.permuted(np.tile(np.arange(n_players), (n_now, 1)), axis=1)
            if self.antithetic:
                orders = np.stack([orders, orders[:, ::-1]], axis=1).reshape(-1, n_players)
            marginals = factor * np.diff(self._prefix_values(game, orders, grand), axis=1)
            samples = np.empty_like(marginals)
            np.put_along_axis(samples, orders, marginals, axis=1)
            share = np.empty_like(marginals)
            weights = np.broadcast_to(factor / factor.max(), orders.shape)
            np.put_along_axis(share, orders, weights, axis=1)
            pairs = samples.reshape(n_now, together, n_players).mean(axis=1)
            moments.add(pairs, share.sum(axis=0))
            file.save(moments, rng, done + game.asked - before)
        return Estimate(
            moments.mean(),
            moments.standard_errors(),
            done + game.asked - before,
            "permutation",
            samples=None if self.truncation > 0 else n_samples,  # truncated marginals are biased
            reach=float(factor.max()),
            bias=self.truncation,
        )

    def _prefix_values(self, game: Game, orders: NDArray[np.int64], grand: float) -> Values:
        """Compute v of the prefixes of length 0..K of each order, shape (B, K + 1)."""
        n_orders, n_players = orders.shape
        values = np.full((n_orders, n_players + 1), grand)
        values[:, 0] = 0.0
        step = max(1, BATCH_CELLS // (n_orders * n_players))
        if self.truncation > 0:
            step = min(step, -(-n_players // _WAVES))
        rank = np.argsort(orders, axis=1)  # of each player in the order
        alive = np.arange(n_orders)
        for start in range(1, n_players, step):
            lengths = np.arange(start, min(start + step, n_players))
            prefixes = rank[alive, None, :] < lengths[:, None]
            computed = ask(game, prefixes.reshape(-1, n_players)).reshape(len(alive), len(lengths))
            values[alive[:, None], lengths] = computed
            if self.truncation > 0:
                near = np.abs(grand - computed) <= self.truncation
                for row in np.flatnonzero(near.any(axis=1)).tolist():
                    stop = int(lengths[near[row].argmax()])
                    values[alive[row], stop:] = np.linspace(
                        values[alive[row], stop], grand, n_players + 1 - stop
                    )
                alive = alive[~near.any(axis=1)]
                if not len(alive):
                    break
        return values
