"""Sums of coverage on a device: whole blocks of validation rows are sorted at once, in float64.

Players who do not cover a row stand at its floor, where they add nothing, so that a block is one matrix:
rising g, (g_i - g_{i+1}) h_i, sums from the least on, and back to the players. The same lines run on numpy arrays,
where tests hold them to the loops of `covered_by`. A device adds in an order of its own: values agree to about 14
digits, not to the last bit. Players of equal g get equal values to the last bit there, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from datamarket_gym.core.arrays import Codes, Features, Values
from datamarket_gym.learners.coverage.covered_by import Covers
from datamarket_gym.learners.coverage.covering import Part, Sums

_CELLS = 1 << 27  # similarities that the device holds at a time: 1 GiB, and five more such matrices

Array = Any
"""Of numpy or of torch."""


class HostArrays:
    """The few operations that numpy and torch name differently, of numpy."""

    def put(self, array: Features | Codes) -> Array:
        """The array, on the device."""
        return array

    def got(self, array: Array) -> Features:
        """The array, back."""
        return np.asarray(array)

    def empty(self, rows: int, columns: int) -> Array:
        """Room for a matrix."""
        return np.empty((rows, columns))

    def clipped(self, g: Array) -> Array:
        """At most one."""
        return np.minimum(g, 1.0)

    def chosen(self, which: Array, one: Array, other: Array) -> Array:
        """One where it holds, else the other."""
        return np.where(which, one, other)

    def rising(self, g: Array) -> tuple[Array, Array]:
        """Each row sorted, and where its numbers were."""
        order = np.argsort(g, axis=1, kind="stable")
        return np.take_along_axis(g, order, axis=1), order

    def running(self, steps: Array) -> Array:
        """Sums of each row from its first number on."""
        return np.cumsum(steps, axis=1)

    def last_step(self, steps: Array) -> Array:
        """The place of the last step above zero at or before each place, 0 where there is none."""
        places = np.where(steps > 0.0, np.arange(steps.shape[1]), 0)
        return np.maximum.accumulate(places, axis=1)

    def taken(self, array: Array, places: Array) -> Array:
        """Numbers of each row at places."""
        return np.take_along_axis(array, places, axis=1)

    def put_back(self, array: Array, places: Array) -> Array:
        """The inverse of `taken`."""
        out = np.empty_like(array)
        np.put_along_axis(out, places, array, axis=1)
        return out

    def largest_of(self, similar: Array, starts: Codes) -> Array:
        """The largest of each row between one start and the next."""
        return np.maximum.reduceat(similar, starts, axis=1)


class CudaArrays(HostArrays):
    """The same of torch."""

    def __init__(self, device: str = "cuda") -> None:
        import torch

        self._torch, self._device = torch, device

    def put(self, array: Features | Codes) -> Array:
        """The array, on the device."""
        return self._torch.from_numpy(np.ascontiguousarray(array)).to(self._device)

    def got(self, array: Array) -> Features:
        """The array, back."""
        found: Features = array.cpu().numpy()
        return found

    def empty(self, rows: int, columns: int) -> Array:
        """Room for a matrix."""
        return self._torch.empty((rows, columns), dtype=self._torch.float64, device=self._device)

    def clipped(self, g: Array) -> Array:
        """At most one."""
        return g.clamp_(max=1.0)

    def chosen(self, which: Array, one: Array, other: Array) -> Array:
        """One where it holds, else the other."""
        return self._torch.where(which, one, other)

    def rising(self, g: Array) -> tuple[Array, Array]:
        """Each row sorted, and where its numbers were."""
        found = self._torch.sort(g, dim=1, stable=True)
        return found.values, found.indices

    def running(self, steps: Array) -> Array:
        """Sums of each row from its first number on."""
        return self._torch.cumsum(steps, dim=1)

    def last_step(self, steps: Array) -> Array:
        """The place of the last step above zero at or before each place, 0 where there is none."""
        places = self._torch.arange(steps.shape[1], device=self._device)
        return self._torch.cummax(self._torch.where(steps > 0.0, places, 0), dim=1).values

    def taken(self, array: Array, places: Array) -> Array:
        """Numbers of each row at places."""
        return self._torch.gather(array, 1, places)

    def put_back(self, array: Array, places: Array) -> Array:
        """The inverse of `taken`."""
        return self._torch.empty_like(array).scatter_(1, places, array)

    def largest_of(self, similar: Array, starts: Codes) -> Array:
        """The largest of each row between one start and the next."""
        ends = np.append(starts[1:], similar.shape[1])
        lengths = self.put(ends - starts)
        return self._torch.segment_reduce(
            similar.T.contiguous(), "max", lengths=lengths, axis=0
        ).T.contiguous()


class DeviceSums:
    """What all validation rows of a part bring its players, block by block on a device."""

    def __init__(self, covers: Covers, floor: Values, group: Codes, on: HostArrays) -> None:
        self._covers, self._floor, self._group, self._on = covers, floor, group, on

    def of(self, part: Part) -> Sums:
        """Sums over all rows, and over those of each group where there are several."""
        on, n, rows = self._on, len(part.player), len(part.row)
        width = part.towards.shape[1]
        units = on.empty(len(part.columns), width)
        for at, some in part.columns.blocks():
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
        steps = ranked - floor
        steps[:, 1:] = ranked[:, 1:] - ranked[:, :-1]
        value = on.running(steps * decides)
        return on.put_back(on.taken(value, on.last_step(steps)), order), top
