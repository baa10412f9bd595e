"""The engine for many features on the CPU: in single precision until a proof in double precision holds.

Coalitions are solved in order of size, many at a time on matrix products, each from what is extrapolated from its
subsets. A first few sweeps are preconditioned by the grand coalition's curvature (`anchor`), the others by the
coalition's own (`edges`): 20 gradients instead of 60. Sweeps are in single precision, which is twice as fast; where a
coalition seems solved its gradient is taken in double precision, and with that the proof (`judge`). What single
precision is too coarse for goes on in double precision (`CoalitionBatch`), what that does not settle is left to
`certainty`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from datamarket_gym.execution.arrays import CoalitionMatrix
from datamarket_gym.utilities.logistic.batched import (
    CLOSE_UP,
    MARGIN,
    Answer,
    CoalitionBatch,
    cells_of,
    judge,
    lengths,
    pack,
)
from datamarket_gym.utilities.logistic.compiled import Ladder, by_size
from datamarket_gym.utilities.logistic.descent import PAIRS, anchor, edges, gram, logits, loss_gradient
from datamarket_gym.utilities.logistic.layout import Slots, Stack, cast, slots, stack
from datamarket_gym.utilities.logistic.problem import Problem, present

_SHARED = (14, 10, 7, 4)  # sweeps under the shared preconditioner, by the order of the extrapolation
_OWN = 20  # sweeps after which a coalition's own is made anew
_SWEEPS = 60  # in single precision
_HOPE = 0.5  # of the margins that ||g|| alone may use up for a judgement to be worth it
_NOISE = 1.5  # gradients that ought to be below so many times their rounding error need more digits
_DUE = 0.35  # judge when this share of the open ones is due, or two sweeps later


class WideGame:
    """A game in both precisions, its anchor (for starts and preconditioners) and the Gram matrix of its rows."""

    def __init__(self, stack: Stack) -> None:
        self.stack, self.gram = stack, gram(stack)
        self.short: Stack = cast(stack, np.float32)
        with np.errstate(all="ignore"):
            self.anchor = anchor(self.short)


@dataclass(frozen=True)
class Solved:
    """Solutions of one size, and by how much they are not what their subsets said.

    With M1(S) = mean_i W(S-i), the first trend is D1 = W - M1 and the second D1(S) - mean_i D1(S-i).
    ``order`` is how many sizes of subsets a start was extrapolated from, at most 3.
    """

    solution: NDArray[np.float32]  # (B, C, D)
    trend: NDArray[np.float32]  # (B, 2, C, D)
    present: NDArray[np.bool_]  # (B, C)
    order: NDArray[np.int64]  # (B,)


def joined(parts: Sequence[Solved]) -> Solved:
    names = ("solution", "trend", "present", "order")
    return Solved(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


class WidePart(CoalitionBatch):
    """Coalitions of one size with their classes; `run` finds ``correct`` and ``proven``, (1, B)."""

    @np.errstate(all="ignore")
    def __init__(
        self,
        game: WideGame,
        members: CoalitionMatrix,
        present: NDArray[np.bool_],
        before: Solved | None,
        subset: NDArray[np.intp],
        known: NDArray[np.bool_],
    ) -> None:
        """Start from M1 + mean_i D1(S-i) + mean_i D2(S-i) / 2 over the known subsets with the same classes.

        That is halfway between linear and quadratic extrapolation. Trends count by the share of subsets
        that are known.
        """
        self.game, self.present = game, present
        self.exactly, careful = slots(game.stack, [members])
        places = cast(self.exactly, np.float32)
        start = game.anchor.start(places).astype(np.float32)
        self.order = np.zeros(len(members), dtype=np.int64)
        self.expected = np.zeros((len(members), 2, *start.shape[2:]), dtype=np.float32)
        for b in range(len(members) if before is not None else 0):
            assert before is not None
            near = subset[b, known[b]]
            near = near[(before.present[near] == present[b]).all(axis=1)]
            if not len(near):
                continue
            share = np.float32(len(near) / members[b].sum())
            first, second = before.trend[near].mean(axis=0) * share
            average = before.solution[near].mean(axis=0)
            self.expected[b] = average, average + first
            start[0, b] = (average + first + second / 2) * places.live[0, b]
            self.order[b] = min(int(before.order[near].min()) + 1, 3)
        cells = cells_of(game.stack.x)
        super().__init__(game.short, places, ~careful, start, game.anchor.precondition, cells)
        self.aim = self.goal[0].copy()
        self.lengths = lengths(places, game.short.val_squares)[0]
        self.left: list[int] = []
        self.solution = start[0].copy()

    def solved(self) -> Solved:
        """Return the starts of larger coalitions."""
        trend = self.solution[:, None] - self.expected
        trend[self.order < 1, 0] = 0.0
        trend[self.order < 2, 1] = 0.0
        return Solved(self.solution, trend, self.present, self.order)

    @np.errstate(all="ignore")  # a problem that runs away is not proven, and `certainty` solves it
    def run(self) -> None:
        """Sweep until every coalition is certain or left to `certainty`."""
        game, places = self.game, self.exactly
        for _ in range(_SHARED[int(self.order.min())]):
            self._sweep()
        own_at, waiting = 0, 0
        for sweep in range(_SWEEPS):
            if sweep == own_at and game.gram is not None:
                # preconditioners from the curvature where the coalitions are now
                point = self._shaped(self.state.point)
                self.precondition = edges(point, game.short, self.slots, game.gram)
                self._begin(point, self._shaped(self.state.slope_vector))
                own_at += _OWN
            due = np.flatnonzero(self._due()[0])
            if len(due) and (len(due) >= _DUE * self.active.sum() or waiting >= 2):
                hopeful = self._hopeful(due)
                if len(hopeful):
                    self._prove(hopeful)
                waiting = 0
            waiting += int(len(due) > 0)
            if not self.active.any():
                break
            if self.active.mean() <= CLOSE_UP:
                self._close_up(int(self.active.sum()))
            self._sweep()
        self._leave(np.flatnonzero(self.active[0]))
        if self.left:
            self._finish(places)

    def _sweep(self) -> None:
        super()._sweep()
        self.gradients[0] += int(self.active.sum())

    def _hopeful(self, at: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the places that may be proven; others get a goal by how far they have to go.

        A proof needs margins of more than sqrt(2) ||g_W|| ||x|| / lambda, and what its other terms take.
        """
        weights, gradient = (
            self._shaped(v[:, at])[0] for v in (self.state.point, self.state.slope_vector)
        )
        part = self.slots.take(at[None])
        score = logits(weights[None], self.stack.val) + part.absent[..., None]
        best = np.partition(score[0], -2, axis=1)[:, -2:]
        free = (best[:, 1] - best[:, 0]) / self.lengths[part.origin[0]]
        own = part.inverse[0, :, None] * (
            gradient[..., :-1] - part.mean[0, :, None] * gradient[..., -1:]
        )
        most = _HOPE * part.mu[0] * free.min(axis=1) / (np.sqrt(2) * np.linalg.norm(own, axis=(1, 2)))
        hope = ~(most < 1)
        self.goal[0, at[~hope]] = self.state.decrement[0, at[~hope]] * np.maximum(most[~hope], 1e-3)
        return at[hope]

    def _prove(self, at: NDArray[np.intp]) -> None:
        """Take gradients in double precision, and what they prove."""
        places = self.exactly.take(at[None])
        point = self._shaped(self.state.point[:, at]).astype(np.float64)
        gradient = loss_gradient(point, self.game.stack, places)
        self.gradients[0] += len(at)
        verdict = judge(point, gradient, self.game.stack, places)
        origin, certain = places.origin[0], verdict.certain[0]
        self.correct[0, origin], self.proven[0, origin] = verdict.correct[0], certain
        self.solution[origin] = point[0]
        size = np.linalg.norm(gradient[0], axis=(1, 2))
        noise = np.linalg.norm((gradient - self._shaped(self.state.slope_vector[:, at]))[0], axis=(1, 2))
        shrink = np.clip(MARGIN * verdict.shrink[0], 1e-3, 0.5)
        self.goal[0, at] = self.state.decrement[0, at] * shrink
        coarse = ~certain & ~(shrink * size > _NOISE * noise)
        self._leave(at[coarse])
        self.active[0, at] &= ~(certain | coarse)

    def _leave(self, at: NDArray[np.intp]) -> None:
        """Put coalitions aside that need double precision."""
        origin = self.exactly.origin[0, at]
        self.solution[origin] = self._shaped(self.state.point[:, at])[0]
        self.left.extend(origin.tolist())
        self.aim[origin] = self.goal[0, at]

    def _finish(self, places: Slots) -> None:
        """Go on in double precision with what was put aside."""
        game, origin = self.game, np.array(self.left)
        index, number = origin[None], np.arange(len(origin))[None]
        places, point = replace(places.take(index), origin=number), self.solution[index]
        precondition: Any = game.anchor.precondition
        if game.gram is not None:
            precondition = edges(point, game.short, cast(places, np.float32), game.gram)
        batch = CoalitionBatch(
            game.stack, places, number >= 0, point.astype(np.float64), precondition, self.cells
        )
        batch.goal[0] = self.aim[origin]
        batch.run()
        self.correct[0, origin], self.proven[0, origin] = batch.correct[0], batch.proven[0]
        self.gradients[0] += batch.gradients[0]

    def _close_up(self, width: int) -> None:
        self.exactly = self.exactly.take(pack(self.active, width)[0])
        super()._close_up(width)


