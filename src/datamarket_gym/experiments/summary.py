"""From tidy results to summary rows: means over seeds, each beside the paper's number.

A seed is one independent draw: within it, values over pooled axes are averaged first, and a standard
error is taken over the seeds' means. Where all seeds give one number, or there is one seed, there is none.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from datamarket_gym.analysis.metrics import ROUNDING
from datamarket_gym.errors import DataMarketError, ParameterError, UnknownNameError
from datamarket_gym.execution.arrays import Values
from datamarket_gym.experiments.cells import Row
from datamarket_gym.experiments.paper import with_paper
from datamarket_gym.experiments.spec import ExperimentSpec, Ranges, Where

NUMBERS = (
    "experiment", "metric", "value", "se", "seeds", "left_out", "redrawn",
    "paper", "tolerance", "within", "best_attack",
)  # fmt: skip
"""What a summary row holds beside its labels: ``seeds`` counts those the value rests on, ``left_out``
names those it does not rest on, and ``redrawn`` those that played another market."""

AVERAGED = (
    "gain_additive", "victim_loss", "victim_loss_sum", "theft",
    "oracle_l1", "rank_stability", "utility", "mixed_components", "clusters",
    "l1_exact", "l1_reference", "asked", "seconds",
    "delta", "fairness_loss", "bound_used", "bound_broken", "proxy_broken",
    "hidden_harm", "paid_total", "attacker_paid", "harm_done",
    "net_gain", "net_gain_fresh", "expected_net_gain", "expected_share_gain",
    "spill", "kappa", "false_share",
    "honest_cost", "l1_to_logistic", "caught", "measured",
    "share_gain", "value_added", "worth_of_a_copy", "victims_loss", "expected_victim_loss", "bystanders_loss",
    "known_share", "honest_known",
    "gain_from_attack", "gain_largest", "pot_taken", "pot_moved", "honest_pay", "honest_share", "honest_least",
    "worth_kept", "value_kept", "equilibrium", "cycle", "unsettled", "rounds", "regret", "regret_searched",
    "plays_honest", "plays_theft", "plays_own_again", "plays_made", "plays_left_out", "plays_other",
    "unplayable", "attack_adds",
    "changed", "accuracy", "lead", "unit_agreement", "share_agreement", "share_l1", "reliability",
    "lds", "lds_total", "unreached",
)  # fmt: skip
MEASURES = (
    "gain", *AVERAGED, "honest_payment", "attacked_payment", "honest_payment_fresh",
    "evaluations", "near_zero", "redrawn",
)  # fmt: skip
NOTE = "best_attack"  # of the seed in which it is worth most; it names no group
RATIO = "_ratio_of_means"  # ends the metric that stands beside a mean of ratios
WORST = (
    "_worst_seed"  # ends the metric that is the largest of a seed where another is the mean over them
)
_WEIGHTED = {
    "net_gain": "honest_payment",
    "net_gain_fresh": "honest_payment_fresh",
    "expected_net_gain": "honest_payment",
}
"""Ratios other than the gain, and what they are ratios to."""

Labels = tuple[tuple[str, Any], ...]


def matches(row: Row, where: Where) -> bool:
    """Tell if a row has the values asked for: a list means any of them, "" that it has none."""
    return all(
        row.get(key, "") in value if isinstance(value, list) else row.get(key, "") == value
        for key, value in where.items()
    )


def labels_of(row: Row) -> Labels:
    return tuple((k, v) for k, v in row.items() if k not in NUMBERS and v is not None)


def _labels(row: Row) -> dict[str, Any]:
    return {k: v for k, v in row.items() if k not in (*MEASURES, "seed", NOTE) and v is not None}


LABELS = ("task", "learner", "empty", "attack", "mechanism", "granularity", "representative")
"""Labels that results have in any experiment."""


def require_told_apart(spec: ExperimentSpec) -> None:
    """Refuse tasks and utilities that tables would take for one, and axes that would hide a column."""
    taken = {*LABELS, *NUMBERS, *MEASURES, "seed"}
    for axis in [
        *(a for t in spec.tasks for a in t.axes),
        *(a for m in spec.mechanisms for a in m.sweep),
    ]:
        if axis in taken:
            raise ParameterError("axis", axis, "results have a column of that name; choose another")
    for what, entries in (("tasks", spec.tasks), ("utilities", spec.utilities)):
        texts = [each.model_dump_json() for each in entries]
        if twice := [text for text in texts if texts.count(text) > 1]:
            raise DataMarketError(
                f"{spec.name}: two of its {what} are {twice[0]}, and would be averaged as one; drop one of them"
            )
    _require_paid_once(spec)


def _require_paid_once(spec: ExperimentSpec) -> None:
    """Refuse learners that no utility has, and a task that two entries would pay under one learner."""
    learners = list(dict.fromkeys(utility.learner for utility in spec.utilities))
    seen: set[tuple[str, str, str]] = set()
    for task in spec.tasks:
        if unknown := set(task.learners) - set(learners):
            raise UnknownNameError("learner of this experiment's utilities", min(unknown), learners)
        for learner in dict.fromkeys(task.learners or learners):
            paid = (task.label, repr(sorted(task.axes.items())), learner)
            if paid in seen:
                raise DataMarketError(
                    f"{spec.name}: {task.label} is paid under {learner} twice, and both would be averaged as one; "
                    "name each learner in one of its entries"
                )
            seen.add(paid)


def require_one_row_a_cell(rows: Sequence[Row]) -> None:
    """Refuse results of one draw that have the same labels: means would be taken over different things."""
    seen: set[Labels] = set()
    for row in rows:
        labels = _labels(row)
        if (key := tuple(sorted(labels.items()))) in seen:
            raise DataMarketError(
                f"mechanism {labels.get('mechanism')!r} under attack {labels.get('attack')!r} is there twice, and "
                "both would be averaged as one; give mechanisms of one name a 'label' each, and name attacks once"
            )
        seen.add(key)


def summarise(
    results: Iterable[Row], pooled: Sequence[str] = (), ranges: Ranges | None = None
) -> list[Row]:
    """Return long-format rows (one per cell and metric), each with the paper's value where it has one."""
    groups: dict[Labels, list[Row]] = defaultdict(list)
    for row in results:
        labels = _labels(row)
        groups[tuple(labels.items())].append(row)
        if any(axis in labels for axis in pooled):
            groups[tuple((k, v) for k, v in labels.items() if k not in pooled)].append(row)
    rows = [
        {**dict(labels), **metric, **_notes(of_group)}
        for labels, of_group in groups.items()
        for metric in _metrics(of_group)
    ]
    return [with_paper(row) for row in [*rows, *_ranges(rows, ranges)]]


