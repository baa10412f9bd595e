"""Solve coalitions of several games in one batch: descend, certify (`certainty`), drop what is certain, repeat.

A coalition is judged when its gradient has fallen to where the last judgement said certainty would come; most are
judged once or twice. Places of finished coalitions are closed up as they empty, so late sweeps cost little. What is not
certain in the end is left to the caller, unproven. The same lines run on NumPy, on torch and on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from datamarket_gym.execution.arrays import CoalitionMatrix, Codes
from datamarket_gym.utilities.accelerators import array_namespace, is_torch_array
from datamarket_gym.utilities.logistic import certainty as certificate
from datamarket_gym.utilities.logistic import descent
from datamarket_gym.utilities.logistic.descent import Anchor, affordable, anchor, own
from datamarket_gym.utilities.logistic.layout import Array, Slots, Stack, gather, host, slots

_FAR = 0.1  # by how much a gradient should fall before a coalition is tried again that no bound fits


@dataclass(frozen=True)
class Verdict:
    """For each coalition: is it certain, its correct predictions, how far the gradient must fall."""

    certain: Array  # (G, B) bool
    correct: Array  # (G, B) int64
    shrink: Array  # (G, B): estimated factor on the gradient that would make it certain


@np.errstate(invalid="ignore")  # an infinite bound times a row of no length
def judge(weights: Array, gradient: Array, stack: Stack, slots: Slots) -> Verdict:
    """Try to certify the coalitions at parameters (G, B, C, D) with the given gradient there."""
    xp = array_namespace(weights)
    curvature, coupling = _curvature(weights, stack, slots)
    g_b = gradient[..., -1]
    own = slots.inverse[:, :, None] * (gradient[..., :-1] - slots.mean[:, :, None] * g_b[..., None])
    entry = certificate.ROUNDING * slots.mass
    squares = stack.width + xp.sum((slots.mean * slots.inverse) ** 2, axis=2)
    reach = xp.max(xp.where(slots.rows > 0, lengths(slots, stack.squares), 0.0), axis=2)
    pull = slots.penalty[:, :, None, :-1] * weights[..., :-1] * slots.inverse[:, :, None]  # mu W
    blur = certificate.scaling_error((slots.mean * slots.inverse)[:, :, None])
    length = xp.sum(own**2, axis=(2, 3)) ** 0.5 + xp.sum((blur * pull) ** 2, axis=(2, 3)) ** 0.5
    eps, beta = certificate.bound_arrays(
        length + certificate.gradient_error(entry, stack.n_classes, squares),
        g_b,
        curvature,
        slots.present,
        reach * xp.sum(xp.linalg.diagonal(curvature), axis=2) ** 0.5,  # as lmax(A_i) <= trace(A_i)
        reach,
        slots.mu,
        entry,
        coupling,
    )
    score = descent.logits(weights, stack.val)
    tie = certificate.TIE * (1 + xp.max(xp.abs(score), axis=(2, 3)))  # zero in padding
    predicted, margin = certificate.predict_arrays(score + slots.absent[..., None], tie)
    need = certificate.moved(eps[..., None], beta[..., None], lengths(slots, stack.val_squares))
    need = xp.maximum(need, tie[..., None])
    shrink = xp.where((stack.val_label == -2)[:, None], xp.inf, margin / need)
    shrink = xp.min(shrink, axis=2)
    shrink = xp.where(xp.isfinite(eps), shrink, _FAR)
    hits = predicted == stack.val_label[:, None]
    return Verdict(shrink > 1, xp.sum(xp.astype(hits, xp.int64), axis=2), shrink)


def _curvature(weights: Array, stack: Stack, slots: Slots) -> tuple[Array, Array]:
    """N = A' V A and B B' = A' (A A' o T T') A for edge weights V, edge vectors T and incidence A."""
    xp = array_namespace(weights)
    first, second = descent.pairs(stack.n_classes)
    unit = xp.eye(stack.n_classes, dtype=weights.dtype, device=weights.device)
    incidence = unit[first] - unit[second]
    sums = descent.edge_sums(weights, stack, slots)
    edge = sums[..., -1]
    pull = (sums[..., :-1] - slots.mean[:, :, None] * edge[..., None]) * slots.inverse[:, :, None]
    square = (pull @ pull.swapaxes(2, 3)) * (incidence @ incidence.T)
    laplacian = (incidence.T * edge[..., None, :]) @ incidence
    return laplacian, incidence.T @ square @ incidence


