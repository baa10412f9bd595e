"""Solve coalitions of several games in one batch: descend, certify, drop what is certain, repeat.

A coalition is judged when its gradient has fallen to where the last judgement said certainty would
come; most are judged once or twice. Places of finished coalitions are closed up as they empty, so
late sweeps cost little. What is not certain in the end is left to the caller, unproven.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from datamarket_gym.core.arrays import CoalitionMatrix, Codes
from datamarket_gym.learners.logistic_torch import certificate, descent, sweep
from datamarket_gym.learners.logistic_torch.anchor import Anchor, affordable, anchor, own
from datamarket_gym.learners.logistic_torch.layout import Slots, Stack, gather, slots

FIRST_GOAL = 1e-3  # decrement at which a coalition is judged first
_MARGIN = 0.8  # of the shrinking that a judgement asked for, as a precaution
_ROUNDING_LEVEL = 1e-13  # decrement, times the root of the mass, below which nothing is gained
_MAX_SWEEPS = 1000
_CLOSE_UP = 0.7  # share of places in use below which they are closed up
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


class Engine:
    """Solves coalitions with at least two classes of the games of a stack."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.cells = 0  # numbers to be held at a time
        self._anchor: Anchor | None = None

    def solve(self, coalitions: Sequence[CoalitionMatrix]) -> list[Answer]:
        """Correct predictions of each game's coalitions, and whether they are proven."""
        if self._anchor is None:
            self._anchor = anchor(self.stack)
        self.cells = _cells(self.stack.x.device)
        answers = [Answer(np.zeros(len(c), np.int64), np.zeros(len(c), bool)) for c in coalitions]
        for parts in self._chunks([len(c) for c in coalitions]):
            chosen = [c[part] for c, part in zip(coalitions, parts, strict=True)]
            batch = _Batch(self.stack, self._anchor, chosen, self.cells)
            batch.run()
            correct, proven = batch.correct.cpu().numpy(), batch.proven.cpu().numpy()
            for g, (answer, part) in enumerate(zip(answers, parts, strict=True)):
                answer.correct[part] = correct[g, : len(part)]
                answer.proven[part] = proven[g, : len(part)]
                answer.gradients += batch.gradients[g]
        return answers

    def _chunks(self, sizes: Sequence[int]) -> Iterator[list[NDArray[np.int64]]]:
        stack, classes = self.stack, self.stack.n_classes
        parameters = classes * stack.width
        vectors = (2 * descent.PAIRS + 10) * parameters
        cells = 3 * classes * max(stack.x.shape[1], stack.val.shape[1]) + vectors
        step = max(1, self.cells // (cells * len(sizes)))
        for start in range(0, max(sizes), step):
            yield [np.arange(min(start, n), min(start + step, n)) for n in sizes]


class _Batch:
    """One chunk under way."""

    def __init__(
        self, stack: Stack, anchor: Anchor, coalitions: Sequence[CoalitionMatrix], cells: int
    ) -> None:
        self.stack, self.cells = stack, cells
        self.slots, careful = slots(stack, coalitions, [np.arange(len(c)) for c in coalitions])
        shape = self.slots.origin.shape
        device = self.slots.origin.device
        self.active = (self.slots.origin >= 0) & ~careful
        self.goal = torch.full(shape, FIRST_GOAL, dtype=stack.x.dtype, device=device)
        self.correct = torch.zeros(shape, dtype=torch.int64, device=device)
        self.proven = torch.zeros(shape, dtype=torch.bool, device=device)
        self.gradients = [0] * len(coalitions)
        self.shape = (stack.n_classes, stack.width)
        self.precondition = anchor.precondition
        weights = anchor.start(self.slots)
        self.state = descent.begin(weights.flatten(2), *self._gradient(weights))

    def run(self) -> None:
        """Sweep until every coalition is certain or given up."""
        sweeps = waiting = 0
        refresh_at = _REFRESH
        while sweeps < _MAX_SWEEPS:
            # One small transfer; the arithmetic on it is the host's.
            active, due = torch.stack([self.active, self._due()]).sum(dim=2).tolist()
            total, ready = sum(active), sum(due)
            if total == 0:
                return
            quick = total * self.shape[0] * self.shape[1] < _LAUNCH_BOUND
            patience = _PATIENCE[quick]
            # Judging a few at a time wastes launches; they wait a little for company.
            if ready and (ready >= _COMPANY * total or waiting >= patience):
                self._judge(max(due))
                waiting = 0
                continue
            if max(active) <= _CLOSE_UP * self.active.shape[1]:
                self._close_up(max(active))
            rare = total <= _FEW * self.correct.numel() and sweeps >= refresh_at // 2
            if (rare or sweeps >= refresh_at) and affordable(self.stack, self.active.numel()):
                self._refresh()
                refresh_at = sweeps + _REFRESH
            burst = 4 if quick else 1
            for _ in range(burst):
                weights = self.state.trial.view(*self.active.shape, *self.shape)
                descent.advance(self.state, *self._gradient(weights))
            self.gradients = [sum_ + burst * n for sum_, n in zip(self.gradients, active, strict=True)]
            sweeps += burst
            waiting = waiting + burst if ready else 0

    def _gradient(self, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        gradient = sweep.gradient(weights, self.stack, self.slots)
        scaled = self.precondition(gradient)
        return gradient.flatten(2), scaled.flatten(2), self.slots.live.flatten(2)

    def _refresh(self) -> None:
        """Coalitions that are still open get their own Hessians, and start from where they are."""
        weights = self.state.point.view(*self.active.shape, *self.shape)
        self.precondition = own(weights, self.stack, self.slots)
        slope = self.state.slope_vector
        scaled = self.precondition(slope.view_as(weights)).flatten(2)
        self.state = descent.begin(self.state.point, slope, scaled, self.slots.live.flatten(2))

    def _due(self) -> torch.Tensor:
        return self.active & (self.state.decrement <= self.goal)

    def _judge(self, width: int) -> None:
        index, used = _pack(self._due(), width)
        step = max(1, self._judged_at_once() // len(index))
        for at, real in zip(index.split(step, dim=1), used.split(step, dim=1), strict=True):
            part: Slots = self.slots.take(at)
            weights = gather(self.state.point, at).unflatten(2, self.shape)
            slope = gather(self.state.slope_vector, at).unflatten(2, self.shape)
            verdict = certificate.judge(weights, slope, self.stack, part)
            decrement = gather(self.state.decrement, at)
            hopeless = decrement <= _ROUNDING_LEVEL * part.mass.sqrt()
            goal = decrement * (_MARGIN * verdict.shrink).clamp(1e-3, 0.5)
            places = real.flatten().nonzero()[:, 0]
            here = at.flatten()[places]
            certain = verdict.certain.flatten()[places]
            self.goal.view(-1)[here] = goal.flatten()[places]
            self.active.view(-1)[here] = ~(certain | hopeless.flatten()[places])
            first = torch.arange(len(index), device=at.device)[:, None] * self.correct.shape[1]
            result = (first + part.origin).flatten()[places]
            self.correct.view(-1)[result] = verdict.correct.flatten()[places]
            self.proven.view(-1)[result] = certain

    def _judged_at_once(self) -> int:
        stack, classes = self.stack, self.stack.n_classes
        cells = classes * classes * (stack.x.shape[1] + stack.width)
        cells += 3 * classes * max(stack.x.shape[1], stack.val.shape[1])
        return max(1, self.cells // cells)

    def _close_up(self, width: int) -> None:
        index, used = _pack(self.active, width)
        self.slots, self.state = self.slots.take(index), self.state.take(index)
        self.precondition = self.precondition.take(index)
        self.goal, self.active = gather(self.goal, index), gather(self.active, index) & used


def _cells(device: torch.device) -> int:
    if device.type == "cpu":
        return _CELLS_CPU
    free, _ = torch.cuda.mem_get_info(device)
    free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return min(_CELLS_CUDA, int(free) // 24)


def _pack(chosen: torch.Tensor, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Places (G, width) of the chosen ones, counted through all games, and which are real."""
    games, size = chosen.shape
    first = torch.arange(games, device=chosen.device)[:, None]
    index = (first * size).repeat(1, width)
    used = torch.arange(width, device=chosen.device) < chosen.sum(dim=1, keepdim=True)
    place = chosen.flatten().nonzero()[:, 0]
    rank = (chosen.cumsum(dim=1) - 1 + first * width).flatten()[place]
    index.view(-1)[rank] = place
    return index, used