_KEPT = 20_000_000  # numbers of the last size's solutions kept for warm starts (240 MB with trends)
_COMPANY = 6  # coalitions of a size from which it is worth going size by size
_TOGETHER = 72  # coalitions at a time: products are large, and what they need stays in the cache


class Wide:
    """The engine for many features."""

    def __init__(self, problem: Problem, C: float, jobs: int) -> None:
        self.problem, self.jobs = problem, jobs
        self.stack = stack([problem], C, np.empty(0))
        self._game: WideGame | None = None

    def solve(self, coalitions: CoalitionMatrix) -> Answer:
        """Solve coalitions with at least two classes; what is not proven is solved again by `certainty`."""
        answer, sizes = Answer.of(len(coalitions)), by_size(coalitions)
        if len(coalitions) < _COMPANY * len(sizes):
            sizes = [np.arange(len(coalitions))]
        ladder, having = Ladder(coalitions.shape[1]), present(coalitions, self.problem.classes)
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(self.jobs) as pool:
            if self._game is None:
                self._game = WideGame(self.stack)
            game, before = self._game, None
            for rows in sizes:
                members = coalitions[rows]
                subset, known = ladder.subsets(members, int(members[0].sum()))
                step = self._step(len(rows))
                places = [slice(a, a + step) for a in range(0, len(rows), step)]
                parts = [
                    WidePart(game, members[at], having[rows[at]], before, subset[at], known[at])
                    for at in places
                ]
                list(pool.map(WidePart.run, parts))
                for part, at in zip(parts, places, strict=True):
                    answer.correct[rows[at]], answer.proven[rows[at]] = part.correct[0], part.proven[0]
                    answer.gradients += part.gradients[0]
                small = len(rows) * self.stack.n_classes * self.stack.width <= _KEPT
                before = joined([part.solved() for part in parts]) if small else None
        return answer

    def _step(self, number: int) -> int:
        """Coalitions at a time: as many for each thread, and fewer where they are large."""
        classes, n = self.stack.n_classes, max(self.stack.x.shape[1], self.stack.val.shape[1])
        one = 3 * classes * n + (2 * PAIRS + 10) * classes * self.stack.width
        most = max(1, min(_TOGETHER, 2 * cells_of(self.stack.x) // one))
        parts = -(-number // (most * self.jobs)) * self.jobs
        return -(-number // parts)
