"""Progress of long work: a bar on a terminal, a line now and then in a log, or nothing.

Valuations show a bar after two seconds, and warn before more than a minute. Their coalitions are evaluated in blocks of
about half a second. The first blocks are small, which measures how long an evaluation takes; what was measured is
cached by the game, so that nothing is evaluated twice.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import numpy as np

from datamarket_gym.errors import InputTypeError, LongValuationWarning, warn_user

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from datamarket_gym.execution.arrays import CoalitionMatrix, Values


class Progress(Protocol):
    """Where long work reports what it does now and, where that can be counted, how much of it is done."""

    def stage(self, what: str, unit: str = "") -> None:
        """Begin something; ``unit`` names what will be counted."""

    def count(self, done: int, total: int) -> None:
        """Report how much of the present stage is done."""


class Silent:
    def stage(self, what: str, unit: str = "") -> None: ...

    def count(self, done: int, total: int) -> None: ...


SILENT = Silent()


class Within(Silent):
    """Counts within a stage that was named already: work that is a part of longer work names none."""

    def __init__(self, whole: Progress) -> None:
        self.count = whole.count  # type: ignore[method-assign]


class Lines:
    """Plain lines for logs: one when a stage begins, one every ``every`` seconds, one when all is counted."""

    def __init__(
        self, stream: TextIO, every: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream, self._every, self._clock = stream, every, clock
        self._first: int | None = None
        self._lock = threading.RLock()  # `still` is called by another thread
        self._begin("", "")

    def stage(self, what: str, unit: str = "") -> None:
        with self._lock:
            self._begin(what, unit)
            self._say(what)

    def count(self, done: int, total: int) -> None:
        with self._lock:
            now = self._clock()
            if self._first is None:  # what an earlier run left is no measure of speed
                self._first = done
            self._counted = f": {done:,} of {total:,} {self._unit}".rstrip()
            if now - self._said < self._every and done < total:
                return
            line = f"{self._what}{self._counted}, {now - self._started:.0f} s"
            if self._first < done < total:
                line += f", {(now - self._started) / (done - self._first) * (total - done):.0f} s left"
            self._say(line)

    def still(self, silent: float = 60.0) -> None:
        """Write that the stage goes on, if the last line is ``silent`` seconds ago."""
        with self._lock:
            now = self._clock()
            if self._what and now - self._said >= silent:
                self._say(f"{self._what}{self._counted}, {now - self._started:.0f} s, still at work")

    def _begin(self, what: str, unit: str) -> None:
        self._what, self._unit, self._first, self._counted = what, unit, None, ""
        self._started = self._said = self._clock()

    def _say(self, line: str) -> None:
        self._said = self._clock()
        self._stream.write(line + "\n")
        self._stream.flush()


class Bar:
    """A bar for every stage that is counted, and one moving line for those that are not."""

    def __init__(self, bars: RichProgress) -> None:
        self._bars = bars
        self._task: TaskID = bars.add_task("", total=None, unit="")
        self._counted = False

    def stage(self, what: str, unit: str = "") -> None:
        self.close()
        self._task, self._counted = self._bars.add_task(what, total=None, unit=unit), False

    def count(self, done: int, total: int) -> None:
        self._bars.update(self._task, completed=done, total=total)
        self._counted = True

    def close(self) -> None:
        if not self._counted:
            self._bars.remove_task(self._task)


@contextmanager
def _going_on(lines: Lines) -> Iterator[Lines]:
    """Yield the lines, while a thread reports now and then that work goes on."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(5.0):
            lines.still()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield lines
    finally:
        over.set()
        thread.join()


_on_screen: ContextVar[bool] = ContextVar("whether a bar is on the screen", default=False)


