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

from datamarket_gym.learners.logistic_torch import certificate, descent, sweep
from datamarket_gym.learners.logistic_torch.anchor import Anchor, anchor
from datamarket_gym.learners.logistic_torch.layout import Slots, Stack, gather, slots
from datamarket_gym.typing import CoalitionMatrix, Codes

FIRST_GOAL = 1e-3  # decrement at which a coalition is judged first
_MARGIN = 0.8  # of the shrinking that a judgement asked for, as a precaution
_ROUNDING_LEVEL = 1e-13  # decrement, times the root of the mass, below which nothing is gained
_MAX_SWEEPS = 1000
_CLOSE_UP = 0.8  # share of places in use below which they are closed up
_CELLS = {"cpu": 1 << 23, "cuda": 1 << 31}  # numbers held at a time: 64 MB, 16 GB


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
        self._anchor: Anchor | None = None

    def solve(self, coalitions: Sequence[CoalitionMatrix]) -> list[Answer]:
        """Correct predictions of each game's coalitions, and whether they are proven."""
        if self._anchor is None:
            self._anchor = anchor(self.stack)
        answers = [Answer(np.zeros(len(c), np.int64), np.zeros(len(c), bool)) for c in coalitions]
        for parts in self._chunks([len(c) for c in coalitions]):
            chosen = [c[part] for c, part in zip(coalitions, parts, strict=True)]
            batch = _Batch(self.stack, self._anchor, chosen)
            batch.run()
            correct, proven = batch.correct.cpu().numpy(), batch.proven.cpu().numpy()
            gradients = batch.gradients.cpu().numpy()
            for g, (answer, part) in enumerate(zip(answers, parts, strict=True)):
                answer.correct[part] = correct[g, : len(part)]
                answer.proven[part] = proven[g, : len(part)]
                answer.gradients += int(gradients[g])
        return answers

    def _chunks(self, sizes: Sequence[int]) -> Iterator[list[NDArray[np.int64]]]:
        stack, classes = self.stack, self.stack.n_classes
        parameters = classes * stack.width
        vectors = (2 * descent.pairs(parameters) + 10) * parameters
        cells = 3 * classes * max(stack.x.shape[1], stack.val.shape[1]) + vectors
        step = max(1, _CELLS[stack.x.device.type] // (cells * len(sizes)))
        for start in range(0, max(sizes), step):
            yield [np.arange(min(start, n), min(start + step, n)) for n in sizes]


class _Batch:
    """One chunk under way."""

    def __init__(
        self, stack: Stack, anchor: Anchor, coalitions: Sequence[CoalitionMatrix]
    ) -> None:
        self.stack, self.anchor = stack, anchor
        self.slots, careful = slots(stack, coalitions, [np.arange(len(c)) for c in coalitions])
        shape = self.slots.origin.shape
        device = self.slots.origin.device
        self.active = (self.slots.origin >= 0) & ~careful
        self.goal = torch.full(shape, FIRST_GOAL, dtype=stack.x.dtype, device=device)
        self.correct = torch.zeros(shape, dtype=torch.int64, device=device)
        self.proven = torch.zeros(shape, dtype=torch.bool, device=device)
        self.gradients = torch.zeros(len(coalitions), dtype=torch.int64, device=device)
        self.shape = (stack.n_classes, stack.width)
        weights = anchor.start(self.slots)
        self.state = descent.begin(weights.flatten(2), *self._gradient(weights))

    def run(self) -> None:
        """Sweep until every coalition is certain or given up."""
        waiting = 0
        for _ in range(_MAX_SWEEPS):
            counts = torch.stack([self.active.sum(dim=1), self._due().sum(dim=1)])
            most, due = counts.amax(dim=1).tolist()
            if most == 0:
                return
            if most <= _CLOSE_UP * self.active.shape[1] and not due:
                self._close_up(most)
            waiting = waiting + 1 if due else 0
            # Judging a few at a time wastes launches; they wait a little for company.
            if due and (16 * due >= most or waiting >= 3):
                self._judge(due)
                waiting = 0
                continue
            self.gradients += counts[0]
            weights = self.state.trial.view(*self.active.shape, *self.shape)
            descent.advance(self.state, *self._gradient(weights))

    def _gradient(self, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        gradient = sweep.gradient(weights, self.stack, self.slots)
        scaled = self.anchor.precondition(gradient, self.slots.live)
        return gradient.flatten(2), scaled.flatten(2)

    def _due(self) -> torch.Tensor:
        return self.active & (self.state.decrement <= self.goal)

    def _judge(self, width: int) -> None:
        index, used = _pack(self._due(), width)
        game = torch.arange(len(index), device=index.device)[:, None].expand_as(index)
        step = max(1, self._judged_at_once() // len(index))
        for start in range(0, width, step):
            at = index[:, start : start + step]
            part: Slots = self.slots.take(at)
            weights = gather(self.state.point, at).unflatten(2, self.shape)
            slope = gather(self.state.slope_vector, at).unflatten(2, self.shape)
            verdict = certificate.judge(weights, slope, self.stack, part)
            decrement = gather(self.state.decrement, at)
            goal = decrement * (_MARGIN * verdict.shrink).clamp(1e-3, 0.5)
            hopeless = decrement <= _ROUNDING_LEVEL * part.mass.sqrt()
            real = used[:, start : start + step]
            over = real & (verdict.certain | hopeless)
            self.goal[game[:, start : start + step][real], at[real]] = goal[real]
            self.active[game[:, start : start + step][over], at[over]] = False
            sure = real & verdict.certain
            place = game[:, start : start + step][sure], part.origin[sure]
            self.correct[place], self.proven[place] = verdict.correct[sure], True

    def _judged_at_once(self) -> int:
        stack, classes = self.stack, self.stack.n_classes
        cells = classes * classes * (stack.x.shape[1] + stack.width)
        cells += 3 * classes * max(stack.x.shape[1], stack.val.shape[1])
        return max(1, _CELLS[stack.x.device.type] // cells)

    def _close_up(self, width: int) -> None:
        index, used = _pack(self.active, width)
        self.slots, self.state = self.slots.take(index), self.state.take(index)
        self.goal, self.active = gather(self.goal, index), gather(self.active, index) & used


def _pack(chosen: torch.Tensor, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Places (G, width) of the chosen ones of each game, and which of these are real."""
    index = torch.zeros(len(chosen), width, dtype=torch.int64, device=chosen.device)
    used = torch.zeros(len(chosen), width, dtype=torch.bool, device=chosen.device)
    game, place = chosen.nonzero(as_tuple=True)
    rank = (chosen.cumsum(dim=1) - 1)[game, place]
    index[game, rank], used[game, rank] = place, True
    return index, used
