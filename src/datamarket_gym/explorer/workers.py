"""Processes that compute for the explorer: warm, one question at a time, telling through a pipe how far they are.

Questions are answered in processes of their own, so that pages are served while models are fitted, warnings of one
market are not taken for another's, and work that is not wanted any more can be ended.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any

from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.files import FULL
from datamarket_gym.execution.progress import Progress

Function = Callable[..., Any]
"""``f(*arguments, progress=...)``, at the top of a module; what it returns can be written as JSON."""

NO_ROOM = "there is no room left on the disk; make room, and do the same again"
TOO_MUCH = "this takes more memory than a question of a page may; make the table smaller, or use the command line"
_EVERY = 0.1  # seconds between two counts that are told
_NICE = 5  # pages are served before anything is computed


@dataclass(frozen=True)
class Setup:
    """What a worker begins with: files with plug points, where data lie, modules to load before anybody asks, and
    functions ``module.name`` to call then; ``memory`` bytes are all that it may take, where any are named."""

    load: tuple[Path, ...] = ()
    data: Path | None = None
    modules: tuple[str, ...] = ()
    ahead: tuple[str, ...] = ()
    memory: int = 0


class StoppedWork(DataMarketError):
    """Work that was stopped because nobody waits for it any more."""


class FaultOfOurs(Exception):
    """A fault of this software: the words are for the page, the traceback was printed."""


class Told:
    """The progress of work in a worker, told to whoever asked; work that nobody waits for is stopped here."""

    def __init__(self, tell: Connection) -> None:
        self._tell, self._last = tell, 0.0

    def stage(self, what: str, unit: str = "") -> None:
        """Something begins."""
        self._listen()
        self._tell.send(("stage", what, unit))

    def count(self, done: int, total: int) -> None:
        """How much is done, now and then."""
        now = time.monotonic()
        if now - self._last >= _EVERY or done >= total:
            self._listen()
            self._last = now
            self._tell.send(("count", done, total))

    def _listen(self) -> None:
        if self._tell.poll():
            self._tell.recv()
            raise StoppedWork("it was stopped")


def answered(function: Function, arguments: tuple[Any, ...], progress: Progress) -> tuple[Any, ...]:
    """What became of a question: ``done`` with JSON, ``refused`` with words, or ``fault``."""
    try:
        answer = function(*arguments, progress=progress)
        return "done", json.dumps(answer, allow_nan=False, separators=(",", ":")).encode()
    except StoppedWork:
        return ("stopped",)
    except DataMarketError as error:
        return "refused", str(error)
    except OSError as error:
        if error.errno in FULL:
            return "refused", NO_ROOM
        if error.filename is None:
            return _told_of(error)
        return "refused", f"{os.fsdecode(error.filename)!r}: {error.strerror or error}"
    except MemoryError:
        return "refused", TOO_MUCH
    except Exception as error:
        return _told_of(error)


def given(became: tuple[Any, ...]) -> bytes:
    """The answer of `answered`; where there is none, the error that says why."""
    match became:
        case ("done", answer):
            return bytes(answer)
        case ("refused", words):
            raise DataMarketError(words)
        case ("stopped",):
            raise StoppedWork("it was stopped")
        case (_, words):
            raise FaultOfOurs(words)
    raise AssertionError("every question is answered in one of these ways")


def _told_of(error: Exception) -> tuple[str, str]:
    return "fault", fault_words(error)


def fault_words(error: Exception) -> str:
    """What a page says of a fault; the terminal has all of it."""
    traceback.print_exception(error)
    return f"this is a fault of the explorer ({type(error).__name__}); the terminal it runs in says more"


def _work(questions: Connection, setup: Setup) -> None:
    """The life of a worker process: until the other end of the pipe closes."""
    from importlib import import_module

    from datamarket_gym import registry as scripts
    from datamarket_gym.market.datasets import looking_in

    if hasattr(os, "setsid"):
        os.setsid()  # an interrupt at the terminal is for the server, which ends its workers
    if hasattr(os, "nice"):
        os.nice(_NICE)
    if setup.memory:
        _bound(setup.memory)
    scripts.load(setup.load)
    with looking_in(setup.data), suppress(EOFError, BrokenPipeError, ConnectionResetError):
        for name in setup.modules:
            import_module(name)
        for name in setup.ahead:
            module, _, function = name.rpartition(".")
            getattr(import_module(module), function)()
        questions.send(("ready",))
        while True:
            asked = questions.recv()
            if asked is None:  # a stop that came after the answer
                continue
            function, arguments = asked
            questions.send(answered(function, arguments, Told(questions)))


def _bound(memory: int) -> None:
    """Take no more bytes than these, on systems that can be asked for that: a small file can unfold to a very large
    table."""
    with suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


@dataclass(eq=False)
class Worker:
    """One process; it begins when it is made, and again after it was killed."""

    setup: Setup
    _context: SpawnContext = field(default_factory=lambda: multiprocessing.get_context("spawn"))
    _process: SpawnProcess | None = None
    _pipe: Connection | None = None
    _ready: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _sending: threading.Lock = field(default_factory=threading.Lock)
    _stopping: bool = False
    _ended: bool = False

    def begin(self) -> None:
        """Start the process, if it does not run."""
        with self._lock:
            if self._ended or (self._process is not None and self._process.is_alive()):
                return
            try:
                self._pipe, theirs = self._context.Pipe()
                process = self._context.Process(target=_work, args=(theirs, self.setup))
                process.start()
            except OSError as error:  # the machine has no more processes, files or memory
                raise FaultOfOurs(
                    f"no process could be started to compute this ({error.strerror}); try again in a moment"
                ) from error
            theirs.close()
            self._process, self._ready = process, False

    def await_ready(self) -> None:
        """Until it has loaded all it needs; one that is ended before that was stopped, and is no fault."""
        self.begin()
        if not self._ready and self._pipe is not None:
            try:
                self._pipe.recv()
            except (EOFError, OSError):
                if self._ended:
                    raise StoppedWork("it was stopped before it began") from None
                raise FaultOfOurs(
                    "a process of the explorer could not begin; the terminal it runs in says why"
                ) from None
            self._ready = True

    def compute(self, function: Function, arguments: tuple[Any, ...], progress: Progress) -> bytes:
        """The answer to a question, as JSON; told how far it is on the way."""
        self.await_ready()
        if self._pipe is None:
            raise StoppedWork("it was stopped before it began")
        try:
            with self._sending:
                self._stopping = False
                self._pipe.send((function, arguments))
            while True:
                match self._pipe.recv():
                    case ("stage", what, unit):
                        progress.stage(what, unit)
                    case ("count", done, total):
                        progress.count(done, total)
                    case became:
                        return given(became)
        except (EOFError, OSError):
            self.end(for_good=False)
            raise StoppedWork("it was stopped: the process that computed it has ended") from None

    def stop(self) -> None:
        """Ask the present work, once, to stop where it next says how far it is."""
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
