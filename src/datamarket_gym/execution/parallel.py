"""What computes: devices, threads, processes and clusters, named once by `computing` and asked for by `compute`.

Nothing of it belongs to a mechanism, a spec or the id of a run: results do not depend on it. An executor calls
``function(shared, *task)`` for many tasks and gives back each result with the place of its task, in whatever order they
end; ``shared`` is sent once. Calls have one thread for linear algebra and OpenMP, which also keeps components with
threads of their own from filling cores that are full. What scripts and notebooks register travels to workers. The
executor on other machines is `datamarket_gym.execution.dask_cluster.Connection`.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import platform
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from datamarket_gym.display import Described
from datamarket_gym.errors import (
    DataMarketError,
    ParameterError,
    require_choice,
    require_count,
    require_extra,
    require_in,
)
from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.registry import adopt, registered_elsewhere

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


def available_cores() -> int:
    """Count the cores this process is allowed to run on, where the system tells, else all there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine(device: str = "cpu") -> str:
    words = f"{_processor()}, {os.cpu_count()} cores"
    return words if device == "cpu" else f"{gpu_name() or 'no GPU'}, {words}"


def _processor() -> str:
    listed = Path("/proc/cpuinfo")
    if listed.exists():
        for line in listed.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def gpu_name() -> str:
    """Return the name of the GPU that torch finds; empty where there is none."""
    try:
        import torch
    except ImportError:
        return ""
    return str(torch.cuda.get_device_name(0)) if torch.cuda.is_available() else ""


def one_thread(user_api: str | None = None) -> AbstractContextManager[Any]:
    """Limit libraries (those of linear algebra alone: ``blas``) to one thread each while it is entered."""
    limit: AbstractContextManager[Any] = _libraries(len(sys.modules)).limit(limits=1, user_api=user_api)
    return limit


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """Return the loaded libraries; ``modules`` says when to look again, since a limit reaches none loaded later."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


DEVICES = ("cpu", "cuda")
GIB = 1 << 30
_MOST = 1e6  # GiB, more than any machine has; bytes stay whole numbers of 64 bits


@dataclass(frozen=True)
class Compute(Described):
    """Say what computes: a device, memory, processes or a cluster, and who is told of progress.

    Parameters
    ----------
    device, memory
        ``cpu`` or ``cuda``, and GiB for blocks and buffers, beside the inputs.
    cluster, least_pairs
        The address of a scheduler, and the pairs below which work stays in this process all the same.
    progress
        Where progress is reported.
    threads
        Threads that share out blocks in this process; 0: one for each core.
    """

    device: str = "cpu"
    memory: float = 4.0
    cluster: str = ""
    progress: Progress = SILENT
    threads: int = 0
    least_pairs: int = 1 << 28

    def __post_init__(self) -> None:
        require_choice("device", self.device, DEVICES)
        require_in("memory", self.memory, 0.0, _MOST, open_low=True)
        require_count("threads", self.threads, at_least=0)
        require_count("least_pairs", self.least_pairs)
        if self.cluster and self.device != "cpu":
            raise ParameterError(
                "device",
                self.device,
                "the workers of a cluster compute on their CPUs: choose one of the two",
            )

    @property
    def bytes(self) -> int:
        return int(self.memory * GIB)


def device_named(name: str) -> str:
    """Return ``cpu``, ``cuda``, or by ``auto`` the one that there is; refuse what cannot be used."""
    require_choice("device", name, (*DEVICES, "auto"))
    if name == "cpu" or (name == "auto" and find_spec("torch") is None):
        return "cpu"
    require_extra("torch", "torch")
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if name == "cuda":
        raise ParameterError("device", name, "torch finds no GPU here; choose cpu or auto")
    return "cpu"


_DEFAULT = Compute()
_here: ContextVar[Compute] = ContextVar("by what work is done", default=_DEFAULT)


def compute() -> Compute:
    return _here.get()


@contextmanager
def computing(by: Compute) -> Iterator[None]:
    """Compute by something within a ``with`` block; a cluster is connected to, and left at the end.

    Parameters
    ----------
    by
        What computes.

    Yields
    ------
    None
    """
    with ExitStack() as stack:
        if by.cluster and by.cluster != compute().cluster:
            from datamarket_gym.execution.dask_cluster import connected

            stack.enter_context(connected(by.cluster))
        token = _here.set(by)
        stack.callback(_here.reset, token)
        yield


Task = tuple[Any, ...]


class Executor(Protocol):
    def each(
        self, function: Callable[..., Any], shared: Any, tasks: Sequence[Task]
    ) -> Iterator[tuple[int, Any]]: ...


@dataclass(frozen=True)
class Serial:
    def each(
        self, function: Callable[..., Any], shared: Any, tasks: Sequence[Task]
    ) -> Iterator[tuple[int, Any]]:
        for place, task in enumerate(tasks):
            yield place, call(function, shared, task)


@dataclass(frozen=True)
class Processes:
    """Several processes of this machine, which end with this one; tasks longer than ``timeout`` seconds are ended."""

    jobs: int
    timeout: float | None = None

    def __post_init__(self) -> None:
        require_count("jobs", self.jobs)

    def each(
        self, function: Callable[..., Any], shared: Any, tasks: Sequence[Task]
    ) -> Iterator[tuple[int, Any]]:
        """Yield (place, result) of every task, as they are done."""
        from joblib import Parallel, delayed, parallel_config
        from joblib.externals.loky.backend.reduction import dumps  # classes of __main__ included

        with parallel_config(backend="loky", inner_max_num_threads=1):
            parallel = Parallel(n_jobs=self.jobs, return_as="generator_unordered", timeout=self.timeout)
        known = tuple(sys.path), registered(dumps)
        by = in_worker(max(1, available_cores() // self.jobs))
        caller = _Caller(os.getpid(), by, known, uuid.uuid4().hex)
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
    return Serial() if jobs == 1 else Processes(jobs)


def executor_of_steps(jobs: int) -> Executor:
    """Return the cluster where one was named (`datamarket_gym.execution.parallel`), else that many processes."""
    if compute().cluster:
        from datamarket_gym.execution.dask_cluster import connection

        return connection()
    return executor(jobs)


def in_order(
    executor: Executor, function: Callable[..., Any], shared: Any, tasks: Sequence[Task]
) -> Iterator[Any]:
    """Yield the results in the order of the tasks, each as soon as those before it are done."""
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
    """Limit libraries that were loaded since an executor's call began; outside one, do nothing."""
    limits = _limits.get()
    if limits is not None:
        limits.renew()


