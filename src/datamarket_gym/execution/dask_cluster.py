"""Tasks on the machines of a dask cluster, where a worker that dies costs only time.

A connection is an executor (`datamarket_gym.execution.parallel`). The function and what all tasks need are packed and
scattered to every worker once, large arrays apart and by content, so that an array of two pieces of work travels once.
A few tasks for each worker are under way at any time, so that answers are not all held. The scheduler gives the tasks
of a dead worker to others; where all holders of what was scattered died, it is sent again from here. What scripts and
notebooks have registered travels with its code; what is installed must be installed everywhere.
"""

from __future__ import annotations

import hashlib
import pickle
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from heapq import heappop, heappush
from queue import Empty, SimpleQueue
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import ClusterError, ParameterError, require_extra
from datamarket_gym.execution.parallel import (
    Compute,
    Task,
    adopt_registered,
    call_in_worker,
    in_worker,
    registered,
)
from datamarket_gym.registry import scripts_elsewhere

Bytes = NDArray[np.uint8]

_CONNECT = 5.0  # seconds in which a scheduler answers
_PATIENCE = 60.0  # seconds in which a worker is restarted, where none is left
_AHEAD = 4  # tasks for each worker that are under way
_SENDINGS = 5  # how often what all tasks need is sent, if those that hold it die
_LARGE = 1 << 20  # bytes from which on an array travels beside the rest
_MEMORY = (
    "perhaps because memory ran out: start fewer workers on a machine, or with a larger --memory-limit"
)

_open: ContextVar[Connection | None] = ContextVar("the cluster that is connected", default=None)


def connection() -> Connection:
    cluster = _open.get()
    if cluster is None:
        raise ClusterError("no cluster is connected; name one by computing(Compute(cluster=...))")
    return cluster


@contextmanager
def connected(address: str) -> Iterator[None]:
    if re.fullmatch(r"(tcp|tls)://[^\s/]+:\d+", address) is None:
        raise ParameterError("cluster", address, "write tcp://host:port, such as tcp://10.0.0.1:8786")
    require_extra("distributed", "dask")
    from distributed import Client

    workers = f"dask worker {address} --nthreads 1; see docs/cluster.md"
    try:
        client = Client(address, timeout=_CONNECT, set_as_default=False, name="datamarket")
    except (OSError, TimeoutError) as error:
        raise ClusterError(
            f"there is no scheduler at {address} ({type(error).__name__}); check the address, or "
            f"start one with: dask scheduler, and workers with: {workers}"
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=2 * _CONNECT)
        except TimeoutError as error:
            raise ClusterError(
                f"the scheduler at {address} has no workers; start some with: {workers}"
            ) from error
        _require_installed(client, address)
        token = _open.set(Connection(client, address))
        try:
            yield
        finally:
            _open.reset(token)


def _require_installed(client: Any, address: str) -> None:
    """Refuse workers that have another version of this package, or none."""

    def versions() -> tuple[str, str]:  # pickled by value: a worker may not have this package
        import platform
        from importlib import import_module
        from importlib.metadata import version

        try:
            import_module(
                "datamarket_gym.execution.dask_cluster"
            )  # which takes seconds, and the first task then does not
            return platform.python_version(), version("datamarket-gym")
        except ImportError:
            return platform.python_version(), "none"

    here = versions()
    for worker, there in client.run(versions).items():
        if (there[0].rpartition(".")[0], there[1]) != (here[0].rpartition(".")[0], here[1]):
            raise ClusterError(
                f"worker {worker} of {address} has Python {there[0]} and datamarket-gym {there[1]}, this process "
                f"{here[0]} and {here[1]}; install the same everywhere"
            )


@dataclass
class Payload:
    """A function and what all of its tasks need, pickled without the large arrays."""

    content: bytes
    registered: tuple[bytes, ...]
    by: Compute
    opened: Any = None  # in a worker

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "opened": None}

    def __sizeof__(self) -> int:
        return len(self.content) + sum(map(len, self.registered))


def _call(payload: Payload, large: Sequence[Bytes], task: bytes) -> Any:
    """Call the function of a payload with a task, in a worker that keeps both."""
    if payload.opened is None:
        try:
            adopt_registered((), payload.registered)
            payload.opened = pickle.loads(payload.content, buffers=large)
        except ImportError as error:
            raise ClusterError(
                f"a worker cannot import what the work is made of: {error}; install it there, too"
            ) from error
    function, shared = payload.opened
    return call_in_worker(function, shared, pickle.loads(task), payload.by)


@dataclass
class _Packed:
    """A payload, the large arrays that it asks for by digest, and the scripts whose code travels by value."""

    payload: Payload
    scripts: list[ModuleType]
    large: dict[str, Bytes]
    asks: list[str]


