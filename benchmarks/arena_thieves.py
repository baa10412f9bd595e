"""What mechanisms score in DataMarket-v1 that use what no market outside would tell them.

Each is handed what a program of the file protocol is handed, in one process that goes on from payment to payment:

    arrivals   leaves out what a few names hand in together at the beginning or the end of the queue, or at one moment
    memory     knows the honest market, which is paid first, and pays for no unit that came later
    small pot  knows it too, and pays all later markets a millionth, in the shares of `shapley`
    tables     knows the public tables of digits and tumours, and pays for no unit that is not in them
    grid       learns the steps of each column from the validation rows, and pays for no unit between them
    sizes      pays no name that has more or fewer units than a provider of these tasks can have
    second     pays no name nine tenths of whose units came after the most similar unit of another name
    all three  grid, sizes and second

The first and the last four need neither memory nor tables.
Of equal units all pay for the first alone, and value what they keep by `quotient_shapley/exact_hash` with units as
players; ``nothing`` is that without any knowledge. Losses are those of the leaderboard, on the public markets and on
those of a new private key.

Usage: python benchmarks/arena_thieves.py [--draws N] [--out FILE]

The table of docs/enter.md is that of docs/benchmarks/arena-thieves.txt; a test holds them together.
"""

from __future__ import annotations

import argparse
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from datamarket_gym import Submission, UtilityOracle, mechanism
from datamarket_gym.arena.bundle import MechanismRow
from datamarket_gym.arena.cells import AskedCells, cell
from datamarket_gym.arena.entry import ArenaEntry
from datamarket_gym.arena.scores import mechanism_scores
from datamarket_gym.arena.suite import Draws, public, suite
from datamarket_gym.core.files import write_text
from datamarket_gym.core.registry import register
from datamarket_gym.world.attacks.attack import squares
from datamarket_gym.world.tasks.bundled import BreastCancer, Digits

VALUED = mechanism(
    "quotient_shapley/exact_hash", granularity="unit", representative="collapse", leak_check="drop"
)
NAMES = mechanism("shapley")
AGAINST_CHANCE = -14.0  # a logarithm
Kept = NDArray[np.bool_]
_remembered: dict[bytes, set[bytes]] = {}
_markets: dict[bytes, list[str]] = {}
_tables: dict[int, set[bytes]] = {}


def arrivals(submission: Submission, _: UtilityOracle) -> Kept:
    """Without an end or a beginning of the queue that few names hold against all chance, and without ties."""
    order, kept = np.argsort(submission.times, kind="stable"), np.ones(len(submission), dtype=bool)
    for queue in (order, order[::-1]):
        kept[_suspect_end(submission.identity, queue)] = False
    moments, count = np.unique(submission.times, return_counts=True)
    kept[np.isin(submission.times, moments[count > 1])] = False
    return kept


def _suspect_end(names: NDArray[np.str_], queue: NDArray[np.int64]) -> NDArray[np.int64]:
    before, held, among, best = Counter(names[queue].tolist()), set[str](), 0, (0.0, 0)
    for length in range(1, len(queue) - 10):
        name = str(names[queue[-length]])
        before[name] -= 1
        among += -1 if name in held else before[name]
        held.add(name)
        share = max(among, 0.5) / (len(queue) - length)
        if share <= 0.6 and len(held) <= len(before) - 3:
            best = min(best, (length * float(np.log(share)), length))
    return queue[len(queue) - best[1] :] if best[0] < AGAINST_CHANCE else queue[:0]


def first_of_equals(submission: Submission) -> Kept:
    """Of units with the same features the one that came first."""
    order = np.argsort(submission.times, kind="stable")
    first = np.unique(submission.features[order], axis=0, return_index=True)[1]
    kept = np.zeros(len(submission), dtype=bool)
    kept[order[first]] = True
    return kept


def memory(submission: Submission, utility: UtilityOracle) -> Kept:
    """The units that were there when these validation rows were seen first."""
    units = _as_bytes(submission.features, submission.label)
    known = _remembered.setdefault(utility.features.tobytes(), set(units))
    return np.array([unit in known for unit in units])


def tables(submission: Submission, utility: UtilityOracle) -> Kept:
    """The units that are rows of a public table, and no validation rows; of other markets all."""
    width = submission.features.shape[1]
    if not _tables:
        for task in (Digits(), BreastCancer()):
            _, features, label = task.table()
            _tables[features.shape[1]] = set(_as_bytes(features, label))
    if width not in _tables:
        return np.ones(len(submission), dtype=bool)
    shown = set(_as_bytes(utility.features, utility.label))
    units = _as_bytes(submission.features, submission.label)
    return np.array([unit in _tables[width] and unit not in shown for unit in units])


def grid(submission: Submission, utility: UtilityOracle) -> Kept:
    """The units most of whose numbers lie on the grids of the validation rows' columns, where there are such grids."""
    fits = []
    for column in range(submission.features.shape[1]):
        step = _step(utility.features[:, column])
        if step is not None:
            places = (submission.features[:, column] - utility.features[0, column]) / step
            fits.append(np.abs(places - np.round(places)) < 1e-3)
    if len(fits) < 5:
        return np.ones(len(submission), dtype=bool)
    return np.mean(fits, axis=0) >= 0.8


