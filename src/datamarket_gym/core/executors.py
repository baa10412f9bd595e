"""Where the tasks of a run are computed: in this process, in several, or on the machines of a cluster.

An executor calls ``function(shared, *task)`` for many tasks, gives back each result with the place of
its task, and does so in whatever order they end. Results must not depend on who computed them: every
call has one thread for linear algebra and OpenMP, here and in workers, so they are the same to the last bit.
That also keeps a component which uses threads itself (gradient boosting, a forest with ``n_jobs=-1``) from
filling cores that are full already, where OpenMP's waiting threads take many times as long. What travels to a
worker (the function, ``shared``, the tasks) and back is pickled; what a script or a notebook has registered
travels too.

``shared`` is what all tasks need, apart from them so that an executor can send it once. The executor on other machines
is `datamarket_gym.core.cluster.Connection`.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Protocol

from datamarket_gym.core.compute import Compute, compute, computing
from datamarket_gym.core.errors import DataMarketError, require_count
from datamarket_gym.core.machine import available_cores
from datamarket_gym.core.progress import SILENT
from datamarket_gym.core.registry import adopt, registered_elsewhere
from datamarket_gym.core.threads import one_thread

Task = tuple[Any, ...]


class Executor(Protocol):
    """Computes tasks."""

    def each(
        self, function: Callable[..., Any], shared: Any, tasks: Sequence[Task]
    ) -> Iterator[tuple[int, Any]]:
        """(place, result) of every task, as they are done."""
        ...


@dataclass(frozen=True)
class Serial:
    """One task after the other in this process."""

    def each(
        self, function: Callable[..., Any], shared: Any, tasks: Sequence[Task]
    ) -> Iterator[tuple[int, Any]]:
        """(place, result) of every task, in order."""
        for place, task in enumerate(tasks):
            yield place, call(function, shared, task)


@dataclass(frozen=True)
class Processes:
    """Several processes of this machine, which end with this one.

    A task that takes longer than ``timeout`` seconds is ended, where there are at least two jobs.
    """

    jobs: int
    timeout: float | None = None

    def __post_init__(self) -> None:
        require_count("jobs", self.jobs)

    def each(
        self, function: Callable[..., Any], shared: Any, tasks: Sequence[Task]
    ) -> Iterator[tuple[int, Any]]:
        """(place, result) of every task, as they are done."""
        from joblib import Parallel, delayed, parallel_config

        with parallel_config(backend="loky", inner_max_num_threads=1):
            parallel = Parallel(n_jobs=self.jobs, return_as="generator_unordered", timeout=self.timeout)
        known = tuple(sys.path), registered(_dumps)
        caller = _Caller(os.getpid(), in_worker(max(1, available_cores() // self.jobs)), known)
        try:
            yield from parallel(
                delayed(_call_for)(caller, function, shared, place, task)
                for place, task in enumerate(tasks)
            )
        except BrokenProcessPool as error:
            raise DataMarketError(
                "a worker process was killed, perhaps because memory ran out; run it again with fewer jobs"
            ) from error
        except multiprocessing.TimeoutError as error:  # joblib's; the built-in one is a task's own
            if self.timeout is None:
                raise
            raise DataMarketError(f"a task was not done after {self.timeout:g} seconds") from error


def executor(jobs: int) -> Executor:
    """Processes where more than one is asked for, else this process."""
    return Serial() if jobs == 1 else Processes(jobs)


def executor_of_steps(jobs: int) -> Executor:
    """The cluster where one was named (`datamarket_gym.core.compute`), else that many processes."""
    if compute().cluster:
        from datamarket_gym.core.cluster import connection

        return connection()
    return executor(jobs)


def in_order(
    executor: Executor, function: Callable[..., Any], shared: Any, tasks: Sequence[Task]
) -> Iterator[Any]:
    """The results in the order of the tasks, each as soon as those before it are done."""
    early: dict[int, Any] = {}
    wanted = 0
    for place, result in executor.each(function, shared, tasks):
        early[place] = result
        while wanted in early:
            yield early.pop(wanted)
            wanted += 1


@dataclass
class _Limits:
    """The limits on threads of a call, and how many modules were loaded when the last was set."""

    stack: ExitStack
    modules: int = 0

    def renew(self) -> None:
        """Limit what is loaded now; a limit does not reach libraries that are loaded after it."""
        if len(sys.modules) != self.modules:
            self.stack.enter_context(one_thread())
            self.modules = len(sys.modules)


_limits: ContextVar[_Limits | None] = ContextVar("limits on threads", default=None)


def keep_to_one_thread() -> None:
    """Within an executor's call, limit libraries that were loaded since it began; elsewhere nothing."""
    limits = _limits.get()
    if limits is not None:
        limits.renew()


def call(function: Callable[..., Any], shared: Any, task: Task) -> Any:
    """``function(shared, *task)``, with one thread for linear algebra and OpenMP."""
    with ExitStack() as stack:
        limits = _Limits(stack)
        limits.renew()
        token = _limits.set(limits)
        try:
            return function(shared, *task)
        finally:
            _limits.reset(token)


def in_worker(threads: int) -> Compute:
    """By what a worker of this process computes: here, with so many threads, and telling nobody."""
    return replace(compute(), cluster="", progress=SILENT, threads=threads)


def call_in_worker(function: Callable[..., Any], shared: Any, task: Task, by: Compute) -> Any:
    """`call` in a process among others that fill the cores."""
    from joblib import parallel_config

    # n_jobs=-1 in each worker would be cores times cores, and so would threads for blocks.
    with parallel_config(backend="sequential"), computing(by):
        return call(function, shared, task)


@dataclass(frozen=True)
class _Caller:
    """What a worker is told of the process whose worker it is."""

    pid: int
    by: Compute
    known: tuple[tuple[str, ...], tuple[bytes, ...]]


def _call_for(
    caller: _Caller, function: Callable[..., Any], shared: Any, place: int, task: Task
) -> tuple[int, Any]:
    if os.getpid() == caller.pid:  # where no process can be started, joblib calls it right here
        return place, call(function, shared, task)
    _end_with_parent()
    adopt_registered(*caller.known)
    return place, call_in_worker(function, shared, task, caller.by)


def _dumps(found: Any) -> bytes:
    from joblib.externals.loky.backend.reduction import dumps  # classes of __main__ included

    return bytes(dumps(found))


def registered(dumps: Callable[[Any], bytes]) -> tuple[bytes, ...]:
    """What was registered by a script or a notebook, pickled; what cannot be stays unknown to workers."""
    found = []
    for key, component in registered_elsewhere().items():
        with suppress(Exception):  # whatever a class of somebody else's holds on to
            found.append(dumps((key, component)))
    return tuple(found)


@lru_cache(maxsize=1)  # once in each worker, and again when something was registered anew
def adopt_registered(path: tuple[str, ...], known: tuple[bytes, ...]) -> None:
    """Make known in a worker what its caller has registered, and where that looks for modules."""
    sys.path += [
        each for each in path if each not in sys.path
    ]  # the worker may be older than what was loaded
    adopt(dict(pickle.loads(each) for each in known))


@cache  # once in each worker
def _end_with_parent() -> None:
    """End this process when its parent is gone; a killed one cannot say so, and workers wait for minutes."""

    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
