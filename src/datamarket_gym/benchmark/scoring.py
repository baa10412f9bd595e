"""Scores: functions of the rows alone.

Of a mechanism, over markets (task and draw) and attacks:

    worst case     the largest, over tasks and attacks, of the mean gain over draws
    best response  the mean over markets of the largest gain there, of the suite's attacks and the searched one
    mean gain      the mean over markets and attacks
    fairness loss  the mean over markets, honest and attacked, of the part of the pot that is with the wrong provider
    efficiency     the mean over markets, honest and attacked, of what is paid over what honest data are worth, or
                   the other way round if more is paid: nothing kept back, nothing made up
    loss           (best response - 1) + fairness loss + (1 - efficiency): what ranks; less is better

Standard errors are over draws, tasks taken apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.benchmark.blind_markets import measured_gain
from datamarket_gym.benchmark.bundles import AttackRow, Bundle, BundleError, MechanismRow
from datamarket_gym.benchmark.runner import BEST, HONEST
from datamarket_gym.benchmark.suite import Suite, suite

R = TypeVar("R", MechanismRow, AttackRow)

_TOLERANCE = 1e-8  # amounts are written to ten digits


@dataclass(frozen=True)
class Score:
    """A mean and its standard error; none where there is one draw a task."""

    value: float
    error: float | None = None


@dataclass(frozen=True)
class MechanismScores:
    """What the module's docstring defines, and what paying costs."""

    loss: Score
    best_response: Score
    worst_case: Score
    worst_attack: str
    mean_gain: Score
    fairness_loss: Score
    efficiency: Score
    seconds: float  # to pay one market
    evaluations: float | None  # coalitions valued to pay one market, where that is known


@dataclass(frozen=True)
class AttackScores:
    """The mean gain against each of the suite's mechanisms, and over all of them, which ranks: more is better."""

    gain: Score
    against: dict[str, Score]


def gain(row: MechanismRow | AttackRow) -> float:
    return measured_gain(row.pay, row.honest_pay, row.pot, row.providers)


def require_complete(bundle: Bundle) -> Suite:
    """Return the part of the suite that was played; raise where rows are missing, double, or contradict one another."""
    manifest, whole = bundle.manifest, suite()
    if (manifest.suite, manifest.suite_hash) != (whole.name, whole.hash):
        raise BundleError(f"it is of another suite than {whole.name} with hash {whole.hash[:12]}")
    if (manifest.seeds == "private") != bool(manifest.commitment):
        raise BundleError("it does not say by which key its markets were drawn")
    if manifest.entry.checks > whole.most_checks:
        raise BundleError(f"it checks more than {whole.most_checks} units of each payee")
    part = whole.part(manifest.quick)
    if bundle.entry.track == "mechanism":
        against = [HONEST, *(attack.name for attack in part.attacks), BEST]
    else:
        against = [opponent.label for opponent in part.opponents]
    needed = {(task, draw, each) for task, draw in part.cells for each in against}
    present = [(row.task, row.draw, row.against) for row in bundle.rows]
    if len(present) != len(set(present)):
        raise BundleError("a row is there twice")
    if set(present) != needed:
        raise BundleError(
            f"{len(needed - set(present))} rows of the suite are missing and {len(set(present) - needed)} are not of it"
        )
    _require_agreeing(bundle)
    return part


def _require_agreeing(bundle: Bundle) -> None:
    """Raise where rows of a market, or of a mechanism when all are honest, disagree."""
    seen: dict[tuple[object, ...], MechanismRow | AttackRow] = {}
    for row in bundle.rows:
        market = (row.task, row.draw)
        first = seen.setdefault(market, row)
        if (row.worth, row.providers) != (first.worth, first.providers):
            raise BundleError(f"rows of {row.task}, draw {row.draw}, are of different markets")
        if isinstance(row, MechanismRow):
            if (row.honest_pay, row.pot) != (first.honest_pay, first.pot):
                raise BundleError(f"rows of {row.task}, draw {row.draw}, disagree on honest pay")
            if row.attack == HONEST and abs(row.pay - row.honest_pay) > _TOLERANCE * row.pot:
                raise BundleError(f"honesty gains something in {row.task}, draw {row.draw}")
            if row.attack == HONEST and abs(row.paid - row.pot) > _TOLERANCE * row.pot:
                raise BundleError(f"what is paid in {row.task}, draw {row.draw}, is not the honest pot")
        if row.honest_pay > row.pot * (1 + _TOLERANCE) or row.pay > row.paid * (1 + _TOLERANCE):
            raise BundleError(f"{row.task}, draw {row.draw}: one provider is paid more than all")


def mechanism_scores(rows: Sequence[MechanismRow], part: Suite) -> MechanismScores:
    library = [attack.name for attack in part.attacks]
    gains = _table(rows, part, library, gain)
    attack, task = np.unravel_index(gains.mean(axis=2).argmax(), gains.shape[:2])
    best = np.maximum(_table(rows, part, [*library, BEST], gain).max(axis=0), 1.0)
    fair = _table(rows, part, [HONEST, *library], lambda row: row.fairness_loss).mean(axis=0)
    paid = _table(rows, part, [HONEST, *library], _efficiency).mean(axis=0)
    evaluations = [row.evaluations for row in rows if row.evaluations is not None]
    return MechanismScores(
        loss=_score(best - 1.0 + fair + 1.0 - paid),
        best_response=_score(best),
        worst_case=_score(gains[attack, task][None]),
        worst_attack=f"{library[attack]}, {part.tasks[task].name}",
        mean_gain=_score(gains.mean(axis=0)),
        fairness_loss=_score(fair),
        efficiency=_score(paid),
        seconds=float(np.mean([row.seconds for row in rows])),
        evaluations=float(np.mean(evaluations)) if evaluations else None,
    )


def attack_scores(rows: Sequence[AttackRow], part: Suite) -> AttackScores:
    labels = [opponent.label for opponent in part.opponents]
    gains = _table(rows, part, labels, gain)
    against = {label: _score(table) for label, table in zip(labels, gains, strict=True)}
    return AttackScores(_score(gains.mean(axis=0)), against)


def _table(
    rows: Sequence[R], part: Suite, against: Sequence[str], number: Callable[[R], float]
) -> NDArray[np.float64]:
    """Return a number of each row by what was played against, task and draw."""
    cells = {(row.against, row.task, row.draw): number(row) for row in rows}
    return np.array(
        [
            [[cells[name, task.name, d] for d in range(part.draws)] for task in part.tasks]
            for name in against
        ]
    )


def _efficiency(row: MechanismRow) -> float:
    return min(row.paid, row.worth) / max(row.paid, row.worth)


def _score(by_task: NDArray[np.float64]) -> Score:
    """Return the mean over tasks and draws, with its standard error over draws, tasks taken apart."""
    value, draws = float(by_task.mean()), by_task.shape[1]
    if draws < 2:
        return Score(value)
    return Score(value, math.sqrt(by_task.var(axis=1, ddof=1).sum() / draws) / len(by_task))