def _step(column: NDArray[np.float64]) -> float | None:
    """The step of a grid on which all numbers of a column lie: the least gap, or a part of it."""
    values = np.unique(np.round(column, 13))
    gaps = np.diff(values)
    for parts in range(1, 41) if len(gaps) else ():
        step = float(gaps.min()) / parts
        places = (values - values[0]) / step
        if step > 1e-6 and np.abs(places - np.round(places)).max() < 1e-4:
            return step
    return None


def sizes(submission: Submission, _: UtilityOracle) -> Kept:
    """The units of names that have as many as a provider can have: two fifths of a task's, to all of them."""
    most = {24: 60, 64: 60, 30: 40}[submission.features.shape[1]]
    names, count = np.unique(submission.identity, return_counts=True)
    return _of_others(submission, names[(count > most) | (count < 0.4 * most)])


def second(submission: Submission, _: UtilityOracle) -> Kept:
    """The units of names that did not come after others nearly always."""
    apart = squares(submission.features, submission.features)
    apart[submission.identity[:, None] == submission.identity] = np.inf
    later = submission.times > submission.times[apart.argmin(axis=1)]
    names = submission.identities
    mine = [submission.identity == name for name in names.tolist()]
    suspect = [bool(own.sum() >= 20 and later[own].mean() > 0.9) for own in mine]
    return _of_others(submission, names[np.array(suspect)])


def _of_others(submission: Submission, suspects: NDArray[np.str_]) -> Kept:
    """The units of all but the suspects; of all where nobody else is left."""
    kept: Kept = ~np.isin(submission.identity, suspects)
    return kept if kept.any() else ~kept


def all_three(submission: Submission, utility: UtilityOracle) -> Kept:
    """What passes all of these."""
    return grid(submission, utility) & sizes(submission, utility) & second(submission, utility)


def _as_bytes(features: NDArray[np.float64], label: NDArray[np.generic]) -> list[bytes]:
    rows = zip(np.round(features, 9) + 0.0, label.tolist(), strict=True)
    return [row.tobytes() + str(int(of)).encode() for row, of in rows]


WAYS: dict[str, Callable[[Submission, UtilityOracle], Kept]] = {
    "nothing": lambda submission, _: np.ones(len(submission), dtype=bool),
    "arrivals": arrivals,
    "memory": memory,
    "tables": tables,
    "grid": grid,
    "sizes": sizes,
    "second": second,
    "all three": all_three,
}


@register("mechanism", "thief")
@dataclass(frozen=True)
class Thief:
    """Pays for the units that one of the ways keeps."""

    way: str

    def pay(self, submission: Submission, utility: UtilityOracle) -> dict[str, float]:
        """Amounts by name."""
        if self.way == "small pot":
            found = _markets.setdefault(utility.features.tobytes(), submission.identities.tolist())
            same = found == submission.identities.tolist() and memory(submission, utility).all()
            scale = (
                1.0 if same and len(submission) == len(_remembered[utility.features.tobytes()]) else 1e-6
            )
            paid = NAMES.pay(submission, utility).as_dict()
            return {name: scale * amount for name, amount in paid.items()}
        known = WAYS[self.way](submission, utility) & first_of_equals(submission)
        kept = submission.take(np.flatnonzero(known))
        paid = VALUED.pay(kept if len(kept) > 1 else submission, utility).as_dict()
        return {name: paid.get(name, 0.0) for name in submission.identities.tolist()}


def losses(way: str, draws: Draws, markets: int) -> str:
    """The scores of one way on the markets of a key, as a line of a table."""
    part = suite().model_copy(update={"draws": markets})
    entry = ArenaEntry.of_spec(f'thief(way="{way}")')
    rows = [
        MechanismRow(**row)
        for task, draw in part.cells
        for row in cell(AskedCells(part, draws, entry), task, draw)["rows"]
    ]
    found = mechanism_scores(rows, part)
    scores = (found.loss, found.best_response, found.fairness_loss, found.efficiency)
    by_task = []
    for task in part.tasks:
        one = part.model_copy(update={"tasks": [task]})
        of_task = mechanism_scores([row for row in rows if row.task == task.name], one)
        by_task.append(f"{of_task.loss.value:.2f}")
    told = [f"{score.value:.3f}" + (f" ± {score.error:.3f}" if score.error else "") for score in scores]
    where = "private" if draws.private else "public"
    return f"| {way} | {where} | {' | '.join(told)} | {', '.join(by_task)} |"


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--draws", type=int, default=suite().draws, help="markets of each task")
    parser.add_argument("--out", type=Path, help="the file to write")
    given = parser.parse_args()
    command = "python benchmarks/arena_thieves.py" + (
        "" if given.draws == suite().draws else f" --draws {given.draws}"
    )
    tasks = ", ".join(task.name for task in suite().tasks)
    lines = [
        f"{command}; suite {suite().name}, hash {suite().hash[:16]}",
        "",
        f"| it uses | markets | loss | best response | unfair | efficiency | loss on {tasks} |",
        "|---|---|---|---|---|---|---|",
    ]
    for draws in (public(), Draws(key=secrets.token_hex(32))):
        for way in ("nothing", "arrivals", "memory", "small pot", *list(WAYS)[3:]):
            _remembered.clear()
            _markets.clear()
            lines.append(losses(way, draws, given.draws))
            print(lines[-1], flush=True)
    if given.out:
        write_text(given.out, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