def _notes(rows: list[Row]) -> Row:
    noted = [row for row in rows if row.get(NOTE)]
    note = {NOTE: max(noted, key=_worth)[NOTE]} if noted else {}
    redrawn = sorted({row["seed"] for row in rows if row.get("redrawn")})
    return {**note, **({"redrawn": redrawn} if redrawn else {})}


def _worth(row: Row) -> float:
    """Return what a best attack was searched for: its net gain, expected where there are checks."""
    expected = row.get("expected_net_gain")
    return float(row["net_gain"] if expected is None else expected)


def _metrics(rows: list[Row]) -> Iterator[Row]:
    # A gain is a ratio: where the honest payment is not clearly above zero it means nothing.
    unclear = {row["seed"] for row in rows if row.get("near_zero")}
    yield from _mean("gain", rows, "gain", unclear)
    yield from _mean("gain_every_seed", rows, "gain")
    yield from _mean("gain" + WORST, rows, "gain", unclear, max)
    yield from _ratio("gain" + RATIO, rows, "attacked_payment", "honest_payment")
    for name in AVERAGED:
        yield from _mean(name, rows, name)
    yield from _mean("victim_loss" + WORST, rows, "victim_loss", of=max)
    for name, weight in _WEIGHTED.items():
        if rows[0].get(name) is not None:
            whole = [
                {**row, "part": row[name] * row[weight]} for row in rows if not math.isnan(row[name])
            ]
            yield from _ratio(name + RATIO, whole, "part", weight)


