"""Bounds on cosines by a few numbers of each direction, and how a search is cut into partitions of similar rows.

Let R be orthogonal, and of Rx keep the first m numbers p and the length r of the rest. For directions x and y

    x . y = Rx . Ry <= p . q + r s = (p, r) . (q, s)      (Cauchy and Schwarz, on the rest),

one product of m + 1 numbers instead of all. R are the principal axes of a sample of the rows, so that a few numbers
hold most of a row. The pairs of a few rows say how many are left at each m (`shares_left`), and what is cheapest. Any
orthogonal R and any m give the same answers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datamarket_gym.data.content_keys import DistinctRows
from datamarket_gym.execution.arrays import Codes, Features, Rows, Short, Values, directions, slack_of


def sample_places(places: Codes, most: int, seed: int | None) -> Codes:
    """Draw at most so many of some places, in order.

    A submitter who could foresee the sample could fill it with units of their own. No answer depends on it, only how
    long it takes, so the seed may be left open (None).
    """
    if len(places) <= most:
        return places
    return places[np.sort(np.random.default_rng(seed).choice(len(places), most, replace=False))]


LEVELS = (8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640)
"""How many numbers of a row may be looked at before all."""
_LOOKED = 64  # numbers of a row that say where it lies
_SAMPLE = 1024  # rows whose pairs say how many are left at each width
_PART_PREFIX = 4096  # rows that are read at a time
_DECIDED = 1e5  # what it costs to decide a pair, in numbers multiplied
_LEAST_ROWS = 4096  # fewer are multiplied whole before a prefix is found

Directions = Rows | DistinctRows
"""Rows of length one, to be read a block or some at a time."""


def levels_of(width: int) -> tuple[int, ...]:
    """Return the levels at which rows of a width may be looked at: those that leave something out."""
    return tuple(m for m in LEVELS if m <= 0.85 * width)


def evenly(places: Codes, most: int) -> Codes:
    """Choose at most so many places, from first to last."""
    return places[np.linspace(0, len(places) - 1, min(most, len(places))).astype(np.int64)]


@dataclass(frozen=True, eq=False)
class RotatedRows:
    """Rotated directions in float32, and the lengths of what follows each level, rounded up."""

    rows: Short
    rest: Short

    def at(self, rows: Codes) -> RotatedRows:
        """Select some rows."""
        return RotatedRows(self.rows[rows], self.rest[rows])

    def prefix(self, level: int, m: int, at: Codes | slice) -> Short:
        """Return the first m numbers of some rows and the length of the rest."""
        return np.column_stack([self.rows[:, :m][at], self.rest[:, level][at]])


@dataclass(frozen=True, eq=False)
class Axes:
    """An orthogonal matrix by which rows are rotated (None: as they are), and the levels that are of use."""

    matrix: Features | None
    levels: tuple[int, ...]

    @staticmethod
    def of(sample: Features, levels: tuple[int, ...]) -> Axes:
        """Find the principal axes of some directions, those that hold most first."""
        if not levels:
            return Axes(None, ())
        return Axes(np.linalg.eigh(sample.T @ sample)[1][:, ::-1].copy(), levels)

    def rotate(self, unit: Features) -> RotatedRows:
        """Rotate directions in float64 and round at the end."""
        if self.matrix is None:
            return RotatedRows(unit.astype(np.float32), np.empty((len(unit), 0), dtype=np.float32))
        rotated = unit @ self.matrix
        squares = rotated * rotated
        rest = np.empty((len(unit), len(self.levels)), dtype=np.float32)
        left, end = np.zeros(len(unit)), unit.shape[1]
        for i in range(len(self.levels) - 1, -1, -1):
            left += squares[:, self.levels[i] : end].sum(axis=1)
            rest[:, i], end = np.sqrt(left), self.levels[i]
        return RotatedRows(rotated.astype(np.float32), np.nextafter(rest, np.float32(np.inf)))

    def prefix(self, unit: Features, m: int) -> Short:
        """Compute the first m numbers of rotated directions, and the length of the rest, without the others.

        The length is sqrt(|x|^2 - |p|^2). In float64 the difference is off by less than d 2^-46, the axes' own errors
        included; so much is added and it is rounded up, so that it is never too short.
        """
        first = unit if self.matrix is None else unit @ self.matrix[:, :m]
        out = np.empty((len(unit), m + 1), dtype=np.float32)
        left = np.sum(unit * unit, axis=1) - np.sum(first[:, :m] * first[:, :m], axis=1)
        out[:, :m], out[:, m] = first[:, :m], np.sqrt(np.maximum(left, 0.0) + unit.shape[1] * 2.0**-46)
        np.nextafter(out[:, m], np.float32(np.inf), out=out[:, m])
        return out

    def first(self, unit: Features) -> Short:
        """Compute the first few numbers of rotated directions."""
        rotated = unit if self.matrix is None else unit @ self.matrix[:, :_LOOKED]
        return rotated[:, :_LOOKED].astype(np.float32)


def shares_left(levels: tuple[int, ...], ours: RotatedRows, theirs: RotatedRows, bound: Short) -> Values:
    """Measure the share of pairs of a few rows that reaches the bound of ours at each level, and by all numbers."""
    width, product, start, left = ours.rows.shape[1], np.zeros(1, dtype=np.float32), 0, []
    for i, m in enumerate((*levels, width)):
        product = product + ours.rows[:, start:m] @ theirs.rows[:, start:m].T
        most = product if m == width else product + ours.rest[:, i][:, None] * theirs.rest[:, i]
        left.append(np.count_nonzero(most >= bound[:, None]) / most.size)
        start = m
    return np.array(left)


@dataclass(frozen=True, eq=False)
class Prefix:
    """Per row ``width`` coordinates and the length of the rest; all numbers and no rest where that is no less work.

    The cosine of rows i and j is at most ``short[i] @ short[j] + slack``.
    """

    short: Short
    width: int
    slack: np.float32
    rest: bool

    def __len__(self) -> int:
        return len(self.short)

    @property
    def description(self) -> str:
        """How pairs are searched."""
        return f"exactly, by prefixes of {self.width}" if self.rest else "exactly, by whole products"

    def least(self, theta: float) -> np.float32:
        """Return what a float32 product must reach so that the cosine may be ``theta``."""
        return np.nextafter(np.float32(theta) - self.slack, np.float32(-2.0))


def prefix_of(rows: Directions, theta: float, memory: int) -> Prefix:
    """Choose the prefix of directions that makes pairs at or above ``theta`` cheapest to find, in so many bytes."""
    n, d = rows.shape
    widest = max(LEVELS[0], memory // (4 * max(n, 1)) - 1)
    levels = tuple(m for m in levels_of(d) if m <= widest)
    if not levels or (n < _LEAST_ROWS and d <= widest):
        return _short(rows, Axes(None, ()), d)
    seed = rows.sample_seed if isinstance(rows, DistinctRows) else None
    sample = rows[sample_places(np.arange(n), _SAMPLE, seed)]
    axes = Axes.of(sample, levels)
    rotated = axes.rotate(sample)
    left = shares_left(levels, rotated, rotated, np.full(len(sample), theta, dtype=np.float32))
    widths = np.array([*levels, d])
    work = np.where(widths <= widest, widths + _DECIDED * left, np.inf)
    return _short(rows, axes, int(widths[work.argmin()]))


def _short(rows: Directions, axes: Axes, width: int) -> Prefix:
    """Compute prefixes; what float32 loses, in storing and in multiplying directions, is in the slack."""
    n, d = rows.shape
    short = np.empty((n, d if width == d else width + 1), dtype=np.float32)
    for at in range(0, n, _PART_PREFIX):
        part = rows[at : at + _PART_PREFIX]
        short[at : at + _PART_PREFIX] = part if width == d else axes.prefix(part, width)
    return Prefix(short, width, slack_of(short.shape[1]), width < d)


_PART_ROTATED = 2048  # rows rotated at a time
_SAMPLE_PARTITIONS = 8192  # rows that axes and partitions are made from
_ROUNDS = 5  # of moving the centres of partitions


@dataclass(frozen=True)
class Plan:
    """Plan of a search, which decides its speed, and no answer.

    Of the wanted rows ``height`` are compared with ``width`` others at a time. Others lie in ``partitions``; wanted
    rows are taken in ``groups``, one after the other. ``levels``: numbers of a row multiplied before all.
    """

    height: int
    width: int
    partitions: int
    groups: int
    levels: tuple[int, ...]

    @staticmethod
    def of(wanted: int, among: int, width: int, cores: int) -> Plan:
        """Plan a search for so many rows among so many; of few, rotating all others would take longer."""
        levels = levels_of(width)
        height = min(1024, max(64, -(-wanted // (2 * cores))))
        if not levels or wanted < width or wanted * among < 1 << 24:
            return Plan(height, 2048, 1, -(-wanted // height), ())
        return Plan(
            height, 1024, max(1, min(256, among // 1024)), max(1, min(16, wanted // 8192)), levels
        )


@dataclass(frozen=True, eq=False)
class Partitions:
    """Rotated rows in partitions, in order in each; ``place[i]`` says which row lies i-th, ``lies`` the reverse."""

    axes: Axes
    rotated: RotatedRows
    place: Codes
    lies: Codes
    starts: Codes
    centres: Short

    @staticmethod
    def of(rows: DistinctRows, among: Codes, plan: Plan) -> Partitions:
        """Rotate some of the rows, and sort them into partitions."""
        drawn_from = among if plan.levels or plan.partitions > 1 else among[:0]
        sample = rows[sample_places(drawn_from, _SAMPLE_PARTITIONS, rows.sample_seed)]
        axes = Axes.of(sample, plan.levels)
        centres = _centres(axes.first(sample), plan.partitions)
        partition = partitions_of(rows, among, axes, centres)
        order = np.argsort(partition, kind="stable")
        lies = np.full(len(rows), -1)
        lies[among[order]] = np.arange(len(among))
        rotated = RotatedRows(
            np.empty((len(among), rows.width), dtype=np.float32),
            np.empty((len(among), len(plan.levels)), dtype=np.float32),
        )
        for at in range(0, len(among), _PART_ROTATED):
            some = among[at : at + _PART_ROTATED]
            part, to = axes.rotate(rows[some]), lies[some]
            rotated.rows[to], rotated.rest[to] = part.rows, part.rest
        starts = np.r_[0, np.cumsum(np.bincount(partition, minlength=len(centres)))]
        return Partitions(axes, rotated, among[order], lies, starts, centres)

    def rotated_of(self, places: Codes, unit: Features) -> RotatedRows:
        """Return some rows, whose directions are these, rotated, whether they lie here or not."""
        at = self.lies[places]
        return self.axes.rotate(unit) if (at < 0).any() else self.rotated.at(at)

    def partitions_of(self, rows: DistinctRows, places: Codes) -> Codes:
        """Find the partition of each of some rows, whether they lie here or not."""
        at = self.lies[places]
        if (at < 0).any():
            return partitions_of(rows, places, self.axes, self.centres)
        return np.searchsorted(self.starts, at, side="right") - 1

    def before(self, place: int) -> Codes:
        """Find where in each partition the rows from this place on begin."""
        ends = zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True)
        return np.array([a + np.searchsorted(self.place[a:b], place) for a, b in ends])


def partitions_of(rows: DistinctRows, places: Codes, axes: Axes, centres: Short) -> Codes:
    """Find the partition of each of some rows: that of the nearest centre."""
    partition = np.zeros(len(places), dtype=np.int64)
    if len(centres) > 1:
        for at in range(0, len(places), _PART_ROTATED):
            first = axes.first(rows[places[at : at + _PART_ROTATED]])
            partition[at : at + _PART_ROTATED] = (first @ centres.T).argmax(axis=1)
    return partition


def _centres(rows: Short, partitions: int) -> Short:
    """Find centres of similar rows, each beside one that is similar to it."""
    if partitions == 1:
        return np.zeros((1, rows.shape[1]), dtype=np.float32)
    sample = rows.astype(np.float64)
    centres = directions(sample[evenly(np.arange(len(rows)), partitions)])
    for _ in range(_ROUNDS):
        partition = (sample @ centres.T).argmax(axis=1)
        used = np.flatnonzero(np.bincount(partition, minlength=len(centres)))
        centres = directions(np.stack([sample[partition == c].sum(axis=0) for c in used.tolist()]))
    chain, left = [0], np.ones(len(centres), dtype=bool)
    while len(chain) < len(centres):
        left[chain[-1]] = False
        cosine = np.where(left, centres @ centres[chain[-1]], -np.inf)
        chain.append(int(cosine.argmax()))
    return centres[chain].astype(np.float32)
