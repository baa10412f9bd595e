"""How far a valuation is: a bar after two seconds, an estimate, and a warning before more than a minute.

Coalitions are asked for in blocks of about half a second. The first blocks are small, which measures how long an
evaluation takes; what was measured is remembered by the game, so that nothing is evaluated twice.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from datamarket_gym.errors import InputTypeError, LongValuationWarning, warn_user
from datamarket_gym.execution.arrays import CoalitionMatrix, Values
from datamarket_gym.execution.parallel import compute
from datamarket_gym.execution.progress import SILENT, is_bar_shown

Report = Callable[[int, int], None]
"""Told how many evaluations are done, of at most how many."""

_QUIET = 2.0  # seconds before anything is shown
_BLOCK = 0.5  # seconds of a block
_MEASURED = 0.2  # seconds of evaluations after which the estimate is believed
_FEW = 256  # evaluations that are not worth measuring first
_LONG = 60.0  # seconds of which a warning speaks

_wanted: ContextVar[bool | Report | None] = ContextVar("progress of valuations", default=None)


@contextmanager
def show_progress(progress: bool | Report | None) -> Iterator[None]:
    """Show the progress of valuations inside: always, never, by a function, or (None) where somebody is looking."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise InputTypeError(
            "progress", progress, "True, False, None or a function progress(done, total)"
        )
    token = _wanted.set(progress)
    try:
        yield
    finally:
        _wanted.reset(token)


@contextmanager
def watch(plan: Callable[[], tuple[int, int]]) -> Iterator[Watch]:
    """Watch the evaluations of one valuation; ``plan`` says how many at most, and how many each sample asks for."""
    found = Watch(plan, _report())
    try:
        yield found
    finally:
        found.close()


def _report() -> Report | None:
    """Who is told; None where nobody looks."""
    wanted = _wanted.get()
    if callable(wanted):
        return wanted
    if wanted is False or is_bar_shown():
        return None
    if (inner := compute().progress) is not SILENT and wanted is None:
        return inner.count  # a command shows its own stages
    looking = sys.stderr.isatty() and threading.current_thread() is threading.main_thread()
    if _in_notebook():
        return _NotebookLine()
    return _Bar() if wanted or looking else None


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return shell is not None and "IPKernelApp" in getattr(shell.get_ipython(), "config", {})


class Watch:
    """The evaluations of one valuation, as they are done."""

    def __init__(self, plan: Callable[[], tuple[int, int]], report: Report | None) -> None:
        self._plan, self.report = plan, report
        self.done, self.started = 0, time.monotonic()
        self._first = True  # prepares rows and compiles: says nothing about the others
        self._timed, self._seconds, self._size, self._warned = 0, 0.0, 16, False

    @cached_property
    def planned(self) -> int:
        """The evaluations at most; asked for when something is evaluated, which a formula spares."""
        planned, self.per_sample = self._plan()
        return planned

    def values(self, ask: Callable[[CoalitionMatrix], Values], coalitions: CoalitionMatrix) -> Values:
        """v of each coalition, in blocks."""
        if not len(coalitions):
            return ask(coalitions)
        if not self._timed and self.planned > _FEW:
            # Coalitions of all sizes first: small ones are quicker than most.
            spread = np.unique(np.linspace(0, len(coalitions) - 1, 64).astype(np.int64))
            order = np.random.default_rng(0).permutation(spread)
            for start, stop in ((0, 1), (1, 5), (5, 21), (21, 64)):
                if start < len(order) and self._seconds < _MEASURED:
                    self._ask(ask, coalitions[order[start:stop]])
        out: list[Values] = []
        at = 0
        while at < len(coalitions):
            if self._timed:
                rate = self._timed / max(self._seconds, 1e-6)
                self._size = max(16, min(4 * self._size, int(rate * _BLOCK)))
            block = coalitions[at : at + self._size]
            out.append(self._ask(ask, block))
            at += len(block)
            self.done += len(block)
            if self.report is not None and time.monotonic() - self.started > _QUIET:
                self.report(min(self.done, self.planned), self.planned)
        return np.concatenate(out)

    def _ask(self, ask: Callable[[CoalitionMatrix], Values], block: CoalitionMatrix) -> Values:
        before = time.monotonic()
        found = ask(block)
        if self._first:
            self._first = False
            return found
        self._timed += len(block)
        self._seconds += time.monotonic() - before
        left = (self.planned - self.done) * self._seconds / self._timed
        if self._seconds > _MEASURED and left > _LONG and not self._warned:
            self._warned = True
            warn_user(LongValuationWarning(self._words(left)))
        return found

    def _words(self, seconds: float) -> str:
        fewer = ""
        if self.per_sample:
            enough = max(2, int(self.planned / self.per_sample * _LONG / seconds))
            fewer = f"take fewer samples (samples={enough} for about a minute), or "
        return (
            f"up to {self.planned:,} evaluations of the utility (each fits a model, unless it is in the cache) take "
            f"about {_duration(seconds)}; {fewer}choose a utility with a formula ('coverage' or 'knn')"
        )

    def close(self) -> None:
        """Take the bar away."""
        if isinstance(self.report, _Bar | _NotebookLine):
            self.report.close()


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.0f} hours"


class _Bar:
    """A bar of rich on stderr, from the first report on."""

    def __init__(self) -> None:
        self._bars: Any = None

    def __call__(self, done: int, total: int) -> None:
        if self._bars is None:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
            )

            self._bars = Progress(
                TextColumn("valuation"), BarColumn(), MofNCompleteColumn(), TextColumn("evaluations,"),
                TimeRemainingColumn(), TextColumn("left"),
                console=Console(stderr=True), transient=True,
            )  # fmt: skip
            self._bars.start()
            self._task = self._bars.add_task("", total=total)
        self._bars.update(self._task, completed=done)

    def close(self) -> None:
        if self._bars is not None:
            self._bars.stop()


class _NotebookLine:
    """A line of text below the cell: rich shows nothing there without ipywidgets."""

    def __init__(self) -> None:
        self._shown: Any = None
        self._started = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        left = (time.monotonic() - self._started) * (total - done) / done
        self._show(f"valuation: {done:,} of {total:,} evaluations, about {_duration(left)} left")

    def close(self) -> None:
        if self._shown is not None:
            self._show("")

    def _show(self, text: str) -> None:
        if self._shown is None:
            self._shown = import_module("IPython.display").display({}, raw=True, display_id=True)
        self._shown.update({"text/plain": text}, raw=True)