def _mean(
    metric: str,
    rows: list[Row],
    column: str,
    unclear: Collection[int] = frozenset(),
    of: Callable[[Values], float] = np.mean,
) -> Iterator[Row]:
    """Take the mean over seeds, or what else is taken of them (which has no standard error).

    None where nothing was measured, an empty one where it is nowhere defined.
    """
    by_seed = _by_seed(rows, column)
    if not by_seed:
        return
    means = {seed: float(np.mean(cells)) for seed, cells in by_seed.items() if seed not in unclear}
    means = {seed: mean for seed, mean in means.items() if not math.isnan(mean)}
    values = np.array(list(means.values()))
    value = float(of(values)) if len(values) else None
    error = standard_error(values) if of is np.mean else None
    left_out = sorted(set(by_seed) - set(means))
    yield {
        "metric": metric, "value": value, "se": error, "seeds": len(values),
        **({"left_out": left_out} if left_out else {}),
    }  # fmt: skip


def _by_seed(rows: list[Row], *columns: str) -> dict[int, list[tuple[float, ...]]]:
    """Return the numbers of some columns by seed, of rows that have the first."""
    by_seed: dict[int, list[tuple[float, ...]]] = defaultdict(list)
    for row in rows:
        if row.get(columns[0]) is not None:
            by_seed[row["seed"]].append(tuple(row[column] for column in columns))
    return by_seed


def standard_error(values: Values) -> float | None:
    """Return the standard error of the mean; None for one value, and where all are one number but for rounding."""
    if len(values) < 2 or _are_equal(values):
        return None
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def _are_equal(values: Values) -> bool:
    return bool(np.ptp(values) <= ROUNDING * np.abs(values).max())


def _ratio(metric: str, rows: list[Row], above: str, below: str) -> Iterator[Row]:
    """Yield the ratio of two means over all seeds, with the jackknife's error over seeds.

    There is none where the honest earn nothing on the whole, or owe: it would be no gain.
    """
    by_seed = _by_seed(rows, above, below)
    if not by_seed:
        return
    parts, wholes = np.array([np.mean(cells, axis=0) for cells in by_seed.values()]).T
    least = ROUNDING * np.abs(wholes).sum()
    if not wholes.sum() > least:
        return
    n, without = len(wholes), wholes.sum() - wholes
    error = None
    if n > 1 and (without > least).all():
        ratios = (parts.sum() - parts) / without
        if not _are_equal(ratios):
            error = float(math.sqrt((n - 1) / n * ((ratios - ratios.mean()) ** 2).sum()))
    yield {"metric": metric, "value": float(parts.sum() / wholes.sum()), "se": error, "seeds": n}


def _ranges(rows: list[Row], ranges: Ranges | None) -> list[Row]:
    """Return the lowest and the highest gain of each kind of cell over the axes of ``ranges``."""
    if ranges is None:
        return []
    groups: dict[Labels, list[Row]] = defaultdict(list)
    ratios = {labels_of(row): row for row in rows if row["metric"] == "gain" + RATIO}
    for row in rows:
        if row["metric"] == "gain" and matches(row, ranges.where):
            inside = ("task", *ranges.over)
            groups[tuple((k, v) for k, v in labels_of(row) if k not in inside)].append(row)
    summary: list[Row] = []
    for labels, cells in groups.items():
        defined = [cell for cell in cells if cell["value"] is not None] or cells[:1]
        for name, pick in (("gain_lowest", min), ("gain_highest", max)):
            at = pick(defined, key=lambda cell: cell["value"] or 0.0)
            attack = {"attack": at["attack"]} if "attack" in ranges.over else {}
            for metric, cell in ((name, at), (name + RATIO, ratios.get(labels_of(at)))):
                if cell is not None:
                    numbers = {k: cell[k] for k in NUMBERS if k in cell}
                    summary.append(
                        {**dict(labels), **attack, **numbers, "task": "all", "metric": metric}
                    )
    return summary