@contextmanager
def shown_on_stderr(*, in_logs: bool = True) -> Iterator[Progress]:
    """Show a bar where stderr is a terminal, lines elsewhere; work that is soon done needs none ``in_logs``."""
    token = _on_screen.set(True)
    try:
        # Asked of the stream itself: rich takes a pipe for a terminal where FORCE_COLOR or the like is set.
        if sys.stderr.isatty():
            with _rich_bars() as bars, closing(Bar(bars)) as bar:
                yield bar
        elif in_logs:
            with _going_on(Lines(sys.stderr)) as lines:
                yield lines
        else:
            yield SILENT
    finally:
        _on_screen.reset(token)


def _rich_bars(*, transient: bool = False) -> RichProgress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=transient,
    )


Report = Callable[[int, int], None]
"""A function that is called with how many evaluations are done, of at most how many."""

_QUIET = 2.0  # seconds before anything is shown
_BLOCK = 0.5  # seconds of a block
_MEASURED = 0.2  # seconds of evaluations after which the estimate is believed
_FEW = 256  # evaluations that are not worth measuring first
_LONG = 60.0  # seconds of which a warning speaks

_wanted: ContextVar[bool | Report | None] = ContextVar("progress of valuations", default=None)


@contextmanager
def show_progress(progress: bool | Report | None) -> Iterator[None]:
    """Show the progress of valuations inside: always, never, by a function, or (None) in a terminal or notebook."""
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
    watched = Watch(plan, _report())
    try:
        yield watched
    finally:
        watched.close()


def _report() -> Report | None:
    from datamarket_gym.execution.parallel import compute

    wanted = _wanted.get()
    if callable(wanted):
        return wanted
    if wanted is False or _on_screen.get():
        return None
    if (inner := compute().progress) is not SILENT and wanted is None:
        return inner.count  # a command shows its own stages
    looking = sys.stderr.isatty() and threading.current_thread() is threading.main_thread()
    shell = sys.modules.get("IPython")
    if shell is not None and "IPKernelApp" in getattr(shell.get_ipython(), "config", {}):
        return _NotebookLine()
    return _Bar() if wanted or looking else None


class Watch:
    def __init__(self, plan: Callable[[], tuple[int, int]], report: Report | None) -> None:
        self._plan, self.report = plan, report
        self.done, self.started = 0, time.monotonic()
        self._first = True  # prepares rows and compiles: says nothing about the others
        self._timed, self._seconds, self._size, self._warned = 0, 0.0, 16, False

    @cached_property
    def planned(self) -> int:
        """Return the evaluations at most; counted when something is evaluated, which a formula spares."""
        planned, self.per_sample = self._plan()
        return planned

    def values(self, ask: Callable[[CoalitionMatrix], Values], coalitions: CoalitionMatrix) -> Values:
        """Compute v of each coalition, in blocks."""
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
        values = ask(block)
        if self._first:
            self._first = False
            return values
        self._timed += len(block)
        self._seconds += time.monotonic() - before
        left = (self.planned - self.done) * self._seconds / self._timed
        if self._seconds > _MEASURED and left > _LONG and not self._warned:
            self._warned = True
            warn_user(LongValuationWarning(self._message(left)))
        return values

    def _message(self, seconds: float) -> str:
        fewer = ""
        if self.per_sample:
            enough = max(2, int(self.planned / self.per_sample * _LONG / seconds))
            fewer = f"take fewer samples (samples={enough} for about a minute), or "
        return (
            f"up to {self.planned:,} evaluations of the utility (each fits a model, unless it is in the cache) take "
            f"about {_duration(seconds)}; {fewer}choose a utility with a formula ('coverage' or 'knn')"
        )

    def close(self) -> None:
        if isinstance(self.report, _Bar | _NotebookLine):
            self.report.close()


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.0f} hours"


class _Bar:
    """A bar of rich on stderr, from the first report on."""

    def __init__(self) -> None:
        self._bars: RichProgress | None = None

    def __call__(self, done: int, total: int) -> None:
        if self._bars is None:
            self._bars = _rich_bars(transient=True)
            self._bars.start()
            self._task = self._bars.add_task("valuation", total=total, unit="evaluations,")
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
