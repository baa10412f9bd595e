"""Processes that compute for the explorer: they stay, take one question at a time, and report progress through a pipe.

So pages are served while models are fitted, warnings of one market are not taken for another's, and work that is not
wanted any more can be ended.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any

from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.files import FULL
from datamarket_gym.execution.progress import Progress

Function = Callable[..., Any]
"""``f(*arguments, progress=...)``, at the top of a module; what it returns can be written as JSON."""
Outcome = tuple[str, bytes | str]
"""How a question ended: ``done`` with JSON, or ``failed``, ``cancelled`` or ``fault`` with a message."""

DISK_FULL = "there is no room left on the disk; make room, and do the same again"
TOO_MUCH = "this takes more memory than a question of a page may; make the table smaller, or use the command line"
MOST_BYTES = 32 * 2**20
"""Of an answer; a page could not show more."""
_WORN_BYTES, _WORN_QUESTIONS = 2**30, 5000
"""The memory that a process holds between two questions, and the questions, after which another takes its place."""
_EVERY = 0.1  # seconds between two counts that are reported
_NICE = 5  # pages are served before anything is computed


@dataclass(frozen=True)
class Setup:
    """Say what a worker begins with: files with plug points, where data lie, and functions ``module.name`` to call
    before the first question; ``memory`` bounds its bytes, 0 does not; ``ledgers`` are addresses of the operator's."""

    load: tuple[Path, ...] = ()
    data: Path | None = None
    ahead: tuple[str, ...] = ()
    memory: int = 0
    ledgers: tuple[str, ...] = ()


class StoppedWork(DataMarketError):
    """Work was stopped because its answer is not needed any more."""


