"""Saying how far long work is: a bar on a terminal, a line now and then in a log, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


class Lines:
    """Plain lines for logs: one when a stage begins, one every ``every`` seconds, one when all is counted."""

    def __init__(
        self, stream: TextIO, every: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream, self._every, self._clock = stream, every, clock
        self._first: int | None = None
        self._begin("", "")

    def stage(self, what: str, unit: str = "") -> None:
        """A line that it begins."""
        self._begin(what, unit)
        self._say(what)

    def count(self, done: int, total: int) -> None:
        """A line if the last one is long ago, or if this is the end."""
        now = self._clock()
        if self._first is None:  # what an earlier run left is no measure of speed
            self._first = done
        if now - self._said < self._every and done < total:
            return
        line = f"{self._what}: {done:,} of {total:,} {self._unit}".rstrip()
        line += f", {now - self._started:.0f} s"
        if self._first < done < total:
            line += f", {(now - self._started) / (done - self._first) * (total - done):.0f} s left"
        self._say(line)

    def _begin(self, what: str, unit: str) -> None:
        self._what, self._unit, self._first = what, unit, None
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
def shown_on_stderr(*, in_logs: bool = True) -> Iterator[Progress]:
    """A bar where stderr is a terminal, lines elsewhere; work that is soon done needs none ``in_logs``."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield Lines(sys.stderr) if in_logs else SILENT
        return
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
