"""A few numbers of each direction that bound the cosine of every pair from above, so that most pairs need no more.

With orthonormal columns Q of width m, a direction x is Q p + r with p = Q'x and r orthogonal to Q, so that

    x . y = p . p' + r . r' <= p . p' + |r| |r'| = (p, |r|) . (p', |r'|),

one product of m + 1 numbers instead of all. Q spans the main axes of a sample, where p says most and |r| is small. It
decides how many pairs are left to be decided, and never how.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Features, directions
from datamarket_gym.core.candidates import slack_of
from datamarket_gym.core.stacked import Rows
from datamarket_gym.evidence.distinct import DistinctRows

_WIDTHS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
_SAMPLE = 1024  # rows whose pairs say how many are left at each width
_PART = 4096  # rows that are read at a time
_DECIDED = 1e5  # what it costs to decide a pair, in numbers multiplied
_READ = 16  # what it costs to look at a product, likewise
_LEAST_ROWS = 4096  # fewer are multiplied whole before a prefix is found


class Directed:
    """The different directions among rows, in float64, worked out where they are read."""

    def __init__(self, rows: DistinctRows) -> None:
        self._rows = rows
        self.shape = (len(rows), rows.width)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: slice | Codes) -> Features:
        """Some of them; those that lie together are read without a list of places."""
        place = self._rows.distinct[key]
        if isinstance(key, slice) and len(place) and place[-1] - place[0] == len(place) - 1:
            return directions(self._rows.vectors[int(place[0]) : int(place[-1]) + 1])
        return directions(self._rows.vectors[place])


Directions = Rows | Directed
"""Rows of length one, to be read a block or some at a time."""


@dataclass(frozen=True, eq=False)
class Prefix:
    """Per row ``width`` coordinates and the length of the rest; all numbers and no rest where that is no less work.

    The cosine of rows i and j is at most ``short[i] @ short[j] + slack``.
    """

    short: NDArray[np.float32]
    width: int
    slack: np.float32
    rest: bool

    def __len__(self) -> int:
        return len(self.short)

    @property
    def words(self) -> str:
        """How pairs are searched."""
        return f"exactly, by prefixes of {self.width}" if self.rest else "exactly, by whole products"

    def least(self, theta: float) -> np.float32:
        """What a float32 product must reach so that the cosine may be ``theta``."""
        return np.nextafter(np.float32(theta) - self.slack, np.float32(-2.0))


def prefix_of(rows: Directions, theta: float, memory: int) -> Prefix:
    """The prefix of directions that makes pairs at or above ``theta`` cheapest to find.

    ``memory`` bounds its bytes, as far as eight numbers a row allow.
    """
    n, d = rows.shape
    widest = max(_WIDTHS[0], memory // (4 * max(n, 1)) - 1)
    if n < _LEAST_ROWS and d <= widest:
        return _short(rows, None)
    return _short(rows, _axes(rows, theta, widest))


def _axes(rows: Directions, theta: float, widest: int) -> Features | None:
    """The main axes of a sample of rows, as many as make the least work; none where that is to multiply all numbers."""
    n, d = rows.shape
    sample = rows[np.unique(np.linspace(0, n - 1, min(n, _SAMPLE)).astype(np.int64))]
    axes = np.linalg.svd(sample, full_matrices=False)[2].T
    along, length = sample @ axes, np.sum(sample * sample, axis=1)

    def work(width: int, bound: Features) -> float:
        return width + _READ + _DECIDED * float(np.mean(bound >= theta))

    best, chosen = (work(d, sample @ sample.T), None) if d <= widest else (np.inf, None)
    for width in (w for w in _WIDTHS if w <= min(widest, d - 1, axes.shape[1])):
        part = along[:, :width]
        rest = np.sqrt(np.maximum(length - np.sum(part * part, axis=1), 0.0))
        asked = work(width, part @ part.T + np.outer(rest, rest))
        if asked < best:
            best, chosen = asked, width
    return None if chosen is None else np.ascontiguousarray(axes[:, :chosen])


def _short(rows: Directions, axes: Features | None) -> Prefix:
    """Coordinates along some axes and the length of the rest, in float32.

    The length is worked out as sqrt(|x|^2 - |p|^2). In float64 the difference is off by less than d 2^-46, the axes'
    own errors included; so much is added, and it is never too short. What float32 then loses, in storing and in
    multiplying vectors of length one, is in the slack.
    """
    n, d = rows.shape
    width = d if axes is None else axes.shape[1]
    short = np.empty((n, d if axes is None else width + 1), dtype=np.float32)
    for at in range(0, n, _PART):
        part = rows[at : at + _PART]
        if axes is None:
            short[at : at + _PART] = part
            continue
        along = part @ axes
        rest = np.sum(part * part, axis=1) - np.sum(along * along, axis=1)
        short[at : at + _PART, :width] = along
        short[at : at + _PART, width] = np.sqrt(np.maximum(rest, 0.0) + d * 2.0**-46)
    return Prefix(short, width, slack_of(short.shape[1]), axes is not None)
