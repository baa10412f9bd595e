"""Distances, orders and values of k-NN on a device, for blocks of validation rows at once.

Training rows lie there as they are stored, and are float64 a part at a time. The device multiplies, sorts, and says in
which ranks the label begins to agree or ceases to: what a row is worth changes there alone. The values of these ranks
are added up here, one after the other (`NearestNeighbourGame.along`), and the device brings them to the rows. Where
rows of both kinds are within the slack of each other (`distances`) their distances are computed here, too. So
values have the same bits as without a device, whatever it does to the last ones of a product.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.execution.arrays import Codes, Features, Rows, Values, in_blocks, in_order
from datamarket_gym.execution.parallel import compute, computing, over_blocks
from datamarket_gym.execution.progress import SILENT
from datamarket_gym.utilities.accelerators import Array, HostArrays

if TYPE_CHECKING:
    from datamarket_gym.utilities.knn import NearestNeighbourGame
    from datamarket_gym.utilities.knn_neighbors import Neighbourhood


_PART = 1 << 26  # numbers that are float64 at a time: 512 MiB
_CELLS = 1 << 26  # distances that the device holds at a time: 512 MiB, and ten more such matrices


class DeviceRows:
    """Some training rows on a device, less an origin, and their squared lengths."""

    def __init__(self, rows: Rows, index: Codes, origin: Values, on: HostArrays) -> None:
        self.on, self._origin = on, on.put(origin)
        n, width = len(index), rows.shape[1]
        self._step = max(1, _PART // width)
        stored: Array = None
        for at, block in in_blocks(in_order(rows, index)):
            if stored is None:
                stored = on.empty(n, width, block.dtype.name)
            stored[at : at + len(block)] = on.put(block)
        self._stored = stored
        self._norms = on.empty(1, n)[0]
        for at, part in self._parts():
            self._norms[at : at + len(part)] = (part * part).sum(1)

    @property
    def largest(self) -> float:
        """The largest squared length."""
        return float(self._norms.max())

    def on_grid(self, bits: int) -> bool:
        """Whether all numbers are multiples of that power of a half."""
        scaled = (part * 2.0**bits for _, part in self._parts())
        return all(bool((some == self.on.xp.floor(some)).all()) for some in scaled)

    def between(self, validation: Features) -> Array:
        """|x|^2 + v.x of all rows, for validation rows that come as v."""
        towards = self.on.put(validation)
        out = self.on.empty(len(validation), len(self._norms))
        for at, part in self._parts():
            out[:, at : at + len(part)] = towards @ part.T
        out += self._norms
        return out

    def _parts(self) -> Any:
        """Rows as float64, -0.0 as 0.0, less the origin, and where they begin."""
        for at in range(0, len(self._norms), self._step):
            yield at, self.on.to_double(self._stored[at : at + self._step]) + 0.0 - self._origin


def sums_by_group(
    near: Neighbourhood, game: NearestNeighbourGame, empty_value: float, group: Codes
) -> Values:
    """The values of all rows, each a player's only one, added up over each group of validation rows, by position.

    They are added in the order in which `scorer.mean_by_group` does.
    """
    device, n, by = DeviceValues(near, game, empty_value), len(near), compute()
    total, blocks = np.zeros((int(group.max()) + 1, n)), near.blocks()
    step = max(1, _CELLS // n)
    with computing(replace(by, progress=SILENT)):
        for done, (start, stop) in enumerate(blocks, 1):
            found: dict[int, Array] = {}
            for first in range(start, stop, step):
                rows = slice(first, min(first + step, stop))
                for number, values in zip(group[rows].tolist(), device.of(rows), strict=True):
                    if number not in found:
                        found[number] = device.on.put(np.zeros(n))
                    found[number] += values
            for number, part in found.items():
                total[number] += device.on.get(part)
            by.progress.count(done, len(blocks))
    return total


class DeviceValues:
    """What all rows are worth on some validation rows."""

    def __init__(self, near: Neighbourhood, game: NearestNeighbourGame, empty_value: float) -> None:
        assert near.device is not None
        self.on = near.device.on
        self._near, self._game, self._empty = near, game, empty_value
        self._label = self.on.put(near.label)

    def of(self, rows: slice) -> Array:
        """A line for each validation row."""
        on, near = self.on, self._near
        distances = near.on_device(rows.start, rows.stop)
        truth = near.validation_label[rows]
        agrees = self._label[None, :] == on.put(truth)[:, None]
        ranked, order = on.sort(distances, stable=True)
        kinds = on.take(agrees, order)
        self._settle(rows, ranked, order, kinds)
        change = kinds[:, 1:] != kinds[:, :-1]
        ends, last = on.get(change), on.get(kinds[:, -1])
        along = self._along(ends, last, truth)
        first = np.cumsum([0, *(len(each) for each in along[:-1])])
        place = on.put(first)[:, None]
        run = on.xp.cumsum(change, axis=1, dtype=on.xp.int64)
        value = on.empty(*order.shape)
        told = on.put(np.concatenate(along))
        value[:, :1] = told[place]
        value[:, 1:] = told[run + place]
        return on.put_back(value, order)

    def _along(self, ends: NDArray[np.bool_], last: NDArray[np.bool_], truth: Codes) -> list[Values]:
        """The values of the runs of one kind, from near to far, of each validation row."""
        game, empty, n = self._game, self._empty, len(self._near)
        agreeing = np.bincount(self._near.label, minlength=int(truth.max()) + 1)[truth]

        def values(i: int) -> Values:
            return game.along(
                np.flatnonzero(ends[i]), bool(last[i]), game.ends(n, int(agreeing[i]), empty)
            )

        return list(over_blocks(values, range(len(ends)), ends.size))

    def _settle(self, rows: slice, ranked: Array, order: Array, kinds: Array) -> None:
        """Order rows of both kinds that are within the slack by their exact distances; writes into both."""
        on, near = self.on, self._near
        slack = [near.slack(row) for row in range(rows.start, rows.stop)]
        unit, length = (
            np.array(each) for each in zip(*((s.unit, s.length) for s in slack), strict=True)
        )
        if not unit.any():
            return
        # As `Slack.at`, of the farther of two.
        v, farther = on.put(length)[:, None], ranked[:, 1:]
        square = on.xp.clip(farther + v * v, 0.0, None)
        most = on.put(unit)[:, None] * (square + v * (4.0 * on.xp.sqrt(square) + 3.0 * v))
        close = farther - ranked[:, :-1] <= most
        if not unit.all():
            close &= on.put(unit > 0.0)[:, None]
        which, rank = _members(on, close, kinds)
        if not len(which):
            return
        head = on.get(rank == 0) | ~on.get(close[which, on.xp.where(rank > 0, rank - 1, rank)])
        run, at = np.cumsum(head), on.get(which)
        position = on.get(order[which, rank])
        exact = np.empty(len(at))
        line, first = np.unique(at, return_index=True)
        for i, mine in zip(line.tolist(), np.split(np.arange(len(at)), first[1:]), strict=True):
            exact[mine] = near.exact(rows.start + i, position[mine])
        position = position[np.lexsort((position, exact, run))]
        order[which, rank] = on.put(position)
        agrees = near.label[position] == near.validation_label[rows.start + at]
        kinds[which, rank] = on.put(agrees)


def _members(on: HostArrays, close: Array, kinds: Array) -> tuple[Array, Array]:
    """Lines and ranks of what is in runs of ranks, each close to the next, in which kinds differ; in order."""
    xp = on.xp
    mixed = xp.argwhere(close & (kinds[:, 1:] != kinds[:, :-1]))
    if not len(mixed):
        return mixed[:, 0], mixed[:, 1]
    linked = xp.argwhere(close)  # of a run of m + 1 ranks m links, one after the other
    flat = linked[:, 0] * kinds.shape[1] + linked[:, 1]
    head = xp.ones_like(flat)
    head[1:] = flat[1:] - flat[:-1] != 1
    run = xp.cumsum(head, axis=0) - 1
    where = xp.searchsorted(flat, mixed[:, 0] * kinds.shape[1] + mixed[:, 1])
    several = xp.zeros_like(flat)
    several[run[where]] = 1
    kept = flat[several[run] == 1]
    both = xp.unique(xp.concatenate([kept, kept + 1]))
    return both // kinds.shape[1], both % kinds.shape[1]