def lengths(slots: Slots, squares: Array) -> Array:
    """Upper bounds (G, B, rows) of ||z|| = (sum_j (x_j - m_j)^2 / s_j^2)^(1/2)."""
    xp = array_namespace(squares)
    precision = slots.inverse**2
    middle = precision * slots.mean
    parts = [precision, -2 * middle, xp.sum(middle * slots.mean, axis=2, keepdims=True)]
    total = xp.concat(parts, axis=2) @ squares.swapaxes(1, 2)
    largest = xp.max(xp.abs(total), axis=2, keepdims=True)
    return (xp.clip(total, min=0.0) + 1e-12 * largest) ** 0.5


FIRST_GOAL = 1e-3  # decrement at which a coalition is judged first
MARGIN = 0.8  # of the shrinking that a judgement asked for, as a precaution
_ROUNDING_LEVEL = 1e-13  # decrement, times the root of the mass, below which nothing is gained
_MAX_SWEEPS = 1000
_CONVERGED, _SWEEPS_BETWEEN = 1e-6, 4
"""The decrement, over the root of the mass, of a converged model, and sweeps between two looks at it."""
CLOSE_UP = 0.7  # share of places in use below which they are closed up
_COMPANY = 0.35  # judge when this share of the open ones is due,
_PATIENCE = (6, 16)  # or after so many sweeps (the second where sweeps are quick)
_REFRESH, _FEW = 28, 0.05  # what is open after so many sweeps gets preconditioners of its own; after
# half as many where it is a small share
_LAUNCH_BOUND = 1 << 19  # parameters below which a sweep takes its launches' time, not its work's
_CELLS_CPU, _CELLS_CUDA = 1 << 22, 1 << 32  # numbers held at a time: 32 MB, up to 32 GB


@dataclass
class Answer:
    """Results of one game's coalitions."""

    correct: Codes
    proven: NDArray[np.bool_]
    gradients: int = 0

    @classmethod
    def of(cls, size: int) -> Answer:
        """No coalition is solved so far."""
        return cls(np.zeros(size, np.int64), np.zeros(size, bool))


