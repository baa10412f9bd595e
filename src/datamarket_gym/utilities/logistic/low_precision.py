"""Some coalitions of one size under way in single precision, for `wide`: start, descend, judge, hand on.

The engine for many features on the CPU: in single precision until a proof in double precision holds.

Coalitions are solved in order of size, many at a time on matrix products, each from what is
extrapolated from its subsets. A first few sweeps are preconditioned by the grand coalition's
curvature (`anchor`), the others by the coalition's own (`edges`): 20 gradients instead of 60. Sweeps are in
single precision, which is twice as fast; where a coalition seems solved its gradient is taken in double
precision, and with that the proof (`verdict`). What single precision is too coarse for goes on in
double precision (`batched.CoalitionBatch`), what that does not settle is left to `exact`.
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
from datamarket_gym.utilities.logistic import descent
from datamarket_gym.utilities.logistic import descent as calculus
from datamarket_gym.utilities.logistic.batched import Answer, CoalitionBatch, cells_of, judge, lengths
from datamarket_gym.utilities.logistic.compiled import Ladder, by_size
from datamarket_gym.utilities.logistic.descent import Anchor, anchor, edges, gram
from datamarket_gym.utilities.logistic.layout import Array, Slots, Stack, cast, gather, slots, stack
from datamarket_gym.utilities.logistic.problem import Problem, present

_SHARED = (14, 10, 7, 4)  # sweeps under the shared preconditioner, by the order of the extrapolation
_OWN = 20  # sweeps after which a coalition's own is made anew
_SWEEPS = 60  # in single precision
_GOAL = 1e-3  # decrement at which a coalition is judged first
_MARGIN = 0.8  # of the shrinking that a judgement asked for, as a precaution
_HOPE = 0.5  # of the margins that ||g|| alone may use up for a judgement to be worth it
_NOISE = 1.5  # gradients that ought to be below so many times their rounding error need more digits
_DUE = 0.35  # judge when this share of the open ones is due, or two sweeps later
_CLOSE_UP = 0.7  # share of places in use below which they are closed up


@dataclass(frozen=True)
class WideGame:
    """A game in both precisions, its anchor and the Gram matrix of its rows."""

    stack: Stack
    short: Stack
    anchor: Anchor
    gram: Array | None


def game_of(stack: Stack) -> WideGame:
    """Solve the grand coalition, for starts and preconditioners."""
    short: Stack = cast(stack, np.float32)
    with np.errstate(all="ignore"):
        return WideGame(stack, short, anchor(short), gram(stack))


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
    """Parts of one size as a whole."""
    names = ("solution", "trend", "present", "order")
    return Solved(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


class WidePart:
    """Coalitions of one size with their classes; `run` finds ``correct`` and ``proven``."""

    def __init__(self, game: WideGame, members: CoalitionMatrix, present: NDArray[np.bool_]) -> None:
        self.game, self.members, self.present = game, members, present
        size, shape = len(members), (game.stack.n_classes, game.stack.width)
        self.shape = shape
        self.correct = np.zeros(size, dtype=np.int64)
        self.proven = np.zeros(size, dtype=bool)
        self.gradients = 0
        self.order = np.zeros(size, dtype=np.int64)
        self.start = np.zeros((size, *shape), dtype=np.float32)
        self.said = np.zeros((size, 2, *shape), dtype=np.float32)  # M1, and M1 + mean_i D1(S-i)
        self.solution = np.zeros((size, *shape), dtype=np.float32)

    def extrapolate(self, before: Solved, subset: NDArray[np.intp], found: NDArray[np.bool_]) -> None:
        """Starts M1 + mean_i D1(S-i) + mean_i D2(S-i) / 2 from subsets with the same classes.

        That is halfway between linear and quadratic extrapolation. Trends count by the share of subsets
        that are known.
        """
        for b, (at, there) in enumerate(zip(subset, found, strict=True)):
            known = at[there]
            known = known[(before.present[known] == self.present[b]).all(axis=1)]
            if not len(known):
                continue
            share = np.float32(len(known) / self.members[b].sum())
            first, second = before.trend[known].mean(axis=0) * share
            average = before.solution[known].mean(axis=0)
            self.said[b] = average, average + first
            self.start[b] = average + first + second / 2
            self.order[b] = min(int(before.order[known].min()) + 1, 3)

    def known(self) -> Solved:
        """What larger coalitions start from."""
        trend = self.solution[:, None] - self.said
        trend[self.order < 1, 0] = 0.0
        trend[self.order < 2, 1] = 0.0
        return Solved(self.solution, trend, self.present, self.order)

    @np.errstate(all="ignore")  # a problem that runs away is not proven, and `exact` solves it
    def run(self) -> None:
        """Sweep until every coalition is certain or left to `exact`."""
        game = self.game
        places, careful = slots(game.stack, [self.members])
        self.exactly = places
        self.slots = cast(self.exactly, np.float32)
        self.active = ~careful[0]
        self.goal = np.full(len(self.members), _GOAL)
        self.aim = self.goal.copy()
        self.lengths = lengths(self.slots, game.short.val_squares)[0]
        self.left: list[int] = []
        weights = game.anchor.start(self.slots).astype(np.float32)
        said = self.order > 0
        weights[0, said] = self.start[said] * self.slots.live[0, said]
        self.precondition: Any = game.anchor.precondition
        self._begin(weights, calculus.loss_gradient(weights, game.short, self.slots))
        self.solution[:] = weights[0]
        for _ in range(_SHARED[int(self.order.min())]):
            self._sweep()
        own_at, waiting = 0, 0
        for sweep in range(_SWEEPS):
            if sweep == own_at and game.gram is not None:
                self._own()
                own_at += _OWN
            due = self.active & (self.state.decrement[0] <= self.goal)
            if due.any() and (due.sum() >= _DUE * self.active.sum() or waiting >= 2):
                hopeful = self._hopeful(np.flatnonzero(due))
                if len(hopeful):
                    self._judge(hopeful)
                waiting = 0
            waiting += int(due.any())
            if not self.active.any():
                break
            if self.active.mean() <= _CLOSE_UP:
                self._close_up()
            self._sweep()
        self._leave(np.flatnonzero(self.active))
        self._finish(places)

    def _flat(self, weights: Array) -> Array:
        return weights.reshape(1, weights.shape[1], -1)

    def _shaped(self, flat: Array) -> Array:
        return flat.reshape(1, flat.shape[1], *self.shape)

    def _begin(self, point: Array, gradient: Array) -> None:
        scaled = self._flat(self.precondition(gradient))
        live = self._flat(self.slots.live)
        self.state = descent.begin(self._flat(point), self._flat(gradient), scaled, live)

    def _sweep(self) -> None:
        gradient = calculus.loss_gradient(self._shaped(self.state.trial), self.game.short, self.slots)
        scaled = self._flat(self.precondition(gradient))
        descent.advance(self.state, self._flat(gradient), scaled, self._flat(self.slots.live))
        self.gradients += int(self.active.sum())

    def _own(self) -> None:
        """Preconditioners from the curvature where the coalitions are now."""
        point = self._shaped(self.state.point)
        self.precondition = edges(point, self.game.short, self.slots, self.game.gram)
        self._begin(point, self._shaped(self.state.slope_vector))

    def _hopeful(self, at: NDArray[np.intp]) -> NDArray[np.intp]:
        """Those of the places that a proof may be found for; others are told how far they have to go.

        A proof needs margins of more than sqrt(2) ||g_W|| ||x|| / lambda, and what its other terms take.
        """
        weights, gradient = (
            self._shaped(v[:, at])[0] for v in (self.state.point, self.state.slope_vector)
        )
        part = self.slots.take(at[None])
        score = calculus.logits(weights[None], self.game.short.val) + part.absent[..., None]
        best = np.partition(score[0], -2, axis=1)[:, -2:]
        free = (best[:, 1] - best[:, 0]) / self.lengths[part.origin[0]]
        own = part.inverse[0, :, None] * (
            gradient[..., :-1] - part.mean[0, :, None] * gradient[..., -1:]
        )
        most = _HOPE * part.mu[0] * free.min(axis=1) / (np.sqrt(2) * np.linalg.norm(own, axis=(1, 2)))
        hope = ~(most < 1)
        self.goal[at[~hope]] = self.state.decrement[0, at[~hope]] * np.maximum(most[~hope], 1e-3)
        return at[hope]

    def _judge(self, at: NDArray[np.intp]) -> None:
        """Take gradients in double precision, and what they prove."""
        places = self.exactly.take(at[None])
        point = self._shaped(self.state.point[:, at]).astype(np.float64)
        gradient = calculus.loss_gradient(point, self.game.stack, places)
        self.gradients += len(at)
        verdict = judge(point, gradient, self.game.stack, places)
        origin = places.origin[0]
        certain = verdict.certain[0]
        self.correct[origin], self.proven[origin] = verdict.correct[0], certain
        self.solution[origin] = point[0]
        size = np.linalg.norm(gradient[0], axis=(1, 2))
        noise = np.linalg.norm((gradient - self._shaped(self.state.slope_vector[:, at]))[0], axis=(1, 2))
        asked = np.clip(_MARGIN * verdict.shrink[0], 1e-3, 0.5)
        self.goal[at] = self.state.decrement[0, at] * asked
        coarse = ~certain & ~(asked * size > _NOISE * noise)
        self._leave(at[coarse])
        self.active[at] &= ~(certain | coarse)

    def _leave(self, at: NDArray[np.intp]) -> None:
        """Put coalitions aside that need double precision."""
        origin = self.exactly.origin[0, at]
        self.solution[origin] = self._shaped(self.state.point[:, at])[0]
        self.left.extend(origin.tolist())
        self.aim[origin] = self.goal[at]

    def _finish(self, places: Slots) -> None:
        """Go on in double precision with what was put aside."""
        if not self.left:
            return
        game, origin = self.game, np.array(self.left)
        index, number = origin[None], np.arange(len(origin))[None]
        places = replace(places.take(index), origin=number)
        short, point = cast(places, np.float32), self.solution[index]
        precondition: Any = game.anchor.precondition
        if game.gram is not None:
            precondition = edges(point, game.short, short, game.gram)
        weights = point.astype(np.float64)
        gradient = calculus.loss_gradient(weights, game.stack, places)
        scaled, live = self._flat(precondition(gradient)), self._flat(places.live)
        state = descent.begin(self._flat(weights), self._flat(gradient), scaled, live)
        batch = CoalitionBatch(
            game.stack, places, number >= 0, state, precondition, cells_of(game.stack.x)
        )
        batch.goal[0] = self.aim[origin]
        batch.run()
        self.correct[origin], self.proven[origin] = batch.correct[0], batch.proven[0]
        self.gradients += batch.gradients[0]

    def _close_up(self) -> None:
        index = np.flatnonzero(self.active)[None]
        self.slots, self.exactly = self.slots.take(index), self.exactly.take(index)
        self.state, self.precondition = self.state.take(index), self.precondition.take(index)
        self.goal, self.active = gather(self.goal[None], index)[0], self.active[index[0]]


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
        correct = np.zeros(len(coalitions), dtype=np.int64)
        proven = np.zeros(len(coalitions), dtype=bool)
        gradients = 0
        sizes = by_size(coalitions)
        if len(coalitions) < _COMPANY * len(sizes):
            sizes = [np.arange(len(coalitions))]
        ladder, having = Ladder(coalitions.shape[1]), present(coalitions, self.problem.classes)
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(self.jobs) as pool:
            if self._game is None:
                self._game = game_of(self.stack)
            before = None
            for rows in sizes:
                members = coalitions[rows]
                subset, found = ladder.subsets(members, int(members[0].sum()))
                step = self._step(len(rows))
                places = [slice(a, a + step) for a in range(0, len(rows), step)]
                parts = [WidePart(self._game, members[at], having[rows[at]]) for at in places]
                if before is not None:
                    for part, at in zip(parts, places, strict=True):
                        part.extrapolate(before, subset[at], found[at])
                list(pool.map(WidePart.run, parts))
                for part, at in zip(parts, places, strict=True):
                    correct[rows[at]], proven[rows[at]] = part.correct, part.proven
                    gradients += part.gradients
                small = len(rows) * self.stack.n_classes * self.stack.width <= _KEPT
                before = joined([part.known() for part in parts]) if small else None
        return Answer(correct, proven, gradients)

    def _step(self, number: int) -> int:
        """Coalitions at a time: as many for each thread, and fewer where they are large."""
        classes, n = self.stack.n_classes, max(self.stack.x.shape[1], self.stack.val.shape[1])
        one = 3 * classes * n + (2 * descent.PAIRS + 10) * classes * self.stack.width
        most = max(1, min(_TOGETHER, 2 * cells_of(self.stack.x) // one))
        parts = -(-number // (most * self.jobs)) * self.jobs
        return -(-number // parts)
