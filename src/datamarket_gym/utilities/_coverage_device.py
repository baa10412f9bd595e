"""Sums of coverage on a device: whole blocks of validation rows are sorted at once, in float64.

Players who do not cover a row stand at its floor, where they add nothing, so that a block is one matrix:
rising g, (g_i - g_{i+1}) h_i, sums from the least on, and back to the players. The same lines run on numpy arrays,
where tests hold them to the loops of `covered_by`. A device adds in an order of its own: values agree to about 14
digits, not to the last bit. Players of equal g get equal values to the last bit there, too.
"""

from __future__ import annotations

import numpy as np

from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.utilities.accelerators import Array, HostArrays
from datamarket_gym.utilities.coverage_rows import Covers, Part, Sums

_CELLS = 1 << 27  # similarities that the device holds at a time: 1 GiB, and five more such matrices


class DeviceSums:
    """What all validation rows of a part bring its players, block by block on a device."""

    def __init__(self, covers: Covers, floor: Values, group: Codes, on: HostArrays) -> None:
        self._covers, self._floor, self._group, self._on = covers, floor, group, on

    def of(self, part: Part) -> Sums:
        """Sums over all rows, and over those of each group where there are several."""
        on, n, rows = self._on, len(part.player), len(part.row)
        width = part.towards.shape[1]
        units = on.empty(len(part.columns), width)
        for at, some in part.columns.made():
            units[at : at + len(some)] = on.put(some)
        groups, slot = np.unique(self._group[part.row], return_inverse=True)
        counts = np.zeros((1 + len(groups), rows))  # one line for all rows, one for each group
        counts[0], counts[1 + slot, np.arange(rows)] = 1.0, 1.0
        decides = on.put(self._covers.decides[:n][::-1].copy())
        sums, most = on.empty(len(counts), n), np.zeros(rows)
        sums[:] = 0.0
        size = max(1, _CELLS // max(len(part.columns), n))
        for at in range(0, rows, size):
            block = slice(at, at + size)
            similar = on.put(part.towards[block]) @ units.T
            if part.column is not None:
                similar = similar[:, on.put(part.column)]
            if part.starts is not None:
                similar = on.largest_of(similar, part.starts)
            floor = on.put(self._floor[part.row[block], None])
            found, top = self._values(similar, floor, decides)
            sums += on.put(counts[:, block]) @ found
            most[block] = on.got(top)
        told = on.got(sums)
        several = bool(self._group.any())
        return Sums(told[0], groups if several else groups[:0], told[1:] if several else told[:0], most)

    def _values(self, similar: Array, floor: Array, decides: Array) -> tuple[Array, Array]:
        """phi of each row and player, and how far a row is covered beyond its floor."""
        on, c = self._on, self._covers.c
        g = on.clipped((similar - c) / (1.0 - c))
        g = on.chosen((similar > c) & (g > floor), g, floor)
        ranked, order = on.rising(g)
        top = ranked[:, -1] - floor[:, 0]
        if 0 < self._covers.nearest < ranked.shape[1]:
            floor = ranked[:, -1 - self._covers.nearest, None]
            ranked = on.chosen(ranked > floor, ranked, floor)
        steps = ranked - floor
        steps[:, 1:] = ranked[:, 1:] - ranked[:, :-1]
        value = on.running(steps * decides)
        return on.put_back(on.taken(value, on.last_step(steps)), order), top