def _pack(function: Callable[..., Any], shared: Any) -> _Packed:
    asks, large = list[str](), dict[str, Bytes]()

    def keep_inside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _LARGE:
            return True
        asks.append(hashlib.sha256(raw).hexdigest())
        large[asks[-1]] = np.frombuffer(raw, dtype=np.uint8)
        return False

    scripts = [sys.modules[name] for name in scripts_elsewhere() if name != "__main__"]
    content = _dumps((function, shared), scripts, keep_inside)
    components = registered(lambda component: _dumps(component, scripts))
    return _Packed(Payload(content, components, in_worker(threads=1)), scripts, large, asks)


def _dumps(
    content: Any,
    scripts: Sequence[ModuleType],
    keep_inside: Callable[[pickle.PickleBuffer], bool] | None = None,
) -> bytes:
    """Pickle something; what is defined in scripts goes along with its code."""
    import cloudpickle

    with ExitStack() as stack:
        for module in scripts:
            cloudpickle.register_pickle_by_value(module)
            stack.callback(cloudpickle.unregister_pickle_by_value, module)
        return bytes(cloudpickle.dumps(content, protocol=5, buffer_callback=keep_inside))


class Connection:
    def __init__(self, client: Any, address: str) -> None:
        self._client, self._address = client, address
        self._workers, self._counted = 0, float("-inf")
        self._held: dict[str, Any] = {}  # futures of the large arrays of the last payload, by digest

    def workers(self) -> int:
        if time.monotonic() - self._counted > 1.0:
            self._workers, self._counted = self._staff(), time.monotonic()
        return max(1, self._workers)

    def each(
        self, function: Callable[..., Any], shared: Any, tasks: Sequence[Task], *, ordered: bool = False
    ) -> Iterator[tuple[int, Any]]:
        """Yield place and result of every task as it is done; ordered, none is begun long before it is wanted."""
        from distributed.scheduler import KilledWorker

        packed = _pack(function, shared)
        todo = list(range(len(tasks)))  # a heap
        away: dict[str, tuple[int, Any, int]] = {}  # place, future and number of the sending, by key
        back: SimpleQueue[str] = SimpleQueue()
        sent: list[Any] = []
        sendings, wanted, early = 0, 0, dict[int, Any]()
        try:
            while todo or away:
                room = _AHEAD * self.workers()
                while todo and len(away) < room and not (ordered and todo[0] >= wanted + room):
                    if not sent:
                        sent, sendings = self._send(packed, sendings), sendings + 1
                    place = heappop(todo)
                    task = _dumps(tasks[place], packed.scripts)
                    future = self._client.submit(_call, sent[0], sent[1:], task, pure=False)
                    away[future.key] = place, future, sendings
                    future.add_done_callback(lambda done: back.put(done.key))
                place, future, sending = away.pop(self._next(back))
                try:
                    early[place] = future.result()
                except KilledWorker as error:
                    raise ClusterError(
                        f"task {place + 1} of {len(tasks)} was tried several times, and its worker died each time, "
                        + _MEMORY
                    ) from error
                except CancelledError:  # what it needs is gone with the workers that held it
                    heappush(todo, place)
                    if sending == sendings:
                        sent = []
                    continue
                if not ordered:
                    yield place, early.pop(place)
                while ordered and wanted in early:
                    yield wanted, early.pop(wanted)
                    wanted += 1
        finally:
            with suppress(Exception):  # the scheduler may be gone, and with it the tasks
                self._client.cancel([future for _, future, _ in away.values()])

    def _send(self, packed: _Packed, sendings: int) -> list[Any]:
        """Scatter a payload and its large arrays; from the second time on what was sent before is taken for lost."""
        if sendings == _SENDINGS:
            raise ClusterError(
                f"what all tasks need was sent {_SENDINGS} times, and its holders died each time, {_MEMORY}"
            )
        held = {} if sendings else self._held
        self._held = {
            digest: held[digest] if digest in held else self._scattered(array)
            for digest, array in packed.large.items()
        }
        return [self._scattered(packed.payload), *(self._held[digest] for digest in packed.asks)]

    def _scattered(self, content: Any) -> Any:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return self._client.scatter(content, broadcast=True, hash=False, timeout=_PATIENCE)
            except (
                Exception
            ) as error:  # a worker that dies meanwhile, no scheduler: whatever dask calls it
                if time.monotonic() > deadline or self._client.status in ("closing", "closed"):
                    raise self._lost() from error
                time.sleep(0.5)

    def _next(self, back: SimpleQueue[str]) -> str:
        alone = None
        while True:
            try:
                return back.get(timeout=1.0)
            except Empty:
                if self._staff():
                    alone = None
                elif alone is None:
                    alone = time.monotonic()
                elif time.monotonic() - alone > _PATIENCE:
                    raise self._lost() from None

    def _staff(self) -> int:
        """Count the workers; none where the scheduler does not answer."""
        try:
            return len(self._client.nthreads())
        except Exception:  # a timeout, a closed connection: whatever dask calls it
            return 0

    def _lost(self) -> ClusterError:
        return ClusterError(
            f"the cluster at {self._address} is gone, or all of its workers are: start it again (docs/cluster.md) and "
            "repeat the command, which goes on where it stopped"
        )
