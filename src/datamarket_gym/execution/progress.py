"""Saying how far long work is: a bar on a terminal, a line now and then in a log, or nothing."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


class Progress(Protocol):
    """Told by long work what it does now and, where that can be counted, how much of it is done."""

    def stage(self, what: str, unit: str = "") -> None:
        """Something begins; ``unit`` names what will be counted."""
        ...

    def count(self, done: int, total: int) -> None:
        """How much of the present stage is done."""
        ...


class Silent:
    """Says nothing."""

    def stage(self, what: str, unit: str = "") -> None:
        """Nothing."""

    def count(self, done: int, total: int) -> None:
        """Nothing."""


SILENT = Silent()


class Within:
    """Counts within a stage that was named already: work that is a part of longer work names none."""

    def __init__(self, whole: Progress) -> None:
        self._whole = whole

    def stage(self, what: str, unit: str = "") -> None:
        """Nothing."""

    def count(self, done: int, total: int) -> None:
        """How much of the stage is done."""
        self._whole.count(done, total)


class Lines:
    """Plain lines for logs: one when a stage begins, one every ``every`` seconds, one when all is counted.

    Work that counts nothing for long says that it goes on, in `still`.
    """

    def __init__(
        self, stream: TextIO, every: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream, self._every, self._clock = stream, every, clock
        self._first: int | None = None
        self._lock = threading.RLock()  # `still` is called by another thread
        self._begin("", "")

    def stage(self, what: str, unit: str = "") -> None:
        """A line that it begins."""
        with self._lock:
            self._begin(what, unit)
            self._say(what)

    def count(self, done: int, total: int) -> None:
        """A line if the last one is long ago, or if this is the end."""
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
        """A line that the stage goes on, if the last one is ``silent`` seconds ago."""
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
        """A new bar; that of a stage which was never counted makes room."""
        self.close()
        self._task, self._counted = self._bars.add_task(what, total=None, unit=unit), False

    def count(self, done: int, total: int) -> None:
        """Move the bar."""
        self._bars.update(self._task, completed=done, total=total)
        self._counted = True

    def close(self) -> None:
        """Leave no bar behind that was never counted."""
        if not self._counted:
            self._bars.remove_task(self._task)


@contextmanager
def _going_on(lines: Lines) -> Iterator[Lines]:
    """The lines, and a thread that says now and then that work goes on."""
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


def is_bar_shown() -> bool:
    """Whether whoever called shows a bar already: there is room for one."""
    return _on_screen.get()


@contextmanager
def shown_on_stderr(*, in_logs: bool = True) -> Iterator[Progress]:
    """A bar where stderr is a terminal, lines elsewhere; work that is soon done needs none ``in_logs``."""
    token = _on_screen.set(True)
    try:
        with _shown_on_stderr(in_logs) as progress:
            yield progress
    finally:
        _on_screen.reset(token)


@contextmanager
def _shown_on_stderr(in_logs: bool) -> Iterator[Progress]:
    # Asked of the stream itself: rich takes a pipe for a terminal where FORCE_COLOR or the like is set.
    if not sys.stderr.isatty():
        if in_logs:
            with _going_on(Lines(sys.stderr)) as lines:
                yield lines
        else:
            yield SILENT
        return
    from rich.console import Console

    console = Console(stderr=True)
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}", markup=False), TimeElapsedColumn(), TextColumn("left"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console) as bars:
        bar = Bar(bars)
        try:
            yield bar
        finally:
            bar.close()