class BatchedGames:
    """Solves coalitions with at least two classes of the games of a stack."""

    def __init__(self, stack: Stack, jobs: int = 1) -> None:
        self.stack, self.jobs = stack, jobs
        self.cells = 0  # numbers to be held at a time
        self.anchor: Anchor | None = None

    def solve(self, coalitions: Sequence[CoalitionMatrix]) -> list[Answer]:
        """Correct predictions of each game's coalitions, and whether they are proven."""
        answers = [Answer.of(len(c)) for c in coalitions]
        self.cells = cells_of(self.stack.x)
        with (
            threadpool_limits(1, user_api="blas"),
            ThreadPoolExecutor(self.jobs) as pool,
            np.errstate(all="ignore"),
        ):
            if self.anchor is None:
                self.anchor = anchor(self.stack)
            chunks = list(self._chunks([len(c) for c in coalitions]))
            for parts, batch in zip(
                chunks, pool.map(lambda p: self._run(coalitions, p), chunks), strict=True
            ):
                correct, proven = host(batch.correct), host(batch.proven)
                for g, (answer, part) in enumerate(zip(answers, parts, strict=True)):
                    answer.correct[part] = correct[g, : len(part)]
                    answer.proven[part] = proven[g, : len(part)]
                    answer.gradients += batch.gradients[g]
        return answers

    def logits(self, coalitions: CoalitionMatrix) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Compute logits (B, validation rows, C) of converged models of the only game, and which models converged.

        Every coalition has at least two classes; the logit of a class that it lacks is minus infinity.
        """
        stack, size = self.stack, len(coalitions)
        scores = np.empty((size, stack.val.shape[1], stack.n_classes))
        converged = np.zeros(size, dtype=bool)
        self.cells = cells_of(stack.x)

        def fit(part: NDArray[np.int64]) -> None:
            batch, careful = self._batch([coalitions], [part])
            done = batch.converge()
            scores[part] = host(batch.logits())[0].swapaxes(1, 2)
            converged[part] = done[0] & ~host(careful)[0]

        with (
            threadpool_limits(1, user_api="blas"),
            ThreadPoolExecutor(self.jobs) as pool,
            np.errstate(all="ignore"),
        ):
            if self.anchor is None:
                self.anchor = anchor(stack)
            list(pool.map(fit, [part for (part,) in self._chunks([size])]))
        return scores, converged

    def _run(
        self, coalitions: Sequence[CoalitionMatrix], parts: list[NDArray[np.int64]]
    ) -> CoalitionBatch:
        # a problem that runs away is not proven, and `exact` solves it
        with np.errstate(all="ignore"):
            batch, _ = self._batch(coalitions, parts)
            batch.run()
        return batch

    def _batch(
        self, coalitions: Sequence[CoalitionMatrix], parts: list[NDArray[np.int64]]
    ) -> tuple[CoalitionBatch, Array]:
        """Lay out coalitions at their start; the mask says which need more care than this descent takes."""
        assert self.anchor is not None
        places, careful = slots(self.stack, [c[part] for c, part in zip(coalitions, parts, strict=True)])
        active, start = (places.origin >= 0) & ~careful, self.anchor.start(places)
        batch = CoalitionBatch(self.stack, places, active, start, self.anchor.precondition, self.cells)
        return batch, careful

    def _chunks(self, sizes: Sequence[int]) -> Iterator[list[NDArray[np.int64]]]:
        stack, classes = self.stack, self.stack.n_classes
        parameters = classes * stack.width
        vectors = (2 * descent.PAIRS + 10) * parameters
        cells = 3 * classes * max(stack.x.shape[1], stack.val.shape[1]) + vectors
        step = max(1, self.cells // (cells * len(sizes)))
        step = min(step, -(-max(sizes) // self.jobs))  # something for every thread to do
        for start in range(0, max(sizes), step):
            yield [np.arange(min(start, n), min(start + step, n)) for n in sizes]


class CoalitionBatch:
    """Coalitions under way: places, the state of the descent there, and which are to be solved."""

    def __init__(
        self,
        stack: Stack,
        places: Slots,
        active: Array,
        start: Array,
        precondition: Callable[[Array], Array],
        cells: int,
    ) -> None:
        xp = array_namespace(stack.x)
        self.stack, self.slots, self.active, self.cells = stack, places, active, cells
        self.precondition: Any = precondition
        shape, at = places.origin.shape, stack.x.device
        self.goal = xp.full(shape, FIRST_GOAL, dtype=stack.x.dtype, device=at)
        self.correct = xp.zeros(shape, dtype=xp.int64, device=at)
        self.proven = xp.zeros(shape, dtype=xp.bool, device=at)
        self.gradients = [0] * shape[0]
        self._begin(start, descent.loss_gradient(start, stack, places))

    def run(self) -> None:
        """Sweep until every coalition is certain or given up."""
        xp = array_namespace(self.active)
        sweeps = waiting = 0
        refresh_at = _REFRESH
        launched = is_torch_array(self.active) and self.active.is_cuda
        while sweeps < _MAX_SWEEPS:
            # One small transfer; the arithmetic on it is the host's.
            both = xp.stack([self.active, self._due()])
            active, due = xp.sum(xp.astype(both, xp.int64), axis=2).tolist()
            total, ready = sum(active), sum(due)
            if total == 0:
                return
            quick = launched and total * self.stack.n_classes * self.stack.width < _LAUNCH_BOUND
            patience = _PATIENCE[quick] if launched else 1
            # Judging a few at a time wastes launches; they wait a little for company.
            if ready and (ready >= _COMPANY * total or waiting >= patience):
                self._judge(max(due))
                waiting = 0
                continue
            if max(active) <= CLOSE_UP * self.active.shape[1]:
                self._close_up(max(active))
            rare = total <= _FEW * self.correct.shape[0] * self.correct.shape[1]
            late = sweeps >= refresh_at or (rare and sweeps >= refresh_at // 2)
            if late and affordable(self.stack, self.active.shape[0] * self.active.shape[1]):
                self._refresh()
                refresh_at = sweeps + _REFRESH
            burst = 4 if quick else 1
            for _ in range(burst):
                self._sweep()
            self.gradients = [sum_ + burst * n for sum_, n in zip(self.gradients, active, strict=True)]
            sweeps += burst
            waiting = waiting + burst if ready else 0

    def converge(self) -> NDArray[np.bool_]:
        """Sweep until the decrement of every coalition is at most `_CONVERGED`; tell which are there."""
        sweeps = 0
        while sweeps < _MAX_SWEEPS:
            close = host(self.state.decrement <= _CONVERGED * self.slots.mass**0.5)
            if (close | ~host(self.active)).all():
                break
            for _ in range(_SWEEPS_BETWEEN):
                self._sweep()
            sweeps += _SWEEPS_BETWEEN
        return np.asarray(close)

    def logits(self) -> Array:
        """Logits (G, B, C, validation rows), minus infinity for absent classes."""
        return (
            descent.logits(self._shaped(self.state.point), self.stack.val) + self.slots.absent[..., None]
        )

    def _flat(self, weights: Array) -> Array:
        return weights.reshape(*weights.shape[:2], -1)

    def _shaped(self, flat: Array) -> Array:
        return flat.reshape(*flat.shape[:2], self.stack.n_classes, self.stack.width)

    def _begin(self, point: Array, gradient: Array) -> None:
        scaled, live = self._flat(self.precondition(gradient)), self._flat(self.slots.live)
        self.state = descent.begin(self._flat(point), self._flat(gradient), scaled, live)

    def _sweep(self) -> None:
        gradient = descent.loss_gradient(self._shaped(self.state.trial), self.stack, self.slots)
        scaled, live = self._flat(self.precondition(gradient)), self._flat(self.slots.live)
        descent.advance(self.state, self._flat(gradient), scaled, live)

    def _refresh(self) -> None:
        """Coalitions that are still open get their own Hessians, and start from where they are."""
        point = self._shaped(self.state.point)
        self.precondition = own(point, self.stack, self.slots)
        self._begin(point, self._shaped(self.state.slope_vector))

    def _due(self) -> Array:
        return self.active & (self.state.decrement <= self.goal)

    def _judge(self, width: int) -> None:
        xp = array_namespace(self.active)
        index, used = pack(self._due(), width)
        classes, n = self.stack.n_classes, self.stack.x.shape[1]
        each = classes * classes * (n + self.stack.width)
        each += 3 * classes * max(n, self.stack.val.shape[1])
        step = max(1, max(1, self.cells // each) // index.shape[0])
        for start in range(0, width, step):
            at, real = index[:, start : start + step], used[:, start : start + step]
            part: Slots = self.slots.take(at)
            weights = self._shaped(gather(self.state.point, at))
            verdict = judge(weights, self._shaped(gather(self.state.slope_vector, at)), self.stack, part)
            decrement = gather(self.state.decrement, at)
            hopeless = decrement <= _ROUNDING_LEVEL * part.mass**0.5
            goal = decrement * xp.clip(MARGIN * verdict.shrink, min=1e-3, max=0.5)
            game, spot = xp.nonzero(real)
            here, place = at[game, spot] - game * self.active.shape[1], part.origin[game, spot]
            self.goal[game, here] = goal[game, spot]
            self.active[game, here] = ~(verdict.certain | hopeless)[game, spot]
            self.correct[game, place] = verdict.correct[game, spot]
            self.proven[game, place] = verdict.certain[game, spot]

    def _close_up(self, width: int) -> None:
        index, used = pack(self.active, width)
        self.slots, self.state = self.slots.take(index), self.state.take(index)
        self.precondition = self.precondition.take(index)
        self.goal, self.active = gather(self.goal, index), gather(self.active, index) & used


def cells_of(like: Array) -> int:
    """Numbers that may be held at a time where this array is."""
    if not (is_torch_array(like) and like.is_cuda):
        return _CELLS_CPU
    import torch

    free, _ = torch.cuda.mem_get_info(like.device)
    free += torch.cuda.memory_reserved(like.device) - torch.cuda.memory_allocated(like.device)
    return min(_CELLS_CUDA, int(free) // 24)


def pack(chosen: Array, width: int) -> tuple[Array, Array]:
    """Places (G, width) of the chosen ones, counted through all games, and which are real."""
    xp = array_namespace(chosen)
    games, size = chosen.shape
    first = xp.arange(games, device=chosen.device)[:, None] * size
    number = xp.sum(xp.astype(chosen, xp.int64), axis=1)
    used = xp.arange(width, device=chosen.device) < number[:, None]
    index = first + xp.zeros((1, width), dtype=first.dtype, device=chosen.device)
    game, place = xp.nonzero(chosen)
    index[used] = game * size + place  # both in order of game and place
    return index, used