class PipeProgress:
    """Report the progress of work in a worker; stop work whose answer is not needed any more."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._last = pipe, 0.0

    def stage(self, what: str, unit: str = "") -> None:
        """Report that something begins."""
        self._send("stage", what, unit)

    def count(self, done: int, total: int) -> None:
        """Report how much is done, now and then."""
        now = time.monotonic()
        if now - self._last >= _EVERY or done >= total:
            self._last = now
            self._send("count", done, total)

    def _send(self, *report: Any) -> None:
        if self._pipe.poll():
            self._pipe.recv()
            raise StoppedWork("it was stopped")
        self._pipe.send(report)


def run_question(function: Function, arguments: tuple[Any, ...], progress: Progress) -> Outcome:
    """Answer a question, whatever happens on the way."""
    try:
        answer = function(*arguments, progress=progress)
        written = json.dumps(answer, allow_nan=False, separators=(",", ":")).encode()
        if len(written) > MOST_BYTES:
            raise DataMarketError(
                f"the answer has {len(written) // 2**20:,} MiB, and a page takes {MOST_BYTES // 2**20}; give the table "
                "shorter names and texts, or use the command line"
            )
        return "done", written
    except Exception as error:
        return explain_error(error)


def explain_error(error: Exception) -> tuple[str, str]:
    """Return ``failed``, ``cancelled`` or ``fault``, and what a page says of it; a fault is printed."""
    match error:
        case StoppedWork():
            return "cancelled", str(error)
        case DataMarketError():
            return "failed", str(error)
        case MemoryError():
            return "failed", TOO_MUCH
        case OSError(errno=errno) if errno in FULL:
            return "failed", DISK_FULL
        case OSError(filename=str() | bytes() as name):
            return "failed", f"{os.path.basename(os.fsdecode(name))!r}: {error.strerror or error}"
    traceback.print_exception(error)
    name = type(error).__name__
    return "fault", f"this is a fault of the explorer ({name}); the terminal it runs in says more"


def _work(questions: Connection, setup: Setup) -> None:
    """Answer questions in a worker process until the other end of the pipe closes."""
    from datamarket_gym import registry
    from datamarket_gym.market.datasets import looking_in
    from datamarket_gym.payout.ledger.trust import trust_ledger

    if hasattr(os, "setsid"):
        os.setsid()  # an interrupt at the terminal is for the server, which ends its workers
    if hasattr(os, "nice"):
        os.nice(_NICE)
    if setup.memory:  # on systems that bound memory: a small file can unfold to a very large table
        with suppress(ImportError):
            import resource

            resource.setrlimit(resource.RLIMIT_DATA, (setup.memory, setup.memory))
    for address in setup.ledgers:
        trust_ledger(address)
    registry.load(setup.load)
    with looking_in(setup.data), suppress(EOFError, BrokenPipeError, ConnectionResetError):
        for name in setup.ahead:
            module, _, function = name.rpartition(".")
            getattr(import_module(module), function)()
        questions.send(("ready",))
        while True:
            question = questions.recv()
            if question is not None:  # None: a stop that came after the answer
                function, arguments = question
                outcome = run_question(function, arguments, PipeProgress(questions))
                questions.send((*outcome, resident_bytes()))


def resident_bytes() -> int:
    """Return the memory that this process holds; where the system does not tell, the most that it has held, or 0."""
    with suppress(OSError, ValueError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    with suppress(ImportError):
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return 0


@dataclass(eq=False)
class Worker:
    """Hold one process; it begins when it is first needed, and again after it was killed or is worn."""

    setup: Setup
    _context: SpawnContext = field(default_factory=lambda: multiprocessing.get_context("spawn"))
    _process: SpawnProcess | None = None
    _pipe: Connection | None = None
    _ready: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _sending: threading.Lock = field(default_factory=threading.Lock)
    _stopping: bool = False
    _ended: bool = False
    _answered: int = 0

    def prepare(self) -> str:
        """Start the process if it does not run, and wait until it has loaded all it needs; return why it cannot."""
        with self._lock:
            if not self._ended and (self._process is None or not self._process.is_alive()):
                try:
                    self._pipe, theirs = self._context.Pipe()
                    process = self._context.Process(target=_work, args=(theirs, self.setup))
                    process.start()
                except OSError as error:  # the machine has no more processes, files or memory
                    return f"no process could be started to compute this ({error.strerror}); try again in a moment"
                theirs.close()
                self._process, self._ready, self._answered = process, False, 0
        try:
            if not self._ready and self._pipe is not None:
                self._pipe.recv()
        except (EOFError, OSError):
            if not self._ended:
                return "a process of the explorer could not begin; the terminal it runs in says why"
        self._ready = True
        return ""

    def compute(self, function: Function, arguments: tuple[Any, ...], progress: Progress) -> Outcome:
        """Answer a question in the process; report how far it is on the way."""
        if reason := self.prepare():
            return "fault", reason
        try:
            with self._sending:
                if self._pipe is None or self._ended:
                    return "cancelled", "it was stopped before it began"
                self._stopping = False
                self._pipe.send((function, arguments))
            while True:
                match self._pipe.recv():
                    case ("stage", what, unit):
                        progress.stage(what, unit)
                    case ("count", done, total):
                        progress.count(done, total)
                    case (state, outcome, held):
                        self._answered += 1
                        if held > _WORN_BYTES or self._answered >= _WORN_QUESTIONS:
                            self.end(for_good=False)
                        return state, outcome
        except (EOFError, OSError):
            self.end(for_good=False)
            return "cancelled", "it was stopped: the process that computed it has ended"

    def stop(self) -> None:
        """Ask the present work, once, to stop where it next reports progress."""
        with self._sending, suppress(OSError):
            if self._pipe is not None and not self._stopping:
                self._stopping = True
                self._pipe.send(None)

    def end(self, *, for_good: bool = True) -> None:
        """End the process and those that it began."""
        with self._lock:
            self._ended = self._ended or for_good
            process, self._process = self._process, None
            if process is None:
                return
            if process.pid is not None and hasattr(os, "killpg"):
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)  # before it has a group of its own: nothing
            process.kill()
            process.join()
            if self._pipe is not None:
                self._pipe.close()