def call(function: Callable[..., Any], shared: Any, task: Task) -> Any:
    """Return ``function(shared, *task)``, with one thread for linear algebra and OpenMP."""
    with ExitStack() as stack:
        limits = _Limits(stack)
        limits.renew()
        token = _limits.set(limits)
        try:
            return function(shared, *task)
        finally:
            _limits.reset(token)


def in_worker(threads: int) -> Compute:
    """Return by what a worker of this process computes: here, with so many threads, without progress."""
    return replace(compute(), cluster="", progress=SILENT, threads=threads)


def call_in_worker(function: Callable[..., Any], shared: Any, task: Task, by: Compute) -> Any:
    """Run `call` in a process among others that fill the cores."""
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
    token: str  # of what the tasks share


_shared: dict[str, Any] = {}


def _call_for(
    caller: _Caller, function: Callable[..., Any], shared: Any, place: int, task: Task
) -> tuple[int, Any]:
    if os.getpid() == caller.pid:  # where no process can be started, joblib calls it right here
        return place, call(function, shared, task)
    _end_with_parent()
    adopt_registered(*caller.known)
    if caller.token not in _shared:  # one object for all tasks keeps what it has cached
        _shared.clear()
        _shared[caller.token] = shared
    return place, call_in_worker(function, _shared[caller.token], task, caller.by)


def registered(dumps: Callable[[Any], bytes]) -> tuple[bytes, ...]:
    """Pickle what a script or a notebook has registered; what cannot be pickled stays unknown to workers."""
    pickled = []
    for key, component in registered_elsewhere().items():
        with suppress(Exception):  # whatever a foreign class holds on to
            pickled.append(dumps((key, component)))
    return tuple(pickled)


@lru_cache(maxsize=1)  # once in each worker, and again when something was registered anew
def adopt_registered(path: tuple[str, ...], pickled: tuple[bytes, ...]) -> None:
    """Register in a worker what its caller has registered, and where that looks for modules."""
    sys.path += [each for each in path if each not in sys.path]
    adopt(dict(pickle.loads(each) for each in pickled))


@cache  # once in each worker
def _end_with_parent() -> None:
    """End this process when its parent is gone; a killed one cannot say so, and workers wait for minutes."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


B = TypeVar("B")
T = TypeVar("T")

CELLS = 1 << 22  # pairs held by one thread: 32 MiB
_ROWS = 64
_AHEAD = 4  # blocks for each thread that are begun or done before the first of them is asked for
_TASK = 4 * CELLS  # pairs in a task for another machine: some tenths of a second


def spans(n_validation: int, n_rows: int) -> list[tuple[int, int]]:
    """Return starts and stops of the blocks in which validation rows are compared with so many other rows."""
    size = max(1, min(_ROWS, CELLS // max(n_rows, 1)))
    return [(start, min(start + size, n_validation)) for start in range(0, n_validation, size)]


def over_blocks(work: Callable[[B], T], blocks: Sequence[B], cells: int) -> Iterator[T]:
    """Yield ``work`` of each block, in order, by threads or a cluster where ``cells`` pairs are worth it.

    One BLAS thread each. Only so many answers are held as there are workers, and those that are waited for.
    """
    by = compute()
    with one_thread("blas"):
        if len(blocks) <= 1 or cells < CELLS // 8:
            yield from map(work, blocks)
            return
        if by.cluster and cells >= by.least_pairs:
            answers = _on_cluster(work, blocks, cells)
        else:
            answers = _in_threads(work, blocks, by.threads or available_cores())
        for done, answer in enumerate(answers, 1):
            by.progress.count(done, len(blocks))
            yield answer


def _in_threads(work: Callable[[B], T], blocks: Sequence[B], threads: int) -> Iterator[T]:
    if threads == 1:
        yield from map(work, blocks)
        return
    begun: deque[Future[T]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for block in blocks:
                begun.append(pool.submit(work, block))
                if len(begun) > _AHEAD * threads:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            for each in begun:
                each.cancel()


def _on_cluster(work: Callable[[B], T], blocks: Sequence[B], cells: int) -> Iterator[T]:
    from datamarket_gym.execution.dask_cluster import connection

    cluster = connection()
    # Large enough to be worth the way, small enough that all workers have something to do to the end.
    most = max(1, len(blocks) // (_AHEAD * cluster.workers()))
    size = min(most, -(-_TASK * len(blocks) // cells))
    tasks = [(blocks[at : at + size],) for at in range(0, len(blocks), size)]
    for _, answers in cluster.each(_each_of, work, tasks, ordered=True):
        yield from answers


def _each_of(work: Callable[[B], T], blocks: Sequence[B]) -> list[T]:
    return [work(block) for block in blocks]
